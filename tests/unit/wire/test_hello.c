/* ClientHellos made by OpenSSL and by hand, cut into any segments and records; and the classification of first bytes. */
#include "wire/classify.h"
#include "wire/hello.h"
#include "wire_test.h"

#include <openssl/ssl.h>

/* A real ClientHello record. */
static void openssl_hello(struct buf *b, const char *name, bool alpn)
{
        SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
        SSL *ssl = SSL_new(ctx);
        BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
        char *p;
        long n;

        assert_non_null(ssl);
        SSL_set_bio(ssl, in, out);
        if (name)
                SSL_set_tlsext_host_name(ssl, name);
        if (alpn)
                SSL_set_alpn_protos(ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
        SSL_connect(ssl);
        n = BIO_get_mem_data(out, &p);
        assert_true(n > 50);
        buf_init(b, 0);
        assert_int_equal(buf_add(b, p, (size_t)n), 0);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
}

static enum wire_step read_at(struct arena *a, struct slice in, size_t cut, struct hello *h, enum wire_reason *why)
{
        struct hello_reader r;
        enum wire_step step = WIRE_MORE;
        size_t ends[2] = { cut, in.n };

        hello_reader_init(&r);
        *why = WIRE_OK;
        for (int i = 0; i < 2 && step == WIRE_MORE; i++) {
                uint8_t *copy = malloc(ends[i] ? ends[i] : 1);

                assert_non_null(copy);
                memcpy(copy, in.p, ends[i]);
                step = hello_read(&r, slice_of(copy, ends[i]), a, h, why);
                free(copy);
        }
        return step;
}

/* The same message in records of `size` bytes. */
static void recut(struct buf *out, struct slice record, size_t size)
{
        struct slice message = slice_skip(record, 5);

        buf_init(out, 0);
        while (message.n) {
                struct slice part = slice_first(message, size);
                uint8_t head[5] = { 22, 3, 1, (uint8_t)(part.n >> 8), (uint8_t)part.n };

                assert_int_equal(buf_add(out, head, 5), 0);
                assert_int_equal(buf_add_slice(out, part), 0);
                message = slice_skip(message, part.n);
        }
}

static void assert_good(const struct hello *h)
{
        assert_true(h->has_sni && !h->has_ech && h->tls12 && h->tls13);
        assert_slice(h->sni.name, "a.example");
        assert_int_equal(h->alpn_n, 2);
        assert_true(hello_offers(h, "h2") && hello_offers(h, "http/1.1") && !hello_offers(h, "h3"));
}

static void real_hellos_at_every_cut(void **state)
{
        static const size_t sizes[] = { 1, 2, 3, 7, 100, 16384 };
        struct buf b, records;
        struct hello h;
        enum wire_reason why;

        openssl_hello(&b, "A.example", true);
        for (size_t i = 0; i < COUNT(sizes); i++) {
                recut(&records, buf_slice(&b), sizes[i]);
                for (size_t cut = 0; cut < buf_len(&records); cut++) {
                        assert_int_equal(read_at(*state, buf_slice(&records), cut, &h, &why), WIRE_DONE);
                        assert_good(&h);
                        if (cut % 16 == 0)
                                assert_int_equal(read_at(*state, slice_first(buf_slice(&records), cut), cut, &h, &why), WIRE_MORE);
                }
                buf_fini(&records);
        }
        buf_fini(&b);
        openssl_hello(&b, NULL, false);
        assert_int_equal(read_at(*state, buf_slice(&b), 10, &h, &why), WIRE_DONE);
        assert_true(!h.has_sni && h.alpn_n == 0);
        buf_fini(&b);
}

/* A hello with just these extensions (already encoded). */
static void hand_hello(struct buf *b, struct slice extensions)
{
        uint8_t head[] = { 22, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3 }, zero[32] = { 0 };
        size_t body = 2 + 32 + 1 + 2 + 2 + 2 + 2 + extensions.n, record = body + 4;

        head[3] = (uint8_t)(record >> 8), head[4] = (uint8_t)record;
        head[7] = (uint8_t)(body >> 8), head[8] = (uint8_t)body;
        buf_init(b, 0);
        assert_int_equal(buf_add(b, head, sizeof(head)), 0);
        assert_int_equal(buf_add(b, zero, 32), 0);
        assert_int_equal(buf_add(b, "\0\0\x02\x13\x01\x01\0", 7), 0);
        assert_int_equal(buf_add(b, (uint8_t[]){ (uint8_t)(extensions.n >> 8), (uint8_t)extensions.n }, 2), 0);
        assert_int_equal(buf_add_slice(b, extensions), 0);
}

struct row {
        const char *what;
        struct slice extensions;
        enum wire_reason why;
};
static const struct row rows[] = {
        { "none", { (const uint8_t *)"", 0 }, WIRE_OK },
        { "one name", { (const uint8_t *)"\0\0\0\x06\0\x04\0\0\x01" "a", 10 }, WIRE_OK },
        { "trailing dot", { (const uint8_t *)"\0\0\0\x07\0\x05\0\0\x02" "a.", 11 }, WIRE_OK },
        { "ech", { (const uint8_t *)"\xfe\x0d\0\x01\0", 5 }, WIRE_OK },
        { "empty extension", { (const uint8_t *)"\0\0\0\0", 4 }, WIRE_TLS_SNI_BAD },
        { "empty list", { (const uint8_t *)"\0\0\0\x02\0\0", 6 }, WIRE_TLS_SNI_BAD },
        { "empty name", { (const uint8_t *)"\0\0\0\x05\0\x03\0\0\0", 9 }, WIRE_TLS_SNI_BAD },
        { "other type", { (const uint8_t *)"\0\0\0\x06\0\x04\x01\0\x01" "a", 10 }, WIRE_TLS_SNI_BAD },
        { "two names", { (const uint8_t *)"\0\0\0\x0a\0\x08\0\0\x01" "a\0\0\x01" "b", 14 }, WIRE_TLS_SNI_MANY },
        { "two extensions", { (const uint8_t *)"\0\0\0\x06\0\x04\0\0\x01" "a\0\0\0\x06\0\x04\0\0\x01" "b", 20 }, WIRE_TLS_SNI_MANY },
        { "bytes behind the list", { (const uint8_t *)"\0\0\0\x07\0\x04\0\0\x01" "ax", 11 }, WIRE_TLS_SNI_BAD },
        { "list longer than extension", { (const uint8_t *)"\0\0\0\x06\0\x05\0\0\x01" "a", 10 }, WIRE_TLS_SNI_BAD },
        { "name longer than list", { (const uint8_t *)"\0\0\0\x06\0\x04\0\0\x02" "a", 10 }, WIRE_TLS_SNI_BAD },
        { "NUL in name", { (const uint8_t *)"\0\0\0\x08\0\x06\0\0\x03" "a\0b", 12 }, WIRE_TLS_SNI_BAD },
        { "v4 literal", { (const uint8_t *)"\0\0\0\x0c\0\x0a\0\0\x07" "1.2.3.4", 16 }, WIRE_TLS_SNI_ADDRESS },
        { "v6 literal", { (const uint8_t *)"\0\0\0\x08\0\x06\0\0\x03" "::1", 12 }, WIRE_TLS_SNI_ADDRESS },
        { "decimal", { (const uint8_t *)"\0\0\0\x09\0\x07\0\0\x04" "2130", 13 }, WIRE_TLS_SNI_BAD },
        { "raw utf-8", { (const uint8_t *)"\0\0\0\x07\0\x05\0\0\x02\xc3\xa9", 11 }, WIRE_TLS_SNI_BAD },
        { "extension cut", { (const uint8_t *)"\0\x0d\0\x06\0", 5 }, WIRE_TLS_HELLO },
        { "empty alpn", { (const uint8_t *)"\0\x10\0\x02\0\0", 6 }, WIRE_TLS_HELLO },
        { "empty protocol", { (const uint8_t *)"\0\x10\0\x03\0\x01\0", 7 }, WIRE_TLS_HELLO },
        { "odd versions", { (const uint8_t *)"\0\x2b\0\x02\x01\x03", 6 }, WIRE_TLS_HELLO },
};

static void hand_made_extensions(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct buf b;
                struct hello h = { 0 };
                enum wire_reason why;

                hand_hello(&b, rows[i].extensions);
                read_at(*state, buf_slice(&b), buf_len(&b), &h, &why);
                assert_reason(why, rows[i].why, rows[i].what);
                assert_int_equal(h.has_ech, strcmp(rows[i].what, "ech") == 0);
                if (strcmp(rows[i].what, "trailing dot") == 0)
                        assert_slice(h.sni.name, "a");
                for (size_t cut = 0; cut < buf_len(&b); cut++) {
                        enum wire_reason part;

                        read_at(*state, buf_slice(&b), cut, &h, &part);
                        assert_reason(part, why, rows[i].what);
                }
                buf_fini(&b);
        }
}

