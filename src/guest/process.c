/* Starting and ending processes: see process.h. The child does between fork and exec only what must be done there, and says by a close-on-exec pipe
 * which step failed. Each program leads a session of its own, with or without a terminal, so that hanging up reaches all it left behind. */
#include "guest/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

enum process_step { STEP_PIPE, STEP_PTY, STEP_FORK, STEP_SESSION, STEP_STDIO, STEP_CWD, STEP_USER, STEP_EXEC, STEP_COUNT };

const char *process_step_text(int step)
{
        static const char *const text[STEP_COUNT] = {
                [STEP_PIPE] = "cannot make pipes for the program",     [STEP_PTY] = "cannot open a terminal in the workspace",
                [STEP_FORK] = "cannot start another process",          [STEP_SESSION] = "cannot make a session for the program",
                [STEP_STDIO] = "cannot set up the program's input and output", [STEP_CWD] = "cannot enter the working folder",
                [STEP_USER] = "cannot become the user",                [STEP_EXEC] = "cannot run the program",
        };
        return step >= 0 && step < STEP_COUNT ? text[step] : "cannot start the program";
}

static void shut(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void process_close(struct process *p)
{
        shut(&p->started);
        shut(&p->in);
        shut(&p->out);
        shut(&p->err);
        shut(&p->slave);
}

/* ---- the child's side ---- */

static _Noreturn void child_fail(int status_fd, int step)
{
        struct process_failure f = { .errno_value = errno, .step = step };
        ssize_t n = write(status_fd, &f, sizeof(f));
        _exit(n < 0 ? 126 : 127);
}

static void child_signals(void)
{
        struct sigaction by_default = { .sa_handler = SIG_DFL };
        sigset_t none;
        for (int s = 1; s < NSIG; s++)
                sigaction(s, &by_default, NULL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

static int child_user(const struct proto_exec *exec)
{
        if (!exec->has_user)
                return 0;
        /* A user namespace made without privilege denies setgroups; there are no groups to drop then. */
        if (setgroups(0, NULL) < 0 && errno != EPERM)
                return -1;
        return setresgid(exec->gid, exec->gid, exec->gid) < 0 || setresuid(exec->uid, exec->uid, exec->uid) < 0 ? -1 : 0;
}

static _Noreturn void child_run(const struct proto_exec *exec, const int stdio[3], int status_fd)
{
        static char *no_env[] = { NULL };
        if (setsid() < 0 || (exec->pty && ioctl(stdio[0], TIOCSCTTY, 0) < 0))
                child_fail(status_fd, STEP_SESSION);
        for (int i = 0; i < 3; i++)
                if (dup2(stdio[i], i) < 0)
                        child_fail(status_fd, STEP_STDIO);
        if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0) /* all are close-on-exec already; this is the second lock */
                child_fail(status_fd, STEP_STDIO);
        if (child_user(exec) < 0)
                child_fail(status_fd, STEP_USER);
        if (chdir(exec->cwd != NULL ? exec->cwd : "/") < 0)
                child_fail(status_fd, STEP_CWD);
        child_signals();
        environ = exec->env != NULL ? (char **)(uintptr_t)exec->env : no_env;
        execvp(exec->argv[0], (char *const *)(uintptr_t)exec->argv);
        child_fail(status_fd, STEP_EXEC);
}

/* ---- our side ---- */

static int nonblock(int fd)
{
        int flags = fcntl(fd, F_GETFL);
        return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int open_pty(const struct proto_exec *exec, struct process *p)
{
        struct termios t;
        int zero = 0;
        int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (master < 0)
                master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        p->out = master;
        if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) < 0)
                return -1;
        p->in = fcntl(master, F_DUPFD_CLOEXEC, 3);
        p->slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC); /* by descriptor: no path that the guest could replace */
        if (p->in < 0 || p->slave < 0)
                return -1;
        if (tcgetattr(p->slave, &t) == 0) {
                t.c_iflag |= IUTF8;
                tcsetattr(p->slave, TCSANOW, &t);
        }
        if (exec->has_user && fchown(p->slave, exec->uid, (gid_t)-1) < 0)
                return -1;
        process_resize(p, exec->rows, exec->cols);
        return 0;
}

