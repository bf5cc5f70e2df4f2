/* Dialling: see dial.h. */
#include "outer/dial.h"

#include "base/fd.h"
#include "outer/limits.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

struct attempt {
        struct dial *dial;
        int fd;
        struct event *event;
        struct addr to;
};

struct dial {
        struct event_base *base;
        struct event *timer;
        struct attempt attempt[DIAL_ADDRS_MAX];
        size_t count, started, pending;
        uint16_t port;
        int last_errno;
        dial_fn done;
        void *ctx;
};

void dial_interleave(struct addr *addrs, size_t count)
{
        struct addr sorted[RESOLVE_ADDRS_MAX];
        size_t n = 0, six = 0, four = 0;

        if (count > RESOLVE_ADDRS_MAX)
                count = RESOLVE_ADDRS_MAX;
        while (n < count) {
                while (six < count && addr_is_v4(&addrs[six]))
                        six++;
                if (six < count)
                        sorted[n++] = addrs[six++];
                while (four < count && !addr_is_v4(&addrs[four]))
                        four++;
                if (four < count)
                        sorted[n++] = addrs[four++];
        }
        memcpy(addrs, sorted, count * sizeof(*addrs));
}

void dial_cancel(struct dial *d)
{
        for (size_t i = 0; i < d->started; i++) {
                if (d->attempt[i].event)
                        event_free(d->attempt[i].event);
                fd_close(&d->attempt[i].fd);
        }
        event_free(d->timer);
        free(d);
}

static void dial_finish(struct dial *d, struct attempt *winner)
{
        struct addr to = winner ? winner->to : (struct addr){ 0 };
        int fd = winner ? winner->fd : -1, e = d->last_errno;
        dial_fn done = d->done;
        void *ctx = d->ctx;

        if (winner)
                winner->fd = -1;
        dial_cancel(d);
        done(ctx, fd, &to, e);
}

static void on_connected(evutil_socket_t fd, short what, void *arg);

static int attempt_open(struct attempt *a)
{
        struct sockaddr_storage ss;
        socklen_t n = addr_to_sockaddr(&ss, &a->to, a->dial->port, false);
        int one = 1;

        a->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (a->fd < 0)
                return -1;
        /* One missing TCP_NODELAY costs 40 ms for the first answer. */
        if (setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 || setsockopt(a->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) < 0)
                return -1;
        if (connect(a->fd, (struct sockaddr *)&ss, n) < 0 && errno != EINPROGRESS)
                return -1;
        a->event = event_new(a->dial->base, a->fd, EV_WRITE, on_connected, a);
        if (!a->event) {
                errno = ENOMEM;
                return -1;
        }
        event_add(a->event, NULL);
        return 0;
}

/* Starts the next address; one that fails at once is passed over. False when nothing is left and nothing pends. */
static bool dial_next(struct dial *d)
{
        static const struct timeval stagger = { 0, DIAL_STAGGER_MS * 1000 };

        while (d->started < d->count) {
                struct attempt *a = &d->attempt[d->started++];

                if (attempt_open(a) == 0) {
                        d->pending++;
                        if (d->started < d->count)
                                event_add(d->timer, &stagger);
                        return true;
                }
                d->last_errno = errno;
                fd_close(&a->fd);
        }
        return d->pending > 0;
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
        struct attempt *a = arg;
        struct dial *d = a->dial;
        int e = 0;
        socklen_t n = sizeof(e);

        (void)what;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0)
                e = errno;
        if (e == 0) {
                dial_finish(d, a);
                return;
        }
        d->last_errno = e;
        event_free(a->event);
        a->event = NULL;
        fd_close(&a->fd);
        d->pending--;
        if (!dial_next(d))
                dial_finish(d, NULL);
}

static void on_stagger(evutil_socket_t fd, short what, void *arg)
{
        struct dial *d = arg;

        (void)fd;
        (void)what;
        if (!dial_next(d))
                dial_finish(d, NULL);
}

struct dial *dial_start(struct event_base *base, const struct addr *addrs, size_t count, uint16_t port, dial_fn done, void *ctx)
{
        static const struct timeval now = { 0, 0 };
        struct dial *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        d->timer = event_new(base, -1, 0, on_stagger, d);
        if (!d->timer) {
                free(d);
                return NULL;
        }
        d->base = base;
        d->port = port;
        d->done = done;
        d->ctx = ctx;
        d->last_errno = EHOSTUNREACH;
        d->count = count < DIAL_ADDRS_MAX ? count : DIAL_ADDRS_MAX;
        for (size_t i = 0; i < d->count; i++)
                d->attempt[i] = (struct attempt){ .dial = d, .fd = -1, .to = addrs[i] };
        /* An error at once must not call back from in here. */
        if (!dial_next(d))
                event_add(d->timer, &now);
        return d;
}
