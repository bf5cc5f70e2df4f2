/* Configurations: the throw-away text, live edits, replacing rules in a person's file, keywords for other tools. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rules/config.h"

static int load(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *n, char *why, size_t why_size)
{
        const char *const *files = ctx; /* name, text, name, text, …, NULL */

        (void)from;
        for (; files[0]; files += 2)
                if (strcmp(files[0], path) == 0) {
                        snprintf(name, name_size, "%s", path);
                        *text = strdup(files[1]);
                        *n = strlen(files[1]);
                        return *text ? 0 : -1;
                }
        snprintf(why, why_size, "it is not there");
        return -1;
}

static struct config *load_files(const char *const *files, const char *extra, struct diags *errors)
{
        struct config_loader loader = { load, (void *)(uintptr_t)files };
        return config_load(&loader, "main", slice_str(extra), "throw-away", errors);
}

static void test_extra(void **state)
{
        const char *const files[] = { "main", "include \"more\"\nworkspace a { memory 1G }\n", "more", "host h.example { private ok }\nworkspace b { }\n", NULL };
        struct diags errors = { 0 };
        struct config *c = load_files(files, "workspace a { memory 2G; rules { allow web h.example } }\nworkspace c { }\n", &errors);
        char first[256];

        (void)state;
        assert_non_null(c);
        assert_int_equal(config_workspace_count(c), 3);
        assert_int_equal(config_workspace(c, SLICE_LIT("a"))->memory_bytes, 2ull << 30);
        assert_null(config_workspace(c, SLICE_LIT("d")));
        assert_int_equal(config_file_count(c), 3);
        assert_string_equal(config_file_at(c, 2), "more");
        config_free(c);
        /* A workspace of an included file is not replaced by the including one. */
        c = load_files((const char *const[]){ "main", "include \"more\"\nworkspace b { }\n", "more", "workspace b { }\n", NULL }, "", &errors);
        assert_null(c);
        diags_first(&errors, first, sizeof(first));
        assert_string_equal(first, "main:2:11: the workspace `b` is there already");
        errors = (struct diags){ 0 };
        assert_null(load_files((const char *const[]){ NULL }, "", &errors));
        diags_first(&errors, first, sizeof(first));
        assert_string_equal(first, "main: the file cannot be read: it is not there");
}

/* Readers take a path and the folder it is relative to as C strings. */
static void test_folder(void **state)
{
        struct diags errors = { 0 };
        struct config *c = config_parse(SLICE_LIT("host h.example { ca file \"x.pem\" }\nhost i.example { private ok }\nworkspace w { share \"rel\" }\n"),
                                        "/conf/brome.conf", &errors);
        struct slice path, dir;

        (void)state;
        assert_non_null(c);
        assert_string_equal((const char *)config_workspace(c, SLICE_LIT("w"))->dir.p, "/conf");
        assert_string_equal((const char *)config_workspace(c, SLICE_LIT("w"))->shares[0].path.p, "rel");
        assert_true(config_ca_at(c, 0, &path, &dir) && slice_is(path, "x.pem") && slice_is(dir, "/conf"));
        assert_true(config_ca_at(c, 1, &path, &dir) && path.n == 0);
        assert_false(config_ca_at(c, 2, &path, &dir));
        config_free(c);
}

static void test_policies(void **state)
{
        struct diags errors = { 0 };
        struct config *c = config_parse(SLICE_LIT("table <t> { 192.0.2.0/24 }\ntable <unused> { 192.0.2.1 }\nhost h.example { ca file \"x.pem\" }\n"
                                                  "workspace w { rules { deny any <t>; allow web a.example; default allow } }\n"),
                                        "conf/main", &errors);
        const struct config_workspace *w;
        struct buf out;

        (void)state;
        assert_non_null(c);
        w = config_workspace(c, SLICE_LIT("w"));
        buf_init(&out, 0);
        assert_int_equal(config_policy_text(c, w, SLICE_EMPTY, SLICE_LIT("allow tcp db.example:5432\n"), NULL, &out, &errors), 0);
        assert_true(slice_is(buf_slice(&out), "table <t> {\n        192.0.2.0/24\n}\nhost h.example {\n        ca file \"conf/x.pem\"\n}\nrules {\n"
                                              "        allow tcp db.example:5432\n        deny any <t>\n        allow web a.example\n        default allow\n}\n"));
        buf_clear(&out);
        assert_int_equal(config_policy_text(c, w, SLICE_LIT("allow web b.example\n"), SLICE_EMPTY, NULL, &out, &errors), 0);
        assert_true(slice_ends(buf_slice(&out), SLICE_LIT("rules {\n        allow web b.example\n        default deny\n}\n")));
        buf_clear(&out);
        /* A live edit cannot leave its block. */
        assert_int_equal(config_policy_text(c, w, SLICE_LIT("allow web b.example }\nhost x.example { private ok }\nrules {"), SLICE_EMPTY, NULL, &out, &errors), -1);
        assert_int_equal(buf_len(&out), 0);
        assert_string_equal(errors.list[0].file, "rules");
        buf_fini(&out);
        config_free(c);
}

