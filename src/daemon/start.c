/* Starting: see start.h. */
#include "daemon/start.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] = "usage: bromed [--foreground] [--ready-fd N] [--config FILE]\n"
                            "The supervisor of brome's workspaces. Commands start it by themselves; see bromed(8).\n";

int start_arguments(struct start_options *o, int argc, char **argv, struct err *err)
{
        static const struct option options[] = {
                { "foreground", no_argument, NULL, 'f' }, { "ready-fd", required_argument, NULL, 'r' }, { "config", required_argument, NULL, 'c' },
                { "help", no_argument, NULL, 'h' },       { "version", no_argument, NULL, 'V' },        { NULL, 0, NULL, 0 },
        };
        char *end;
        int c;

        *o = (struct start_options){ .ready_fd = -1 };
        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case 'f':
                        o->foreground = true;
                        break;
                case 'r':
                        o->ready_fd = (int)strtol(optarg, &end, 10);
                        if (*end || o->ready_fd < 3 || fd_cloexec(o->ready_fd, true) < 0) {
                                o->ready_fd = -1;
                                return err_set(err, "--ready-fd needs an open descriptor from 3");
                        }
                        break;
                case 'c':
                        o->config = optarg;
                        break;
                case 'h':
                        return fputs(usage, stdout) < 0 ? -1 : 1;
                case 'V':
                        return puts("bromed " BROME_VERSION) < 0 ? -1 : 1;
                default:
                        return err_set(err, "unknown option; 'bromed --help' lists them");
                }
        if (optind < argc)
                return err_set(err, "bromed takes no words, only options; 'bromed --help' lists them");
        return o->config && o->config[0] != '/' ? err_set(err, "--config needs an absolute path") : 0;
}

static int own_folder(const char *path, struct err *err)
{
        struct stat st;

        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        if (stat(path, &st) < 0)
                return err_sys(err, errno, "%s", path);
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
                return err_set(err, "%s must be a folder of yours", path);
        /* SECURITY: nobody else reads the journal or reaches the socket. */
        if ((st.st_mode & 077) && chmod(path, 0700) < 0)
                return err_sys(err, errno, "%s", path);
        return 0;
}

int start_folders(const struct paths *p, struct err *err)
{
        static const char *const below[] = { "workspaces", "sweep", "cache" };
        char path[PATH_MAX];

        if (own_folder(p->runtime, err) < 0 || own_folder(p->state, err) < 0)
                return -1;
        for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
                if (snprintf(path, sizeof(path), "%s/%s", p->state, below[i]) >= (int)sizeof(path) || own_folder(path, err) < 0)
                        return err->text[0] ? -1 : err_set(err, "the state folder is too long a path");
        /* The seal names folders that are there: without this one a configuration written later could not be read. It may be out of reach
         * (a read-only home); then there is none. */
        if (snprintf(path, sizeof(path), "%s", p->config) < (int)sizeof(path) && strrchr(path, '/') > path) {
                *strrchr(path, '/') = 0;
                if (fd_mkdirs(path, 0700, NULL) < 0)
                        log_info("%s cannot be made; a configuration put there later needs a restart", path);
        }
        return 0;
}

/* A holder that is just ending gets a moment: `stop` is answered a little before its process is gone. */
static int take(int fd)
{
        const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

        for (int tries = 0;; tries++) {
                if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                        return 0;
                if (errno != EWOULDBLOCK || tries == DAEMON_LOCK_MS / 20)
                        return -1;
                nanosleep(&pause, NULL);
        }
}

static int lock_one(const char *folder, struct err *err)
{
        char path[PATH_MAX], holder[32] = "";
        ssize_t n;
        int fd, e;

        if (snprintf(path, sizeof(path), "%s/bromed.lock", folder) >= (int)sizeof(path))
                return err_set(err, "%s is too long a path", folder);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        if (take(fd) < 0) {
                e = errno;
                n = pread(fd, holder, sizeof(holder) - 1, 0);
                holder[n > 0 ? strspn(holder, "0123456789") : 0] = 0;
                fd_close(&fd);
                return e == EWOULDBLOCK ? err_set(err, "another bromed (process %s) uses %s", *holder ? holder : "unknown", folder)
                                        : err_sys(err, e, "%s", path);
        }
        /* For the message above only; the lock is what counts. The descriptor stays open for life. */
        if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
                return err_sys(err, errno, "%s", path);
        return 0;
}

int start_lock(const struct paths *p, struct err *err) { return lock_one(p->runtime, err) < 0 ? -1 : lock_one(p->state, err); }

int start_log(const struct paths *p, struct err *err)
{
        char path[PATH_MAX], old[PATH_MAX];
        struct stat st;
        int fd, rc;

        if (snprintf(path, sizeof(path), "%s/bromed.log", p->runtime) >= (int)sizeof(path) ||
            snprintf(old, sizeof(old), "%s/bromed.log.1", p->runtime) >= (int)sizeof(old))
                return err_set(err, "the runtime folder is too long a path");
        if (lstat(path, &st) == 0 && st.st_size > DAEMON_LOG_BYTES && rename(path, old) < 0)
                return err_sys(err, errno, "%s", path);
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        rc = dup2(fd, STDERR_FILENO) < 0 ? err_sys(err, errno, "%s", path) : 0;
        fd_close(&fd);
        return rc;
}

void start_tell(struct start_options *o, const char *text)
{
        if (o->ready_fd < 0)
                return;
        /* The reader may be gone (a ^C); bromed then runs on. */
        if (dprintf(o->ready_fd, "%s\n", text) < 0)
                errno = 0;
        fd_close(&o->ready_fd);
}
