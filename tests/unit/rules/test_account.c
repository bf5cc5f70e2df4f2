/* Accounts in policies and configurations: which host belongs to whom, what a running workspace adds, presets of agents under live edits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rules/config.h"

static void test_policy(void **state)
{
        struct diags errors = { 0 };
        struct policy *p = policy_parse(SLICE_LIT("credential a { kind github; for { api.a.example, a.example:8443 }; ask wait; placeholder \"ghp_brmx\"; foreign ok }\n"
                                                  "credential b { kind header; header \"X-Key\"; field query \"k\"; for a.example; }\n"
                                                  "credential c { kind basic; user \"u\"; for c.example; attach }\n"
                                                  "model { m.example }\nknown { a gist.example, b [fd00::1] }\nrules { }"),
                                        "policy", &errors);
        const struct binding *b;

        (void)state;
        assert_non_null(p);
        assert_int_equal(policy_account_count(p), 3);
        assert_int_equal(policy_account_of(p, SLICE_LIT("api.a.example"), 443), 0);
        assert_int_equal(policy_account_of(p, SLICE_LIT("api.a.example"), 80), -1);
        assert_int_equal(policy_account_of(p, SLICE_LIT("a.example"), 8443), 0);
        assert_int_equal(policy_account_of(p, SLICE_LIT("a.example"), 443), 1);
        assert_int_equal(policy_account_of(p, SLICE_LIT("c.example"), 443), 2);
        assert_int_equal(policy_account_of(p, SLICE_LIT("example"), 443), -1);
        assert_int_equal(policy_account_of(p, SLICE_EMPTY, 443), -1);
        b = policy_account_at(p, 0);
        assert_true(slice_is(b->name, "a") && b->kind == ACCOUNT_GITHUB && b->host_count == 2 && b->ask && b->ask_wait && b->foreign_ok && !b->attach);
        assert_true(slice_is(b->placeholder, "ghp_brmx") && b->field_count >= 2);
        b = policy_account_at(p, 1);
        assert_true(b->field_count == 2 && b->fields[0].slot == SLOT_HEADER && slice_is(b->fields[0].name, "x-key") && b->fields[1].slot == SLOT_QUERY && slice_is(b->fields[1].name, "k"));
        assert_true(b->placeholder.n == 0 && !b->ask);
        b = policy_account_at(p, 2);
        assert_true(b->attach && slice_is(b->user, "u") && b->field_count == 1 && b->fields[0].slot == SLOT_BASIC);
        assert_null(policy_account_at(p, 3));
        assert_true(policy_is_model_host(p, SLICE_LIT("m.example")));
        assert_false(policy_is_model_host(p, SLICE_LIT("x.m.example")));
        assert_true(policy_trip_known(p, SLICE_LIT("a"), SLICE_LIT("gist.example")) && policy_trip_known(p, SLICE_LIT("b"), SLICE_LIT("[fd00::1]")));
        assert_false(policy_trip_known(p, SLICE_LIT("b"), SLICE_LIT("gist.example")));
        policy_free(p);
        p = policy_parse(SLICE_LIT("rules { }"), "policy", &errors);
        assert_int_equal(policy_account_of(p, SLICE_LIT("a.example"), 443), -1);
        policy_free(p);
}

static const char *placeholder(void *ctx, struct slice credential)
{
        assert_ptr_equal(ctx, &placeholder);
        return slice_is(credential, "forge") ? "ghp_brm4x" : NULL;
}

static void test_live(void **state)
{
        struct diags errors = { 0 };
        struct config *c = config_parse(SLICE_LIT("credential forge { kind github; secret command \"pass show \\\"x\\\"\"; for forge.example; as env CI }\n"
                                                  "credential mirror { kind bearer; secret file \"k\"; for m.example; attach }\ncredential other { kind bearer; for o.example }\n"
                                                  "workspace w { credential { mirror, forge }; model m.example; tool \"x\"; rules { allow web forge.example } }\nworkspace v { }\n"),
                                        "/etc/brome/main", &errors);
        const struct config_known known[] = { { SLICE_LIT("forge"), SLICE_LIT("gist.example") }, { SLICE_LIT("gone"), SLICE_LIT("10.0.0.1") }, { SLICE_LIT("a b"), SLICE_LIT("x.example") },
                                              { SLICE_LIT("forge"), SLICE_LIT("} rules {") } };
        struct config_live live = { .placeholder = placeholder, .ctx = (void *)(uintptr_t)&placeholder, .known = known, .known_count = 4 };
        const struct config_workspace *w;
        const struct config_credential *o;
        struct buf out;

        (void)state;
        assert_non_null(c);
        assert_int_equal(config_credential_count(c), 3);
        o = config_credential(c, SLICE_LIT("forge"));
        assert_true(o == config_credential_at(c, 0) && o->source == SECRET_COMMAND && strcmp((const char *)o->value.p, "pass show \"x\"") == 0);
        assert_string_equal((const char *)o->as_env.p, "CI");
        o = config_credential(c, SLICE_LIT("mirror"));
        assert_true(o->source == SECRET_FILE && strcmp((const char *)o->value.p, "k") == 0 && strcmp((const char *)o->dir.p, "/etc/brome") == 0);
        assert_true(config_credential(c, SLICE_LIT("other"))->source == SECRET_VAULT);
        assert_null(config_credential(c, SLICE_LIT("nobody")));
        assert_null(config_credential_at(c, 3));
        w = config_workspace(c, SLICE_LIT("w"));
        assert_true(w->credential_count == 2 && slice_is(w->credentials[0]->b.name, "mirror") && w->model_count == 1 && w->tool_count == 1 && w->agent.n == 0 &&
                    w->agent_kind == ACCOUNT_KIND_COUNT);
        buf_init(&out, 0);
        assert_int_equal(config_policy_text(c, w, SLICE_EMPTY, SLICE_EMPTY, &live, &out, &errors), 0);
        assert_true(slice_is(buf_slice(&out), "credential mirror {\n        kind bearer\n        for m.example\n        attach\n}\n"
                                              "credential forge {\n        kind github\n        for forge.example\n        placeholder \"ghp_brm4x\"\n}\n"
                                              "model { m.example }\nknown {\n        forge gist.example\n        gone 10.0.0.1\n}\n"
                                              "rules {\n        allow web forge.example\n        default deny\n}\n"));
        buf_clear(&out);
        assert_int_equal(config_policy_text(c, config_workspace(c, SLICE_LIT("v")), SLICE_EMPTY, SLICE_EMPTY, NULL, &out, &errors), 0);
        assert_true(slice_is(buf_slice(&out), "rules {\n        default deny\n}\n"));
        /* Rules of a live edit cannot bring accounts. */
        assert_int_equal(config_policy_text(c, w, SLICE_LIT("credential x { kind bearer; for x.example }\n"), SLICE_EMPTY, NULL, &out, &errors), -1);
        assert_int_equal(config_policy_text(c, w, SLICE_LIT("allow web a.example }\ncredential x { kind bearer; for x.example }\nrules {"), SLICE_EMPTY, NULL, &out, &errors), -1);
        buf_fini(&out);
        config_free(c);
}

