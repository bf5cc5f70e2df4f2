/* The guest's first process: see child.h. */
#include "launch/child.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/paths.h"
#include "launch/guestseal.h"
#include "guest/homefiles.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        SYNC_FD = 4,
        PROGRAM_FD = 5,
        PROGRAM_BYTES = 16 * 1024 * 1024,
        BUILD_MS = 20 * 1000,                /* a cold disk; a tree that takes longer hangs */
        OPEN_FILES = 65536,                  /* per process; descriptors of dead workspaces count for nobody else */
};

struct inside {
        const struct child_job *job;
        int sync, channel, program;
        char notes[HOMEFILES_NOTES_BYTES];
};

/* 0, 1 and 2. Not the launcher's log: what a guest prints is no line of ours. */
static int shut_descriptors(int errors, struct err *err)
{
        int null = open("/dev/null", O_RDWR);

        for (int fd = 0; null >= 0 && fd <= 2; fd++)
                if (dup2(fd == 2 && errors >= 0 ? errors : null, fd) < 0)
                        return err_sys(err, errno, "descriptors");
        return null < 0 ? err_sys(err, errno, "descriptors") : 0;
}

/* Moves all to their places above everything else first, so that none is overwritten by another's move. */
static int place_descriptors(struct inside *in, struct err *err)
{
        enum { FIRST_HIGH_FD = 100, FIXED = 3 };
        const struct child_job *job = in->job;
        int from[FIXED + CHILD_FDS] = { in->channel, in->sync, in->program }, to[FIXED + CHILD_FDS] = { CHILD_CHANNEL_FD, SYNC_FD, PROGRAM_FD };
        size_t n = FIXED;

        for (size_t i = 0; i < job->fd_count; i++, n++) {
                from[n] = job->fds[i];
                to[n] = CHILD_FIRST_FD + (int)i;
        }
        for (size_t i = 0; i < n; i++)
                if (from[i] >= 0 && (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FIRST_HIGH_FD)) < 0)
                        return err_sys(err, errno, "descriptors");
        if (shut_descriptors(job->fd_count ? from[FIXED] : -1, err) < 0)
                return -1;
        for (size_t i = 0; i < n; i++)
                if (from[i] >= 0 && (dup3(from[i], to[i], O_CLOEXEC) < 0 || ((to[i] == CHILD_CHANNEL_FD || i >= FIXED) && fcntl(to[i], F_SETFD, 0) < 0)))
                        return err_sys(err, errno, "descriptors");
        if (syscall(SYS_close_range, CHILD_FIRST_FD + (int)job->fd_count, ~0u, 0) < 0)
                return err_sys(err, errno, "descriptors");
        in->channel = CHILD_CHANNEL_FD;
        in->sync = SYNC_FD;
        in->program = PROGRAM_FD;
        return 0;
}

static int become_guest_root(const struct ids *ids, struct err *err)
{
        if (setns(ids->userns, CLONE_NEWUSER) < 0)
                return err_sys(err, errno, "cannot enter the guest's user namespace");
        /* An ordinary user keeps the supplementary groups: dropping them could open what a group is denied, so the kernel forbids it. */
        if (ids->root && setgroups(0, NULL) < 0)
                return err_sys(err, errno, "cannot drop groups");
        if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
                return err_sys(err, errno, "cannot become the guest's root");
        /* After the last change of ids, which clears it. Good only while the launcher has the right to signal us: once it is sealed, the keeper ends us. */
        return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? err_sys(err, errno, "prctl") : 0;
}

static int limits(struct err *err)
{
        struct rlimit files = { 1024, OPEN_FILES }, core; /* 1, not 0, where it can be had: see core(5) on pipes, and guestseal.c */

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || getrlimit(RLIMIT_CORE, &core) < 0)
                return err_sys(err, errno, "limits");
        if (files.rlim_max > OPEN_FILES)
                files.rlim_max = OPEN_FILES;
        files.rlim_cur = files.rlim_max;
        core.rlim_cur = core.rlim_max = core.rlim_max > 1 ? 1 : core.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
                return err_sys(err, errno, "limits");
        return 0;
}

/* As the guest's root, in the guest's root folder: see homefiles.h. The home was opened before any share lay over it. */
static void fill_home(struct inside *in, int *home)
{
        if (*home >= 0)
                homefiles_write(*home, in->job->plan->accounts, in->job->plan->account_count, in->notes);
        fd_close(home);
}

