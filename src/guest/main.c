/* brome-guest: PID 1 of a workspace. Descriptor 3 is the channel to brome-launch (a stream socket; in a VM a virtio-serial port, which may close and come
 * back), 2 the log. It starts and reaps every process of the workspace and holds no secret and no policy: whoever takes it over has what
 * any program of the workspace has. Small and static, because it runs where nothing else may be trusted to exist.
 *
 * When the channel ends, so does the workspace: as PID 1 its exit makes the kernel kill all the rest. What a virtual machine asks besides stands behind kind.h. */
#include "base/clock.h"
#include "guest/guest.h"
#include "guest/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        CHANNEL_FD = 3,
        REAP_AT_ONCE = 256,    /* in one turn: a storm of orphans must not starve the channel */
        PORT_RETRY_MS = 100,   /* a port without a reader says "end of file" until it is opened again */
        EXIT_BROKEN = 70,
};

struct pid1 {
        struct guest guest;
        int signals;
        bool is_port;
        bool reap_more;
        int64_t port_back_ms; /* a port: do not look at it before */
        struct pollfd fds[2 + GUEST_POLL_FDS];
};

static void say(const char *text) { dprintf(STDERR_FILENO, "brome-guest: %s\n", text); }

static int set_up(struct pid1 *p)
{
        struct stat st;
        struct sigaction ignore = { .sa_handler = SIG_IGN };
        sigset_t child;
        int fd;
        while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
                ; /* 0–2 are always something */
        if (fd > STDERR_FILENO)
                close(fd);
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        if (fstat(CHANNEL_FD, &st) < 0 || fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(CHANNEL_FD, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -1;
        p->is_port = S_ISCHR(st.st_mode);
        umask(022);
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* for tests outside a pid namespace; PID 1 is one anyway */
        /* SIGCHLD only: PID 1 is deaf to whatever it neither handles nor blocks, even from root inside. */
        if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigprocmask(SIG_SETMASK, &child, NULL) < 0)
                return -1;
        p->signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
        return p->signals < 0 || guest_init(&p->guest, kind_machine()) < 0 ? -1 : 0;
}

static void reap(struct pid1 *p)
{
        struct signalfd_siginfo drop[8];
        pid_t pid;
        int status, r = 0;
        while (read(p->signals, drop, sizeof(drop)) > 0)
                ;
        int n = 0;
        while (n < REAP_AT_ONCE && (r = process_reap(&pid, &status)) == 1) {
                guest_reaped(&p->guest, pid, status);
                n++;
        }
        p->reap_more = n == REAP_AT_ONCE;
        p->guest.childless = r < 0;
}

/* Another host: forget what was under way for the one before and say hello. */
static int start_over(struct pid1 *p)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                process_signal_session(p->guest.execs[i].process.pid, SIGHUP);
        struct buf in = p->guest.in; /* what came behind a CLOSE is the new host's; nothing, when the channel is gone */
        p->guest.in = (struct buf){ 0 };
        guest_fini(&p->guest);
        int r = guest_init(&p->guest, kind_machine());
        p->guest.in = in;
        return r;
}

/* The channel is gone. A port comes back. 0, or -1: the end. */
static int channel_lost(struct pid1 *p, int64_t now_ms)
{
        if (!p->is_port)
                return -1;
        p->port_back_ms = now_ms + PORT_RETRY_MS;
        if (p->guest.phase == GUEST_FAILS) /* half set up: nothing to come back to */
                return -1;
        if (p->guest.phase == GUEST_STOPS)
                return 0;
        buf_clear(&p->guest.in);
        return start_over(p);
}

static int channel_read(struct pid1 *p)
{
        size_t room = guest_in_room(&p->guest);
        uint8_t *to = room > 0 ? buf_reserve(&p->guest.in, room) : NULL;
        if (to == NULL)
                return 0;
        ssize_t n = read(CHANNEL_FD, to, room);
        if (n > 0)
                buf_commit(&p->guest.in, (size_t)n);
        return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;
}

static int channel_write(struct pid1 *p)
{
        struct slice s = buf_slice(&p->guest.out);
        ssize_t n = write(CHANNEL_FD, s.p, s.n);
        if (n > 0)
                buf_consume(&p->guest.out, (size_t)n);
        return n >= 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static size_t watch(struct pid1 *p, int64_t now_ms, int *timeout_ms)
{
        struct guest *g = &p->guest;
        bool room = guest_in_room(g) > 0 && buf_len(&g->out) < GUEST_OUT_HIGH_BYTES;
        size_t n = guest_wants(g, p->fds + 2, now_ms, timeout_ms);
        bool away = p->port_back_ms > now_ms;
        p->fds[0] = (struct pollfd){ .fd = away ? -1 : CHANNEL_FD, .events = (short)((room ? POLLIN : 0) | (buf_len(&g->out) > 0 ? POLLOUT : 0)) };
        p->fds[1] = (struct pollfd){ .fd = p->signals, .events = POLLIN };
        if (away && (*timeout_ms < 0 || *timeout_ms > PORT_RETRY_MS))
                *timeout_ms = PORT_RETRY_MS;
        if (p->reap_more)
                *timeout_ms = 0;
        return n;
}

/* 0: go on, 1: the workspace ends. -1: it ends because something broke. */
static int turn(struct pid1 *p)
{
        int timeout_ms;
        if (p->guest.phase == GUEST_STOPS) /* there may be no child whose end would wake us */
                reap(p);
        size_t n = watch(p, clock_mono_ms(), &timeout_ms);
        if (poll(p->fds, n + 2, timeout_ms) < 0 && errno != EINTR)
                return -1;
        int64_t now_ms = clock_mono_ms();
        short ready = p->fds[0].revents;
        if (p->fds[1].revents != 0 || p->reap_more)
                reap(p);
        bool lost = (ready & POLLOUT) && channel_write(p) < 0;
        if (!lost && (ready & (POLLIN | POLLHUP | POLLERR)))
                lost = (ready & POLLIN) ? channel_read(p) < 0 : true;
        if (lost)
                return channel_lost(p, now_ms) < 0 ? 1 : 0;
        enum guest_result r = guest_turn(&p->guest, p->fds + 2, n, now_ms);
        if (r == GUEST_KNOCKED)
                return start_over(p);
        if (r == GUEST_BROKEN)
                say("the channel carried what the protocol does not allow; ending");
        return r == GUEST_GOES_ON ? 0 : r == GUEST_ENDS ? 1 : -1;
}

int main(void)
{
        static struct pid1 p;
        int r = kind_begin() < 0 ? -1 : set_up(&p);
        if (r < 0)
                say(strerror(errno));
        prctl(PR_SET_DUMPABLE, 0); /* no tracing of PID 1, no reading of its descriptors, by programs that lack the privilege */
        while (r == 0)
                r = turn(&p);
        if (!process_signal_all(SIGKILL))
                for (size_t i = 0; i < PROTO_STREAMS; i++)
                        process_signal_session(p.guest.execs[i].process.pid, SIGKILL);
        return kind_end(r < 0 ? EXIT_BROKEN : 0);
}
