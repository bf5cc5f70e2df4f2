/* Reading an overlay's upper layer: what does it say beside the lower one? See overlay.h. The kernel's marks (Documentation/filesystems/overlayfs):
 * a character device 0:0, or an empty file with the xattr overlay.whiteout, is a deletion; a folder with overlay.opaque hides the one below. */
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
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct diff {
        int lower_fd, upper_fd;
        overlay_fn *fn;
        void *arg;
        struct err *err;
        size_t changes;
        char opaque[PATH_MAX]; /* the topmost opaque folder last entered: it speaks for all below it */
        int stopped; /* what the callback said */
};

/* "user." as mounted in a user namespace, "trusted." by root. Through /proc, because an O_PATH descriptor has no attributes. */
static bool has_mark(int parent_fd, const char *name, const char *mark, bool *unreadable)
{
        static const char *const spaces[] = { "user.overlay.", "trusted.overlay." };
        char path[NAME_MAX + 64], attribute[64], value[8];
        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", parent_fd, name);
        for (size_t i = 0; i < 2; i++) {
                snprintf(attribute, sizeof(attribute), "%s%s", spaces[i], mark);
                ssize_t n = lgetxattr(path, attribute, value, sizeof(value));
                if (n >= 0 || errno == ERANGE)
                        return true;
                if (errno != ENODATA && errno != EOPNOTSUPP && errno != EPERM && unreadable != NULL)
                        *unreadable = true;
        }
        return false;
}

static bool is_whiteout(int parent_fd, const char *name, const struct stat *st)
{
        if (S_ISCHR(st->st_mode))
                return st->st_rdev == makedev(0, 0);
        return S_ISREG(st->st_mode) && st->st_size == 0 && has_mark(parent_fd, name, "whiteout", NULL);
}

static bool link_leaves(const char *path, const char *target)
{
        long depth = 0;
        if (target[0] == '/')
                return true;
        for (const char *p = path; (p = strchr(p, '/')) != NULL; p++)
                depth++;
        for (const char *p = target; *p; p += strspn(p, "/")) {
                size_t n = strcspn(p, "/");
                if (n == 2 && p[0] == '.' && p[1] == '.')
                        depth--;
                else if (n > 0 && !(n == 1 && p[0] == '.'))
                        depth++;
                if (depth < 0)
                        return true;
                p += n;
        }
        return false;
}

