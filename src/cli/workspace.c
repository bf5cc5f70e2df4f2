/* brome workspace …, daemon …, reload: state kept by bromed, asked for over the control socket. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/ask.h"
#include "cli/describe.h"
#include "cli/local.h"
#include "cli/secret.h"
#include "cli/session.h"
#include "files/loader.h"
#include "journal/print.h"
#include "rules/config.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STOP_WAIT_MS = 30 * 1000 }; /* every session ends within its grace before */

/* One operand that is a workspace's name. NULL after the usage error; *code is what to return. */
static const char *one_name(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count, int *code)
{
        int at = cli_options(cli, argc, argv, options, count);
        const char *name;

        *code = at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < 0)
                return NULL;
        if (at >= argc) {
                cli_usage(cli, "which workspace?");
                return NULL;
        }
        name = argv[at++];
        if (at < argc) {
                cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
                return NULL;
        }
        if (!cli_name_ok(name)) {
                cli_usage(cli, "`%s` is no workspace's name: lower case letters, digits, - and _, at most 63", esc_str(name));
                return NULL;
        }
        return name;
}

static const char *member(json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

static void print_object(json_t *o)
{
        char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

        if (text)
                puts(text);
        free(text);
}

/* Workspaces of a configuration that no daemon holds. */
static int list_configured(struct cli *cli)
{
        struct diags errors = { 0 };
        struct config *c = local_config(cli, NULL, &errors);

        if (!c)
                return local_diags(&errors);
        if (!cli->json)
                printf("%-24s %-11s %8s  %s\n", "WORKSPACE", "STATE", "SESSION", "KIND");
        for (size_t i = 0; i < config_workspace_count(c); i++) {
                const struct config_workspace *w = config_workspace_at(c, i);
                if (cli->json)
                        printf("{\"workspace\":\"%.*s\",\"state\":\"stopped\",\"isolation\":\"%s\"}\n", SLICE_FMT(w->name), w->isolation == ISOLATION_VM ? "vm" : "namespace");
                else
                        printf("%-24.*s %-11s %8s  %s\n", SLICE_FMT(w->name), "stopped", "-", w->isolation == ISOLATION_VM ? "vm" : "namespace");
        }
        config_free(c);
        return EXIT_OK;
}

/* Out of `compromised` only a person leads: how. */
static void print_way_out(const char *name)
{
        printf("    `brome alerts %s` says what happened; then `brome workspace wipe %s`, `stop --save-evidence %s` or `thaw --continue %s`\n", name, name, name, name);
}

int cmd_workspace_ls(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct control_options options = { .paths = &cli->paths, .config = cli->config_override };
        struct chan_msg answer;
        struct err err = ERR_INIT;
        json_t *row;
        size_t i;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        rc = control_connect(&c, &options, &err);
        if (rc == 1)
                return list_configured(cli);
        if (rc < 0)
                return cli_fail(EXIT_DAEMON, "%s", err.text);
        rc = session_call(cli, &c, "status", NULL, SLICE_EMPTY, &answer);
        control_close(&c);
        if (rc != EXIT_OK)
                return rc;
        if (!cli->json)
                printf("%-24s %-11s %8s  %s\n", "WORKSPACE", "STATE", "SESSION", "KIND");
        json_array_foreach(json_object_get(answer.body, "workspaces"), i, row) {
                json_int_t session = json_integer_value(json_object_get(row, "session"));
                const char *name = *member(row, "workspace") ? member(row, "workspace") : member(row, "name");
                if (cli->json)
                        print_object(row);
                else if (session && strcmp(member(row, "state"), "stopped") != 0)
                        printf("%-24s %-11s %8lld  %s\n", esc_str(name), esc_str(member(row, "state")), (long long)session, esc_str(member(row, "isolation")));
                else
                        printf("%-24s %-11s %8s  %s\n", esc_str(name), esc_str(member(row, "state")), "-", esc_str(member(row, "isolation")));
                if (!cli->json && strcmp(member(row, "state"), "compromised") == 0 && cli_name_ok(name))
                        print_way_out(name);
        }
        chan_msg_fini(&answer);
        return EXIT_OK;
}

int cmd_workspace_new(struct cli *cli, int argc, char **argv)
{
        struct session_options o = { 0 };
        const char *file = NULL, *name;
        const struct cli_option options[] = {
                { .name = "allow", .many = o.allow, .many_count = &o.allow_count, .many_max = 64 },
                { .name = "share", .many = o.share, .many_count = &o.share_count, .many_max = 32 },
                { .name = "env", .many = o.env, .many_count = &o.env_count, .many_max = 64 },
                { .name = "memory", .text = &o.memory },
                { .name = "isolation", .text = &o.isolation },
                { .name = "agent", .text = &o.agent },
                { .name = "credential", .many = o.credential, .many_count = &o.credential_count, .many_max = 64 },
                { .name = "processes", .text = &o.processes },
                { .name = "file", .text = &file },
        };
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        struct err err = ERR_INIT;
        struct buf block;
        int rc;

        name = one_name(cli, argc, argv, options, sizeof(options) / sizeof(options[0]), &rc);
        if (!name)
                return rc;
        buf_init(&block, 0);
        if (file)
                rc = local_read(file, &block, &err) < 0 ? cli_fail(EXIT_USAGE_, "%s", err.text) : EXIT_OK;
        else
                rc = session_block(cli, &o, name, &block);
        if (rc == EXIT_OK)
                rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK)
                rc = session_call(cli, &c, "workspace.new", json_pack("{s:s}", "name", name), buf_slice(&block), &answer);
        buf_fini(&block);
        if (rc == EXIT_OK) {
                chan_msg_fini(&answer);
                cli_note("saved; `brome run %s -- COMMAND` runs a command in it", name);
        }
        control_close(&c);
        return rc;
}