static int build(struct inside *in, struct err *err)
{
        const struct child_job *job = in->job;
        int home = job->machine ? -1 : open(job->plan->home, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (home < 0 && !job->machine)
                return err_sys(err, errno, "%s", job->plan->home);
        /* Everything between here and the guest's root stands in a namespace that has only the link to the gateway. */
        if (setns(job->netns, CLONE_NEWNET) < 0)
                return err_sys(err, errno, "cannot enter the guest's network namespace");
        if (cgroup_enter(job->groups, job->plan, err) < 0)
                return -1;
        if (unshare(CLONE_NEWCGROUP) < 0)
                return err_sys(err, errno, "cannot make a cgroup namespace");
        if (sethostname(job->plan->hostname, strlen(job->plan->hostname)) < 0)
                return err_sys(err, errno, "hostname");
        if (setsid() < 0)
                return err_sys(err, errno, "setsid");
        if (job->enter(job->root, err) < 0 || limits(err) < 0 || become_guest_root(job->ids, err) < 0)
                return -1;
        fill_home(in, &home);
        return place_descriptors(in, err);
}

static _Noreturn void fail(int sync, const struct err *err)
{
        (void)!write(sync, err->text, strlen(err->text));
        _exit(1);
}

/* Returns only when it could not. */
static void execute(const struct inside *in, struct err *err)
{
        static char *const argv[] = { (char *)"brome-guest", NULL };
        static char *const env[] = { (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL };
        const struct child_job *job = in->job;

        if (job->program) {
                execve(job->program, job->argv, env);
                err_sys(err, errno, "cannot start %s", job->program);
                return;
        }
        syscall(SYS_execveat, in->program, "", argv, env, AT_EMPTY_PATH);
        err_sys(err, errno, "cannot start brome-guest (is vm.memfd_noexec set?)");
}

static _Noreturn void inside(struct inside *in)
{
        struct sigaction usual = { .sa_handler = SIG_DFL };
        char go, report[HOMEFILES_NOTES_BYTES + 2];
        struct err err = ERR_INIT;
        int n;

        sigaction(SIGPIPE, &usual, NULL);
        if (build(in, &err) < 0)
                fail(in->sync, &err);
        n = snprintf(report, sizeof(report), "+%s", in->notes);
        /* One byte from the launcher; its end of file means that it is gone. */
        if (write(in->sync, report, (size_t)n) != n || read(in->sync, &go, 1) != 1)
                _exit(1);
        if (guestseal(in->job->machine ? GUESTSEAL_MACHINE : in->job->plan->nested ? GUESTSEAL_NESTED : GUESTSEAL_PLAIN, &err) < 0)
                fail(in->sync, &err);
        execute(in, &err);
        fail(in->sync, &err);
}

/* brome-guest as a sealed memory file: whoever can write its file later does not reach a running workspace, and the guest cannot reach the file. */
static int load_program(struct err *err)
{
        char path[PATH_MAX];
        struct buf bytes;
        int fd = -1;

        buf_init(&bytes, 0);
        if (paths_program(path, "brome-guest", err) == 0 && fd_read_file(path, &bytes, PROGRAM_BYTES, err) == 0) {
                fd = fd_memfd("brome-guest", buf_slice(&bytes).p, buf_len(&bytes));
                if (fd < 0)
                        err_sys(err, errno, "memory file");
        }
        buf_fini(&bytes);
        return fd;
}

static int clone_it(struct child *c, struct inside *in)
{
        unsigned long flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD | SIGCHLD;

        c->pid = (pid_t)syscall(SYS_clone, flags, 0, &c->pidfd, 0, 0);
        if (c->pid == 0)
                inside(in);
        if (c->pid > 0)
                fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
        return c->pid < 0 ? -1 : 0;
}

int child_start(struct child *c, const struct child_job *job, struct err *err)
{
        int sync[2] = { -1, -1 }, channel[2] = { -1, -1 }, program = -1, rc = -1;

        *c = (struct child){ .pid = -1, .pidfd = -1, .sync = -1, .channel = -1 };
        if (!job->program && (program = load_program(err)) < 0)
                return -1;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0) {
                err_sys(err, errno, "socketpair");
        } else {
                struct inside in = { job, sync[1], channel[1], program, "" };
                rc = clone_it(c, &in) < 0 ? err_sys(err, errno, "cannot make the guest's namespaces") : 0;
        }
        fd_close(&program);
        fd_close(&sync[1]);
        fd_close(&channel[1]);
        c->sync = sync[0];
        c->channel = channel[0];
        return rc;
}

/* The child's next report: "+" and notes, an error text, or (after the exec) end of file. */
static ssize_t report(const struct child *c, char *text, size_t size, struct err *err)
{
        struct pollfd pfd = { .fd = c->sync, .events = POLLIN };
        ssize_t n;

        if (poll(&pfd, 1, BUILD_MS) <= 0)
                return err_set(err, "the workspace's file system was not ready within %d s", BUILD_MS / 1000);
        n = read(c->sync, text, size - 1);
        if (n < 0)
                return err_sys(err, errno, "the guest's first process");
        text[n] = 0;
        return n;
}

static void take_notes(char *text, json_t *notes)
{
        char *line, *save = NULL;

        for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                json_array_append_new(notes, json_string(line));
}

int child_built(const struct child *c, json_t *notes, struct err *err)
{
        char text[HOMEFILES_NOTES_BYTES + sizeof(err->text)];
        ssize_t n = report(c, text, sizeof(text), err);

        if (n < 0)
                return -1;
        if (n >= 1 && text[0] == '+') {
                take_notes(text + 1, notes);
                return 0;
        }
        return err_set(err, "%s", n ? text : "the guest's first process died while it was being set up");
}

int child_go(struct child *c, struct err *err)
{
        char text[sizeof(err->text)];
        ssize_t n;

        if (write(c->sync, "g", 1) != 1)
                return err_sys(err, errno, "the guest's first process");
        n = report(c, text, sizeof(text), err);
        fd_close(&c->sync);
        if (n < 0)
                return -1;
        return n == 0 ? fd_nonblock(c->channel) : err_set(err, "%s", text);
}
