/* File systems: see vm_disk.h. */
#include "guest/vm_disk.h"
#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NEW_ROOT "/newroot"

struct fs {
        const char *at, *type, *options;
        unsigned long flags;
};
/* Before anything else. They move to the new root, so that what is mounted beneath them later lies there. */
static const struct fs first[] = {
        { "/dev", "devtmpfs", "mode=755", MS_NOSUID },
        { "/sys", "sysfs", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
        { "/proc", "proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC }, /* the last to move */
};
static const struct fs rest[] = {
        { "/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666", MS_NOSUID | MS_NOEXEC }, /* 5: tty, everywhere */
        { "/dev/shm", "tmpfs", "mode=1777", MS_NOSUID | MS_NODEV },
        { "/run", "tmpfs", "mode=755", MS_NOSUID | MS_NODEV },
        { "/tmp", "tmpfs", "mode=1777", MS_NOSUID | MS_NODEV },
        { "/sys/fs/cgroup", "cgroup2", "nsdelegate", MS_NOSUID | MS_NODEV | MS_NOEXEC },
};
/* What udev would make. */
static const struct {
        const char *name, *target;
} dev_links[] = { { "/dev/fd", "/proc/self/fd" }, { "/dev/stdin", "/proc/self/fd/0" }, { "/dev/stdout", "/proc/self/fd/1" }, { "/dev/stderr", "/proc/self/fd/2" } };

/* ---- mount points ---- */

static int open_part(int dir, const char *name, int flags)
{
        struct open_how how = { .flags = (uint64_t)(unsigned)(flags | O_PATH | O_DIRECTORY | O_CLOEXEC), .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
        return (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

static int next_part(int dir, const char *name)
{
        int fd = open_part(dir, name, 0);
        if (fd < 0 && errno == ENOENT)
                fd = mkdirat(dir, name, 0755) < 0 ? -1 : open_part(dir, name, 0);
        return fd;
}

int vm_disk_point(const char *root, const char *path, struct err *err)
{
        int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (const char *from = path + 1; at >= 0 && *from != 0;) {
                char part[NAME_MAX + 1];
                size_t n = strcspn(from, "/");
                if (n > NAME_MAX) {
                        fd_close(&at);
                        errno = ENAMETOOLONG;
                        break;
                }
                memcpy(part, from, n);
                part[n] = 0;
                from += n + (from[n] == '/');
                int next = next_part(at, part);
                fd_close(&at);
                at = next;
        }
        if (at < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EEXIST))
                return err_set(err, "a link or a file of the workspace's system disk stands where %s is to be mounted", path);
        if (at < 0)
                return err_sys(err, errno, "no folder can be made for %s", path);
        fd_close(&at);
        return 0;
}

/* ---- the kernel's ---- */

static int mount_fs(const struct fs *fs, struct err *err)
{
        if (vm_disk_point("/", fs->at, err) < 0)
                return -1;
        return mount(fs->type, fs->at, fs->type, fs->flags, fs->options) < 0 && errno != EBUSY ? err_sys(err, errno, "cannot mount %s", fs->at) : 0;
}

int vm_disk_begin(struct err *err)
{
        for (size_t i = 0; i < COUNT(first); i++)
                if (mount_fs(&first[i], err) < 0)
                        return -1;
        for (size_t i = 0; i < COUNT(dev_links); i++)
                (void)!symlink(dev_links[i].target, dev_links[i].name);
        return 0;
}

static int mount_rest(struct err *err)
{
        for (size_t i = 0; i < COUNT(rest); i++)
                if (mount_fs(&rest[i], err) < 0)
                        return -1;
        (void)!mkdir("/run/lock", 0755);
        (void)!chmod("/run/lock", 01777);
        return 0;
}

/* ---- disks ---- */

static bool disk_is(const char *name, struct slice serial)
{
        char path[NAME_MAX + sizeof("/sys/block//serial")];
        struct buf text;
        struct err quiet;
        snprintf(path, sizeof(path), "/sys/block/%s/serial", name);
        buf_init(&text, 0);
        bool same = fd_read_file(path, &text, 64, &quiet) == 0 && slice_eq(buf_slice(&text), serial);
        buf_fini(&text);
        return same;
}

static bool find_disk(struct slice serial, char *device, size_t size)
{
        DIR *dir = opendir("/sys/block");
        const struct dirent *e;
        bool found = false;
        while (dir != NULL && !found && (e = readdir(dir)) != NULL)
                if (strncmp(e->d_name, "vd", 2) == 0 && disk_is(e->d_name, serial))
                        found = snprintf(device, size, "/dev/%s", e->d_name) < (int)size && access(device, F_OK) == 0;
        if (dir != NULL)
                closedir(dir);
        return found;
}

static int mount_disk(struct slice serial, const char *at, unsigned long flags, struct err *err)
{
        static const struct timespec pause = { 0, VM_DISK_POLL_MS * 1000000L };
        char device[64];
        int64_t until_ms = clock_mono_ms() + VM_DISK_WAIT_MS;
        while (!find_disk(serial, device, sizeof(device))) {
                if (clock_mono_ms() > until_ms)
                        return err_set(err, "the machine has no disk with the serial number %.*s", SLICE_FMT(serial));
                nanosleep(&pause, NULL);
        }
        return mount(device, at, "ext4", flags, NULL) < 0 ? err_sys(err, errno, "cannot mount the disk %.*s", SLICE_FMT(serial)) : 0;
}

/* What the initramfs held is memory: give it back. */
static void forget_initramfs(void)
{
        (void)!unlink("/init");
        (void)!rmdir("/modules");
}

int vm_disk_root(const struct setup *s, struct err *err)
{
        char to[64];
        if (s->system.n == 0)
                return mount_rest(err);
        if (vm_disk_point("/", NEW_ROOT, err) < 0 || mount_disk(s->system, NEW_ROOT, 0, err) < 0)
                return -1;
        forget_initramfs();
        for (size_t i = 0; i < COUNT(first); i++) {
                snprintf(to, sizeof(to), NEW_ROOT "%s", first[i].at);
                if (vm_disk_point(NEW_ROOT, first[i].at, err) < 0)
                        return -1;
                if (mount(first[i].at, to, NULL, MS_MOVE, NULL) < 0)
                        return err_sys(err, errno, "cannot move %s to the system disk", first[i].at);
        }
        if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
                return err_sys(err, errno, "cannot change to the system disk");
        return mount_rest(err);
}

int vm_disk_home(const struct setup *s, struct err *err)
{
        if (vm_disk_point("/", "/root", err) < 0)
                return -1;
        return s->home.n > 0 ? mount_disk(s->home, "/root", MS_NODEV | MS_NOSUID, err) : 0;
}

/* ---- shares ---- */

/* cache=mmap: reads, writes, names and attributes always ask the host, so that both sides see each other's changes; only mapped pages are kept. What nobody changes is
 * cached whole. msize: what fits one request of virtio. access=any: one attachment for all users, permissions are judged here by mode and owner. */
static const char options_live[] = "trans=virtio,version=9p2000.L,msize=512000,access=any,cache=mmap";
static const char options_still[] = "trans=virtio,version=9p2000.L,msize=512000,access=any,cache=loose";

int vm_disk_shares(const struct setup *s, struct err *err)
{
        for (size_t i = 0; i < s->share_count; i++) {
                const struct setup_share *share = &s->shares[i];
                char path[SETUP_TEXT_BYTES];
                unsigned long flags = MS_NOSUID | MS_NODEV | (share->read_only ? MS_RDONLY : 0);
                snprintf(path, sizeof(path), "%.*s", SLICE_FMT(share->path));
                if (vm_disk_point("/", path, err) < 0)
                        return -1;
                if (mount(share->tag, path, "9p", flags, share->still ? options_still : options_live) < 0)
                        return err_sys(err, errno, "cannot mount the share %s", path);
        }
        return 0;
}

/* ---- the end ---- */

void vm_disk_end(void)
{
        static char *at[VM_DISK_MOUNTS];
        size_t n = 0;
        FILE *mounts = setmntent("/proc/self/mounts", "re");
        const struct mntent *m;
        sync();
        while (mounts != NULL && n < VM_DISK_MOUNTS && (m = getmntent(mounts)) != NULL)
                if ((at[n] = strdup(m->mnt_dir)) != NULL)
                        n++;
        if (mounts != NULL)
                endmntent(mounts);
        while (n > 0)
                (void)!umount2(at[--n], UMOUNT_NOFOLLOW);
        mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
        sync();
}
