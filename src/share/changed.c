/* What changed in a share that the host may execute: a snapshot of the files concerned, and its comparison. A file counts as changed when its inode, size,
 * mode, or change time differ; the change time cannot be set by any program, so there is no need to read what is in the files. */
#include "share/share_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rule {
        const char *pattern, *reason;
} rules[] = {
#define CHANGED(pattern, reason) { pattern, reason },
#include "share/changed.tbl"
#undef CHANGED
};

struct remembered {
        char *path;
        const char *reason;
        uint64_t inode;
        int64_t size, ctime_s;
        uint32_t ctime_ns, mode;
};
struct share_snapshot {
        struct remembered *files;
        size_t count, room;
        struct err *err; /* while it is taken */
};

static bool in_git(const char *path) { return strncmp(path, ".git/", 5) == 0 || strstr(path, "/.git/") != NULL; }

static const char *reason_for(const struct share_entry *e, const struct stat *st)
{
        const char *reason = share_protected_match(e->path, false);
        if (reason != NULL || in_git(e->path))
                return reason;
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (share_name_matches(rules[i].pattern, e->name, strlen(e->name)))
                        return rules[i].reason;
        if (strcmp(e->name, "HEAD") == 0)
                return "git takes the folder for a repository, with a configuration of its own";
        if (strstr(e->path, ".github/workflows/") != NULL)
                return "a build server runs it";
        return S_ISREG(st->st_mode) && (st->st_mode & 0111) ? "it is executable" : NULL;
}

static int remember(struct share_snapshot *s, const struct share_entry *e, const struct stat *st, const char *reason)
{
        if (s->count == SHARE_SNAPSHOT_FILES)
                return err_set(s->err, "the folder holds more than %d files that the host may execute", SHARE_SNAPSHOT_FILES);
        if (s->count == s->room) {
                size_t room = s->room ? 2 * s->room : 256;
                struct remembered *more = reallocarray(s->files, room, sizeof(*more));
                if (more == NULL)
                        return err_set(s->err, "out of memory");
                s->files = more;
                s->room = room;
        }
        char *path = strdup(e->path);
        if (path == NULL)
                return err_set(s->err, "out of memory");
        s->files[s->count++] = (struct remembered){ .path = path, .reason = reason, .inode = st->st_ino, .size = st->st_size, .ctime_s = st->st_ctim.tv_sec,
                .ctime_ns = (uint32_t)st->st_ctim.tv_nsec, .mode = st->st_mode };
        return 0;
}

static int snapshot_entry(void *arg, const struct share_entry *e)
{
        struct share_snapshot *s = arg;
        struct stat st;
        if (e->type == DT_DIR) /* git's own store changes all the time and is not run */
                return in_git(e->path) && (strcmp(e->name, "objects") == 0 || strcmp(e->name, "logs") == 0 || strcmp(e->name, "refs") == 0) ? WALK_SKIP : WALK_ENTER;
        if ((e->type != DT_REG && e->type != DT_LNK) || fstatat(e->parent_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return WALK_ENTER;
        const char *reason = reason_for(e, &st);
        return reason != NULL && remember(s, e, &st, reason) < 0 ? WALK_STOP : WALK_ENTER;
}

static int by_path(const void *a, const void *b) { return strcmp(((const struct remembered *)a)->path, ((const struct remembered *)b)->path); }

struct share_snapshot *share_snapshot_take(int dirfd, struct err *err)
{
        struct share_snapshot *s = calloc(1, sizeof(*s));
        if (s == NULL) {
                err_set(err, "out of memory");
                return NULL;
        }
        s->err = err;
        if (share_walk(dirfd, snapshot_entry, NULL, s, err) != 0) {
                share_snapshot_free(s);
                return NULL;
        }
        s->err = NULL;
        if (s->count > 0)
                qsort(s->files, s->count, sizeof(*s->files), by_path);
        return s;
}

void share_snapshot_free(struct share_snapshot *s)
{
        if (s == NULL)
                return;
        for (size_t i = 0; i < s->count; i++)
                free(s->files[i].path);
        free(s->files);
        free(s);
}

static bool same(const struct remembered *a, const struct remembered *b)
{
        return a->inode == b->inode && a->size == b->size && a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns && a->mode == b->mode;
}

long share_snapshot_compare(const struct share_snapshot *s, int dirfd, size_t limit, share_changed_fn *fn, void *arg, struct err *err)
{
        struct share_snapshot *now = share_snapshot_take(dirfd, err);
        size_t k = 0;
        long count = 0;
        if (now == NULL)
                return -1;
        for (size_t i = 0; i < now->count; i++) {
                const struct remembered *f = &now->files[i];
                int order = -1;
                while (k < s->count && (order = strcmp(s->files[k].path, f->path)) < 0)
                        k++;
                bool known = k < s->count && order == 0;
                if (known && same(&s->files[k], f))
                        continue;
                if ((size_t)count++ < limit)
                        fn(arg, &(struct share_changed){ .path = f->path, .reason = f->reason, .added = !known });
        }
        share_snapshot_free(now);
        return count;
}
