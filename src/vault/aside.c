/* A library that handles the vault's key works in a process of its own, which ends with it: what the library leaves in its heap, what it prints and the threads it
 * starts end there too, and a bus or a device without an answer keeps nobody for ever. `brome run` lives on for hours; this does not. */
#include "base/fd.h"
#include "base/clock.h"
#include "vault/root_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* One write, so it comes whole: less than PIPE_BUF. */
struct answer {
        int rc;
        struct err err;
        uint8_t bytes[ROOT_ASIDE_BYTES_MAX];
};
_Static_assert(sizeof(struct answer) <= 4096, "an answer is one write");

static _Noreturn void work(root_aside_fn *fn, const void *in, pid_t parent, int out)
{
        static struct answer a; /* of this process */
        struct rlimit none = { 0 };
        int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);

        /* SECURITY: no dump of a library's heap, and no end later than the caller's. Locked where it can be: the limit is this process's own again. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(1);
        (void)mlock(&a, sizeof(a));
        /* The reason is ours to say, in one line. */
        if (quiet < 0 || dup2(quiet, STDIN_FILENO) < 0 || dup2(quiet, STDOUT_FILENO) < 0 || dup2(quiet, STDERR_FILENO) < 0)
                _exit(1);
        a.rc = fn(in, a.bytes, &a.err);
        (void)!write(out, &a, sizeof(a));
        explicit_bzero(&a, sizeof(a));
        _exit(0);
}

/* The answer, or -1: ended without one, or nothing in time. */
static int await(int fd, struct answer *a, unsigned seconds, struct err *err)
{
        int64_t end = clock_mono_ms() + (int64_t)seconds * 1000, left;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int n = 0;

        while ((left = end - clock_mono_ms()) > 0 && (n = poll(&p, 1, (int)left)) < 0 && errno == EINTR)
                ;
        if (left <= 0 || n == 0)
                return err_set(err, "no answer came within %u seconds", seconds);
        if (n < 0 || read(fd, a, sizeof(*a)) != (ssize_t)sizeof(*a))
                return err_set(err, "the process that asks for the vault's key ended without an answer");
        return 0;
}

int root_aside(root_aside_fn *fn, const void *in, void *out, size_t n, unsigned seconds, struct err *err)
{
        struct answer *a = n <= ROOT_ASIDE_BYTES_MAX ? secret_alloc(sizeof(*a)) : NULL;
        pid_t parent = getpid(), pid;
        int fds[2], rc;

        if (!a)
                return err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        if (pipe2(fds, O_CLOEXEC) < 0) {
                secret_free(a, sizeof(*a));
                return err_sys(err, errno, "pipe");
        }
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                work(fn, in, parent, fds[1]);
        fd_close(&fds[1]);
        rc = pid < 0 ? err_sys(err, errno, "fork") : await(fds[0], a, seconds, err);
        fd_close(&fds[0]);
        if (pid > 0)
                kill(pid, SIGKILL); /* it has nothing left to do */
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (rc == 0 && a->rc < 0)
                rc = err_set(err, "%.*s", (int)sizeof(a->err.text) - 1, a->err.text);
        else if (rc == 0 && (rc = a->rc) == 0 && n)
                memcpy(out, a->bytes, n);
        secret_free(a, sizeof(*a));
        return rc;
}
