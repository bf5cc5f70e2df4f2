/* brome credential import: a .env file's known variables become credentials in the vault. What is not known stays where it is, with the reason. Values are
 * shown by their first four characters; the file itself is not touched. */
#include "base/esc.h"
#include "base/fd.h"
#include "cli/ask.h"
#include "cli/credential.h"
#include "cli/dotenv.h"
#include "cli/secret.h"
#include "cli/secret_wrong.h"
#include "cli/session.h"
#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        IMPORT_FILE_BYTES = 60 * 1024, /* of locked memory, of which an ordinary user may have 64 KB on older systems */
        IMPORT_MAX = 64,               /* credentials of one file */
        VARIABLE_BYTES = 128,
};

struct import_row {
        char variable[VARIABLE_BYTES], name[64];
        struct slice value; /* in the locked text */
        enum account_kind kind;
        bool as_env;        /* its clients do not look for it by themselves */
};
struct import {
        uint8_t *text; /* locked */
        size_t n;
        struct import_row rows[IMPORT_MAX];
        size_t count;
};

static int read_text(const struct cli *cli, const char *path, struct import *im)
{
        int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = 1;

        (void)cli;
        if (fd < 0)
                return cli_fail(EXIT_USAGE_, "%s: %s", esc_str(path), strerror(errno));
        im->text = secret_alloc(IMPORT_FILE_BYTES + 1);
        while (im->text && n > 0 && im->n <= IMPORT_FILE_BYTES) {
                n = read(fd, im->text + im->n, IMPORT_FILE_BYTES + 1 - im->n);
                if (n < 0 && errno == EINTR)
                        n = 1;
                else if (n > 0)
                        im->n += (size_t)n;
        }
        fd_close(&fd);
        if (!im->text)
                return cli_fail(EXIT_HOST, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        if (n < 0)
                return cli_fail(EXIT_USAGE_, "%s: it cannot be read", esc_str(path));
        return im->n > IMPORT_FILE_BYTES ? cli_fail(EXIT_USAGE_, "%s: larger than %d KB; that is no .env file", esc_str(path), IMPORT_FILE_BYTES / 1024) : EXIT_OK;
}

static void left(const struct cli *cli, struct slice variable, const char *why)
{
        if (cli->json)
                printf("{\"variable\":\"%.*s\",\"left\":\"%s\"}\n", SLICE_FMT(variable), why); /* the name is letters, digits and _ ; the reason is ours */
        else
                printf("%-28s left: %s\n", esc(variable), why);
}

/* The kind's own name for the first of a kind, else the variable's. */
static void choose_name(const struct import *im, struct import_row *row)
{
        size_t i;

        snprintf(row->name, sizeof(row->name), "%s", kind_row(row->kind)->name);
        for (i = 0; i < im->count && strcmp(im->rows[i].name, row->name) != 0; i++)
                ;
        if (i == im->count)
                return;
        for (i = 0; row->variable[i] && i < sizeof(row->name) - 1; i++) {
                char c = row->variable[i];
                row->name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' ? '-' : c;
        }
        row->name[i] = 0;
}

static bool looked_for(enum account_kind kind, struct slice variable)
{
        const struct kind_row *row = kind_row(kind);

        for (size_t i = 0; i < sizeof(row->env) / sizeof(row->env[0]) && row->env[i]; i++)
                if (slice_is(variable, row->env[i]))
                        return true;
        return false;
}

static void consider(const struct cli *cli, struct import *im, struct slice variable, struct slice value)
{
        enum account_kind kind = kind_by_env(variable);
        struct import_row *row = &im->rows[im->count];
        const char *problem;
        char why[256];

        if (kind == ACCOUNT_KIND_COUNT) {
                left(cli, variable, "its kind is not known; `brome credential add` takes it if it is a secret");
                return;
        }
        for (size_t i = 0; i < im->count; i++)
                if (im->rows[i].kind == kind && slice_eq(im->rows[i].value, value)) {
                        snprintf(why, sizeof(why), "the same secret as %s", im->rows[i].variable);
                        left(cli, variable, why);
                        return;
                }
        problem = secret_wrong(kind, value);
        if (!problem && !kind_row(kind)->default_host) {
                snprintf(why, sizeof(why), "its host is not known; `brome credential add NAME --kind %s --for HOST` asks for it", kind_row(kind)->name);
                problem = why;
        }
        if (!problem && (im->count == IMPORT_MAX || variable.n >= VARIABLE_BYTES))
                problem = "there are too many, or its name is too long";
        if (problem) {
                left(cli, variable, problem);
                return;
        }
        *row = (struct import_row){ .value = value, .kind = kind, .as_env = !looked_for(kind, variable) };
        snprintf(row->variable, sizeof(row->variable), "%.*s", SLICE_FMT(variable));
        choose_name(im, row);
        im->count++;
}

static void consider_all(const struct cli *cli, struct import *im)
{
        struct dotenv d = { .p = im->text, .n = im->n };
        struct slice name, value = SLICE_EMPTY;
        enum dotenv_status status;

        while ((status = dotenv_next(&d, &name, &value)) != DOTENV_END)
                if (status == DOTENV_BROKEN)
                        cli_note("line %u is left out: %s", d.line, esc(name));
                else
                        consider(cli, im, name, value);
}

static void show(const struct cli *cli, const struct import *im)
{
        char masked[64];

        for (size_t i = 0; i < im->count; i++) {
                const struct import_row *r = &im->rows[i];

                secret_masked(r->value, masked);
                if (cli->json)
                        printf("{\"variable\":\"%s\",\"credential\":\"%s\",\"kind\":\"%s\",\"host\":\"%s\",\"length\":%zu}\n", r->variable, r->name, kind_row(r->kind)->name,
                               kind_row(r->kind)->default_host, r->value.n);
                else
                        printf("%-28s -> %-16s kind %-10s for %-36s %s\n", r->variable, r->name, kind_row(r->kind)->name, kind_row(r->kind)->default_host, masked);
        }
        fflush(stdout);
}

static int keep_all(struct cli *cli, struct control *c, const struct import *im, const struct vault_want *want)
{
        int rc = session_connect(cli, c, true);

        if (rc == EXIT_OK)
                rc = vault_ready(cli, c, want);
        for (size_t i = 0; rc == EXIT_OK && i < im->count; i++)
                rc = secret_call(cli, c, "vault.put", json_pack("{s:s}", "name", im->rows[i].name), "secret", im->rows[i].value);
        return rc;
}

static int take(struct cli *cli, struct control *c, struct confedit *e, const struct import *im, const struct vault_want *want, bool yes)
{
        static struct credential_draft drafts[IMPORT_MAX];
        char question[96];
        int rc;

        for (size_t i = 0; i < im->count; i++) {
                const struct import_row *r = &im->rows[i];
                drafts[i] = (struct credential_draft){ .name = r->name, .kind = r->kind, .source = SECRET_VAULT, .hosts = kind_row(r->kind)->default_host,
                                                       .as_env = r->as_env ? r->variable : NULL };
        }
        rc = credential_prepare(cli, e, drafts, im->count);
        if (rc != EXIT_OK)
                return rc;
        snprintf(question, sizeof(question), im->count == 1 ? "add this credential?" : "add these %zu credentials?", im->count);
        if (!yes && !ask_possible())
                return cli_fail_hint(EXIT_NO, "--yes adds them", "nothing was added: there is no terminal to ask on");
        if (!yes && !ask_yes(question))
                return cli_fail(EXIT_NO, "nothing was added");
        rc = keep_all(cli, c, im, want);
        if (rc == EXIT_OK)
                rc = confedit_commit(e);
        return rc == EXIT_OK ? credential_reload(cli, c) : rc;
}

int cmd_credential_import(struct cli *cli, int argc, char **argv)
{
        static struct import im;
        struct vault_want want = { 0 };
        bool yes = false;
        const struct cli_option options[] = { { .name = "yes", .flag = &yes }, { .name = "key-file", .text = &want.key_file }, { .name = "root", .text = &want.root } };
        struct control c = { .fd = -1 };
        struct confedit e;
        int at = cli_options(cli, argc, argv, options, 3), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1)
                return cli_usage(cli, "which file? (- is standard input)");
        if (want.key_file && want.key_file[0] != '/')
                return cli_usage(cli, "--key-file takes an absolute path");
        if (vault_want_check(cli, &want) != EXIT_OK)
                return EXIT_USAGE_;
        rc = read_text(cli, argv[at], &im);
        if (rc == EXIT_OK) {
                consider_all(cli, &im);
                show(cli, &im);
                if (!im.count)
                        rc = cli_fail(EXIT_NO, "there is nothing in it that can be added");
        }
        if (rc == EXIT_OK) {
                rc = confedit_open(cli, &e);
                if (rc == EXIT_OK)
                        rc = take(cli, &c, &e, &im, &want, yes);
                confedit_close(&e);
        }
        control_close(&c);
        secret_free(im.text, IMPORT_FILE_BYTES + 1);
        if (rc == EXIT_OK)
                cli_note("added; `credential { NAME }` in a workspace's block binds one. The file still holds the secrets in the clear: you may want to remove them there");
        return rc;
}