/* One request about one workspace; *answer is the caller's when EXIT_OK. */
static int about(struct cli *cli, const char *op, const char *key, const char *name, struct chan_msg *answer)
{
        return session_ask(cli, op, json_pack("{s:s}", key, name), answer);
}

static int simple(struct cli *cli, int argc, char **argv, const char *op, const char *key)
{
        struct chan_msg answer;
        int rc;
        const char *name = one_name(cli, argc, argv, NULL, 0, &rc);

        if (!name)
                return rc;
        rc = about(cli, op, key, name, &answer);
        if (rc != EXIT_OK)
                return rc;
        if (*chan_str(&answer, "text", ""))
                cli_note("%s", esc_str(chan_str(&answer, "text", "")));
        chan_msg_fini(&answer);
        return rc;
}

int cmd_workspace_rm(struct cli *cli, int argc, char **argv) { return simple(cli, argc, argv, "workspace.rm", "name"); }
int cmd_workspace_freeze(struct cli *cli, int argc, char **argv) { return simple(cli, argc, argv, "freeze", "workspace"); }

int cmd_workspace_pause(struct cli *cli, int argc, char **argv) { return simple(cli, argc, argv, "freeze", "workspace"); }
int cmd_workspace_resume(struct cli *cli, int argc, char **argv) { return simple(cli, argc, argv, "thaw", "workspace"); }

/* Out of `compromised` only a person's word leads: --continue. */
int cmd_workspace_thaw(struct cli *cli, int argc, char **argv)
{
        bool go_on = false;
        const struct cli_option options[] = { { .name = "continue", .flag = &go_on } };
        struct chan_msg answer;
        int rc;
        const char *name = one_name(cli, argc, argv, options, 1, &rc);

        if (!name)
                return rc;
        rc = session_ask(cli, "thaw", json_pack("{s:s, s:b}", "workspace", name, "continue", go_on), &answer);
        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        return rc;
}

int cmd_workspace_wipe(struct cli *cli, int argc, char **argv)
{
        bool yes = false;
        const struct cli_option options[] = { { .name = "yes", .flag = &yes } };
        struct chan_msg answer;
        char question[256];
        int rc;
        const char *name = one_name(cli, argc, argv, options, 1, &rc);

        if (!name)
                return rc;
        snprintf(question, sizeof(question), "wipe %s: it is stopped, and its home, layers and placeholders are removed; shares stay as they are. Go on?", name);
        if (!yes && !ask_possible())
                return cli_fail_hint(EXIT_NO, "--yes says that it is meant", "nothing was wiped: there is no terminal to ask on");
        if (!yes && !ask_yes(question))
                return cli_fail(EXIT_NO, "nothing was wiped");
        rc = session_ask(cli, "workspace.wipe", json_pack("{s:s}", "name", name), &answer);
        if (rc == EXIT_OK) {
                cli_note("%s is wiped; its configuration is as it was", name);
                chan_msg_fini(&answer);
        }
        return rc;
}

int cmd_workspace_describe(struct cli *cli, int argc, char **argv)
{
        struct chan_msg answer;
        int rc;
        const char *name = one_name(cli, argc, argv, NULL, 0, &rc);

        if (!name)
                return rc;
        rc = about(cli, "workspace.describe", "workspace", name, &answer);
        if (rc != EXIT_OK)
                return rc;
        json_object_del(answer.body, "id");
        if (cli->json) {
                json_object_del(answer.body, "fds");
                json_object_del(answer.body, "op");
                print_object(answer.body);
                answer.op = NULL;
        } else {
                describe_workspace(answer.body);
        }
        chan_msg_fini(&answer);
        return EXIT_OK;
}

