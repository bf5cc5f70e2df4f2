/* brome accounts: what a workspace holds an account on, and which verbs its rules leave on each. The question to ask of every sandbox, answered as a table. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE_BYTES = 512, RULES_BYTES = 16 * 1024 * 1024 };

static const char *text_of(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}
static long long number_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }
static bool is_on(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }

/* A list with commas, or a text as it is. */
static const char *words(const json_t *v, char *out, size_t size, const char *otherwise)
{
        json_t *item;
        size_t i, n = 0;

        snprintf(out, size, "%s", json_is_string(v) ? esc_str(json_string_value(v)) : otherwise);
        json_array_foreach((json_t *)(uintptr_t)v, i, item) {
                n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", esc_str(json_string_value(item)));
                if (n >= size)
                        break;
        }
        return out;
}

/* Line `index` of the workspace's rules, as `rules show` numbers them; empty when it is not known. */
static struct slice rule_line(struct slice text, long long index)
{
        while (text.n && index >= 0) {
                ptrdiff_t nl = slice_find(text, '\n');
                struct slice line = nl < 0 ? text : slice_first(text, (size_t)nl);

                if (!slice_starts(line, SLICE_LIT("default ")) && index-- == 0)
                        return line;
                text = slice_skip(text, line.n + (nl >= 0));
        }
        return SLICE_EMPTY;
}

/* What of the rule stands in the other columns is not said again. */
static void print_verb(const json_t *r, struct slice rules)
{
        char methods[LINE_BYTES], query[LINE_BYTES], path[1100];
        const json_t *q = json_object_get(r, "query");
        const char *body = text_of(r, "body");
        struct slice line = rule_line(rules, number_of(r, "rule"));

        if (number_of(r, "more") > 0) {
                printf("    and %lld more rules\n", number_of(r, "more"));
                return;
        }
        esc_text(path, sizeof(path), slice_str(*text_of(r, "path") ? text_of(r, "path") : "any path"));
        printf("    %-24s %s", words(json_object_get(r, "methods"), methods, sizeof(methods), "any method"), path);
        if (q && !(json_is_string(q) && strcmp(json_string_value(q), "any") == 0))
                printf("  query %s", words(q, query, sizeof(query), "any"));
        if (*body && strcmp(body, "any") != 0)
                printf("  body %s", esc_str(body));
        if (json_is_integer(json_object_get(r, "body")))
                printf("  body up to %lld bytes", number_of(r, "body"));
        if (*text_of(r, "profile"))
                printf("  as %s", esc_str(text_of(r, "profile")));
        if (*text_of(r, "via"))
                printf("  via %s", esc_str(text_of(r, "via")));
        if (is_on(r, "ask"))
                printf("  (a person is asked)");
        printf(line.n ? "\n        by: %s\n" : number_of(r, "rule") < 0 ? "\n        by: default allow\n" : "\n", esc(line));
}

static void print_account(const json_t *a, struct slice lines)
{
        json_t *rules = json_object_get(a, "rules"), *r;
        char fields[LINE_BYTES], when[40] = "";
        const char *ask = text_of(a, "ask");
        time_t t = (time_t)(number_of(a, "last_us") / 1000000);
        struct tm tm;
        size_t i;

        if (t > 0 && localtime_r(&t, &tm))
                strftime(when, sizeof(when), ", last %Y-%m-%d %H:%M", &tm);
        printf("%-16s %-10s %s:%lld\n", esc_str(text_of(a, "credential")), esc_str(text_of(a, "kind")), esc_str(text_of(a, "host")), number_of(a, "port"));
        if (is_on(a, "attach"))
                printf("    the workspace holds nothing: the gate attaches it");
        else
                printf("    the workspace holds %s", *text_of(a, "placeholder") ? esc_str(text_of(a, "placeholder")) : "a placeholder from its next start on");
        printf(", in: %s\n", words(json_object_get(a, "fields"), fields, sizeof(fields), "-"));
        printf("    ask: %s; other accounts: %s; secret: %s; used %lld time%s%s\n", esc_str(*ask ? ask : "no"), is_on(a, "foreign_ok") ? "allowed" : "refused",
               is_on(a, "have") ? "there" : "not there (locked, or not yet brought)", number_of(a, "used"), number_of(a, "used") == 1 ? "" : "s", when);
        json_array_foreach(rules, i, r)
                print_verb(r, lines);
        if (!json_array_size(rules))
                printf("    no rule lets a request pass\n");
}

/* The rules' text, to name what decides; without it the table is whole all the same. */
static void fetch_rules(struct control *c, const char *workspace, struct buf *out)
{
        struct err quiet = ERR_INIT;
        struct chan_msg answer;
        int fd;

        if (control_ask(c, "rules.show", json_pack("{s:s}", "workspace", workspace), &answer, &quiet) == 0) {
                fd = chan_take_fd(&answer, 0);
                if (fd < 0 || fd_read_all(fd, out, RULES_BYTES, &quiet) < 0)
                        buf_clear(out);
                fd_close(&fd);
        }
        chan_msg_fini(&answer);
}

int cmd_accounts(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        struct buf lines;
        json_t *accounts, *a;
        size_t i;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1 || !cli_name_ok(argv[at]))
                return cli_usage(cli, "which workspace?");
        rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK)
                rc = session_call(cli, &c, "accounts", json_pack("{s:s}", "workspace", argv[at]), SLICE_EMPTY, &answer);
        if (rc != EXIT_OK) {
                control_close(&c);
                return rc;
        }
        buf_init(&lines, 0);
        if (!cli->json)
                fetch_rules(&c, argv[at], &lines);
        control_close(&c);
        accounts = json_object_get(answer.body, "accounts");
        json_array_foreach(accounts, i, a) {
                char *text = cli->json ? json_dumps(a, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
                if (cli->json)
                        puts(text ? text : "{}");
                else
                        print_account(a, buf_slice(&lines));
                free(text);
        }
        if (chan_int(&answer, "left_out", 0))
                cli_note("and %lld more, which do not fit into one answer", chan_int(&answer, "left_out", 0));
        if (!cli->json && !json_array_size(accounts))
                cli_note("%s holds no account", argv[at]);
        buf_fini(&lines);
        chan_msg_fini(&answer);
        return EXIT_OK;
}
