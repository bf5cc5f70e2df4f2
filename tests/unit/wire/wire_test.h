/* What the codec tests share: an arena per test, comparison of slices and reasons by name. */
#ifndef BROME_TESTS_WIRE_TEST_H
#define BROME_TESTS_WIRE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "wire/reason.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static inline void check_slice(struct slice got, const char *want, const char *file, int line)
{
        if (slice_is(got, want))
                return;
        fprintf(stderr, "%s:%d: got \"%.*s\", want \"%s\"\n", file, line, SLICE_FMT(got), want);
        _fail(file, line);
}
#define assert_slice(got, want) check_slice((got), (want), __FILE__, __LINE__)

static inline void check_reason(enum wire_reason got, enum wire_reason want, const char *what, const char *file, int line)
{
        if (got == want)
                return;
        fprintf(stderr, "%s:%d: %s: got %s, want %s\n", file, line, what, wire_reason_key(got), wire_reason_key(want));
        _fail(file, line);
}
#define assert_reason(got, want, what) check_reason((got), (want), (what), __FILE__, __LINE__)

static inline int arena_setup(void **state)
{
        struct arena *a = malloc(sizeof(*a));

        if (!a)
                return -1;
        arena_init(a, 256u << 20);
        *state = a;
        return 0;
}
static inline int arena_teardown(void **state)
{
        arena_fini(*state);
        free(*state);
        return 0;
}
#define ARENA_TEST(f) cmocka_unit_test_setup_teardown(f, arena_setup, arena_teardown)

#endif
