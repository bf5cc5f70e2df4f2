/* Accepting: see flow.h. The original destination is the socket's own name; a synthetic address is the name that owns it. */
#include "inner/flow.h"
#include "base/clock.h"
#include "base/log.h"
#include "inner/decide.h"
#include "inner/dns.h"
#include "inner/events.h"
#include "inner/names.h"
#include "inner/outbox.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

const struct addr gateway_v4 = { .b = { [10] = 0xff, [11] = 0xff, [12] = 10, [13] = 88, [14] = 0, [15] = 1 } };
const struct addr gateway_v6 = { .b = { 0xfd, 0x62, 0x72, 0x6f, 0x6d, 0x65, [15] = 1 } };

static void set_option(int fd, int level, int option, int value)
{
        if (setsockopt(fd, level, option, &value, sizeof(value)) < 0)
                log_debug("setsockopt %d %d: %s", level, option, strerror(errno));
}

static int destination(struct door *d, int fd, struct authority *to)
{
        struct sockaddr_storage ss;
        socklen_t len = sizeof(ss);

        *to = (struct authority){ .is_addr = true };
        if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 || addr_from_sockaddr(&to->addr, &to->port, (struct sockaddr *)&ss, len) < 0)
                return -1;
        if (names_is_synthetic(&to->addr)) {
                to->name = names_owner(d->names, &to->addr);
                to->is_addr = !to->name.n;
        }
        return 0;
}

/* Refusals that need no question to the policy. */
static enum reason refused_place(struct door *d, const struct authority *to)
{
        if (d->flow_count >= FLOWS_MAX)
                return REASON_TOO_MANY_FLOWS;
        if (to->is_addr && names_is_synthetic(&to->addr))
                return REASON_ADDRESS_UNKNOWN;
        if (to->is_addr && (addr_eq(&to->addr, &gateway_v4) || addr_eq(&to->addr, &gateway_v6)))
                return REASON_ADDRESS_FORBIDDEN;
        return REASON_NONE;
}

static void refuse_fd(struct door *d, int fd, const struct authority *to, struct policy_verdict *v)
{
        struct refusal r = refusal_of(v->reason);

        events_flow(d, door_id(d), "tcp", to, FLOW_TCP, v, &r);
        conn_reset_fd(fd);
}

static const struct conn_ops closed_ops;

static struct flow *flow_new(struct door *d, int fd, const struct authority *to)
{
        struct flow *f = calloc(1, sizeof(*f));

        if (!f) {
                conn_reset_fd(fd);
                return NULL;
        }
        f->door = d;
        f->to = *to;
        f->id = door_id(d);
        arena_init(&f->arena, 2 * HELLO_BYTES_MAX);
        if (conn_open(&f->conn, d->base, fd, &closed_ops, f) < 0) {
                free(f);
                return NULL;
        }
        TAILQ_INSERT_TAIL(&d->flows, f, list);
        d->flow_count++;
        return f;
}

void flow_accept(struct door *d, int fd)
{
        struct authority to;
        struct policy_verdict v = { .action = FLOW_DENY, .rule = POLICY_DEFAULT_RULE, .max_body = -1 };
        struct flow *f;

        if (destination(d, fd, &to) < 0) {
                conn_reset_fd(fd);
                return;
        }
        if (to.port == 53 && d->flow_count < FLOWS_MAX) {
                if ((f = flow_new(d, fd, &to)))
                        dns_serve(f);
                return;
        }
        v.reason = refused_place(d, &to);
        if (v.reason == REASON_NONE)
                decide_flow(d, &to, FLOW_TCP, &v);
        if (!v.allow) {
                refuse_fd(d, fd, &to, &v);
                return;
        }
        if ((f = flow_new(d, fd, &to))) {
                f->verdict = v;
                classify_begin(f);
        }
}

static void on_listen(evutil_socket_t listener, short what, void *arg)
{
        struct door *d = arg;

        (void)what;
        for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0) {
                        if (errno == EINTR || errno == ECONNABORTED)
                                continue;
                        if (errno == EAGAIN || errno == EWOULDBLOCK)
                                return;
                        log_error("accept: %s", strerror(errno));
                        d->no_fds = true;
                        return;
                }
                flow_accept(d, fd);
        }
}

