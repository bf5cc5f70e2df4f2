/* May this folder be a share? See share.h. The path is resolved once, the result opened without following any link, and the judgement made on the name
 * that the kernel gives to what was opened. */
#include "share/share_priv.h"
#include "base/esc.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum where { ITSELF, BELOW_TOO };
enum { LINK_LIMIT = 40 /* as the kernel's own */ };

static const struct place {
        const char *path; /* "~" stands for each home */
        enum where where;
        const char *why;
} places[] = {
        { "/", ITSELF, "it is the whole system" },
        { "/proc", BELOW_TOO, "it shows the host's processes" },
        { "/sys", BELOW_TOO, "it shows the host's devices" },
        { "/dev", BELOW_TOO, "it holds the host's devices" },
        { "/run", BELOW_TOO, "it holds the sockets of the host's services" },
        { "/boot", BELOW_TOO, "the host boots from it" },
        { "/etc", BELOW_TOO, "it configures the host" },
        { "/usr", BELOW_TOO, "it holds the host's programs" },
        { "/bin", BELOW_TOO, "it holds the host's programs" },
        { "/sbin", BELOW_TOO, "it holds the host's programs" },
        { "/lib", BELOW_TOO, "it holds the host's libraries" },
        { "/lib32", BELOW_TOO, "it holds the host's libraries" },
        { "/lib64", BELOW_TOO, "it holds the host's libraries" },
        { "/var", ITSELF, "it holds the state of the host's services" },
        { "/var/lib", BELOW_TOO, "it holds the state of the host's services" },
        { "/var/log", BELOW_TOO, "it holds the host's logs" },
        { "/var/cache", BELOW_TOO, "it holds caches that the host's tools trust" },
        { "/var/spool", BELOW_TOO, "the host executes jobs found there" },
        { "/var/tmp", ITSELF, "every user of the host writes there" },
        { "/tmp", ITSELF, "every user of the host writes there" },
        { "/home", ITSELF, "it holds homes" },
        { "/opt", ITSELF, "it holds the host's programs" },
        { "/srv", ITSELF, "it holds the host's services" },
        { "/mnt", ITSELF, "it holds other file systems" },
        { "/media", ITSELF, "it holds other file systems" },
        { "~", ITSELF, "it is your home: share a folder in it" },
        { "~/.ssh", BELOW_TOO, "it holds keys" },
        { "~/.gnupg", BELOW_TOO, "it holds keys" },
        { "~/.password-store", BELOW_TOO, "it holds passwords" },
        { "~/.aws", BELOW_TOO, "it holds credentials" },
        { "~/.azure", BELOW_TOO, "it holds credentials" },
        { "~/.kube", BELOW_TOO, "it holds credentials" },
        { "~/.docker", BELOW_TOO, "it holds credentials" },
        { "~/.mozilla", BELOW_TOO, "it holds a browser's cookies and passwords" },
        { "~/.claude", ITSELF, "it configures and logs in an agent of the host" },
        { "~/.codex", ITSELF, "it configures and logs in an agent of the host" },
        { "~/.gemini", ITSELF, "it configures and logs in an agent of the host" },
        { "~/.config", ITSELF, "it configures your programs and holds their credentials" },
        { "~/.config/gcloud", BELOW_TOO, "it holds credentials" },
        { "~/.config/gh", BELOW_TOO, "it holds credentials" },
        { "~/.config/autostart", BELOW_TOO, "your session starts what it holds" },
        { "~/.config/systemd", BELOW_TOO, "your session starts what it holds" },
        { "~/.config/git", BELOW_TOO, "your git executes what it names" },
        { "~/.config/fish", BELOW_TOO, "your shell executes it" },
        { "~/.config/nvim", BELOW_TOO, "your editor executes it" },
        { "~/.local", ITSELF, "it holds your programs" },
        { "~/.local/bin", BELOW_TOO, "it holds your programs" },
        { "~/.local/share", ITSELF, "it holds the state of your programs, keys among it" },
        { "~/.local/share/keyrings", BELOW_TOO, "it holds passwords" },
        { "~/bin", BELOW_TOO, "it holds your programs" },
        { "~/.cache", ITSELF, "it holds caches that your tools trust" },
};

