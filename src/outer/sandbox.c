/* Sealing of the outer door: the tables, each row with its reason. See base/seal.h. */
#include "outer/sandbox.h"

#include "base/log.h"
#include "base/seal.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* Started by root, the door needs none of root's files: what it reads is public. Without this, reading the folder of resolv.conf could
 * mean reading /etc/shadow. In a user namespace without that id it stays who it is. */
static int become_nobody(struct err *err)
{
        gid_t none = 0;

        if (geteuid() != 0)
                return 0;
        /* The bounding set goes while there is the right to empty it. */
        for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
                (void)!prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
        if (setgroups(0, &none) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0) {
                if (errno == EINVAL || errno == EPERM)
                        return 0;
                return err_sys(err, errno, "cannot become nobody");
        }
        /* A change of user makes the process dumpable again on some kernels. */
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? err_sys(err, errno, "cannot forbid core dumps") : 0;
}

/* resolv.conf is replaced by a new file, not written: its folder must be readable, the real one behind the link. */
static int seal_paths(struct err *err)
{
        char folder[PATH_MAX] = "";
        struct seal_path paths[] = {
                { "/etc/resolv.conf", SEAL_READ },
                { "/etc/hosts", SEAL_READ },
                { "/etc/nsswitch.conf", SEAL_READ },
                { "/etc/gai.conf", SEAL_READ },
                { "/etc/host.conf", SEAL_READ },
                { "/dev/urandom", SEAL_READ }, /* c-ares' query identifiers */
                { folder, SEAL_READ },
        };
        size_t count = sizeof(paths) / sizeof(paths[0]);
        char *slash;
        int rc;

        if (!realpath("/etc/resolv.conf", folder) || !(slash = strrchr(folder, '/')) || slash == folder)
                count--;
        else {
                *slash = 0;
                if (strcmp(folder, "/etc") == 0 && geteuid() == 0) {
                        log_info("still root: a new /etc/resolv.conf will not be seen");
                        count--;
                }
        }
        rc = seal_files(paths, count, err);
        if (rc == 1)
                log_info("this kernel has no Landlock: files are not sealed");
        return rc < 0 ? -1 : 0;
}

static const struct seal_call calls[] = {
        SEAL_CALL_ARG(socket, 0, ~0ULL, AF_INET, "dialling, DNS, ping sockets"),
        SEAL_CALL_ARG(socket, 0, ~0ULL, AF_INET6, "the same"),
        SEAL_CALL(connect, "dialling"),
        SEAL_SOCKOPT(IPPROTO_TCP, TCP_NODELAY, "connections to origins; c-ares' to name servers"),
        SEAL_SOCKOPT(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, "c-ares from 1.31 on, to name servers"),
        SEAL_SOCKOPT(SOL_SOCKET, SO_KEEPALIVE, "connections to origins"),
        SEAL_CALL(getsockopt, "what became of a connect"),
        SEAL_CALL(getsockname, "c-ares"),
        SEAL_CALL(getpeername, "c-ares, OpenSSL"),
        /* Read only: O_ACCMODE and every flag that creates or truncates must be clear. */
        SEAL_CALL_ARG(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY, "resolv.conf and hosts, again when they change"),
        SEAL_CALL_ARG(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY, "the same"),
        SEAL_CALL(stat, "has resolv.conf changed"),
        SEAL_CALL(statx, "the same"),
        SEAL_CALL(sysinfo, "C library: malloc, qsort"),
        SEAL_CALL(uname, "c-ares"),
        SEAL_CALL(mlock, "tokens that a registry hands out stand in locked memory"),
};

int sandbox_enter(struct err *err)
{
        if (become_nobody(err) < 0 || seal_caps(NULL, 0, err) < 0 || seal_paths(err) < 0)
                return -1;
        return seal_calls(calls, sizeof(calls) / sizeof(calls[0]), err);
}
