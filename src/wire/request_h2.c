/* Canonical request from an HTTP/2 header block (RFC 9113 §8, RFC 8441). nghttp2 checks most of this too; this is the check that
 * counts, since what passes here may be written to an HTTP/1.1 origin. */
#include "wire/http_priv.h"

#include "base/override.h"

enum pseudo { PSEUDO_METHOD, PSEUDO_SCHEME, PSEUDO_AUTHORITY, PSEUDO_PATH, PSEUDO_PROTOCOL, PSEUDO_COUNT };

static const char *const pseudo_names[PSEUDO_COUNT] = {
        [PSEUDO_METHOD] = ":method", [PSEUDO_SCHEME] = ":scheme",     [PSEUDO_AUTHORITY] = ":authority",
        [PSEUDO_PATH] = ":path",     [PSEUDO_PROTOCOL] = ":protocol",
};

struct pseudos {
        struct slice value[PSEUDO_COUNT];
        bool has[PSEUDO_COUNT];
};

static enum wire_reason pseudo_take(struct pseudos *ps, const struct header *f)
{
        for (int i = 0; i < PSEUDO_COUNT; i++) {
                if (!slice_is(f->name, pseudo_names[i]))
                        continue;
                if (ps->has[i])
                        return WIRE_PSEUDO_TWICE;
                ps->has[i] = true;
                ps->value[i] = f->value;
                return field_value_ok(f->value) ? WIRE_OK : WIRE_FIELD_VALUE;
        }
        return WIRE_PSEUDO_UNKNOWN;
}

static enum wire_reason block_read(const struct headers *block, struct pseudos *ps)
{
        bool fields = false;
        enum wire_reason why = block_check(block);

        for (size_t i = 0; i < block->n && why == WIRE_OK; i++) {
                const struct header *f = &block->at[i];

                if (f->name.n && f->name.p[0] == ':') {
                        why = fields ? WIRE_PSEUDO_ORDER : pseudo_take(ps, f);
                        continue;
                }
                fields = true;
                why = field_check_h2(f);
        }
        return why;
}

/* Which pseudo-headers the method demands and forbids. */
static enum wire_reason pseudos_check(const struct pseudos *ps, bool link, struct request *out)
{
        bool connect = slice_is(ps->value[PSEUDO_METHOD], "CONNECT");

        if (!ps->has[PSEUDO_METHOD])
                return WIRE_PSEUDO_MISSING;
        if (!field_is_token(ps->value[PSEUDO_METHOD]) || ps->value[PSEUDO_METHOD].n > METHOD_BYTES_MAX)
                return WIRE_METHOD;
        if (connect && !ps->has[PSEUDO_PROTOCOL]) {
                if (ps->has[PSEUDO_SCHEME] || ps->has[PSEUDO_PATH])
                        return WIRE_PSEUDO_UNKNOWN;
                out->upgrade = WIRE_UPGRADE_TUNNEL;
                return link ? WIRE_OK : WIRE_CONNECT_BAD;
        }
        if (ps->has[PSEUDO_PROTOCOL] && !connect)
                return WIRE_PSEUDO_UNKNOWN;
        if (!ps->has[PSEUDO_SCHEME] || !ps->has[PSEUDO_PATH])
                return WIRE_PSEUDO_MISSING;
        if (!connect)
                return WIRE_OK;
        out->protocol = ps->value[PSEUDO_PROTOCOL];
        if (slice_is(out->protocol, "websocket"))
                out->upgrade = WIRE_UPGRADE_WEBSOCKET;
        else
                out->upgrade = WIRE_UPGRADE_OTHER;
        if (!field_is_token(out->protocol))
                return WIRE_UPGRADE_BAD;
        return out->upgrade == WIRE_UPGRADE_WEBSOCKET || link ? WIRE_OK : WIRE_CONNECT_BAD;
}

static enum wire_reason scheme_take(const struct pseudos *ps, const struct request_flow *f, enum scheme *out)
{
        struct slice text = ps->value[PSEUDO_SCHEME];

        *out = f->scheme;
        if (!ps->has[PSEUDO_SCHEME])
                return WIRE_OK; /* plain CONNECT */
        for (int s = 0; s < SCHEME_COUNT; s++)
                if (slice_is(text, scheme_name((enum scheme)s))) {
                        *out = (enum scheme)s;
                        return f->link || *out == f->scheme ? WIRE_OK : WIRE_SCHEME_DISAGREES;
                }
        return WIRE_SCHEME_DISAGREES;
}

