/* brome-spawn: starts brome's other programs for bromed, which is sealed and cannot.
 *
 * The one idea: a fixed table of programs and an explicit list of descriptors; no argument, no environment of the asker's choice. Were
 * bromed taken over, it could start brome's own programs and nothing else. It also kills what it started, reports ends, and compares a
 * client's namespaces with its own, because reading another process's /proc is what Landlock takes from bromed.
 * It must never parse anything but bromed's messages, and it ends (with everything it started) when bromed does. */
#include "base/chan.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths.h"
#include "daemon/bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNEL = 3, ENV_MAX = 8, ORPHAN_MS = 5000 /* after bromed's death a program has this long to end by itself */ };

static const struct program {
        const char *name, *file;
} programs[] = {
        { "launch", "brome-launch" },
        { "inner", "brome-inner" },
        { "outer", "brome-outer" },
        { "sweep", "brome-sweep" },
};

/* What a program is told of the outside. BROME_LIBEXEC: where launch finds brome-guest in a build tree. */
static const char *const environment[] = { "PATH", "HOME", "LANG", "BROME_DEBUG", "BROME_LIBEXEC" };

static struct child {
        uint64_t id; /* 0: free */
        pid_t pid;
} children[DAEMON_SPAWNED];

static void say(json_t *body)
{
        /* Waits for bromed: a lost end would leave a session half closed. */
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        if (!text)
                exit(1);
        while (send(CHANNEL, text, strlen(text), MSG_NOSIGNAL) < 0) {
                struct pollfd p = { .fd = CHANNEL, .events = POLLOUT };

                if (errno == EINTR)
                        continue;
                if (errno != EAGAIN || poll(&p, 1, -1) < 0)
                        exit(1);
        }
        free(text);
}

static void say_failed(long long id, const char *text)
{
        say(json_pack("{s:s, s:I, s:s}", "op", "failed", "id", (json_int_t)id, "text", text));
}

static void build_env(char *env[ENV_MAX])
{
        size_t at = 0;

        for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]); i++) {
                const char *v = getenv(environment[i]);

                if (v && asprintf(&env[at], "%s=%s", environment[i], v) > 0)
                        at++;
        }
        env[at] = NULL;
}

/* In the child: descriptors to their places, everything else closed, then the program. Returns only on failure, with errno. */
static void become(const char *path, const char *file, int *fds, size_t count, int report)
{
        char *env[ENV_MAX], *argv[] = { (char *)file, NULL };
        sigset_t none;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        sigemptyset(&none);
        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
                return;
        /* Out of the way first, so that no place is overwritten before it was read. */
        report = fcntl(report, F_DUPFD_CLOEXEC, 64 + CHAN_FDS);
        for (size_t i = 0; i < count; i++)
                if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
                        return;
        for (size_t i = 0; i < count; i++)
                if (dup2(fds[i], CHANNEL + (int)i) < 0)
                        return;
        if (report < 0 || dup2(report, CHANNEL + (int)count) < 0 || fcntl(CHANNEL + (int)count, F_SETFD, FD_CLOEXEC) < 0 ||
            close_range(CHANNEL + (unsigned)count + 1, ~0U, 0) < 0)
                return;
        build_env(env);
        sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execve(path, argv, env);
}

/* fork and exec; the child reports a failed exec through a pipe that a successful one closes. The pid, or -1 with *error. */
static pid_t start(const struct program *p, int *fds, size_t count, struct err *err)
{
        char path[PATH_MAX];
        int report[2], e = 0;
        pid_t pid;

        if (paths_program(path, p->file, err) < 0)
                return -1;
        if (pipe2(report, O_CLOEXEC) < 0)
                return err_sys(err, errno, "pipe");
        pid = fork();
        if (pid == 0) {
                become(path, p->file, fds, count, report[1]);
                e = errno;
                if (write(CHANNEL + (int)count, &e, sizeof(e)) < 0 && write(report[1], &e, sizeof(e)) < 0)
                        _exit(126);
                _exit(127);
        }
        fd_close(&report[1]);
        if (pid > 0 && read(report[0], &e, sizeof(e)) == (ssize_t)sizeof(e)) {
                waitpid(pid, NULL, 0);
                pid = err_sys(err, e, "cannot run %s", path);
        } else if (pid < 0) {
                err_sys(err, errno, "fork");
        }
        fd_close(&report[0]);
        return pid;
}