/* ---- presets ------------------------------------------------------------------------------------------------------------------------------------- */

static int loads;

static int load(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *n, char *why, size_t why_size)
{
        const char *const *files = ctx; /* name, text, name, text, …, NULL */

        (void)from;
        for (; files[0]; files += 2)
                if (strcmp(files[0], path) == 0) {
                        loads++;
                        snprintf(name, name_size, "%s", path);
                        *text = strdup(files[1]);
                        *n = strlen(files[1]);
                        return *text ? 0 : -1;
                }
        snprintf(why, why_size, "it is not there");
        return -1;
}

static void expect_rules(const struct config *c, const char *name, const char *rules, const char *extra, const char *want)
{
        struct diags errors = { 0 };
        struct buf out;

        buf_init(&out, 0);
        assert_int_equal(config_policy_text(c, config_workspace(c, slice_str(name)), slice_str(rules), slice_str(extra), NULL, &out, &errors), 0);
        if (!slice_ends(buf_slice(&out), slice_str(want)))
                fail_msg("%.*s", SLICE_FMT(buf_slice(&out)));
        buf_fini(&out);
}

static void expect_text(const struct buf *out, const char *want)
{
        if (!slice_is(buf_slice(out), want))
                fail_msg("%.*s", SLICE_FMT(buf_slice(out)));
}

static void expect_shown(const struct config *c, const char *name, const char *want)
{
        struct buf out;

        buf_init(&out, 0);
        config_print_rules(c, config_workspace(c, slice_str(name)), &out);
        expect_text(&out, want);
        buf_fini(&out);
}

