/* protected.tbl applied to a tree. Everything is collected first and sorted, so that a parent comes before what is in it and nothing comes twice. */
#include "share/share_priv.h"
#include "share/gitconf.h"
#include "base/esc.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum row_kind { KIND_FILE, KIND_DIRECTORY, KIND_CONFIG, KIND_GITFILE };
static const struct row {
        enum row_kind kind;
        const char *path, *reason;
} rows[] = {
#define PROTECTED(kind, path, reason) { KIND_##kind, path, reason },
#include "share/protected.tbl"
#undef PROTECTED
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const char pin_reason[] = "what is protected in it must not be moved away";
static const char named_reason[] = "the repository's configuration names it, and git runs what it says";

/* ---- names ---- */

bool share_name_matches(const char *pattern, const char *name, size_t n)
{
        while (*pattern != 0 && *pattern != '*' && n > 0 && ascii_lower((uint8_t)*pattern) == ascii_lower((uint8_t)*name)) {
                pattern++;
                name++;
                n--;
        }
        if (*pattern != '*')
                return *pattern == 0 && n == 0;
        for (size_t skip = 0; skip <= n; skip++) /* patterns have one star: no deep recursion */
                if (share_name_matches(pattern + 1, name + skip, n - skip))
                        return true;
        return false;
}

/* Do the components of `path` from here on begin with those of pattern? The rest after them (at a '/' or the end), or NULL. */
static const char *components_match(const char *pattern, const char *path)
{
        for (;;) {
                size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");
                char one[64];
                if (want >= sizeof(one))
                        return NULL;
                memcpy(one, pattern, want);
                one[want] = 0;
                if (!share_name_matches(one, path, have))
                        return NULL;
                path += have;
                if (pattern[want] == 0)
                        return path;
                if (*path == 0)
                        return NULL;
                pattern += want + 1;
                path++;
        }
}

const char *share_protected_match(const char *relative, bool is_directory)
{
        for (const char *at = relative; at != NULL; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
                for (size_t i = 0; i < ROW_COUNT; i++) {
                        const char *rest = components_match(rows[i].path, at);
                        if (rest == NULL || (*rest != 0 && rows[i].kind != KIND_DIRECTORY))
                                continue;
                        if (rows[i].kind == KIND_GITFILE && is_directory)
                                continue;
                        return rows[i].reason;
                }
        return NULL;
}

const char *share_protected_reason(const char *relative) { return share_protected_match(relative, false); }

/* ---- collecting ---- */

struct found {
        char *path;
        enum share_protection how;
        bool directory, missing;
        const char *reason;
};
struct collect {
        int root_fd;
        char root[PATH_MAX]; /* for absolute paths in configurations */
        struct found found[SHARE_PROTECTED];
        size_t count;
        struct err *err;
        bool failed;
};

static int keep_one(struct collect *c, const char *path, enum share_protection how, bool directory, bool missing, const char *reason)
{
        if (c->count == SHARE_PROTECTED) {
                c->failed = true;
                return err_set(c->err, "the folder holds more than %d files that tools of the host run by themselves; share a smaller folder, or use overlay",
                               SHARE_PROTECTED);
        }
        char *copy = strdup(path);
        if (copy == NULL) {
                c->failed = true;
                return err_set(c->err, "out of memory");
        }
        c->found[c->count++] = (struct found){ .path = copy, .how = how, .directory = directory, .missing = missing, .reason = reason };
        return 0;
}

static bool is_pinned(const struct collect *c, const char *path)
{
        for (size_t i = c->count; i-- > 0;)
                if (c->found[i].how == SHARE_PROTECT_PIN && strcmp(c->found[i].path, path) == 0)
                        return true;
        return false;
}

/* With every folder above it pinned: whoever renames one of them puts another in its place, with a file of that name in it. */
static int keep(struct collect *c, const char *path, enum share_protection how, bool directory, bool missing, const char *reason)
{
        char above[PATH_MAX];

        for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
                if (!is_pinned(c, above) && keep_one(c, above, SHARE_PROTECT_PIN, true, false, pin_reason) < 0)
                        return -1;
        }
        return keep_one(c, path, how, directory, missing, reason);
}

static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
        return snprintf(out, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", name) < PATH_MAX;
}

/* "a/../b/./c" relative to the root as plain components; false: leaves the share, or is the share itself. */
static bool plain(char out[PATH_MAX], const char *folder, const char *path)
{
        char whole[2 * PATH_MAX];
        size_t n = 0;
        if (snprintf(whole, sizeof(whole), "%s/%s", folder, path) >= (int)sizeof(whole))
                return false;
        for (char *save, *part = strtok_r(whole, "/", &save); part != NULL; part = strtok_r(NULL, "/", &save)) {
                if (strcmp(part, ".") == 0)
                        continue;
                if (strcmp(part, "..") == 0) {
                        if (n == 0)
                                return false;
                        while (n > 0 && out[--n] != '/')
                                ;
                        continue;
                }
                size_t len = strlen(part);
                if (len + 2 > PATH_MAX - n)
                        return false;
                if (n > 0)
                        out[n++] = '/';
                memcpy(out + n, part, len);
                n += len;
        }
        out[n] = 0;
        return n > 0;
}

struct config_scan {
        struct collect *c;
        const char *git_dir; /* relative */
};

/* include.path is relative to the configuration, core.hooksPath to the working tree. */
static int config_entry(void *arg, const struct gitconf_entry *e)
{
        struct config_scan *s = arg;
        bool include = (slice_is(e->section, "include") || slice_is(e->section, "includeif")) && slice_is(e->key, "path");
        bool hooks = slice_is(e->section, "core") && slice_is(e->key, "hookspath");
        char value[PATH_MAX], base[PATH_MAX], path[PATH_MAX];
        struct stat st;
        if ((!include && !hooks) || e->value.n == 0 || e->value.n >= sizeof(value))
                return 0;
        memcpy(value, e->value.p, e->value.n);
        value[e->value.n] = 0;
        snprintf(base, sizeof(base), "%s", s->git_dir);
        if (hooks) {
                char *slash = strrchr(base, '/');
                *(slash ? slash : base) = 0;
        }
        const char *relative = value;
        size_t root_bytes = strlen(s->c->root);
        if (value[0] == '~')
                return 0;
        if (value[0] == '/') {
                if (root_bytes == 0 || strncmp(value, s->c->root, root_bytes) != 0 || (value[root_bytes] != '/' && value[root_bytes] != 0))
                        return 0;
                relative = value + root_bytes;
                base[0] = 0;
        }
        if (!plain(path, base, relative) || share_stat(s->c->root_fd, path, &st) < 0)
                return 0;
        if (include ? !S_ISREG(st.st_mode) : !S_ISDIR(st.st_mode))
                return 0;
        return keep(s->c, path, SHARE_PROTECT_READ_ONLY, hooks, false, named_reason);
}

static int scan_config(struct collect *c, const char *git_dir, const char *config)
{
        struct buf text;
        struct err ignored = ERR_INIT;
        int r = 0, fd = share_open(c->root_fd, config, O_RDONLY | O_NONBLOCK, 0);
        buf_init(&text, SHARE_GIT_CONFIG_BYTES + 1);
        /* One that cannot be read is no configuration to git either. */
        if (fd >= 0 && fd_read_all(fd, &text, SHARE_GIT_CONFIG_BYTES, &ignored) == 0)
                r = gitconf_read(buf_slice(&text), config_entry, &(struct config_scan){ .c = c, .git_dir = git_dir });
        fd_close(&fd);
        buf_fini(&text);
        return c->failed ? -1 : r == -2 ? -1 : 0;
}

/* A repository's own folder, whatever its name: .git, a bare one, one of .git/modules, or one of .git/worktrees. */
static int git_folder(struct collect *c, const char *folder)
{
        char path[PATH_MAX];
        struct stat st;
        bool real = join(path, folder, "objects") && share_stat(c->root_fd, path, &st) == 0;
        if (keep(c, folder, SHARE_PROTECT_PIN, true, false, pin_reason) < 0)
                return -1;
        for (size_t i = 0; i < ROW_COUNT; i++) {
                if (strncmp(rows[i].path, ".git/", 5) != 0 || !join(path, folder, rows[i].path + 5))
                        continue;
                bool is_dir = rows[i].kind == KIND_DIRECTORY, there = share_stat(c->root_fd, path, &st) == 0;
                /* Not there, and git would obey it once the guest has made it: except a worktree's hooks, which are the repository's. */
                bool worth = rows[i].kind != KIND_CONFIG && (real || strcmp(rows[i].path, ".git/config.worktree") == 0);
                if (there ? (is_dir ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)) : !worth)
                        continue;
                enum share_protection how = rows[i].kind == KIND_CONFIG ? SHARE_PROTECT_COPY : SHARE_PROTECT_READ_ONLY;
                if (keep(c, path, how, is_dir, !there, rows[i].reason) < 0)
                        return -1;
                if (there && !is_dir && strcmp(rows[i].path, ".git/commondir") != 0 && scan_config(c, folder, path) < 0)
                        return -1;
        }
        return 0;
}

