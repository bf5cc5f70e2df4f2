/* brome approvals …, alerts: what waits for a person, and what the tripwire stopped. Answers go to bromed, which records them before they take effect.
 * SECURITY: methods, paths and hosts are a guest's words; esc() is the only way from here to the terminal. */
#include "cli/cli.h"
#include "base/clock.h"
#include "base/esc.h"
#include "cli/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *text_of(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}
static long long number_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void print_object(json_t *o)
{
        char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

        puts(text ? text : "{}");
        free(text);
}

/* A workspace, or none. -1 after the usage error, -2 after the help. */
static int perhaps_workspace(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count, const char **workspace)
{
        int at = cli_options(cli, argc, argv, options, count);

        *workspace = at >= 0 && at < argc ? argv[at] : NULL;
        if (at < 0)
                return at;
        if (argc - at > 1 || (*workspace && !cli_name_ok(*workspace))) {
                cli_usage(cli, argc - at > 1 ? "unexpected `%s`" : "`%s` is no workspace's name", esc_str(argv[argc - 1]));
                return -1;
        }
        return 0;
}

/* ---- approvals ---- */

static const char *until(const json_t *o, char out[64])
{
        long long left_s = (number_of(o, "until_us") - clock_real_us()) / 1000000;

        if (json_is_true(json_object_get(o, "session")))
                snprintf(out, 64, "this session");
        else if (json_is_true(json_object_get(o, "once")))
                snprintf(out, 64, number_of(o, "retries") > 0 ? "once, for a retry of what was shown" : "once, and no more");
        else if (left_s >= 120)
                snprintf(out, 64, "%lld more minutes", left_s / 60);
        else
                snprintf(out, 64, "%lld more seconds", left_s > 0 ? left_s : 0);
        return out;
}

static void print_head(const json_t *o)
{
        printf("%-6lld %-16s %-10s %s  %s:%lld", number_of(o, "id"), esc_str(text_of(o, "workspace")), esc_str(text_of(o, "what")), esc_str(text_of(o, "name")),
               esc_str(text_of(o, "host")), number_of(o, "port"));
}

static void print_waiting(const json_t *o)
{
        json_t *requests = json_object_get(o, "requests"), *r;
        long long seconds = (clock_real_us() - number_of(o, "since_us")) / 1000000;
        char path[1100];
        size_t i;

        print_head(o);
        printf("  (%lld waiting, for %lld s)\n", number_of(o, "waiting"), seconds > 0 ? seconds : 0);
        json_array_foreach(requests, i, r) {
                esc_text(path, sizeof(path), slice_str(text_of(r, "path")));
                printf("       %-7s %s", esc_str(text_of(r, "method")), path);
                printf("%s%s", json_is_true(json_object_get(r, "body")) ? "  (with a body)" : "", json_is_true(json_object_get(r, "gone")) ? "  (gave up)" : "");
                printf(number_of(r, "count") > 1 ? "  (%lld times)\n" : "\n", number_of(r, "count"));
        }
        if (number_of(o, "more") > 0)
                printf("       and %lld more\n", number_of(o, "more"));
}

static void list(struct cli *cli, json_t *items, const char *kind, const char *title)
{
        char left[64];
        json_t *o;
        size_t i;

        if (!cli->json && json_array_size(items))
                printf("%s\n", title);
        json_array_foreach(items, i, o) {
                if (cli->json) {
                        json_object_set_new(o, "kind", json_string(kind));
                        print_object(o);
                } else if (strcmp(kind, "waiting") == 0) {
                        print_waiting(o);
                } else {
                        print_head(o);
                        printf("  (%s, used %lld times)\n", until(o, left), number_of(o, "used"));
                }
        }
}

int cmd_approvals(struct cli *cli, int argc, char **argv)
{
        struct chan_msg answer;
        const char *workspace;
        int rc = perhaps_workspace(cli, argc, argv, NULL, 0, &workspace);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_ask(cli, "approvals", json_pack("{s:s*}", "workspace", workspace), &answer);
        if (rc != EXIT_OK)
                return rc;
        list(cli, json_object_get(answer.body, "waiting"), "waiting", "WAITING  (`brome approvals allow ID --for once|5m|1h|session`, `brome approvals deny ID`)");
        list(cli, json_object_get(answer.body, "grants"), "grant", "ALLOWED  (`brome approvals revoke ID`)");
        list(cli, json_object_get(answer.body, "denials"), "denial", "DENIED  (`brome approvals revoke ID`)");
        if (!cli->json && chan_int(&answer, "left_out", 0))
                cli_note("and %lld more, which do not fit into one answer", chan_int(&answer, "left_out", 0));
        else if (!cli->json && !json_array_size(json_object_get(answer.body, "waiting")) && !json_array_size(json_object_get(answer.body, "grants")) &&
            !json_array_size(json_object_get(answer.body, "denials")))
                cli_note("nothing waits, nothing is allowed or denied");
        chan_msg_fini(&answer);
        return EXIT_OK;
}

