/* Bodies of every framing, with every cut, and the chunk writer read back. */
#include "wire/body.h"
#include "wire_test.h"

struct outcome {
        enum body_event last;
        enum wire_reason why;
        size_t rest; /* bytes behind the end */
        struct buf data;
        struct headers trailers;
};

/* Reads text cut into pieces of `step` bytes (the first of `first`). */
static void run(struct arena *a, struct framing f, bool request, struct slice text, size_t first, size_t step, struct outcome *o)
{
        struct body_reader r;
        size_t at = 0, piece = first;

        body_reader_init(&r, &f, request, a);
        *o = (struct outcome){ .last = BODY_MORE };
        buf_init(&o->data, 0);
        for (;;) {
                size_t n = piece < text.n - at ? piece : text.n - at;
                struct slice in = slice_of(text.p + at, n), data = SLICE_EMPTY;

                while ((o->last = body_read(&r, &in, &data, &o->why)) == BODY_DATA) {
                        assert_true(data.n > 0);
                        assert_int_equal(buf_add_slice(&o->data, data), 0);
                }
                at += n - in.n;
                o->rest = text.n - at;
                if (o->last != BODY_MORE || at == text.n)
                        break;
                piece = step;
        }
        o->trailers = *body_trailers(&r);
}

static void check_every_cut(struct arena *a, struct framing f, bool request, struct slice text)
{
        struct outcome whole, part;

        run(a, f, request, text, text.n, 1, &whole);
        for (size_t first = 0; first <= text.n; first++) {
                for (size_t step = 1; step <= 7; step += 6) {
                        run(a, f, request, text, first, step, &part);
                        assert_int_equal(part.last, whole.last);
                        if (whole.last == BODY_BAD)
                                assert_reason(part.why, whole.why, (const char *)text.p);
                        assert_true(slice_eq(buf_slice(&part.data), buf_slice(&whole.data)));
                        assert_int_equal(part.trailers.n, whole.trailers.n);
                        if (whole.last == BODY_END)
                                assert_int_equal(part.rest, whole.rest);
                        buf_fini(&part.data);
                }
        }
        buf_fini(&whole.data);
}

struct row {
        const char *text;
        bool request;
        enum wire_reason why; /* WIRE_OK: ends */
        const char *data;
};
static const struct row rows[] = {
        { "0\r\n\r\n", true, WIRE_OK, "" },
        { "5\r\nhello\r\n0\r\n\r\n", true, WIRE_OK, "hello" },
        { "00005\r\nhello\r\n000\r\n\r\n", true, WIRE_OK, "hello" },
        { "A\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", true, WIRE_OK, "0123456789x" },
        { "0\r\nx-a: b\r\nX-C:\r\n\r\n", true, WIRE_OK, "" },
        { "\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "-1\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "+1\r\n", true, WIRE_CHUNK_SIZE, "" },
        { " 1\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "0x1\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "1g\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "1_0\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "1 \r\n", true, WIRE_CHUNK_EXT, "" },
        { "1;a=b\r\n", true, WIRE_CHUNK_EXT, "" },
        { "1\nx", true, WIRE_CHUNK_SIZE, "" },
        { "1\rx", true, WIRE_BARE_CR, "" },
        { "1\r\nxy\r\n", true, WIRE_CHUNK_END, "x" },
        { "1\r\nx\n", true, WIRE_CHUNK_END, "x" },
        { "1\r\nx\r\r\n", true, WIRE_CHUNK_END, "x" },
        { "8000000000000000\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "ffffffffffffffff\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "00000000000000001\r\n", true, WIRE_CHUNK_SIZE, "" },
        { "0\r\nContent-Length: 1\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\nTransfer-Encoding: chunked\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\nhost: a\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\nauthorization: a\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\ncontent_length: 1\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\nx-http-method-override: PUT\r\n\r\n", true, WIRE_TRAILER_FIELD, "" },
        { "0\r\nbrome-flow: 1\r\nBrome-Reason: forged\r\nbrome-:\r\n\r\n", true, WIRE_OK, "" }, /* dropped */
        { "0\r\nbrome-flow: \x01\r\n\r\n", true, WIRE_FIELD_VALUE, "" },
        { "0\r\nset-cookie: a\r\n\r\n", false, WIRE_TRAILER_FIELD, "" },
        { "0\r\n a: b\r\n\r\n", true, WIRE_OBS_FOLD, "" },
        { "0\r\na : b\r\n\r\n", true, WIRE_FIELD_SPACE, "" },
        { "0\r\na: b\n\r\n", true, WIRE_BARE_LF, "" },
        { "0\r\n\n", true, WIRE_BARE_LF, "" },
        { "0\r\na: b\rc\r\n\r\n", true, WIRE_BARE_CR, "" },
        { "1;a=b\r\nx\r\n0;last\r\n\r\n", false, WIRE_OK, "x" },
        { "1 \r\nx\r\n0\r\n\r\n", false, WIRE_OK, "x" },
        { "1;a\x01\r\nx", false, WIRE_CHUNK_EXT, "" },
        { "1;a\nb\r\nx", false, WIRE_CHUNK_EXT, "" },
};

