/* The seal of bromed: see sealing.h. SECURITY: each row says why it is there; what is not there kills the process. */
#include "daemon/sealing.h"
#include "base/log.h"
#include "base/seal.h"
#include "daemon/settings.h"
#include "journal/journal.h"
#include "rules/policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static const struct seal_call daemon_calls[] = {
        SEAL_CALL(accept4, "clients"),
        SEAL_CALL(getsockopt, "SO_PEERCRED and SO_PEERPIDFD of clients"),
        SEAL_SOCKOPT(SOL_SOCKET, SO_SNDBUF, "room for one message"),
        SEAL_CALL(pidfd_open, "pins a client where the kernel has no SO_PEERPIDFD"),
        SEAL_CALL_ARG(socketpair, 0, ~0ULL, AF_UNIX, "channels, event sockets and links of a new session"),
        SEAL_CALL(memfd_create, "policies and listings for others"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_ADD_SEALS, "the same"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_DUPFD_CLOEXEC, "reading folders"),
        SEAL_CALL(openat, "its own folders; Landlock says which"),
        SEAL_CALL(open, "the same, older C libraries"),
        SEAL_CALL(getdents64, "the folder of workspaces"),
        SEAL_CALL(mkdir, "a workspace's folder"),
        SEAL_CALL(mkdirat, "the same"),
        SEAL_CALL(rename, "atomic replacing; putting a folder aside"),
        SEAL_CALL(renameat, "the same"),
        SEAL_CALL(renameat2, "the same"),
        SEAL_CALL(unlink, "temporary files, its socket at the end"),
        SEAL_CALL(unlinkat, "the same"),
        SEAL_CALL(rmdir, "swept folders"),
        SEAL_CALL(fsync, "configuration on disk"),
        SEAL_CALL(stat, "is it there, is it a regular file"),
        SEAL_CALL(lstat, "the same"),
        SEAL_CALL(statx, "the same, newer C libraries"),
        SEAL_CALL(access, "the same"),
        SEAL_CALL(faccessat, "the same"),
        SEAL_CALL(faccessat2, "the same"),
        SEAL_CALL(readlink, "realpath: does a file lie in a share?"),
        SEAL_CALL(readlinkat, "the same"),
        SEAL_CALL(getcwd, "realpath"),
        SEAL_CALL(geteuid, "is the peer this user?"),
        SEAL_CALL(getuid, "OpenSSL's secure getenv"),
        SEAL_CALL(getegid, "the same"),
        SEAL_CALL(getgid, "the same"),
        SEAL_CALL(uname, "OpenSSL"),
        SEAL_CALL(sysinfo, "qsort asks how much memory there is"),
        SEAL_CALL(mlock, "secrets; OpenSSL's secure memory, while a CA key is made"),
        SEAL_CALL(pipe2, "a secret on its way to the outer door of its account"),
        SEAL_CALL(sched_yield, "OpenSSL's locks"),
        SEAL_CALL_ARG(ioctl, 1, ~0ULL, TCGETS, "stdio: is it a terminal?"),
};

enum { PATHS = 8 + 2 * RULES_FILES_MAX + 256 /* folders of CA files */ };

static char *folder(const char *file)
{
        char *copy = strdup(file), *slash = copy ? strrchr(copy, '/') : NULL;

        if (slash)
                slash[slash == copy ? 1 : 0] = 0;
        return copy; /* kept until the process ends: the table borrows it */
}

/* Many CA files mostly lie in few folders; each is told to the kernel once. */
static size_t add_folder(struct seal_path *paths, size_t n, const char *file)
{
        char *name = folder(file);

        for (size_t i = 0; name && i < n; i++)
                if (strcmp(paths[i].path, name) == 0) {
                        free(name);
                        return n;
                }
        if (name && n < PATHS)
                paths[n++] = (struct seal_path){ name, SEAL_READ };
        else
                free(name);
        return n;
}

/* Folders of CA files that any host block names, whether or not there is a workspace yet: one for a single run brings none of its own.
 * A folder that appears later needs a restart, and the error says so. */
static size_t add_ca_folders(const struct daemon *d, struct seal_path *paths, size_t n)
{
        struct slice ca, dir;

        for (size_t i = 0; config_ca_at(d->settings->config, i, &ca, &dir); i++) {
                char path[PATH_MAX], from[PATH_MAX], full[PATH_MAX], real[PATH_MAX];

                if (ca.n == 0 || ca.n >= sizeof(path) || dir.n >= sizeof(from))
                        continue;
                snprintf(path, sizeof(path), "%.*s", SLICE_FMT(ca));
                snprintf(from, sizeof(from), "%.*s", SLICE_FMT(dir));
                if (settings_path(d, full, from, path, NULL) < 0)
                        continue;
                n = add_folder(paths, n, full);
                if (realpath(full, real)) /* a link, as system bundles often are */
                        n = add_folder(paths, n, real);
        }
        return n;
}

static size_t build_paths(const struct daemon *d, struct seal_path *paths)
{
        char real[PATH_MAX];
        size_t n = 0, agents = strlen(d->paths.agents);

        if (agents)
                paths[n++] = (struct seal_path){ d->paths.agents, SEAL_READ }; /* presets */
        paths[n++] = (struct seal_path){ d->paths.state, SEAL_READ_WRITE };   /* journal, workspaces */
        paths[n++] = (struct seal_path){ d->paths.runtime, SEAL_READ_WRITE }; /* removing the socket at the end */
        paths[n++] = (struct seal_path){ "/dev/urandom", SEAL_READ };         /* OpenSSL's last resort */
        paths[n++] = (struct seal_path){ "/etc/localtime", SEAL_READ };
        paths[n++] = (struct seal_path){ folder(d->paths.config), SEAL_READ_WRITE }; /* brome.conf is replaced by `rules set` */
        /* Included files, and where links lead: read, and replaced by `rules set` too. */
        for (size_t i = 0; i < config_file_count(d->settings->config) && n + 2 < PATHS; i++) {
                const char *file = config_file_at(d->settings->config, i);

                if (file[0] != '/' || (agents && strncmp(file, d->paths.agents, agents) == 0))
                        continue;
                paths[n++] = (struct seal_path){ folder(file), SEAL_READ_WRITE };
                if (realpath(file, real) && strcmp(real, file) != 0)
                        paths[n++] = (struct seal_path){ folder(real), SEAL_READ_WRITE };
        }
        return add_ca_folders(d, paths, n);
}

int sealing_apply(const struct daemon *d, struct err *err)
{
        static struct seal_path paths[PATHS];
        static struct seal_call calls[160];
        size_t n = sizeof(daemon_calls) / sizeof(daemon_calls[0]), path_count = build_paths(d, paths);
        int rc;

        MUST(n + journal_seal_calls_count <= sizeof(calls) / sizeof(calls[0]));
        memcpy(calls, daemon_calls, sizeof(daemon_calls));
        memcpy(calls + n, journal_seal_calls, journal_seal_calls_count * sizeof(calls[0]));
        if (seal_caps(NULL, 0, err) < 0 || (rc = seal_files(paths, path_count, err)) < 0)
                return -1;
        if (rc == 1)
                log_info("this kernel has no Landlock: bromed is held by system calls alone");
        return seal_calls(calls, n + journal_seal_calls_count, err);
}
