/* Canonical requests from both versions: the same story gives the same struct, and what is written is read back the same. */
#include "base/override.h"
#include "wire/request.h"
#include "wire_test.h"

static const struct authority place = { .name = { (const uint8_t *)"a.example", 9 }, .port = 443 };
static const struct request_flow flow = { .scheme = SCHEME_HTTPS, .to = &place, .to_n = 1, .sni = &place };

static enum wire_reason from_text(struct arena *a, struct slice text, struct request *out)
{
        struct h1_reader r;
        struct h1_head h;
        size_t used;
        enum wire_reason why = WIRE_OK;

        h1_reader_init(&r, true);
        switch (h1_read(&r, text, a, &h, &used, &why)) {
        case WIRE_DONE:
                return request_from_h1(a, &h, &flow, out);
        case WIRE_BAD:
                return why;
        case WIRE_MORE:
                break;
        }
        fail_msg("head is not complete: %.*s", SLICE_FMT(text));
        return WIRE_OK;
}

struct row {
        const char *head;
        enum wire_reason why;
};
#define H "Host: a.example\r\n"
#define WS "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
static const struct row rows[] = {
        { "GET / HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET https://A.example:443/x HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET https://a.example?q HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "OPTIONS * HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET / HTTP/1.0\r\n" H "\r\n", WIRE_OK },
        { "GET / HTTP/1.1\r\n" H "X: y\r\nConnection: x\r\n\r\n", WIRE_OK },
        { "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\n", WIRE_OK },
        { "GET / HTTP/1.1\r\n" H WS KEY "\r\n", WIRE_OK },
        { "GET / HTTP/1.1\r\n" H "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n", WIRE_OK },
        { "GET / HTTP/1.1\r\n\r\n", WIRE_HOST_MISSING },
        { "GET / HTTP/1.0\r\n\r\n", WIRE_HOST_MISSING },
        { "GET / HTTP/1.1\r\n" H H "\r\n", WIRE_HOST_TWICE },
        { "GET / HTTP/1.1\r\nHost:\r\n\r\n", WIRE_HOST_BAD },
        { "GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n", WIRE_HOST_BAD },
        { "GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n", WIRE_HOST_USERINFO },
        { "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", WIRE_HOST_DISAGREES },
        { "GET https://b.example/ HTTP/1.1\r\n" H "\r\n", WIRE_TARGET_DISAGREES },
        { "GET https://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", WIRE_HOST_DISAGREES },
        { "GET https://a.example/ HTTP/1.1\r\n\r\n", WIRE_HOST_MISSING },
        { "GET http://a.example/ HTTP/1.1\r\n" H "\r\n", WIRE_SCHEME_DISAGREES },
        { "GET https://a.example@b.example/ HTTP/1.1\r\n" H "\r\n", WIRE_HOST_USERINFO },
        { "GET https:///x HTTP/1.1\r\n" H "\r\n", WIRE_HOST_BAD },
        { "CONNECT a.example:443 HTTP/1.1\r\n" H "\r\n", WIRE_CONNECT_BAD },
        { "CONNECT b.example:443 HTTP/1.1\r\n" H "\r\n", WIRE_TARGET_DISAGREES },
        { "GET /a/../b HTTP/1.1\r\n" H "\r\n", WIRE_PATH_DOT },
        { "GET https://a.example/../b HTTP/1.1\r\n" H "\r\n", WIRE_PATH_DOT },
        { "GET https://a.example#x HTTP/1.1\r\n" H "\r\n", WIRE_PATH_FRAGMENT },
        { "GET / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n", WIRE_EXPECT_BAD },
        { "GET / HTTP/1.1\r\n" H "Connection: host\r\n\r\n", WIRE_CONNECTION_BAD },
        { "GET / HTTP/1.1\r\n" H WS "\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H WS "Sec-WebSocket-Key: short==\r\n\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H WS KEY KEY "\r\n", WIRE_UPGRADE_BAD },
        { "POST / HTTP/1.1\r\n" H WS KEY "\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H WS KEY "Content-Length: 1\r\n\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" KEY "\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: a b\r\n\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: TLS/\r\n\r\n", WIRE_UPGRADE_BAD },
        { "GET / HTTP/1.1\r\n" H "Host_: x\r\n\r\n", WIRE_OK },
        { "GET / HTTP/1.1\r\n" H "Transfer_encoding: x\r\n\r\n", WIRE_FIELD_ALIAS },
};

static void requests_are_made_or_refused(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct request r;
                assert_reason(from_text(*state, slice_str(rows[i].head), &r), rows[i].why, rows[i].head);
        }
}

static void assert_same(const struct request *a, const struct request *b)
{
        assert_true(slice_eq(a->method, b->method) && a->scheme == b->scheme && authority_eq(&a->authority, &b->authority));
        assert_true(slice_eq(a->target.path, b->target.path) && slice_eq(a->target.query, b->target.query));
        assert_int_equal(a->target.has_query, b->target.has_query);
        assert_int_equal(a->body, b->body);
        assert_int_equal(a->body == BODY_LENGTH ? a->length : 0, b->body == BODY_LENGTH ? b->length : 0);
        assert_int_equal(a->upgrade, b->upgrade);
        assert_int_equal(a->override, b->override);
        assert_int_equal(a->te_trailers, b->te_trailers);
        assert_int_equal(a->headers.n, b->headers.n);
        for (size_t i = 0; i < a->headers.n; i++)
                assert_true(slice_eq(a->headers.at[i].name, b->headers.at[i].name) && slice_eq(a->headers.at[i].value, b->headers.at[i].value));
}

static void written_requests_read_back(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct request r, again;
                struct headers block;
                struct buf b;

                if (rows[i].why != WIRE_OK)
                        continue;
                assert_reason(from_text(*state, slice_str(rows[i].head), &r), WIRE_OK, rows[i].head);
                buf_init(&b, 0);
                assert_int_equal(request_to_h1(&b, &r, true), 0);
                assert_reason(from_text(*state, buf_slice(&b), &again), WIRE_OK, rows[i].head);
                assert_same(&r, &again);
                buf_fini(&b);
                assert_reason(request_to_h2(*state, &r, false, &block), WIRE_OK, rows[i].head);
                assert_reason(request_from_h2(*state, &block, r.body == BODY_NONE && r.upgrade == WIRE_UPGRADE_NONE, &flow, &again), WIRE_OK, rows[i].head);
                assert_same(&r, &again);
                assert_reason(request_to_h2(*state, &r, true, &block), WIRE_OK, rows[i].head);
                assert_reason(request_from_h2(*state, &block, r.body == BODY_NONE && r.upgrade == WIRE_UPGRADE_NONE, &(struct request_flow){ .link = true }, &again),
                              WIRE_OK, rows[i].head);
                assert_same(&r, &again);
        }
}

