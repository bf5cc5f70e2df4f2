/* HTTP/1.x heads and framing: what is read, what is refused and by which name, and that no cut of the bytes changes either. */
#include "wire/h1.h"
#include "wire_test.h"

struct row {
        const char *text;
        enum wire_reason why;
};

/* Feeds text in two pieces, cut at `cut`, through buffers of exact size so that a sanitizer sees any read beyond. */
static enum wire_step read_cut(struct arena *a, bool request, struct slice text, size_t cut, struct h1_head *h, size_t *used, enum wire_reason *why)
{
        struct h1_reader r;
        enum wire_step step = WIRE_MORE;
        size_t ends[2] = { cut, text.n };

        h1_reader_init(&r, request);
        *why = WIRE_OK;
        for (int i = 0; i < 2 && step == WIRE_MORE; i++) {
                uint8_t *copy = malloc(ends[i] ? ends[i] : 1);

                assert_non_null(copy);
                memcpy(copy, text.p, ends[i]);
                step = h1_read(&r, slice_of(copy, ends[i]), a, h, used, why);
                free(copy);
        }
        return step;
}

static void check_every_cut(struct arena *a, bool request, struct slice text)
{
        struct h1_head whole, part;
        size_t used = 0, used_part = 0;
        enum wire_reason why, why_part;
        enum wire_step step = read_cut(a, request, text, text.n, &whole, &used, &why);

        for (size_t cut = 0; cut < text.n; cut++) {
                assert_int_equal(read_cut(a, request, text, cut, &part, &used_part, &why_part), step);
                if (step == WIRE_BAD)
                        assert_reason(why_part, why, (const char *)text.p);
                if (step != WIRE_DONE)
                        continue;
                assert_int_equal(used_part, used);
                assert_int_equal(part.headers.n, whole.headers.n);
                for (size_t i = 0; i < whole.headers.n; i++)
                        assert_true(slice_eq(part.headers.at[i].name, whole.headers.at[i].name) &&
                                    slice_eq(part.headers.at[i].value, whole.headers.at[i].value));
        }
}

