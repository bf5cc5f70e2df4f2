/* bromed's side of brome-spawn: see spawn.h. */
#include "daemon/spawn.h"
#include "base/chan.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths.h"
#include "daemon/bounds.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spawn {
        int fd;
        struct event *read;
        const struct spawn_calls *calls;
        void *ctx;
        uint64_t last_id;
};

int spawn_launch(int *fd, struct err *err)
{
        char program[PATH_MAX];
        int pair[2];
        pid_t pid;

        if (paths_program(program, "brome-spawn", err) < 0)
                return -1;
        if (chan_pair(pair) < 0)
                return err_sys(err, errno, "socketpair");
        pid = fork();
        if (pid == 0) {
                const char *argv[] = { "brome-spawn", NULL };

                if (pair[1] == 3 ? fd_cloexec(3, false) < 0 : dup2(pair[1], 3) < 0)
                        _exit(127);
                if (close_range(4, ~0U, 0) == 0)
                        execv(program, (char *const *)argv);
                _exit(127);
        }
        fd_close(&pair[1]);
        if (pid < 0) {
                fd_close(&pair[0]);
                return err_sys(err, errno, "fork");
        }
        *fd = pair[0];
        return 0;
}

static void heard(struct spawn *s, const struct chan_msg *msg)
{
        uint64_t id = (uint64_t)chan_int(msg, "id", 0);

        if (strcmp(msg->op, "spawned") == 0)
                s->calls->started(s->ctx, id, (pid_t)chan_int(msg, "pid", 0));
        else if (strcmp(msg->op, "failed") == 0)
                s->calls->failed(s->ctx, id, chan_str(msg, "text", "failed"));
        else if (strcmp(msg->op, "exited") == 0)
                s->calls->exited(s->ctx, id, (int)chan_int(msg, "status", 0));
        else if (strcmp(msg->op, "peer") == 0)
                s->calls->peer(s->ctx, id, chan_bool(msg, "ok", false) ? NULL : chan_str(msg, "text", "refused"));
}

static void on_read(evutil_socket_t fd, short what, void *ctx)
{
        struct spawn *s = ctx;

        (void)what;
        for (int i = 0; i < DAEMON_MESSAGES_A_TURN; i++) {
                struct chan_msg msg;
                struct err err = ERR_INIT;
                int rc = chan_recv(fd, &msg, &err);

                if (rc == 0)
                        return;
                if (rc < 0) {
                        event_del(s->read);
                        s->calls->lost(s->ctx, err.text);
                        return;
                }
                heard(s, &msg);
                chan_msg_fini(&msg);
        }
}

struct spawn *spawn_new(struct event_base *base, int fd, const struct spawn_calls *calls, void *ctx)
{
        struct spawn *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        *s = (struct spawn){ .fd = fd, .calls = calls, .ctx = ctx };
        s->read = event_new(base, fd, EV_READ | EV_PERSIST, on_read, s);
        /* Before the channels: "it failed to start" says more than "its channel is closed". */
        if (!s->read || event_priority_set(s->read, 0) < 0 || event_add(s->read, NULL) < 0) {
                spawn_free(s);
                return NULL;
        }
        return s;
}

void spawn_free(struct spawn *s)
{
        if (!s)
                return;
        if (s->read)
                event_free(s->read);
        fd_close(&s->fd);
        free(s);
}

uint64_t spawn_program(struct spawn *s, const char *program, const char *label, const int *fds, size_t fd_count)
{
        uint64_t id = ++s->last_id;

        if (chan_send(s->fd, json_pack("{s:s, s:I, s:s, s:s, s:[s]}", "op", "spawn", "id", (json_int_t)id, "program", program, "label", label, "fds",
                                       "channel"), fds, fd_count) < 0) {
                log_error("brome-spawn does not take a request: %s", strerror(errno));
                return 0;
        }
        return id;
}

void spawn_kill(struct spawn *s, uint64_t id)
{
        if (chan_send(s->fd, json_pack("{s:s, s:I}", "op", "kill", "id", (json_int_t)id), NULL, 0) < 0)
                log_error("brome-spawn does not take a request: %s", strerror(errno));
}

uint64_t spawn_peer(struct spawn *s, pid_t pid, int pidfd)
{
        uint64_t id = ++s->last_id;

        return chan_send(s->fd, json_pack("{s:s, s:I, s:i, s:[s]}", "op", "peer", "id", (json_int_t)id, "pid", (int)pid, "fds", "pidfd"), &pidfd, 1) < 0
                       ? 0
                       : id;
}
