/* Taking files: see take.h. SECURITY: every name here is the guest's choice. */
#include "cli/take.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "share/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void take_init(struct take *t, int folder, const char *from, const char *as, const char *workspace, uint64_t bytes_max)
{
        *t = (struct take){ .folder = folder, .from = from, .as = as, .workspace = workspace, .bytes_max = bytes_max, .parent = -1, .file = -1, .umask = umask(022) };
        umask(t->umask);
        tar_reader_init(&t->reader);
        buf_init(&t->links, TAKE_LINKS_BYTES);
}

static void left_out(struct take *t, const char *path, const char *why)
{
        if (t->left_out++ < TAKE_TOLD)
                cli_note("%s: left out: %s", esc_str(path), why);
}

/* The entry's path here: the archive's first name becomes ours. False: not what was asked for. */
static bool here(const struct take *t, const char *path, char out[TAR_PATH_BYTES + TAR_NAME_BYTES + 1])
{
        size_t n = strlen(t->from);

        if (strncmp(path, t->from, n) != 0 || (path[n] != 0 && path[n] != '/'))
                return false;
        return snprintf(out, TAR_PATH_BYTES + TAR_NAME_BYTES + 1, "%s%s", t->as, path + n) <= TAR_PATH_BYTES;
}

/* Opens the folder that `path` lies in and finds its last name. */
static int parent_of(const struct take *t, const char *path, const char **name)
{
        const char *slash = strrchr(path, '/');
        char folder[TAR_PATH_BYTES + 1];

        *name = slash ? slash + 1 : path;
        if (!slash)
                return fcntl(t->folder, F_DUPFD_CLOEXEC, 3);
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
        return share_open(t->folder, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

static int take_folder(struct take *t, const char *path, unsigned mode, struct err *err)
{
        const char *name;
        struct stat st;
        int parent = parent_of(t, path, &name), rc = 0;

        if (parent < 0)
                left_out(t, path, strerror(errno));
        else if (mkdirat(parent, name, (mode | 0700) & ~t->umask) < 0 && errno != EEXIST)
                rc = err_sys(err, errno, "%s", esc_str(path));
        else if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                left_out(t, path, "something that is no folder has its name here");
        fd_close(&parent);
        return rc;
}

static void drop_file(struct take *t)
{
        if (t->file >= 0)
                unlinkat(t->parent, t->temp, 0);
        fd_close(&t->file);
        fd_close(&t->parent);
}

static int temp_name(char temp[TAKE_TEMP_BYTES], struct err *err)
{
        uint32_t id[2];

        if (getrandom(id, sizeof(id), 0) != sizeof(id))
                return err_sys(err, errno, "no random numbers");
        snprintf(temp, TAKE_TEMP_BYTES, ".brome-cp-%08x%08x", id[0], id[1]);
        return 0;
}

static int begin_file(struct take *t, const char *path, const struct tar_entry *e, struct err *err)
{
        const char *name;
        struct stat st;

        t->parent = parent_of(t, path, &name);
        t->mode = e->mode & ~t->umask;
        if (t->parent < 0) {
                left_out(t, path, strerror(errno));
                return 0;
        }
        if (fstatat(t->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                if (!S_ISREG(st.st_mode)) {
                        left_out(t, path, S_ISLNK(st.st_mode) ? "a link has its name here; remove the link if the file is meant" : "something that is no file has its name here");
                        fd_close(&t->parent);
                        return 0;
                }
                t->mode = st.st_mode & 0777; /* as cp leaves it */
        }
        snprintf(t->name, sizeof(t->name), "%s", name);
        if (temp_name(t->temp, err) < 0)
                return -1;
        t->file = openat(t->parent, t->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return t->file < 0 ? err_sys(err, errno, "%s", esc_str(path)) : 0;
}

/* Whole: its mode, its name. */
static int end_file(struct take *t, struct err *err)
{
        if (t->file < 0)
                return 0;
        if (fchmod(t->file, t->mode) < 0 || renameat(t->parent, t->temp, t->parent, t->name) < 0) {
                err_sys(err, errno, "%s", esc_str(t->name));
                return -1;
        }
        t->files++;
        fd_close(&t->file);
        fd_close(&t->parent);
        return 0;
}

static int on_entry(struct take *t, struct err *err)
{
        const struct tar_entry *e = &t->reader.entry;
        char path[TAR_PATH_BYTES + TAR_NAME_BYTES + 1];
        int rc = 0;

        if (++t->entries > TAKE_ENTRIES)
                return err_set(err, "more than %d files and folders: copy it in parts", TAKE_ENTRIES);
        if (!here(t, e->path, path))
                return err_set(err, "the workspace sent %s, which was not asked for", esc_str(e->path));
        if (e->size > t->bytes_max - t->bytes)
                return err_set(err, "more than %llu bytes: --limit SIZE allows it", (unsigned long long)t->bytes_max);
        t->bytes += e->size;
        t->due = e->size;
        switch (e->kind) {
        case TAR_FOLDER:
                return take_folder(t, path, e->mode, err);
        case TAR_FILE:
                rc = begin_file(t, path, e, err);
                return rc == 0 && t->due == 0 ? end_file(t, err) : rc;
        case TAR_LINK:
                if (buf_add(&t->links, path, strlen(path) + 1) < 0 || buf_add(&t->links, e->target, strlen(e->target) + 1) < 0)
                        return err_set(err, "too many links: copy it in parts");
                return 0;
        case TAR_OTHER:
                left_out(t, path, "it is no file, no folder and no link");
                return 0;
        }
        return 0;
}

static int on_data(struct take *t, struct slice data, struct err *err)
{
        t->due -= data.n;
        if (t->file < 0)
                return 0;
        if (fd_write_all(t->file, data.p, data.n) < 0)
                return err_sys(err, errno, "%s", esc_str(t->name));
        return t->due == 0 ? end_file(t, err) : 0;
}

int take_feed(struct take *t, struct slice bytes, struct err *err)
{
        struct slice data;

        for (;;)
                switch (tar_read(&t->reader, &bytes, &data)) {
                case TAR_ENTRY:
                        if (on_entry(t, err) < 0)
                                return -1;
                        break;
                case TAR_DATA:
                        if (on_data(t, data, err) < 0)
                                return -1;
                        break;
                case TAR_MORE:
                        return 0;
                case TAR_END:
                        t->ended = true;
                        return 0;
                case TAR_BAD:
                        return err_set(err, "the workspace's archive is not taken: %s", t->reader.why);
                }
}

/* Leads up at most to the copied folder, and only at its beginning: by induction it stays within, whatever else is a link there. */
static bool stays_within(const char *path, const char *target)
{
        size_t depth = 0;
        bool down = false;
        struct slice rest = slice_str(target);

        for (const char *p = path; *p; p++)
                depth += *p == '/';
        if (depth == 0 || *target == '/')
                return false; /* what was copied is itself a link: all else is outside */
        depth--;
        while (rest.n) {
                ptrdiff_t at = slice_find(rest, '/');
                struct slice one = at < 0 ? rest : slice_first(rest, (size_t)at);

                if (slice_is(one, "..") && (down || depth-- == 0))
                        return false;
                down = down || !slice_is(one, "..");
                rest = slice_skip(rest, one.n + (at >= 0));
        }
        return true;
}

/* And with what was there before it came: links of the user's that lead elsewhere. */
static bool leads_out(const struct take *t, const char *path, const char *target)
{
        struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
        int root = share_open(t->folder, t->as, O_PATH | O_DIRECTORY | O_CLOEXEC, 0), fd, saved;
        char full[2 * TAR_PATH_BYTES + 2];
        const char *within = path + strlen(t->as) + 1, *slash = strrchr(within, '/');

        snprintf(full, sizeof(full), "%.*s%s", slash ? (int)(slash + 1 - within) : 0, within, target);
        fd = root < 0 ? -1 : (int)syscall(SYS_openat2, root, full, &how, sizeof(how));
        saved = errno;
        fd_close(&root);
        if (fd >= 0) {
                close(fd);
                return false;
        }
        return saved != ENOENT && saved != ENOTDIR && saved != ELOOP;
}

static void take_link(struct take *t, const char *path, const char *target)
{
        const char *name;
        int parent;

        if (!stays_within(path, target) || leads_out(t, path, target)) {
                left_out(t, path, "it is a link that leads out of what was copied");
                return;
        }
        parent = parent_of(t, path, &name);
        if (parent < 0 || symlinkat(target, parent, name) < 0)
                left_out(t, path, strerror(errno));
        else
                t->files++;
        fd_close(&parent);
}

int take_finish(struct take *t, struct err *err)
{
        struct slice rest = buf_slice(&t->links);

        if (!t->ended)
                return err_set(err, "the workspace's archive ends too early");
        while (rest.n) {
                const char *path = (const char *)rest.p, *target = path + strlen(path) + 1;

                take_link(t, path, target);
                rest = slice_skip(rest, strlen(path) + strlen(target) + 2);
        }
        if (t->left_out > TAKE_TOLD)
                cli_note("and %llu more were left out", (unsigned long long)(t->left_out - TAKE_TOLD));
        return 0;
}

void take_fini(struct take *t)
{
        drop_file(t);
        buf_fini(&t->links);
}
