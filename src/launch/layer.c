/* Mounts: see layer.h. New mount calls where they close a race (mount_setattr before anything is attached); all are in Linux 5.12. */
#include "launch/layer.h"
#include "base/esc.h"
#include "base/fd.h"
#include "launch/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int layer_mkdir(const struct ids *ids, const char *path, mode_t mode, struct err *err)
{
        if (mkdir(path, mode) < 0)
                return errno == EEXIST ? 0 : err_sys(err, errno, "cannot make %s", esc_str(path));
        if (chmod(path, mode) < 0 || lchown(path, ids->base, ids->base) < 0)
                return err_sys(err, errno, "cannot make %s", esc_str(path));
        return 0;
}

int layer_mkdirs(const struct ids *ids, const char *path, struct err *err)
{
        char part[PATH_MAX];
        size_t n = strlen(path);

        if (n == 0 || n >= sizeof(part))
                return err_set(err, "path too long");
        for (size_t i = 1; i <= n; i++) {
                if (path[i] != '/' && path[i] != 0)
                        continue;
                memcpy(part, path, i);
                part[i] = 0;
                if (layer_mkdir(ids, part, 0755, err) < 0)
                        return -1;
        }
        return 0;
}

int layer_touch(const char *path, struct err *err)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

        if (fd < 0 && errno != EEXIST)
                return err_sys(err, errno, "cannot make %s", esc_str(path));
        fd_close(&fd);
        return 0;
}

int layer_tmpfs(const struct ids *ids, const char *path, unsigned long flags, const char *options, struct err *err)
{
        char text[160];

        snprintf(text, sizeof(text), "uid=%u,gid=%u,%s", ids->base, ids->base, options);
        return mount("brome", path, "tmpfs", MS_NOSUID | flags, text) < 0 ? err_sys(err, errno, "cannot mount a tmpfs at %s", esc_str(path)) : 0;
}

int layer_stage(const struct ids *ids, const char *path, const char *options, struct err *err)
{
        /* Nothing that is mounted here is seen by the host, nor the reverse. */
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_sys(err, errno, "cannot make the mounts private");
        if (layer_tmpfs(ids, path, MS_NODEV, options, err) < 0)
                return -1;
        return chdir(path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

int layer_become_root(struct err *err)
{
        /* Both at one place: the old root comes to lie over the new one and is then taken away (pivot_root(2)). */
        if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return err_sys(err, errno, "cannot enter the guest's root");
        return 0;
}

int layer_system_link(const char *name, struct err *err)
{
        char host[64], target[PATH_MAX];
        struct stat st;
        ssize_t n;

        place(host, sizeof(host), "/%s", name);
        if (lstat(host, &st) < 0)
                return 1;
        if (!S_ISLNK(st.st_mode))
                return 0;
        n = readlink(host, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        return n <= 0 || symlink(target, name) < 0 ? err_sys(err, errno, "%s", host) : 1;
}

int layer_device(const struct ids *ids, const struct layer_node *d, struct err *err)
{
        char host[32], path[32];

        place(host, sizeof(host), "/dev/%s", d->name);
        place(path, sizeof(path), "dev/%s", d->name);
        if (ids->root && mknod(path, S_IFCHR | 0666, makedev(d->major, d->minor)) == 0) {
                /* Owned by nobody whom the guest is: it can neither close nor give away what its programs rely on. */
                if (chmod(path, 0666) == 0)
                        return 0;
                return err_sys(err, errno, "%s", path);
        }
        return layer_touch(path, err) < 0 ? -1 : layer_bind(host, path, LAYER_DEVICE, err);
}

int layer_clone(int fd, int map_userns, unsigned flags, struct err *err)
{
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID };
        unsigned recursive = flags & LAYER_RECURSIVE ? AT_RECURSIVE : 0;
        int copy = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);

        if (copy < 0)
                return err_sys(err, errno, "cannot copy a mount");
        if (!(flags & LAYER_DEVICE))
                attr.attr_set |= MOUNT_ATTR_NODEV;
        if (flags & LAYER_READ_ONLY)
                attr.attr_set |= MOUNT_ATTR_RDONLY;
        if (map_userns >= 0) {
                attr.attr_set |= (uint64_t)MOUNT_ATTR_IDMAP;
                attr.userns_fd = (unsigned)map_userns;
        }
        attr.propagation = (uint64_t)MS_PRIVATE;
        if (mount_setattr(copy, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr)) < 0) {
                int e = errno;
                fd_close(&copy);
                return err_sys(err, e, map_userns >= 0 ? "this file system cannot show files under other owners (idmapped mounts)" : "cannot restrict a mount");
        }
        return copy;
}

