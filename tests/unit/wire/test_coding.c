/* Content codings: what a library encoded is decoded whatever the cuts and the room; what is cut off, goes on, or is corrupt is refused by name; a
 * bomb stays small. */
#include "wire/coding.h"
#include "wire_test.h"

#include <brotli/encode.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

static void encode_zlib(struct slice in, int window_bits, struct buf *out)
{
        z_stream z = { 0 };
        uint8_t *room = buf_reserve(out, in.n + in.n / 100 + 1000);

        assert_non_null(room);
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
        z.next_in = (Bytef *)(uintptr_t)in.p;
        z.avail_in = (uInt)in.n;
        z.next_out = room;
        z.avail_out = (uInt)(in.n + in.n / 100 + 1000);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        buf_commit(out, z.total_out);
        deflateEnd(&z);
}

static void encode_gzip(struct slice in, struct buf *out) { encode_zlib(in, 16 + 15, out); }
static void encode_deflate(struct slice in, struct buf *out) { encode_zlib(in, 15, out); }
static void encode_raw(struct slice in, struct buf *out) { encode_zlib(in, -15, out); }
static void encode_br(struct slice in, struct buf *out)
{
        size_t n = in.n + in.n / 100 + 1000;
        uint8_t *room = buf_reserve(out, n);

        assert_non_null(room);
        assert_true(BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, in.n, in.p, &n, room));
        buf_commit(out, n);
}
static void encode_zstd(struct slice in, struct buf *out)
{
        size_t n = ZSTD_compressBound(in.n);
        uint8_t *room = buf_reserve(out, n);

        assert_non_null(room);
        n = ZSTD_compress(room, n, in.p, in.n, 3);
        assert_false(ZSTD_isError(n));
        buf_commit(out, n);
}

