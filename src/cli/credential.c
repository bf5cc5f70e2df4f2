/* brome credential ls, rm, and what the other commands about credentials share. */
#include "cli/credential.h"
#include "base/esc.h"
#include "cli/conftext.h"
#include "cli/local.h"
#include "cli/session.h"
#include "files/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

bool credential_name_ok(const char *name)
{
        size_t n = strlen(name);

        return n && n <= 63 && name[0] != '-' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static int add_hosts(const struct cli *cli, const char *hosts, struct buf *out)
{
        const char *separator = "";
        size_t n;

        buf_add_str(out, "        for { ");
        for (const char *p = hosts; *(p += strspn(p, ", ")); p += n) {
                n = strcspn(p, ", ");
                /* The parser judges them; here only what would end the list. */
                if (strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") < n)
                        return cli_usage(cli, "`%s` is no list of hosts: NAME or NAME:PORT, with commas between them", esc_str(hosts));
                buf_addf(out, "%s%.*s", separator, (int)n, p);
                separator = ", ";
        }
        buf_add_str(out, " }\n");
        return *separator ? EXIT_OK : cli_usage(cli, "for which hosts?");
}

int credential_block(const struct cli *cli, const struct credential_draft *d, struct buf *out)
{
        static const char *const words[] = { [SECRET_VAULT] = "vault", [SECRET_FILE] = "file ", [SECRET_ENV] = "env ", [SECRET_COMMAND] = "command " };
        int rc;

        buf_addf(out, "credential %s {\n        kind %s\n        secret %s", d->name, kind_row(d->kind)->name, words[d->source]);
        if (d->source == SECRET_ENV)
                buf_add_str(out, d->value);
        else if (d->source != SECRET_VAULT)
                session_string(out, d->value);
        buf_add_str(out, "\n");
        rc = add_hosts(cli, d->hosts, out);
        if (rc != EXIT_OK)
                return rc;
        if (d->header) {
                buf_add_str(out, "        header ");
                session_string(out, d->header);
                buf_add_str(out, "\n");
        }
        if (d->user) {
                buf_add_str(out, "        user ");
                session_string(out, d->user);
                buf_add_str(out, "\n");
        }
        if (d->as_env)
                buf_addf(out, "        as env %s\n", d->as_env);
        if (d->ask)
                buf_add_str(out, "        ask before use\n");
        if (d->attach)
                buf_add_str(out, "        attach\n");
        return buf_add_str(out, "}\n") < 0 ? cli_fail(EXIT_INTERNAL, "out of memory") : EXIT_OK;
}

/* No name twice; said before the parser says it with a place that is not yet in the file. */
static int refuse_known(struct cli *cli, const struct credential_draft *drafts, size_t count)
{
        static struct diags errors;
        struct config *c;
        int rc = EXIT_OK;

        errors = (struct diags){ 0 };
        c = local_config(cli, NULL, &errors);
        if (!c)
                return local_diags(&errors);
        for (size_t i = 0; rc == EXIT_OK && i < count; i++)
                if (config_credential(c, slice_str(drafts[i].name)))
                        rc = cli_fail_hint(EXIT_NO, "choose another name, or remove that one first: `brome credential rm`", "there is a credential %s already", drafts[i].name);
        config_free(c);
        return rc;
}

int credential_prepare(struct cli *cli, struct confedit *e, const struct credential_draft *drafts, size_t count)
{
        struct buf block, text;
        int rc = refuse_known(cli, drafts, count);

        if (rc != EXIT_OK)
                return rc;
        buf_init(&block, 0);
        buf_init(&text, 0);
        for (size_t i = 0; rc == EXIT_OK && i < count; i++) {
                if (i)
                        buf_add_str(&block, "\n");
                rc = credential_block(cli, &drafts[i], &block);
        }
        if (rc == EXIT_OK && conftext_append(buf_slice(&e->text), buf_slice(&block), &text) < 0)
                rc = cli_fail(EXIT_INTERNAL, "out of memory");
        if (rc == EXIT_OK)
                rc = confedit_prepare(cli, e, buf_slice(&text), NULL);
        buf_fini(&block);
        buf_fini(&text);
        return rc;
}

int credential_reload(struct cli *cli, struct control *c)
{
        struct chan_msg answer;
        int rc = session_call(cli, c, "reload", NULL, SLICE_EMPTY, &answer);

        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        else
                cli_note("the configuration on disk is changed, and the running supervisor does not obey it yet; `brome daemon restart` makes it");
        return rc;
}

/* ---- ls ---- */

static const char *text_of(json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

static void join(json_t *list, char *out, size_t size)
{
        json_t *v;
        size_t i;

        snprintf(out, size, "-");
        json_array_foreach(list, i, v) {
                size_t n = i ? strlen(out) : 0;
                if (n < size)
                        snprintf(out + n, size - n, "%s%s", i ? "," : "", esc_str(json_string_value(v)));
        }
}

static void print_credential(json_t *row)
{
        char hosts[256], workspaces[160];
        const char *ask = text_of(row, "ask");

        join(json_object_get(row, "hosts"), hosts, sizeof(hosts));
        join(json_object_get(row, "workspaces"), workspaces, sizeof(workspaces));
        printf("%-16s %-10s %-8s %-6s %-10s %6lld  %-20s %s%s\n", esc_str(text_of(row, "name")), esc_str(text_of(row, "kind")), esc_str(text_of(row, "source")),
               json_is_true(json_object_get(row, "have")) ? "yes" : "no", strcmp(ask, "no") == 0 ? "-" : esc_str(ask), (long long)json_integer_value(json_object_get(row, "used")),
               workspaces, hosts, json_is_true(json_object_get(row, "attach")) ? " (attached by the gate)" : "");
}

int cmd_credential_ls(struct cli *cli, int argc, char **argv)
{
        struct chan_msg answer;
        json_t *row;
        size_t i;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        rc = session_ask(cli, "credentials", NULL, &answer);
        if (rc != EXIT_OK)
                return rc;
        if (!cli->json)
                printf("%-16s %-10s %-8s %-6s %-10s %6s  %-20s %s\n", "CREDENTIAL", "KIND", "SOURCE", "SECRET", "ASK", "USED", "WORKSPACES", "HOSTS");
        json_array_foreach(json_object_get(answer.body, "credentials"), i, row) {
                char *text = cli->json ? json_dumps(row, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
                if (cli->json)
                        puts(text ? text : "{}");
                else
                        print_credential(row);
                free(text);
        }
        if (!cli->json && strcmp(chan_str(&answer, "vault", ""), "locked") == 0)
                cli_note("the vault is locked, so what it holds is not known; `brome unlock` opens it");
        else if (!cli->json && strcmp(chan_str(&answer, "vault", ""), "unreadable") == 0)
                cli_note("the vault's file cannot be used, so what it holds is not known; `brome unlock` says why");
        chan_msg_fini(&answer);
        return EXIT_OK;
}

/* ---- rm ---- */

/* Who binds it; false after printing. */
static bool unused(const struct config *c, const char *name)
{
        for (size_t i = 0; i < config_workspace_count(c); i++) {
                const struct config_workspace *w = config_workspace_at(c, i);
                for (size_t k = 0; k < w->credential_count; k++)
                        if (slice_is(w->credentials[k]->b.name, name)) {
                                cli_fail_hint(0, "take it out of the workspace's block first", "the workspace %s uses the credential %s (%s)", esc(w->name), name, esc(w->file));
                                return false;
                        }
        }
        return true;
}

static int remove_block(struct cli *cli, struct confedit *e, const char *name)
{
        struct slice text = buf_slice(&e->text);
        struct config *after = NULL;
        struct buf out;
        size_t at, n;
        int rc;

        if (!conftext_find(text, "credential", name, &at, &n))
                return cli_fail_hint(EXIT_CONFIG_, "remove its block there by hand, then run this again for its secret", "the credential %s stands in a file that %s includes", name,
                                     esc_str(e->file));
        buf_init(&out, 0);
        buf_add_slice(&out, slice_first(text, at));
        buf_add_slice(&out, slice_skip(text, at + n));
        rc = out.failed ? cli_fail(EXIT_INTERNAL, "out of memory") : confedit_prepare(cli, e, buf_slice(&out), &after);
        if (rc == EXIT_OK && config_credential(after, slice_str(name)))
                rc = cli_fail(EXIT_CONFIG_, "the credential %s stands in the configuration in a way that is not taken out here; remove it by hand", name);
        config_free(after);
        buf_fini(&out);
        return rc;
}

/* Its secret: gone from the vault, where it was there. */
static int remove_secret(struct cli *cli, struct control *c, const char *name, bool must)
{
        struct chan_msg answer;
        json_t *v;
        size_t i;
        bool there = false, absent;
        int rc = vault_ready(cli, c, NULL);

        if (rc == EXIT_OK)
                rc = session_call(cli, c, "vault", NULL, SLICE_EMPTY, &answer);
        if (rc != EXIT_OK)
                return rc;
        json_array_foreach(json_object_get(answer.body, "names"), i, v)
                there = there || (json_is_string(v) && strcmp(json_string_value(v), name) == 0);
        absent = strcmp(chan_str(&answer, "state", ""), "absent") == 0;
        chan_msg_fini(&answer);
        if (!there || absent)
                return must ? cli_fail(EXIT_NO, "there is no credential %s, and no secret of that name", name) : EXIT_OK;
        rc = session_call(cli, c, "vault.rm", json_pack("{s:s}", "name", name), SLICE_EMPTY, &answer);
        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        return rc;
}

static int remove_it(struct cli *cli, struct control *c, struct confedit *e, const struct config *before, const char *name)
{
        const struct config_credential *known = config_credential(before, slice_str(name));
        int rc = EXIT_OK;

        if (known && !unused(before, name))
                return EXIT_NO;
        if (known)
                rc = remove_block(cli, e, name);
        if (rc == EXIT_OK)
                rc = session_connect(cli, c, true);
        /* The secret first: what fails here is done again, since the block still names it. */
        if (rc == EXIT_OK && (!known || known->source == SECRET_VAULT))
                rc = remove_secret(cli, c, name, !known);
        if (rc == EXIT_OK && known)
                rc = confedit_commit(e);
        return rc == EXIT_OK && known ? credential_reload(cli, c) : rc;
}

int cmd_credential_rm(struct cli *cli, int argc, char **argv)
{
        static struct diags errors;
        struct control c = { .fd = -1 };
        struct confedit e;
        struct config *before;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1 || !credential_name_ok(argv[at]))
                return cli_usage(cli, "which credential?");
        rc = confedit_open(cli, &e);
        if (rc == EXIT_OK) {
                errors = (struct diags){ 0 };
                before = local_config(cli, NULL, &errors);
                rc = before ? remove_it(cli, &c, &e, before, argv[at]) : local_diags(&errors);
                config_free(before);
        }
        confedit_close(&e);
        control_close(&c);
        if (rc == EXIT_OK)
                cli_note("removed; a workspace's placeholder for it means nothing any more");
        return rc;
}
