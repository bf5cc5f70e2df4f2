/* brome share diff, share apply: what the guest wrote into overlay shares, shown to a person and taken over by a person. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/local.h"
#include "files/loader.h"
#include "share/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct pair {
        char path[PATH_MAX]; /* the folder of the host */
        int lower, upper;
};

struct job {
        struct cli *cli;
        struct pair *pair;
        const char *const *paths; /* relative to the share; NULL: all */
        size_t path_count, count, refused;
        struct buf out;
};

static const char *const kind_word[OVERLAY_KIND_COUNT] = { "added", "changed", "deleted", "mode" };

static void pair_close(struct pair *p)
{
        fd_close(&p->lower);
        fd_close(&p->upper);
}

/* The launcher keeps the layers in its own order and writes beside each which folder it belongs to. 1: found; 0: none; -1: err. */
static int find_upper(struct cli *cli, const struct config_workspace *w, const char *real, char upper[PATH_MAX], struct err *err)
{
        for (size_t n = 0;; n++) {
                struct err missing = ERR_INIT;
                struct buf text;
                bool same;
                int rc;

                if (snprintf(upper, PATH_MAX, "%s/workspaces/%.*s/overlay/%zu/path", cli->paths.state, SLICE_FMT(w->name), n) >= PATH_MAX)
                        return err_set(err, "path too long");
                buf_init(&text, 0);
                rc = fd_read_file(upper, &text, PATH_MAX, &missing);
                same = rc == 0 && slice_is(buf_slice(&text), real);
                buf_fini(&text);
                if (rc < 0)
                        return 0;
                if (same) {
                        memcpy(strrchr(upper, '/'), "/upper", sizeof("/upper"));
                        return 1;
                }
        }
}