static void members_are_filled(void **state)
{
        struct request r;
        struct buf b;

        assert_reason(from_text(*state, SLICE_LIT("POST https://A.example.:443/%61?_method=x HTTP/1.1\r\nhost: a.example\r\nCookie: a=1\r\nTE: trailers;q=1, trailers\r\n"
                                                  "X-Secret: s\r\nConnection: TE, X-Secret, close\r\nCookie: b=2\r\nTransfer-Encoding: chunked\r\nbrome-flow: 7\r\n"
                                                  "Proxy-Authorization: x\r\nKeep-Alive: 5\r\nExpect: 100-continue\r\n\r\n"), &r), WIRE_OK, "members");
        assert_slice(r.target.path, "/a");
        assert_slice(r.target.query, "_method=x");
        assert_true(r.target.changed && r.override && r.te_trailers && r.expect_continue && !r.keep_alive);
        assert_int_equal(r.body, BODY_CHUNKED);
        assert_int_equal(r.headers.n, 1);
        assert_slice(r.headers.at[0].name, "cookie");
        assert_slice(r.headers.at[0].value, "a=1; b=2");
        assert_false(request_is_read_only(&r));
        buf_init(&b, 0);
        assert_int_equal(request_to_h1(&b, &r, false), 0);
        assert_slice(buf_slice(&b), "POST /a?_method=x HTTP/1.1\r\nhost: a.example\r\ncookie: a=1; b=2\r\nte: trailers\r\nconnection: TE, close\r\n"
                                    "transfer-encoding: chunked\r\n\r\n");
        buf_fini(&b);
        assert_reason(from_text(*state, SLICE_LIT("HEAD / HTTP/1.1\r\n" H "\r\n"), &r), WIRE_OK, "head");
        assert_true(request_is_read_only(&r));
        assert_reason(from_text(*state, SLICE_LIT("get / HTTP/1.1\r\n" H "\r\n"), &r), WIRE_OK, "get");
        assert_false(request_is_read_only(&r));
        assert_reason(from_text(*state, SLICE_LIT("GET / HTTP/1.1\r\n" H "Upgrade: x\r\nConnection: upgrade\r\n\r\n"), &r), WIRE_OK, "other");
        assert_int_equal(r.upgrade, WIRE_UPGRADE_OTHER);
        assert_false(request_is_read_only(&r));
}

