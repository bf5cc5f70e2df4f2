/* Sessions from the command line: see session.h. */
#include "cli/session.h"
#include "attach/attach.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "control/request.h"
#include "journal/print.h"
#include "journal/reader.h"
#include "rules/policy.h"
#include "cli/local.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- progress: silence for the first second, then the step that is under way, once a second ---- */

static char progress_line[256];
static volatile sig_atomic_t progress_shown;

static void progress_tick(int sig)
{
        (void)sig;
        if (progress_line[0] && write(STDERR_FILENO, progress_line, strlen(progress_line)) > 0)
                progress_shown = 1;
        progress_line[0] = 0;
}

static void progress_step(void *ctx, const char *step)
{
        sigset_t alarm, before;

        (void)ctx;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        sigprocmask(SIG_BLOCK, &alarm, &before);
        snprintf(progress_line, sizeof(progress_line), "brome: %.200s …\n", esc_str(step)); /* the launcher's words */
        sigprocmask(SIG_SETMASK, &before, NULL);
}

static void progress_run(bool on)
{
        struct itimerval every = { { on, 0 }, { on, 0 } };

        progress_line[0] = 0;
        sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on ? progress_tick : SIG_IGN, .sa_flags = SA_RESTART }, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
}

/* ---- asking ---- */

int session_connect(struct cli *cli, struct control *c, bool start)
{
        struct control_options options = { .paths = &cli->paths, .start = start, .config = cli->config_override };
        struct err err = ERR_INIT;
        int rc;

        progress_run(start && !cli->json);
        progress_step(NULL, "starting the supervisor");
        rc = control_connect(c, &options, &err);
        progress_run(false);
        if (rc == 1)
                return cli_fail_hint(EXIT_DAEMON, "`brome daemon start` starts it", "the supervisor is not running");
        return rc < 0 ? cli_fail(EXIT_DAEMON, "%s", err.text) : EXIT_OK;
}

/* The exit code for an error of bromed's; prints it with its list. */
static int refused(const struct chan_msg *answer, const struct err *err)
{
        static const struct { const char *code; int exit; } codes[] = {
                { "usage", EXIT_USAGE_ }, { "no-such-workspace", EXIT_NO }, { "exists", EXIT_NO }, { "state", EXIT_NO },
                { "config", EXIT_CONFIG_ }, { "host", EXIT_HOST }, { "journal", EXIT_DAEMON }, { "internal", EXIT_INTERNAL },
        };
        const char *code = chan_str(answer, "code", "internal");
        json_t *list = json_object_get(answer->body, "errors"), *row;
        struct buf lines;
        size_t i;

        buf_init(&lines, 0);
        json_array_foreach(list, i, row)
                /* Made by diags_print on the other side: printable lines. Newlines stay, so they go out piece by piece. */
                if (json_is_string(row)) {
                        struct slice rest = slice_str(json_string_value(row));
                        while (rest.n) {
                                ptrdiff_t nl = slice_find(rest, '\n');
                                struct slice line = nl < 0 ? rest : slice_first(rest, (size_t)nl);
                                buf_addf(&lines, "%s\n", esc(line));
                                rest = slice_skip(rest, line.n + (nl >= 0));
                        }
                }
        if (buf_len(&lines))
                cli_fail_lines(0, buf_slice(&lines), err->text);
        else
                cli_fail(0, "%s", err->text);
        buf_fini(&lines);
        for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
                if (strcmp(code, codes[i].code) == 0)
                        return codes[i].exit;
        return EXIT_INTERNAL;
}

/* What stands in the configuration's files is not what counts. Once a command: it asks several times. */
static void note_stale(const struct chan_msg *answer)
{
        static char said[1024];
        const char *stale = chan_str(answer, "stale", "");

        if (!*stale || strncmp(said, stale, sizeof(said) - 1) == 0)
                return;
        snprintf(said, sizeof(said), "%s", stale);
        cli_note("%s", esc_str(stale));
}