/* Is `path` the folder `base` or below it? Both canonical. */
static bool is_in(const char *path, const char *base)
{
        size_t n = strlen(base);
        if (n == 1)
                return true;
        return strncmp(path, base, n) == 0 && (path[n] == 0 || path[n] == '/');
}

struct homes {
        char path[3][PATH_MAX];
        size_t count;
};

static void add_home(struct homes *h, const char *path)
{
        char real[PATH_MAX];
        /* "/" and the like are homes of accounts that have none */
        if (path == NULL || path[0] != '/' || realpath(path, real) == NULL || strrchr(real, '/') == NULL || strlen(real) < 2)
                return;
        snprintf(h->path[h->count++], PATH_MAX, "%s", real);
}

static void find_homes(struct homes *h)
{
        const struct passwd *pw = getpwuid(getuid());
        const char *sudo = getenv("SUDO_USER");
        h->count = 0;
        add_home(h, pw != NULL ? pw->pw_dir : NULL);
        add_home(h, getenv("HOME"));
        pw = sudo != NULL ? getpwnam(sudo) : NULL;
        add_home(h, pw != NULL ? pw->pw_dir : NULL);
}

static int refuse(struct err *err, const char *path, const char *why) { return err_set(err, "%s cannot be shared: %s", esc_str(path), why); }

static int check_place(const char *path, const struct place *p, const struct homes *homes, struct err *err)
{
        if (p->path[0] != '~') {
                /* Someone's home may lie in a system folder (/var/lib/build); what is in that home is theirs. */
                for (size_t i = 0; i < homes->count && p->where == BELOW_TOO; i++)
                        if (is_in(path, homes->path[i]) && is_in(homes->path[i], p->path))
                                return 0;
                bool hit = is_in(p->path, path) || (p->where == BELOW_TOO && is_in(path, p->path));
                return hit ? refuse(err, path, p->why) : 0;
        }
        for (size_t i = 0; i < homes->count; i++) {
                char full[PATH_MAX];
                if (snprintf(full, sizeof(full), "%s%s", homes->path[i], p->path + 1) >= (int)sizeof(full))
                        continue;
                if (is_in(full, path) || (p->where == BELOW_TOO && is_in(path, full)))
                        return refuse(err, path, p->why);
        }
        return 0;
}

/* Canonical form of a path that may not exist yet: the deepest existing part resolved, the rest as written. */
static void canonical(const char *path, char out[PATH_MAX])
{
        char head[PATH_MAX];
        snprintf(head, sizeof(head), "%s", path);
        for (;;) {
                char real[PATH_MAX];
                size_t n = strlen(head);
                if (realpath(n > 0 ? head : "/", real) != NULL) {
                        const char *rest = path + n;
                        snprintf(out, PATH_MAX, "%.*s%s", (int)(strcmp(real, "/") == 0 ? 0 : strlen(real)), real, *rest ? rest : strcmp(real, "/") == 0 ? "/" : "");
                        return;
                }
                char *slash = strrchr(head, '/');
                if (slash == NULL) {
                        snprintf(out, PATH_MAX, "%s", path);
                        return;
                }
                *slash = 0;
        }
}

static int check_places(const char *path, const char *const *protect, size_t count, struct err *err)
{
        struct homes homes;
        find_homes(&homes);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
                if (check_place(path, &places[i], &homes, err) < 0)
                        return -1;
        for (size_t i = 0; i < count; i++) {
                char own[PATH_MAX];
                canonical(protect[i], own);
                if (is_in(own, path) || is_in(path, own))
                        return err_set(err, "%s cannot be shared: brome keeps its own files in %s", esc_str(path), esc_str(own));
        }
        return 0;
}

