/* brome rules show, set, edit: the live rules of a workspace. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/edit.h"
#include "cli/local.h"
#include "cli/session.h"
#include "files/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Operands: a workspace and perhaps a file. */
static int operands(struct cli *cli, int argc, char **argv, int least, int most)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at;
        if (argc - at < least || argc - at > most) {
                cli_usage(cli, argc - at < least ? "something is missing" : "too many words");
                return -1;
        }
        if (!cli_name_ok(argv[at])) {
                cli_usage(cli, "`%s` is no workspace's name", esc_str(argv[at]));
                return -1;
        }
        return at;
}

/* The rules in force of one workspace, and the connection they came by. */
struct live {
        struct control control;
        const char *workspace;
        struct buf text;
        struct chan_msg answer; /* its generation, its hits */
        bool answered;
};

static int fetch(struct cli *cli, struct live *l)
{
        struct err err = ERR_INIT;
        int fd, rc = session_call(cli, &l->control, "rules.show", json_pack("{s:s}", "workspace", l->workspace), SLICE_EMPTY, &l->answer);

        if (rc != EXIT_OK)
                return rc;
        l->answered = true;
        fd = chan_take_fd(&l->answer, 0);
        if (fd < 0 || fd_read_all(fd, &l->text, LOADER_FILE_BYTES, &err) < 0)
                rc = cli_fail(EXIT_INTERNAL, "the rules could not be read: %s", err.text);
        fd_close(&fd);
        return rc;
}

/* For a command with the one operand WORKSPACE. False when it is over, with the exit code in *rc. live_close in both cases. */
static bool live_open(struct cli *cli, struct live *l, int argc, char **argv, int *rc)
{
        int at = operands(cli, argc, argv, 1, 1);

        *l = (struct live){ .control = { .fd = -1 } };
        buf_init(&l->text, 0);
        if (at < 0) {
                *rc = at == -2 ? EXIT_OK : EXIT_USAGE_;
                return false;
        }
        l->workspace = argv[at];
        *rc = session_connect(cli, &l->control, true);
        if (*rc == EXIT_OK)
                *rc = fetch(cli, l);
        return *rc == EXIT_OK;
}

static void live_close(struct live *l)
{
        if (l->answered)
                chan_msg_fini(&l->answer);
        control_close(&l->control);
        buf_fini(&l->text);
}

static long long hits_of(const struct chan_msg *answer, size_t index)
{
        json_t *pair;
        size_t i;

        json_array_foreach(json_object_get(answer->body, "hits"), i, pair)
                if (json_integer_value(json_array_get(pair, 0)) == (json_int_t)index)
                        return json_integer_value(json_array_get(pair, 1));
        return 0;
}

/* "RULE  # agent NAME": takes the comment off a rule that is a preset's. A comment inside a string has a quote behind it. */
static struct slice take_agent(struct slice *line)
{
        static const struct slice mark = SLICE_LIT("  # agent ");

        for (size_t i = line->n; i-- && line->p[i] != '"';)
                if (slice_starts(slice_skip(*line, i), mark)) {
                        struct slice agent = slice_skip(*line, i + mark.n);
                        line->n = i;
                        return agent;
                }
        return SLICE_EMPTY;
}

static void print_rules(struct cli *cli, struct slice text, const struct chan_msg *answer)
{
        bool counted = json_array_size(json_object_get(answer->body, "hits")) > 0;
        size_t index = 0;

        while (text.n) {
                ptrdiff_t nl = slice_find(text, '\n');
                struct slice line = nl < 0 ? text : slice_first(text, (size_t)nl);
                size_t line_bytes = line.n + 1;
                bool is_default = slice_starts(line, SLICE_LIT("default "));
                long long hits = is_default ? hits_of(answer, (size_t)-1) : hits_of(answer, index);
                if (cli->json) {
                        struct slice agent = take_agent(&line);
                        json_t *o = json_pack("{s:s%, s:I}", "rule", line.p, line.n, "hits", (json_int_t)hits);
                        char *json;
                        if (agent.n)
                                json_object_set_new(o, "agent", json_stringn((const char *)agent.p, agent.n));
                        json = json_dumps(o, JSON_COMPACT);
                        puts(json ? json : "");
                        free(json);
                        json_decref(o);
                } else if (counted) {
                        printf("%8lld  %s\n", hits, esc(line));
                } else {
                        printf("%s\n", esc(line));
                }
                if (!is_default)
                        index++;
                text = slice_skip(text, line_bytes);
        }
}

