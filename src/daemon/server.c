/* The control socket: see server.h. A client passes three stages: its process is looked at (nothing is read from it until then), it says
 * hello, then it asks. */
#include "daemon/server.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "control/control.h"
#include "daemon/bounds.h"
#include "daemon/spawn.h"
#include "daemon/workspace.h"
#include "version.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

enum client_stage { CLIENT_FREE, CLIENT_PEER, CLIENT_HELLO, CLIENT_READY };

struct client {
        struct server *server;
        enum client_stage stage;
        uint64_t number;    /* never used again */
        uint64_t peer_id;   /* question to brome-spawn */
        unsigned waiting;   /* unanswered requests */
        bool watching;      /* gets notices */
        bool hears;         /* and is nobody to ask */
        long long watch_id; /* the request's */
        char watched[REQUEST_NAME_BYTES]; /* empty: every workspace */
        int fd;
        struct event *read, *deadline;
};

struct server {
        struct daemon *d;
        int fd;
        struct event *accept;
        uint64_t last;
        struct client clients[DAEMON_CLIENTS];
};

static struct client *find(const struct daemon *d, uint64_t number)
{
        for (size_t i = 0; number && d->server && i < DAEMON_CLIENTS; i++)
                if (d->server->clients[i].stage != CLIENT_FREE && d->server->clients[i].number == number)
                        return &d->server->clients[i];
        return NULL;
}

static void client_end(struct client *c)
{
        uint64_t number = c->number;
        struct server *s = c->server;

        if (c->read)
                event_free(c->read);
        if (c->deadline)
                event_free(c->deadline);
        fd_close(&c->fd);
        *c = (struct client){ .fd = -1 };
        command_client_gone(s->d, number);
}

/* False: the client was ended, because it does not read what it asked for. */
static bool client_send(struct client *c, json_t *body, const int *fds, size_t fd_count)
{
        if (chan_send(c->fd, body, fds, fd_count) == 0)
                return true;
        if (errno == EMSGSIZE) {
                log_error("an answer is too long for one message");
                return chan_send(c->fd, request_error(0, REQUEST_E_INTERNAL, "the answer is too long"), NULL, 0) == 0;
        }
        if (errno != EPIPE && errno != ECONNRESET)
                log_info("a client does not read its answers (%s); its connection is closed", strerror(errno));
        /* Its end is handled from the loop: the caller may be in the middle of something it owns. */
        shutdown(c->fd, SHUT_RDWR);
        return false;
}

/* Whoever asks hears that what they wrote is not what counts. */
static void say_stale(const struct daemon *d, json_t *body)
{
        char text[REGISTRY_STALE_BYTES];
        json_t *said;

        if (!registry_stale(d, text))
                return;
        said = json_string(text);
        json_object_set_new(body, "stale", said ? said : json_string(esc_str(text))); /* it may have been cut within a character */
}

void reply_send(struct daemon *d, struct reply *reply, json_t *body, const int *fds, size_t fd_count)
{
        struct client *c = find(d, reply->client);

        if (!c) {
                json_decref(body);
        } else {
                if (c->waiting)
                        c->waiting--;
                if (!body)
                        body = request_error(reply->id, REQUEST_E_INTERNAL, "an answer could not be made (out of memory, or a text that is no UTF-8)");
                json_object_set_new(body, "id", json_integer(reply->id));
                say_stale(d, body);
                client_send(c, body, fds, fd_count);
        }
        *reply = (struct reply){ 0 };
}

void reply_error(struct daemon *d, struct reply *reply, enum request_error code, const char *text)
{
        if (reply->client)
                reply_send(d, reply, request_error(reply->id, code, text), NULL, 0);
}

void reply_done(struct daemon *d, struct reply *reply)
{
        if (reply->client)
                reply_send(d, reply, request_answer("done", reply->id), NULL, 0);
}

void reply_progress(struct daemon *d, const struct reply *reply, const char *step)
{
        struct client *c = find(d, reply->client);

        if (c)
                client_send(c, json_pack("{s:s, s:I, s:s}", "op", "progress", "id", (json_int_t)reply->id, "step", step), NULL, 0);
}

bool server_watch(struct daemon *d, const struct reply *reply, const char *workspace, bool hears)
{
        struct client *c = find(d, reply->client);

        if (!c || c->watching)
                return false;
        c->watching = true;
        c->hears = hears;
        c->watch_id = reply->id;
        snprintf(c->watched, sizeof(c->watched), "%s", workspace ? workspace : "");
        return true;
}