static bool has(int parent_fd, const char *name, const char *child)
{
        char path[2 * NAME_MAX + 2];
        struct stat st;
        return snprintf(path, sizeof(path), "%s/%s", name, child) < (int)sizeof(path) && fstatat(parent_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

struct modules_walk {
        struct collect *c;
        const char *prefix;
};

/* Below .git/modules (nested names with slashes) and .git/worktrees. */
static int module_entry(void *arg, const struct share_entry *e)
{
        struct modules_walk *m = arg;
        char path[PATH_MAX];
        if (e->type != DT_DIR)
                return WALK_ENTER;
        if (!has(e->parent_fd, e->name, "HEAD"))
                return WALK_ENTER;
        if (!join(path, m->prefix, e->path) || git_folder(m->c, path) < 0)
                return WALK_STOP;
        return WALK_ENTER; /* modules of modules */
}

static int git_below(struct collect *c, const char *git_dir, const char *name)
{
        char path[PATH_MAX];
        if (!join(path, git_dir, name))
                return 0;
        int fd = share_open(c->root_fd, path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return 0;
        int r = share_walk(fd, module_entry, NULL, &(struct modules_walk){ .c = c, .prefix = path }, c->err);
        close(fd);
        if (r < 0)
                c->failed = true;
        return r == 0 ? 0 : -1;
}

static int git_all(struct collect *c, const char *folder)
{
        return git_folder(c, folder) < 0 || git_below(c, folder, "modules") < 0 || git_below(c, folder, "worktrees") < 0 ? -1 : 0;
}

/* Patterns of two components whose first is this folder: pin it if one of them is there. */
static int known_folder(struct collect *c, const struct share_entry *e)
{
        char path[PATH_MAX];
        struct stat st;
        bool pinned = false;
        for (size_t i = 0; i < ROW_COUNT; i++) {
                const char *rest = strchr(rows[i].path, '/');
                if (rest == NULL || !share_name_matches(e->name, rows[i].path, (size_t)(rest - rows[i].path)) || strchr(e->name, '*') != NULL)
                        continue;
                if (!join(path, e->path, rest + 1) || share_stat(c->root_fd, path, &st) < 0)
                        continue;
                bool is_dir = rows[i].kind == KIND_DIRECTORY;
                if (is_dir ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
                        continue;
                if (!pinned && keep(c, e->path, SHARE_PROTECT_PIN, true, false, pin_reason) < 0)
                        return -1;
                pinned = true;
                if (keep(c, path, SHARE_PROTECT_READ_ONLY, is_dir, false, rows[i].reason) < 0)
                        return -1;
        }
        return 0;
}

static int protected_entry(void *arg, const struct share_entry *e)
{
        struct collect *c = arg;
        if (e->type == DT_DIR && strcmp(e->name, "node_modules") == 0) /* others' packages: their settings act only where somebody opens them */
                return WALK_SKIP;
        bool git = e->type == DT_DIR && (strcmp(e->name, ".git") == 0 ||
                   (has(e->parent_fd, e->name, "HEAD") && has(e->parent_fd, e->name, "objects") && has(e->parent_fd, e->name, "refs")));
        if (git)
                return git_all(c, e->path) < 0 ? WALK_STOP : WALK_SKIP;
        for (size_t i = 0; i < ROW_COUNT; i++) {
                bool is_dir = rows[i].kind == KIND_DIRECTORY;
                if (strchr(rows[i].path, '/') != NULL || (is_dir ? e->type != DT_DIR : e->type != DT_REG) || !share_name_matches(rows[i].path, e->name, strlen(e->name)))
                        continue;
                return keep(c, e->path, SHARE_PROTECT_READ_ONLY, is_dir, false, rows[i].reason) < 0 ? WALK_STOP : WALK_SKIP;
        }
        return e->type == DT_DIR && known_folder(c, e) < 0 ? WALK_STOP : WALK_ENTER;
}

static int by_path(const void *a, const void *b)
{
        const struct found *x = a, *y = b;
        int r = strcmp(x->path, y->path);
        return r != 0 ? r : (int)x->how - (int)y->how;
}

static bool lies_in(const char *path, const char *folder)
{
        size_t n = strlen(folder);
        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* Sorted, each path once, nothing below a folder that is read-only as a whole. */
static int report(struct collect *c, share_protected_fn *fn, void *arg)
{
        const char *covered = NULL, *last = NULL;
        qsort(c->found, c->count, sizeof(c->found[0]), by_path);
        for (size_t i = 0; i < c->count; i++) {
                const struct found *f = &c->found[i];
                if ((last != NULL && strcmp(last, f->path) == 0) || (covered != NULL && lies_in(f->path, covered)))
                        continue;
                struct share_protected_path p = { .path = f->path, .how = f->how, .directory = f->directory, .missing = f->missing, .reason = f->reason };
                if (fn(arg, &p) != 0)
                        return -1;
                last = f->path;
                if (f->how == SHARE_PROTECT_READ_ONLY && f->directory)
                        covered = f->path;
        }
        return 0;
}

int share_protected(int dirfd, share_protected_fn *fn, void *arg, struct err *err)
{
        struct collect *c = calloc(1, sizeof(*c));
        char link[64];
        if (c == NULL)
                return err_set(err, "out of memory");
        c->root_fd = dirfd;
        c->err = err;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, c->root, sizeof(c->root) - 1);
        c->root[n > 0 ? n : 0] = 0;
        int r = share_walk(dirfd, protected_entry, NULL, c, err);
        if (r == 0)
                r = report(c, fn, arg);
        for (size_t i = 0; i < c->count; i++)
                free(c->found[i].path);
        free(c);
        return r == 0 ? 0 : -1;
}
