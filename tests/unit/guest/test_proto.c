/* The codec of the guest protocol: round trips, cuts at every byte, malformed frames and requests. */
#include "guest/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void frames_round_trip_and_need_all_their_bytes(void **state)
{
        (void)state;
        struct buf b;
        struct proto_frame f;
        size_t used;
        buf_init(&b, 0);
        assert_int_equal(proto_write(&b, 0x01020304, PROTO_STDOUT, 0, SLICE_LIT("hello")), 0);
        static const uint8_t wire[] = { 4, 3, 2, 1, PROTO_STDOUT, 0, 5, 0, 'h', 'e', 'l', 'l', 'o' };
        assert_true(slice_eq(buf_slice(&b), slice_of(wire, sizeof(wire))));
        for (size_t n = 0; n < sizeof(wire); n++)
                assert_int_equal(proto_read(slice_of(wire, n), &f, &used), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(used, sizeof(wire));
        assert_int_equal(f.stream, 0x01020304);
        assert_int_equal(f.type, PROTO_STDOUT);
        assert_true(slice_is(f.payload, "hello"));
        buf_fini(&b);
}

static void malformed_frames_are_refused(void **state)
{
        (void)state;
        static const uint8_t bad[][8] = {
                { 1, 0, 0, 0, 0, 0, 0, 0 },                    /* type 0 */
                { 1, 0, 0, 0, PROTO_TYPE_COUNT, 0, 0, 0 },
                { 1, 0, 0, 0, PROTO_STDIN, 0, 1, 0x80 },       /* 32 KiB + 1 */
                { 1, 0, 0, 0, PROTO_STDIN, 1, 0, 0 },          /* a flag of EXEC */
                { 1, 0, 0, 0, PROTO_EXEC, 2, 0, 0 },
                { 0, 0, 0, 0, PROTO_SETUP, 2, 0, 0 },
        };
        struct proto_frame f;
        size_t used;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(proto_read(slice_of(bad[i], 8), &f, &used), -1);
        struct buf b;
        static uint8_t big[PROTO_PAYLOAD_BYTES + 1];
        buf_init(&b, 0);
        assert_int_equal(proto_write(&b, 1, PROTO_STDIN, 0, slice_of(big, sizeof(big))), -1);
        assert_int_equal(buf_len(&b), 0);
        buf_fini(&b);
}

static void fixed_payloads(void **state)
{
        (void)state;
        struct buf b;
        struct proto_frame f;
        size_t used;
        uint32_t u;
        uint16_t rows, cols;
        enum proto_type which;
        struct slice text;
        buf_init(&b, 0);
        assert_int_equal(proto_write_u32(&b, 3, PROTO_EXIT, 0xfedcba98), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(proto_get_u32(f.payload, &u), 0);
        assert_int_equal(u, 0xfedcba98);
        buf_clear(&b);
        assert_int_equal(proto_write_connect(&b, 3, 0xfedc), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(f.type, PROTO_CONNECT);
        assert_int_equal(proto_get_connect(f.payload, &rows), 0);
        assert_int_equal(rows, 0xfedc);
        assert_int_equal(proto_get_connect(slice_of("\0\0", 2), &rows), -1); /* no port */
        assert_int_equal(proto_get_connect(slice_of("\1\0\0", 3), &rows), -1);
        buf_clear(&b);
        assert_int_equal(proto_write_window(&b, 3, 4096, PROTO_STDERR), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(proto_get_window(f.payload, &u, &which), 0);
        assert_int_equal(u, 4096);
        assert_int_equal(which, PROTO_STDERR);
        assert_int_equal(proto_get_u32(f.payload, &u), -1);
        buf_clear(&b);
        assert_int_equal(proto_write_resize(&b, 3, 24, 300), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(proto_get_resize(f.payload, &rows, &cols), 0);
        assert_int_equal(rows, 24);
        assert_int_equal(cols, 300);
        buf_clear(&b);
        assert_int_equal(proto_write_failed(&b, 3, 2, "no"), 0);
        assert_int_equal(proto_read(buf_slice(&b), &f, &used), 1);
        assert_int_equal(proto_get_failed(f.payload, &u, &text), 0);
        assert_int_equal(u, 2);
        assert_true(slice_is(text, "no"));
        uint64_t us;
        const uint8_t *seed;
        static const uint8_t clock[9 + PROTO_SEED_BYTES] = { 1, 2, 0, 0, 0, 0, 0, 4, 'S' };
        for (size_t n = 0; n <= sizeof(clock); n++)
                assert_int_equal(proto_get_clock(slice_of(clock, n), &us, &seed), n == 8 || n == 8 + PROTO_SEED_BYTES ? 0 : -1);
        assert_true(us == 0x0400000000000201 && seed == clock + 8);
        assert_int_equal(proto_get_clock(slice_of(clock, 8), &us, &seed), 0);
        assert_null(seed);
        assert_int_equal(proto_get_window(SLICE_LIT("\1\0\0\0\1"), &u, &which), -1); /* HELLO has no window */
        buf_fini(&b);
}

static void exec_round_trip_over_several_frames(void **state)
{
        (void)state;
        char *big = malloc(100001);
        memset(big, 'x', 100000);
        big[100000] = 0;
        const char *argv[] = { "prog", big, "", "last", NULL }, *env[] = { "A=1", "B=", NULL };
        struct proto_exec in = { .argv = argv, .env = env, .cwd = "/w", .pty = true, .rows = 30, .cols = 100, .has_user = true, .uid = 1000, .gid = 1001 }, out;
        struct buf wire, body;
        struct proto_frame f;
        size_t used, frames = 0;
        void *block;
        buf_init(&wire, 0);
        buf_init(&body, 0);
        assert_int_equal(proto_exec_write(&wire, 9, &in), 0);
        do {
                assert_int_equal(proto_read(buf_slice(&wire), &f, &used), 1);
                assert_int_equal(f.type, PROTO_EXEC);
                assert_int_equal(buf_add_slice(&body, f.payload), 0);
                frames++;
                bool last = f.flags & PROTO_LAST_PIECE;
                buf_consume(&wire, used);
                assert_int_equal(last, buf_len(&wire) == 0);
        } while (buf_len(&wire) > 0);
        assert_int_equal(frames, 4);
        assert_int_equal(proto_exec_read(buf_slice(&body), &out, &block), 0);
        buf_fini(&body);
        for (int i = 0; i < 4; i++)
                assert_string_equal(out.argv[i], argv[i]);
        assert_null(out.argv[4]);
        assert_string_equal(out.env[1], "B=");
        assert_null(out.env[2]);
        assert_string_equal(out.cwd, "/w");
        assert_true(out.pty && out.has_user && out.rows == 30 && out.cols == 100 && out.uid == 1000 && out.gid == 1001);
        free(block);
        free(big);
        buf_fini(&wire);
}

static void malformed_requests_are_refused(void **state)
{
        (void)state;
        static const struct {
                const char *what;
                struct slice body;
        } bad[] = {
                { "nothing", { (const uint8_t *)"", 0 } },
                { "no argument", { (const uint8_t *)"\3\1\0\0\0/", 6 } },
                { "an empty program", { (const uint8_t *)"\1\0\0\0\0", 5 } },
                { "cut head", { (const uint8_t *)"\1\1\0\0", 4 } },
                { "cut value", { (const uint8_t *)"\1\2\0\0\0a", 6 } },
                { "a huge length", { (const uint8_t *)"\1\xff\xff\xff\xff" "a", 6 } },
                { "NUL", { (const uint8_t *)"\1\2\0\0\0a\0", 7 } },
                { "a relative folder", { (const uint8_t *)"\1\1\0\0\0a\3\1\0\0\0b", 12 } },
                { "two folders", { (const uint8_t *)"\1\1\0\0\0a\3\1\0\0\0/\3\1\0\0\0/", 18 } },
                { "a variable without a name", { (const uint8_t *)"\1\1\0\0\0a\2\2\0\0\0=b", 13 } },
                { "no equals sign", { (const uint8_t *)"\1\1\0\0\0a\2\1\0\0\0b", 12 } },
                { "a short size", { (const uint8_t *)"\1\1\0\0\0a\4\2\0\0\0bb", 13 } },
                { "an unknown tag", { (const uint8_t *)"\1\1\0\0\0a\6\0\0\0\0", 11 } },
        };
        struct proto_exec out;
        void *block;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (proto_exec_read(bad[i].body, &out, &block) != -1)
                        fail_msg("%s", bad[i].what);
        struct buf b;
        const char *none[] = { NULL };
        buf_init(&b, 0);
        assert_int_equal(proto_exec_write(&b, 1, &(struct proto_exec){ .argv = none }), -1);
        buf_fini(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(frames_round_trip_and_need_all_their_bytes), cmocka_unit_test(malformed_frames_are_refused),
                cmocka_unit_test(fixed_payloads), cmocka_unit_test(exec_round_trip_over_several_frames), cmocka_unit_test(malformed_requests_are_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