int layer_attach(int mount_fd, int target_fd, const char *path, struct err *err)
{
        unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (path[0] ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

        return move_mount(mount_fd, "", target_fd, path, flags) < 0 ? err_sys(err, errno, "cannot mount %s", esc_str(path)) : 0;
}

int layer_bind(const char *from, const char *path, unsigned flags, struct err *err)
{
        int fd = open(from ? from : path, O_PATH | O_CLOEXEC | O_NOFOLLOW), copy, rc;

        if (fd < 0)
                return err_sys(err, errno, "%s", from ? from : path);
        copy = layer_clone(fd, -1, flags, err);
        fd_close(&fd);
        if (copy < 0)
                return -1;
        rc = layer_attach(copy, AT_FDCWD, path, err);
        fd_close(&copy);
        return rc;
}

/* The lower layer under other owners has to be attached somewhere while the overlay takes it: on a folder of the new root, for that moment. */
#define ASIDE ".lower"

static int map_lower(const struct ids *ids, int lower_fd, int map_userns, struct err *err)
{
        int copy = layer_clone(lower_fd, map_userns, LAYER_READ_ONLY, err), fd = -1;

        if (copy < 0)
                return -1;
        if (layer_mkdir(ids, ASIDE, 0700, err) == 0 && layer_attach(copy, AT_FDCWD, ASIDE, err) == 0) {
                fd = open(ASIDE, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        err_sys(err, errno, ASIDE);
        }
        fd_close(&copy);
        return fd;
}

static void unmap_lower(int *fd)
{
        fd_close(fd);
        umount2(ASIDE, MNT_DETACH);
        rmdir(ASIDE);
}

static int overlay(int top, int lower, int upper, int work, const char *options, const char *path)
{
        char text[256], over[32] = "";

        /* Descriptors, not names: nothing to escape, nothing to race. */
        if (top >= 0)
                snprintf(over, sizeof(over), "/proc/self/fd/%d:", top);
        snprintf(text, sizeof(text), "lowerdir=%s/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,%s", over, lower, upper, work, options);
        return mount("brome", path, "overlay", MS_NOSUID | MS_NODEV, text);
}

bool layer_can_map(int fd, int map_userns)
{
        struct utsname name;
        struct err quiet;
        char *end;
        long major, minor;
        int copy;

        if (uname(&name) < 0)
                return false;
        major = strtol(name.release, &end, 10);
        minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
        if (major < 5 || (major == 5 && minor < 19))
                return false;
        copy = layer_clone(fd, map_userns, LAYER_READ_ONLY, &quiet);
        if (copy < 0)
                return false;
        fd_close(&copy);
        return true;
}

int layer_overlay(const struct ids *ids, int top_fd, int lower_fd, int map_userns, const char *store, const char *path, bool *unmapped, struct err *err)
{
        int dir = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), upper = openat(dir, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
            work = openat(dir, "work", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), mapped = -1, rc = -1, e = 0;
        const char *options = ids->root ? "index=off,metacopy=off,redirect_dir=off" : "userxattr";

        if (upper < 0 || work < 0) {
                err_sys(err, errno, "%s", store);
                goto out;
        }
        if (ids->root && map_userns >= 0) {
                mapped = map_lower(ids, lower_fd, map_userns, err);
                if (mapped >= 0) {
                        rc = overlay(top_fd, mapped, upper, work, options, path);
                        unmap_lower(&mapped);
                }
                if (rc < 0 && unmapped)
                        *unmapped = true;
        }
        if (rc < 0) {
                rc = overlay(top_fd, lower_fd, upper, work, options, path);
                e = errno;
        }
        if (rc < 0)
                err_sys(err, e, "cannot mount an overlay at /%s%s", esc_str(path),
                        e == ENODEV ? " (sudo modprobe overlay)" : e != EINVAL ? "" : ids->root ? " (is the state folder itself on an overlay or a network file system? set BROME_STATE)"
                                : " (is something mounted below it? only root can lay a layer over that; or is the state folder on an overlay or a network file system? set BROME_STATE)");
out:
        fd_close(&dir);
        fd_close(&upper);
        fd_close(&work);
        return rc;
}
