/* brome-sweep: removes one folder's contents, then ends. Descriptor 3 is the channel (unused but for its end), 4 the folder.
 *
 * What a guest left may be a tree of any depth and width, of files owned by the guest's users, with folders nobody may enter. The one idea:
 * no recursion. A subfolder that is not empty is moved up into the top folder under a name of its own and comes later; so memory and
 * descriptors stay constant. It never follows a link, and Landlock ties it to the folder; of root's rights it keeps two.
 * Ends with 0 when the folder is empty. */
#include "base/fd.h"
#include "base/log.h"
#include "base/seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOP = 4, PASSES = 1 << 20 /* folders moved up at most: ends a sweep that cannot make progress */ };

static const struct seal_call calls[] = {
        SEAL_CALL(openat, "folders below the one"),
        SEAL_CALL(getdents64, "their entries"),
        SEAL_CALL(unlinkat, "removing"),
        SEAL_CALL(renameat, "moving a folder up"),
        SEAL_CALL(renameat2, "the same, newer C libraries"),
        SEAL_CALL(fchmodat, "entering a folder that its owner closed"),
};

static unsigned long moved;

/* Opens the permissions of a subfolder that the guest closed. SECURITY: by descriptor, never by name: a guest that is only just dying could
 * put a link in its place, and Landlock does not watch over modes. */
static int unlock(int at, const char *name)
{
        char self[32];
        int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

        if (fd < 0)
                return -1;
        snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
        rc = fchmodat(AT_FDCWD, self, 0700, 0);
        fd_close(&fd);
        return rc;
}

static int enter(int at, const char *name)
{
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == EACCES && unlock(at, name) == 0)
                fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd;
}

/* Moves at/name into the top folder. */
static int lift(int at, const char *name)
{
        char to[32];

        while (++moved <= PASSES) {
                snprintf(to, sizeof(to), ".sweep.%lu", moved);
                if (renameat(at, name, TOP, to) == 0)
                        return 0;
                if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
                        return -1;
        }
        return -1;
}

/* Removes what is no folder, and empty folders; with `lifting` moves the others up. 0, or the number of entries left. */
static long clean(int fd, bool lifting)
{
        long left = 0;
        DIR *d = fdopendir(fd);
        struct dirent *e;

        if (!d) {
                close(fd);
                return 1;
        }
        while ((e = readdir(d))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (unlinkat(dirfd(d), e->d_name, 0) == 0)
                        continue;
                if ((errno == EISDIR || errno == EPERM) && unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) == 0)
                        continue;
                if (lifting) {
                        /* Moving a folder rewrites its "..", for which it must be writable. */
                        if (unlock(dirfd(d), e->d_name) < 0 || lift(dirfd(d), e->d_name) < 0)
                                left++;
                } else {
                        left++;
                }
        }
        closedir(d);
        return left;
}

/* One pass over the top folder: empties each subfolder and removes it. Returns the entries it met; *progress when one of them went. */
static long pass(bool *progress)
{
        long met = 0;
        int fd = openat(TOP, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d)
                return 1;
        while ((e = readdir(d))) {
                int sub;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                met++;
                if (unlinkat(TOP, e->d_name, 0) == 0 || unlinkat(TOP, e->d_name, AT_REMOVEDIR) == 0) {
                        *progress = true;
                        continue;
                }
                sub = enter(TOP, e->d_name);
                if (sub >= 0 && clean(sub, true) == 0 && unlinkat(TOP, e->d_name, AT_REMOVEDIR) == 0)
                        *progress = true;
        }
        closedir(d);
        return met;
}

int main(void)
{
        static const int caps[] = { CAP_DAC_OVERRIDE /* folders of the guest's users */, CAP_FOWNER /* their modes and sticky bits */ };
        static const struct seal_path paths[] = { { ".", SEAL_READ_WRITE } };
        struct err err = ERR_INIT;
        bool progress = true;
        long left = 1;

        log_init("brome-sweep", NULL);
        if (fchdir(TOP) < 0 || seal_early(&err) < 0 || seal_caps(caps, geteuid() == 0 ? 2 : 0, &err) < 0 || seal_files(paths, 1, &err) < 0 ||
            seal_calls(calls, sizeof(calls) / sizeof(calls[0]), &err) < 0) {
                log_error("not started by bromed, or not sealed: %s", err.text);
                return 1;
        }
        /* Until a pass meets nothing: what was moved up during one is met in the next. */
        while (left && progress) {
                progress = false;
                left = pass(&progress);
        }
        if (left)
                log_error("%ld entries of a removed workspace cannot be removed: %s", left, strerror(errno));
        return left ? 1 : 0;
}
