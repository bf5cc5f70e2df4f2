/* brome credential add: a block in brome.conf and a secret where the block says. The block is parsed before anybody is asked for a secret, and is in
 * force only when the secret is kept. */
#include "cli/ask.h"
#include "cli/credential.h"
#include "cli/session.h"
#include "base/esc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct add {
        struct credential_draft draft;
        const char *kind, *file, *env, *command, *key_file;
        struct vault_want want;
        char hosts[4096], path[PATH_MAX], key_path[PATH_MAX];
};

static int known_kinds(const struct cli *cli, const char *kind)
{
        char list[400] = "";

        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++)
                snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", k ? ", " : "", kind_row((enum account_kind)k)->name);
        return kind ? cli_usage(cli, "there is no kind `%s`; there are %s", esc_str(kind), list) : cli_usage(cli, "of which kind? --kind is one of %s", list);
}

/* An absolute path: the block's own would be looked for from the configuration's folder. */
static int absolute(const struct cli *cli, const char *path, char out[PATH_MAX])
{
        char cwd[PATH_MAX];

        if (path[0] == '/' || path[0] == '~')
                return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX ? EXIT_OK : cli_usage(cli, "too long a path");
        return getcwd(cwd, sizeof(cwd)) && snprintf(out, PATH_MAX, "%s/%s", cwd, path) < PATH_MAX ? EXIT_OK : cli_usage(cli, "too long a path");
}

