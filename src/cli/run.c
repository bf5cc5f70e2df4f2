/* brome run, shell, exec: a command in a workspace, its exit status passed through. */
#include "cli/cli.h"
#include "base/esc.h"
#include "cli/secret.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static const char *const shell_argv[] = { "/bin/bash", "-l", NULL };

/* Is a folder (without links) this one, links followed, or below it? */
static bool lies_in(const char *cwd, const char *path)
{
        char real[PATH_MAX];
        size_t n;

        if (!realpath(path, real))
                return false;
        n = strlen(real);
        return strncmp(cwd, real, n) == 0 && (cwd[n] == '/' || cwd[n] == 0);
}

/* Is the current folder inside one of the shares? */
static bool shared_cwd(const struct session_options *o, char cwd[PATH_MAX])
{
        char path[PATH_MAX];

        if (!getcwd(cwd, PATH_MAX))
                return false;
        for (size_t i = 0; i < o->share_count; i++) {
                const char *colon = strrchr(o->share[i], ':');
                size_t n = colon && (!strcmp(colon, ":ro") || !strcmp(colon, ":rw") || !strcmp(colon, ":overlay")) ? (size_t)(colon - o->share[i])
                                                                                                                  : strlen(o->share[i]);
                if (n >= sizeof(path))
                        continue;
                memcpy(path, o->share[i], n);
                path[n] = 0;
                if (lies_in(cwd, path))
                        return true;
        }
        return false;
}

/* The same for a saved workspace, as bromed has it: the configuration on disk may not parse just now. */
static bool saved_cwd(struct control *c, const char *workspace, char cwd[PATH_MAX])
{
        struct chan_msg answer;
        struct err quiet = ERR_INIT; /* what is wrong, the next request says */
        json_t *share;
        bool inside = false;
        size_t i;

        if (!getcwd(cwd, PATH_MAX))
                return false;
        if (control_ask(c, "workspace.describe", json_pack("{s:s}", "workspace", workspace), &answer, &quiet) == 0)
                json_array_foreach(json_object_get(answer.body, "shares"), i, share) {
                        const char *path = json_string_value(json_object_get(share, "path"));
                        inside = inside || (path && lies_in(cwd, path));
                }
        chan_msg_fini(&answer);
        return inside;
}

struct run {
        struct session_options o;
        const char *workspace;    /* NULL: throw-away */
        const char *const *argv;  /* the command, or the shell */
        bool rm, pty, no_build;
};

/* Options, an optional workspace, more options, "--", the command. 0, -1 usage error, -2 help. */
static int parse_run(struct cli *cli, int argc, char **argv, struct run *r)
{
        struct session_options *o = &r->o;
        const char *memory = NULL;
        const struct cli_option options[] = {
                { .name = "rm", .flag = &r->rm },
                { .name = "no-build", .flag = &r->no_build },
                { .name = "allow", .many = o->allow, .many_count = &o->allow_count, .many_max = 64 },
                { .name = "share", .many = o->share, .many_count = &o->share_count, .many_max = 32 },
                { .name = "env", .many = o->env, .many_count = &o->env_count, .many_max = 64 },
                { .name = "memory", .text = &memory },
                { .name = "isolation", .text = &o->isolation },
                { .name = "agent", .text = &o->agent },
                { .name = "credential", .many = o->credential, .many_count = &o->credential_count, .many_max = 64 },
                { .name = "directory", .text = &o->cwd },
        };
        size_t count = sizeof(options) / sizeof(options[0]);
        int at = cli_options_before(cli, argc, argv, options, count);

        if (at < 0)
                return at;
        if (at < argc && strcmp(argv[at - 1], "--") != 0) {
                r->workspace = argv[at];
                if (!cli_name_ok(r->workspace)) {
                        cli_usage(cli, "`%s` is no workspace's name; put -- before a command", esc_str(r->workspace));
                        return -1;
                }
                argv += at;
                argc -= at;
                at = cli_options_before(cli, argc, argv, options, count);
                if (at < 0)
                        return at;
                if (at < argc && strcmp(argv[at - 1], "--") != 0) {
                        cli_usage(cli, "put -- before the command: brome run %s -- %s", r->workspace, esc_str(argv[at]));
                        return -1;
                }
        }
        o->memory = memory;
        r->argv = at < argc ? (const char *const *)(argv + at) : shell_argv;
        if (r->workspace && (o->allow_count || o->share_count || o->memory || o->isolation || o->agent || o->credential_count)) {
                cli_usage(cli, "--allow, --share, --agent, --credential, --isolation and --memory make a throw-away workspace; a saved one has its own (brome rules edit %s)", r->workspace);
                return -1;
        }
        return 0;
}

/* The first machine of all makes the image. */
static int make_image(struct cli *cli, struct control *c, const struct run *r)
{
        if (r->no_build)
                return EXIT_OK;
        if (r->workspace)
                return session_image(cli, c, r->workspace);
        return r->o.isolation && strcmp(r->o.isolation, "vm") == 0 ? image_first(cli, NULL) : EXIT_OK;
}

