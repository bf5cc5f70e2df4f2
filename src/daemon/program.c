/* Programs of a session: see program.h. */
#include "daemon/program.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/session.h"
#include "daemon/spawn.h"
#include "daemon/workspace.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* A bounded number of messages a turn, so that no program keeps the others waiting. */
static void on_read(evutil_socket_t fd, short what, void *ctx)
{
        struct program *p = ctx;
        struct workspace *ws = p->session->ws;

        (void)fd;
        (void)what;
        for (int i = 0; i < DAEMON_MESSAGES_A_TURN && p->fd >= 0; i++) {
                struct chan_msg msg;
                struct err err = ERR_INIT;
                int rc = chan_recv(p->fd, &msg, &err);

                if (rc == 0)
                        return;
                if (rc < 0) {
                        program_hang_up(p);
                        if (p->lost)
                                p->lost(p, err.text);
                        else
                                session_lost(ws, p, err.text);
                        return;
                }
                if (!p->heard(p, &msg))
                        session_fail(ws, "%s sent a message that is not legal now (%.32s); it may have been taken over", p->call, msg.op);
                chan_msg_fini(&msg);
        }
}

void program_drain(struct program *p)
{
        struct chan_msg msg;

        for (int i = 0; i < DAEMON_DRAINED && p->fd >= 0 && chan_recv(p->fd, &msg, NULL) == 1; i++) {
                (void)!p->heard(p, &msg);
                chan_msg_fini(&msg);
        }
}

int program_start(struct daemon *d, struct program *p, const char *label)
{
        int pair[2];

        if (chan_pair(pair) < 0)
                return -1;
        p->fd = pair[0];
        p->id = spawn_program(d->spawn, p->name, label, &pair[1], 1);
        p->running = p->id != 0;
        fd_close(&pair[1]);
        p->read = event_new(d->base, p->fd, EV_READ | EV_PERSIST, on_read, p);
        if (p->running && p->read && event_priority_set(p->read, 1) == 0 && event_add(p->read, NULL) == 0)
                return 0;
        program_hang_up(p);
        return -1;
}

static bool lost(struct program *p, const char *why)
{
        if (p->lost) {
                program_hang_up(p);
                p->lost(p, why);
        } else {
                session_fail(p->session->ws, "%s does not take messages (%s)", p->call, why);
        }
        return false;
}

/* --- what waits until it reads again --- */

struct program_queued {
        struct program_queued *next;
        json_t *body;
        int fds[CHAN_FDS];
        size_t fd_count;
};

static void queued_free(struct program_queued *q)
{
        for (size_t i = 0; i < q->fd_count; i++)
                fd_close(&q->fds[i]);
        json_decref(q->body);
        free(q);
}

static void queue_drop(struct program *p)
{
        struct program_queued *q = p->queue;

        p->queue = q->next;
        if (!p->queue)
                p->queue_end = NULL;
        p->queued--;
        queued_free(q);
}

static void on_write(evutil_socket_t fd, short what, void *ctx)
{
        struct program *p = ctx;

        (void)what;
        while (p->queue) {
                if (chan_send(fd, json_incref(p->queue->body), p->queue->fds, p->queue->fd_count) == 0) {
                        queue_drop(p);
                        continue;
                }
                if (errno != EAGAIN)
                        lost(p, strerror(errno));
                return;
        }
        event_del(p->write);
}

/* Takes body; descriptors are doubled. */
static bool queue_add(struct program *p, json_t *body, const int *fds, size_t fd_count)
{
        struct program_queued *q = p->queued < DAEMON_QUEUED ? calloc(1, sizeof(*q)) : NULL;

        if (!p->write && (p->write = event_new(p->session->ws->daemon->base, p->fd, EV_WRITE | EV_PERSIST, on_write, p)))
                (void)!event_priority_set(p->write, 1);
        if (!q || !p->write || event_add(p->write, NULL) < 0) {
                json_decref(body);
                free(q);
                return lost(p, "too much waits for it");
        }
        q->body = body;
        for (; q->fd_count < fd_count; q->fd_count++)
                if ((q->fds[q->fd_count] = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3)) < 0) {
                        queued_free(q);
                        return lost(p, "no more descriptors");
                }
        *(p->queue_end ? p->queue_end : &p->queue) = q;
        p->queue_end = &q->next;
        p->queued++;
        return true;
}

bool program_send(struct program *p, json_t *body, const int *fds, size_t fd_count)
{
        if (p->fd < 0) {
                json_decref(body);
                return false;
        }
        if (p->queue)
                return queue_add(p, body, fds, fd_count);
        return chan_send(p->fd, body, fds, fd_count) == 0 || lost(p, strerror(errno));
}

bool program_post(struct program *p, json_t *body)
{
        json_t *kept;

        if (p->fd < 0 || !body || p->queue)
                return program_send(p, body, NULL, 0);
        kept = json_incref(body);
        if (chan_send(p->fd, body, NULL, 0) == 0) {
                json_decref(kept);
                return true;
        }
        if (errno == EAGAIN)
                return queue_add(p, kept, NULL, 0);
        json_decref(kept);
        return lost(p, strerror(errno));
}

void program_hang_up(struct program *p)
{
        while (p->queue)
                queue_drop(p);
        if (p->write)
                event_free(p->write);
        if (p->read)
                event_free(p->read);
        p->read = p->write = NULL;
        fd_close(&p->fd);
}