static bool watches(const struct client *c, const char *workspace)
{
        return c->stage == CLIENT_READY && c->watching && (!c->watched[0] || strcmp(c->watched, workspace) == 0);
}

bool server_watched(const struct daemon *d, const char *workspace)
{
        for (size_t i = 0; d->server && i < DAEMON_CLIENTS; i++)
                if (watches(&d->server->clients[i], workspace) && !d->server->clients[i].hears)
                        return true;
        return false;
}

void server_notice_one(struct daemon *d, const struct reply *reply, json_t *body)
{
        struct client *c = find(d, reply->client);

        if (!c || !body) {
                json_decref(body);
                return;
        }
        json_object_set_new(body, "op", json_string("notice"));
        json_object_set_new(body, "id", json_integer(reply->id));
        client_send(c, body, NULL, 0);
}

void server_notice(struct daemon *d, const char *workspace, json_t *body)
{
        for (size_t i = 0; body && d->server && i < DAEMON_CLIENTS; i++) {
                struct client *c = &d->server->clients[i];
                json_t *copy;

                if (!watches(c, workspace) || !(copy = json_copy(body)))
                        continue;
                json_object_set_new(copy, "op", json_string("notice"));
                json_object_set_new(copy, "id", json_integer(c->watch_id));
                client_send(c, copy, NULL, 0);
        }
        json_decref(body);
}

/* Not a hello, or another version: told once, then the connection ends. */
static void refuse(struct client *c, const char *text)
{
        struct chan_msg msg;

        client_send(c, request_error(0, REQUEST_E_USAGE, text), NULL, 0);
        /* A UNIX socket that is closed with unread messages resets the other end, and the reason would be lost. */
        for (int i = 0; i < DAEMON_MESSAGES_A_TURN && chan_recv(c->fd, &msg, NULL) == 1; i++)
                chan_msg_fini(&msg);
        client_end(c);
}

static void heard_hello(struct client *c, const struct chan_msg *msg)
{
        if (strcmp(msg->op, "hello") != 0) {
                refuse(c, "say hello first");
        } else if (chan_int(msg, "version", 0) != CONTROL_VERSION) {
                char text[160];

                snprintf(text, sizeof(text), "bromed %s of another version runs; restart it with 'brome daemon restart' (running sessions end)", BROME_VERSION);
                refuse(c, text);
        } else {
                c->stage = CLIENT_READY;
                event_free(c->deadline);
                c->deadline = NULL;
                client_send(c, json_pack("{s:s, s:i, s:s, s:i, s:s}", "op", "hello", "version", CONTROL_VERSION, "build", BROME_VERSION, "pid",
                                         (int)getpid(), "config", c->server->d->paths.config), NULL, 0);
        }
}

static void heard_request(struct client *c, struct chan_msg *msg)
{
        struct daemon *d = c->server->d;
        struct request r;
        struct err err = ERR_INIT;
        int rc = request_parse(&r, msg, &err);
        struct reply reply = { c->number, r.id };

        if (c->waiting >= DAEMON_CLIENT_REQUESTS) {
                client_send(c, request_error(r.id, REQUEST_E_STATE, "too many unanswered requests on this connection"), NULL, 0);
                return;
        }
        c->waiting++;
        if (rc < 0)
                reply_error(d, &reply, REQUEST_E_USAGE, err.text);
        else
                command_run(d, &r, msg, reply);
}

static void on_read(evutil_socket_t fd, short what, void *ctx)
{
        struct client *c = ctx;
        uint64_t number = c->number;

        (void)what;
        for (int i = 0; i < DAEMON_MESSAGES_A_TURN && c->number == number && c->stage != CLIENT_FREE; i++) {
                struct chan_msg msg;
                struct err err = ERR_INIT;
                int rc = chan_recv(fd, &msg, &err);

                if (rc == 0)
                        return;
                if (rc < 0) {
                        if (strcmp(err.text, "closed") != 0)
                                log_info("a client is disconnected: %s", err.text);
                        client_end(c);
                        return;
                }
                if (c->stage == CLIENT_HELLO)
                        heard_hello(c, &msg);
                else
                        heard_request(c, &msg);
                chan_msg_fini(&msg);
        }
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
        (void)fd;
        (void)what;
        client_end(ctx);
}