int flow_listen(struct door *d)
{
        /* What is accepted has them from the listener. */
        set_option(d->tcp, IPPROTO_TCP, TCP_NODELAY, 1);
        set_option(d->tcp, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(d->tcp, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S);
        set_option(d->tcp, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S / 4);
        d->listen_event = event_new(d->base, d->tcp, EV_READ | EV_PERSIST, on_listen, d);
        return d->listen_event ? 0 : -1;
}

/* Requests that waited, unread, while records piled up. */
static void go_on(struct door *d)
{
        struct flow *f, *next;

        for (f = TAILQ_FIRST(&d->flows); f; f = next) {
                next = TAILQ_NEXT(f, list);
                if (buf_len(&f->conn.in))
                        conn_resume(&f->conn);
        }
}

void flow_admit(struct door *d)
{
        bool stalled = outbox_stalled(d->outbox), on = d->policy && !d->no_fds && !stalled;

        if (d->stalled && !stalled)
                go_on(d);
        d->stalled = stalled;
        if (on == d->listening)
                return;
        d->listening = on;
        if ((on ? event_add(d->listen_event, NULL) : event_del(d->listen_event)) < 0)
                d->quit = true;
}

void flow_served(struct flow *f, const struct flow_server *server, void *state)
{
        f->state = FLOW_SERVED;
        f->server = server;
        f->state_of_server = state;
        f->deadline_ms = 0;
        if (f->first)
                event_free(f->first);
        f->first = NULL;
        arena_fini(&f->arena);
}

void flow_close(struct flow *f, bool reset)
{
        if (f->state == FLOW_DEAD)
                return;
        f->state = FLOW_DEAD;
        if (f->server && f->server->stop)
                f->server->stop(f);
        if (f->first)
                event_free(f->first);
        f->first = NULL;
        conn_close(&f->conn, reset);
        arena_fini(&f->arena);
        TAILQ_REMOVE(&f->door->flows, f, list);
        f->door->flow_count--;
        TAILQ_INSERT_TAIL(&f->door->dead_flows, f, list);
}

void flow_refuse(struct flow *f, const struct refusal *r)
{
        events_flow(f->door, f->id, flow_protocol(f), &f->to, FLOW_TCP, &f->verdict, r);
        flow_close(f, true);
}

static bool flow_is_spliced(const struct flow *f)
{
        return f->state == FLOW_SERVED && (!strcmp(f->server->name, "tcp") || !strcmp(f->server->name, "tls"));
}

const char *flow_protocol(const struct flow *f)
{
        return f->server ? f->server->name : f->tls ? "tls" : "tcp";
}

void flow_free_dead(struct door *d)
{
        struct flow *f;

        while ((f = TAILQ_FIRST(&d->dead_flows))) {
                TAILQ_REMOVE(&d->dead_flows, f, list);
                if (f->server && f->server->free)
                        f->server->free(f);
                free(f);
        }
}

void flow_retire(struct flow *f)
{
        if (f->state == FLOW_SERVED && f->server->retire)
                f->server->retire(f);
        else
                flow_close(f, true);
}

bool flow_fits(struct flow *f)
{
        struct policy_verdict v;
        bool inspects;

        if (!decide_again_flow(f->door, &f->to, FLOW_TCP, &v))
                return false;
        if (f->state == FLOW_NEW) { /* nothing was done on the old verdict yet */
                bool same = v.action == f->verdict.action;
                f->verdict = v;
                return same;
        }
        inspects = v.action == FLOW_INSPECT || v.action == FLOW_INSPECT_OR_SPLICE;
        f->verdict = v;
        return flow_is_spliced(f) || inspects; /* a spliced one's exchange was judged */
}

bool flow_waits(const struct flow *f) { return f->door->refuse == REASON_COMPROMISED || f->door->refuse == REASON_FROZEN; }

void flow_tick(struct door *d, int64_t now_ms)
{
        struct flow *f, *next;

        d->no_fds = false;
        for (f = TAILQ_FIRST(&d->flows); f; f = next) {
                next = TAILQ_NEXT(f, list);
                if (f->state != FLOW_SERVED)
                        classify_tick(f, now_ms);
                else if (f->server->tick)
                        f->server->tick(f, now_ms);
        }
}
