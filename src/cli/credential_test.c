/* brome credential test: one harmless authenticated request by a workspace that exists for it alone. It takes the way that every request takes: the guest
 * holds a placeholder, the gate judges, asks if it has to, and swaps; what comes back is the vendor's own status. */
#include "attach/attach.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/credential.h"
#include "cli/local.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { HTTPS_PORT = 443, TEST_ANSWER_BYTES = 4096, TEST_PATH_BYTES = 512 };

struct trial {
        char workspace[32], url[1024], variable[128], header[128], user[272];
        const char *method, *path, *prefix, *extra;
        struct slice host;
        unsigned port;
};

/* The workspace has curl when this machine has it: its /usr is this one's. $1 variable, $2 header, $3 what stands before the secret, $4 user of Basic, $5 method,
 * $6 URL, $7 a further header. */
static const char script[] =
        "command -v curl >/dev/null || { echo no-curl; exit 0; }\n"
        "secret=; [ -z \"$1\" ] || secret=$(printenv \"$1\")\n"
        "set -- \"$2\" \"$3\" \"$4\" \"$5\" \"$6\" \"$7\"\n"
        "if [ -z \"$secret\" ]; then set -- \"$4\" \"$5\" -H \"$6\"\n"
        "elif [ -n \"$3\" ]; then set -- \"$4\" \"$5\" -H \"$6\" -u \"$3:$secret\"\n"
        "else set -- \"$4\" \"$5\" -H \"$6\" -H \"$1: $2$secret\"; fi\n"
        "method=$1; url=$2; shift 2\n"
        "[ \"$method\" = HEAD ] && set -- \"$@\" -I\n"
        "exec curl -sS -o /dev/null -w '%{http_code}' --max-time 90 --no-netrc -X \"$method\" \"$@\" \"$url\"\n";

/* Where the kind's clients put it. */
static void choose_field(const struct config_credential *c, struct trial *t)
{
        const struct account_field *f = &c->b.fields[0];

        snprintf(t->header, sizeof(t->header), "Authorization");
        t->prefix = c->b.kind == ACCOUNT_CARGO ? "" : "Bearer ";
        t->extra = c->b.kind == ACCOUNT_ANTHROPIC ? "anthropic-version: 2023-06-01" : "accept: */*";
        if (!c->b.field_count)
                return;
        if (f->slot == SLOT_HEADER) {
                snprintf(t->header, sizeof(t->header), "%.*s", SLICE_FMT(f->name));
                t->prefix = "";
        } else if (f->slot == SLOT_BASIC) {
                const char *of_kind = kind_row(c->b.kind)->user;
                struct slice user = c->b.user.n ? c->b.user : slice_str(of_kind ? of_kind : "brome");
                snprintf(t->user, sizeof(t->user), "%.*s", SLICE_FMT(user));
        }
}

static int choose_variable(const struct cli *cli, const struct config_credential *c, struct trial *t)
{
        const struct kind_row *row = kind_row(c->b.kind);

        if (c->b.attach)
                return EXIT_OK;
        if (c->as_env.n && c->as_env.n < sizeof(t->variable))
                snprintf(t->variable, sizeof(t->variable), "%.*s", SLICE_FMT(c->as_env));
        else if (row->env[0])
                snprintf(t->variable, sizeof(t->variable), "%s", row->env[0]);
        (void)cli;
        return t->variable[0] ? EXIT_OK
                              : cli_fail_hint(EXIT_NO, "`as env NAME` in its block gives it one", "no variable of a workspace holds the placeholder of %.*s, so a test cannot find it",
                                              SLICE_FMT(c->b.name));
}