void server_peer(struct daemon *d, uint64_t id, const char *refusal)
{
        for (size_t i = 0; d->server && i < DAEMON_CLIENTS; i++) {
                struct client *c = &d->server->clients[i];

                if (c->stage != CLIENT_PEER || c->peer_id != id)
                        continue;
                if (refusal) {
                        char text[256];

                        log_error("a client is refused: %s", refusal);
                        snprintf(text, sizeof(text), "refused: %.180s; bromed serves its own user from outside every workspace only", refusal);
                        refuse(c, text);
                        return;
                }
                c->stage = CLIENT_HELLO;
                if (event_add(c->read, NULL) < 0)
                        client_end(c);
                return;
        }
}

/* SECURITY: who connected, at the time it connected. The pidfd pins that process while brome-spawn reads its namespaces. */
static bool ask_peer(struct client *c)
{
        struct ucred cred = { 0 };
        socklen_t len = sizeof(cred), pid_len = sizeof(int);
        int pidfd = -1;

        if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid()) {
                log_error("a client is refused: it runs as user %d", (int)cred.uid);
                return false;
        }
        if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pid_len) < 0)
                pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
        if (pidfd >= 0)
                c->peer_id = spawn_peer(c->server->d->spawn, cred.pid, pidfd);
        else
                log_error("a client is refused: its process %d is not visible from here", (int)cred.pid);
        fd_close(&pidfd);
        return c->peer_id != 0;
}

static void client_new(struct server *s, int fd)
{
        struct timeval t = { .tv_sec = DAEMON_HELLO_MS / 1000 };
        struct client *c = NULL;
        int size = 4 * CHAN_MESSAGE_BYTES;

        for (size_t i = 0; !c && i < DAEMON_CLIENTS; i++)
                if (s->clients[i].stage == CLIENT_FREE)
                        c = &s->clients[i];
        if (!c || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0) {
                if (!c && chan_send(fd, request_error(0, REQUEST_E_STATE, "too many connections to bromed; end some commands"), NULL, 0) < 0)
                        log_debug("a refused client does not read");
                close(fd);
                return;
        }
        *c = (struct client){ .server = s, .stage = CLIENT_PEER, .number = ++s->last, .fd = fd };
        c->read = event_new(s->d->base, fd, EV_READ | EV_PERSIST, on_read, c);
        c->deadline = event_new(s->d->base, -1, 0, on_deadline, c);
        if (!c->read || !c->deadline || event_add(c->deadline, &t) < 0 || !ask_peer(c))
                client_end(c);
}

static void on_accept(evutil_socket_t listener, short what, void *ctx)
{
        (void)what;
        for (int i = 0; i < DAEMON_MESSAGES_A_TURN; i++) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0)
                        return;
                client_new(ctx, fd);
        }
}

struct server *server_open(struct daemon *d, struct err *err)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        struct server *s = calloc(1, sizeof(*s));

        if (!s) {
                err_set(err, "out of memory");
                return NULL;
        }
        s->d = d;
        snprintf(sa.sun_path, sizeof(sa.sun_path), "%.*s/bromed.sock", (int)sizeof(sa.sun_path) - 16, d->paths.runtime);
        for (size_t i = 0; i < DAEMON_CLIENTS; i++)
                s->clients[i].fd = -1;
        s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->fd < 0 || (unlink(sa.sun_path) < 0 && errno != ENOENT) || bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
            chmod(sa.sun_path, 0600) < 0 || listen(s->fd, DAEMON_CLIENTS) < 0) {
                err_sys(err, errno, "%s", sa.sun_path);
                server_close(s);
                return NULL;
        }
        s->accept = event_new(d->base, s->fd, EV_READ | EV_PERSIST, on_accept, s);
        if (!s->accept || event_add(s->accept, NULL) < 0) {
                err_set(err, "out of memory");
                server_close(s);
                return NULL;
        }
        return s;
}

void server_close(struct server *s)
{
        if (!s)
                return;
        for (size_t i = 0; i < DAEMON_CLIENTS; i++)
                if (s->clients[i].stage != CLIENT_FREE)
                        client_end(&s->clients[i]);
        if (s->accept)
                event_free(s->accept);
        fd_close(&s->fd);
        free(s);
}
