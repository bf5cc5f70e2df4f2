/* Canonical answers, interim ones and WebSocket openings, from and to both versions. */
#include "wire/response.h"
#include "wire_test.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ==" /* RFC 6455 §1.3 */
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static struct request request_of(const char *method, uint8_t version)
{
        return (struct request){ .method = slice_str(method), .version = version, .keep_alive = true };
}

static enum wire_reason from_text(struct arena *a, const char *text, const struct request *req, struct response *out)
{
        struct h1_reader r;
        struct h1_head h;
        size_t used;
        enum wire_reason why = WIRE_OK;

        h1_reader_init(&r, false);
        if (h1_read(&r, slice_str(text), a, &h, &used, &why) != WIRE_DONE)
                return why;
        return response_from_h1(a, &h, req, out);
}

struct row {
        const char *method, *in;
        uint8_t version; /* of the client */
        const char *out; /* as HTTP/1.1 to the client, keep alive */
        enum body_kind how;
};
static const struct row rows[] = {
        { "GET", "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX: y\r\n\r\n", 11, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\n", BODY_LENGTH },
        { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 11, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", BODY_NONE },
        { "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 11, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", BODY_CHUNKED },
        { "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 10, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", BODY_CLOSE },
        { "GET", "HTTP/1.0 200 OK\r\n\r\n", 11, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", BODY_CHUNKED },
        { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 10, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\n", BODY_LENGTH },
        { "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 11, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", BODY_NONE },
        { "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 11, "HTTP/1.1 200 OK\r\n\r\n", BODY_NONE },
        { "GET", "HTTP/1.1 304 x\r\n\r\n", 11, "HTTP/1.1 304 Not Modified\r\n\r\n", BODY_NONE },
        { "GET", "HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", 11, "HTTP/1.1 204 No Content\r\n\r\n", BODY_NONE },
        { "GET", "HTTP/1.1 103 x\r\nLink: y\r\n\r\n", 11, "HTTP/1.1 103 Early Hints\r\nlink: y\r\n\r\n", BODY_NONE },
        { "GET", "HTTP/1.1 103 x\r\nLink: y\r\n\r\n", 10, "", BODY_NONE },
        { "GET", "HTTP/1.1 200 OK\r\nConnection: close, X-A\r\nX-A: b\r\nKeep-Alive: 3\r\nbrome-rule: 1\r\nContent-Length: 1\r\n\r\n", 11,
          "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n", BODY_LENGTH },
        { "GET", "HTTP/1.1 799 x\r\nContent-Length: 1\r\n\r\n", 11, "HTTP/1.1 799 \r\ncontent-length: 1\r\n\r\n", BODY_LENGTH },
};

static void answers_are_written(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct request req = request_of(rows[i].method, rows[i].version);
                struct response r, again;
                struct headers block;
                enum body_kind how;
                struct buf b;

                assert_reason(from_text(*state, rows[i].in, &req, &r), WIRE_OK, rows[i].in);
                buf_init(&b, 0);
                assert_int_equal(response_to_h1(&b, &r, &req, true, &how), 0);
                assert_slice(buf_slice(&b), rows[i].out);
                assert_int_equal(how, rows[i].how);
                buf_fini(&b);
                assert_reason(response_to_h2(*state, &r, &block), WIRE_OK, rows[i].in);
                assert_reason(response_from_h2(*state, &block, r.body == BODY_NONE && r.status >= 200, &req, false, &again), WIRE_OK, rows[i].in);
                assert_int_equal(again.status, r.status);
                assert_int_equal(again.headers.n, r.headers.n);
                assert_int_equal(again.has_length, r.has_length);
                assert_int_equal(again.length, r.length);
        }
}

static void websocket_openings(void **state)
{
        struct request req = request_of("GET", 11);
        struct response r;
        struct headers block;
        enum body_kind how;
        struct buf b;
        char text[256], key[WS_KEY_TEXT], accept[WS_ACCEPT_TEXT];

        ws_key(key, (const uint8_t *)"the sample nonce");
        assert_string_equal(key, KEY);
        assert_int_equal(ws_accept(accept, slice_str(key)), 0);
        assert_string_equal(accept, ACCEPT);
        assert_int_equal(ws_accept(accept, SLICE_LIT("short")), -1);

        static const char good[] = "HTTP/1.1 101 x\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Protocol: p\r\n\r\n";
        assert_reason(from_text(*state, good, &req, &r), WIRE_UPGRADE_BAD, "not asked for");
        req.upgrade = WIRE_UPGRADE_WEBSOCKET;
        req.ws_key = slice_str(key);
        assert_reason(from_text(*state, good, &req, &r), WIRE_OK, "asked for");
        assert_true(r.upgraded && !r.keep_alive);
        assert_int_equal(r.headers.n, 1);
        assert_reason(response_to_h2(*state, &r, &block), WIRE_OK, "h2");
        assert_slice(block.at[0].value, "200");
        assert_reason(response_from_h2(*state, &block, false, &req, true, &r), WIRE_OK, "back");
        assert_true(r.upgraded);
        buf_init(&b, 0);
        assert_int_equal(response_to_h1(&b, &r, &req, true, &how), 0);
        assert_slice(buf_slice(&b), "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-protocol: p\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                                    "sec-websocket-accept: " ACCEPT "\r\n\r\n");
        buf_fini(&b);
        static const char *const bad[] = {
                "Connection: upgrade\r\nSec-WebSocket-Accept: " ACCEPT, "Upgrade: websocket\r\nSec-WebSocket-Accept: " ACCEPT,
                "Upgrade: websocket\r\nConnection: upgrade", "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " KEY,
                "Upgrade: h2c\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " ACCEPT,
        };
        for (size_t i = 0; i < COUNT(bad); i++) {
                snprintf(text, sizeof(text), "HTTP/1.1 101 x\r\n%s\r\n\r\n", bad[i]);
                assert_reason(from_text(*state, text, &req, &r), WIRE_UPGRADE_BAD, text);
        }
        assert_reason(from_text(*state, "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\n", &req, &r), WIRE_OK, "refused upgrade");
        assert_false(r.upgraded);
        assert_int_equal(r.body, BODY_LENGTH);
}

struct h2_row {
        const char *names[4], *values[4];
        bool end_stream;
        enum wire_reason why;
};
static const struct h2_row h2_rows[] = {
        { { ":status", "a" }, { "200", "b" }, false, WIRE_OK },
        { { ":status", "content-length" }, { "200", "3" }, true, WIRE_LENGTH_LIES },
        { { ":status", "content-length", "content-length" }, { "200", "3", "3" }, false, WIRE_LENGTH_TWICE },
        { { "a" }, { "b" }, false, WIRE_PSEUDO_MISSING },
        { { ":status", ":status" }, { "200", "200" }, false, WIRE_PSEUDO_TWICE },
        { { ":status", "a", ":status" }, { "200", "b", "200" }, false, WIRE_PSEUDO_TWICE },
        { { ":status", ":path" }, { "200", "/" }, false, WIRE_PSEUDO_UNKNOWN },
        { { ":status" }, { "101" }, false, WIRE_STATUS },
        { { ":status" }, { "2000" }, false, WIRE_STATUS },
        { { ":status" }, { "abc" }, false, WIRE_STATUS },
        { { ":status" }, { "103" }, true, WIRE_STATUS },
        { { ":status", "connection" }, { "200", "close" }, false, WIRE_CONNECTION_FIELD },
        { { ":status", "a" }, { "200", "b\r\nc: d" }, false, WIRE_FIELD_VALUE },
        { { ":status", "A" }, { "200", "b" }, false, WIRE_NAME_CASE },
};

static void h2_answers(void **state)
{
        struct request req = request_of("GET", 20);

        for (size_t i = 0; i < COUNT(h2_rows); i++) {
                struct header at[4];
                struct headers block = { at, 0 };
                struct response r;

                for (; block.n < 4 && h2_rows[i].names[block.n]; block.n++)
                        at[block.n] = (struct header){ slice_str(h2_rows[i].names[block.n]), slice_str(h2_rows[i].values[block.n]) };
                assert_reason(response_from_h2(*state, &block, h2_rows[i].end_stream, &req, false, &r), h2_rows[i].why, at[0].value.n ? h2_rows[i].values[0] : "");
        }
}

static void trailers(void **state)
{
        struct header at[] = { { SLICE_LIT("grpc-status"), SLICE_LIT("0") } };
        struct headers h = { at, 1 };
        (void)state;

        assert_reason(trailers_check(&h, true), WIRE_OK, "grpc");
        at[0].name = SLICE_LIT(":status");
        assert_reason(trailers_check(&h, true), WIRE_PSEUDO_ORDER, "pseudo");
        at[0].name = SLICE_LIT("content-length");
        assert_reason(trailers_check(&h, true), WIRE_TRAILER_FIELD, "length");
        at[0].name = SLICE_LIT("X");
        assert_reason(trailers_check(&h, true), WIRE_NAME_CASE, "case");
        at[0] = (struct header){ SLICE_LIT("x"), SLICE_LIT("a\nb") };
        assert_reason(trailers_check(&h, true), WIRE_FIELD_VALUE, "value");

        struct header mixed[] = { { SLICE_LIT("brome-reason"), SLICE_LIT("forged") }, { SLICE_LIT("x"), SLICE_LIT("1") }, { SLICE_LIT("brome-"), SLICE_LIT("") } };
        h = (struct headers){ mixed, 3 };
        assert_reason(trailers_check(&h, true), WIRE_TRAILER_FIELD, "ours"); /* between the doors */
        trailers_drop_ours(&h);
        assert_int_equal(h.n, 1);
        assert_slice(h.at[0].name, "x");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(answers_are_written), ARENA_TEST(websocket_openings), ARENA_TEST(h2_answers), ARENA_TEST(trailers),
        };
        return cmocka_run_group_tests_name("wire/response", tests, NULL, NULL);
}
