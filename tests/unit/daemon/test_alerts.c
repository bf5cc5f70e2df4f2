/* Alerts: they outlive the process, open ones are the last to go, a damaged file is put aside, a listing fits into a message. */
#include "daemon/alerts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[96];

static int set_up(void **state)
{
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-alerts-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/alerts.json", folder);
        return 0;
}

static int tear_down(void **state)
{
        char aside[128];

        (void)state;
        snprintf(aside, sizeof(aside), "%s.damaged", path);
        unlink(path);
        unlink(aside);
        rmdir(folder);
        return 0;
}

static json_t *add(struct alerts *a, const char *workspace, const char *text)
{
        struct err err = ERR_INIT;
        json_t *alert = alerts_add(a, json_pack("{s:s, s:s}", "workspace", workspace, "path", text), &err);

        assert_string_equal(err.text, "");
        return alert;
}

static size_t listed(struct alerts *a, const char *workspace, bool all)
{
        json_t *list = alerts_list(a, workspace, all);
        size_t n = json_array_size(list);

        json_decref(list);
        return n;
}

static void kept(void **state)
{
        struct alerts *a = alerts_new(path);

        (void)state;
        add(a, "w", "/1");
        add(a, "w", "/2");
        add(a, "v", "/3");
        assert_int_equal(alerts_decide(a, "w", "continued"), 2);
        assert_int_equal(alerts_decide(a, "w", "continued"), 0);
        alerts_free(a);
        a = alerts_new(path);
        assert_int_equal(listed(a, NULL, false), 1);
        assert_int_equal(listed(a, NULL, true), 3);
        assert_int_equal(listed(a, "w", true), 2);
        assert_null(alerts_open(a, "w"));
        assert_string_equal(json_string_value(json_object_get(alerts_open(a, "v"), "path")), "/3");
        assert_int_equal(json_integer_value(json_object_get(add(a, "w", "/4"), "id")), 4); /* never again the same number */
        alerts_free(a);
}

static void bounded(void **state)
{
        static char big[4000];
        struct alerts *a = alerts_new(path);
        json_t *list;
        char *text;

        (void)state;
        memset(big, '"', sizeof(big) - 1);
        add(a, "open", big);
        for (int i = 0; i < ALERTS_KEPT + 5; i++) {
                add(a, "w", big);
                alerts_decide(a, "w", "wiped");
        }
        assert_non_null(alerts_open(a, "open"));
        list = alerts_list(a, NULL, true);
        text = json_dumps(list, JSON_COMPACT);
        assert_in_range(strlen(text), 20000, 60 * 1024);
        free(text);
        json_decref(list);
        alerts_free(a);
        a = alerts_new(path);
        assert_non_null(alerts_open(a, "open"));
        alerts_free(a);
}

static void damaged(void **state)
{
        static const char *const texts[] = { "", "{", "[]", "{\"alerts\":1}", "{\"alerts\":[1,{},{\"id\":\"x\"}]}" };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                FILE *f = fopen(path, "w");
                struct alerts *a;

                fputs(texts[i], f);
                fclose(f);
                a = alerts_new(path);
                assert_int_equal(listed(a, NULL, true), 0);
                add(a, "w", "/");
                assert_int_equal(listed(a, NULL, true), 1);
                alerts_free(a);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(kept, set_up, tear_down), cmocka_unit_test_setup_teardown(bounded, set_up, tear_down),
                                            cmocka_unit_test_setup_teardown(damaged, set_up, tear_down) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