#define H "Host: a\r\n"
static const struct row requests[] = {
        { "GET / HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET /a?b HTTP/1.0\r\n\r\n", WIRE_OK },
        { "OPTIONS * HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "CONNECT a:443 HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET http://a/ HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "GET HTTPS://a HTTP/1.1\r\n" H "\r\n", WIRE_OK },
        { "M-SEARCH /\xc3\xa9 HTTP/1.1\r\nA:\r\nB: \t \r\nC:\xff x\t\r\n\r\n", WIRE_OK },
        { "\r\nGET / HTTP/1.1\r\n\r\n", WIRE_METHOD },
        { "GET / HTTP/1.1\n\r\n", WIRE_BARE_LF },
        { "GET / HTTP/1.1\r\nHost: a\n\r\n", WIRE_BARE_LF },
        { "GET / HTTP/1.1\r\nHost: a\r\n\n", WIRE_BARE_LF },
        { "GET / HTTP/1.1\rHost: a\r\n\r\n", WIRE_BARE_CR },
        { "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", WIRE_BARE_CR },
        { "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", WIRE_BARE_CR },
        { "GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n", WIRE_OBS_FOLD },
        { "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", WIRE_OBS_FOLD },
        { "GET / HTTP/1.1\r\nHost : a\r\n\r\n", WIRE_FIELD_SPACE },
        { "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", WIRE_FIELD_SPACE },
        { "GET / HTTP/1.1\r\nHo st: a\r\n\r\n", WIRE_FIELD_SPACE },
        { "GET / HTTP/1.1\r\n: a\r\n\r\n", WIRE_FIELD_NAME },
        { "GET / HTTP/1.1\r\nHost\r\n\r\n", WIRE_FIELD_NAME },
        { "GET / HTTP/1.1\r\nH(st: a\r\n\r\n", WIRE_FIELD_NAME },
        { "GET / HTTP/1.1\r\nH\xc3\xb6st: a\r\n\r\n", WIRE_FIELD_NAME },
        { "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n", WIRE_FIELD_VALUE },
        { "GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n", WIRE_FIELD_VALUE },
        { "GET / HTTP/1.1\r\nA: b\x0b\r\n\r\n", WIRE_FIELD_VALUE },
        { "GET /\r\n\r\n", WIRE_VERSION },
        { "GET / \r\n\r\n", WIRE_VERSION },
        { "GET / HTTP/2.0\r\n\r\n", WIRE_VERSION },
        { "GET / HTTP/1.2\r\n\r\n", WIRE_VERSION },
        { "GET / HTTP/1.10\r\n\r\n", WIRE_VERSION },
        { "GET / HTTP/01.1\r\n\r\n", WIRE_VERSION },
        { "GET / http/1.1\r\n\r\n", WIRE_VERSION },
        { "GET / HTTPS/1.1\r\n\r\n", WIRE_VERSION },
        { "GET / HTTP/1.1 \r\n\r\n", WIRE_START_LINE },
        { "GET  / HTTP/1.1\r\n\r\n", WIRE_START_LINE },
        { "GET / x HTTP/1.1\r\n\r\n", WIRE_START_LINE },
        { "GET /  HTTP/1.1\r\n\r\n", WIRE_START_LINE },
        { "GET\t/ HTTP/1.1\r\n\r\n", WIRE_METHOD },
        { "GET /\tHTTP/1.1\r\n\r\n", WIRE_TARGET },
        { " GET / HTTP/1.1\r\n\r\n", WIRE_METHOD },
        { "G(T / HTTP/1.1\r\n\r\n", WIRE_METHOD },
        { "ABCDEFGHIJKLMNOPQRSTUVWXY / HTTP/1.1\r\n\r\n", WIRE_METHOD },
        { "GET * HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "GET a HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "GET ftp://a/ HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "GET a:80 HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "GET /\x01 HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "GET /\x7f HTTP/1.1\r\n\r\n", WIRE_TARGET },
        { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", WIRE_VERSION },
};

static const struct row answers[] = {
        { "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", WIRE_OK },
        { "HTTP/1.0 404\r\n\r\n", WIRE_OK },
        { "HTTP/1.1 999 \xe9\r\n\r\n", WIRE_OK },
        { "HTTP/1.1 099 a\r\n\r\n", WIRE_STATUS },
        { "HTTP/1.1 20 OK\r\n\r\n", WIRE_STATUS },
        { "HTTP/1.1 2000\r\n\r\n", WIRE_START_LINE },
        { "HTTP/1.1  200 OK\r\n\r\n", WIRE_STATUS },
        { "HTTP/1.1 200 O\x01K\r\n\r\n", WIRE_START_LINE },
        { "HTTP/2 200 OK\r\n\r\n", WIRE_VERSION },
        { "ICY 200 OK\r\n\r\n", WIRE_VERSION },
        { "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", WIRE_OBS_FOLD },
        { "HTTP/1.1 200 OK\nA: b\r\n\r\n", WIRE_BARE_LF },
};

static void run_rows(struct arena *a, bool request, const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct h1_head h;
                size_t used;
                enum wire_reason why;
                struct slice text = slice_str(rows[i].text);

                read_cut(a, request, text, text.n, &h, &used, &why);
                assert_reason(why, rows[i].why, rows[i].text);
                check_every_cut(a, request, text);
        }
}

static void heads_are_read_or_refused(void **state)
{
        run_rows(*state, true, requests, COUNT(requests));
        run_rows(*state, false, answers, COUNT(answers));
}

static void fields_are_lower_case_and_trimmed(void **state)
{
        static const char text[] = "POST /x HTTP/1.1\r\nHOST:a.example\r\nX-Y:  two words \t\r\nEmpty:\r\n\r\nbody";
        struct h1_head h;
        size_t used;
        enum wire_reason why;

        assert_int_equal(read_cut(*state, true, slice_str(text), sizeof(text) - 1, &h, &used, &why), WIRE_DONE);
        assert_int_equal(used, sizeof(text) - 5);
        assert_slice(h.method, "POST");
        assert_slice(h.target, "/x");
        assert_int_equal(h.form, H1_ORIGIN);
        assert_slice(headers_value(&h.headers, "host"), "a.example");
        assert_slice(headers_value(&h.headers, "x-y"), "two words");
        assert_slice(headers_value(&h.headers, "empty"), "");
        assert_int_equal(headers_count(&h.headers, "empty"), 1);
        assert_null(headers_find(&h.headers, "none"));
}

static void nul_is_refused(void **state)
{
        static const struct { struct slice text; enum wire_reason why; } rows[] = {
                { { (const uint8_t *)"GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", 26 }, WIRE_FIELD_VALUE },
                { { (const uint8_t *)"GET / HTTP/1.1\r\nA\0: bc\r\n\r\n", 26 }, WIRE_FIELD_NAME },
                { { (const uint8_t *)"GET /\0 HTTP/1.1\r\n\r\n", 19 }, WIRE_TARGET },
                { { (const uint8_t *)"GE\0 / HTTP/1.1\r\n\r\n", 18 }, WIRE_METHOD },
        };
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct h1_head h;
                size_t used;
                enum wire_reason why;

                assert_int_equal(read_cut(*state, true, rows[i].text, rows[i].text.n, &h, &used, &why), WIRE_BAD);
                assert_reason(why, rows[i].why, "NUL");
        }
}

/* Every byte at every place of a value, against the grammar: the reader looks at eight at once. */
static void every_byte_in_a_value(void **state)
{
        uint8_t value[19];
        (void)state;

        for (unsigned c = 0; c < 256; c++)
                for (size_t at = 0; at < sizeof(value); at++) {
                        memset(value, at % 2 ? 'a' : 0xff, sizeof(value));
                        value[at] = (uint8_t)c;
                        assert_int_equal(field_value_ok(slice_of(value, sizeof(value))), c == '\t' || (c >= 0x20 && c != 0x7f));
                }
}

/* Start line, field line, number of fields and the whole are bounded, each exactly at its limit. */
static enum wire_reason read_sized(struct arena *a, size_t target, size_t fields, size_t value)
{
        struct buf b;
        struct h1_head h;
        struct h1_reader r;
        size_t used;
        enum wire_reason why = WIRE_OK;

        buf_init(&b, 0);
        assert_int_equal(buf_add_str(&b, "GET /"), 0);
        for (size_t i = 1; i < target; i++)
                assert_int_equal(buf_add_str(&b, "a"), 0);
        assert_int_equal(buf_add_str(&b, " HTTP/1.1\r\n"), 0);
        for (size_t i = 0; i < fields; i++) {
                assert_int_equal(buf_add_str(&b, "F:"), 0);
                for (size_t k = 0; k < value; k++)
                        assert_int_equal(buf_add_str(&b, "v"), 0);
                assert_int_equal(buf_add_str(&b, "\r\n"), 0);
        }
        assert_int_equal(buf_add_str(&b, "\r\n"), 0);
        h1_reader_init(&r, true);
        if (h1_read(&r, buf_slice(&b), a, &h, &used, &why) == WIRE_MORE)
                fail();
        buf_fini(&b);
        return why;
}

static void limits_hold(void **state)
{
        size_t line = H1_START_BYTES_MAX - strlen("GET  HTTP/1.1");

        assert_reason(read_sized(*state, line, 1, 1), WIRE_OK, "longest target");
        assert_reason(read_sized(*state, line + 1, 1, 1), WIRE_START_TOO_LONG, "target");
        assert_reason(read_sized(*state, 1, 1, FIELD_LINE_BYTES_MAX - 2), WIRE_OK, "longest field");
        assert_reason(read_sized(*state, 1, 1, FIELD_LINE_BYTES_MAX - 1), WIRE_LINE_TOO_LONG, "field");
        assert_reason(read_sized(*state, 1, FIELDS_MAX, 1), WIRE_OK, "most fields");
        assert_reason(read_sized(*state, 1, FIELDS_MAX + 1, 1), WIRE_TOO_MANY_FIELDS, "fields");
        assert_reason(read_sized(*state, 1, 100, 1000), WIRE_HEAD_TOO_LARGE, "head");
}

static void endless_line_is_refused_at_its_limit(void **state)
{
        struct h1_reader r;
        struct h1_head h;
        size_t used;
        enum wire_reason why = WIRE_OK;
        uint8_t *bytes = malloc(H1_START_BYTES_MAX + 2);

        assert_non_null(bytes);
        memset(bytes, 'A', H1_START_BYTES_MAX + 2);
        memcpy(bytes, "GET /", 5);
        h1_reader_init(&r, true);
        for (size_t n = 0; n < H1_START_BYTES_MAX + 2; n++)
                assert_int_equal(h1_read(&r, slice_of(bytes, n), *state, &h, &used, &why), WIRE_MORE);
        assert_int_equal(h1_read(&r, slice_of(bytes, H1_START_BYTES_MAX + 2), *state, &h, &used, &why), WIRE_BAD);
        assert_reason(why, WIRE_START_TOO_LONG, "endless");
        free(bytes);
}

/* Who speaks something else may never end a line: refused by what has come. */
static void what_is_no_http_is_refused_at_once(void **state)
{
        static const struct {
                const char *text;
                bool request;
                enum wire_reason why; /* WIRE_OK: could still become one */
        } rows[] = {
                { "GE", true, WIRE_OK }, { "GET ", true, WIRE_OK }, { "\xff", true, WIRE_METHOD }, { " ", true, WIRE_METHOD }, { "G:", true, WIRE_METHOD },
                { "AAAAAAAAAAAAAAAAAAAAAAAAA", true, WIRE_METHOD }, { "HTT", false, WIRE_OK }, { "HTTP/1.1", false, WIRE_OK }, { "<html", false, WIRE_VERSION },
                { "HTTP/2", false, WIRE_VERSION }, { "SSH-2.0", false, WIRE_VERSION },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct h1_reader r;
                struct h1_head h;
                size_t used;
                enum wire_reason why = WIRE_OK;

                h1_reader_init(&r, rows[i].request);
                assert_int_equal(h1_read(&r, slice_str(rows[i].text), *state, &h, &used, &why), rows[i].why == WIRE_OK ? WIRE_MORE : WIRE_BAD);
                assert_reason(why, rows[i].why, rows[i].text);
        }
}

struct frow {
        const char *head;
        const char *method; /* of the request, for answers */
        enum wire_reason why;
        enum body_kind kind;
        uint64_t length;
};
#define P "POST / HTTP/1.1\r\n"
#define R "HTTP/1.1 200 OK\r\n"
static const struct frow framings[] = {
        { P "\r\n", NULL, WIRE_OK, BODY_NONE, 0 },
        { P "Content-Length: 0\r\n\r\n", NULL, WIRE_OK, BODY_NONE, 0 },
        { P "Content-Length: 12\r\n\r\n", NULL, WIRE_OK, BODY_LENGTH, 12 },
        { P "Content-Length: 9223372036854775807\r\n\r\n", NULL, WIRE_OK, BODY_LENGTH, INT64_MAX },
        { P "Content-Length: 9223372036854775808\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: 99999999999999999999\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: +1\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: -1\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: 0x1\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: 1 1\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: 1,1\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length:\r\n\r\n", NULL, WIRE_LENGTH_BAD, 0, 0 },
        { P "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", NULL, WIRE_LENGTH_TWICE, 0, 0 },
        { P "Content-Length: 1\r\ncontent-length: 2\r\n\r\n", NULL, WIRE_LENGTH_TWICE, 0, 0 },
        { P "Content_Length: 1\r\n\r\n", NULL, WIRE_FIELD_ALIAS, 0, 0 },
        { P "Transfer_Encoding: chunked\r\n\r\n", NULL, WIRE_FIELD_ALIAS, 0, 0 },
        { P "Transfer-Encoding: chunked\r\n\r\n", NULL, WIRE_OK, BODY_CHUNKED, 0 },
        { P "Transfer-Encoding: Chunked\r\n\r\n", NULL, WIRE_OK, BODY_CHUNKED, 0 },
        { P "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", NULL, WIRE_TE_AND_LENGTH, 0, 0 },
        { P "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, WIRE_TE_AND_LENGTH, 0, 0 },
        { P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: identity\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: gzip, chunked\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: chunked, chunked\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: xchunked\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: chunked;a=b\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: \"chunked\"\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding: chunked,\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { P "Transfer-Encoding:\r\n\r\n", NULL, WIRE_TE_BAD, 0, 0 },
        { "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, WIRE_TE_VERSION, 0, 0 },
        { R "\r\n", "GET", WIRE_OK, BODY_CLOSE, 0 },
        { R "Content-Length: 5\r\n\r\n", "GET", WIRE_OK, BODY_LENGTH, 5 },
        { R "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "GET", WIRE_LENGTH_TWICE, 0, 0 },
        { R "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "GET", WIRE_LENGTH_TWICE, 0, 0 },
        { R "Content-Length: 5\r\n\r\n", "HEAD", WIRE_OK, BODY_NONE, 5 },
        { R "Transfer-Encoding: chunked\r\n\r\n", "HEAD", WIRE_OK, BODY_NONE, 0 },
        { R "Transfer-Encoding: chunked\r\n\r\n", "GET", WIRE_OK, BODY_CHUNKED, 0 },
        { R "Transfer-Encoding: gzip, chunked\r\n\r\n", "GET", WIRE_TE_BAD, 0, 0 },
        { R "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "GET", WIRE_TE_AND_LENGTH, 0, 0 },
        { "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", WIRE_TE_NO_BODY, 0, 0 },
        { "HTTP/1.1 100 x\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", WIRE_TE_NO_BODY, 0, 0 },
        { "HTTP/1.1 204 x\r\n\r\n", "GET", WIRE_OK, BODY_NONE, 0 },
        { "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", "GET", WIRE_OK, BODY_NONE, 7 },
        { "HTTP/1.1 103 x\r\n\r\n", "GET", WIRE_OK, BODY_NONE, 0 },
        { "HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", WIRE_TE_VERSION, 0, 0 },
        { R "\r\n", "CONNECT", WIRE_OK, BODY_NONE, 0 },
};

static void framing_is_one_decision(void **state)
{
        for (size_t i = 0; i < COUNT(framings); i++) {
                const struct frow *f = &framings[i];
                struct h1_head h;
                struct framing out = { 0 };
                size_t used;
                enum wire_reason why;
                struct slice text = slice_str(f->head);

                assert_int_equal(read_cut(*state, !f->method, text, text.n, &h, &used, &why), WIRE_DONE);
                assert_reason(h1_framing(&h, slice_str(f->method), &out), f->why, f->head);
                if (f->why != WIRE_OK)
                        continue;
                assert_int_equal(out.kind, f->kind);
                assert_int_equal(out.length, f->length);
        }
}

static enum wire_reason connection_of(struct arena *a, const char *text, struct connection *c)
{
        struct h1_head h;
        size_t used;
        enum wire_reason why;

        assert_int_equal(read_cut(a, true, slice_str(text), strlen(text), &h, &used, &why), WIRE_DONE);
        return connection_parse(&h.headers, h.minor, c);
}

static void connection_options(void **state)
{
        struct connection c;

        assert_reason(connection_of(*state, "GET / HTTP/1.1\r\n\r\n", &c), WIRE_OK, "1.1");
        assert_true(c.keep_alive);
        assert_reason(connection_of(*state, "GET / HTTP/1.0\r\n\r\n", &c), WIRE_OK, "1.0");
        assert_false(c.keep_alive);
        assert_reason(connection_of(*state, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &c), WIRE_OK, "1.0 keep");
        assert_true(c.keep_alive);
        assert_reason(connection_of(*state, "GET / HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n", &c), WIRE_OK, "both");
        assert_false(c.keep_alive);
        assert_reason(connection_of(*state, "GET / HTTP/1.1\r\nConnection: Upgrade, X-A\r\nConnection: TE\r\n\r\n", &c), WIRE_OK, "names");
        assert_true(c.upgrade && c.te && c.n == 1 && connection_names(&c, SLICE_LIT("x-a")) && !connection_names(&c, SLICE_LIT("x-b")));
        static const char *const bad[] = { "host", "Content-Length", "authorization", "Cookie", "expect", "a b", "\"close\"", "sec-websocket-key" };
        for (size_t i = 0; i < COUNT(bad); i++) {
                char text[128];

                snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nConnection: %s\r\n\r\n", bad[i]);
                assert_reason(connection_of(*state, text, &c), WIRE_CONNECTION_BAD, text);
        }
        assert_reason(connection_of(*state, "GET / HTTP/1.1\r\nConnection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\r\n\r\n", &c), WIRE_CONNECTION_BAD, "too many");
}

/* Pipelined heads are read one by one, the reader ready again after each. */
static void heads_in_a_row(void **state)
{
        struct slice in = SLICE_LIT("GET /1 HTTP/1.1\r\nA: b\r\n\r\nGET /2 HTTP/1.1\r\n\r\n");
        struct h1_reader r;
        struct h1_head h;
        size_t used;
        enum wire_reason why;

        h1_reader_init(&r, true);
        assert_int_equal(h1_read(&r, in, *state, &h, &used, &why), WIRE_DONE);
        assert_slice(h.target, "/1");
        in = slice_skip(in, used);
        assert_int_equal(h1_read(&r, in, *state, &h, &used, &why), WIRE_DONE);
        assert_slice(h.target, "/2");
        assert_int_equal(h.headers.n, 0);
        assert_int_equal(used, in.n);
}

static void memory_limit_is_a_reason(void **state)
{
        struct arena small;
        struct h1_head h;
        size_t used;
        enum wire_reason why;
        (void)state;

        arena_init(&small, 32);
        assert_int_equal(read_cut(&small, true, SLICE_LIT("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 27, &h, &used, &why), WIRE_BAD);
        assert_reason(why, WIRE_MEMORY, "small arena");
        arena_fini(&small);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(heads_are_read_or_refused), ARENA_TEST(fields_are_lower_case_and_trimmed), ARENA_TEST(nul_is_refused), ARENA_TEST(every_byte_in_a_value),
                ARENA_TEST(limits_hold),               ARENA_TEST(endless_line_is_refused_at_its_limit),
                ARENA_TEST(what_is_no_http_is_refused_at_once),
                ARENA_TEST(framing_is_one_decision),   ARENA_TEST(connection_options),
                ARENA_TEST(heads_in_a_row),            ARENA_TEST(memory_limit_is_a_reason),
        };
        return cmocka_run_group_tests_name("wire/h1", tests, NULL, NULL);
}
