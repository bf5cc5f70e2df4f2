/* May a request be sent once more? Not when some of it is gone, when an answer began, too often or too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "outer/exchange.h"

static struct exchange sent(void) { return (struct exchange){ .state = EXCHANGE_WAITING, .pooled_ms = clock_mono_ms() }; }

static void test_is_replayable(void **state)
{
        struct exchange ex = sent();

        (void)state;
        assert_true(exchange_is_replayable(&ex));
        ex.retries = POOL_RETRIES_MAX - 1;
        ex.refusals = POOL_REFUSALS_MAX - 1;
        ex.pooled_ms -= POOL_AGAIN_MS / 2;
        assert_true(exchange_is_replayable(&ex));
        ex.pooled_ms -= POOL_AGAIN_MS / 2;
        assert_false(exchange_is_replayable(&ex));
        ex = sent();
        ex.retries = POOL_RETRIES_MAX;
        assert_false(exchange_is_replayable(&ex));
        ex = sent();
        ex.refusals = POOL_REFUSALS_MAX;
        assert_false(exchange_is_replayable(&ex));
        ex = sent();
        ex.up_lost = true;
        assert_false(exchange_is_replayable(&ex));
        ex = sent();
        ex.interim = 1;
        assert_false(exchange_is_replayable(&ex));
        ex = sent();
        ex.state = EXCHANGE_ANSWERED;
        assert_false(exchange_is_replayable(&ex));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_is_replayable) };
        return cmocka_run_group_tests_name("outer/exchange", tests, NULL, NULL);
}
