/* UDP flows and ICMP echo: one connected socket an exchange, capsules on the link (RFC 9297, RFC 9298 §5). Datagrams that the link cannot
 * take in time are dropped, as a router would. Echo goes by the kernel's ping sockets, which need no privilege where the host permits them. */
#include "outer/relay.h"

#include "base/clock.h"
#include "base/fd.h"
#include "outer/resolve.h"
#include "outer/ruleset.h"
#include "wire/capsule.h"
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ECHO_HEAD = 8, ECHO_REMEMBERED = 256, DATAGRAM_BYTES = 65536, DATAGRAMS_PER_TURN = 64 };

struct datagram {
        struct exchange *ex;
        int fd;
        uint16_t dial_port;
        struct resolve *resolve;
        struct event *start, *readable, *idle;
        bool v6;
        int64_t last_ms;
        struct { uint16_t seq, id; } echo[ECHO_REMEMBERED]; /* whose sequence number it was: the kernel puts its own identifier in */
};

static void datagram_free(struct datagram *d)
{
        if (d->resolve)
                resolve_cancel(d->resolve);
        if (d->start)
                event_free(d->start);
        if (d->readable)
                event_free(d->readable);
        if (d->idle)
                event_free(d->idle);
        fd_close(&d->fd);
        free(d);
}

static void datagram_fail(struct datagram *d, enum reason reason, const char *detail)
{
        struct exchange *ex = d->ex;

        exchange_detach(ex);
        exchange_fail(ex, reason, "%s", detail);
        datagram_free(d);
}

static void datagram_end(struct datagram *d)
{
        struct exchange *ex = d->ex;

        datagram_free(d);
        exchange_end(ex, NULL);
}

/* --- out --- */

/* A lost datagram is nobody's error: what send says is passed over. */
static void send_udp(struct datagram *d, struct slice payload) { (void)!send(d->fd, payload.p, payload.n, MSG_NOSIGNAL | MSG_DONTWAIT); }

static void send_echo(struct datagram *d, struct slice payload)
{
        static uint8_t packet[ECHO_HEAD + DATAGRAM_BYTES];
        uint16_t id, seq;

        if (payload.n < 4 || payload.n - 4 > DATAGRAM_BYTES)
                return;
        id = (uint16_t)(payload.p[0] << 8 | payload.p[1]);
        seq = (uint16_t)(payload.p[2] << 8 | payload.p[3]);
        d->echo[seq % ECHO_REMEMBERED].seq = seq;
        d->echo[seq % ECHO_REMEMBERED].id = id;
        memset(packet, 0, ECHO_HEAD);
        packet[0] = d->v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
        memcpy(packet + 4, payload.p, 4);
        memcpy(packet + ECHO_HEAD, payload.p + 4, payload.n - 4);
        (void)!send(d->fd, packet, ECHO_HEAD + payload.n - 4, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_up(struct exchange *ex)
{
        struct datagram *d = ex->upstream;
        struct capsule c;
        size_t used;
        enum wire_reason why;

        if (ex->state < EXCHANGE_ANSWERED)
                return;
        while (buf_len(&ex->up)) {
                enum wire_step step = capsule_read(buf_slice(&ex->up), &c, &used, &why);

                if (step == WIRE_BAD) {
                        datagram_fail(d, REASON_FRAMING, wire_reason_sentence(why));
                        return;
                }
                if (step == WIRE_MORE)
                        break;
                if (c.is_udp && ex->kind == KIND_UDP)
                        send_udp(d, c.payload);
                else if (c.is_udp)
                        send_echo(d, c.payload);
                exchange_took(ex, used);
                d->last_ms = clock_mono_ms();
        }
        if (ex->up_ended)
                datagram_end(d);
}

static void on_room(struct exchange *ex) { (void)ex; }
static void on_abort(struct exchange *ex) { datagram_free(ex->upstream); }
static const struct upstream_ops exchange_ops = { on_up, on_room, on_abort };

/* --- back --- */

static struct slice echo_payload(struct datagram *d, uint8_t *packet, size_t n)
{
        uint16_t seq;

        if (n < ECHO_HEAD || packet[0] != (d->v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY))
                return SLICE_EMPTY;
        seq = (uint16_t)(packet[6] << 8 | packet[7]);
        if (d->echo[seq % ECHO_REMEMBERED].seq != seq)
                return SLICE_EMPTY;
        packet[4] = (uint8_t)(d->echo[seq % ECHO_REMEMBERED].id >> 8);
        packet[5] = (uint8_t)d->echo[seq % ECHO_REMEMBERED].id;
        return slice_of(packet + 4, n - 4);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
        static uint8_t packet[DATAGRAM_BYTES];
        struct datagram *d = arg;

        (void)what;
        for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
                uint8_t head[CAPSULE_HEAD_BYTES_MAX];
                ssize_t n = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
                struct slice payload;

                if (n < 0)
                        return; /* EAGAIN, or what ICMP said of a datagram: the guest sees a loss */
                payload = d->ex->kind == KIND_UDP ? slice_of(packet, (size_t)n) : echo_payload(d, packet, (size_t)n);
                if (d->ex->kind == KIND_ICMP && payload.n == 0)
                        continue;
                d->last_ms = clock_mono_ms();
                if (buf_len(&d->ex->down) > UDP_QUEUE_BYTES)
                        continue;
                if (exchange_down(d->ex, slice_of(head, capsule_udp_head(head, payload.n))) < 0 || exchange_down(d->ex, payload) < 0)
                        return;
        }
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
        struct datagram *d = arg;

        (void)fd;
        (void)what;
        if (clock_mono_ms() - d->last_ms >= UDP_IDLE_S * 1000)
                datagram_end(d);
}

/* --- opening --- */

static int open_socket(struct datagram *d, const struct addr *to)
{
        struct sockaddr_storage ss;
        socklen_t n = addr_to_sockaddr(&ss, to, d->ex->kind == KIND_UDP ? d->dial_port : 0, false);
        int proto = d->ex->kind == KIND_UDP ? 0 : ss.ss_family == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;

        d->v6 = ss.ss_family == AF_INET6;
        d->fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, proto);
        return d->fd < 0 ? -1 : connect(d->fd, (struct sockaddr *)&ss, n);
}

