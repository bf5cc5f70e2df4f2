/* Identities: see ids.h. */
#include "launch/ids.h"
#include "launch/place.h"
#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_text(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC), rc, e;

        if (fd < 0)
                return -1;
        rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
        e = errno;
        close(fd);
        errno = e;
        return rc;
}

static int userns_refused(int e, struct err *err)
{
        char word[8] = "";
        int fd = open("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", O_RDONLY | O_CLOEXEC);

        if (fd >= 0 && read(fd, word, 1) == 1 && word[0] == '1') {
                close(fd);
                return err_set(err, "AppArmor forbids user namespaces for ordinary programs here: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, "
                                    "or load the AppArmor profile that comes with brome (see `brome doctor`)");
        }
        fd_close(&fd);
        if (e == ENOSPC)
                return err_set(err, "no user namespaces are allowed here: sudo sysctl user.max_user_namespaces=28633");
        if (e == EPERM)
                return err_set(err, "user namespaces are forbidden here: sudo sysctl kernel.unprivileged_userns_clone=1 (inside a container, allow them for it)");
        return err_sys(err, e, "cannot make a user namespace");
}

int ids_enter(struct ids *ids, struct err *err)
{
        char map[64];

        *ids = (struct ids){ .root = geteuid() == 0, .outer_uid = getuid(), .outer_gid = getgid(), .count = 1, .userns = -1 };
        if (ids->root) {
                ids->count = IDS_RANGE;
                return 0;
        }
        if (unshare(CLONE_NEWUSER) < 0)
                return userns_refused(errno, err);
        /* /proc/self belongs to the machine's root while we are not dumpable; main() seals this again before the guest starts. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || write_text("/proc/self/setgroups", "deny") < 0)
                return userns_refused(errno, err);
        snprintf(map, sizeof(map), "0 %u 1\n", ids->outer_uid);
        if (write_text("/proc/self/uid_map", map) < 0)
                return userns_refused(errno, err);
        snprintf(map, sizeof(map), "0 %u 1\n", ids->outer_gid);
        if (write_text("/proc/self/gid_map", map) < 0)
                return userns_refused(errno, err);
        return 0;
}

/* The slot written in folder/idrange, or -1. */
static long slot_of(const char *folder)
{
        char path[PATH_MAX + 300], *end;
        struct buf text;
        struct err quiet;
        long slot = -1;

        buf_init(&text, 64);
        place(path, sizeof(path), "%s/idrange", folder);
        if (fd_read_file(path, &text, 64, &quiet) == 0 && buf_add(&text, "", 1) == 0) {
                errno = 0;
                slot = strtol((const char *)buf_slice(&text).p, &end, 10);
                if (errno || *end != '\n' || slot < 0 || slot >= IDS_SLOTS)
                        slot = -1;
        }
        buf_fini(&text);
        return slot;
}

/* Marks what the other workspaces beside this one have taken. */
static int slots_taken(const char *parent, bool taken[IDS_SLOTS], struct err *err)
{
        DIR *dir = opendir(parent);
        const struct dirent *e;

        if (!dir)
                return err_sys(err, errno, "%s", parent);
        while ((e = readdir(dir))) {
                char path[PATH_MAX];
                long slot;
                if (e->d_name[0] == '.' || snprintf(path, sizeof(path), "%s/%s", parent, e->d_name) >= (int)sizeof(path))
                        continue;
                slot = slot_of(path);
                if (slot >= 0)
                        taken[slot] = true;
        }
        closedir(dir);
        return 0;
}

static int slot_new(const char *state, long *slot, struct err *err)
{
        static bool taken[IDS_SLOTS];
        char parent[PATH_MAX], path[PATH_MAX + 16], text[16];
        char *slash;
        uint32_t hash = 2166136261u; /* FNV-1a: a start that differs by state folder, so that two daemons seldom meet */
        int lock, rc = -1;

        place(parent, sizeof(parent), "%s", state);
        slash = strrchr(parent, '/');
        if (!slash || slash == parent)
                return err_set(err, "%s cannot be a workspace's folder", state);
        *slash = 0;
        for (const char *p = state; *p; p++)
                hash = (hash ^ (uint8_t)*p) * 16777619u;
        lock = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return err_sys(err, errno, "%s", parent);
        memset(taken, 0, sizeof(taken));
        if (slots_taken(parent, taken, err) < 0)
                goto out;
        for (uint32_t i = 0; i < IDS_SLOTS; i++) {
                uint32_t s = (hash + i) % IDS_SLOTS;
                if (taken[s])
                        continue;
                snprintf(text, sizeof(text), "%u\n", s);
                place(path, sizeof(path), "%s/idrange", state);
                rc = fd_write_file(path, 0600, text, strlen(text), err);
                *slot = (long)s;
                goto out;
        }
        err_set(err, "all %d id ranges are taken by the workspaces in %s; remove some", IDS_SLOTS, parent);
out:
        fd_close(&lock);
        return rc;
}

int ids_range(struct ids *ids, const char *state, struct err *err)
{
        long slot;

        if (!ids->root)
                return 0;
        slot = slot_of(state);
        if (slot < 0 && slot_new(state, &slot, err) < 0)
                return -1;
        ids->base = IDS_FIRST + (uint32_t)slot * IDS_RANGE;
        return 0;
}

/* The helper inside the new namespace: waits for its maps, forbids further namespaces, says so and ends when told. */
static _Noreturn void holder(int sync, bool nested)
{
        char c;

        if (read(sync, &c, 1) == 1 && (nested || write_text("/proc/sys/user/max_user_namespaces", "0\n") == 0 || errno == ENOENT))
                if (write(sync, "k", 1) == 1)
                        while (read(sync, &c, 1) < 0 && errno == EINTR)
                                ;
        _exit(0);
}

static int write_maps(pid_t pid, const char *uid_map, const char *gid_map)
{
        char path[64];

        place(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
        if (write_text(path, uid_map) < 0)
                return -1;
        place(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
        return write_text(path, gid_map);
}

static int userns_with(const char *uid_map, const char *gid_map, bool nested, struct err *err)
{
        int sync[2], fd = -1, e;
        char path[64], c;
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync) < 0)
                return err_sys(err, errno, "socketpair");
        pid = (pid_t)syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0);
        if (pid == 0) {
                close(sync[0]);
                holder(sync[1], nested);
        }
        e = errno;
        fd_close(&sync[1]);
        if (pid < 0) {
                fd_close(&sync[0]);
                return userns_refused(e, err);
        }
        place(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        if (write_maps(pid, uid_map, gid_map) < 0)
                err_sys(err, errno, "cannot map the guest's ids");
        else if (write(sync[0], "m", 1) != 1 || read(sync[0], &c, 1) != 1)
                err_set(err, "cannot limit the guest's user namespaces");
        else if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
                err_sys(err, errno, "%s", path);
        fd_close(&sync[0]);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return fd;
}

int ids_guest(struct ids *ids, bool nested, struct err *err)
{
        char map[64];

        snprintf(map, sizeof(map), "0 %u %u\n", ids->base, ids->count);
        ids->userns = userns_with(map, map, nested, err);
        return ids->userns < 0 ? -1 : 0;
}

int ids_owner_map(const struct ids *ids, uid_t uid, gid_t gid, struct err *err)
{
        char uid_map[64], gid_map[64];

        snprintf(uid_map, sizeof(uid_map), "%u %u 1\n", uid, ids->base);
        snprintf(gid_map, sizeof(gid_map), "%u %u 1\n", gid, ids->base);
        return userns_with(uid_map, gid_map, true, err);
}
