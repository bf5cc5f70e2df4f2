/* The policy's questions as the door asks them: its own refusals come first, both readings of a path are judged, hits are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "inner/decide.h"

static struct door door;
static uint64_t hits[8];

static int set_up(void **state)
{
        static struct diags d;

        (void)state;
        door.policy = policy_parse(SLICE_LIT("rules {\nallow web example.org path \"/a/*\"\nallow any any.example\nallow tls tls.example\nallow udp example.org:5353\n}\n"), "test", &d);
        assert_non_null(door.policy);
        door.rule_count = policy_rule_count(door.policy);
        door.hits = hits;
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        policy_free(door.policy);
        return 0;
}

static struct authority name(const char *text, uint16_t port)
{
        return (struct authority){ .name = slice_str(text), .port = port };
}

static void test_flows(void **state)
{
        struct authority web = name("example.org", 443), any = name("any.example", 9), tls = name("tls.example", 443), no = name("no.example", 443);
        struct policy_verdict v;

        (void)state;
        decide_flow(&door, &web, FLOW_TCP, &v);
        assert_int_equal(v.action, FLOW_INSPECT);
        assert_int_equal(hits[0], 1);
        decide_flow(&door, &any, FLOW_TCP, &v);
        assert_int_equal(v.action, FLOW_INSPECT_OR_SPLICE);
        decide_flow(&door, &tls, FLOW_TCP, &v);
        assert_int_equal(v.action, FLOW_TLS_PASS);
        decide_flow(&door, &no, FLOW_TCP, &v);
        assert_false(v.allow);
        assert_int_equal(v.reason, REASON_DEFAULT_DENY);
        assert_int_equal(hits[door.rule_count], 1);
        decide_flow(&door, &web, FLOW_UDP, &v);
        assert_false(v.allow);
}

static void test_door_refuses(void **state)
{
        struct authority web = name("example.org", 443);
        struct policy_verdict v;
        struct policy *policy = door.policy;
        enum reason reason;

        (void)state;
        door.refuse = REASON_FROZEN;
        assert_false(decide_again_flow(&door, &web, FLOW_TCP, &v));
        assert_int_equal(v.reason, REASON_FROZEN);
        assert_false(decide_name(&door, web.name, &reason));
        assert_int_equal(reason, REASON_FROZEN);
        door.refuse = REASON_NONE;
        door.policy = NULL;
        assert_false(decide_again_flow(&door, &web, FLOW_TCP, &v));
        assert_int_equal(v.reason, REASON_NO_POLICY);
        door.policy = policy;
        assert_true(decide_again_flow(&door, &web, FLOW_TCP, &v));
}

static void test_names(void **state)
{
        enum reason reason;

        (void)state;
        assert_true(decide_name(&door, SLICE_LIT("example.org"), &reason));
        assert_false(decide_name(&door, SLICE_LIT("sub.example.org"), &reason));
        assert_false(decide_name(&door, SLICE_LIT("intranet"), &reason));
        assert_int_equal(reason, REASON_NAME_NOT_ALLOWED);
}

static void test_requests(void **state)
{
        struct request req = { .method = SLICE_LIT("GET"), .target = { .path = SLICE_LIT("/a/b") } };
        struct exchange x = { .door = &door, .kind = EXCHANGE_HTTP, .req = &req, .to = name("example.org", 443), .https = true };

        (void)state;
        decide_request(&x);
        assert_true(x.verdict.allow);
        /* "/a/b%2Fc" is one segment to some origins and two to others: allowed only when both are. */
        req.target.path = SLICE_LIT("/a/b%2Fc");
        req.target.slashed = SLICE_LIT("/a/b/c");
        decide_request(&x);
        assert_false(x.verdict.allow);
        req.target.path = SLICE_LIT("/b");
        req.target.slashed = SLICE_EMPTY;
        decide_request(&x);
        assert_false(x.verdict.allow);
}

static void test_splices(void **state)
{
        struct exchange x = { .door = &door, .kind = EXCHANGE_TCP, .to = name("any.example", 9), .splice_kind = "any" };
        struct policy_verdict v;

        (void)state;
        assert_true(decide_again_exchange(&x, &v));
        x.splice_kind = "tls";
        assert_false(decide_again_exchange(&x, &v));
        x.to = name("tls.example", 443);
        assert_true(decide_again_exchange(&x, &v));
        x.splice_kind = "any";
        assert_false(decide_again_exchange(&x, &v));
        x.to = name("example.org", 443);
        assert_false(decide_again_exchange(&x, &v));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_flows), cmocka_unit_test(test_door_refuses), cmocka_unit_test(test_names),
                                            cmocka_unit_test(test_requests), cmocka_unit_test(test_splices) };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
