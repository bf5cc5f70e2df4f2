/* Changes to brome.conf: see confedit.h. */
#include "cli/confedit.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/local.h"
#include "files/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_lock(struct cli *cli, struct err *err)
{
        char path[PATH_MAX];
        int fd;

        if (fd_mkdirs(cli->paths.state, 0700, err) < 0)
                return -1;
        if (snprintf(path, sizeof(path), "%s/config.lock", cli->paths.state) >= (int)sizeof(path))
                return err_set(err, "BROME_STATE is too long a path");
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                fd_close(&fd);
                return err_set(err, "another brome is changing the configuration just now; try again when it is done");
        }
        return fd;
}

static int find_file(struct cli *cli, struct confedit *e, struct err *err)
{
        char folder[PATH_MAX], *slash;

        e->there = realpath(cli->paths.config, e->file) != NULL;
        if (!e->there) {
                snprintf(e->file, sizeof(e->file), "%s", cli->paths.config);
                snprintf(folder, sizeof(folder), "%s", e->file);
                slash = strrchr(folder, '/');
                if (slash && slash != folder) {
                        *slash = 0;
                        if (fd_mkdirs(folder, 0700, err) < 0)
                                return -1;
                }
        }
        return e->there ? fd_read_file(e->file, &e->text, LOADER_FILE_BYTES, err) : 0;
}

int confedit_open(struct cli *cli, struct confedit *e)
{
        struct err err = ERR_INIT;

        *e = (struct confedit){ .lock = -1 };
        buf_init(&e->text, 0);
        e->lock = take_lock(cli, &err);
        return e->lock < 0 || find_file(cli, e, &err) < 0 ? cli_fail(EXIT_CONFIG_, "%s", err.text) : EXIT_OK;
}

static int write_fresh(struct confedit *e, struct slice text, struct err *err)
{
        char path[PATH_MAX];
        struct stat st;
        mode_t mode = e->there && stat(e->file, &st) == 0 ? st.st_mode & 0777 : 0600;

        if (snprintf(path, sizeof(path), "%s.brome-new", e->file) >= (int)sizeof(path))
                return err_set(err, "the configuration's path is too long");
        if (fd_write_file(path, mode, text.p, text.n, err) < 0)
                return -1;
        snprintf(e->fresh, sizeof(e->fresh), "%s", path);
        return 0;
}

int confedit_prepare(struct cli *cli, struct confedit *e, struct slice text, struct config **config)
{
        static struct diags errors; /* large */
        struct cli other = *cli;
        struct err err = ERR_INIT;
        struct config *c;

        errors = (struct diags){ 0 };
        if (write_fresh(e, text, &err) < 0)
                return cli_fail(EXIT_CONFIG_, "%s", err.text);
        snprintf(other.paths.config, sizeof(other.paths.config), "%s", e->fresh);
        c = local_config(&other, NULL, &errors);
        if (!c)
                return local_diags(&errors);
        if (config)
                *config = c;
        else
                config_free(c);
        return EXIT_OK;
}

int confedit_commit(struct confedit *e)
{
        if (rename(e->fresh, e->file) < 0)
                return cli_fail(EXIT_CONFIG_, "%s: %s", esc_str(e->file), strerror(errno));
        e->fresh[0] = 0;
        return EXIT_OK;
}

void confedit_close(struct confedit *e)
{
        if (e->fresh[0])
                unlink(e->fresh);
        e->fresh[0] = 0;
        buf_fini(&e->text);
        fd_close(&e->lock);
}