static struct child *find_child(uint64_t id)
{
        for (size_t i = 0; i < DAEMON_SPAWNED; i++)
                if (children[i].id == id)
                        return &children[i];
        return NULL;
}

static void do_spawn(struct chan_msg *msg, long long id)
{
        const char *name = chan_str(msg, "program", "");
        const struct program *p = NULL;
        struct child *free_slot = find_child(0);
        struct err err = ERR_INIT;
        pid_t pid;

        for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
                if (strcmp(programs[i].name, name) == 0)
                        p = &programs[i];
        if (!p || id <= 0 || msg->fd_count == 0) {
                say_failed(id, "no such program, or no channel for it");
                return;
        }
        if (!free_slot) {
                say_failed(id, "too many programs run");
                return;
        }
        pid = start(p, msg->fds, msg->fd_count, &err);
        if (pid < 0) {
                say_failed(id, err.text);
                return;
        }
        *free_slot = (struct child){ .id = (uint64_t)id, .pid = pid };
        log_debug("%s for %s is process %d", p->file, chan_str(msg, "label", "?"), (int)pid);
        say(json_pack("{s:s, s:I, s:i}", "op", "spawned", "id", (json_int_t)id, "pid", (int)pid));
}

static bool same_namespace(pid_t pid, const char *kind, struct err *err)
{
        char theirs[64], ours[64];
        struct stat a, b;

        snprintf(theirs, sizeof(theirs), "/proc/%d/ns/%s", (int)pid, kind);
        snprintf(ours, sizeof(ours), "/proc/self/ns/%s", kind);
        if (stat(ours, &a) < 0 || stat(theirs, &b) < 0) {
                err_sys(err, errno, "cannot see the %s namespace of process %d", kind, (int)pid);
                return false;
        }
        if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
                err_set(err, "process %d is in another %s namespace", (int)pid, kind);
        return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Alive after /proc was read, by the pidfd: then /proc spoke of this very process and not of a later one with its number. */
static bool check_peer(pid_t pid, int pidfd, struct err *err)
{
        struct pollfd p = { .fd = pidfd, .events = POLLIN };

        if (pid <= 0 || pidfd < 0) {
                err_set(err, "its process is not visible from here");
                return false;
        }
        if (!same_namespace(pid, "user", err) || !same_namespace(pid, "pid", err))
                return false;
        if (poll(&p, 1, 0) != 0) {
                err_set(err, "process %d has ended", (int)pid);
                return false;
        }
        return true;
}

static void do_peer(const struct chan_msg *msg, long long id)
{
        struct err err = ERR_INIT;
        bool ok = check_peer((pid_t)chan_int(msg, "pid", 0), msg->fd_count ? msg->fds[0] : -1, &err);

        say(json_pack("{s:s, s:I, s:b, s:s}", "op", "peer", "id", (json_int_t)id, "ok", ok, "text", err.text));
}

static void do_kill(long long id)
{
        struct child *c = id > 0 ? find_child((uint64_t)id) : NULL;

        /* Not yet reaped, so the number is still this child's. */
        if (c && kill(c->pid, SIGKILL) < 0)
                log_error("cannot kill process %d: %s", (int)c->pid, strerror(errno));
}

/* False: bromed is gone. */
static bool serve(void)
{
        struct chan_msg msg;
        struct err err = ERR_INIT;
        int rc = chan_recv(CHANNEL, &msg, &err);
        long long id;

        if (rc <= 0)
                return rc == 0;
        id = chan_int(&msg, "id", 0);
        if (strcmp(msg.op, "spawn") == 0)
                do_spawn(&msg, id);
        else if (strcmp(msg.op, "kill") == 0)
                do_kill(id);
        else if (strcmp(msg.op, "peer") == 0)
                do_peer(&msg, id);
        else
                rc = -1;
        chan_msg_fini(&msg);
        return rc > 0;
}

/* Reaps every child that ended; tells bromed when it is there to be told. */
static int64_t orphans_ms; /* when to look for what a program that ended has left; 0: nothing ended */

static void reap(bool tell)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                for (size_t i = 0; i < DAEMON_SPAWNED; i++) {
                        if (children[i].id == 0 || children[i].pid != pid)
                                continue;
                        if (tell)
                                say(json_pack("{s:s, s:I, s:i}", "op", "exited", "id", (json_int_t)children[i].id, "status", status));
                        children[i].id = 0;
                        orphans_ms = clock_mono_ms() + ORPHAN_MS;
                        break;
                }
}