static void records_are_strict(void **state)
{
        static const struct { const char *what; struct slice in; enum wire_reason why; } bad[] = {
                { "http", { (const uint8_t *)"GET / H", 7 }, WIRE_TLS_NOT },
                { "alert", { (const uint8_t *)"\x15\3\1\0\2\2\x28", 7 }, WIRE_TLS_NOT },
                { "ssl 2", { (const uint8_t *)"\x80\x2e\1\3\1", 5 }, WIRE_TLS_NOT },
                { "version", { (const uint8_t *)"\x16\2\0\0\1\1", 6 }, WIRE_TLS_NOT },
                { "empty record", { (const uint8_t *)"\x16\3\1\0\0", 5 }, WIRE_TLS_RECORD },
                { "huge record", { (const uint8_t *)"\x16\3\1\x40\1", 5 }, WIRE_TLS_RECORD },
                { "server hello", { (const uint8_t *)"\x16\3\1\0\4\2\0\0\0", 9 }, WIRE_TLS_NOT },
                { "huge message", { (const uint8_t *)"\x16\3\1\0\4\1\1\0\1", 9 }, WIRE_TLS_HELLO_SIZE },
                { "other record between", { (const uint8_t *)"\x16\3\1\0\4\1\0\0\x40\x17\3\1\0\1x", 15 }, WIRE_TLS_RECORD },
                { "too short", { (const uint8_t *)"\x16\3\1\0\6\1\0\0\2\3\3", 11 }, WIRE_TLS_HELLO },
        };
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct hello h;
                enum wire_reason why;

                assert_int_equal(read_at(*state, bad[i].in, bad[i].in.n, &h, &why), WIRE_BAD);
                assert_reason(why, bad[i].why, bad[i].what);
                for (size_t cut = 0; cut < bad[i].in.n; cut++) {
                        assert_int_equal(read_at(*state, bad[i].in, cut, &h, &why), WIRE_BAD);
                        assert_reason(why, bad[i].why, bad[i].what);
                }
        }
}

