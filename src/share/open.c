/* Opening beneath a share. The one door to its files: no link is followed in any component, no mount entered, nothing above reached, whatever the
 * other side renames meanwhile. */
#include "share/share_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN_TRIES = 16 }; /* RESOLVE_BENEATH says EAGAIN when something was renamed meanwhile */

int share_open(int dirfd, const char *relative, int flags, mode_t mode)
{
        struct open_how how = { .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)), .mode = flags & O_CREAT ? mode : 0,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };
        long r = -1;
        for (int i = 0; i < OPEN_TRIES; i++) {
                r = syscall(SYS_openat2, dirfd, *relative ? relative : ".", &how, sizeof(how));
                if (r >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return (int)r;
}

int share_open_parent(int dirfd, const char *relative, const char **name)
{
        char parent[PATH_MAX];
        const char *slash = strrchr(relative, '/');
        *name = slash ? slash + 1 : relative;
        size_t n = slash ? (size_t)(slash - relative) : 0;
        if (**name == 0 || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0 || n >= sizeof(parent)) {
                errno = EINVAL;
                return -1;
        }
        memcpy(parent, relative, n);
        parent[n] = 0;
        return share_open(dirfd, parent, O_PATH | O_DIRECTORY, 0);
}

int share_stat(int dirfd, const char *relative, struct stat *st)
{
        const char *name;
        int parent = share_open_parent(dirfd, relative, &name);
        if (parent < 0)
                return -1;
        int r = fstatat(parent, name, st, AT_SYMLINK_NOFOLLOW), saved = errno;
        close(parent);
        errno = saved;
        return r;
}

int share_open_from_root(int root_fd, const char *path)
{
        struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
        return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}
