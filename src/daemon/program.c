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
#include <stdio.h>
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

bool program_send(struct program *p, json_t *body, const int *fds, size_t fd_count)
{
        char why[128];

        if (p->fd < 0) {
                json_decref(body);
                return false;
        }
        if (chan_send(p->fd, body, fds, fd_count) == 0)
                return true;
        snprintf(why, sizeof(why), "it does not take messages: %s", strerror(errno));
        if (p->lost) {
                program_hang_up(p);
                p->lost(p, why);
        } else {
                session_fail(p->session->ws, "%s: %s", p->call, why);
        }
        return false;
}

void program_hang_up(struct program *p)
{
        if (p->read)
                event_free(p->read);
        p->read = NULL;
        fd_close(&p->fd);
}