int session_call(struct cli *cli, struct control *c, const char *op, json_t *body, struct slice text, struct chan_msg *answer)
{
        int fd = -1, rc;

        if (text.n) {
                fd = fd_memfd("brome-text", text.p, text.n);
                if (fd < 0) {
                        json_decref(body);
                        return cli_fail(EXIT_INTERNAL, "cannot make a memory file");
                }
        }
        rc = session_call_fd(cli, c, op, body, "text", fd, answer);
        fd_close(&fd);
        return rc;
}

int session_call_fd(struct cli *cli, struct control *c, const char *op, json_t *body, const char *name, int fd, struct chan_msg *answer)
{
        struct err err = ERR_INIT;
        int rc;

        progress_run(!cli->json);
        rc = control_call(c, op, body, &fd, &name, fd >= 0, progress_step, NULL, answer, &err);
        progress_run(false);
        if (rc == CONTROL_REFUSED && strcmp(chan_str(answer, "code", ""), "again") == 0) {
                cli_note("%s", err.text);
                chan_msg_fini(answer);
                return SESSION_AGAIN;
        }
        if (rc >= 0 && strcmp(op, "reload") != 0) /* whose own answer says it */
                note_stale(answer);
        if (rc == 0)
                return EXIT_OK;
        if (rc < 0)
                return cli_fail(EXIT_DAEMON, "%s", err.text);
        rc = refused(answer, &err);
        chan_msg_fini(answer);
        return rc;
}

/* The first variable of the two that is set. */
static const char *env_first(const char *a, const char *b)
{
        const char *v = getenv(a);

        if (!v || !*v)
                v = getenv(b);
        return v && *v ? v : NULL;
}

/* PATH, as long as the request takes; NULL when it is no UTF-8. */
static json_t *own_path(void)
{
        const char *path = getenv("PATH");
        size_t n = path ? strlen(path) : 0;

        while (n > REQUEST_PATH_BYTES)
                do
                        n--;
                while (n && path[n] != ':');
        return n ? json_stringn(path, n) : NULL;
}

json_t *session_open_body(const char *workspace, bool keep, bool rm)
{
        return json_pack("{s:s*, s:b, s:b, s:s*, s:s*, s:o*}", "workspace", workspace, "keep", keep, "rm", rm, "proxy", env_first("https_proxy", "HTTPS_PROXY"),
                         "no_proxy", env_first("no_proxy", "NO_PROXY"), "path", own_path());
}

int session_open(struct cli *cli, struct control *c, const struct session_opening *o, struct chan_msg *answer)
{
        int rc = session_call(cli, c, "session.open", session_open_body(o->workspace, o->keep, o->rm), o->block, answer);
        struct chan_msg closed;

        if (rc != SESSION_AGAIN)
                return rc;
        /* Answered when all of it has ended. */
        (void)!control_ask(c, "session.close", json_pack("{s:s, s:b}", "workspace", o->name, "force", 1), &closed, &(struct err)ERR_INIT);
        chan_msg_fini(&closed);
        rc = session_call(cli, c, "session.open", session_open_body(o->workspace, o->keep, o->rm), o->block, answer);
        return rc == SESSION_AGAIN ? EXIT_HOST : rc;
}

void session_warnings(const struct chan_msg *answer)
{
        json_t *warnings = json_object_get(answer->body, "warnings"), *w;
        size_t i;

        json_array_foreach(warnings, i, w)
                if (json_is_string(w))
                        cli_note("%s", esc_str(json_string_value(w)));
}

int session_ask(struct cli *cli, const char *op, json_t *body, struct chan_msg *answer)
{
        struct control c = { .fd = -1 };
        int rc = session_connect(cli, &c, true);

        if (rc != EXIT_OK) {
                json_decref(body);
                return rc;
        }
        rc = session_call(cli, &c, op, body, SLICE_EMPTY, answer);
        control_close(&c);
        return rc;
}

