/* brome workspace edit: the block of a workspace in the person's editor, wherever brome keeps it: in brome.conf, or in the state folder (`workspace new`).
 *
 * Nothing is locked while a person thinks. What was edited is put in place only where the text around it is still what it was. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/confedit.h"
#include "cli/conftext.h"
#include "cli/edit.h"
#include "cli/local.h"
#include "cli/session.h"
#include "files/loader.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct block_edit {
        const char *name;
        char saved[PATH_MAX]; /* workspace.conf; empty: the block stands in brome.conf */
        struct buf file;      /* the whole text, as it was when the editor was opened */
        size_t at, n;         /* the block in it */
        char path[PATH_MAX], before[PATH_MAX];
};

static int read_again(struct cli *cli, struct block_edit *b, struct confedit *e, struct buf *text)
{
        struct err err = ERR_INIT;
        int rc = confedit_open(cli, e);

        if (rc != EXIT_OK)
                return rc;
        if (!b->saved[0])
                return buf_add_slice(text, buf_slice(&e->text)) < 0 ? cli_fail(EXIT_INTERNAL, "out of memory") : EXIT_OK;
        return fd_read_file(b->saved, text, LOADER_FILE_BYTES, &err) < 0 ? cli_fail(EXIT_CONFIG_, "%s", err.text) : EXIT_OK;
}

/* Where the block stands. */
static int find(struct cli *cli, struct block_edit *b)
{
        static struct diags errors; /* large */
        struct confedit e;
        struct config *c;
        const struct config_workspace *w;
        int rc = read_again(cli, b, &e, &b->file);

        confedit_close(&e);
        if (rc != EXIT_OK || conftext_find(buf_slice(&b->file), "workspace", b->name, &b->at, &b->n))
                return rc;
        if (snprintf(b->saved, sizeof(b->saved), "%s/workspaces/%s/workspace.conf", cli->paths.state, b->name) >= (int)sizeof(b->saved))
                return cli_fail(EXIT_CONFIG_, "BROME_STATE is too long a path");
        if (access(b->saved, F_OK) == 0) {
                buf_clear(&b->file);
                rc = read_again(cli, b, &e, &b->file);
                confedit_close(&e);
                b->n = buf_len(&b->file);
                return rc;
        }
        errors = (struct diags){ 0 };
        c = local_config(cli, NULL, &errors);
        if (!c)
                return local_diags(&errors);
        w = config_workspace(c, slice_str(b->name));
        rc = w ? cli_fail_hint(EXIT_NO, "edit it there; it counts with the next command", "workspace %s stands in %s", b->name, esc(w->file))
               : cli_fail_hint(EXIT_NO, "`brome workspace ls` lists them", "there is no workspace %s", b->name);
        config_free(c);
        return rc;
}

/* The text as it would be. EXIT_OK when it parses and still defines the workspace; with `commit`, when it is in place. */
static int put_back(struct cli *cli, struct block_edit *b, bool commit)
{
        static struct diags errors; /* large */
        struct slice file = buf_slice(&b->file);
        struct err err = ERR_INIT;
        struct config *c = NULL;
        struct confedit e;
        struct buf now, out, block;
        int rc;

        buf_init(&now, 0);
        buf_init(&out, 0);
        buf_init(&block, 0);
        rc = read_again(cli, b, &e, &now);
        if (rc == EXIT_OK && !slice_eq(buf_slice(&now), file))
                rc = cli_fail(EXIT_CONFIG_, "the configuration was changed meanwhile; begin again from what it is now");
        if (rc == EXIT_OK && fd_read_file(b->path, &block, LOADER_FILE_BYTES, &err) < 0)
                rc = cli_fail(EXIT_CONFIG_, "%s", err.text);
        buf_add_slice(&out, slice_first(file, b->at));
        buf_add_slice(&out, buf_slice(&block));
        buf_add_slice(&out, slice_skip(file, b->at + b->n));
        if (rc == EXIT_OK && out.failed)
                rc = cli_fail(EXIT_INTERNAL, "out of memory");
        if (rc == EXIT_OK && !b->saved[0]) {
                rc = confedit_prepare(cli, &e, buf_slice(&out), &c);
        } else if (rc == EXIT_OK) {
                errors = (struct diags){ 0 };
                c = loader_config(cli->paths.config, true, buf_slice(&out), "workspace.conf", &errors);
                rc = c ? EXIT_OK : local_diags(&errors);
        }
        if (c && !config_workspace(c, slice_str(b->name)))
                rc = cli_fail_hint(EXIT_CONFIG_, "`brome workspace rm` removes one, `new` makes one", "the text does not define workspace %s any more", b->name);
        config_free(c);
        if (rc == EXIT_OK && commit && !b->saved[0])
                rc = confedit_commit(&e);
        else if (rc == EXIT_OK && commit && fd_write_file(b->saved, 0600, buf_slice(&out).p, buf_len(&out), &err) < 0)
                rc = cli_fail(EXIT_CONFIG_, "%s", err.text);
        confedit_close(&e);
        buf_fini(&now);
        buf_fini(&out);
        buf_fini(&block);
        return rc;
}

