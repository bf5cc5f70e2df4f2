/* The outbox: records to bromed, gathered and written (docs/CONTROL.md, "events"). See outbox.h. */
#include "inner/outbox.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <sys/socket.h>

struct outbox {
        struct door *door;
        int fd;
        struct buf out;
        struct event timer, writable;
        bool timed, waiting;
};

static void flush(struct outbox *e)
{
        while (e->fd >= 0 && buf_len(&e->out)) {
                ssize_t n = send(e->fd, buf_slice(&e->out).p, buf_len(&e->out), MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        break;
                if (n < 0) {
                        /* SECURITY: nobody records any more, so nothing more may pass. */
                        log_error("bromed does not take records: %s", strerror(errno));
                        fd_close(&e->fd);
                        e->door->quit = true;
                        return;
                }
                buf_consume(&e->out, (size_t)n);
        }
        if ((buf_len(&e->out) != 0) != e->waiting) {
                e->waiting = !e->waiting;
                if ((e->waiting ? event_add(&e->writable, NULL) : event_del(&e->writable)) < 0)
                        e->door->quit = true;
        }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
        struct outbox *e = arg;

        (void)fd, (void)what;
        e->timed = false;
        flush(e);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
        (void)fd, (void)what;
        flush(arg);
}

struct outbox *outbox_open(struct door *d, int fd)
{
        struct outbox *e = calloc(1, sizeof(*e));

        if (!e)
                return NULL;
        e->door = d;
        e->fd = fd;
        buf_init(&e->out, EVENTS_MAX_BYTES);
        if (event_assign(&e->timer, d->base, -1, 0, on_timer, e) < 0 ||
            event_assign(&e->writable, d->base, fd, EV_WRITE | EV_PERSIST, on_writable, e) < 0) {
                free(e);
                return NULL;
        }
        return e;
}

void outbox_close(struct outbox *e)
{
        if (!e)
                return;
        flush(e);
        event_del(&e->timer);
        event_del(&e->writable);
        fd_close(&e->fd);
        buf_fini(&e->out);
        free(e);
}

void outbox_flush(struct outbox *e) { flush(e); }

bool outbox_stalled(const struct outbox *e) { return buf_len(&e->out) > EVENTS_HIGH_BYTES; }

struct buf *outbox_buf(struct outbox *e) { return &e->out; }

void outbox_added(struct outbox *e, bool ok)
{
        static const struct timeval delay = { 0, EVENTS_DELAY_MS * 1000 };

        if (!ok) {
                /* SECURITY: a record that cannot be kept ends the door, and with it the way out. */
                log_error("records pile up: ending");
                e->door->quit = true;
                return;
        }
        if (e->fd >= 0 && !e->timed && !e->waiting) {
                e->timed = true;
                if (event_add(&e->timer, &delay) < 0)
                        e->door->quit = true;
        }
}