static void datagram_connect(struct datagram *d, const struct addr *to)
{
        static const struct timeval idle = { UDP_IDLE_S, 0 };
        struct exchange *ex = d->ex;
        char detail[DETAIL_BYTES];

        if (open_socket(d, to) < 0) {
                if (ex->kind == KIND_ICMP && (errno == EACCES || errno == EPERM))
                        snprintf(detail, sizeof(detail), "this host does not permit ping sockets: see the setting net.ipv4.ping_group_range");
                else
                        snprintf(detail, sizeof(detail), "no socket: %s", strerror(errno));
                datagram_fail(d, REASON_UPSTREAM_CONNECT, detail);
                return;
        }
        ex->has_address = true;
        ex->address = *to;
        d->readable = event_new(ex->outer->base, d->fd, EV_READ | EV_PERSIST, on_readable, d);
        d->idle = event_new(ex->outer->base, -1, EV_PERSIST, on_idle, d);
        if (!d->readable || !d->idle) {
                datagram_fail(d, REASON_LIMIT, "out of memory");
                return;
        }
        event_add(d->readable, NULL);
        event_add(d->idle, &idle);
        d->last_ms = clock_mono_ms();
        if (exchange_open(ex) == 0)
                on_up(ex);
}

/* The first address that policy and guard admit; no racing, there is no answer to race for. */
static void choose(struct datagram *d, const struct addr *addrs, size_t count)
{
        struct exchange *ex = d->ex;
        struct decision v;

        for (size_t i = 0; i < count; i++) {
                exchange_judge(ex, &addrs[i], &v);
                if (v.allow) {
                        ex->decision = v;
                        datagram_connect(d, &addrs[i]);
                        return;
                }
        }
        (void)exchange_admit(ex, &addrs[0]); /* refuses, and lets go of us */
}

static void on_resolved(void *ctx, const struct resolve_answer *a)
{
        struct datagram *d = ctx;

        d->resolve = NULL;
        if (a->count)
                choose(d, a->addr, a->count);
        else
                datagram_fail(d, REASON_UPSTREAM_DNS, a->why);
}

static void on_start(evutil_socket_t fd, short what, void *arg)
{
        struct datagram *d = arg;
        const struct authority *to = &d->ex->req.authority;
        struct policy_host host = to->is_addr ? (struct policy_host){ 0 } : policy_host(d->ex->outer->rules->policy, to->name);
        struct resolve_answer now;
        int rc;

        (void)fd;
        (void)what;
        d->dial_port = host.port ? host.port : to->port;
        if (host.pinned || to->is_addr) {
                choose(d, host.pinned ? &host.address : &to->addr, 1);
                return;
        }
        rc = resolve_start(d->ex->outer->resolver, to->name, on_resolved, d, &now, &d->resolve);
        if (rc == 1)
                on_resolved(d, &now);
        else if (rc < 0)
                datagram_fail(d, REASON_LIMIT, "too many names are being resolved");
}

void datagram_open(struct outer *o, struct exchange *ex)
{
        struct datagram *d = calloc(1, sizeof(*d));

        if (d) {
                d->ex = ex;
                d->fd = -1;
                d->start = evtimer_new(o->base, on_start, d);
        }
        if (!d || !d->start) {
                free(d);
                exchange_fail(ex, REASON_LIMIT, "out of memory");
                return;
        }
        exchange_attach(ex, &exchange_ops, d);
        event_active(d->start, EV_TIMEOUT, 0); /* not from within the link's callback */
}
