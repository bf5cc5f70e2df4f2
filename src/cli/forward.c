/* brome forward: a server of a workspace, shown on this machine's loopback.
 *
 * The listener stands on an address of 127/8 that belongs to the workspace by its name, so that a browser keeps its cookies apart from those of other workspaces
 * and of this machine's own servers. Each connection is one stream of bromed's `forward`, joined to a connection that brome-guest makes to the loopback inside.
 * Bytes pass as they are, in both directions, under the stream's windows: who does not read stops the other. Nothing here looks at them. */
#include "cli/cli.h"
#include "attach/stream.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        FORWARD_CONNECTIONS = 64,   /* at once, half of what a workspace takes; more wait in the listener's queue */
        FORWARD_ASKED = 8,          /* of them not answered by bromed yet: half of what one client of its may ask */
        FORWARD_HIGH_PORT = 8000,   /* a port that only root may have becomes this many more: 80 is 8080 */
        PRIVILEGED_PORTS = 1024,
};

enum link_state { LINK_FREE, LINK_ASKED, LINK_OPEN };
struct link {
        enum link_state state;
        long long id;      /* of the request, while LINK_ASKED */
        int client;        /* -1: gone */
        bool client_ended; /* it sends no more */
        bool told_end;     /* it was told that no more comes */
        struct stream stream;
};

struct forward {
        struct cli *cli;
        struct control control;
        const char *workspace;
        uint16_t port;
        int listener;
        bool paused;    /* the workspace is frozen: nobody is let in */
        bool mute;      /* that nothing listens there was said */
        bool ended;
        int code;       /* to return */
        size_t asked;
        struct link links[FORWARD_CONNECTIONS];
};

/* Stable, never 127.0.0.1 and not where distributions put their own servers (127.0.0.53, 127.0.1.1). */
static uint32_t address_of(const char *workspace)
{
        uint32_t h = 2166136261u; /* FNV-1a */

        for (const char *p = workspace; *p; p++)
                h = (h ^ (uint8_t)*p) * 16777619u;
        return 127u << 24 | (64 + (h >> 26)) << 16 | (h >> 8 & 0xff) << 8 | (1 + (h & 0xff) % 254);
}

static int listen_at(uint32_t address, uint16_t port)
{
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, saved;

        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
            listen(fd, FORWARD_CONNECTIONS) == 0)
                return fd;
        saved = errno;
        fd_close(&fd);
        errno = saved;
        return -1;
}

/* Where it listens. to: 0 when no port was asked for. */
static int open_listener(struct forward *f, uint16_t to)
{
        uint32_t address = address_of(f->workspace);
        struct sockaddr_in sa = { 0 };
        socklen_t n = sizeof(sa);
        char text[INET_ADDRSTRLEN];

        f->listener = listen_at(address, to ? to : f->port);
        if (f->listener < 0 && !to && errno == EACCES && f->port < PRIVILEGED_PORTS)
                f->listener = listen_at(address, (uint16_t)(f->port + FORWARD_HIGH_PORT));
        if (f->listener < 0 && !to && errno == EADDRINUSE)
                f->listener = listen_at(address, 0);
        sa.sin_addr.s_addr = htonl(address);
        inet_ntop(AF_INET, &sa.sin_addr, text, sizeof(text));
        if (f->listener < 0)
                return cli_fail_hint(EXIT_HOST, to ? "another --to PORT, or none" : "--to PORT takes another one", "%s port %u: %s", text, to ? to : f->port, strerror(errno));
        if (getsockname(f->listener, (struct sockaddr *)&sa, &n) < 0)
                return cli_fail(EXIT_INTERNAL, "getsockname: %s", strerror(errno));
        if (f->cli->json)
                printf("{\"workspace\":\"%s\",\"port\":%u,\"address\":\"%s\",\"at\":%u}\n", f->workspace, f->port, text, ntohs(sa.sin_port));
        else
                printf("%s:%u is port %u of %s, until ^C\n", text, ntohs(sa.sin_port), f->port, f->workspace);
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_INTERNAL;
}

/* ---- one connection ---- */

static void link_free(struct link *l)
{
        fd_close(&l->client);
        if (l->state == LINK_OPEN)
                stream_close(&l->stream);
        *l = (struct link){ .client = -1 };
}

