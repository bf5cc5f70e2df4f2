/* A client's stream: frames of a hostile workspace, windows, and the end. */
#include "attach/stream.h"
#include "guest/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void says(struct buf *b, enum proto_type type, const void *p, size_t n) { assert_int_equal(proto_write(b, 0, type, 0, slice_of(p, n)), 0); }

static void in_any_pieces(void **state)
{
        struct buf b;
        struct stream s;

        (void)state;
        buf_init(&b, 0);
        assert_int_equal(proto_write_u32(&b, 0, PROTO_STARTED, 7), 0);
        says(&b, PROTO_STDOUT, "hello", 5);
        says(&b, PROTO_STDERR, "oh", 2);
        says(&b, PROTO_STDOUT, NULL, 0);
        assert_int_equal(proto_write_u32(&b, 0, PROTO_EXIT, 3 << 8), 0);
        for (size_t cut = 0; cut <= buf_len(&b); cut++) {
                stream_open(&s, -1);
                assert_int_equal(stream_feed(&s, slice_first(buf_slice(&b), cut)), 0);
                assert_int_equal(s.over, cut == buf_len(&b));
                assert_int_equal(stream_feed(&s, slice_skip(buf_slice(&b), cut)), 0);
                assert_true(s.started && s.over && !s.failed);
                assert_int_equal(s.status, 3 << 8);
                assert_true(slice_is(stream_output(&s, STREAM_STDOUT), "hello") && slice_is(stream_output(&s, STREAM_STDERR), "oh"));
                assert_true(s.output[STREAM_STDOUT].ended && !s.output[STREAM_STDERR].ended);
                assert_int_equal(stream_room(&s), 0);
                stream_close(&s);
        }
        buf_fini(&b);
}

static void what_it_may_not_say(void **state)
{
        static const enum proto_type foreign[] = { PROTO_HELLO, PROTO_SETUP, PROTO_READY, PROTO_EXEC, PROTO_STDIN, PROTO_RESIZE, PROTO_SIGNAL, PROTO_CLOSE, PROTO_SHUTDOWN, PROTO_CLOCK, PROTO_CONNECT };
        struct stream s;
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                stream_open(&s, -1);
                buf_clear(&b);
                says(&b, foreign[i], "", 0);
                assert_int_equal(stream_feed(&s, buf_slice(&b)), -1);
                stream_close(&s);
        }
        /* Output after its end, window that was not taken, another stream. */
        stream_open(&s, -1);
        buf_clear(&b);
        says(&b, PROTO_STDOUT, NULL, 0);
        says(&b, PROTO_STDOUT, "x", 1);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), -1);
        stream_close(&s);
        stream_open(&s, -1);
        buf_clear(&b);
        assert_int_equal(proto_write_window(&b, 0, 1, PROTO_STDIN), 0);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), -1);
        stream_close(&s);
        stream_open(&s, -1);
        buf_clear(&b);
        assert_int_equal(proto_write(&b, 1, PROTO_STDOUT, 0, SLICE_EMPTY), 0);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), -1);
        stream_close(&s);
        buf_fini(&b);
}

static void windows(void **state)
{
        static uint8_t big[PROTO_PAYLOAD_BYTES];
        struct proto_frame f;
        struct stream s;
        struct buf b;
        size_t used;

        (void)state;
        buf_init(&b, 0);
        stream_open(&s, -1);
        says(&b, PROTO_STDOUT, big, sizeof(big));
        for (int i = 0; i < PROTO_WINDOW_BYTES / PROTO_PAYLOAD_BYTES; i++)
                assert_int_equal(stream_feed(&s, buf_slice(&b)), 0);
        assert_int_equal(stream_take(&s, STREAM_STDOUT, sizeof(big)), 0); /* gives it back */
        assert_int_equal(proto_read(buf_slice(&s.out), &f, &used), 1);
        assert_int_equal(f.type, PROTO_WINDOW);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), 0);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), -1); /* beyond it */
        stream_close(&s);
        stream_open(&s, -1);
        for (int i = 0; i < PROTO_WINDOW_BYTES / PROTO_PAYLOAD_BYTES; i++) {
                assert_int_equal(stream_room(&s), PROTO_PAYLOAD_BYTES);
                assert_int_equal(stream_send(&s, slice_of(big, sizeof(big))), 0);
                buf_clear(&s.out);
        }
        assert_int_equal(stream_room(&s), 0);
        assert_int_equal(stream_send(&s, slice_of(big, 1)), -1);
        stream_close(&s);
        buf_fini(&b);
}

static void failed(void **state)
{
        struct stream s;
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        assert_int_equal(proto_write_failed(&b, 0, 111, "no\x1b[31m way"), 0);
        stream_open(&s, -1);
        assert_int_equal(stream_feed(&s, buf_slice(&b)), 0);
        assert_true(s.over && s.failed);
        assert_null(strchr(s.err.text, 0x1b));
        assert_non_null(strstr(s.err.text, "refused"));
        stream_close(&s);
        buf_fini(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(in_any_pieces), cmocka_unit_test(what_it_may_not_say), cmocka_unit_test(windows), cmocka_unit_test(failed) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