int cmd_rules_show(struct cli *cli, int argc, char **argv)
{
        struct live l;
        int rc;

        if (live_open(cli, &l, argc, argv, &rc))
                print_rules(cli, buf_slice(&l.text), &l.answer);
        live_close(&l);
        return rc;
}

static int put(struct cli *cli, struct control *c, const char *workspace, struct slice text, long long base)
{
        struct chan_msg answer;
        json_t *body = json_pack("{s:s}", "workspace", workspace);
        long long cut;
        int rc;

        if (base >= 0)
                json_object_set_new(body, "base_generation", json_integer(base));
        rc = session_call(cli, c, "rules.set", body, text.n ? text : SLICE_LIT("\n"), &answer);
        if (rc != EXIT_OK)
                return rc;
        cut = chan_int(&answer, "cut", 0);
        if (cut)
                cli_note("the new rules are in force; %lld open connection%s they forbid were cut", cut, cut == 1 ? "" : "s");
        else
                cli_note("the new rules are in force");
        chan_msg_fini(&answer);
        return EXIT_OK;
}

int cmd_rules_set(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct err err = ERR_INIT;
        struct buf text;
        int at = operands(cli, argc, argv, 2, 2), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        buf_init(&text, 0);
        if (local_read(argv[at + 1], &text, &err) < 0)
                rc = cli_fail(EXIT_CONFIG_, "%s", err.text);
        else
                rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK)
                rc = put(cli, &c, argv[at], buf_slice(&text), -1);
        control_close(&c);
        buf_fini(&text);
        return rc;
}

/* Edit until the text parses and the person agrees; 0 when *text is to be set, else an exit code. */
static int edit_loop(const char *path, const char *before, struct buf *text, bool *changed)
{
        struct err err = ERR_INIT;

        for (;;) {
                struct diags errors = { 0 };
                struct policy *p;
                                if (edit_open(path) < 0)
                        return cli_fail(EXIT_NO, "the editor failed; nothing was changed (VISUAL and EDITOR say which one)");
                p = local_rules(path, &errors, &err);
                if (!p) {
                        *changed = true; /* kept, whatever comes: somebody wrote it */
                        local_diags(&errors);
                        if (edit_confirm("these rules do not parse; nothing has changed. [e]dit again or [q]uit?") != EDIT_AGAIN)
                                return EXIT_CONFIG_;
                        continue;
                }
                local_lint(p, &errors);
                policy_free(p);
                if (errors.total)
                        local_diags(&errors);
                *changed = edit_show_difference(before, path);
                if (!*changed)
                        return EXIT_OK;
                switch (edit_confirm("put these rules in force? [y]es, [e]dit again, [n]o")) {
                case EDIT_AGAIN: continue;
                case EDIT_NO: return EXIT_NO;
                case EDIT_YES: break;
                }
                buf_clear(text);
                return fd_read_file(path, text, LOADER_FILE_BYTES, &err) < 0 ? cli_fail(EXIT_INTERNAL, "%s", err.text) : EXIT_OK;
        }
}

/* Edits what is in force in `path` and puts it in force; the file stays when there is an edit that could not be. */
static int edit_from(struct cli *cli, struct live *l, const char *path, const char *before)
{
        long long generation = chan_int(&l->answer, "generation", -1);
        bool changed = false;
        int rc = edit_loop(path, before, &l->text, &changed);

        if (rc == EXIT_OK && changed)
                rc = put(cli, &l->control, l->workspace, buf_slice(&l->text), generation);
        else if (rc == EXIT_OK)
                cli_note("nothing changed");
        if (rc != EXIT_OK && changed)
                cli_note("your edit is kept in %s", path);
        else
                unlink(path);
        return rc;
}

int cmd_rules_edit(struct cli *cli, int argc, char **argv)
{
        struct live l;
        char path[PATH_MAX], before[PATH_MAX];
        int rc;

        if (live_open(cli, &l, argc, argv, &rc)) {
                if (edit_spill(before, sizeof(before), "before", buf_slice(&l.text)) < 0) {
                        rc = cli_fail(EXIT_INTERNAL, "cannot write a temporary file; set TMPDIR");
                } else {
                        rc = edit_spill(path, sizeof(path), "rules", buf_slice(&l.text)) < 0 ? cli_fail(EXIT_INTERNAL, "cannot write a temporary file; set TMPDIR")
                                                                                        : edit_from(cli, &l, path, before);
                        unlink(before);
                }
        }
        live_close(&l);
        return rc;
}
