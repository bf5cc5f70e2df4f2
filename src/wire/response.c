/* Canonical answer from HTTP/1.x and HTTP/2: see response.h. */
#include "wire/http_priv.h"

static struct slice extension_name(struct slice e)
{
        ptrdiff_t end = slice_find(e, ';');

        if (end >= 0)
                e = slice_first(e, (size_t)end);
        while (e.n && (e.p[e.n - 1] == ' ' || e.p[e.n - 1] == '\t'))
                e.n--;
        return e;
}

static bool extension_offered(const struct headers *asked, struct slice name)
{
        struct slice offer;

        for (size_t i = 0; i < asked->n; i++) {
                struct slice rest = asked->at[i].value;

                while (slice_is(asked->at[i].name, "sec-websocket-extensions") && list_next(&rest, &offer))
                        if (slice_ieq(extension_name(offer), name))
                                return true;
        }
        return false;
}

/* An extension changes what the frames' bits mean: only one that the client offered may be in force (RFC 6455 §4.1). */
static bool extensions_ok(const struct headers *answer, const struct request *req)
{
        struct slice e;

        for (size_t i = 0; i < answer->n; i++) {
                struct slice rest = answer->at[i].value;

                while (slice_is(answer->at[i].name, "sec-websocket-extensions") && list_next(&rest, &e))
                        if (!extension_offered(&req->headers, extension_name(e)))
                                return false;
        }
        return true;
}

/* A 101 is right only as the answer to our own WebSocket opening, with the accept value of the key we sent. */
static bool switch_ok(const struct h1_head *h, const struct connection *c, const struct picked *p, const struct request *req)
{
        char accept[WS_ACCEPT_TEXT];

        return h->minor == 1 && req->upgrade == WIRE_UPGRADE_WEBSOCKET && c->upgrade && p->upgrades == 1 &&
               slice_iis(p->upgrade, "websocket") && p->ws_accepts == 1 && ws_accept(accept, req->ws_key) == 0 &&
               slice_is(p->ws_accept, accept) && extensions_ok(&p->out, req);
}

enum wire_reason response_from_h1(struct arena *a, const struct h1_head *h, const struct request *req, struct response *out)
{
        struct response r = { .status = h->status };
        struct framing framing;
        struct connection connection;
        struct picked p;
        enum wire_reason why = h1_framing(h, req->method, &framing);

        if (why == WIRE_OK)
                why = connection_parse(&h->headers, h->minor, &connection);
        if (why == WIRE_OK)
                why = fields_pick(a, &h->headers, &connection, false, &p);
        if (why != WIRE_OK)
                return why;
        r.upgraded = h->status == 101;
        if (r.upgraded && !switch_ok(h, &connection, &p, req))
                return WIRE_UPGRADE_BAD;
        r.headers = p.out;
        r.body = framing.kind;
        r.has_length = framing.has_length && h->status >= 200 && h->status != 204;
        r.length = r.has_length ? framing.length : 0;
        r.keep_alive = connection.keep_alive && framing.kind != BODY_CLOSE && !r.upgraded;
        *out = r;
        return WIRE_OK;
}

static enum wire_reason block_read(const struct headers *block, struct slice *status)
{
        enum wire_reason why = block_check(block);

        if (why == WIRE_OK && (block->n == 0 || !slice_is(block->at[0].name, ":status")))
                return WIRE_PSEUDO_MISSING;
        for (size_t i = 1; i < block->n && why == WIRE_OK; i++) {
                if (slice_is(block->at[i].name, ":status"))
                        return WIRE_PSEUDO_TWICE;
                if (block->at[i].name.n && block->at[i].name.p[0] == ':')
                        return WIRE_PSEUDO_UNKNOWN;
                why = field_check_h2(&block->at[i]);
        }
        if (why == WIRE_OK)
                *status = block->at[0].value;
        return why;
}

static enum wire_reason status_take(struct slice s, uint16_t *out)
{
        uint64_t v;

        if (s.n != 3 || !field_number(s, &v) || v < 100 || v == 101) /* 101 does not exist in HTTP/2 */
                return WIRE_STATUS;
        *out = (uint16_t)v;
        return WIRE_OK;
}

static enum wire_reason body_h2(const struct picked *p, bool end_stream, const struct request *req, struct response *r)
{
        bool none = r->status < 200 || r->status == 204 || r->status == 304 || slice_is(req->method, "HEAD");

        if (p->lengths > 1)
                return WIRE_LENGTH_TWICE;
        if (r->status < 200)
                return end_stream ? WIRE_STATUS : WIRE_OK; /* an interim answer cannot end the stream */
        if (req->upgrade != WIRE_UPGRADE_NONE && r->status < 300) {
                r->upgraded = true;
                return extensions_ok(&p->out, req) ? WIRE_OK : WIRE_UPGRADE_BAD;
        }
        r->has_length = p->lengths && r->status != 204;
        r->length = r->has_length ? p->length : 0;
        if (none)
                return WIRE_OK;
        if (end_stream && r->length)
                return WIRE_LENGTH_LIES;
        if (!end_stream)
                r->body = !r->has_length ? BODY_CHUNKED : r->length ? BODY_LENGTH : BODY_NONE;
        return WIRE_OK;
}

enum wire_reason response_from_h2(struct arena *a, const struct headers *block, bool end_stream, const struct request *req, bool link,
                                  struct response *out)
{
        struct response r = { .keep_alive = true };
        struct slice status;
        struct picked p;
        enum wire_reason why = block_read(block, &status);

        if (why == WIRE_OK)
                why = status_take(status, &r.status);
        if (why == WIRE_OK)
                why = fields_pick(a, block, NULL, link, &p);
        if (why == WIRE_OK)
                why = body_h2(&p, end_stream, req, &r);
        if (why != WIRE_OK)
                return why;
        r.headers = p.out;
        *out = r;
        return WIRE_OK;
}