int session_image(struct cli *cli, struct control *c, const char *workspace)
{
        struct chan_msg answer;
        struct err quiet = ERR_INIT; /* what is wrong, the next request says */
        bool current = false;

        if (control_ask(c, "workspace.describe", json_pack("{s:s}", "workspace", workspace), &answer, &quiet) == 0)
                current = slice_ends(slice_str(chan_str(&answer, "image", "")), SLICE_LIT("/images/current"));
        chan_msg_fini(&answer);
        return current ? image_first(cli, workspace) : EXIT_OK;
}

/* ---- a workspace's block from options ---- */

void session_string(struct buf *out, const char *s)
{
        buf_add_str(out, "\"");
        for (; *s; s++) {
                if (*s == '"' || *s == '\\')
                        buf_add_str(out, "\\");
                buf_add(out, s, 1);
        }
        buf_add_str(out, "\"");
}

static int add_share(struct cli *cli, const char *spec, struct buf *out)
{
        static const struct { const char *suffix, *mode; } modes[] = { { ":ro", " read-only" }, { ":overlay", " overlay" }, { ":rw", "" } };
        const char *mode = "";
        char path[PATH_MAX], real[PATH_MAX];
        size_t n = strlen(spec);

        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
                if (slice_ends(slice_str(spec), slice_str(modes[i].suffix))) {
                        n -= strlen(modes[i].suffix);
                        mode = modes[i].mode;
                        break;
                }
        if (n == 0 || n >= sizeof(path))
                return cli_usage(cli, "--share takes a folder, and :ro or :overlay after it");
        memcpy(path, spec, n);
        path[n] = 0;
        /* A person names the folder that they see: its links are followed here, once, before anything inside can change them. */
        if (!realpath(path, real))
                return cli_fail(EXIT_USAGE_, "--share %s: there is no such folder", esc_str(path));
        buf_add_str(out, "        share ");
        session_string(out, real);
        return buf_addf(out, "%s\n", mode) < 0 ? EXIT_INTERNAL : EXIT_OK;
}

static int add_rules(const struct session_options *o, struct buf *out)
{
        buf_add_str(out, "        rules {\n");
        for (size_t i = 0; i < o->allow_count; i++) {
                struct diags errors = { 0 };
                buf_add_str(out, "                ");
                if (policy_rule_parse_one(slice_str(o->allow[i]), out, &errors) < 0)
                        return local_diags(&errors);
                buf_add_str(out, "\n");
        }
        buf_add_str(out, "                default deny\n        }\n");
        return EXIT_OK;
}

