/* Which objects a git server named: found again, each in its repository, and forgotten in order when there is no room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "outer/limits.h"
#include "outer/named.h"

#define A SLICE_LIT("git.example:443/a")
#define B SLICE_LIT("git.example:443/b")

static struct slice id_of(unsigned k, char text[65], int digits)
{
        snprintf(text, 65, "%0*x", digits, k);
        return slice_str(text);
}

/* The bodies of a test, by their numbers. */
static struct named_body *body_of(uint32_t number)
{
        static struct named_body bodies[32];

        bodies[number].number = number;
        return &bodies[number];
}

static enum named_answer ask(struct named *n, struct slice repository, unsigned k, uint32_t body)
{
        char text[65];

        return named_ask(n, repository, id_of(k, text, 40), body_of(body), 0);
}

static void add(struct named *n, struct slice repository, unsigned k)
{
        char text[65];

        named_add(n, repository, id_of(k, text, 40));
}

static void test_names(void **state)
{
        struct named *n = named_new();
        char text[65];

        (void)state;
        assert_non_null(n);
        assert_int_equal(ask(n, A, 1, 1), NAMED_NO);
        for (unsigned k = 1; k < 1000; k++)
                add(n, A, k);
        for (unsigned k = 1; k < 1000; k++) {
                assert_int_equal(ask(n, A, k, 7), NAMED_YES);
                assert_int_equal(ask(n, A, k, 7), NAMED_AGAIN);
                assert_int_equal(ask(n, A, k, 8), NAMED_YES);
                assert_int_equal(ask(n, B, k, 9), NAMED_NO);
        }
        assert_int_equal(ask(n, A, 1000, 9), NAMED_NO);
        /* Asked for another use it is not asked again; the longer id of the same digits is another object; what is no id is none. */
        assert_int_equal(named_ask(n, A, id_of(1, text, 40), body_of(10), 1), NAMED_YES);
        assert_int_equal(named_ask(n, A, id_of(1, text, 40), body_of(10), 2), NAMED_YES);
        assert_int_equal(named_ask(n, A, id_of(1, text, 40), body_of(10), 1), NAMED_AGAIN);
        assert_int_equal(named_ask(n, A, SLICE_LIT("0000000000000000000000000000000000000001000000000000000000000000"), body_of(10), 0), NAMED_NO);
        assert_int_equal(named_ask(n, A, SLICE_LIT("000000000000000000000000000000000000000"), body_of(10), 0), NAMED_NO);
        assert_int_equal(named_ask(n, A, SLICE_LIT("00000000000000000000000000000000000000AB"), body_of(10), 0), NAMED_NO);
        named_add(n, A, id_of(5, text, 64));
        assert_int_equal(named_ask(n, A, id_of(5, text, 64), body_of(11), 0), NAMED_YES);
        named_free(n);
        named_free(NULL);
}

/* Two bodies that are open at once and take turns: what one says again is not seen, but all that it says is bounded by what there is to say. */
static void test_in_turn(void **state)
{
        struct named *n = named_new();
        unsigned yes = 0;

        (void)state;
        for (unsigned k = 1; k <= 3; k++)
                add(n, A, k);
        for (unsigned i = 0; i < 100; i++)
                for (unsigned k = 1; k <= 3; k++) {
                        yes += ask(n, A, k, 20) == NAMED_YES;
                        (void)ask(n, A, k, 21);
                }
        assert_int_equal(yes, 3);
        assert_int_equal(ask(n, A, 1, 22), NAMED_YES);
        named_free(n);
}

static void test_bounds(void **state)
{
        struct named *n = named_new();
        char name[32];

        (void)state;
        for (unsigned k = 0; k < NAMED_REPOSITORIES; k++) {
                snprintf(name, sizeof(name), "r%u", k);
                add(n, slice_str(name), 1);
        }
        assert_int_equal(ask(n, SLICE_LIT("r0"), 1, 1), NAMED_YES); /* used: not the oldest any more */
        add(n, A, 1);
        assert_int_equal(ask(n, SLICE_LIT("r0"), 1, 2), NAMED_YES);
        assert_int_equal(ask(n, SLICE_LIT("r1"), 1, 2), NAMED_NO);
        /* One that needs all the room gets it from the others; beyond it nothing more is known. */
        for (unsigned k = 0; k <= NAMED_IDS; k++)
                add(n, A, k);
        assert_int_equal(ask(n, SLICE_LIT("r0"), 1, 3), NAMED_NO);
        assert_int_equal(ask(n, A, 1, 3), NAMED_YES);
        assert_int_equal(ask(n, A, NAMED_IDS - 1, 3), NAMED_YES);
        assert_int_equal(ask(n, A, NAMED_IDS, 3), NAMED_NO);
        add(n, B, 1);
        assert_int_equal(ask(n, B, 1, 4), NAMED_YES);
        assert_int_equal(ask(n, A, 1, 4), NAMED_NO);
        named_free(n);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_in_turn), cmocka_unit_test(test_bounds) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