/* The one operand: a number. 0 after printing. */
static long long one_id(struct cli *cli, int argc, char **argv, int at)
{
        char *end = NULL;
        long long id;

        errno = 0;
        id = argc - at == 1 ? strtoll(argv[at], &end, 10) : 0;
        if (argc - at == 1 && !errno && end != argv[at] && !*end && id > 0)
                return id;
        cli_usage(cli, "which one? `brome approvals` lists them with their numbers");
        return 0;
}

int cmd_approvals_allow(struct cli *cli, int argc, char **argv)
{
        const char *term = "once";
        const struct cli_option options[] = { { .name = "for", .text = &term } };
        struct chan_msg answer;
        long long id, released;
        int at = cli_options(cli, argc, argv, options, 1), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (strcmp(term, "once") != 0 && strcmp(term, "5m") != 0 && strcmp(term, "1h") != 0 && strcmp(term, "session") != 0)
                return cli_usage(cli, "--for is one of once, 5m, 1h, session");
        id = one_id(cli, argc, argv, at);
        if (!id)
                return EXIT_USAGE_;
        rc = session_ask(cli, "approvals.allow", json_pack("{s:I, s:s}", "approval", (json_int_t)id, "for", term), &answer);
        if (rc != EXIT_OK)
                return rc;
        released = chan_int(&answer, "released", 0);
        if (released)
                cli_note("allowed; %lld request%s let go", released, released == 1 ? " was" : "s were");
        else if (strcmp(term, "once") == 0)
                cli_note("allowed, but nobody waits any more: one retry of a GET without a body has it, any other request is asked for again (--for 5m lets it come again)");
        else
                cli_note("allowed; nothing waits just now");
        chan_msg_fini(&answer);
        return EXIT_OK;
}

static int about_one(struct cli *cli, int argc, char **argv, const char *op, const char *done)
{
        struct chan_msg answer;
        long long id, cut;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        id = one_id(cli, argc, argv, at);
        if (!id)
                return EXIT_USAGE_;
        rc = session_ask(cli, op, json_pack("{s:I}", "approval", (json_int_t)id), &answer);
        if (rc != EXIT_OK)
                return rc;
        cut = chan_int(&answer, "cut", 0);
        if (cut)
                cli_note("%s; %lld open connection%s cut", done, cut, cut == 1 ? " was" : "s were");
        else
                cli_note("%s", done);
        chan_msg_fini(&answer);
        return EXIT_OK;
}

int cmd_approvals_deny(struct cli *cli, int argc, char **argv) { return about_one(cli, argc, argv, "approvals.deny", "denied, and for the next 5 minutes as well"); }
int cmd_approvals_revoke(struct cli *cli, int argc, char **argv) { return about_one(cli, argc, argv, "approvals.revoke", "revoked"); }

/* ---- alerts ---- */

static void print_alert(const json_t *o)
{
        time_t t = (time_t)(number_of(o, "time_us") / 1000000);
        char when[32] = "-", path[1100];
        struct tm tm;

        if (localtime_r(&t, &tm))
                strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
        printf("%lld  %s  %s, session %lld: %s\n", number_of(o, "id"), when, esc_str(text_of(o, "workspace")), number_of(o, "session"), esc_str(text_of(o, "decision")));
        printf("    the placeholder %s of the credential %s\n", esc_str(text_of(o, "placeholder")), esc_str(text_of(o, "credential")));
        printf("    good for  %s\n", esc_str(text_of(o, "issued_for")));
        printf("    going to  %s:%lld, in the %s, written %s\n", esc_str(text_of(o, "going_to")), number_of(o, "port"), esc_str(text_of(o, "field")), esc_str(text_of(o, "view")));
        esc_text(path, sizeof(path), slice_str(text_of(o, "path")));
        if (*text_of(o, "method") || *path)
                printf("    request   %s %s\n", esc_str(text_of(o, "method")), path);
        if (strcmp(text_of(o, "decision"), "open") == 0) {
                const char *w = esc_str(text_of(o, "workspace"));
                printf("    decide    brome workspace thaw %s --continue      it goes on; this placeholder is refused there from now on\n"
                       "              brome workspace stop %s --save-evidence it ends, and what is needed to look into it is kept\n"
                       "              brome workspace wipe %s                 it ends, and its home and layers are removed\n",
                       w, w, w);
        }
}

int cmd_alerts(struct cli *cli, int argc, char **argv)
{
        const char *workspace;
        bool all = false;
        const struct cli_option options[] = { { .name = "all", .flag = &all } };
        struct chan_msg answer;
        json_t *alerts, *o;
        size_t i;
        int rc = perhaps_workspace(cli, argc, argv, options, 1, &workspace);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_ask(cli, "alerts", json_pack("{s:s*, s:b}", "workspace", workspace, "all", all), &answer);
        if (rc != EXIT_OK)
                return rc;
        alerts = json_object_get(answer.body, "alerts");
        json_array_foreach(alerts, i, o)
                if (cli->json)
                        print_object(o);
                else
                        print_alert(o);
        if (!cli->json && !json_array_size(alerts))
                cli_note(all ? "there is no alert" : "there is no open alert; --all lists decided ones too");
        chan_msg_fini(&answer);
        return EXIT_OK;
}