static int set_source(const struct cli *cli, struct add *a)
{
        struct credential_draft *d = &a->draft;

        if (!!a->file + !!a->env + !!a->command > 1)
                return cli_usage(cli, "the secret comes from one place: --file, --env or --command");
        d->source = a->file ? SECRET_FILE : a->env ? SECRET_ENV : a->command ? SECRET_COMMAND : SECRET_VAULT;
        d->value = a->env ? a->env : a->command;
        if (d->source == SECRET_ENV && strspn(a->env, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != strlen(a->env))
                return cli_usage(cli, "--env takes the name of a variable of yours; its value never stands on a command line");
        if ((a->key_file || a->want.root) && d->source != SECRET_VAULT)
                return cli_usage(cli, "%s is about the vault, and this secret is not kept in it", a->key_file ? "--key-file" : "--root");
        if (a->file) {
                d->value = a->path;
                return absolute(cli, a->file, a->path);
        }
        return EXIT_OK;
}

static int set_hosts(const struct cli *cli, struct add *a, const char *const *given, size_t count)
{
        const char *otherwise = kind_row(a->draft.kind)->default_host;
        size_t n = 0;

        if (!count && !otherwise)
                return cli_usage(cli, "for which hosts? --for api.example,other.example:8443");
        for (size_t i = 0; i < count && n < sizeof(a->hosts); i++)
                n += (size_t)snprintf(a->hosts + n, sizeof(a->hosts) - n, "%s%s", i ? "," : "", given[i]);
        if (n >= sizeof(a->hosts))
                return cli_usage(cli, "that are too many hosts for one credential");
        if (!count)
                snprintf(a->hosts, sizeof(a->hosts), "%s", otherwise);
        a->draft.hosts = a->hosts;
        return EXIT_OK;
}

/* EXIT_OK, an exit code, or -2: the help was printed. */
static int parse_add(struct cli *cli, int argc, char **argv, struct add *a)
{
        const char *hosts[32];
        size_t host_count = 0;
        struct credential_draft *d = &a->draft;
        const struct cli_option options[] = {
                { .name = "kind", .text = &a->kind },       { .name = "for", .many = hosts, .many_count = &host_count, .many_max = 32 },
                { .name = "ask", .flag = &d->ask },         { .name = "attach", .flag = &d->attach },
                { .name = "as-env", .text = &d->as_env },   { .name = "user", .text = &d->user },
                { .name = "header", .text = &d->header },   { .name = "file", .text = &a->file },
                { .name = "command", .text = &a->command }, { .name = "env", .text = &a->env },
                { .name = "key-file", .text = &a->key_file }, { .name = "root", .text = &a->want.root },
        };
        int at = cli_options(cli, argc, argv, options, sizeof(options) / sizeof(options[0])), rc;

        if (at < 0)
                return at == -2 ? -2 : EXIT_USAGE_;
        if (argc - at != 1)
                return cli_usage(cli, argc == at ? "which name shall it have?" : "one credential at a time; a secret is never an operand");
        d->name = argv[at];
        if (!credential_name_ok(d->name))
                return cli_usage(cli, "`%s` is no credential's name: lower case letters, digits and -, at most 63", esc_str(d->name));
        d->kind = a->kind ? kind_by_name(slice_str(a->kind)) : ACCOUNT_KIND_COUNT;
        if (d->kind == ACCOUNT_KIND_COUNT)
                return known_kinds(cli, a->kind);
        if (d->as_env && strspn(d->as_env, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != strlen(d->as_env))
                return cli_usage(cli, "--as-env takes the name of a variable");
        rc = set_source(cli, a);
        if (rc == EXIT_OK && a->key_file) {
                rc = absolute(cli, a->key_file, a->key_path);
                a->want.key_file = a->key_path;
        }
        if (rc == EXIT_OK)
                rc = vault_want_check(cli, &a->want);
        return rc == EXIT_OK ? set_hosts(cli, a, hosts, host_count) : rc;
}

static int read_secret(const struct add *a, struct secret *s, struct err *err)
{
        char prompt[128];

        if (a->draft.source != SECRET_VAULT)
                return secret_from_source(s, a->draft.source, a->draft.value, ".", err);
        if (!isatty(STDIN_FILENO))
                return secret_from_input(s, err);
        snprintf(prompt, sizeof(prompt), "brome: the secret of %s (nothing is shown): ", a->draft.name);
        return secret_from_terminal(s, prompt, err);
}

static int keep_secret(struct cli *cli, struct control *c, const struct add *a, const struct secret *s)
{
        json_t *body;
        int rc;

        if (a->draft.source != SECRET_VAULT)
                return EXIT_OK; /* it stays where it is; a session's start brings it */
        body = json_pack("{s:s}", "name", a->draft.name);
        rc = vault_ready(cli, c, &a->want);
        if (rc == EXIT_OK)
                return secret_call(cli, c, "vault.put", body, "secret", secret_slice(s));
        json_decref(body);
        return rc;
}

static int add(struct cli *cli, struct control *c, struct confedit *e, const struct add *a, struct secret *s)
{
        struct err err = ERR_INIT;
        int rc = credential_prepare(cli, e, &a->draft, 1);

        if (rc != EXIT_OK)
                return rc;
        if (secret_open(s, &err) < 0)
                return cli_fail(EXIT_HOST, "%s", err.text);
        if (read_secret(a, s, &err) < 0 || secret_check(s, a->draft.kind, a->draft.name, &err) < 0)
                return cli_fail_hint(EXIT_NO, "nothing was changed", "%s", err.text);
        rc = session_connect(cli, c, true);
        if (rc == EXIT_OK)
                rc = keep_secret(cli, c, a, s);
        if (rc == EXIT_OK)
                rc = confedit_commit(e);
        return rc == EXIT_OK ? credential_reload(cli, c) : rc;
}

int cmd_credential_add(struct cli *cli, int argc, char **argv)
{
        static struct add a;
        struct control c = { .fd = -1 };
        struct secret s = { 0 };
        struct confedit e;
        int rc = parse_add(cli, argc, argv, &a);

        if (rc != EXIT_OK)
                return rc == -2 ? EXIT_OK : rc;
        rc = confedit_open(cli, &e);
        if (rc == EXIT_OK)
                rc = add(cli, &c, &e, &a, &s);
        secret_close(&s);
        control_close(&c);
        if (rc == EXIT_OK)
                cli_note("added to %s; a workspace that has `credential { %s }` in its block gets a placeholder for it", esc_str(e.file), a.draft.name);
        confedit_close(&e);
        return rc;
}