static void chunked_rows(void **state)
{
        const struct framing f = { .kind = BODY_CHUNKED };

        for (size_t i = 0; i < COUNT(rows); i++) {
                struct outcome o;

                run(*state, f, rows[i].request, slice_str(rows[i].text), 999, 999, &o);
                assert_int_equal(o.last, rows[i].why == WIRE_OK ? BODY_END : BODY_BAD);
                if (rows[i].why != WIRE_OK)
                        assert_reason(o.why, rows[i].why, rows[i].text);
                for (size_t k = 0; k < o.trailers.n; k++)
                        assert_false(slice_starts(o.trailers.at[k].name, SLICE_LIT("brome-")));
                assert_slice(buf_slice(&o.data), rows[i].data);
                buf_fini(&o.data);
                check_every_cut(*state, f, rows[i].request, slice_str(rows[i].text));
        }
}

static void extensions_and_trailers_are_bounded(void **state)
{
        const struct framing f = { .kind = BODY_CHUNKED };
        struct outcome o;
        struct buf b;

        buf_init(&b, 0);
        assert_int_equal(buf_add_str(&b, "1;"), 0);
        for (int i = 0; i < CHUNK_EXT_BYTES_MAX; i++)
                assert_int_equal(buf_add_str(&b, "a"), 0);
        run(*state, f, false, buf_slice(&b), 9999, 1, &o);
        assert_int_equal(o.last, BODY_BAD);
        assert_reason(o.why, WIRE_CHUNK_EXT, "long extension");
        buf_fini(&o.data);
        buf_clear(&b);
        assert_int_equal(buf_add_str(&b, "0\r\n"), 0);
        for (int i = 0; i < TRAILER_FIELDS_MAX + 1; i++)
                assert_int_equal(buf_add_str(&b, "a:b\r\n"), 0);
        run(*state, f, false, buf_slice(&b), 9999, 1, &o);
        assert_reason(o.why, WIRE_TRAILER_TOO_LARGE, "many trailers");
        buf_fini(&o.data);
        buf_clear(&b);
        assert_int_equal(buf_add_str(&b, "0\r\na:"), 0);
        for (int i = 0; i < TRAILER_BYTES_MAX; i++)
                assert_int_equal(buf_add_str(&b, "b"), 0);
        run(*state, f, false, buf_slice(&b), 99999, 1, &o);
        assert_reason(o.why, WIRE_TRAILER_TOO_LARGE, "long trailer");
        buf_fini(&o.data);
        buf_fini(&b);
}

static void other_framings(void **state)
{
        struct outcome o;
        struct body_reader r;
        struct slice in = SLICE_LIT("abc"), data;
        enum wire_reason why;
        struct framing f = { .kind = BODY_LENGTH, .length = 3 };

        run(*state, f, true, SLICE_LIT("abcdef"), 999, 999, &o);
        assert_int_equal(o.last, BODY_END);
        assert_int_equal(o.rest, 3);
        assert_slice(buf_slice(&o.data), "abc");
        buf_fini(&o.data);
        check_every_cut(*state, f, true, SLICE_LIT("abcdef"));
        run(*state, (struct framing){ .kind = BODY_NONE }, true, SLICE_LIT("abc"), 999, 999, &o);
        assert_int_equal(o.last, BODY_END);
        assert_int_equal(o.rest, 3);
        buf_fini(&o.data);

        body_reader_init(&r, &(struct framing){ .kind = BODY_CLOSE }, false, *state);
        assert_int_equal(body_read(&r, &in, &data, &why), BODY_DATA);
        assert_int_equal(body_read(&r, &in, &data, &why), BODY_MORE);
        assert_int_equal(body_eof(&r, &why), BODY_END);
        body_reader_init(&r, &f, false, *state);
        assert_int_equal(body_eof(&r, &why), BODY_BAD);
        assert_reason(why, WIRE_BODY_SHORT, "length");
        body_reader_init(&r, &(struct framing){ .kind = BODY_CHUNKED }, false, *state);
        assert_int_equal(body_eof(&r, &why), BODY_BAD);
}

static void written_chunks_read_back(void **state)
{
        static const size_t sizes[] = { 1, 15, 16, 255, 256, 4096, 65535, 65536 };
        struct header trailer[] = { { SLICE_LIT("grpc-status"), SLICE_LIT("0") } };
        struct buf b, data;
        struct outcome o;

        buf_init(&b, 0);
        buf_init(&data, 0);
        for (size_t i = 0; i < COUNT(sizes); i++) {
                uint8_t *bytes = calloc(1, sizes[i]);

                assert_non_null(bytes);
                bytes[0] = (uint8_t)i;
                assert_int_equal(chunk_write(&b, slice_of(bytes, sizes[i])), 0);
                assert_int_equal(buf_add(&data, bytes, sizes[i]), 0);
                free(bytes);
        }
        assert_int_equal(chunk_write(&b, SLICE_EMPTY), 0);
        assert_int_equal(chunk_write_end(&b, &(struct headers){ trailer, 1 }), 0);
        run(*state, (struct framing){ .kind = BODY_CHUNKED }, true, buf_slice(&b), 1000, 977, &o);
        assert_int_equal(o.last, BODY_END);
        assert_true(slice_eq(buf_slice(&o.data), buf_slice(&data)));
        assert_int_equal(o.trailers.n, 1);
        assert_slice(o.trailers.at[0].name, "grpc-status");
        buf_fini(&o.data);
        buf_fini(&b);
        buf_fini(&data);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(chunked_rows), ARENA_TEST(extensions_and_trailers_are_bounded), ARENA_TEST(other_framings),
                ARENA_TEST(written_chunks_read_back),
        };
        return cmocka_run_group_tests_name("wire/body", tests, NULL, NULL);
}
