/* The keeper: see keeper.h. */
#include "launch/keeper.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/seal.h"
#include "launch/nft.h"
#include "launch/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNAL_ROUNDS = 200 }; /* a fork bomb of 4,096 is caught in a few: each round stops all that it saw */

struct hands {
        int channel, switch_fd, guest_pidfd, proc;
        struct cgroup *groups;
        ino_t pid_namespace;
        uint32_t base; /* the guest's id 0 as it is seen here */
};

/* Without control groups: a signal to every process of the guest's pid namespace, until a round meets none that is not yet stopped. */
static bool in_namespace(const struct hands *h, const char *pid)
{
        char path[64];
        struct stat st;

        place(path, sizeof(path), "%s/ns/pid", pid);
        return fstatat(h->proc, path, &st, 0) == 0 && st.st_ino == h->pid_namespace;
}

static bool is_stopped(const struct hands *h, const char *pid)
{
        char path[64], text[512], *end;
        int fd;
        ssize_t n;

        place(path, sizeof(path), "%s/stat", pid);
        fd = openat(h->proc, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        fd_close(&fd);
        if (n <= 0)
                return true;
        text[n] = 0;
        end = strrchr(text, ')');
        return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't' || end[2] == 'Z' || end[2] == 'X');
}

static int signal_round(const struct hands *h, int sig)
{
        int copy = openat(h->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sent = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        const struct dirent *e;

        if (!dir) {
                fd_close(&copy);
                return -1;
        }
        while ((e = readdir(dir))) {
                char *end;
                long pid = strtol(e->d_name, &end, 10);
                if (pid <= 0 || *end || !in_namespace(h, e->d_name) || (sig == SIGSTOP && is_stopped(h, e->d_name)))
                        continue;
                if (kill((pid_t)pid, sig) == 0)
                        sent++;
        }
        closedir(dir);
        return sent;
}

static bool signal_all(const struct hands *h, int sig)
{
        if (sig == SIGCONT)
                return signal_round(h, sig) >= 0;
        for (int i = 0; i < SIGNAL_ROUNDS; i++) {
                int sent = signal_round(h, sig);
                if (sent <= 0)
                        return sent == 0;
        }
        return false;
}

/* ---- what runs ---- */

/* A file of one process, what of it fits. Length, or -1. */
static ssize_t read_of(const struct hands *h, const char *pid, const char *name, char *text, size_t size)
{
        char path[64];
        ssize_t n;
        int fd;

        place(path, sizeof(path), "%s/%s", pid, name);
        fd = openat(h->proc, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, size - 1);
        fd_close(&fd);
        text[n > 0 ? n : 0] = 0;
        return n;
}

/* The number behind "Name:" in proc_pid_status(5), or -1. */
static long number_in(const char *status, const char *name)
{
        const char *at = strstr(status, name);

        return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* SECURITY: names and command lines are the guest's words, made printable here; one that is long is cut. */
static void add_process(const struct hands *h, const char *pid, char *list, size_t *used)
{
        char status[2048], command[512], shown[1024];
        ssize_t n;
        int added;

        if (read_of(h, pid, "status", status, sizeof(status)) <= 0)
                return;
        n = read_of(h, pid, "cmdline", command, sizeof(command));
        if (n <= 0) /* a zombie, or one that has written over it */
                n = snprintf(command, sizeof(command), "[%.*s]", (int)strcspn(status + strlen("Name:\t"), "\n"), status + strlen("Name:\t"));
        for (ssize_t i = 0; i < n; i++)
                if (command[i] == 0)
                        command[i] = ' ';
        esc_text(shown, sizeof(shown), slice_of(command, (size_t)n));
        added = snprintf(list + *used, KEEPER_LIST_BYTES + 1 - *used, "%s parent %ld user %ld: %s\n", pid, number_in(status, "\nPPid:"),
                         number_in(status, "\nUid:") - (long)h->base, shown);
        if (added > 0 && (size_t)added <= KEEPER_LIST_BYTES - *used)
                *used += (size_t)added;
        else
                list[*used] = 0;
}

static bool tell_processes(const struct hands *h)
{
        static char list[KEEPER_LIST_BYTES + 1];
        int copy = openat(h->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        const struct dirent *e;
        size_t used = 0;

        if (!dir) {
                fd_close(&copy);
                return false;
        }
        while ((e = readdir(dir))) {
                char *end;
                if (strtol(e->d_name, &end, 10) > 0 && !*end && in_namespace(h, e->d_name))
                        add_process(h, e->d_name, list, &used);
        }
        closedir(dir);
        return used && write(h->channel, list, used) == (ssize_t)used;
}

static bool kill_guest(const struct hands *h)
{
        (void)cgroup_kill(h->groups);
        cgroup_freeze(h->groups, false); /* a v1 freezer holds even the dead */
        return syscall(SYS_pidfd_send_signal, h->guest_pidfd, SIGKILL, NULL, 0) == 0 || errno == ESRCH;
}

static bool obey(const struct hands *h, char order)
{
        switch (order) {
        case KEEPER_OPEN:
                return nft_switch(h->switch_fd, true) == 0;
        case KEEPER_SHUT:
                return nft_switch(h->switch_fd, false) == 0;
        case KEEPER_FREEZE:
                return cgroup_freeze(h->groups, true) || signal_all(h, SIGSTOP);
        case KEEPER_THAW:
                return cgroup_freeze(h->groups, false) || signal_all(h, SIGCONT);
        case KEEPER_KILL:
                return kill_guest(h);
        default:
                return false;
        }
}

static const int keeper_caps[] = {
        CAP_NET_ADMIN,       /* the gate's switch */
        CAP_KILL,            /* the guest's processes belong to other ids */
        CAP_SYS_PTRACE,      /* which pid namespace a process is in, and what it runs */
        CAP_DAC_OVERRIDE,    /* removing its control groups */
};
static const struct seal_call keeper_calls[] = {
        SEAL_CALL_ARG(kill, 1, 0xffffffffu, SIGSTOP, "freezing without control groups"),
        SEAL_CALL_ARG(kill, 1, 0xffffffffu, SIGCONT, "thawing"),
        SEAL_CALL(getdents64, "the list of processes"),
        SEAL_CALL(openat, "the same; their command lines"),
        SEAL_CALL(unlinkat, "removing the control groups"),
        SEAL_CALL(rmdir, "the same"),
        SEAL_CALL(clock_nanosleep, "waiting for them to empty"),
        SEAL_CALL(nanosleep, "the same"),
};

/* Of all processes that it could kill, as root every one of the host, it may kill the guest's. */
static int seal_hands(const struct hands *h, struct err *err)
{
        struct seal_call calls[1 + sizeof(keeper_calls) / sizeof(keeper_calls[0])];

        calls[0] = (struct seal_call)SEAL_CALL_ARG(pidfd_send_signal, 0, 0xffffffffu, (uint64_t)h->guest_pidfd, "killing the guest");
        memcpy(calls + 1, keeper_calls, sizeof(keeper_calls));
        return seal_calls(calls, sizeof(calls) / sizeof(calls[0]), err);
}

static _Noreturn void serve(struct hands *h)
{
        char order, answer;
        struct err err = ERR_INIT;

        /* Entering a user namespace made it dumpable again. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
                log_error("keeper: %s", strerror(errno));
                _exit(1);
        }
        if (seal_caps(keeper_caps, sizeof(keeper_caps) / sizeof(keeper_caps[0]), &err) < 0 || seal_hands(h, &err) < 0) {
                log_error("keeper: %s", err.text);
                _exit(1);
        }
        while (read(h->channel, &order, 1) == 1) {
                if (order == KEEPER_LIST && tell_processes(h))
                        continue;
                answer = obey(h, order) ? '+' : '-';
                if (write(h->channel, &answer, 1) != 1)
                        break;
        }
        kill_guest(h);
        cgroup_remove(h->groups);
        _exit(0);
}

static ino_t pid_namespace_of(pid_t pid)
{
        char path[64];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
        return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Descriptors that the keeper needs stay; everything else the launcher holds (bromed's channel, the guest's) must not live on in it. */
static void keep_only(int *keep, size_t count)
{
        unsigned from = 3; /* 2 is the log */

        qsort(keep, count, sizeof(keep[0]), by_value);
        for (size_t i = 0; i < count; i++) {
                if (keep[i] < (int)from)
                        continue; /* -1: not had */
                if ((unsigned)keep[i] > from)
                        syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0);
                from = (unsigned)keep[i] + 1;
        }
        syscall(SYS_close_range, from, ~0u, 0);
}

static void keeper_fds(const struct hands *h)
{
        int keep[8 + 2 * CGROUP_FOLDERS] = { h->channel, h->switch_fd, h->guest_pidfd, h->proc, h->groups->freeze_v2, h->groups->freeze_v1,
                h->groups->kill, h->groups->populated };
        size_t n = 8;

        for (size_t i = 0; i < h->groups->count; i++) {
                keep[n++] = h->groups->folders[i].dir;
                keep[n++] = h->groups->folders[i].parent;
        }
        keep_only(keep, n);
}

int keeper_start(struct keeper *k, struct cgroup *groups, pid_t guest, int guest_pidfd, uint32_t base, struct err *err)
{
        struct hands h = { .guest_pidfd = guest_pidfd, .base = base, .groups = groups, .pid_namespace = pid_namespace_of(guest) };
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_sys(err, errno, "socketpair");
        h.switch_fd = nft_open();
        h.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        h.channel = pair[1];
        if (h.switch_fd < 0 || h.proc < 0) {
                int e = errno;
                fd_close(&pair[0]);
                fd_close(&pair[1]);
                fd_close(&h.switch_fd);
                return err_sys(err, e, "the keeper's descriptors");
        }
        k->pid = fork();
        if (k->pid == 0) {
                keeper_fds(&h);
                serve(&h);
        }
        k->channel = pair[0];
        fd_close(&pair[1]);
        fd_close(&h.switch_fd);
        fd_close(&h.proc);
        return k->pid < 0 ? err_sys(err, errno, "fork") : 0;
}

int keeper_do(const struct keeper *k, enum keeper_order order)
{
        char c = (char)order, answer = 0;

        return write(k->channel, &c, 1) == 1 && read(k->channel, &answer, 1) == 1 && answer == '+' ? 0 : -1;
}

int keeper_list(const struct keeper *k, char *text)
{
        char c = KEEPER_LIST;
        ssize_t n = write(k->channel, &c, 1) == 1 ? read(k->channel, text, KEEPER_LIST_BYTES) : -1;

        text[n > 0 ? n : 0] = 0;
        return n > 1 ? 0 : -1; /* one byte: it could not */
}

void keeper_end(struct keeper *k)
{
        fd_close(&k->channel);
        if (k->pid > 0)
                while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        k->pid = -1;
}