static void expect_replaced(const char *text, const char *rules, const char *want)
{
        struct diags errors = { 0 };
        struct buf out;
        int rc;

        buf_init(&out, 0);
        rc = config_replace_rules(slice_str(text), "main", SLICE_LIT("w"), slice_str(rules), &out, &errors);
        if (want ? rc < 0 || !slice_is(buf_slice(&out), want) : rc == 0 || errors.total == 0)
                fail_msg("%s\ngives %d\n%.*s", text, rc, SLICE_FMT(buf_slice(&out)));
        buf_fini(&out);
}

static void test_replace(void **state)
{
        (void)state;
        expect_replaced("# top\nworkspace v { rules { deny any any } }\nworkspace w { # why\n        memory 1G   # much\n        rules {\n                deny any any # old\n        } # end\n}\n# tail",
                        "allow web a.example\ndefault deny\n",
                        "# top\nworkspace v { rules { deny any any } }\nworkspace w { # why\n        memory 1G   # much\n        rules {\n                allow web a.example\n                default deny\n        } # end\n}\n# tail");
        expect_replaced("workspace w {\n        memory 1G\n}\n", "allow web a.example\n", "workspace w {\n        memory 1G\n        rules {\n                allow web a.example\n        }\n}\n");
        expect_replaced("workspace w { env A \"rules {\"; rules { } }", "deny any any", "workspace w { env A \"rules {\"; rules {\n        deny any any\n} }");
        expect_replaced("$x\ninclude \"y\"\nworkspace w { share \"}\"\nrules { allow web $m }\n}\n", "", "$x\ninclude \"y\"\nworkspace w { share \"}\"\nrules {\n}\n}\n");
        expect_replaced("  workspace w { memory 1G }\n", "deny any any", "  workspace w { memory 1G \n          rules {\n                  deny any any\n          }\n  }\n");
        expect_replaced("workspace v { }\n", "", NULL);
        expect_replaced("workspace w {\n", "", NULL);
        expect_replaced("# workspace w { }\n", "", NULL);
        expect_replaced("credential x { workspace w { } }\n", "", NULL);
        expect_replaced("workspace w { }\n", "allow web a.example }\nworkspace evil {", NULL);
        expect_replaced("workspace w { }\n", "allow web \"a", NULL);
}

static void test_keywords(void **state)
{
        struct config_keyword k;
        bool up = false, share = false;
        size_t n = 0;

        (void)state;
        for (; config_keyword_at(n, &k); n++) {
                assert_non_null(k.word);
                assert_non_null(k.help);
                up = up || (strcmp(k.word, "up") == 0 && !k.available);
                share = share || (strcmp(k.word, "share") == 0 && k.available);
        }
        assert_true(up && share && n > 40);
}

/* What could blow up does not: macros of macros of macros. */
static void test_bombs(void **state)
{
        struct diags errors = { 0 };
        struct buf text;
        struct config *c;

        (void)state;
        buf_init(&text, 0);
        buf_add_str(&text, "m0 = a.example\n");
        for (int i = 1; i < 40; i++)
                buf_addf(&text, "m%d = { $m%d $m%d }\n", i, i - 1, i - 1);
        c = config_parse(buf_slice(&text), "bomb", &errors);
        assert_null(c);
        buf_clear(&text);
        for (int i = 0; i < 100000; i++)
                buf_add_str(&text, "a {");
        errors = (struct diags){ 0 };
        c = config_parse(buf_slice(&text), "deep", &errors);
        assert_null(c);
        assert_true(errors.total > 0);
        buf_fini(&text);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_extra),   cmocka_unit_test(test_folder), cmocka_unit_test(test_policies), cmocka_unit_test(test_replace),
                                            cmocka_unit_test(test_keywords), cmocka_unit_test(test_bombs) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
