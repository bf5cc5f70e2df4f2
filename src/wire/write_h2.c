/* Writing canonical messages as HTTP/2 header lists. The list has room for HEADERS_SPARE fields that a door adds of its own. */
#include "wire/http_priv.h"

#include <stdio.h>

enum { H2_FIELDS_OF_MEMBERS = 8 }; /* at most five pseudo-headers, te, content-length, sec-websocket-version */

static void add(struct headers *h, struct slice name, struct slice value) { h->at[h->n++] = (struct header){ name, value }; }

static bool list_open(struct arena *a, const struct headers *fields, struct headers *out)
{
        out->n = 0;
        out->at = arena_alloc_array(a, fields->n + H2_FIELDS_OF_MEMBERS + HEADERS_SPARE, sizeof(struct header));
        return out->at != NULL;
}

static void add_fields(struct headers *h, const struct headers *fields)
{
        if (fields->n)
                memcpy(h->at + h->n, fields->at, fields->n * sizeof(*fields->at));
        h->n += fields->n;
}

static bool add_length(struct arena *a, struct headers *h, uint64_t length)
{
        char text[24];
        bool ok = true;
        int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)length);

        add(h, SLICE_LIT("content-length"), arena_copy(a, slice_of(text, (size_t)n), &ok));
        return ok;
}

/* host:port; on the link the port is never left out. */
static struct slice authority_text(struct arena *a, const struct request *req, bool port, bool *ok)
{
        char text[AUTHORITY_TEXT_BYTES];
        struct slice s = authority_print(text, &req->authority, req->scheme);

        if (port && req->authority.port == scheme_port(req->scheme))
                s.n += (size_t)snprintf(text + s.n, sizeof(text) - s.n, ":%u", (unsigned)req->authority.port);
        return arena_copy(a, s, ok);
}

static struct slice path_text(struct arena *a, const struct path *target)
{
        uint8_t *p;
        size_t n = target->path.n;

        if (!target->has_query)
                return target->path;
        p = arena_alloc(a, n + 1 + target->query.n);
        if (!p)
                return SLICE_EMPTY;
        memcpy(p, target->path.p, n);
        p[n] = '?';
        if (target->query.n)
                memcpy(p + n + 1, target->query.p, target->query.n);
        return slice_of(p, n + 1 + target->query.n);
}

enum wire_reason request_to_h2(struct arena *a, const struct request *req, bool link, struct headers *out)
{
        bool ok = list_open(a, &req->headers, out), connect = req->upgrade != WIRE_UPGRADE_NONE;
        struct slice path = SLICE_EMPTY;

        if (!ok)
                return WIRE_MEMORY;
        /* An unknown HTTP/1.1 Upgrade has no extended CONNECT form: the door refuses it or forgets it. */
        if (req->upgrade == WIRE_UPGRADE_OTHER && !slice_is(req->method, "CONNECT"))
                return WIRE_UPGRADE_BAD;
        add(out, SLICE_LIT(":method"), connect ? SLICE_LIT("CONNECT") : req->method);
        if (connect && req->upgrade != WIRE_UPGRADE_TUNNEL)
                add(out, SLICE_LIT(":protocol"), req->protocol);
        if (req->upgrade != WIRE_UPGRADE_TUNNEL) {
                path = path_text(a, &req->target);
                ok = path.n > 0;
                add(out, SLICE_LIT(":scheme"), slice_str(scheme_name(req->scheme)));
                add(out, SLICE_LIT(":path"), path);
        }
        add(out, SLICE_LIT(":authority"), authority_text(a, req, link || connect, &ok));
        add_fields(out, &req->headers);
        if (req->upgrade == WIRE_UPGRADE_WEBSOCKET)
                add(out, SLICE_LIT("sec-websocket-version"), SLICE_LIT("13"));
        if (req->te_trailers)
                add(out, SLICE_LIT("te"), SLICE_LIT("trailers"));
        if (req->body == BODY_LENGTH)
                ok = add_length(a, out, req->length) && ok;
        else if (req->body == BODY_NONE && slice_is(req->method, "POST"))
                ok = add_length(a, out, 0) && ok;
        return ok ? WIRE_OK : WIRE_MEMORY;
}

enum wire_reason response_to_h2(struct arena *a, const struct response *r, struct headers *out)
{
        char text[8];
        bool ok = list_open(a, &r->headers, out);
        int n = snprintf(text, sizeof(text), "%03u", r->upgraded && r->status == 101 ? 200u : (unsigned)r->status % 1000);

        if (!ok)
                return WIRE_MEMORY;
        add(out, SLICE_LIT(":status"), arena_copy(a, slice_of(text, (size_t)n), &ok));
        add_fields(out, &r->headers);
        if (!r->upgraded && (r->body == BODY_LENGTH || r->has_length))
                ok = add_length(a, out, r->length) && ok;
        return ok ? WIRE_OK : WIRE_MEMORY;
}