static int choose(const struct cli *cli, const struct config_credential *c, struct trial *t)
{
        const struct kind_row *row = kind_row(c->b.kind);
        unsigned char id[3];

        if (!t->path)
                t->path = row->test_path;
        if (!t->method)
                t->method = row->test_method ? row->test_method : "GET";
        if (!t->path)
                return cli_usage(cli, "no harmless request is known for the kind %s; name one: --path /PATH [--method METHOD]", row->name);
        if (t->path[0] != '/' || strpbrk(t->path, " \"\\\n\r\t"))
                return cli_usage(cli, "--path begins with / and has no blanks or quotes");
        if (strspn(t->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(t->method) || !*t->method)
                return cli_usage(cli, "--method is a word in capital letters");
        if (!c->b.host_count)
                return cli_fail(EXIT_CONFIG_, "the credential has no host");
        t->host = c->b.hosts[0].name;
        t->port = c->b.hosts[0].port;
        choose_field(c, t);
        if (getrandom(id, sizeof(id), 0) != sizeof(id))
                return cli_fail(EXIT_INTERNAL, "no random numbers");
        snprintf(t->workspace, sizeof(t->workspace), "test-%02x%02x%02x", id[0], id[1], id[2]);
        if (strlen(t->path) > TEST_PATH_BYTES)
                return cli_usage(cli, "too long a path");
        if (t->port == HTTPS_PORT)
                snprintf(t->url, sizeof(t->url), "https://%.*s%s", SLICE_FMT(t->host), t->path);
        else
                snprintf(t->url, sizeof(t->url), "https://%.*s:%u%s", SLICE_FMT(t->host), t->port, t->path);
        return choose_variable(cli, c, t);
}

/* Exactly that request and nothing else. */
static void test_block(const struct config_credential *c, const struct trial *t, struct buf *out)
{
        size_t n = strcspn(t->path, "?");

        buf_addf(out, "workspace %s {\n        credential %.*s\n        rules {\n                allow web %.*s:%u path \"%.*s\" %s\n        }\n}\n", t->workspace, SLICE_FMT(c->b.name),
                 SLICE_FMT(t->host), t->port, (int)n, t->path, t->method);
}

/* Runs it with standard output in a memory file: the status is ours to print. */
static int run_it(struct cli *cli, struct control *control, const struct trial *t, char *text, size_t size)
{
        const char *argv[] = { "/bin/sh", "-c", script, "brome-test", t->variable, t->header, t->prefix, t->user, t->method, t->url, t->extra, NULL };
        int out = memfd_create("brome-test", MFD_CLOEXEC), kept = dup(STDOUT_FILENO), rc;
        ssize_t n;

        if (out < 0 || kept < 0 || dup2(out, STDOUT_FILENO) < 0) {
                rc = cli_fail(EXIT_INTERNAL, "no memory file");
        } else {
                rc = session_exec(cli, control, &(struct session_exec){ .workspace = t->workspace, .argv = argv });
                (void)!dup2(kept, STDOUT_FILENO);
        }
        n = out >= 0 ? pread(out, text, size - 1, 0) : -1;
        text[n > 0 ? n : 0] = 0;
        fd_close(&out);
        fd_close(&kept);
        return rc;
}

static int verdict(struct cli *cli, const char *name, const struct trial *t, const char *text, int rc)
{
        int status = rc == 0 && strlen(text) == 3 && strspn(text, "0123456789") == 3 ? (int)strtol(text, NULL, 10) : 0;

        if (strcmp(text, "no-curl") == 0)
                return cli_fail_hint(EXIT_HOST, "install curl", "the test asks with curl, which this machine lacks");
        if (!status)
                return cli_fail(rc == EXIT_BROME ? EXIT_DAEMON : EXIT_NO, "%s: no answer came from %s", name, t->url);
        if (cli->json)
                printf("{\"credential\":\"%s\",\"method\":\"%s\",\"url\":\"%s\",\"status\":%d,\"good\":%s}\n", name, t->method, t->url, status, status < 300 ? "true" : "false");
        else
                printf("%s: %s %s: %d%s\n", name, t->method, t->url, status,
                       status < 300 ? ", it works" : status == 401 || status == 403 ? ", it is not accepted" : status >= 500 ? ", the host has trouble, or the gate refused" : "");
        return status < 300 ? EXIT_OK : EXIT_NO;
}

static int try_it(struct cli *cli, const char *name, const struct config_credential *c, struct trial *t)
{
        struct control control = { .fd = -1 };
        struct chan_msg answer;
        struct buf block;
        char text[TEST_ANSWER_BYTES];
        uint64_t session;
        int rc = session_connect(cli, &control, true);

        buf_init(&block, 0);
        test_block(c, t, &block);
        if (rc == EXIT_OK)
                rc = needs_bring(cli, &control, NULL, buf_slice(&block));
        if (rc == EXIT_OK)
                rc = session_call(cli, &control, "session.open", json_pack("{s:b, s:b}", "keep", 0, "rm", 1), buf_slice(&block), &answer);
        buf_fini(&block);
        if (rc == EXIT_OK) {
                session = (uint64_t)chan_int(&answer, "session", 0);
                chan_msg_fini(&answer);
                rc = run_it(cli, &control, t, text, sizeof(text));
                rc = verdict(cli, name, t, text, rc);
                if (control_ask(&control, "session.close", json_pack("{s:s, s:b}", "workspace", t->workspace, "force", 1), &answer, &(struct err)ERR_INIT) >= 0)
                        chan_msg_fini(&answer);
                if (rc != EXIT_OK)
                        session_refusals(cli, t->workspace, session);
        }
        control_close(&control);
        return rc;
}

int cmd_credential_test(struct cli *cli, int argc, char **argv)
{
        static struct diags errors;
        struct trial t = { .method = NULL };
        const struct cli_option options[] = { { .name = "path", .text = &t.path }, { .name = "method", .text = &t.method } };
        const struct config_credential *c;
        struct config *config;
        int at = cli_options(cli, argc, argv, options, 2), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1 || !credential_name_ok(argv[at]))
                return cli_usage(cli, "which credential?");
        errors = (struct diags){ 0 };
        config = local_config(cli, NULL, &errors);
        if (!config)
                return local_diags(&errors);
        c = config_credential(config, slice_str(argv[at]));
        rc = c ? choose(cli, c, &t) : cli_fail_hint(EXIT_NO, "`brome credential ls` lists them", "there is no credential %s", argv[at]);
        if (rc == EXIT_OK)
                rc = try_it(cli, argv[at], c, &t);
        config_free(config);
        return rc;
}