/* What a dead launcher leaves comes to us: its keeper ends the guest, tidies up and goes by itself. A guest whose keeper died too (it may be frozen,
 * then it hears of nothing) is killed. Children that are not waited for yet, so their numbers are still theirs. */
static void kill_orphans(void)
{
        char path[64], text[4096], *at = text, *end; /* some 500 numbers; what is beyond them goes the next time */
        int fd;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        fd_close(&fd);
        text[n > 0 ? n : 0] = 0;
        for (long pid; (pid = strtol(at, &end, 10)) > 0 && *end == ' '; at = end) {
                bool ours = false;

                for (size_t i = 0; i < DAEMON_SPAWNED; i++)
                        ours = ours || (children[i].id && children[i].pid == pid);
                if (!ours && kill((pid_t)pid, SIGKILL) == 0)
                        log_info("process %ld, left behind by a launcher, is killed", pid);
        }
}

static bool any_child(void)
{
        for (size_t i = 0; i < DAEMON_SPAWNED; i++)
                if (children[i].id)
                        return true;
        return false;
}

static void drain_signals(int fd)
{
        struct signalfd_siginfo info;

        while (read(fd, &info, sizeof(info)) > 0)
                ;
}

/* bromed is gone: its programs see the end of their channels; who does not end by that is killed. */
static void end_all(int signals)
{
        int64_t deadline = clock_mono_ms() + ORPHAN_MS;

        for (;;) {
                struct pollfd p = { .fd = signals, .events = POLLIN };
                int64_t left = deadline - clock_mono_ms();

                reap(false);
                if (!any_child() || left <= 0)
                        break;
                if (poll(&p, 1, (int)left) > 0)
                        drain_signals(signals);
        }
        for (size_t i = 0; i < DAEMON_SPAWNED; i++)
                if (children[i].id)
                        kill(children[i].pid, SIGKILL);
        kill_orphans();
}

static int open_signals(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        /* bromed decides when a session ends; a terminal's ^C reaches bromed alone. */
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
        return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -1 : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(void)
{
        int signals;

        log_init("brome-spawn", NULL);
        setsid();
        signals = open_signals();
        /* No seal of its own: whatever it gave up, brome-launch could not have. Not dumpable, so that nobody of the same user steers it. */
        if (signals < 0 || fd_cloexec(CHANNEL, true) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
                log_error("not started by bromed");
                return 1;
        }
        for (;;) {
                struct pollfd p[2] = { { .fd = CHANNEL, .events = POLLIN }, { .fd = signals, .events = POLLIN } };

                if (poll(p, 2, orphans_ms ? ORPHAN_MS : -1) < 0 && errno != EINTR)
                        return 1;
                if (orphans_ms && clock_mono_ms() >= orphans_ms) {
                        orphans_ms = 0;
                        kill_orphans();
                }
                if (p[1].revents) {
                        drain_signals(signals);
                        reap(true);
                }
                if (p[0].revents && !serve())
                        break;
        }
        end_all(signals);
        return 0;
}