static int check_owner(const struct share_checked *s, const struct stat *st, enum share_mode mode, struct err *err)
{
        uid_t me = getuid();
        if (st->st_uid == me || me == 0)
                return 0;
        if (st->st_uid == 0 && mode == SHARE_READ_ONLY)
                return 0;
        return err_set(err, "%s cannot be shared: it belongs to another user (uid %u)%s", esc_str(s->path), (unsigned)st->st_uid,
                       st->st_uid == 0 ? "; it can be shared read-only" : "");
}

/* A folder above that anyone may change, without the sticky bit: another user can put something else in the share's place. */
static void warn_of_parents(struct share_checked *s)
{
        char path[PATH_MAX];
        struct stat st;
        snprintf(path, sizeof(path), "%s", s->path);
        for (char *slash; (slash = strrchr(path, '/')) != NULL && slash != path;) {
                *slash = 0;
                if (lstat(path, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) {
                        snprintf(s->warning, sizeof(s->warning), "every user of this machine may change %.100s, which the share is in", esc_str(path));
                        return;
                }
        }
        if (lstat(s->path, &st) == 0 && (st.st_mode & S_IWOTH))
                snprintf(s->warning, sizeof(s->warning), "every user of this machine may write into the share");
}

struct special {
        char path[256];
        const char *what;
};

static int look_for_special(void *arg, const struct share_entry *e)
{
        struct special *found = arg;
        const char *what = e->type == DT_SOCK ? "a socket" : e->type == DT_FIFO ? "a FIFO" : e->type == DT_CHR || e->type == DT_BLK ? "a device" : NULL;
        struct stat st;
        /* 0:0 is an overlay's mark for a deleted file, not a device */
        if (what == NULL || (e->type == DT_CHR && fstatat(e->parent_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_rdev == 0))
                return WALK_ENTER;
        found->what = what;
        snprintf(found->path, sizeof(found->path), "%s", esc_str(e->path));
        return WALK_STOP;
}

static int check_content(const struct share_checked *s, struct err *err)
{
        struct special found = { .what = NULL };
        struct err why = ERR_INIT;
        int r = share_walk(s->fd, look_for_special, NULL, &found, &why);
        if (r > 0)
                return err_set(err, "%s cannot be shared: it holds %s (%s), which a program in the workspace could talk to; remove it, or say \"sockets ok\"",
                               esc_str(s->path), found.what, found.path);
        if (r < 0)
                return err_set(err, "%s cannot be searched for sockets: %s; say \"sockets ok\" to share it unsearched", esc_str(s->path), why.text);
        return 0;
}

/* Opens what `real` names without following a link, and takes the name from the kernel. */
static int open_real(const char *real, struct share_checked *s, struct err *err)
{
        char link[64];
        int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return err_sys(err, errno, "cannot open /");
        /* Mounts on the way are fine here, unlike below the share. */
        s->fd = share_open_from_root(root, real);
        int saved = errno;
        close(root);
        if (s->fd < 0)
                return err_sys(err, saved, "cannot open the folder %s", esc_str(real));
        snprintf(link, sizeof(link), "/proc/self/fd/%d", s->fd);
        ssize_t n = readlink(link, s->path, sizeof(s->path) - 1);
        s->path[n > 0 ? n : 0] = 0;
        return n <= 0 || strcmp(s->path, real) != 0 ? err_set(err, "the folder %s moved while it was looked at", esc_str(real)) : 0;
}

int share_check(const char *path, enum share_mode mode, bool sockets_ok, const char *const *protect, size_t protect_count, struct share_checked *out,
                struct err *err)
{
        char real[PATH_MAX];
        struct stat st;
        struct share_checked s = { .fd = -1 };
        if (path == NULL || path[0] != '/')
                return err_set(err, "a share is named by an absolute path");
        if (realpath(path, real) == NULL)
                return err_sys(err, errno, "cannot find the folder %s", esc_str(path));
        if (open_real(real, &s, err) < 0 || check_places(s.path, protect, protect_count, err) < 0)
                goto fail;
        if (fstat(s.fd, &st) < 0) {
                err_sys(err, errno, "cannot look at %s", esc_str(s.path));
                goto fail;
        }
        if (check_owner(&s, &st, mode, err) < 0 || (!sockets_ok && check_content(&s, err) < 0))
                goto fail;
        warn_of_parents(&s);
        *out = s;
        return 0;
fail:
        fd_close(&s.fd);
        return -1;
}

/* ---- files that brome reads ---- */

struct resolver {
        char done[PATH_MAX]; /* resolved so far; "" is the root */
        char rest[2 * PATH_MAX];
        int links;
};

/* One component of rest. 1: went on; 0: nothing left, or missing; -1: a loop. */
static int resolve_step(struct resolver *r)
{
        char name[NAME_MAX + 1], full[PATH_MAX + NAME_MAX + 2], target[PATH_MAX], rest[2 * PATH_MAX];
        size_t skip = strspn(r->rest, "/"), n = strcspn(r->rest + skip, "/");
        if (n == 0)
                return 0;
        if (n > NAME_MAX)
                return -1;
        memcpy(name, r->rest + skip, n);
        name[n] = 0;
        memmove(r->rest, r->rest + skip + n, strlen(r->rest + skip + n) + 1);
        if (strcmp(name, ".") == 0)
                return 1;
        if (strcmp(name, "..") == 0) {
                char *slash = strrchr(r->done, '/');
                if (slash != NULL)
                        *slash = 0;
                return 1;
        }
        if (snprintf(full, sizeof(full), "%s/%s", r->done, name) >= (int)sizeof(r->done))
                return -1;
        ssize_t t = readlink(full, target, sizeof(target) - 1);
        if (t < 0) {
                memcpy(r->done, full, strlen(full) + 1);
                return 1;
        }
        target[t] = 0;
        if (++r->links > LINK_LIMIT || snprintf(rest, sizeof(rest), "%s/%s", target, r->rest) >= (int)sizeof(rest))
                return -1;
        memcpy(r->rest, rest, strlen(rest) + 1);
        if (target[0] == '/')
                r->done[0] = 0;
        return 1;
}

/* Does finding the file look anything up in the share? -1: cannot tell. */
static int leads_into(const char *file, const char *share)
{
        struct resolver *r = calloc(1, sizeof(*r));
        int hit = 0, step = 1;
        if (r == NULL || snprintf(r->rest, sizeof(r->rest), "%s", file) >= PATH_MAX)
                step = -1;
        while (step == 1 && !hit) {
                step = resolve_step(r);
                hit = step == 1 && r->done[0] != 0 && is_in(r->done, share);
        }
        free(r);
        return step < 0 ? -1 : hit;
}

int share_config_inside(const char *const *files, size_t count, const struct share_checked *share, struct err *err)
{
        struct stat st, root;
        if (fstat(share->fd, &root) < 0)
                return err_sys(err, errno, "cannot look at %s", esc_str(share->path));
        for (size_t i = 0; i < count; i++) {
                int r = files[i][0] == '/' ? leads_into(files[i], share->path) : -1;
                if (r != 0)
                        return err_set(err, "%s cannot be shared read-write: brome reads %s, which %s in it; move that file, or share read-only or overlay",
                                       esc_str(share->path), esc_str(files[i]), r > 0 ? "lies" : "may lie");
                if (stat(files[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1 && st.st_dev == root.st_dev)
                        return err_set(err, "%s cannot be shared read-write: %s has a second name (hard link), perhaps in it; give brome a copy of its own",
                                       esc_str(share->path), esc_str(files[i]));
        }
        return 0;
}