static const struct {
        const char *name;
        enum coding coding;
        void (*encode)(struct slice in, struct buf *out);
        bool members; /* may be followed by another */
} rows[] = {
        { "gzip", CODING_GZIP, encode_gzip, true },           { "deflate", CODING_DEFLATE, encode_deflate, false },
        { "raw deflate", CODING_DEFLATE, encode_raw, false }, { "br", CODING_BR, encode_br, false },
        { "zstd", CODING_ZSTD, encode_zstd, true },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Decodes `in`, cut into pieces of `step` bytes, with room for `cap`. */
static enum coding_status decode(const enum coding *list, size_t count, struct slice in, size_t step, size_t cap, struct buf *out,
                                 enum coding_problem *problem)
{
        struct codings *c = codings_new(list, count);
        enum coding_status status = CODING_MORE;
        size_t at = 0;

        assert_non_null(c);
        do {
                /* Exactly as large as the piece, and as the room, so that a sanitizer sees the first byte beyond. */
                struct slice piece = slice_first(slice_skip(in, at), step), rest;
                uint8_t *copy = malloc(piece.n ? piece.n : 1), *room = malloc(cap);
                if (piece.n)
                        memcpy(copy, piece.p, piece.n);
                rest = slice_of(copy, piece.n);
                at += piece.n;
                do {
                        size_t n;
                        status = codings_step(c, &rest, at == in.n, room, cap, &n);
                        assert_true(n <= cap);
                        assert_int_equal(buf_add(out, room, n), 0);
                        if (status == CODING_MORE)
                                assert_int_equal(rest.n, 0);
                } while (status == CODING_OUT);
                free(copy);
                free(room);
        } while (status == CODING_MORE && at < in.n);
        *problem = codings_problem(c);
        codings_free(c);
        return status;
}

static void make_text(struct buf *text, size_t n)
{
        uint32_t x = 2463534242u;

        while (buf_len(text) < n) {
                x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                buf_addf(text, "line %u of a text, %08x\n", x % 10, x);
        }
}

static void check(const enum coding *list, size_t count, struct slice in, struct slice want, enum coding_problem problem)
{
        static const size_t steps[] = { 1, 2, 7, 1000, SIZE_MAX }, caps[] = { 1, 3, 100, 16384, 100000 };

        for (size_t i = 0; i < 5; i++)
                for (size_t k = 0; k < 5; k++) {
                        struct buf out;
                        enum coding_problem got;
                        enum coding_status status;
                        buf_init(&out, 0);
                        status = decode(list, count, in, steps[i], caps[k], &out, &got);
                        assert_int_equal(got, problem);
                        assert_int_equal(status, problem ? CODING_BAD : CODING_END);
                        assert_true(problem ? slice_starts(want, buf_slice(&out)) || problem == CODING_CORRUPT : slice_eq(want, buf_slice(&out)));
                        buf_fini(&out);
                }
}

static void test_each(void **state)
{
        static const size_t sizes[] = { 0, 1, 100, 40000 };

        (void)state;
        for (size_t i = 0; i < ROWS; i++)
                for (size_t k = 0; k < 4; k++) {
                        struct buf text, in;
                        struct slice one;
                        buf_init(&text, 0);
                        buf_init(&in, 0);
                        if (sizes[k])
                                make_text(&text, sizes[k]);
                        rows[i].encode(buf_slice(&text), &in);
                        one = buf_slice(&in);
                        check(&rows[i].coding, 1, one, buf_slice(&text), CODING_PROBLEM_NONE);
                        for (size_t cut = 1; cut < one.n; cut += 1 + one.n / 20)
                                check(&rows[i].coding, 1, slice_first(one, cut), buf_slice(&text), CODING_CUT);
                        buf_add_str(&in, "x");
                        check(&rows[i].coding, 1, buf_slice(&in), buf_slice(&text), CODING_TRAILING);
                        buf_add_str(&in, "yzzy and more");
                        check(&rows[i].coding, 1, buf_slice(&in), buf_slice(&text), CODING_TRAILING);
                        buf_fini(&text);
                        buf_fini(&in);
                }
}

static void test_members(void **state)
{
        (void)state;
        for (size_t i = 0; i < ROWS; i++) {
                struct buf text, in;
                buf_init(&text, 0);
                buf_init(&in, 0);
                buf_add_str(&text, "first second");
                rows[i].encode(SLICE_LIT("first "), &in);
                rows[i].encode(SLICE_EMPTY, &in);
                rows[i].encode(SLICE_LIT("second"), &in);
                check(&rows[i].coding, 1, buf_slice(&in), buf_slice(&text), rows[i].members ? CODING_PROBLEM_NONE : CODING_TRAILING);
                buf_fini(&text);
                buf_fini(&in);
        }
}

static void test_stacks(void **state)
{
        (void)state;
        for (size_t i = 0; i < ROWS * ROWS * ROWS; i += 4) {
                size_t which[3] = { i % ROWS, i / ROWS % ROWS, i / ROWS / ROWS };
                enum coding list[3] = { rows[which[0]].coding, rows[which[1]].coding, rows[which[2]].coding };
                struct buf text, one, two, three;
                buf_init(&text, 0);
                buf_init(&one, 0);
                buf_init(&two, 0);
                buf_init(&three, 0);
                make_text(&text, 300);
                rows[which[0]].encode(buf_slice(&text), &one);
                rows[which[1]].encode(buf_slice(&one), &two);
                rows[which[2]].encode(buf_slice(&two), &three);
                check(list, 3, buf_slice(&three), buf_slice(&text), CODING_PROBLEM_NONE);
                check(list, 3, slice_first(buf_slice(&three), buf_len(&three) - 1), buf_slice(&text), CODING_CUT);
                buf_fini(&text);
                buf_fini(&one);
                buf_fini(&two);
                buf_fini(&three);
        }
        check(NULL, 0, SLICE_LIT("as it is"), SLICE_LIT("as it is"), CODING_PROBLEM_NONE);
}

static void test_bad(void **state)
{
        (void)state;
        for (size_t i = 0; i < ROWS; i++) {
                static const uint8_t noise[] = { 0xff, 0xff, 0xfe, 0x81, 0x7f, 0x03, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
                check(&rows[i].coding, 1, slice_of(noise, sizeof(noise)), SLICE_EMPTY, CODING_CORRUPT);
                check(&rows[i].coding, 1, SLICE_EMPTY, SLICE_EMPTY, CODING_PROBLEM_NONE);
        }
}

/* A window larger than we keep is refused. */
static void test_window(void **state)
{
        static const uint8_t frame[] = {
                0x28, 0xb5, 0x2f, 0xfd, 0x00, (24 - 10) << 3, 0x01, 0x00, 0x00
        }; /* RFC 8878 §3.1.1: 16 MiB, an empty last block */
        const enum coding zstd = CODING_ZSTD;

        (void)state;
        check(&zstd, 1, slice_of(frame, sizeof(frame)), SLICE_EMPTY, CODING_CORRUPT);
}

/* zstd 0.5, which libraries may still read, behind a wrong magic number and behind a wrong header: nothing of it is decoded, however it is cut. */
static void test_old_format(void **state)
{
        static const char old[] = "\x25\xb5\x2f\xfd\x00\x40\x00\x05hello\xc0\x00\x00";
        static const struct slice before[] = { SLICE_LIT(""), SLICE_LIT("\x28"), SLICE_LIT("\x28\xb5\x2f\xfd\x0b") };
        const enum coding zstd = CODING_ZSTD;

        (void)state;
        for (size_t i = 0; i < 3; i++)
                for (size_t step = 1; step < 24; step++) {
                        struct buf in, out;
                        enum coding_problem got;

                        buf_init(&in, 0);
                        buf_init(&out, 0);
                        buf_add_slice(&in, before[i]);
                        buf_add(&in, old, sizeof(old) - 1);
                        assert_int_equal(decode(&zstd, 1, buf_slice(&in), step, 100, &out, &got), CODING_BAD);
                        assert_int_equal(got, CODING_CORRUPT);
                        assert_int_equal(buf_len(&out), 0);
                        buf_fini(&in);
                        buf_fini(&out);
                }
}

/* A hundred megabytes of zeroes from a few hundred bytes: a step gives what there is room for and no more. */
static void test_bomb(void **state)
{
        static uint8_t zeroes[1 << 20];
        const enum coding list[] = { CODING_GZIP, CODING_GZIP };
        struct buf one, two;
        struct codings *c = codings_new(list, 2);
        uint8_t room[4096];
        struct slice in;
        enum coding_status status;
        size_t all = 0, n, steps = 0;

        (void)state;
        buf_init(&one, 0);
        buf_init(&two, 0);
        for (int i = 0; i < 100; i++)
                encode_gzip(slice_of(zeroes, sizeof(zeroes)), &one);
        encode_gzip(buf_slice(&one), &two);
        assert_true(buf_len(&two) < 4096);
        in = buf_slice(&two);
        do {
                status = codings_step(c, &in, true, room, sizeof(room), &n);
                all += n;
                steps++;
        } while (status == CODING_OUT);
        assert_int_equal(status, CODING_END);
        assert_int_equal(all, 100 * sizeof(zeroes));
        assert_true(steps >= all / sizeof(room));
        codings_free(c);
        buf_fini(&one);
        buf_fini(&two);
}

/* Messages of a WebSocket: each is there when its tail was given; the window goes on. */
static void test_messages(void **state)
{
        const enum coding messages = CODING_MESSAGES;
        struct codings *c = codings_new(&messages, 1);
        z_stream z = { 0 };
        uint8_t packed[256], room[256];

        (void)state;
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        for (int i = 0; i < 10; i++) {
                struct slice in;
                size_t n;
                char message[64];
                snprintf(message, sizeof(message), "{\"message\": %d, \"and\": \"always the same\"}", i);
                z.next_in = (Bytef *)message;
                z.avail_in = (uInt)strlen(message);
                z.next_out = packed;
                z.avail_out = sizeof(packed);
                assert_int_equal(deflate(&z, Z_SYNC_FLUSH), Z_OK);
                in = slice_of(packed, sizeof(packed) - z.avail_out);
                assert_true(slice_ends(in, CODING_MESSAGE_TAIL));
                assert_int_equal(codings_step(c, &in, false, room, sizeof(room), &n), CODING_MORE);
                assert_true(slice_is(slice_of(room, n), message));
                if (i == 5) { /* RFC 7692 §7.2.3.4: a final block, then a byte of zero, in place of the empty one */
                        static const uint8_t final[] = { 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00 };
                        struct slice tail = CODING_MESSAGE_TAIL;
                        in = slice_of(final, sizeof(final));
                        assert_int_equal(codings_step(c, &in, false, room, sizeof(room), &n), CODING_MORE);
                        assert_true(slice_is(slice_of(room, n), "Hello"));
                        assert_int_equal(codings_step(c, &tail, false, room, sizeof(room), &n), CODING_MORE);
                        assert_int_equal(n, 0);
                        deflateReset(&z);
                }
        }
        deflateEnd(&z);
        codings_free(c);
}

static void test_parse(void **state)
{
        enum coding list[CODINGS_MAX];

        (void)state;
        assert_int_equal(codings_parse(SLICE_EMPTY, list), 0);
        assert_int_equal(codings_parse(SLICE_LIT("identity"), list), 0);
        assert_int_equal(codings_parse(SLICE_LIT("GZip"), list), 1);
        assert_int_equal(list[0], CODING_GZIP);
        assert_int_equal(codings_parse(SLICE_LIT(" x-gzip ,\tbr,, zstd"), list), 3);
        assert_true(list[0] == CODING_GZIP && list[1] == CODING_BR && list[2] == CODING_ZSTD);
        assert_int_equal(codings_parse(SLICE_LIT("gzip, gzip, gzip, gzip"), list), -1);
        assert_int_equal(codings_parse(SLICE_LIT("compress"), list), -1);
        assert_int_equal(codings_parse(SLICE_LIT("permessage-deflate"), list), -1);
        assert_int_equal(codings_parse(SLICE_LIT("gzip;q=1"), list), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each),   cmocka_unit_test(test_members), cmocka_unit_test(test_stacks),   cmocka_unit_test(test_bad),
                cmocka_unit_test(test_window), cmocka_unit_test(test_old_format), cmocka_unit_test(test_bomb), cmocka_unit_test(test_messages), cmocka_unit_test(test_parse),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