/* A supervisor that runs obeys at once. */
static int tell_daemon(struct cli *cli)
{
        struct control c = { .fd = -1 };
        struct control_options options = { .paths = &cli->paths, .config = cli->config_override };
        struct chan_msg answer;
        struct err err = ERR_INIT;
        int rc = control_connect(&c, &options, &err);

        if (rc == 1) {
                cli_note("saved");
                return EXIT_OK;
        }
        if (rc < 0)
                return cli_fail(EXIT_DAEMON, "%s", err.text);
        rc = session_call(cli, &c, "reload", NULL, SLICE_EMPTY, &answer);
        control_close(&c);
        if (rc != EXIT_OK)
                return rc;
        chan_msg_fini(&answer);
        cli_note("in force; a running session has the new rules, and the rest from its next start");
        return EXIT_OK;
}

static int edit_loop(struct cli *cli, struct block_edit *b, bool *changed)
{
        for (;;) {
                if (edit_open(b->path) < 0)
                        return cli_fail(EXIT_NO, "the editor failed; nothing was changed (VISUAL and EDITOR say which one)");
                *changed = edit_show_difference(b->before, b->path);
                if (!*changed) {
                        cli_note("nothing changed");
                        return EXIT_OK;
                }
                if (put_back(cli, b, false) != EXIT_OK) {
                        if (edit_confirm("nothing has changed. [e]dit again or [q]uit?") != EDIT_AGAIN)
                                return EXIT_CONFIG_;
                        continue;
                }
                switch (edit_confirm("save this? [y]es, [e]dit again, [n]o")) {
                case EDIT_AGAIN: continue;
                case EDIT_NO: return EXIT_NO;
                case EDIT_YES: break;
                }
                return put_back(cli, b, true);
        }
}

int cmd_workspace_edit(struct cli *cli, int argc, char **argv)
{
        struct block_edit b = { 0 };
        bool changed = false;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1)
                return cli_usage(cli, at == argc ? "which workspace?" : "one workspace at a time");
        if (!cli_name_ok(argv[at]))
                return cli_usage(cli, "`%s` is no workspace's name: lower case letters, digits, - and _, at most 63", esc_str(argv[at]));
        b.name = argv[at];
        buf_init(&b.file, 0);
        rc = find(cli, &b);
        if (rc == EXIT_OK) {
                struct slice block = slice_first(slice_skip(buf_slice(&b.file), b.at), b.n);

                if (edit_spill(b.before, sizeof(b.before), "before", block) < 0)
                        rc = cli_fail(EXIT_INTERNAL, "cannot write a temporary file; set TMPDIR");
                else if (edit_spill(b.path, sizeof(b.path), "workspace", block) < 0)
                        rc = cli_fail(EXIT_INTERNAL, "cannot write a temporary file; set TMPDIR");
                else
                        rc = edit_loop(cli, &b, &changed);
                if (rc == EXIT_OK && changed)
                        rc = tell_daemon(cli);
                if (rc != EXIT_OK && changed)
                        cli_note("your edit is kept in %s", b.path);
                else
                        unlink(b.path);
                unlink(b.before);
        }
        buf_fini(&b.file);
        return rc;
}