static int open_session(struct cli *cli, struct control *c, struct run *r, char name[64], uint64_t *session)
{
        struct buf block;
        struct chan_msg answer;
        unsigned char id[3];
        int rc;

        buf_init(&block, 0);
        if (r->workspace) {
                snprintf(name, 64, "%s", r->workspace);
        } else {
                if (getrandom(id, sizeof(id), 0) != sizeof(id))
                        return cli_fail(EXIT_BROME, "no random numbers");
                snprintf(name, 64, "run-%02x%02x%02x", id[0], id[1], id[2]);
                rc = session_block(cli, &r->o, name, &block);
                if (rc != EXIT_OK) {
                        buf_fini(&block);
                        return rc;
                }
        }
        rc = make_image(cli, c, r);
        if (rc == EXIT_OK)
                rc = needs_bring(cli, c, r->workspace, buf_slice(&block));
        if (rc != EXIT_OK) {
                buf_fini(&block);
                return rc > 128 || rc == EXIT_CONFIG_ || rc == EXIT_USAGE_ ? rc : EXIT_BROME;
        }
        rc = session_open(cli, c, &(struct session_opening){ .workspace = r->workspace, .name = name, .rm = r->rm || !r->workspace, .block = buf_slice(&block) }, &answer);
        buf_fini(&block);
        if (rc != EXIT_OK)
                return rc == EXIT_CONFIG_ || rc == EXIT_USAGE_ ? rc : EXIT_BROME;
        *session = (uint64_t)chan_int(&answer, "session", 0);
        session_warnings(&answer);
        chan_msg_fini(&answer);
        return EXIT_OK;
}

int cmd_run(struct cli *cli, int argc, char **argv)
{
        struct run r = { 0 };
        struct control c = { .fd = -1 };
        struct chan_msg answer;
        char name[64], cwd[PATH_MAX];
        uint64_t session = 0;
        bool shared;
        int rc = parse_run(cli, argc, argv, &r);

        if (rc < 0)
                return rc == -2 ? EXIT_OK : EXIT_USAGE_;
        rc = session_connect(cli, &c, true);
        if (rc != EXIT_OK)
                return EXIT_BROME;
        rc = open_session(cli, &c, &r, name, &session);
        if (rc != EXIT_OK) {
                control_close(&c);
                return rc;
        }
        shared = r.workspace ? saved_cwd(&c, r.workspace, cwd) : shared_cwd(&r.o, cwd);
        if (!shared && !r.workspace && !r.o.share_count)
                cli_note("this folder is not shared with the workspace; `brome run --share . …` shares it");
        r.pty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        rc = session_exec(cli, &c, &(struct session_exec){ .workspace = name, .cwd = r.o.cwd ? r.o.cwd : shared ? cwd : NULL, .argv = r.argv,
                                                           .env = r.workspace ? r.o.env : NULL, .env_count = r.workspace ? r.o.env_count : 0, .pty = r.pty, .owns = true });
        switch (control_ask(&c, "session.close", json_pack("{s:s, s:b}", "workspace", name, "force", 0), &answer, &(struct err)ERR_INIT)) {
        case 0: session_aftermath(cli, &answer); break;
        case CONTROL_REFUSED: break; /* it has ended already; the timeline says why */
        default: cli_note("the supervisor ended meanwhile, and every session with it; its log is %s/bromed.log", cli->paths.runtime);
        }
        chan_msg_fini(&answer);
        control_close(&c);
        session_refusals(cli, name, session);
        return rc;
}

/* `bring`: whoever sits at the terminal may open the vault for what runs there. */
static int in_running(struct cli *cli, struct session_exec *e, bool bring)
{
        struct control c = { .fd = -1 };
        char cwd[PATH_MAX];
        int rc = session_connect(cli, &c, false);

        if (rc != EXIT_OK)
                return EXIT_BROME;
        if (!e->cwd && cli_name_ok(e->workspace) && saved_cwd(&c, e->workspace, cwd))
                e->cwd = cwd;
        if (bring && needs_bring(cli, &c, e->workspace, SLICE_EMPTY) != EXIT_OK) {
                control_close(&c);
                return EXIT_BROME;
        }
        rc = session_exec(cli, &c, e);
        control_close(&c);
        return rc;
}

int cmd_shell(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1)
                return cli_usage(cli, "which workspace?");
        return in_running(cli, &(struct session_exec){ .workspace = argv[at], .argv = shell_argv,
                                                                 .pty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) }, true);
}

int cmd_exec(struct cli *cli, int argc, char **argv)
{
        const char *env[64], *cwd = NULL;
        size_t env_count = 0;
        bool tty = false, no_tty = false;
        const struct cli_option options[] = {
                { .name = "tty", .flag = &tty },
                { .name = "no-tty", .flag = &no_tty },
                { .name = "env", .many = env, .many_count = &env_count, .many_max = 64 },
                { .name = "directory", .text = &cwd },
        };
        int at = cli_options_before(cli, argc, argv, options, sizeof(options) / sizeof(options[0]));
        const char *workspace;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at >= argc)
                return cli_usage(cli, "which workspace?");
        workspace = argv[at++];
        if (at < argc && strcmp(argv[at], "--") == 0)
                at++;
        if (at >= argc)
                return cli_usage(cli, "which command?");
        return in_running(cli, &(struct session_exec){ .workspace = workspace, .cwd = cwd, .argv = (const char *const *)(argv + at), .env = env,
                                                                  .env_count = env_count,
                                                                  .pty = tty || (!no_tty && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) }, false);
}