static int open_pipes(struct process *p, int child[3])
{
        int pair[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
        for (int i = 0; i < 3; i++)
                if (pipe2(pair[i], O_CLOEXEC) < 0) {
                        int saved = errno;
                        for (int k = 0; k < 3; k++) {
                                shut(&pair[k][0]);
                                shut(&pair[k][1]);
                        }
                        errno = saved;
                        return -1;
                }
        p->in = pair[0][1];
        p->out = pair[1][0];
        p->err = pair[2][0];
        child[0] = pair[0][0];
        child[1] = pair[1][1];
        child[2] = pair[2][1];
        return nonblock(p->in) < 0 || nonblock(p->out) < 0 || nonblock(p->err) < 0 ? -1 : 0;
}

static int give_up(struct process *p, int child[3], struct process_failure *failure, int step)
{
        *failure = (struct process_failure){ .errno_value = errno, .step = step };
        for (int i = 0; i < 3; i++)
                shut(&child[i]);
        process_close(p);
        return -1;
}

int process_start(const struct proto_exec *exec, struct process *out, struct process_failure *failure)
{
        struct process p = PROCESS_NONE;
        int child[3] = { -1, -1, -1 }, status[2];
        if (exec->pty ? open_pty(exec, &p) < 0 : open_pipes(&p, child) < 0)
                return give_up(&p, child, failure, exec->pty ? STEP_PTY : STEP_PIPE);
        if (pipe2(status, O_CLOEXEC) < 0)
                return give_up(&p, child, failure, STEP_PIPE);
        p.started = status[0];
        int stdio[3] = { p.slave, p.slave, p.slave };
        p.pid = fork();
        if (p.pid == 0)
                child_run(exec, exec->pty ? stdio : child, status[1]);
        int saved = errno;
        close(status[1]);
        errno = saved;
        if (p.pid < 0)
                return give_up(&p, child, failure, STEP_FORK);
        for (int i = 0; i < 3; i++)
                shut(&child[i]);
        *out = p;
        return 0;
}

void process_resize(const struct process *p, uint16_t rows, uint16_t cols)
{
        struct winsize w = { .ws_row = rows, .ws_col = cols };
        if (p->slave >= 0 && rows > 0 && cols > 0)
                ioctl(p->out, TIOCSWINSZ, &w);
}

int process_eof_char(const struct process *p)
{
        struct termios t;
        if (p->slave < 0 || tcgetattr(p->slave, &t) < 0 || !(t.c_lflag & ICANON) || t.c_cc[VEOF] == _POSIX_VDISABLE)
                return -1;
        return t.c_cc[VEOF];
}

void process_signal(const struct process *p, int signal_number)
{
        pid_t group = p->slave >= 0 ? tcgetpgrp(p->out) : p->pid;
        if (group > 1) /* 0 and 1 would mean ourselves, -1 everybody */
                kill(-group, signal_number);
        else if (p->pid > 1)
                kill(-p->pid, signal_number);
}

/* Field 6 of /proc/PID/stat. The name in field 2 is the program's choice and may hold anything, so count from its last bracket. */
static pid_t session_of(int proc_fd, const char *name)
{
        char path[32], text[512];
        if (snprintf(path, sizeof(path), "%.16s/stat", name) < 0)
                return -1;
        int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        ssize_t n = read(fd, text, sizeof(text) - 1);
        close(fd);
        if (n <= 0)
                return -1;
        text[n] = 0;
        const char *at = strrchr(text, ')');
        for (int spaces = 0; at != NULL && spaces < 4; spaces++)
                at = strchr(at + 1, ' ');
        return at != NULL ? (pid_t)strtol(at, NULL, 10) : -1;
}

int process_signal_session(pid_t pid, int signal_number)
{
        int count = 0;
        if (pid <= 1)
                return 0;
        DIR *proc = opendir("/proc");
        if (proc == NULL)
                return kill(-pid, signal_number) == 0;
        struct dirent *d;
        while ((d = readdir(proc)) != NULL) {
                pid_t one = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? (pid_t)strtol(d->d_name, NULL, 10) : 0;
                if (one > 1 && one != getpid() && session_of(dirfd(proc), d->d_name) == pid && kill(one, signal_number) == 0)
                        count++;
        }
        closedir(proc);
        return count;
}

bool process_signal_all(int signal_number)
{
        if (getpid() != 1)
                return false;
        kill(-1, signal_number);
        return true;
}

int process_connect(uint16_t port, bool v6, struct process *out)
{
        struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        struct process p = PROCESS_NONE;
        int one = 1, rc, saved;
        p.in = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        p.out = p.in < 0 ? -1 : fcntl(p.in, F_DUPFD_CLOEXEC, 3);
        p.started = p.out < 0 ? -1 : fcntl(p.in, F_DUPFD_CLOEXEC, 3);
        rc = p.started < 0 ? -1 : v6 ? connect(p.in, (struct sockaddr *)&six, sizeof(six)) : connect(p.in, (struct sockaddr *)&four, sizeof(four));
        if (rc < 0 && errno != EINPROGRESS) {
                saved = errno;
                process_close(&p);
                errno = saved;
                return -1;
        }
        setsockopt(p.in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* what comes was gathered already */
        *out = p;
        return 0;
}

int process_connected(const struct process *p)
{
        int e = 0;
        socklen_t n = sizeof(e);
        return getsockopt(p->in, SOL_SOCKET, SO_ERROR, &e, &n) < 0 ? errno : e;
}

void process_end_input(struct process *p, bool connection)
{
        if (connection && p->in >= 0)
                shutdown(p->in, SHUT_WR);
        shut(&p->in);
}

int process_reap(pid_t *pid, int *status)
{
        pid_t r = waitpid(-1, status, WNOHANG);
        if (r > 0) {
                *pid = r;
                return 1;
        }
        return r == 0 ? 0 : -1;
}
