/* WebSocket bytes pass unchanged, however they are cut, and nothing of a bad frame goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "inner/ws.h"

static void test_any_cut(void **state)
{
        static const uint8_t frames[] = { 0x81, 0x83, 1, 2, 3, 4, 'a', 'b', 'c', 0x89, 0x80, 9, 9, 9, 9, 0x82, 0x81, 0, 0, 0, 0, 'x' };
        struct response none = { .status = 101, .upgraded = true };

        (void)state;
        for (size_t cut = 0; cut <= sizeof(frames); cut++) {
                struct ws_pair p;
                struct buf out;
                enum wire_reason why;

                buf_init(&out, 0);
                ws_pair_init(&p, &none);
                assert_int_equal(ws_pass(&p.up, slice_of(frames, cut), &out, &why), 0);
                assert_int_equal(ws_pass(&p.up, slice_of(frames + cut, sizeof(frames) - cut), &out, &why), 0);
                assert_true(slice_eq(buf_slice(&out), slice_of(frames, sizeof(frames))));
                buf_fini(&out);
        }
}

static void test_bad(void **state)
{
        struct header ext = { SLICE_LIT("sec-websocket-extensions"), SLICE_LIT("permessage-deflate; server_no_context_takeover") };
        struct response plain = { .status = 101, .upgraded = true }, deflate = { .status = 101, .upgraded = true, .headers = { &ext, 1 } };
        static const uint8_t unmasked[] = { 0x81, 0x01, 'a' }, squeezed[] = { 0xc1, 0x81, 0, 0, 0, 0, 'a' };
        struct ws_pair p;
        struct buf out;
        enum wire_reason why;

        (void)state;
        buf_init(&out, 0);
        ws_pair_init(&p, &plain);
        assert_int_equal(ws_pass(&p.up, slice_of(unmasked, 3), &out, &why), -1);
        assert_int_equal(buf_len(&out), 0);
        assert_int_equal(ws_pass(&p.down, slice_of(unmasked, 3), &out, &why), 0);
        ws_pair_init(&p, &plain);
        assert_int_equal(ws_pass(&p.up, slice_of(squeezed, 7), &out, &why), -1);
        ws_pair_init(&p, &deflate);
        assert_int_equal(ws_pass(&p.up, slice_of(squeezed, 7), &out, &why), 0);
        buf_fini(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_any_cut), cmocka_unit_test(test_bad) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
