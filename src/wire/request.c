/* Canonical request from an HTTP/1.x head: see request.h. */
#include "wire/http_priv.h"

#include "base/override.h"

/* The authority and path of an absolute-form target (RFC 9112 §3.2.2). */
static enum wire_reason absolute_split(struct arena *a, struct slice target, const struct request_flow *f, struct slice *authority,
                                       struct slice *path)
{
        enum scheme scheme = ascii_lower(target.p[4]) == 's' ? SCHEME_HTTPS : SCHEME_HTTP; /* h1 let nothing else through */
        struct slice rest = slice_skip(target, strlen(scheme_name(scheme)) + 3);
        size_t n = 0;
        uint8_t *p;

        if (scheme != f->scheme)
                return WIRE_SCHEME_DISAGREES;
        while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
                n++;
        *authority = slice_first(rest, n);
        *path = slice_skip(rest, n);
        if (path->n && path->p[0] == '/')
                return WIRE_OK;
        p = arena_alloc(a, path->n + 1);
        if (!p)
                return WIRE_MEMORY;
        p[0] = '/';
        if (path->n)
                memcpy(p + 1, path->p, path->n);
        *path = slice_of(p, path->n + 1);
        return WIRE_OK;
}

/* Target and Host become one authority and one path. */
static enum wire_reason request_place(struct arena *a, const struct h1_head *h, const struct request_flow *f, const struct picked *p,
                                      struct request *out)
{
        struct authority host, target;
        struct claims claims = { .flow = f->to, .flow_n = f->to_n, .any_flow = f->link, .sni = f->sni };
        struct slice path = h->target, authority = SLICE_EMPTY;
        enum wire_reason why = WIRE_OK;

        if (p->hosts > 1)
                return WIRE_HOST_TWICE;
        if (p->hosts == 0 && h->minor >= 1)
                return WIRE_HOST_MISSING;
        if (h->form == H1_AUTHORITY)
                authority = h->target;
        else if (h->form == H1_ABSOLUTE)
                why = absolute_split(a, h->target, f, &authority, &path);
        if (why != WIRE_OK)
                return why;
        if (p->hosts) {
                why = authority_parse(a, p->host, f->scheme, &host);
                claims.host = &host;
        }
        if (why == WIRE_OK && (h->form == H1_AUTHORITY || h->form == H1_ABSOLUTE)) {
                why = authority_parse(a, authority, f->scheme, &target);
                claims.target = &target;
        }
        if (why == WIRE_OK)
                why = authority_agree(&claims, &out->authority);
        if (why != WIRE_OK)
                return why;
        if (h->form == H1_AUTHORITY)
                return WIRE_CONNECT_BAD;
        if (h->form == H1_ASTERISK) {
                out->target = (struct path){ .path = h->target };
                return WIRE_OK;
        }
        why = path_canonical(a, path, &out->target);
        out->target.changed = out->target.changed || h->form == H1_ABSOLUTE;
        return why;
}

static enum wire_reason request_websocket(const struct picked *p, struct request *out)
{
        if (!slice_is(out->method, "GET") || out->body != BODY_NONE)
                return WIRE_UPGRADE_BAD;
        if (p->ws_keys != 1 || !ws_key_ok(p->ws_key) || p->ws_versions != 1 || !slice_is(p->ws_version, "13"))
                return WIRE_UPGRADE_BAD;
        out->upgrade = WIRE_UPGRADE_WEBSOCKET;
        out->protocol = SLICE_LIT("websocket");
        out->ws_key = p->ws_key;
        return WIRE_OK;
}

/* protocol-name ["/" protocol-version] (RFC 9110 §7.8) */
static bool protocol_ok(struct slice s)
{
        ptrdiff_t slash = slice_find(s, '/');

        if (slash < 0)
                return field_is_token(s);
        return field_is_token(slice_first(s, (size_t)slash)) && field_is_token(slice_skip(s, (size_t)slash + 1));
}

/* An Upgrade that Connection does not nominate, or of HTTP/1.0, is none (RFC 9110 §7.8). */
static enum wire_reason request_upgrade(const struct h1_head *h, const struct connection *c, const struct picked *p, struct request *out)
{
        struct slice rest = p->upgrade, protocol;
        size_t n = 0;
        bool websocket = false;

        if (!p->upgrades || !c->upgrade || h->minor == 0)
                return WIRE_OK;
        if (p->upgrades > 1)
                return WIRE_UPGRADE_BAD;
        while (list_next(&rest, &protocol)) {
                n++;
                if (!protocol_ok(protocol))
                        return WIRE_UPGRADE_BAD;
                websocket = websocket || slice_iis(protocol, "websocket");
                if (slice_iis(protocol, "h2c"))
                        continue;
                out->upgrade = WIRE_UPGRADE_OTHER;
                if (!out->protocol.n)
                        out->protocol = protocol;
        }
        if (n == 0 || (websocket && n > 1))
                return WIRE_UPGRADE_BAD;
        return websocket ? request_websocket(p, out) : WIRE_OK;
}

static enum wire_reason request_expect(const struct h1_head *h, const struct picked *p, struct request *out)
{
        if (!p->expects || h->minor == 0) /* RFC 9110 §10.1.1: ignored from HTTP/1.0 */
                return WIRE_OK;
        if (p->expects > 1 || !slice_iis(p->expect, "100-continue"))
                return WIRE_EXPECT_BAD;
        out->expect_continue = out->body != BODY_NONE;
        return WIRE_OK;
}

static bool te_has_trailers(struct slice te)
{
        struct slice element;

        while (list_next(&te, &element))
                if (slice_iis(element, "trailers"))
                        return true;
        return false;
}

enum wire_reason request_from_h1(struct arena *a, const struct h1_head *h, const struct request_flow *f, struct request *out)
{
        struct request r = { .method = h->method, .scheme = f->scheme, .version = h->minor ? 11 : 10 };
        struct framing framing;
        struct connection connection;
        struct picked p;
        enum wire_reason why = h1_framing(h, h->method, &framing);

        if (why == WIRE_OK)
                why = connection_parse(&h->headers, h->minor, &connection);
        if (why == WIRE_OK)
                why = fields_pick(a, &h->headers, &connection, false, &p);
        if (why == WIRE_OK)
                why = request_place(a, h, f, &p, &r);
        if (why != WIRE_OK)
                return why;
        r.body = framing.kind;
        r.length = framing.length;
        r.keep_alive = connection.keep_alive;
        r.te_trailers = te_has_trailers(p.te);
        why = request_upgrade(h, &connection, &p, &r);
        if (why == WIRE_OK)
                why = request_expect(h, &p, &r);
        if (why == WIRE_OK)
                why = cookies_join(a, &p);
        if (why != WIRE_OK)
                return why;
        r.override = p.override || override_query(r.target.query);
        r.headers = p.out;
        *out = r;
        return WIRE_OK;
}

bool request_is_idempotent(const struct request *req)
{
        static const char *const names[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE" };
        bool named = false;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                named = named || slice_is(req->method, names[i]);
        return named && req->upgrade == WIRE_UPGRADE_NONE && !req->override;
}

bool request_is_read_only(const struct request *req)
{
        return (slice_is(req->method, "GET") || slice_is(req->method, "HEAD") || slice_is(req->method, "OPTIONS")) &&
               req->body == BODY_NONE && req->upgrade == WIRE_UPGRADE_NONE && !req->override;
}
