/* The guest's root: see rootfs.h. Tables say what there is; the order of build() is the order of mounting. */
#include "launch/rootfs.h"
#include "launch/place.h"
#include "base/buf.h"
#include "base/esc.h"
#include "base/fd.h"
#include "launch/layer.h"
#include "launch/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { MOUNTS_BYTES = 4 << 20 }; /* of the host's list of mounts; container hosts have thousands */

/* Top-level names of a system: a link is copied as one (merged /usr), a folder becomes an overlay. */
static const char *const system_names[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt" };

/* In an ordinary user's namespace the host's folders belong to nobody and cannot be written; these are laid over them so that installing
 * below /usr/local works there too. */
static const char *const local_folders[] = { "local", "local/bin", "local/sbin", "local/lib", "local/share", "local/include", "local/etc", "local/src",
                                             "local/share/man", "local/share/ca-certificates" };

struct folder {
        const char *path;
        mode_t mode;
};
/* The workspace's own /var: what apt, dpkg and common programs expect. Nothing of the host's caches, logs or spools. */
static const struct folder var_folders[] = {
        { "cache", 0755 }, { "cache/apt", 0755 }, { "cache/apt/archives", 0755 }, { "cache/apt/archives/partial", 0700 }, { "cache/debconf", 0755 },
        { "cache/ldconfig", 0700 }, { "lib", 0755 }, { "lib/apt", 0755 }, { "lib/apt/lists", 0755 }, { "lib/apt/lists/partial", 0700 },
        { "lib/apt/mirrors", 0755 }, { "lib/apt/mirrors/partial", 0755 }, { "lib/apt/periodic", 0755 }, { "lib/dpkg", 0755 }, { "lib/misc", 0755 },
        { "lib/systemd", 0755 }, { "lib/pam", 0755 }, { "log", 0755 }, { "log/apt", 0755 }, { "spool", 0755 }, { "mail", 0755 }, { "opt", 0755 },
        { "local", 0755 }, { "backups", 0755 }, { "tmp", 01777 },
};
static const struct folder root_folders[] = {
        { "etc", 0755 }, { "var", 0755 }, { "root", 0700 }, { "tmp", 01777 }, { "run", 0755 }, { "dev", 0755 }, { "proc", 0555 },
        { "home", 0755 }, { "mnt", 0755 }, { "media", 0755 }, { "srv", 0755 },
};
static const struct layer_node devices[] = { /* Linux Documentation/admin-guide/devices.txt */
        { "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};
static const struct { const char *name, *target; } device_links[] = {
        { "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" }, { "ptmx", "pts/ptmx" },
};

static void state_path(char out[PATH_MAX], const struct rootfs *r, const char *tail)
{
        /* plan.c keeps the state folder short enough. */
        if (snprintf(out, PATH_MAX, "%s/%s", r->plan->state, tail) >= PATH_MAX)
                out[0] = 0;
}

/* A store for an overlay. *fresh: it was made now, so nobody else has written in it yet. */
static int make_store(const struct rootfs *r, const char *name, bool *fresh, struct err *err)
{
        char path[PATH_MAX], part[PATH_MAX];
        struct stat st;

        place(part, sizeof(part), "system/%s", name);
        state_path(path, r, part);
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        place(part, sizeof(part), "system/%s/work", name);
        state_path(path, r, part);
        if (layer_mkdir(r->ids, path, 0700, err) < 0)
                return -1;
        place(part, sizeof(part), "system/%s/upper", name);
        state_path(path, r, part);
        *fresh = lstat(path, &st) < 0;
        return layer_mkdir(r->ids, path, 0755, err);
}

/* The workspace's CA where update-ca-certificates would look for it. Written only into a layer that no guest has seen. */
static int fill_usr(const struct rootfs *r, struct err *err)
{
        char path[PATH_MAX], part[PATH_MAX];
        struct buf pem;
        int rc = 0;

        for (size_t i = 0; i < COUNT(local_folders) && rc == 0; i++) {
                place(part, sizeof(part), "system/usr/upper/%s", local_folders[i]);
                state_path(path, r, part);
                rc = layer_mkdir(r->ids, path, 0755, err);
        }
        if (rc < 0 || r->plan->ca_cert < 0)
                return rc;
        buf_init(&pem, 0);
        state_path(path, r, "system/usr/upper/local/share/ca-certificates/brome.crt");
        if (fd_read_all(r->plan->ca_cert, &pem, 65536, err) < 0 || fd_write_file_unsynced(path, 0644, buf_slice(&pem).p, buf_len(&pem), err) < 0 ||
            (lchown(path, r->ids->base, r->ids->base) < 0 && err_sys(err, errno, "%s", path) < 0))
                rc = -1;
        buf_fini(&pem);
        return rc;
}

/* An ordinary user's guest may not write what is the host's in its copy of dpkg's folder; with locks of its own, apt can at least look and fetch. */
static int fill_dpkg(const struct rootfs *r, struct err *err)
{
        static const char *const locks[] = { "lock", "lock-frontend" };
        char path[PATH_MAX], part[PATH_MAX];

        for (size_t i = 0; i < COUNT(locks); i++) {
                place(part, sizeof(part), "system/dpkg/upper/%s", locks[i]);
                state_path(path, r, part);
                if (layer_touch(path, err) < 0)
                        return -1;
                if (lchown(path, r->ids->base, r->ids->base) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        return 0;
}

static int prepare_var(const struct rootfs *r, struct err *err)
{
        char path[PATH_MAX], part[PATH_MAX];
        struct stat st;
        bool fresh;

        if (make_store(r, "dpkg", &fresh, err) < 0 || (fresh && fill_dpkg(r, err) < 0))
                return -1;
        state_path(path, r, "system/var");
        fresh = lstat(path, &st) < 0;
        if (layer_mkdir(r->ids, path, 0755, err) < 0 || !fresh)
                return fresh ? -1 : 0;
        for (size_t i = 0; i < COUNT(var_folders); i++) {
                place(part, sizeof(part), "system/var/%s", var_folders[i].path);
                state_path(path, r, part);
                if (layer_mkdir(r->ids, path, var_folders[i].mode, err) < 0)
                        return -1;
        }
        state_path(path, r, "system/var/run");
        if (symlink("/run", path) < 0)
                return err_sys(err, errno, "%s", path);
        state_path(path, r, "system/var/lock");
        return symlink("/run/lock", path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

int rootfs_prepare(const struct rootfs *r, struct err *err)
{
        char path[PATH_MAX];
        struct stat st;
        bool fresh;

        state_path(path, r, "root");
        if (fd_mkdirs(path, 0700, err) < 0 || fd_mkdirs(r->plan->home, 0700, err) < 0)
                return -1;
        if (lchown(r->plan->home, r->ids->base, r->ids->base) < 0)
                return err_sys(err, errno, "%s", r->plan->home);
        for (size_t i = 0; i < COUNT(system_names); i++) {
                place(path, sizeof(path), "/%s", system_names[i]);
                if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                        continue;
                if (make_store(r, system_names[i], &fresh, err) < 0)
                        return -1;
                if (i == 0 && fresh && fill_usr(r, err) < 0)
                        return -1;
        }
        return make_store(r, "etc", &fresh, err) < 0 || prepare_var(r, err) < 0 ? -1 : 0;
}

bool rootfs_holds_mounts(const char *folder)
{
        struct buf text;
        struct err quiet;
        size_t n = strlen(folder);
        char *line, *save = NULL;
        bool found = false;

        buf_init(&text, 0);
        if (fd_read_file("/proc/self/mountinfo", &text, MOUNTS_BYTES, &quiet) == 0 && buf_add(&text, "", 1) == 0)
                for (line = strtok_r((char *)text.bytes + text.start, "\n", &save); line && !found; line = strtok_r(NULL, "\n", &save)) {
                        /* proc(5): id, parent, device, root, mount point */
                        for (int field = 1; line && field < 5; field++)
                                line = strchr(line, ' ') ? strchr(line, ' ') + 1 : NULL;
                        found = line && strncmp(line, folder, n) == 0 && line[n] == '/';
                }
        buf_fini(&text);
        return found;
}

/* `top` may be NULL. */
static int overlay_two(const struct rootfs *r, const char *top, const char *lower, int map_userns, const char *store_name, const char *path, struct err *err)
{
        char store[PATH_MAX], part[PATH_MAX];
        int fd = open(lower, O_PATH | O_DIRECTORY | O_CLOEXEC), over = top ? open(top, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1, rc = -1;
        bool unmapped = false;

        place(part, sizeof(part), "system/%s", store_name);
        state_path(store, r, part);
        if (fd < 0 || (top && over < 0))
                err_sys(err, errno, "%s", fd < 0 ? lower : top);
        else
                rc = layer_overlay(r->ids, over, fd, map_userns, store, path, &unmapped, err);
        fd_close(&fd);
        fd_close(&over);
        return rc;
}

static int overlay_at(const struct rootfs *r, const char *lower, int map_userns, const char *store_name, const char *path, struct err *err)
{
        return overlay_two(r, NULL, lower, map_userns, store_name, path, err);
}

static int mount_etc(const struct rootfs *r, struct err *err)
{
        if (r->etc->shared[0] == 0)
                return overlay_at(r, r->etc->own, -1, "etc", "etc", err);
        return overlay_two(r, r->etc->own, r->etc->shared, r->ids->userns, "etc", "etc", err);
}

static int system_folders(const struct rootfs *r, struct err *err)
{
        for (size_t i = 0; i < COUNT(system_names); i++) {
                char host[64];
                int rc = layer_system_link(system_names[i], err);

                if (rc < 0 || (rc == 0 && layer_mkdir(r->ids, system_names[i], 0755, err) < 0))
                        return -1;
                place(host, sizeof(host), "/%s", system_names[i]);
                if (rc == 0 && !(r->without_opt && strcmp(system_names[i], "opt") == 0) &&
                    overlay_at(r, host, r->ids->userns, system_names[i], system_names[i], err) < 0)
                        return -1;
        }
        return 0;
}

static int own_folders(const struct rootfs *r, struct err *err)
{
        char path[PATH_MAX], options[96];
        long long memory = r->plan->memory_bytes;
        struct stat st;

        for (size_t i = 0; i < COUNT(root_folders); i++)
                if (layer_mkdir(r->ids, root_folders[i].path, root_folders[i].mode, err) < 0)
                        return -1;
        if (mount_etc(r, err) < 0)
                return -1;
        state_path(path, r, "system/var");
        if (layer_bind(path, "var", 0, err) < 0)
                return -1;
        if (stat("/var/lib/dpkg", &st) == 0 && lstat("var/lib/dpkg", &st) == 0 && S_ISDIR(st.st_mode) && lstat("var/lib", &st) == 0 && S_ISDIR(st.st_mode) &&
            overlay_at(r, "/var/lib/dpkg", r->ids->userns, "dpkg", "var/lib/dpkg", err) < 0)
                return -1;
        if (layer_bind(r->plan->home, "root", 0, err) < 0)
                return -1;
        /* A quarter of the machine, or half of what the workspace may have. */
        if (memory)
                snprintf(options, sizeof(options), "mode=1777,size=%lld", memory / 2);
        else
                snprintf(options, sizeof(options), "mode=1777,size=25%%");
        if (layer_tmpfs(r->ids, "tmp", MS_NODEV, options, err) < 0 || layer_tmpfs(r->ids, "run", MS_NODEV, "mode=755,size=64m", err) < 0)
                return -1;
        return layer_mkdir(r->ids, "run/lock", 01777, err);
}

/* A node of the workspace's own, as root can make it: a lock or watch on the host's node would be seen by every other workspace. An ordinary
 * user may make none, nor may root in a container without CAP_MKNOD: these share the host's. */
static int device_folder(const struct rootfs *r, struct err *err)
{
        char path[32];

        if (layer_tmpfs(r->ids, "dev", MS_NOEXEC, "mode=755,size=64k,nr_inodes=64", err) < 0)
                return -1;
        for (size_t i = 0; i < COUNT(devices); i++)
                if (layer_device(r->ids, &devices[i], err) < 0)
                        return -1;
        for (size_t i = 0; i < COUNT(device_links); i++) {
                place(path, sizeof(path), "dev/%s", device_links[i].name);
                if (symlink(device_links[i].target, path) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        if (layer_mkdir(r->ids, "dev/pts", 0755, err) < 0 || layer_mkdir(r->ids, "dev/shm", 01777, err) < 0)
                return -1;
        if (mount("brome", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") < 0)
                return err_sys(err, errno, "cannot mount devpts");
        return layer_tmpfs(r->ids, "dev/shm", MS_NODEV, r->plan->memory_bytes ? "mode=1777,size=256m" : "mode=1777,size=10%", err);
}

int rootfs_enter(const void *arg, struct err *err)
{
        const struct rootfs *r = arg;
        char path[PATH_MAX];

        umask(022);
        state_path(path, r, "root");
        /* Only folders and links live in it; the size bounds what the guest may leave there. */
        if (layer_stage(r->ids, path, "mode=755,size=64m,nr_inodes=65536", err) < 0 || system_folders(r, err) < 0 || own_folders(r, err) < 0 || device_folder(r, err) < 0)
                return -1;
        if (shares_mount(r->shares, r->ids, r->plan, err) < 0 || procfs_mount(r->ids, err) < 0)
                return -1;
        return layer_become_root(err);
}
