/* What a registry may be asked: an install of any size, and few names that are not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "outer/budget.h"
#include "outer/limits.h"

#define R SLICE_LIT("registry.example:443")

enum { HOUR_MS = 3600 * 1000 };

static enum reason asks(struct budgets *b, struct slice registry, unsigned place, int64_t now_ms, struct question *q)
{
        char text[32];

        snprintf(text, sizeof(text), "/p%u", place);
        return budget_ask(b, registry, slice_str(text), MISSES_HOUR, now_ms, q);
}

static enum reason asks_and(struct budgets *b, unsigned place, enum budget_end end, int64_t now_ms)
{
        struct question q;
        enum reason reason = asks(b, R, place, now_ms, &q);

        budget_settle(b, &q, end, now_ms);
        return reason;
}

static void test_misses(void **state)
{
        struct budgets *b = budgets_new();
        struct question q;
        unsigned place = 0, got = 0;

        (void)state;
        assert_false(budgets_matter(b, 0));
        assert_int_equal(asks_and(b, 9999, BUDGET_FOUND, 0), REASON_NONE);
        while (asks_and(b, place, BUDGET_MISSED, 0) == REASON_NONE)
                place++;
        assert_int_equal(place, MISSES_HOUR);
        assert_true(budgets_matter(b, 0));
        assert_int_equal(asks_and(b, place, BUDGET_MISSED, 0), REASON_MISSES);
        assert_int_equal(asks_and(b, 9999, BUDGET_FOUND, 0), REASON_NONE); /* what is there */
        assert_int_equal(asks_and(b, 0, BUDGET_MISSED, 0), REASON_NONE);   /* what was asked for already */
        assert_int_equal(asks(b, SLICE_LIT("other.example:443"), 1, 0, &q), REASON_NONE);
        budget_settle(b, &q, BUDGET_NOTHING, 0);
        budget_settle(b, &q, BUDGET_MISSED, 0); /* settled already */
        /* One more in two minutes, all in an hour, and not more after a day. */
        assert_int_equal(asks_and(b, place, BUDGET_MISSED, HOUR_MS / MISSES_HOUR - 1), REASON_MISSES);
        assert_int_equal(asks_and(b, place, BUDGET_MISSED, HOUR_MS / MISSES_HOUR), REASON_NONE);
        assert_int_equal(asks_and(b, place + 1, BUDGET_MISSED, HOUR_MS / MISSES_HOUR), REASON_MISSES);
        assert_false(budgets_matter(b, 25 * HOUR_MS));
        while (asks_and(b, 1000 + got, BUDGET_MISSED, 25 * HOUR_MS) == REASON_NONE)
                got++;
        assert_int_equal(got, MISSES_HOUR);
        budgets_free(b);
        budgets_free(NULL);
}

/* Asked all at once, before any answer: bounded, and a debt. */
static void test_at_once(void **state)
{
        struct budgets *b = budgets_new();
        struct question q[BUDGET_OPEN], one;
        int64_t now_ms = 0;

        (void)state;
        for (unsigned i = 0; i < BUDGET_OPEN; i++)
                assert_int_equal(asks(b, R, i, 0, &q[i]), REASON_NONE);
        assert_int_equal(asks(b, R, BUDGET_OPEN, 0, &one), REASON_PROFILE_BUSY);
        for (unsigned i = 0; i < BUDGET_OPEN; i++)
                budget_settle(b, &q[i], BUDGET_MISSED, 0);
        while (asks_and(b, 9999, BUDGET_FOUND, now_ms) == REASON_MISSES)
                now_ms += 1000;
        assert_true(now_ms >= (int64_t)(BUDGET_OPEN - MISSES_HOUR) * HOUR_MS / MISSES_HOUR);
        /* The same name many times at once is one. */
        now_ms += 24 * HOUR_MS;
        for (unsigned i = 0; i < BUDGET_OPEN; i++)
                assert_int_equal(asks(b, R, 5000, now_ms, &q[i]), REASON_NONE);
        for (unsigned i = 0; i < BUDGET_OPEN; i++)
                budget_settle(b, &q[i], BUDGET_MISSED, now_ms);
        for (unsigned i = 1; i < MISSES_HOUR; i++)
                assert_int_equal(asks_and(b, 6000 + i, BUDGET_MISSED, now_ms), REASON_NONE);
        assert_int_equal(asks_and(b, 7000, BUDGET_MISSED, now_ms), REASON_MISSES);
        budgets_free(b);
}

