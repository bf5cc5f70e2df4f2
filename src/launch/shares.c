/* Shares: see shares.h. SECURITY: every path below a share was perhaps written by an enemy; it is opened beneath a descriptor and never through a link. */
#include "launch/shares.h"
#include "launch/place.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "launch/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_with(int dir, const char *path, int flags, uint64_t resolve)
{
        struct open_how how = { .flags = (uint64_t)(unsigned)flags | O_CLOEXEC, .resolve = resolve };

        return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static int by_length(const void *a, const void *b)
{
        const struct shares_one *x = a, *y = b;
        size_t n = strlen(x->checked.path), m = strlen(y->checked.path);

        return n < m ? -1 : n > m;
}

/* A private copy is a folder of the workspace with the one file in it, and beside it a link to where the guest finds that folder. The *link* is mounted
 * over the file of the share: git edits a configuration by renaming a new file over it, which a mounted file refuses, but first follows a link. */
#define COPY_FILE "config"
static void copy_path(char out[PATH_MAX], const struct plan *plan, int n, const char *tail) { place(out, PATH_MAX, "%s/copies/%d%s", plan->state, n, tail); }
static void copy_inside(char out[PATH_MAX], int n, const char *tail) { place(out, PATH_MAX, "run/brome/%d%s", n, tail); }

void shares_copy_path(char out[PATH_MAX], int n) { place(out, PATH_MAX, "/run/brome/%d", n); }

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st, (void)type, (void)at;
        return remove(path);
}