/* Opens share number i of the workspace when it is an overlay. 1: open; 0: not an overlay, or nothing written yet; -1: err. */
static int pair_open(struct cli *cli, const struct config_workspace *w, size_t i, struct pair *p, struct err *err)
{
        char upper[PATH_MAX], real[PATH_MAX];
        int rc;

        *p = (struct pair){ .lower = -1, .upper = -1 };
        if (w->shares[i].mode != SHARE_OVERLAY)
                return 0;
        if (loader_expand(p->path, sizeof(p->path), w->shares[i].path, w->dir, err) < 0)
                return -1;
        rc = realpath(p->path, real) ? find_upper(cli, w, real, upper, err) : err_sys(err, errno, "%s", p->path);
        if (rc <= 0)
                return rc;
        p->upper = open(upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (p->upper < 0)
                return err_sys(err, errno, "%s", upper);
        p->lower = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (p->lower >= 0)
                return 1;
        err_sys(err, errno, "%s", p->path);
        pair_close(p);
        return -1;
}

/* Is the change asked for? */
static bool wanted(const struct job *j, const char *path)
{
        if (!j->paths)
                return true;
        for (size_t i = 0; i < j->path_count; i++) {
                size_t n = strlen(j->paths[i]);
                if (strncmp(path, j->paths[i], n) == 0 && (path[n] == 0 || path[n] == '/'))
                        return true;
        }
        return false;
}

static int on_diff(void *arg, const struct overlay_change *c)
{
        struct job *j = arg;
        struct err err = ERR_INIT;

        if (!wanted(j, c->path))
                return 0;
        j->count++;
        if (j->cli->json) {
                json_t *o = json_pack("{s:s, s:s, s:s, s:I}", "share", esc_str(j->pair->path), "change", kind_word[c->kind], "path", esc_str(c->path), "bytes",
                                      (json_int_t)c->upper_bytes);
                char *text;
                if (c->refused)
                        json_object_set_new(o, "refused", json_string(c->refused));
                text = json_dumps(o, JSON_COMPACT);
                buf_addf(&j->out, "%s\n", text ? text : "{}");
                free(text);
                json_decref(o);
        } else if (j->paths) {
                if (overlay_diff_text(j->pair->lower, j->pair->upper, c->path, &j->out, &err) < 0)
                        buf_addf(&j->out, "%s: %s\n", esc_str(c->path), err.text);
        } else {
                buf_addf(&j->out, "%-8s %s%s%s%s\n", kind_word[c->kind], esc_str(c->path), c->refused ? "   (" : "", c->refused ? c->refused : "",
                         c->refused ? ")" : "");
        }
        return cli_flush(&j->out);
}

static int on_apply(void *arg, const struct overlay_change *c)
{
        struct job *j = arg;

        j->count++;
        if (c->refused)
                j->refused++;
        printf("%-8s %s%s%s\n", c->refused ? "kept out" : kind_word[c->kind], esc_str(c->path), c->refused ? ": " : "", c->refused ? c->refused : "");
        return 0;
}

typedef int share_job(struct job *j, struct err *err);

static int job_diff(struct job *j, struct err *err) { return overlay_diff(j->pair->lower, j->pair->upper, on_diff, j, err); }

static int job_apply(struct job *j, struct err *err)
{
        struct overlay_apply_result r = { 0 };
        int rc = overlay_apply(j->pair->lower, j->pair->upper, j->paths, j->path_count, on_apply, j, &r, err);

        cli_note("%s: %zu taken over, %zu kept out, %zu failed", esc_str(j->pair->path), r.applied, r.refused, r.failed);
        return rc;
}

static int each_share(struct cli *cli, const char *name, share_job *fn, struct job *j)
{
        struct diags errors = { 0 };
        struct config *c = local_config(cli, name, &errors);
        const struct config_workspace *w;
        struct err err = ERR_INIT;
        size_t overlays = 0;
        int rc = 0;

        if (!c)
                return local_diags(&errors);
        w = config_workspace(c, slice_str(name));
        if (!w) {
                config_free(c);
                return cli_fail(EXIT_NO, "there is no workspace `%s`", name);
        }
        for (size_t i = 0; i < w->share_count && rc >= 0; i++) {
                struct pair pair;
                overlays += w->shares[i].mode == SHARE_OVERLAY;
                rc = pair_open(cli, w, i, &pair, &err);
                if (rc <= 0)
                        continue;
                j->pair = &pair;
                rc = fn(j, &err);
                pair_close(&pair);
        }
        config_free(c);
        if (rc < 0)
                return cli_fail(EXIT_INTERNAL, "%s", err.text);
        return overlays ? EXIT_OK : cli_fail(EXIT_NO, "%s has no overlay share; `share \"DIR\" overlay` in its configuration makes one", name);
}

int cmd_share_diff(struct cli *cli, int argc, char **argv)
{
        struct job j = { .cli = cli };
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at >= argc || !cli_name_ok(argv[at]))
                return cli_usage(cli, "which workspace?");
        if (argc - at > 1) {
                j.paths = (const char *const *)(argv + at + 1);
                j.path_count = (size_t)(argc - at - 1);
        }
        buf_init(&j.out, 0);
        rc = each_share(cli, argv[at], job_diff, &j);
        buf_fini(&j.out);
        if (rc == EXIT_OK && !j.count && !cli->json)
                cli_note("nothing was changed");
        return rc;
}

int cmd_share_apply(struct cli *cli, int argc, char **argv)
{
        bool all = false;
        const struct cli_option options[] = { { .name = "all", .flag = &all } };
        struct job j = { .cli = cli };
        const char *name;
        int at = cli_options(cli, argc, argv, options, 1), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at >= argc || !cli_name_ok(argv[at]))
                return cli_usage(cli, "which workspace?");
        name = argv[at++];
        if (all == (at < argc))
                return cli_usage(cli, "name paths, or --all");
        if (!all) {
                j.paths = (const char *const *)(argv + at);
                j.path_count = (size_t)(argc - at);
        }
        rc = each_share(cli, name, job_apply, &j);
        if (rc == EXIT_OK && !j.count)
                cli_note("nothing to take over");
        return rc == EXIT_OK && j.refused ? EXIT_NO : rc;
}