/* Each name of the table, as the request shows it: a field in both spellings, or a key of the query. */
static void overrides_are_seen(void **state)
{
        for (size_t i = 0; i < override_row_count; i++) {
                bool field = override_rows[i].places & OVERRIDE_FIELD;
                char text[160], dashed[OVERRIDE_NAME_BYTES + 1];
                struct request r;

                snprintf(dashed, sizeof(dashed), "%s", override_rows[i].name);
                for (char *p = dashed; *p; p++)
                        *p = *p == '_' ? '-' : *p;
                for (int k = 0; field && k < 2; k++) {
                        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "%s: PUT\r\n\r\n", k ? dashed : override_rows[i].name);
                        assert_reason(from_text(*state, slice_str(text), &r), WIRE_OK, text);
                        assert_true(r.override && r.headers.n == 1);
                        assert_false(request_is_read_only(&r));
                        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "Connection: %s\r\n%s: PUT\r\n\r\n", dashed, dashed);
                        assert_true(from_text(*state, slice_str(text), &r) != WIRE_OK);
                        assert_true(field_is_no_trailer(slice_str(k ? dashed : override_rows[i].name)));
                }
                snprintf(text, sizeof(text), "GET /?%s=PUT HTTP/1.1\r\n" H "\r\n", dashed);
                assert_reason(from_text(*state, slice_str(text), &r), WIRE_OK, text);
                assert_int_equal(r.override, (override_rows[i].places & OVERRIDE_QUERY) != 0);
        }
}