static int write_copy(int n, struct slice text, const struct plan *plan, const struct ids *ids, struct err *err)
{
        char path[PATH_MAX], target[PATH_MAX];

        copy_path(path, plan, n, "");
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); /* the last session's guest wrote in it */
        if (layer_mkdir(ids, path, 0755, err) < 0)
                return -1;
        copy_path(path, plan, n, "/" COPY_FILE);
        if (fd_write_file(path, 0644, text.p, text.n, err) < 0)
                return -1;
        if (lchown(path, ids->base, ids->base) < 0)
                return err_sys(err, errno, "%s", path);
        copy_path(path, plan, n, ".link");
        target[0] = '/';
        place(target + 1, sizeof(target) - 1, "run/brome/%d/" COPY_FILE, n);
        unlink(path);
        return symlink(target, path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

/* The guest edits a copy; what is harmless of it is carried back at the end. */
static int make_copy(struct shares *s, const struct shares_one *one, struct shares_protected *p, const struct plan *plan, const struct ids *ids, struct err *err)
{
        struct buf text;
        int fd = share_open(one->checked.fd, p->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0), rc = -1;

        buf_init(&text, 0);
        if (fd < 0)
                err_sys(err, errno, "%s/%s", one->checked.path, esc_str(p->path));
        else if (fd_read_all(fd, &text, SHARE_GIT_CONFIG_BYTES, err) == 0)
                rc = write_copy(s->copies, buf_slice(&text), plan, ids, err);
        fd_close(&fd);
        buf_fini(&text);
        if (rc == 0)
                p->copy = s->copies++;
        return rc;
}

/* The folder that holds `path`, found beneath the share; *name: its last component. */
static int parent_of(const struct shares_one *one, const char *path, const char **name)
{
        char parent[PATH_MAX];
        char *slash;

        place(parent, sizeof(parent), "%s", path);
        slash = strrchr(parent, '/');
        *name = slash ? path + (slash - parent) + 1 : path;
        if (!slash)
                return fcntl(one->checked.fd, F_DUPFD_CLOEXEC, 0);
        *slash = 0;
        return share_open(one->checked.fd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

/* What is not there cannot be protected; an empty folder can, and so can a file that tells git nothing new: its common folder is itself. */
static int make_missing(const struct shares_one *one, const struct share_protected_path *p, struct err *err)
{
        const char *name;
        int dir = parent_of(one, p->path, &name), fd = -1, rc;

        if (dir < 0)
                return err_sys(err, errno, "%s/%s", one->checked.path, esc_str(p->path));
        if (p->directory) {
                rc = mkdirat(dir, name, 0755) < 0 && errno != EEXIST ? -1 : 0;
        } else {
                fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
                rc = fd < 0 || (strcmp(name, "commondir") == 0 && write(fd, ".\n", 2) != 2) ? -1 : 0;
        }
        if (rc < 0)
                err_sys(err, errno, "%s/%s", one->checked.path, esc_str(p->path));
        fd_close(&fd);
        fd_close(&dir);
        return rc;
}

static void remove_made(const struct shares_one *one)
{
        for (size_t i = 0; i < one->protected_count; i++) {
                const char *name;
                int dir = one->protected[i].made ? parent_of(one, one->protected[i].path, &name) : -1;

                if (dir >= 0 && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
                        log_error("%s/%s stays: %s", one->checked.path, esc_str(one->protected[i].path), strerror(errno));
                fd_close(&dir);
        }
}

struct collect {
        struct shares_one *one;
        struct err *err;
};

static int collect_one(void *arg, const struct share_protected_path *p)
{
        struct collect *c = arg;
        struct shares_one *one = c->one;
        struct shares_protected *to;

        if (one->protected_count == one->protected_cap) {
                size_t cap = one->protected_cap ? one->protected_cap * 2 : 16;
                void *grown = realloc(one->protected, cap * sizeof(*one->protected));
                if (!grown)
                        return err_set(c->err, "out of memory");
                one->protected = grown;
                one->protected_cap = cap;
        }
        to = &one->protected[one->protected_count];
        *to = (struct shares_protected){ .path = strdup(p->path), .how = p->how, .copy = -1 };
        if (!to->path)
                return err_set(c->err, "out of memory");
        one->protected_count++;
        if (p->missing && make_missing(one, p, c->err) < 0)
                return -1;
        to->made = p->missing && !p->directory;
        return 0;
}

/* Overlay stores are found again by the path written beside them. */
static int find_layer(struct shares_one *one, const struct plan *plan, const struct ids *ids, struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        struct err quiet;

        for (one->layer = 0; one->layer < PLAN_SHARES * 8; one->layer++) {
                bool same;
                place(path, sizeof(path), "%s/overlay/%d/path", plan->state, one->layer);
                buf_init(&text, 0);
                if (fd_read_file(path, &text, PATH_MAX, &quiet) < 0) {
                        buf_fini(&text);
                        break;
                }
                same = slice_is(buf_slice(&text), one->checked.path);
                buf_fini(&text);
                if (same)
                        return 0;
        }
        place(path, sizeof(path), "%s/overlay/%d", plan->state, one->layer);
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        place(path, sizeof(path), "%s/overlay/%d/upper", plan->state, one->layer);
        if (layer_mkdir(ids, path, 0755, err) < 0)
                return -1;
        place(path, sizeof(path), "%s/overlay/%d/work", plan->state, one->layer);
        if (layer_mkdir(ids, path, 0700, err) < 0)
                return -1;
        place(path, sizeof(path), "%s/overlay/%d/path", plan->state, one->layer);
        return fd_write_file(path, 0600, one->checked.path, strlen(one->checked.path), err);
}

static int judge_one(struct shares_one *one, const struct plan *plan, struct err *err)
{
        const char *const *protect = (const char *const *)plan->protect;
        struct stat st;
        struct err why = ERR_INIT;
        struct collect c = { one, &why };

        if (share_check(one->plan->path, one->plan->mode, one->plan->sockets, protect, plan->protect_count, &one->checked, err) < 0)
                return -1;
        if (fstat(one->checked.fd, &st) < 0)
                return err_sys(err, errno, "%s", one->checked.path);
        one->dev = st.st_dev;
        one->ino = st.st_ino;
        one->uid = st.st_uid;
        one->gid = st.st_gid;
        if (one->plan->mode != SHARE_READ_WRITE)
                return 0;
        if (share_config_inside(protect, plan->protect_count, &one->checked, err) < 0)
                return -1;
        if (share_protected(one->checked.fd, collect_one, &c, err) < 0)
                return why.text[0] ? err_set(err, "%s", why.text) : -1;
        one->before = share_snapshot_take(one->checked.fd, err);
        return one->before ? 0 : -1;
}

/* ---- tools ---- */

static bool in_folder(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* The layers of the system have it already (a machine has a system of its own), or a share: what may be written there stays so. */
static bool is_there(const struct shares *s, const struct plan *plan, const char *path)
{
        if (!plan->machine && in_folder(path, "/usr"))
                return true;
        for (size_t i = 0; i < s->count; i++)
                if (in_folder(path, s->one[i].checked.path))
                        return true;
        return false;
}

static void add_tool_path(struct shares *s, const char *folder)
{
        static const char *const below[] = { "/bin", "/.bin", "" }; /* the second in node_modules */
        size_t used = strlen(s->tool_path);
        char bin[PATH_MAX] = "";
        struct stat st;

        for (size_t i = 0; i < sizeof(below) / sizeof(below[0]) && !*bin; i++) {
                place(bin, sizeof(bin), "%s%s", folder, below[i]);
                if (!bin[0] || stat(bin, &st) < 0 || !S_ISDIR(st.st_mode))
                        bin[0] = 0;
        }
        if (!bin[0] || strchr(bin, ':') || used + strlen(bin) + 2 > sizeof(s->tool_path))
                return;
        place(s->tool_path + used, sizeof(s->tool_path) - used, "%s%s", used ? ":" : "", bin);
}

/* Where a person keeps programs: no share, since it is the host's, but a tool's folder, which is only read. */
static int open_own_programs(const struct plan *plan, const char *path, struct share_checked *out, struct err *err)
{
        static const char *const places[] = { ".local/bin", "bin" };
        const char *home = getenv("HOME");
        char own[PATH_MAX];

        for (size_t i = 0; home && home[0] == '/' && i < sizeof(places) / sizeof(places[0]); i++) {
                place(own, sizeof(own), "%s/%s", home, places[i]);
                if (strcmp(own, path) != 0)
                        continue;
                for (size_t k = 0; k < plan->protect_count; k++)
                        if (in_folder(plan->protect[k], path) || in_folder(path, plan->protect[k]))
                                return -1;
                *out = (struct share_checked){ .fd = open_with(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS) };
                snprintf(out->path, sizeof(out->path), "%s", path);
                return out->fd < 0 ? err_sys(err, errno, "%s", esc_str(path)) : 0;
        }
        return -1;
}

/* Of the host's /usr, which holds no secret and which a guest in namespaces sees whole: a machine sees the folder of the one program. */
static int open_system_program(const struct plan *plan, const char *path, struct share_checked *out, struct err *err)
{
        if (!plan->machine || !in_folder(path, "/usr"))
                return -1;
        *out = (struct share_checked){ .fd = open_with(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS) };
        snprintf(out->path, sizeof(out->path), "%s", path);
        return out->fd < 0 ? err_sys(err, errno, "%s", esc_str(path)) : 0;
}

/* SECURITY: a tool's folder is judged as a share is; what no share may be is no tool's either, but for the user's own folders of programs. */
static void judge_tool(struct shares *s, const struct plan_share *tool, const struct plan *plan)
{
        const char *protect[PLAN_PROTECT];
        struct shares_one *one = &s->one[s->count];
        struct err err = ERR_INIT;
        struct stat st;

        for (size_t i = 0; i < plan->protect_count; i++)
                protect[i] = plan->protect[i];
        if (is_there(s, plan, tool->path)) {
                add_tool_path(s, tool->path);
                return;
        }
        *one = (struct shares_one){ .plan = tool, .checked = { .fd = -1 }, .owner_map = -1, .layer = -1 };
        if ((open_own_programs(plan, tool->path, &one->checked, &err) < 0 && open_system_program(plan, tool->path, &one->checked, &err) < 0 &&
             share_check(tool->path, SHARE_READ_ONLY, false, protect, plan->protect_count, &one->checked, &err) < 0) ||
            (fstat(one->checked.fd, &st) < 0 && err_sys(&err, errno, "%s", esc_str(tool->path)) < 0)) {
                fd_close(&one->checked.fd);
                if (s->left_out)
                        json_array_append_new(s->left_out, json_sprintf("a tool's folder is not shown to the workspace: %s", err.text));
                return;
        }
        one->dev = st.st_dev;
        one->ino = st.st_ino;
        one->uid = st.st_uid;
        one->gid = st.st_gid;
        s->count++;
        add_tool_path(s, one->checked.path);
}

int shares_judge(struct shares *s, const struct plan *plan, struct err *err)
{
        *s = (struct shares){ 0 };
        for (size_t i = 0; i < plan->share_count; i++) {
                s->one[i] = (struct shares_one){ .plan = &plan->shares[i], .checked = { .fd = -1 }, .owner_map = -1, .layer = -1 };
                s->count++;
                if (judge_one(&s->one[i], plan, err) < 0)
                        return -1;
        }
        s->left_out = json_array();
        for (size_t i = 0; i < plan->tool_count; i++)
                judge_tool(s, &plan->tools[i], plan);
        if (plan->link_count && strlen(s->tool_path) + sizeof(":" SHARES_LINKS) <= sizeof(s->tool_path))
                place(s->tool_path + strlen(s->tool_path), sizeof(s->tool_path) - strlen(s->tool_path), "%s" SHARES_LINKS, *s->tool_path ? ":" : "");
        qsort(s->one, s->count, sizeof(s->one[0]), by_length);
        return 0;
}

static int prepare_one(struct shares *s, struct shares_one *one, const struct plan *plan, const struct ids *ids, struct err *err)
{
        if (ids->root && (one->owner_map = ids_owner_map(ids, one->uid, one->gid, err)) < 0)
                return -1;
        if (one->plan->mode == SHARE_OVERLAY)
                return find_layer(one, plan, ids, err);
        for (size_t i = 0; i < one->protected_count; i++)
                if (one->protected[i].how == SHARE_PROTECT_COPY && make_copy(s, one, &one->protected[i], plan, ids, err) < 0)
                        return -1;
        return 0;
}

int shares_prepare(struct shares *s, const struct plan *plan, const struct ids *ids, struct err *err)
{
        char path[PATH_MAX];

        place(path, sizeof(path), "%s/copies", plan->state);
        if (plan->share_count && fd_mkdirs(path, 0700, err) < 0)
                return -1;
        for (size_t i = 0; i < s->count; i++)
                if (prepare_one(s, &s->one[i], plan, ids, err) < 0)
                        return -1;
        return 0;
}

/* The place of the share in the new root: each component made or taken, never followed (the workspace's own layers were written by the guest). */
static int make_target(const struct ids *ids, const char *path, struct err *err)
{
        int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), next;
        char name[NAME_MAX + 1];

        while (at >= 0 && *path) {
                size_t n = strcspn(path += strspn(path, "/"), "/");
                if (n == 0)
                        break;
                if (n > NAME_MAX) {
                        fd_close(&at);
                        return err_set(err, "a share's path is too long");
                }
                memcpy(name, path, n);
                name[n] = 0;
                path += n;
                if (mkdirat(at, name, 0755) == 0 && fchownat(at, name, ids->base, ids->base, AT_SYMLINK_NOFOLLOW) < 0) {
                        fd_close(&at);
                        break;
                }
                next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                fd_close(&at);
                at = next;
        }
        return at < 0 ? err_sys(err, errno, "cannot make the share's place in the workspace") : at;
}

/* Mounts an object of the share on itself (or the private copy over it), found anew beneath the mounted share. */
static int attach_copy(int n, int at, const struct ids *ids, const struct plan *plan, struct err *err)
{
        char path[PATH_MAX], inside[PATH_MAX];
        int link, copy, rc;

        copy_path(path, plan, n, "");
        copy_inside(inside, n, "");
        if (layer_mkdirs(ids, inside, err) < 0 || layer_bind(path, inside, 0, err) < 0)
                return -1;
        copy_path(path, plan, n, ".link");
        link = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        copy = link < 0 ? err_sys(err, errno, "%s", path) : layer_clone(link, -1, 0, err);
        rc = copy < 0 ? -1 : layer_attach(copy, at, "", err);
        fd_close(&link);
        fd_close(&copy);
        return rc;
}

static int protect_one(int root, const struct shares_protected *p, const struct ids *ids, const struct plan *plan, struct err *err)
{
        int at = open_with(root, p->path, O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS), copy, rc = -1;

        if (at < 0)
                return err_sys(err, errno, "cannot protect %s in a share", esc_str(p->path));
        if (p->how == SHARE_PROTECT_COPY) {
                rc = attach_copy(p->copy, at, ids, plan, err);
        } else {
                copy = layer_clone(at, -1, p->how == SHARE_PROTECT_READ_ONLY ? LAYER_READ_ONLY : 0, err);
                rc = copy < 0 ? -1 : layer_attach(copy, at, "", err);
                fd_close(&copy);
        }
        fd_close(&at);
        return rc;
}

/* The folder that was judged, seen from this mount namespace. */
static int reopen(const struct shares_one *one, struct err *err)
{
        struct stat st;
        int fd = open_with(AT_FDCWD, one->checked.path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);

        if (fd < 0)
                return err_sys(err, errno, "%s", one->checked.path);
        if (fstat(fd, &st) < 0 || st.st_dev != one->dev || st.st_ino != one->ino) {
                fd_close(&fd);
                return err_set(err, "%s was replaced while the workspace started; start it again", one->checked.path);
        }
        return fd;
}

static int mount_one(const struct shares_one *one, const struct ids *ids, const struct plan *plan, struct err *err)
{
        char store[PATH_MAX], target_path[64];
        int fd = reopen(one, err), target = fd < 0 ? -1 : make_target(ids, one->checked.path, err), copy = -1, rc = -1;
        unsigned flags = (one->plan->mode == SHARE_READ_ONLY ? LAYER_READ_ONLY : 0u) | (ids->root ? 0u : LAYER_RECURSIVE);

        if (target < 0) {
                fd_close(&fd);
                return -1;
        }
        if (one->plan->mode == SHARE_OVERLAY) {
                place(store, sizeof(store), "%s/overlay/%d", plan->state, one->layer);
                place(target_path, sizeof(target_path), "/proc/self/fd/%d", target);
                rc = layer_overlay(ids, -1, fd, one->owner_map, store, target_path, NULL, err);
        } else {
                copy = layer_clone(fd, one->owner_map, flags, err);
                /* Without owners shown as the guest's, a read-only share is still readable. */
                if (copy < 0 && one->plan->mode == SHARE_READ_ONLY)
                        copy = layer_clone(fd, -1, flags, err);
                rc = copy < 0 ? -1 : layer_attach(copy, target, "", err);
                for (size_t i = 0; rc == 0 && i < one->protected_count; i++)
                        rc = protect_one(copy, &one->protected[i], ids, plan, err);
        }
        fd_close(&fd);
        fd_close(&target);
        fd_close(&copy);
        return rc;
}

int shares_mount(const struct shares *s, const struct ids *ids, const struct plan *plan, struct err *err)
{
        for (size_t i = 0; i < s->count; i++)
                if (mount_one(&s->one[i], ids, plan, err) < 0)
                        return -1;
        return 0;
}

/* JSON is UTF-8; names of files and of settings are bytes: what is no text travels escaped. */
static json_t *any_text(const char *raw)
{
        char shown[2 * PATH_MAX];
        json_t *s = json_string(raw);

        return s ? s : json_string(esc_text(shown, sizeof(shown), slice_str(raw)));
}

/* SECURITY: a message has room for so much. What the guest makes long is left out and counted, or the whole message would not go. False: left out. Takes item. */
static bool add_within(json_t *list, json_t *item, size_t *used, size_t limit)
{
        size_t n = item ? json_dumpb(item, NULL, 0, JSON_ENCODE_ANY) + 1 : 0;
        bool fits = item && n <= limit - *used && json_array_append(list, item) == 0;

        if (fits)
                *used += n;
        json_decref(item);
        return fits;
}

static void carry_back(const struct shares_one *one, const struct plan *plan, json_t *kept_out, size_t *used)
{
        for (size_t i = 0; i < one->protected_count; i++) {
                const struct shares_protected *p = &one->protected[i];
                char path[PATH_MAX];
                struct share_git_dropped dropped = { 0 };
                char where[2 * PATH_MAX];
                struct err err = ERR_INIT;
                struct stat st;
                int fd;

                if (p->copy < 0)
                        continue;
                copy_path(path, plan, p->copy, "/" COPY_FILE);
                fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
                if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                        err_set(&err, "the workspace left no file");
                else if (share_git_config_carry(one->checked.fd, p->path, fd, &dropped, &err) < 0 && !err.text[0])
                        err_set(&err, "it cannot be carried back");
                place(where, sizeof(where), "%s/%s", one->checked.path, p->path);
                if (err.text[0]) {
                        log_error("%s stays as it was: %s", esc_str(where), err.text);
                        (void)add_within(kept_out, json_pack("{s:o, s:o}", "path", any_text(where), "error", any_text(err.text)), used, SHARES_KEPT_OUT_BYTES);
                } else if (dropped.count) {
                        log_info("%s: %u changed settings were not carried back", esc_str(where), dropped.count);
                        (void)add_within(kept_out, json_pack("{s:o, s:I, s:o}", "path", any_text(where), "count", (json_int_t)dropped.count, "keys", any_text(dropped.names)), used,
                                         SHARES_KEPT_OUT_BYTES);
                }
                fd_close(&fd);
        }
}

struct changed {
        json_t *list;
        const char *share;
        size_t used;
        long long added;
};

static void add_changed(void *arg, const struct share_changed *c)
{
        struct changed *to = arg;
        char path[2 * PATH_MAX];

        place(path, sizeof(path), "%s/%s", to->share, c->path);
        to->added += add_within(to->list, any_text(path), &to->used, SHARES_CHANGED_BYTES);
}

struct shares_end shares_finish(struct shares *s, const struct plan *plan)
{
        struct shares_end end = { json_array(), json_array(), 0 };
        struct changed to = { .list = end.changed };
        size_t kept_out_used = 0;

        for (size_t i = 0; end.changed && end.kept_out && i < s->count; i++) {
                struct shares_one *one = &s->one[i];
                struct err err = ERR_INIT;
                size_t used = json_array_size(end.changed);
                long count;

                to.share = one->checked.path;
                to.added = 0;
                if (!one->before)
                        continue;
                carry_back(one, plan, end.kept_out, &kept_out_used);
                remove_made(one);
                count = share_snapshot_compare(one->before, one->checked.fd, used < SHARES_CHANGED ? SHARES_CHANGED - used : 0, add_changed, &to, &err);
                end.more += count > to.added ? count - to.added : 0;
                if (count < 0)
                        log_error("%s: cannot tell what changed: %s", one->checked.path, err.text);
        }
        return end;
}

void shares_fini(struct shares *s)
{
        for (size_t i = 0; i < s->count; i++) {
                struct shares_one *one = &s->one[i];
                for (size_t k = 0; k < one->protected_count; k++)
                        free(one->protected[k].path);
                free(one->protected);
                share_snapshot_free(one->before);
                fd_close(&one->checked.fd);
                fd_close(&one->owner_map);
        }
        s->count = 0;
        json_decref(s->left_out);
        s->left_out = NULL;
}
