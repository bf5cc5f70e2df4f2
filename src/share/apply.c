/* Applying an overlay's changes to the host's folder: see overlay.h. New content goes into a file of its own and is renamed into place; folders on the way
 * are opened, never named, so that no link put there meanwhile is followed. */
#include "share/overlay.h"
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

enum { MODE_BITS = 0775 }; /* nothing from a workspace becomes writable for every user, nor set-user-ID */

struct apply {
        int lower_fd, upper_fd;
        const char *const *paths;
        size_t path_count;
        overlay_fn *fn;
        void *arg;
        struct overlay_apply_result *result;
        struct err *err;
        char temporary[32];
};

static bool is_named(const struct apply *a, const char *path, bool *exactly)
{
        bool hit = a->paths == NULL;
        *exactly = false;
        for (size_t i = 0; a->paths != NULL && i < a->path_count; i++) {
                size_t n = strlen(a->paths[i]);
                while (n > 0 && a->paths[i][n - 1] == '/')
                        n--;
                bool same = strncmp(path, a->paths[i], n) == 0 && (path[n] == 0 || path[n] == '/');
                hit = hit || same;
                *exactly = *exactly || (same && path[n] == 0);
        }
        return hit;
}

static bool never(const struct overlay_change *c)
{
        mode_t m = c->upper_mode;
        return m != 0 && ((!S_ISREG(m) && !S_ISDIR(m) && !S_ISLNK(m)) || (S_ISREG(m) && (m & (S_ISUID | S_ISGID))));
}

static int remove_tree(int parent, const char *name, int depth)
{
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -1;
        if (depth >= SHARE_SCAN_DEPTH) {
                errno = ELOOP;
                return -1;
        }
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        if (d == NULL) {
                fd_close(&fd);
                return -1;
        }
        int r = 0;
        struct dirent *e;
        while (r == 0 && (e = readdir(d)) != NULL)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        r = remove_tree(dirfd(d), e->d_name, depth + 1);
        int saved = errno;
        closedir(d);
        errno = saved;
        return r == 0 ? unlinkat(parent, name, AT_REMOVEDIR) : -1;
}

static int copy_bytes(int from, int to)
{
        char b[65536];
        ssize_t n;
        while ((n = read(from, b, sizeof(b))) > 0)
                if (fd_write_all(to, b, (size_t)n) < 0)
                        return -1;
        return n < 0 ? -1 : 0;
}

/* Into a temporary beside the target, then renamed over it. A folder in its place must have been taken away before. */
static int put_file(const struct apply *a, const char *path, int parent, const char *name)
{
        struct stat st;
        int from = share_open(a->upper_fd, path, O_RDONLY | O_NONBLOCK, 0);
        int to = -1, r = -1;
        if (from >= 0 && fstat(from, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & (S_ISUID | S_ISGID))) {
                unlinkat(parent, a->temporary, 0);
                to = openat(parent, a->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                r = to >= 0 && copy_bytes(from, to) == 0 && fchmod(to, st.st_mode & MODE_BITS) == 0 && renameat(parent, a->temporary, parent, name) == 0 ? 0 : -1;
                int saved = errno;
                if (r < 0 && to >= 0)
                        unlinkat(parent, a->temporary, 0);
                errno = saved;
        }
        fd_close(&from);
        fd_close(&to);
        return r;
}

static int put_link(const struct apply *a, const char *path, int parent, const char *name)
{
        char target[PATH_MAX];
        const char *upper_name;
        int upper = share_open_parent(a->upper_fd, path, &upper_name);
        ssize_t n = upper >= 0 ? readlinkat(upper, upper_name, target, sizeof(target) - 1) : -1;
        fd_close(&upper);
        if (n < 0)
                return -1;
        target[n] = 0;
        unlinkat(parent, a->temporary, 0);
        return symlinkat(target, parent, a->temporary) == 0 && renameat(parent, a->temporary, parent, name) == 0 ? 0 : -1;
}

static int put_mode(int parent, const char *name, mode_t mode)
{
        int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        int r = fd >= 0 ? fchmod(fd, mode & MODE_BITS) : -1;
        fd_close(&fd);
        return r;
}

static int put(const struct apply *a, const struct overlay_change *c)
{
        const char *name;
        int parent = share_open_parent(a->lower_fd, c->path, &name), r = -1;
        bool was_folder = S_ISDIR(c->lower_mode), is_folder = S_ISDIR(c->upper_mode);
        if (parent < 0)
                return -1;
        /* mkdirat and the like need no more than O_PATH */
        if (c->kind == OVERLAY_DELETED)
                r = remove_tree(parent, name, 0);
        else if (c->kind == OVERLAY_MODE)
                r = put_mode(parent, name, is_folder ? c->upper_mode | 0700 : c->upper_mode); /* a folder we could not enter would stop the rest */
        else if (c->lower_mode != 0 && was_folder != is_folder && remove_tree(parent, name, 0) < 0)
                r = -1;
        else if (is_folder)
                r = mkdirat(parent, name, 0700) == 0 ? put_mode(parent, name, c->upper_mode | 0700) : -1;
        else if (S_ISLNK(c->upper_mode))
                r = put_link(a, c->path, parent, name);
        else
                r = put_file(a, c->path, parent, name);
        int saved = errno;
        close(parent);
        errno = saved;
        return r;
}

static int apply_change(void *arg, const struct overlay_change *change)
{
        struct apply *a = arg;
        struct overlay_change c = *change;
        bool exactly;
        if (!is_named(a, c.path, &exactly))
                return 0;
        if (exactly && !never(&c))
                c.refused = NULL;
        if (c.refused != NULL) {
                a->result->refused++;
        } else if (put(a, &c) == 0) {
                a->result->applied++;
        } else {
                if (a->result->failed++ == 0)
                        err_sys(a->err, errno, "cannot apply %s", esc_str(c.path));
                c.refused = "it could not be written";
        }
        return a->fn != NULL ? a->fn(a->arg, &c) : 0;
}

int overlay_apply(int lower_fd, int upper_fd, const char *const *paths, size_t path_count, overlay_fn *fn, void *arg, struct overlay_apply_result *result,
                  struct err *err)
{
        struct apply a = { .lower_fd = lower_fd, .upper_fd = upper_fd, .paths = paths, .path_count = path_count, .fn = fn, .arg = arg, .result = result, .err = err };
        *result = (struct overlay_apply_result){ 0 };
        snprintf(a.temporary, sizeof(a.temporary), ".brome-apply.%d", (int)getpid());
        int r = overlay_diff(lower_fd, upper_fd, apply_change, &a, err);
        return r != 0 || result->failed > 0 ? -1 : 0;
}