/* --- HTTP/2 --- */
struct h2_row {
        const char *block; /* "name=value|name=value"; "~" in a value stands for the byte below */
        char byte;
        bool end_stream;
        enum wire_reason why;
};
#define G ":method=GET|:scheme=https|:authority=a.example|:path=/"
#define PO ":method=POST|:scheme=https|:authority=a.example|:path=/"
#define EC ":method=CONNECT|:scheme=https|:authority=a.example|:path=/"
static const struct h2_row h2_rows[] = {
        { G, 0, true, WIRE_OK },
        { G "|host=A.example:443", 0, true, WIRE_OK },
        { ":method=GET|:scheme=https|:path=/|host=a.example", 0, true, WIRE_OK },
        { G "|te=trailers|cookie=a|cookie=b", 0, true, WIRE_OK },
        { ":method=OPTIONS|:scheme=https|:authority=a.example|:path=*", 0, true, WIRE_OK },
        { EC "|:protocol=websocket|sec-websocket-version=13", 0, false, WIRE_OK },
        { PO "|content-length=5", 0, false, WIRE_OK },
        { PO "|content-length=0", 0, true, WIRE_OK },
        { G "|host=b.example", 0, true, WIRE_HOST_DISAGREES },
        { ":method=GET|:scheme=https|:authority=b.example|:path=/", 0, true, WIRE_HOST_DISAGREES },
        { ":method=GET|:scheme=https|:authority=u@a.example|:path=/", 0, true, WIRE_HOST_USERINFO },
        { ":method=GET|:scheme=http|:authority=a.example|:path=/", 0, true, WIRE_SCHEME_DISAGREES },
        { ":method=GET|:scheme=https|:path=/", 0, true, WIRE_HOST_MISSING },
        { ":scheme=https|:authority=a.example|:path=/", 0, true, WIRE_PSEUDO_MISSING },
        { ":method=GET|:authority=a.example|:path=/", 0, true, WIRE_PSEUDO_MISSING },
        { ":method=GET|:scheme=https|:authority=a.example", 0, true, WIRE_PSEUDO_MISSING },
        { G "|:method=GET", 0, true, WIRE_PSEUDO_TWICE },
        { G "|:path=/", 0, true, WIRE_PSEUDO_TWICE },
        { G "|:authority=a.example", 0, true, WIRE_PSEUDO_TWICE },
        { ":method=GET|:scheme=https|a=b|:authority=a.example|:path=/", 0, true, WIRE_PSEUDO_ORDER },
        { G "|:status=200", 0, true, WIRE_PSEUDO_UNKNOWN },
        { G "|:foo=bar", 0, true, WIRE_PSEUDO_UNKNOWN },
        { G "|:protocol=websocket", 0, false, WIRE_PSEUDO_UNKNOWN },
        { G "|X-Up=a", 0, true, WIRE_NAME_CASE },
        { G "|a b=c", 0, true, WIRE_FIELD_NAME },
        { G "|=c", 0, true, WIRE_FIELD_NAME },
        { G "|a=x~y", '\r', true, WIRE_FIELD_VALUE },
        { G "|a=x~y", '\n', true, WIRE_FIELD_VALUE },
        { G "|a=x~y", 0, true, WIRE_FIELD_VALUE },
        { G "|a~=y", '\n', true, WIRE_FIELD_NAME },
        { ":method=GET|:scheme=https|:authority=a.example|:path=/x~", '\r', true, WIRE_FIELD_VALUE },
        { ":method=G ET|:scheme=https|:authority=a.example|:path=/", 0, true, WIRE_METHOD },
        { ":method=GET|:scheme=https|:authority=a.example|:path=/ HTTP/1.1", 0, true, WIRE_PATH_CONTROL },
        { ":method=GET|:scheme=https|:authority=a.example|:path=", 0, true, WIRE_PATH_FORM },
        { ":method=GET|:scheme=https|:authority=a.example|:path=*", 0, true, WIRE_PATH_FORM },
        { ":method=GET|:scheme=https|:authority=a.example|:path=https://a.example/", 0, true, WIRE_PATH_FORM },
        { G "|a= b", 0, true, WIRE_VALUE_SPACE },
        { G "|a=b~", '\t', true, WIRE_VALUE_SPACE },
        { G "|connection=close", 0, true, WIRE_CONNECTION_FIELD },
        { G "|transfer-encoding=chunked", 0, true, WIRE_CONNECTION_FIELD },
        { G "|upgrade=websocket", 0, true, WIRE_CONNECTION_FIELD },
        { G "|keep-alive=1", 0, true, WIRE_CONNECTION_FIELD },
        { G "|proxy-connection=x", 0, true, WIRE_CONNECTION_FIELD },
        { G "|te=gzip", 0, true, WIRE_TE_H2 },
        { G "|transfer_encoding=chunked", 0, true, WIRE_FIELD_ALIAS },
        { PO "|content-length=5", 0, true, WIRE_LENGTH_LIES },
        { PO "|content-length=5|content-length=5", 0, false, WIRE_LENGTH_TWICE },
        { PO "|content-length=5,5", 0, false, WIRE_LENGTH_BAD },
        { PO "|content-length=-1", 0, false, WIRE_LENGTH_BAD },
        { G "|host=a.example|host=a.example", 0, true, WIRE_HOST_TWICE },
        { ":method=CONNECT|:authority=a.example:443", 0, false, WIRE_CONNECT_BAD },
        { EC, 0, false, WIRE_PSEUDO_UNKNOWN },
        { EC "|:protocol=connect-udp", 0, false, WIRE_CONNECT_BAD },
        { EC "|:protocol=websocket", 0, true, WIRE_UPGRADE_BAD },
        { EC "|:protocol=websocket|sec-websocket-version=8", 0, false, WIRE_UPGRADE_BAD },
        { EC "|:protocol=websocket|content-length=0", 0, false, WIRE_UPGRADE_BAD },
        { EC "|:protocol=web socket", 0, false, WIRE_UPGRADE_BAD },
};

