/* Files of the guest's home: see homefiles.h. */
#include "guest/homefiles.h"
#include "account/guest.h"
#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Beside the file while it is written; another session of the workspace does not run at the same time. */
#define NEW_FILE ".brome-new"

static int open_beneath(int dir, const char *path, int flags)
{
        struct open_how how = { .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
                                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };

        return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* The file's folder, its missing parts made; *base is its last part. */
static int open_folder(int home, const char *name, const char **base)
{
        int at = open_beneath(home, ".", O_PATH | O_DIRECTORY), next;
        const char *slash;

        for (; at >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
                char part[NAME_MAX + 1];

                snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
                if (mkdirat(at, part, 0700) < 0 && errno != EEXIST) {
                        fd_close(&at);
                        return -1;
                }
                next = open_beneath(at, part, O_PATH | O_DIRECTORY);
                fd_close(&at);
                at = next;
        }
        *base = name;
        return at;
}

/* What stands there now: 0 with *mode and the text, empty when there is no such file; -1 with *why. */
static int read_present(int home, const char *name, struct buf *out, mode_t *mode, const char **why)
{
        int fd = open_beneath(home, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW), rc = -1;
        struct err quiet = ERR_INIT;
        struct stat st;

        *mode = 0600;
        if (fd < 0 && errno == ENOENT)
                return 0;
        *why = fd < 0 && (errno == ELOOP || errno == EXDEV) ? "a link or another mount stands in its place or above it" : "it cannot be read";
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
                *mode = st.st_mode & 0777;
                *why = "it is larger than 256 KiB";
                rc = st.st_size > GUEST_FILE_BYTES_MAX ? -1 : fd_read_all(fd, out, GUEST_FILE_BYTES_MAX, &quiet);
        } else if (fd >= 0) {
                *why = "it is no regular file";
        }
        fd_close(&fd);
        return rc;
}

/* Replaces the file as one step, so that a tool never reads half of it. */
static int replace(int home, const char *name, mode_t mode, struct slice text)
{
        const char *base;
        char fresh[NAME_MAX + 1];
        int dir = open_folder(home, name, &base), fd, rc = -1;

        if (dir < 0)
                return -1;
        snprintf(fresh, sizeof(fresh), "%s" NEW_FILE, base); /* our own names (guest_file_name), all short */
        (void)!unlinkat(dir, fresh, 0); /* of a session that was killed meanwhile */
        fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 && fd_write_all(fd, text.p, text.n) == 0 && fchmod(fd, mode | 0600) == 0)
                rc = renameat(dir, fresh, dir, base);
        if (fd >= 0 && rc < 0)
                (void)!unlinkat(dir, fresh, 0);
        fd_close(&fd);
        fd_close(&dir);
        return rc;
}

static void note(char *notes, const char *name, const char *why)
{
        size_t used = strlen(notes);

        snprintf(notes + used, HOMEFILES_NOTES_BYTES - used, "~/%s in the workspace is left alone: %s\n", name, why);
}

/* Would anything of ours stand in it? If not, nobody misses it. */
static bool wanted(size_t i, const struct binding *accounts, size_t count)
{
        const char *why;
        struct buf fresh;
        bool any;

        buf_init(&fresh, 0);
        any = guest_file(i, accounts, count, SLICE_EMPTY, &fresh, &why) == 1;
        buf_fini(&fresh);
        return any;
}

static void write_one(int home, size_t i, const struct binding *accounts, size_t count, char *notes)
{
        const char *name = guest_file_name(i), *why = NULL;
        struct buf present, fresh;
        mode_t mode;
        int rc;

        buf_init(&present, 0);
        buf_init(&fresh, 0);
        rc = read_present(home, name, &present, &mode, &why);
        if (rc == 0)
                rc = guest_file(i, accounts, count, buf_slice(&present), &fresh, &why);
        if (rc == 1 && replace(home, name, mode, buf_slice(&fresh)) < 0) {
                why = errno == ENOSPC || errno == EDQUOT ? "there is no room" : "it cannot be written";
                rc = -1;
        }
        if (rc < 0 && wanted(i, accounts, count))
                note(notes, name, why ? why : "it cannot be read");
        buf_fini(&present);
        buf_fini(&fresh);
}

void homefiles_write(int home, const struct binding *accounts, size_t count, char notes[HOMEFILES_NOTES_BYTES])
{
        notes[0] = 0;
        for (size_t i = 0; guest_file_name(i); i++)
                write_one(home, i, accounts, count, notes);
}