int session_block(struct cli *cli, const struct session_options *o, const char *name, struct buf *out)
{
        int rc = EXIT_OK;

        buf_addf(out, "workspace %s {\n", name);
        for (size_t i = 0; i < o->share_count && rc == EXIT_OK; i++)
                rc = add_share(cli, o->share[i], out);
        for (size_t i = 0; i < o->credential_count; i++) {
                if (!cli_name_ok(o->credential[i]))
                        return cli_usage(cli, "`%s` is no credential's name", esc_str(o->credential[i]));
                buf_addf(out, "        credential %s\n", o->credential[i]);
        }
        if (o->agent && !cli_name_ok(o->agent))
                return cli_usage(cli, "`%s` is no agent's name", esc_str(o->agent));
        if (o->agent)
                buf_addf(out, "        agent %s\n", o->agent);
        if (o->isolation && strcmp(o->isolation, "vm") != 0 && strcmp(o->isolation, "namespace") != 0)
                return cli_usage(cli, "--isolation is `namespace` or `vm`, not `%s`", esc_str(o->isolation));
        if (o->isolation)
                buf_addf(out, "        isolation %s\n", o->isolation);
        if (o->memory)
                buf_addf(out, "        memory %s\n", o->memory);
        if (o->processes)
                buf_addf(out, "        processes %s\n", o->processes);
        for (size_t i = 0; i < o->env_count && rc == EXIT_OK; i++) {
                const char *eq = strchr(o->env[i], '=');
                size_t n = eq ? (size_t)(eq - o->env[i]) : 0;
                if (!n || strspn(o->env[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
                        return cli_usage(cli, "--env takes NAME=VALUE");
                buf_addf(out, "        env %.*s ", (int)n, o->env[i]);
                session_string(out, eq + 1);
                buf_add_str(out, "\n");
        }
        if (rc == EXIT_OK)
                rc = add_rules(o, out);
        buf_add_str(out, "}\n");
        return rc;
}

int session_not_running(const char *workspace, const char *state)
{
        char hint[160];

        if (strcmp(state, "compromised") == 0)
                return cli_fail_hint(EXIT_NO, "`brome alerts` says what happened and how to decide", "%s is compromised", workspace);
        if (strcmp(state, "frozen") == 0)
                snprintf(hint, sizeof(hint), "`brome workspace resume %s` lets it go on", workspace);
        else
                snprintf(hint, sizeof(hint), "`brome workspace start %s` starts it", workspace);
        return cli_fail_hint(EXIT_NO, hint, strcmp(state, "frozen") == 0 ? "%s is paused" : "%s does not run", workspace);
}

/* ---- exec ---- */

static json_t *exec_body(const struct session_exec *e, struct winsize ws)
{
        static const char *const passed[] = { "TERM", "COLORTERM", "LANG", "LC_ALL", "TZ", "NO_COLOR" };
        json_t *argv = json_array(), *env = json_object();
        bool whole = true;

        for (size_t i = 0; e->argv[i]; i++)
                whole = json_array_append_new(argv, json_string(e->argv[i])) == 0 && whole;
        for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
                if (getenv(passed[i]))
                        (void)json_object_set_new(env, passed[i], json_string(getenv(passed[i])));
        for (size_t i = 0; i < e->env_count; i++) {
                const char *eq = strchr(e->env[i], '=');
                whole = eq && json_object_setn_new(env, e->env[i], (size_t)(eq - e->env[i]), json_string(eq + 1)) == 0 && whole;
        }
        /* An argument left out would make the next one take its place. */
        if (!whole) {
                json_decref(argv);
                json_decref(env);
                return NULL;
        }
        return json_pack("{s:s, s:o, s:o, s:s*, s:b, s:i, s:i}", "workspace", e->workspace, "argv", argv, "env", env, "cwd", e->cwd, "pty", e->pty,
                         "rows", ws.ws_row ? ws.ws_row : 24, "cols", ws.ws_col ? ws.ws_col : 80);
}

int session_stream(struct cli *cli, struct control *c, const struct session_exec *e, int *fd)
{
        json_t *body = exec_body(e, (struct winsize){ 0 });
        struct chan_msg answer;
        int rc;

        if (!body)
                return cli_fail(EXIT_NO, "a name is not UTF-8; a request cannot carry it");
        rc = session_call(cli, c, "exec", body, SLICE_EMPTY, &answer);
        if (rc != EXIT_OK)
                return rc;
        *fd = chan_take_fd(&answer, 0);
        chan_msg_fini(&answer);
        return *fd < 0 ? cli_fail(EXIT_DAEMON, "the supervisor answered without a stream") : EXIT_OK;
}

static void note_line(const char *text) { cli_note("%s", text); }

/* From now on bromed says on this connection what needs a person. Without it the program runs all the same. */
static bool watch(struct control *c, const char *workspace, bool hears)
{
        return chan_send(c->fd, json_pack("{s:s, s:I, s:s, s:b}", "op", "watch", "id", (json_int_t)++c->last_id, "workspace", workspace, "hears", hears), NULL, 0) == 0;
}

int session_exec(struct cli *cli, struct control *c, const struct session_exec *e)
{
        bool hears = !attach_wants_pty() && !isatty(STDERR_FILENO); /* into a log, where it will be read when it is too late to answer */
        struct attach_watch watching = { .fd = c->fd, .last_id = &c->last_id, .note = note_line, .leaves = e->owns && hears };
        struct winsize ws = { 0 };
        struct chan_msg answer;
        json_t *body;
        int stream, rc;

        if (e->pty && ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0)
                ws = (struct winsize){ 0 };
        body = exec_body(e, ws);
        if (!body)
                return cli_fail(EXIT_BROME, "an argument or a variable is not UTF-8 (or --env is not NAME=VALUE); a request cannot carry it");
        rc = session_call(cli, c, "exec", body, SLICE_EMPTY, &answer);
        if (rc != EXIT_OK)
                return EXIT_BROME;
        stream = chan_take_fd(&answer, 0);
        chan_msg_fini(&answer);
        if (stream < 0)
                return cli_fail(EXIT_BROME, "the supervisor answered without a stream");
        return attach_run(stream, &(struct attach_options){ .pty = e->pty, .watch = watch(c, e->workspace, hears) ? &watching : NULL });
}

/* ---- the end of a session ---- */

static void list_changed(const struct cli *cli, json_t *changed, long long more)
{
        json_t *path;
        size_t i;

        if ((json_array_size(changed) || more > 0) && !cli->json)
                cli_note("changed in your shares, and your host may execute it:");
        json_array_foreach(changed, i, path)
                if (json_is_string(path) && cli->json)
                        cli_note("changed in your shares, and your host may execute it: %s", esc_str(json_string_value(path)));
                else if (json_is_string(path))
                        fprintf(stderr, "  %s\n", esc_str(json_string_value(path)));
        if (more > 0)
                cli_note("and %lld more file%s that your host may execute changed in your shares", more, more == 1 ? "" : "s");
}

static void tell_kept_out(json_t *entry)
{
        const char *path = json_string_value(json_object_get(entry, "path")), *keys = json_string_value(json_object_get(entry, "keys"));
        const char *error = json_string_value(json_object_get(entry, "error"));
        json_int_t count = json_integer_value(json_object_get(entry, "count"));

        if (path && error)
                cli_note("%s stays as it was before: %s", esc_str(path), esc_str(error));
        else if (path && keys)
                cli_note("%s: %lld git setting%s of the workspace %s not carried back: %s", esc_str(path), (long long)count, count == 1 ? "" : "s", count == 1 ? "was" : "were", esc_str(keys));
}

void session_aftermath(const struct cli *cli, const struct chan_msg *answer)
{
        json_t *entry;
        size_t i;

        list_changed(cli, json_object_get(answer->body, "changed"), chan_int(answer, "changed_more", 0));
        json_array_foreach(json_object_get(answer->body, "kept_out"), i, entry)
                tell_kept_out(entry);
}

struct refusals {
        struct buf out;
        enum print_form form;
        size_t count;
};

static int on_refusal(void *ctx, const struct refusal_row *row)
{
        struct refusals *r = ctx;

        if (r->count++ == 0 && r->form == PRINT_TEXT)
                buf_add_str(&r->out, "brome: refused in this session:\n");
        return print_refusal(&r->out, r->form, row) < 0;
}

void session_refusals(struct cli *cli, const char *workspace, uint64_t session)
{
        struct filter filter = { .workspace = slice_str(workspace), .session = session };
        struct refusals r = { .form = cli->json ? PRINT_JSON : PRINT_TEXT };
        struct err err = ERR_INIT;
        struct reader *reader = reader_open(cli->paths.state, &err);

        if (!reader)
                return;
        buf_init(&r.out, 256 * 1024);
        if (reader_refusals(reader, &filter, on_refusal, &r, &err) < 0)
                cli_note("the refusals could not be read: %s", err.text);
        reader_close(reader);
        if (r.count && fd_write_all(STDERR_FILENO, buf_slice(&r.out).p, buf_len(&r.out)) < 0) {
                /* Nobody to tell. */
        }
        buf_fini(&r.out);
}