static void padded_past_16_kb(void **state)
{
        enum { PAD = 40000 };
        uint8_t *ext = calloc(1, PAD + 20);
        struct buf b, records;
        struct hello h;
        enum wire_reason why;

        assert_non_null(ext);
        memcpy(ext, "\0\x15", 2);
        ext[2] = PAD >> 8, ext[3] = PAD & 255;
        memcpy(ext + 4 + PAD, "\0\0\0\x06\0\x04\0\0\x01" "a", 10);
        hand_hello(&b, slice_of(ext, PAD + 14));
        recut(&records, buf_slice(&b), 16384);
        assert_int_equal(read_at(*state, buf_slice(&records), 20000, &h, &why), WIRE_DONE);
        assert_slice(h.sni.name, "a");
        buf_fini(&records);
        recut(&records, buf_slice(&b), 4); /* more than HELLO_RECORDS_MAX */
        assert_int_equal(read_at(*state, buf_slice(&records), 20000, &h, &why), WIRE_BAD);
        assert_reason(why, WIRE_TLS_HELLO_SIZE, "too many records");
        buf_fini(&records);
        buf_fini(&b);
        free(ext);
}

static const struct { struct slice in; enum wire_class want; } firsts[] = {
        { { (const uint8_t *)"\x16\3\1\2\0\1", 6 }, CLASS_TLS },
        { { (const uint8_t *)"\x16\3\3\2\0\2", 6 }, CLASS_OTHER },
        { { (const uint8_t *)"\x16\3\1\0\0\1", 6 }, CLASS_OTHER },
        { { (const uint8_t *)"\x16\2", 2 }, CLASS_OTHER },
        { { (const uint8_t *)"\x16\3\1\2\0", 5 }, CLASS_MORE },
        { { (const uint8_t *)"\x80\x2e\1\3\1", 5 }, CLASS_OTHER },
        { { (const uint8_t *)"\0\0\0", 3 }, CLASS_OTHER },
        { SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), CLASS_H2 },
        { SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r"), CLASS_MORE },
        { SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSMx"), CLASS_OTHER },
        { SLICE_LIT("PRI / HTTP/1.1\r\n"), CLASS_OTHER },
        { SLICE_LIT("GET / H"), CLASS_HTTP1 },
        { SLICE_LIT("GET x"), CLASS_HTTP1 },
        { SLICE_LIT("GET\t/"), CLASS_HTTP1 },
        { SLICE_LIT("\r\nGET /"), CLASS_HTTP1 },
        { SLICE_LIT("CONNECT a:1"), CLASS_HTTP1 },
        { SLICE_LIT("get /"), CLASS_HTTP1 },
        { SLICE_LIT("FOO /x"), CLASS_HTTP1 },
        { SLICE_LIT("FOO *"), CLASS_HTTP1 },
        { SLICE_LIT("FOO https://a"), CLASS_HTTP1 },
        { SLICE_LIT("FOO HTTP:"), CLASS_HTTP1 },
        { SLICE_LIT("FOO htt"), CLASS_MORE },
        { SLICE_LIT("FOO httq"), CLASS_OTHER },
        { SLICE_LIT("GE"), CLASS_MORE },
        { SLICE_LIT("EHLO example.org\r\n"), CLASS_OTHER },
        { SLICE_LIT("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), CLASS_OTHER },
        { SLICE_LIT("get key\r\n"), CLASS_OTHER },
        { SLICE_LIT("*1\r\n$4\r\nPING\r\n"), CLASS_OTHER },
        { SLICE_LIT("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), CLASS_OTHER },
        { SLICE_LIT("\r\n\r\n\r\n"), CLASS_OTHER },
        { { (const uint8_t *)"", 0 }, CLASS_MORE },
};

static void first_bytes_are_classified(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(firsts); i++) {
                enum wire_class c = CLASS_MORE;

                if (classify(firsts[i].in) != firsts[i].want)
                        fail_msg("%.*s: %s", SLICE_FMT(firsts[i].in), wire_class_name(classify(firsts[i].in)));
                /* A prefix says the same or asks for more; once decided, it stays. */
                for (size_t n = 0; n <= firsts[i].in.n; n++) {
                        enum wire_class now = classify(slice_first(firsts[i].in, n));

                        assert_true(c == CLASS_MORE || now == c);
                        c = now;
                }
        }
        uint8_t bytes[CLASSIFY_BYTES_MAX];

        for (unsigned first = 0; first < 256; first++) {
                memset(bytes, (int)first, sizeof(bytes));
                assert_int_not_equal(classify(slice_of(bytes, sizeof(bytes))), CLASS_MORE);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(real_hellos_at_every_cut), ARENA_TEST(hand_made_extensions), ARENA_TEST(records_are_strict),
                ARENA_TEST(padded_past_16_kb),        ARENA_TEST(first_bytes_are_classified),
        };
        return cmocka_run_group_tests_name("wire/hello", tests, NULL, NULL);
}
