/* The table of a workspace's states: exactly these edges, every state can be left, and from every busy one the way to rest is short. */
#include "daemon/record.h"
#include "daemon/workspace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* What workspace.c rests on and this test does not. */
void record_state(const struct workspace *ws) { (void)ws; }
void settings_drop(struct settings *s) { (void)s; }

static void edges(void **state)
{
        static const char *const allowed[WS_STATE_COUNT] = {
                /* to: stopped preparing opening running frozen compromised rest stopping failed */
                [WS_STOPPED] = ".x.......",  [WS_PREPARING] = "..x.....x", [WS_OPENING] = "...x...x.",     [WS_RUNNING] = "....xx.x.",
                [WS_FROZEN] = "...x.x.x.",   [WS_STOPPING] = "x.....x.x",  [WS_COMPROMISED] = "...x...x.", [WS_COMPROMISED_REST] = "x........",
                [WS_FAILED] = ".x.......",
        };

        (void)state;
        for (int from = 0; from < WS_STATE_COUNT; from++)
                for (int to = 0; to < WS_STATE_COUNT; to++)
                        assert_int_equal(workspace_edge((enum workspace_state)from, (enum workspace_state)to), allowed[from][to] == 'x');
}

static void busy(void **state)
{
        struct workspace ws = { 0 };

        (void)state;
        for (int s = 0; s < WS_STATE_COUNT; s++) {
                ws.state = (enum workspace_state)s;
                assert_int_equal(workspace_busy(&ws), s != WS_STOPPED && s != WS_COMPROMISED_REST && s != WS_FAILED);
                assert_non_null(workspace_state_name(ws.state));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(edges), cmocka_unit_test(busy) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
