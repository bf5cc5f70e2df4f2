/* Verbs: what the rules leave on a host, in the order in which they govern. */
#include "daemon/verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void check(const char *rules, const char *host, uint16_t port, const char *expected)
{
        static struct diags errors;
        char text[2048], *got;
        struct config *c;
        json_t *list, *want = json_loads(expected, 0, NULL);

        errors = (struct diags){ 0 };
        snprintf(text, sizeof(text), "table <t> { a.example, .sub.example }\nworkspace w { rules {\n%s\n} }\n", rules);
        c = config_parse(slice_str(text), "test", &errors);
        if (!c)
                fail_msg("%s: %s", rules, errors.list[0].message);
        list = verbs_of(config_workspace_at(c, 0), slice_str(host), port, 8);
        got = json_dumps(list, JSON_COMPACT);
        assert_non_null(want);
        if (!json_equal(list, want))
                fail_msg("%s at %s: %s", rules, host, got);
        free(got);
        json_decref(list);
        json_decref(want);
        config_free(c);
}

static void rules(void **state)
{
        (void)state;
        check("allow web a.example read-only", "a.example", 443, "[{\"rule\":0,\"methods\":[\"GET\",\"HEAD\",\"OPTIONS\"]}]");
        check("allow web a.example read-only", "b.example", 443, "[]");
        check("allow web a.example read-only", "a.example", 8443, "[]");
        check("allow web a.example:8443", "a.example", 8443, "[{\"rule\":0,\"any\":true}]");
        check("allow web .sub.example POST, PUT", "x.sub.example", 443, "[{\"rule\":0,\"methods\":[\"POST\",\"PUT\"]}]");
        check("allow web *.sub.example", "sub.example", 443, "[]");
        check("allow web *.sub.example", "xsub.example", 443, "[]");
        check("allow web <t> path \"/a/**\" query none body none", "x.sub.example", 443,
              "[{\"rule\":0,\"any\":true,\"path\":\"/a/**\",\"query\":\"none\",\"body\":\"none\"}]");
        check("ask web a.example query \"k\" body max 1K", "a.example", 443, "[{\"rule\":0,\"any\":true,\"query\":[\"k\"],\"body\":1024,\"ask\":true}]");
        check("allow web a.example as git", "a.example", 443, "[{\"rule\":0,\"methods\":[\"GET\",\"POST\"],\"profile\":\"git\"}]");
        check("allow tcp a.example:443", "a.example", 443, "[]");
}

/* The first rule whose scope fits governs. */
static void order(void **state)
{
        (void)state;
        check("allow web a.example path \"/x\" POST\nallow web a.example read-only\ndefault allow", "a.example", 443,
              "[{\"rule\":0,\"methods\":[\"POST\"],\"path\":\"/x\"},{\"rule\":1,\"methods\":[\"GET\",\"HEAD\",\"OPTIONS\"]}]");
        check("deny web a.example\ndefault allow", "a.example", 443, "[]");
        check("deny web a.example POST\ndefault allow", "a.example", 443, "[{\"rule\":-1,\"any\":true}]");
        check("deny web a.example path \"/x\"\nallow web { .sub.example, a.example }", "a.example", 443, "[{\"rule\":1,\"any\":true}]");
        check("default allow", "a.example", 443, "[{\"rule\":-1,\"any\":true}]");
}

static void via(void **state)
{
        const char *rule = "allow web reg.example as npm via \"https://a.example:8443/npm/\"";

        (void)state;
        check(rule, "a.example", 8443, "[{\"rule\":0,\"methods\":[\"GET\",\"HEAD\"],\"profile\":\"npm\",\"via\":\"https://a.example:8443/npm/\"}]");
        check(rule, "reg.example", 443, "[]");
        check(rule, "a.example", 443, "[]");
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(rules), cmocka_unit_test(order), cmocka_unit_test(via) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