int cmd_workspace_start(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        bool no_build = false;
        const struct cli_option options[] = { { .name = "no-build", .flag = &no_build } };
        int rc;
        const char *name = one_name(cli, argc, argv, options, 1, &rc);

        if (!name)
                return rc;
        rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK && !no_build)
                rc = session_image(cli, &c, name);
        if (rc == EXIT_OK)
                rc = needs_bring(cli, &c, name, SLICE_EMPTY);
        if (rc != EXIT_OK) {
                control_close(&c);
                return rc;
        }
        rc = session_open(cli, &c, &(struct session_opening){ .workspace = name, .name = name, .keep = true }, &answer);
        if (rc == EXIT_OK) {
                session_warnings(&answer);
                cli_note("%s runs; `brome shell %s` opens a shell, `brome workspace stop %s` ends it", name, name, name);
                chan_msg_fini(&answer);
        }
        control_close(&c);
        return rc;
}

int cmd_workspace_stop(struct cli *cli, int argc, char **argv)
{
        bool force = false, evidence = false;
        const struct cli_option options[] = { { .name = "force", .flag = &force }, { .name = "save-evidence", .flag = &evidence } };
        struct chan_msg answer;
        int rc;
        const char *name = one_name(cli, argc, argv, options, 2, &rc);

        if (!name)
                return rc;
        rc = session_ask(cli, "session.close", json_pack("{s:s, s:b, s:b}", "workspace", name, "force", force, "evidence", evidence), &answer);
        if (rc == EXIT_OK) {
                session_aftermath(cli, &answer);
                if (*chan_str(&answer, "evidence", ""))
                        cli_note("the evidence is in %s", esc_str(chan_str(&answer, "evidence", "")));
                else if (evidence)
                        cli_note("no evidence was kept; the supervisor's log is %s/bromed.log", cli->paths.runtime);
                chan_msg_fini(&answer);
        }
        return rc;
}

static int no_operands(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at;
        if (at < argc) {
                cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
                return -1;
        }
        return 0;
}

int cmd_reload(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        int rc = no_operands(cli, argc, argv);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_connect(cli, &c, false);
        if (rc == EXIT_OK)
                rc = session_call(cli, &c, "reload", NULL, SLICE_EMPTY, &answer);
        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        control_close(&c);
        return rc;
}

int cmd_daemon_start(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        int rc = no_operands(cli, argc, argv);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK)
                cli_note("the supervisor runs (pid %lld)", c.pid);
        control_close(&c);
        return rc;
}

int cmd_daemon_stop(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct control_options options = { .paths = &cli->paths };
        struct chan_msg answer;
        struct err err = ERR_INIT;
        int rc = no_operands(cli, argc, argv), pidfd;

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = control_connect(&c, &options, &err);
        if (rc == 1) {
                cli_note("the supervisor is not running");
                return EXIT_OK;
        }
        if (rc < 0)
                return cli_fail(EXIT_DAEMON, "%s", err.text);
        /* The answer says that it ends; the next start needs it gone. */
        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)c.pid, 0);
        rc = session_call(cli, &c, "stop", NULL, SLICE_EMPTY, &answer);
        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        control_close(&c);
        if (rc == EXIT_OK && pidfd >= 0 && poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, STOP_WAIT_MS) == 0)
                rc = cli_fail(EXIT_DAEMON, "the supervisor (process %lld) has not ended after %d s", c.pid, STOP_WAIT_MS / 1000);
        fd_close(&pidfd);
        return rc;
}

int cmd_daemon_restart(struct cli *cli, int argc, char **argv)
{
        struct diags errors = { 0 };
        struct config *c = local_config(cli, NULL, &errors);
        int rc;

        /* What would not start again is not stopped. */
        if (!c)
                return local_diags(&errors);
        config_free(c);
        rc = cmd_daemon_stop(cli, argc, argv);
        return rc == EXIT_OK ? cmd_daemon_start(cli, argc, argv) : rc;
}

int cmd_daemon_status(struct cli *cli, int argc, char **argv)
{
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        int rc = no_operands(cli, argc, argv);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_connect(cli, &c, false);
        if (rc != EXIT_OK)
                return rc;
        rc = session_call(cli, &c, "status", NULL, SLICE_EMPTY, &answer);
        if (rc == EXIT_OK) {
                json_object_del(answer.body, "id");
                json_object_set_new(answer.body, "pid", json_integer(c.pid));
                if (cli->json)
                        print_object(answer.body);
                else
                        describe_supervisor(answer.body);
                chan_msg_fini(&answer);
        }
        control_close(&c);
        return rc;
}