static struct headers block_of(struct arena *a, const char *text, char byte)
{
        struct headers h = { arena_alloc_array(a, 32, sizeof(struct header)), 0 };
        struct slice rest = slice_str(text);

        assert_non_null(h.at);
        while (rest.n) {
                ptrdiff_t bar = slice_find(rest, '|');
                struct slice item = bar < 0 ? rest : slice_first(rest, (size_t)bar);
                uint8_t *copy = (uint8_t *)arena_strndup(a, item.p, item.n);
                ptrdiff_t eq = slice_find(item, '='), tilde = slice_find(item, '~');

                assert_true(copy && eq >= 0);
                if (tilde >= 0)
                        copy[tilde] = (uint8_t)byte;
                h.at[h.n++] = (struct header){ slice_of(copy, (size_t)eq), slice_of(copy + eq + 1, item.n - (size_t)eq - 1) };
                rest = slice_skip(rest, item.n + (bar < 0 ? 0 : 1));
        }
        return h;
}

static void h2_blocks_are_read_or_refused(void **state)
{
        for (size_t i = 0; i < COUNT(h2_rows); i++) {
                struct request r;
                struct headers block = block_of(*state, h2_rows[i].block, h2_rows[i].byte);

                assert_reason(request_from_h2(*state, &block, h2_rows[i].end_stream, &flow, &r), h2_rows[i].why, h2_rows[i].block);
        }
}

static void link_forms(void **state)
{
        const struct request_flow link = { .link = true };
        struct headers block = block_of(*state, ":method=CONNECT|:authority=db.example:5432|brome-kind=tcp", 0), out;
        struct request r;

        assert_reason(request_from_h2(*state, &block, false, &link, &r), WIRE_OK, "tunnel");
        assert_int_equal(r.upgrade, WIRE_UPGRADE_TUNNEL);
        assert_int_equal(r.authority.port, 5432);
        assert_slice(headers_value(&r.headers, "brome-kind"), "tcp");
        assert_reason(request_to_h2(*state, &r, true, &out), WIRE_OK, "tunnel out");
        assert_slice(headers_value(&out, ":authority"), "db.example:5432");
        assert_int_equal(out.n, 3);
        block = block_of(*state, EC "|:protocol=connect-udp", 0);
        assert_reason(request_from_h2(*state, &block, false, &link, &r), WIRE_OK, "udp");
        assert_int_equal(r.upgrade, WIRE_UPGRADE_OTHER);
        assert_slice(r.protocol, "connect-udp");
        block = block_of(*state, ":method=GET|:scheme=http|:authority=a.example:80|:path=/", 0);
        assert_reason(request_from_h2(*state, &block, true, &link, &r), WIRE_OK, "http");
        assert_int_equal(r.scheme, SCHEME_HTTP);
        assert_reason(request_to_h2(*state, &r, true, &out), WIRE_OK, "http out");
        assert_slice(headers_value(&out, ":authority"), "a.example:80");
        assert_reason(request_to_h2(*state, &r, false, &out), WIRE_OK, "http out");
        assert_slice(headers_value(&out, ":authority"), "a.example");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(requests_are_made_or_refused), ARENA_TEST(written_requests_read_back), ARENA_TEST(members_are_filled),
                ARENA_TEST(overrides_are_seen),
                ARENA_TEST(h2_blocks_are_read_or_refused), ARENA_TEST(link_forms),
        };
        return cmocka_run_group_tests_name("wire/request", tests, NULL, NULL);
}