static void expect_own(const struct config *c, const char *name, const char *rules, const char *want)
{
        struct buf out;

        buf_init(&out, 0);
        config_own_rules(c, config_workspace(c, slice_str(name)), slice_str(rules), &out);
        expect_text(&out, want);
        buf_fini(&out);
}

static void test_presets(void **state)
{
        static const char *const files[] = { "main", "workspace w { agent x; rules { allow web a.example } }\nworkspace v { agent x }\nworkspace y { agent y; rules { allow web any; deny web s.example; default allow } }\n",
                                             "/share/x.conf", "agent x { kind openai; model m.example; rules { allow web m.example path \"/v1\" POST; deny web m.example } }\n",
                                             "/share/y.conf", "agent y { model m.example; rules { allow web s.example; allow web m.example GET; deny web { m.example, s.example }; deny web m.example } }\n", NULL };
        struct config_loader loader = { .load = load, .ctx = (void *)(uintptr_t)files, .agents = "/share" };
        struct diags errors = { 0 };
        struct config *c = config_load(&loader, "main", SLICE_EMPTY, "", &errors);

        (void)state;
        assert_non_null(c);
        assert_int_equal(loads, 3); /* each preset once */
        assert_string_equal(config_file_at(c, 1), "/share/x.conf");
        assert_true(slice_is(config_workspace(c, SLICE_LIT("w"))->agent, "x") && config_workspace(c, SLICE_LIT("w"))->agent_kind == ACCOUNT_OPENAI);
        expect_rules(c, "w", "", "", "rules {\n        allow web m.example path \"/v1\" POST\n        deny web m.example\n        allow web a.example\n        default deny\n}\n");
        expect_rules(c, "w", "", "deny web a.example\n",
                     "rules {\n        allow web m.example path \"/v1\" POST\n        deny web m.example\n        deny web a.example\n        allow web a.example\n        default deny\n}\n");
        /* A live edit stands behind the preset's rules for its model; what it repeats is not said twice; its default is kept. */
        expect_rules(c, "w", "allow web b.example\ndefault allow\n", "",
                     "rules {\n        allow web m.example path \"/v1\" POST\n        deny web m.example\n        allow web b.example\n        default allow\n}\n");
        expect_rules(c, "w", "allow web any\ndeny  web m.example\n", "",
                     "rules {\n        allow web m.example path \"/v1\" POST\n        deny web m.example\n        allow web any\n        default deny\n}\n");
        /* Rules for others than its model stand behind. */
        expect_rules(c, "y", "", "",
                     "rules {\n        allow web m.example GET\n        deny web m.example\n        allow web any\n        deny web s.example\n        allow web s.example\n        deny web { m.example, s.example }\n        default allow\n}\n");
        expect_rules(c, "y", "allow web s.example\ndeny web { m.example, s.example }\ndeny web a.example\n", "", /* own, though the preset says the same */
                     "rules {\n        allow web m.example GET\n        deny web m.example\n        allow web s.example\n        deny web { m.example, s.example }\n        deny web a.example\n        default deny\n}\n");
        expect_shown(c, "w", "allow web m.example path \"/v1\" POST  # agent x\ndeny web m.example  # agent x\nallow web a.example\ndefault deny\n");
        expect_shown(c, "y", "allow web m.example GET  # agent y\ndeny web m.example  # agent y\nallow web any\ndeny web s.example\nallow web s.example  # agent y\n"
                             "deny web { m.example, s.example }  # agent y\ndefault allow\n");
        expect_own(c, "w", "\nallow web m.example path \"/v1\" POST\n  deny web m.example  # agent x\n# mine\nallow web b.example\ndefault deny\n", "\n# mine\nallow web b.example\ndefault deny\n");
        expect_own(c, "w", "allow web b.example\ndeny web m.example  # agent x\nallow web c.example\n", "allow web b.example\nallow web c.example\n");
        expect_own(c, "w", "deny web m.example # agent z\ndeny web n.example  # agent x\n", "deny web m.example # agent z\ndeny web n.example  # agent x\n"); /* not the preset's */
        expect_own(c, "w", "deny web m.example\n", "");
        expect_own(c, "w", "deny web m.example  # agent x\ndefault allow", "default allow");
        expect_own(c, "w", "", "");
        expect_own(c, "y", "deny web m.example\nallow web s.example\nallow web q.example\nallow web s.example  # agent y\n\ndefault allow\n", "allow web s.example\nallow web q.example\ndefault allow\n"); /* put there on purpose */
        config_free(c);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_policy), cmocka_unit_test(test_live), cmocka_unit_test(test_presets) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
