/* Saved workspaces and configuration on this side: see local.h. local_diags, local_read and local_rules are in check.c. */
#include "cli/local.h"
#include "base/fd.h"
#include "files/loader.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* Appends the saved block of one workspace; nothing when there is none. */
static int add_saved(struct cli *cli, const char *name, struct buf *out, struct err *err)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/workspaces/%s/workspace.conf", cli->paths.state, name) >= (int)sizeof(path))
                return err_set(err, "path too long");
        if (access(path, F_OK) < 0)
                return 0;
        if (fd_read_file(path, out, LOADER_FILE_BYTES, err) < 0)
                return -1;
        return buf_add_str(out, "\n");
}

static int add_all_saved(struct cli *cli, struct buf *out, struct err *err)
{
        char path[PATH_MAX];
        struct dirent *d;
        DIR *dir;
        int rc = 0;

        if (snprintf(path, sizeof(path), "%s/workspaces", cli->paths.state) >= (int)sizeof(path))
                return err_set(err, "path too long");
        dir = opendir(path);
        if (!dir)
                return 0;
        while (rc == 0 && (d = readdir(dir)))
                if (cli_name_ok(d->d_name))
                        rc = add_saved(cli, d->d_name, out, err);
        closedir(dir);
        return rc;
}

struct config *local_config(struct cli *cli, const char *name, struct diags *errors)
{
        struct buf saved;
        struct err err = ERR_INIT;
        struct config *c = NULL;
        int rc;

        buf_init(&saved, LOADER_FILE_BYTES);
        rc = name ? add_saved(cli, name, &saved, &err) : add_all_saved(cli, &saved, &err);
        if (rc < 0) {
                errors->count = errors->total = 1;
                snprintf(errors->list[0].message, sizeof(errors->list[0].message), "%.380s", err.text);
        } else {
                c = loader_config(cli->paths.config, true, buf_slice(&saved), "workspace.conf", errors);
        }
        buf_fini(&saved);
        return c;
}

struct policy *local_saved_policy(struct cli *cli, const char *name, struct diags *errors, struct err *err)
{
        struct config *c = local_config(cli, name, errors);
        const struct config_workspace *w = c ? config_workspace(c, slice_str(name)) : NULL;
        struct policy *p = w ? config_policy(c, w, SLICE_EMPTY, SLICE_EMPTY, errors) : NULL;

        (void)err;
        config_free(c);
        return p;
}
