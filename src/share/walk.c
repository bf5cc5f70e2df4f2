/* A bounded walk over a hostile tree: by descriptors, so that a folder replaced by a link meanwhile leads nowhere. */
#include "share/share_priv.h"
#include "base/esc.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
        share_walk_fn *fn;
        share_leave_fn *leave;
        void *arg;
        struct err *err;
        dev_t dev;
        size_t entries;
        char path[PATH_MAX];
        size_t path_bytes;
};

static int walk_folder(struct walk *w, int fd, size_t depth);

static unsigned char type_of(int parent_fd, const char *name)
{
        struct stat st;
        return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : (unsigned char)IFTODT(st.st_mode);
}

static int enter(struct walk *w, int parent_fd, const char *name, size_t depth)
{
        struct stat st;
        if (depth >= SHARE_SCAN_DEPTH)
                return err_set(w->err, "%s is nested deeper than %d folders", esc_str(w->path), SHARE_SCAN_DEPTH);
        int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) /* gone or replaced meanwhile */
                return 0;
        if (fd < 0)
                return err_sys(w->err, errno, "cannot read the folder %s", esc_str(w->path));
        if (fstat(fd, &st) < 0 || st.st_dev != w->dev) { /* a mount: the share's own mount does not show it */
                close(fd);
                return 0;
        }
        return walk_folder(w, fd, depth + 1);
}

static int walk_entry(struct walk *w, DIR *d, const struct dirent *e, size_t depth)
{
        size_t before = w->path_bytes, n = strlen(e->d_name);
        if (++w->entries > SHARE_SCAN_ENTRIES)
                return err_set(w->err, "the folder holds more than %d files", SHARE_SCAN_ENTRIES);
        if (n + 2 > sizeof(w->path) - before)
                return err_set(w->err, "%s: the path of a file in it is too long", esc_str(w->path));
        if (before > 0)
                w->path[w->path_bytes++] = '/';
        memcpy(w->path + w->path_bytes, e->d_name, n + 1);
        w->path_bytes += n;
        unsigned char type = e->d_type != DT_UNKNOWN ? e->d_type : type_of(dirfd(d), e->d_name);
        int r = 0;
        if (type != DT_UNKNOWN)
                r = w->fn(w->arg, &(struct share_entry){ .path = w->path, .name = e->d_name, .parent_fd = dirfd(d), .type = type, .depth = depth });
        r = r == WALK_STOP ? 1 : r == WALK_ENTER && type == DT_DIR ? enter(w, dirfd(d), e->d_name, depth) : 0;
        w->path_bytes = before;
        w->path[before] = 0;
        return r;
}

/* Takes fd. */
static int walk_folder(struct walk *w, int fd, size_t depth)
{
        DIR *d = fdopendir(fd);
        struct dirent *e;
        int r = 0;
        if (d == NULL) {
                close(fd);
                return err_sys(w->err, errno, "cannot read a folder");
        }
        while (r == 0 && (errno = 0, e = readdir(d)) != NULL)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        r = walk_entry(w, d, e, depth);
        if (r == 0 && errno != 0)
                r = err_sys(w->err, errno, "cannot read the folder %s", esc_str(w->path));
        if (r == 0 && w->leave != NULL && w->leave(w->arg, w->path, dirfd(d)) != 0)
                r = 1;
        closedir(d);
        return r;
}

int share_walk(int root_fd, share_walk_fn *fn, share_leave_fn *leave, void *arg, struct err *err)
{
        struct stat st;
        int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
                err_sys(err, errno, "cannot read the folder");
                fd_close(&fd);
                return -1;
        }
        struct walk *w = calloc(1, sizeof(*w));
        if (w == NULL) {
                close(fd);
                return err_set(err, "out of memory");
        }
        w->fn = fn;
        w->leave = leave;
        w->arg = arg;
        w->err = err;
        w->dev = st.st_dev;
        int r = walk_folder(w, fd, 0);
        free(w);
        return r;
}