static const char *why_refused(const struct overlay_change *c, int upper_parent, const char *name)
{
        char target[PATH_MAX];
        mode_t mode = c->upper_mode;
        if (mode != 0 && !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
                return "it is a device, a socket or a FIFO";
        if (S_ISREG(mode) && (mode & (S_ISUID | S_ISGID)))
                return "it is set-user-ID or set-group-ID";
        const char *reason = share_protected_match(c->path, S_ISDIR(mode != 0 ? mode : c->lower_mode));
        if (reason != NULL || !S_ISLNK(mode))
                return reason;
        ssize_t n = readlinkat(upper_parent, name, target, sizeof(target) - 1);
        if (n < 0)
                return "its target cannot be read";
        target[n] = 0;
        return link_leaves(c->path, target) ? "it is a link that leads out of the share" : NULL;
}

static int tell(struct diff *d, struct overlay_change *c, int upper_parent, const char *name)
{
        if (++d->changes > OVERLAY_CHANGES)
                return err_set(d->err, "more than %d changes", OVERLAY_CHANGES);
        c->refused = why_refused(c, upper_parent, name);
        d->stopped = d->fn(d->arg, c);
        return d->stopped ? -1 : 0;
}

static bool same_bytes(int a, int b, off_t bytes)
{
        char x[16384], y[16384];
        for (off_t at = 0; at < bytes;) {
                ssize_t n = pread(a, x, sizeof(x), at), m = n > 0 ? pread(b, y, (size_t)n, at) : -1;
                if (n <= 0 || m != n || memcmp(x, y, (size_t)n) != 0)
                        return false;
                at += n;
        }
        return true;
}

static bool same_file(struct diff *d, const char *path, const struct stat *lower, const struct stat *upper)
{
        char x[PATH_MAX], y[PATH_MAX];
        const char *name;
        if (S_ISLNK(lower->st_mode)) {
                int p = share_open_parent(d->lower_fd, path, &name), q = share_open_parent(d->upper_fd, path, &name);
                ssize_t n = p >= 0 ? readlinkat(p, name, x, sizeof(x)) : -1, m = q >= 0 ? readlinkat(q, name, y, sizeof(y)) : -2;
                fd_close(&p);
                fd_close(&q);
                return n >= 0 && n == m && memcmp(x, y, (size_t)n) == 0;
        }
        if (!S_ISREG(lower->st_mode) || lower->st_size != upper->st_size || upper->st_size > OVERLAY_COMPARE_BYTES)
                return false;
        int a = share_open(d->lower_fd, path, O_RDONLY | O_NONBLOCK, 0), b = share_open(d->upper_fd, path, O_RDONLY | O_NONBLOCK, 0);
        bool r = a >= 0 && b >= 0 && same_bytes(a, b, upper->st_size);
        fd_close(&a);
        fd_close(&b);
        return r;
}

struct hidden {
        struct diff *d;
        const char *folder;
        int result;
};

/* What an opaque folder hides and does not hold itself. */
static int hidden_entry(void *arg, const struct share_entry *e)
{
        struct hidden *h = arg;
        char path[PATH_MAX];
        struct stat st, low;
        if (snprintf(path, sizeof(path), "%s/%s", h->folder, e->path) >= (int)sizeof(path) || fstatat(e->parent_fd, e->name, &low, AT_SYMLINK_NOFOLLOW) < 0)
                return WALK_ENTER;
        if (share_stat(h->d->upper_fd, path, &st) == 0) /* its own entry speaks for it, but not for what is hidden below it */
                return S_ISDIR(st.st_mode) && S_ISDIR(low.st_mode) ? WALK_ENTER : WALK_SKIP;
        struct overlay_change c = { .kind = OVERLAY_DELETED, .path = path, .lower_mode = low.st_mode };
        h->result = tell(h->d, &c, -1, e->name);
        return h->result < 0 ? WALK_STOP : WALK_SKIP;
}

static int tell_hidden(struct diff *d, const char *folder)
{
        struct hidden h = { .d = d, .folder = folder };
        size_t n = strlen(d->opaque);
        if (n > 0 && strncmp(folder, d->opaque, n) == 0 && folder[n] == '/')
                return 0; /* told with the one above */
        snprintf(d->opaque, sizeof(d->opaque), "%s", folder);
        int fd = share_open(d->lower_fd, folder, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return 0;
        int r = share_walk(fd, hidden_entry, NULL, &h, d->err);
        close(fd);
        return r < 0 || h.result < 0 ? -1 : 0;
}

static int compare_folder(struct diff *d, const struct share_entry *e, struct overlay_change *c, bool lower_is_folder, bool hides)
{
        if (!lower_is_folder) {
                c->kind = c->lower_mode ? OVERLAY_CHANGED : OVERLAY_ADDED;
                return tell(d, c, e->parent_fd, e->name);
        }
        if ((c->lower_mode & 07777) != (c->upper_mode & 07777)) {
                c->kind = OVERLAY_MODE;
                if (tell(d, c, e->parent_fd, e->name) < 0)
                        return -1;
        }
        return hides ? tell_hidden(d, e->path) : 0;
}

static int upper_entry(void *arg, const struct share_entry *e)
{
        struct diff *d = arg;
        struct stat upper, lower;
        bool unreadable = false;
        if (fstatat(e->parent_fd, e->name, &upper, AT_SYMLINK_NOFOLLOW) < 0)
                return WALK_ENTER;
        bool there = share_stat(d->lower_fd, e->path, &lower) == 0;
        struct overlay_change c = { .path = e->path, .lower_mode = there ? lower.st_mode : 0, .upper_mode = upper.st_mode, .upper_bytes = upper.st_size };
        if (is_whiteout(e->parent_fd, e->name, &upper)) {
                c.kind = OVERLAY_DELETED;
                c.upper_mode = 0;
                c.upper_bytes = 0;
                return there && tell(d, &c, -1, e->name) < 0 ? WALK_STOP : WALK_ENTER;
        }
        if (has_mark(e->parent_fd, e->name, "redirect", &unreadable) || has_mark(e->parent_fd, e->name, "metacopy", &unreadable) || unreadable) {
                err_set(d->err, "%s: this layer needs a newer brome to be read", esc_str(e->path));
                return WALK_STOP;
        }
        if (S_ISDIR(upper.st_mode))
                return compare_folder(d, e, &c, there && S_ISDIR(lower.st_mode), has_mark(e->parent_fd, e->name, "opaque", NULL)) < 0 ? WALK_STOP : WALK_ENTER;
        c.kind = there ? OVERLAY_CHANGED : OVERLAY_ADDED;
        if (there && (lower.st_mode & S_IFMT) == (upper.st_mode & S_IFMT) && same_file(d, e->path, &lower, &upper)) {
                if (S_ISLNK(upper.st_mode) || (lower.st_mode & 07777) == (upper.st_mode & 07777))
                        return WALK_ENTER;
                c.kind = OVERLAY_MODE;
        }
        return tell(d, &c, e->parent_fd, e->name) < 0 ? WALK_STOP : WALK_ENTER;
}

int overlay_diff(int lower_fd, int upper_fd, overlay_fn *fn, void *arg, struct err *err)
{
        struct diff *d = calloc(1, sizeof(*d));
        if (d == NULL)
                return err_set(err, "out of memory");
        *d = (struct diff){ .lower_fd = lower_fd, .upper_fd = upper_fd, .fn = fn, .arg = arg, .err = err };
        int r = share_walk(upper_fd, upper_entry, NULL, d, err);
        r = d->stopped ? d->stopped : r == 0 ? 0 : -1;
        free(d);
        return r;
}