/* The client hears a reset: what it got is not whole. */
static void link_cut(struct link *l)
{
        struct linger now = { .l_onoff = 1, .l_linger = 0 };

        if (l->client >= 0)
                (void)!setsockopt(l->client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        link_free(l);
}

static void on_accept(struct forward *f)
{
        int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;

        for (size_t i = 0; fd >= 0 && i < FORWARD_CONNECTIONS; i++) {
                struct link *l = &f->links[i];

                if (l->state != LINK_FREE)
                        continue;
                (void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                *l = (struct link){ .state = LINK_ASKED, .id = ++f->control.last_id, .client = fd };
                if (chan_send(f->control.fd, json_pack("{s:s, s:I, s:s, s:i}", "op", "forward", "id", (json_int_t)l->id, "workspace", f->workspace, "port", (int)f->port), NULL, 0) < 0)
                        link_cut(l);
                else
                        f->asked++;
                return;
        }
        fd_close(&fd);
}

/* Nothing listens there, mostly: once, until somebody does. */
static void say_failed(struct forward *f, const char *why)
{
        if (!f->mute)
                cli_note("port %u of %s: %s", f->port, f->workspace, why);
        f->mute = true;
}

static void on_answer(struct forward *f, struct link *l, struct chan_msg *msg)
{
        int fd = strcmp(msg->op, "forward") == 0 ? chan_take_fd(msg, 0) : -1;

        f->asked--;
        if (fd < 0) {
                say_failed(f, esc_str(chan_str(msg, "text", "bromed gave no connection")));
                link_cut(l);
                return;
        }
        l->state = LINK_OPEN;
        stream_open(&l->stream, fd);
}

static void client_read(struct link *l)
{
        static uint8_t bytes[64 * 1024];
        size_t room = stream_room(&l->stream);
        ssize_t n = recv(l->client, bytes, room < sizeof(bytes) ? room : sizeof(bytes), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        l->client_ended = n == 0;
        if (n < 0 || stream_send(&l->stream, slice_of(bytes, (size_t)n)) < 0)
                link_cut(l);
}

static void client_write(struct link *l)
{
        struct slice out = stream_output(&l->stream, STREAM_STDOUT);
        ssize_t n = out.n ? send(l->client, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0 || stream_take(&l->stream, STREAM_STDOUT, (size_t)n) < 0) {
                link_cut(l);
                return;
        }
        if ((size_t)n == out.n && l->stream.output[STREAM_STDOUT].ended && !l->told_end) {
                l->told_end = true;
                shutdown(l->client, SHUT_WR);
        }
}

static bool client_wants_write(const struct link *l)
{
        return stream_output(&l->stream, STREAM_STDOUT).n > 0 || (l->stream.output[STREAM_STDOUT].ended && !l->told_end);
}

/* What the stream brought: sent at once, and the end of it. */
static void link_settle(struct forward *f, struct link *l)
{
        if (l->stream.started)
                f->mute = false;
        if (l->stream.failed) {
                say_failed(f, l->stream.err.text);
                link_cut(l);
        } else if (client_wants_write(l)) {
                client_write(l);
        }
        if (l->state == LINK_OPEN && l->stream.over && !client_wants_write(l)) {
                if (l->stream.status)
                        link_cut(l);
                else
                        link_free(l);
        }
}

/* ---- what bromed says ---- */

static void end(struct forward *f, int code, const char *why)
{
        cli_note("%s %s", f->workspace, why);
        f->ended = true;
        f->code = code;
}

static void on_state(struct forward *f, const char *state, const char *reason)
{
        if (strcmp(state, "frozen") == 0 && !f->paused)
                cli_note("%s is paused; `brome workspace resume %s` lets it go on", f->workspace, f->workspace);
        f->paused = strcmp(state, "frozen") == 0;
        if (strcmp(state, "compromised") == 0)
                end(f, EXIT_NO, "is compromised: `brome alerts` says what happened");
        else if (strcmp(state, "running") != 0 && !f->paused)
                end(f, EXIT_OK, *reason ? esc_str(reason) : "has ended");
}

static void on_control(struct forward *f)
{
        struct chan_msg msg;
        struct err err = ERR_INIT;
        int rc;

        while (!f->ended && (rc = chan_recv(f->control.fd, &msg, &err)) != 0) {
                if (rc < 0) {
                        end(f, EXIT_DAEMON, "is not served any more: the supervisor has ended");
                        return;
                }
                if (strcmp(msg.op, "notice") == 0 && strcmp(chan_str(&msg, "kind", ""), "state") == 0)
                        on_state(f, chan_str(&msg, "state", ""), chan_str(&msg, "reason", ""));
                for (size_t i = 0; i < FORWARD_CONNECTIONS; i++)
                        if (f->links[i].state == LINK_ASKED && f->links[i].id == chan_int(&msg, "id", 0)) {
                                on_answer(f, &f->links[i], &msg);
                                break;
                        }
                chan_msg_fini(&msg);
        }
}

/* ---- the loop ---- */

enum { POLL_LISTENER, POLL_CONTROL, POLL_LINKS };

static bool has_place(const struct forward *f)
{
        for (size_t i = 0; i < FORWARD_CONNECTIONS; i++)
                if (f->links[i].state == LINK_FREE)
                        return f->asked < FORWARD_ASKED && !f->paused;
        return false;
}

static int turn(struct forward *f)
{
        struct pollfd fds[POLL_LINKS + 2 * FORWARD_CONNECTIONS];

        fds[POLL_LISTENER] = (struct pollfd){ .fd = has_place(f) ? f->listener : -1, .events = POLLIN };
        fds[POLL_CONTROL] = (struct pollfd){ .fd = f->control.fd, .events = POLLIN };
        for (size_t i = 0; i < FORWARD_CONNECTIONS; i++) {
                struct link *l = &f->links[i];
                bool open = l->state == LINK_OPEN;
                short client = (short)(open ? (!l->client_ended && stream_room(&l->stream) ? POLLIN : 0) | (client_wants_write(l) ? POLLOUT : 0) : 0);

                fds[POLL_LINKS + 2 * i] = (struct pollfd){ .fd = client ? l->client : -1, .events = client };
                fds[POLL_LINKS + 2 * i + 1] = (struct pollfd){ .fd = open && !l->stream.over ? l->stream.fd : -1,
                        .events = (short)(open && stream_has_to_write(&l->stream) ? POLLIN | POLLOUT : POLLIN) };
        }
        if (poll(fds, POLL_LINKS + 2 * FORWARD_CONNECTIONS, -1) < 0)
                return errno == EINTR ? 0 : cli_fail(EXIT_INTERNAL, "poll: %s", strerror(errno));
        for (size_t i = 0; i < FORWARD_CONNECTIONS; i++) {
                struct link *l = &f->links[i];
                short client = fds[POLL_LINKS + 2 * i].revents, stream = fds[POLL_LINKS + 2 * i + 1].revents;

                if (l->state == LINK_OPEN && (stream & ~POLLOUT) && stream_read(&l->stream) < 0)
                        link_cut(l);
                if (l->state == LINK_OPEN && (client & POLLOUT))
                        client_write(l);
                if (l->state == LINK_OPEN && (client & ~POLLOUT) && !l->client_ended && stream_room(&l->stream))
                        client_read(l);
                if (l->state == LINK_OPEN && stream_has_to_write(&l->stream))
                        (void)!stream_write(&l->stream); /* its end is heard by reading */
                if (l->state == LINK_OPEN)
                        link_settle(f, l);
        }
        if (fds[POLL_LISTENER].revents)
                on_accept(f);
        if (fds[POLL_CONTROL].revents)
                on_control(f);
        return EXIT_OK;
}

/* Watched first, looked at then: no change of its state is missed. */
static int find(struct forward *f)
{
        struct chan_msg answer;
        const char *state;
        int rc;

        if (chan_send(f->control.fd, json_pack("{s:s, s:I, s:s, s:b}", "op", "watch", "id", (json_int_t)++f->control.last_id, "workspace", f->workspace, "hears", 1), NULL, 0) < 0)
                return cli_fail(EXIT_DAEMON, "the connection to bromed is lost");
        rc = session_call(f->cli, &f->control, "workspace.describe", json_pack("{s:s}", "workspace", f->workspace), SLICE_EMPTY, &answer);
        if (rc != EXIT_OK)
                return rc;
        state = chan_str(&answer, "state", "");
        rc = strcmp(state, "running") == 0 ? EXIT_OK : session_not_running(f->workspace, state);
        chan_msg_fini(&answer);
        return rc;
}

/* A port's number, or 0 after the usage error. */
static uint16_t port_of(struct cli *cli, const char *text)
{
        char *rest;
        unsigned long v = *text >= '0' && *text <= '9' ? strtoul(text, &rest, 10) : 0;

        if (v > 0 && v <= UINT16_MAX && *rest == 0)
                return (uint16_t)v;
        cli_usage(cli, "`%s` is no port: 1 to %d", esc_str(text), UINT16_MAX);
        return 0;
}

int cmd_forward(struct cli *cli, int argc, char **argv)
{
        static struct forward f;
        const char *to_text = NULL;
        const struct cli_option options[] = { { .name = "to", .text = &to_text } };
        int at = cli_options(cli, argc, argv, options, 1), rc;
        uint16_t to = 0;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 2)
                return cli_usage(cli, argc - at < 2 ? "which workspace, and which port of it?" : "one workspace and one port");
        if (!cli_name_ok(argv[at]))
                return cli_usage(cli, "`%s` is no workspace's name", esc_str(argv[at]));
        f = (struct forward){ .cli = cli, .workspace = argv[at], .listener = -1, .port = port_of(cli, argv[at + 1]) };
        if (f.port && to_text)
                to = port_of(cli, to_text);
        if (!f.port || (to_text && !to))
                return EXIT_USAGE_;
        for (size_t i = 0; i < FORWARD_CONNECTIONS; i++)
                f.links[i].client = -1;
        rc = session_connect(cli, &f.control, false);
        if (rc == EXIT_OK)
                rc = find(&f);
        if (rc == EXIT_OK)
                rc = open_listener(&f, to);
        while (rc == EXIT_OK && !f.ended)
                rc = turn(&f);
        for (size_t i = 0; i < FORWARD_CONNECTIONS; i++)
                link_cut(&f.links[i]);
        fd_close(&f.listener);
        control_close(&f.control);
        return rc == EXIT_OK ? f.code : rc;
}
