/* Byte queue and arena: order, limits, sticky failure. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"

#include <stdlib.h>

/* Random appends and consumes against a plain array. */
static void test_queue_keeps_order(void **state)
{
        struct buf b;
        uint8_t next_in = 0, next_out = 0;
        (void)state;
        srandom(7);
        buf_init(&b, 0);
        for (int i = 0; i < 20000; i++) {
                size_t n = (size_t)random() % 700;
                if (random() % 2) {
                        uint8_t *p = buf_reserve(&b, n);
                        assert_true(p || !n);
                        for (size_t k = 0; k < n; k++)
                                p[k] = next_in++;
                        buf_commit(&b, n);
                } else {
                        struct slice s = buf_slice(&b);
                        n = n < s.n ? n : s.n;
                        for (size_t k = 0; k < n; k++)
                                assert_int_equal(s.p[k], next_out++);
                        buf_consume(&b, n);
                }
        }
        buf_fini(&b);
}

static void test_limit_is_sticky(void **state)
{
        struct buf b;
        (void)state;
        buf_init(&b, 10);
        assert_int_equal(buf_add(&b, "12345678", 8), 0);
        assert_int_equal(buf_add(&b, "123", 3), -1);
        assert_int_equal(buf_add(&b, "1", 1), -1);
        assert_true(b.failed);
        assert_int_equal(buf_len(&b), 8);
        buf_clear(&b);
        assert_int_equal(buf_add(&b, "1234567890", 10), 0);
        assert_int_equal(buf_addf(&b, "%d", 1), -1);
        buf_fini(&b);
}

static void test_arena_limit(void **state)
{
        struct arena a;
        bool ok = true;
        (void)state;
        arena_init(&a, 4096);
        assert_non_null(arena_alloc(&a, 4000));
        assert_null(arena_alloc(&a, 200));
        assert_null(arena_alloc(&a, SIZE_MAX));
        assert_null(arena_alloc_array(&a, SIZE_MAX / 2, 4));
        arena_fini(&a);
        struct slice copy = arena_copy(&a, SLICE_LIT("hello"), &ok);
        assert_true(ok && slice_is(copy, "hello") && copy.p[5] == 0);
        arena_copy(&a, slice_of("x", SIZE_MAX), &ok);
        assert_false(ok);
        arena_fini(&a);
}

static void test_arena_is_aligned_and_zero(void **state)
{
        struct arena a;
        (void)state;
        arena_init(&a, 0);
        for (size_t n = 1; n < 3000; n += 37) {
                uint8_t *p = arena_alloc(&a, n);
                assert_int_equal((uintptr_t)p % 16, 0);
                for (size_t i = 0; i < n; i++)
                        assert_int_equal(p[i], 0);
                memset(p, 0xff, n);
        }
        arena_fini(&a);
}

/* What left a queue that wipes stands nowhere in its block any more. */
static void wipes(void **state)
{
        struct buf b;
        uint8_t *at;

        (void)state;
        buf_init(&b, 0);
        b.wipe = true;
        assert_int_equal(buf_add_str(&b, "secret-secret-"), 0);
        at = b.bytes;
        buf_consume(&b, 7);
        assert_memory_equal(at, "\0\0\0\0\0\0\0secret-", 14);
        buf_consume(&b, 7);
        assert_memory_equal(at, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 14);
        buf_fini(&b);
        assert_true(b.wipe);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_queue_keeps_order), cmocka_unit_test(test_limit_is_sticky), cmocka_unit_test(test_arena_limit),
                                            cmocka_unit_test(test_arena_is_aligned_and_zero), cmocka_unit_test(wipes), };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