static enum wire_reason place_h2(struct arena *a, const struct pseudos *ps, const struct request_flow *f, const struct picked *p,
                                 struct request *out)
{
        struct authority host, pseudo;
        struct claims claims = { .flow = f->to, .flow_n = f->to_n, .any_flow = f->link, .sni = f->sni };
        enum wire_reason why = scheme_take(ps, f, &out->scheme);

        if (why == WIRE_OK && p->hosts > 1)
                why = WIRE_HOST_TWICE;
        if (why == WIRE_OK && p->hosts) {
                why = authority_parse(a, p->host, out->scheme, &host);
                claims.host = &host;
        }
        if (why == WIRE_OK && ps->has[PSEUDO_AUTHORITY]) {
                why = authority_parse(a, ps->value[PSEUDO_AUTHORITY], out->scheme, &pseudo);
                claims.pseudo = &pseudo;
        }
        return why == WIRE_OK ? authority_agree(&claims, &out->authority) : why;
}

static enum wire_reason path_h2(struct arena *a, const struct pseudos *ps, struct request *out)
{
        struct slice path = ps->value[PSEUDO_PATH];

        if (out->upgrade == WIRE_UPGRADE_TUNNEL)
                return WIRE_OK;
        if (slice_is(path, "*") && slice_is(out->method, "OPTIONS")) {
                out->target = (struct path){ .path = path };
                return WIRE_OK;
        }
        return path_canonical(a, path, &out->target);
}

static enum wire_reason body_h2(const struct picked *p, bool end_stream, struct request *out)
{
        if (p->lengths > 1)
                return WIRE_LENGTH_TWICE;
        if (out->upgrade != WIRE_UPGRADE_NONE) /* DATA is the tunnel, not a body */
                return p->lengths || end_stream ? WIRE_UPGRADE_BAD : WIRE_OK;
        if (p->lengths && end_stream && p->length > 0)
                return WIRE_LENGTH_LIES;
        if (end_stream)
                out->body = BODY_NONE;
        else if (p->lengths)
                out->body = p->length ? BODY_LENGTH : BODY_NONE;
        else
                out->body = BODY_CHUNKED;
        out->length = p->length;
        return WIRE_OK;
}

static enum wire_reason websocket_h2(const struct picked *p, struct request *out)
{
        if (out->upgrade != WIRE_UPGRADE_WEBSOCKET)
                return WIRE_OK;
        out->method = SLICE_LIT("GET");
        if (p->ws_versions > 1 || (p->ws_versions && !slice_is(p->ws_version, "13")))
                return WIRE_UPGRADE_BAD;
        return WIRE_OK;
}

enum wire_reason request_from_h2(struct arena *a, const struct headers *block, bool end_stream, const struct request_flow *f, struct request *out)
{
        struct request r = { .version = 20, .keep_alive = true };
        struct pseudos ps = { 0 };
        struct picked p;
        enum wire_reason why = block_read(block, &ps);

        if (why == WIRE_OK)
                why = pseudos_check(&ps, f->link, &r);
        r.method = ps.value[PSEUDO_METHOD];
        if (why == WIRE_OK)
                why = fields_pick(a, block, NULL, f->link, &p);
        if (why == WIRE_OK)
                why = place_h2(a, &ps, f, &p, &r);
        if (why == WIRE_OK)
                why = path_h2(a, &ps, &r);
        if (why == WIRE_OK)
                why = body_h2(&p, end_stream, &r);
        if (why == WIRE_OK)
                why = websocket_h2(&p, &r);
        if (why == WIRE_OK && p.expects) {
                if (p.expects > 1 || !slice_iis(p.expect, "100-continue"))
                        why = WIRE_EXPECT_BAD;
                r.expect_continue = r.body != BODY_NONE;
        }
        if (why == WIRE_OK)
                why = cookies_join(a, &p);
        if (why != WIRE_OK)
                return why;
        r.te_trailers = p.te.n > 0; /* its value was checked */
        r.override = p.override || override_query(r.target.query);
        r.headers = p.out;
        *out = r;
        return WIRE_OK;
}