/* A client tries without its account first: found then, it was no miss. */
static void test_found_after_all(void **state)
{
        struct budgets *b = budgets_new();

        (void)state;
        for (unsigned i = 0; i < 5 * MISSES_HOUR; i++) {
                assert_int_equal(asks_and(b, i, BUDGET_MISSED, 0), REASON_NONE);
                assert_int_equal(asks_and(b, i, BUDGET_FOUND, 0), REASON_NONE);
                assert_int_equal(asks_and(b, i, BUDGET_FOUND, 0), REASON_NONE);
        }
        assert_false(budgets_matter(b, 0));
        budgets_free(b);
}

static void test_install(void **state)
{
        struct budgets *b = budgets_new();
        struct question q;
        char name[32];
        unsigned got = 0;

        (void)state;
        for (unsigned i = 0; i < 3000; i++) /* 1,500 packages, from nothing */
                assert_int_equal(asks_and(b, i, BUDGET_FOUND, 0), REASON_NONE);
        while (asks_and(b, 3000 + got, BUDGET_NOTHING, 0) == REASON_NONE)
                got++;
        assert_int_equal(got, BUDGET_MINUTE - 3000);
        assert_int_equal(asks_and(b, 0, BUDGET_FOUND, 0), REASON_PROFILE_BUSY);
        assert_int_equal(asks_and(b, 0, BUDGET_FOUND, 60 * 1000), REASON_NONE);
        /* Registries beyond those that are counted one by one share a count. */
        for (unsigned i = 0; i < BUDGET_REGISTRIES + MISSES_HOUR; i++) {
                snprintf(name, sizeof(name), "r%u", i);
                if (asks(b, slice_str(name), i, 0, &q) != REASON_NONE) {
                        assert_true(i >= BUDGET_REGISTRIES + MISSES_HOUR - 2);
                        break;
                }
                budget_settle(b, &q, BUDGET_MISSED, 0);
                assert_true(i < BUDGET_REGISTRIES + MISSES_HOUR - 2);
        }
        budgets_free(b);
}

/* More places than are remembered: those that were asked for last still are. */
static void test_many_places(void **state)
{
        struct budgets *b = budgets_new();
        int64_t now_ms = 0;
        unsigned n = 3 * BUDGET_KNOWN;

        (void)state;
        for (unsigned i = 0; i < n; i++, now_ms += 1000)
                assert_int_equal(asks_and(b, i, BUDGET_FOUND, now_ms), REASON_NONE);
        for (unsigned i = 0; i < MISSES_HOUR; i++)
                assert_int_equal(asks_and(b, n + i, BUDGET_MISSED, now_ms), REASON_NONE);
        for (unsigned i = 0; i < BUDGET_KNOWN / 4; i++)
                assert_int_equal(asks_and(b, n - 1 - i, BUDGET_FOUND, now_ms + 1), REASON_NONE);
        assert_int_equal(asks_and(b, 0, BUDGET_FOUND, now_ms + 1), REASON_MISSES);
        budgets_free(b);
}

static void test_rule(void **state)
{
        struct budgets *b = budgets_new();
        struct question q;
        char text[32];

        (void)state;
        for (unsigned i = 0; i < 100; i++) {
                snprintf(text, sizeof(text), "/%u", i);
                assert_int_equal(budget_ask(b, R, slice_str(text), 100, 0, &q), REASON_NONE);
                budget_settle(b, &q, BUDGET_MISSED, 0);
        }
        assert_int_equal(budget_ask(b, R, SLICE_LIT("/x"), 100, 0, &q), REASON_MISSES);
        assert_int_equal(budget_ask(b, R, SLICE_LIT("/x"), 30, 0, &q), REASON_MISSES); /* another rule: used is used */
        assert_int_equal(budget_ask(b, R, SLICE_LIT("/x"), 110, 0, &q), REASON_NONE);
        budget_settle(b, &q, BUDGET_NOTHING, 0);
        assert_true(budget_take(b, R, 10, 110, 0));
        assert_false(budget_take(b, R, 1, 110, 0));
        budgets_free(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_misses), cmocka_unit_test(test_at_once), cmocka_unit_test(test_found_after_all),
                                            cmocka_unit_test(test_install), cmocka_unit_test(test_many_places), cmocka_unit_test(test_rule) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
