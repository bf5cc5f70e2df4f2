/* Datagrams: see gram.h. Answers leave through the gateway's raw sockets, with the address the guest wrote to as their source. */
#include "inner/gram.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "inner/decide.h"
#include "inner/dns.h"
#include "inner/events.h"
#include "inner/names.h"
#include "inner/outbox.h"
#include "inner/packet.h"
#include "inner/tripwire.h"
#include "wire/capsule.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { GRAM_BUCKETS = 256, GRAM_UP_BYTES = 256 * 1024 /* of one flow waiting for the link: more is dropped, as a queue would */,
       GRAM_CAPSULES_BYTES = 2 * CAPSULE_BYTES_MAX };

/* One pair of ends. For ICMP the port is the identifier. */
struct gram_flow {
        struct gram_flow *next;
        TAILQ_ENTRY(gram_flow) age; /* longest idle first */
        struct gram *g;
        struct addr src, dst;
        uint16_t src_port, dst_port;
        bool icmp, replied;
        int64_t last_ms;
        struct exchange *x;
        struct buf down; /* capsules not yet whole */
};

struct gram {
        struct door *d;
        struct event *udp, *icmp4, *icmp6;
        struct gram_flow *bucket[GRAM_BUCKETS];
        TAILQ_HEAD(, gram_flow) age;
        unsigned count;
};

struct ends {
        struct addr src, dst;
        uint16_t src_port, dst_port;
        bool icmp;
};

static uint8_t packet[PACKET_BYTES_MAX + 1];

/* --- sending to the guest --- */

/* With the guest's destination as our source address. Lost like any datagram when the socket does not take it. */
static void send_raw(struct door *d, bool icmp, const struct addr *from, const struct addr *to, struct slice head, struct slice data)
{
        bool v4 = addr_is_v4(to);
        struct sockaddr_storage ss;
        struct iovec iov[2] = { { (void *)(uintptr_t)head.p, head.n }, { (void *)(uintptr_t)data.p, data.n } };
        union { struct cmsghdr align; uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))]; } control = { 0 };
        struct msghdr mh = { .msg_name = &ss, .msg_namelen = addr_to_sockaddr(&ss, to, 0, !v4), .msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes };
        struct cmsghdr *c;
        int fd = icmp ? (v4 ? d->icmp4 : d->icmp6) : v4 ? d->raw4 : d->raw6;

        mh.msg_controllen = v4 ? CMSG_SPACE(sizeof(struct in_pktinfo)) : CMSG_SPACE(sizeof(struct in6_pktinfo));
        c = CMSG_FIRSTHDR(&mh);
        if (v4) {
                struct in_pktinfo info = { 0 };
                memcpy(&info.ipi_spec_dst, from->b + 12, 4);
                *c = (struct cmsghdr){ .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO, .cmsg_len = CMSG_LEN(sizeof(info)) };
                memcpy(CMSG_DATA(c), &info, sizeof(info));
        } else {
                struct in6_pktinfo info = { 0 };
                memcpy(&info.ipi6_addr, from->b, 16);
                *c = (struct cmsghdr){ .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO, .cmsg_len = CMSG_LEN(sizeof(info)) };
                memcpy(CMSG_DATA(c), &info, sizeof(info));
        }
        if (sendmsg(fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                log_debug("datagram to the guest: %s", strerror(errno));
}

static void send_udp(struct door *d, const struct ends *e, struct slice payload)
{
        uint8_t head[UDP_HEAD_BYTES];

        if (payload.n > PACKET_BYTES_MAX - UDP_HEAD_BYTES - 20)
                return;
        packet_udp_head(head, &e->dst, e->dst_port, &e->src, e->src_port, payload);
        send_raw(d, false, &e->dst, &e->src, slice_of(head, sizeof(head)), payload);
}

static void send_error(struct door *d, const struct ends *e, struct slice payload)
{
        uint8_t message[ICMP_ERROR_BYTES_MAX], inner[UDP_HEAD_BYTES];
        bool v4 = addr_is_v4(&e->src);
        size_t n;

        if (e->icmp)
                packet_echo_reply_head(inner, v4, e->src_port, 0, SLICE_EMPTY), inner[0] = v4 ? 8 : 128;
        else
                packet_udp_head(inner, &e->src, e->src_port, &e->dst, e->dst_port, payload);
        n = packet_icmp_error(message, e->icmp ? PACKET_PROHIBITED : PACKET_PORT_UNREACHABLE, &e->src, &e->dst,
                              e->icmp ? (v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) : IPPROTO_UDP, slice_of(inner, sizeof(inner)));
        send_raw(d, true, &e->dst, &e->src, slice_of(message, n), SLICE_EMPTY);
}

/* --- flows --- */

static struct gram_flow **find(struct gram *g, const struct ends *e)
{
        uint32_t h = 2166136261u ^ e->src_port ^ (uint32_t)e->dst_port << 16;
        struct gram_flow **at;

        for (int i = 0; i < 16; i++)
                h = (h ^ e->dst.b[i]) * 16777619u;
        for (at = &g->bucket[h % GRAM_BUCKETS]; *at; at = &(*at)->next)
                if ((*at)->icmp == e->icmp && (*at)->src_port == e->src_port && (*at)->dst_port == e->dst_port && addr_eq(&(*at)->dst, &e->dst) &&
                    addr_eq(&(*at)->src, &e->src))
                        break;
        return at;
}

static struct ends ends_of(const struct gram_flow *f)
{
        return (struct ends){ f->src, f->dst, f->src_port, f->dst_port, f->icmp };
}

static void flow_end(struct gram_flow *f)
{
        struct gram *g = f->g;
        struct ends e = ends_of(f);
        struct gram_flow **at = find(g, &e);
        struct exchange *x = f->x;

        MUST(*at == f);
        *at = f->next;
        TAILQ_REMOVE(&g->age, f, age);
        g->count--;
        f->x = NULL;
        if (x)
                exchange_end(x);
        buf_fini(&f->down);
        free(f);
}

static void leg_head(struct exchange *x, const struct response *r) { (void)x, (void)r; }
static void leg_room(struct exchange *x, size_t n) { (void)x, (void)n; }

static void deliver(struct gram_flow *f, struct slice payload)
{
        struct ends e = ends_of(f);

        f->replied = true;
        f->last_ms = clock_mono_ms();
        TAILQ_REMOVE(&f->g->age, f, age);
        TAILQ_INSERT_TAIL(&f->g->age, f, age);
        if (!f->icmp) {
                send_udp(f->g->d, &e, payload);
        } else if (payload.n >= 4) {
                uint8_t head[8];
                struct slice data = slice_skip(payload, 4);
                packet_echo_reply_head(head, addr_is_v4(&e.src), f->src_port, (uint16_t)(payload.p[2] << 8 | payload.p[3]), data);
                send_raw(f->g->d, true, &e.dst, &e.src, slice_of(head, sizeof(head)), data);
        }
}

static void leg_data(struct exchange *x, struct slice s)
{
        struct gram_flow *f = x->owner;
        struct capsule c;
        enum wire_reason why;
        size_t used;
        enum wire_step step = WIRE_MORE;

        exchange_passed(x, s.n);
        if (buf_add_slice(&f->down, s) < 0) {
                flow_end(f);
                return;
        }
        while (buf_len(&f->down) && (step = capsule_read(buf_slice(&f->down), &c, &used, &why)) == WIRE_DONE) {
                if (c.is_udp)
                        deliver(f, c.payload);
                buf_consume(&f->down, used);
        }
        if (step == WIRE_BAD)
                flow_end(f);
}

static void leg_end(struct exchange *x, const struct headers *trailers)
{
        (void)trailers;
        flow_end(x->owner);
}

static void leg_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        struct gram_flow *f = x->owner;
        struct ends e = ends_of(f);

        (void)reason, (void)detail;
        send_error(f->g->d, &e, SLICE_EMPTY);
        f->x = NULL;
        flow_end(f);
}

static const struct leg_ops gram_leg = { .head = leg_head, .data = leg_data, .end = leg_end, .room = leg_room, .cut = leg_cut };

static void place_of(struct door *d, const struct ends *e, struct authority *to)
{
        *to = (struct authority){ .addr = e->dst, .is_addr = true, .port = e->icmp ? 0 : e->dst_port };
        to->name = names_owner(d->names, &e->dst);
        to->is_addr = !to->name.n;
}

static void refuse(struct gram *g, const struct ends *e, const struct authority *to, struct policy_verdict *v, struct slice payload)
{
        enum reason reason = !e->icmp && e->dst_port == 443 && v->reason == REASON_DEFAULT_DENY ? REASON_UDP_443 : v->reason;
        struct refusal r = refusal_of(reason);

        events_flow(g->d, door_id(g->d), e->icmp ? "icmp" : "udp", to, e->icmp ? FLOW_ICMP : FLOW_UDP, v, &r);
        send_error(g->d, e, payload);
}

static struct gram_flow *flow_begin(struct gram *g, const struct ends *e, struct gram_flow **at, struct slice payload)
{
        struct policy_verdict v = { .action = FLOW_DENY, .rule = POLICY_DEFAULT_RULE, .max_body = -1 };
        struct authority to;
        struct gram_flow *f;

        place_of(g->d, e, &to);
        if (to.is_addr && names_is_synthetic(&to.addr))
                v.reason = REASON_ADDRESS_UNKNOWN;
        else if (g->count >= UDP_FLOWS_MAX)
                v.reason = REASON_TOO_MANY_FLOWS;
        else
                decide_flow(g->d, &to, e->icmp ? FLOW_ICMP : FLOW_UDP, &v);
        f = v.allow ? calloc(1, sizeof(*f)) : NULL;
        if (f)
                f->x = exchange_new(g->d, e->icmp ? EXCHANGE_ICMP : EXCHANGE_UDP, &gram_leg, f);
        if (!f || !f->x) {
                if (v.allow)
                        v.reason = REASON_TOO_MANY_FLOWS;
                free(f);
                refuse(g, e, &to, &v, payload);
                return NULL;
        }
        *f = (struct gram_flow){ .g = g, .src = e->src, .dst = e->dst, .src_port = e->src_port, .dst_port = e->dst_port, .icmp = e->icmp, .x = f->x };
        buf_init(&f->down, GRAM_CAPSULES_BYTES + LINK_STREAM_WINDOW);
        *at = f;
        TAILQ_INSERT_TAIL(&g->age, f, age);
        g->count++;
        f->x->to = to;
        f->x->verdict = v;
        f->x->protocol = e->icmp ? "icmp" : "udp";
        f->x->recorded = true;
        events_flow(g->d, f->x->id, f->x->protocol, &to, e->icmp ? FLOW_ICMP : FLOW_UDP, &v, NULL);
        return f;
}

static void send_capsule(struct gram_flow *f, struct slice head, struct slice payload)
{
        uint8_t capsule[CAPSULE_HEAD_BYTES_MAX];
        size_t n = capsule_udp_head(capsule, head.n + payload.n);

        if (buf_len(&f->x->up) > GRAM_UP_BYTES)
                return;
        if (exchange_send(f->x, slice_of(capsule, n)) == 0 && exchange_send(f->x, head) == 0)
                (void)!exchange_send(f->x, payload);
}

static void forward(struct gram *g, const struct ends *e, struct slice head, struct slice payload)
{
        struct gram_flow **at = find(g, e), *f = *at;
        bool fresh = !f;
        enum reason reason;

        if (!f && !(f = flow_begin(g, e, at, payload)))
                return;
        f->last_ms = clock_mono_ms();
        TAILQ_REMOVE(&g->age, f, age);
        TAILQ_INSERT_TAIL(&g->age, f, age);
        reason = tripwire_datagram(f->x, payload);
        if (reason != REASON_NONE)
                exchange_refuse(f->x, tripwire_engine(reason), reason, f->x->detail);
        else if (fresh && exchange_start(f->x) < 0)
                exchange_cut(f->x, REASON_OUTER_GONE, SLICE_EMPTY);
        else
                send_capsule(f, head, payload);
}

/* --- receiving --- */

/* The original destination of a datagram taken by TPROXY; of an ICMPv6 message that of the packet. Other ancillary data is passed over. */
static bool destination(struct msghdr *mh, struct addr *dst, uint16_t *port)
{
        bool found = false;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
                if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR) || (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR))
                        return addr_from_sockaddr(dst, port, (struct sockaddr *)CMSG_DATA(c), (socklen_t)(c->cmsg_len - CMSG_LEN(0))) == 0;
                if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                        struct in6_pktinfo info;
                        memcpy(&info, CMSG_DATA(c), sizeof(info));
                        memcpy(dst->b, &info.ipi6_addr, 16);
                        found = true;
                }
        }
        return found;
}

/* One datagram. Bytes, or -1. With `named`, src and dst of e are filled. */
static ssize_t receive(int fd, struct ends *e, bool *named)
{
        struct sockaddr_storage ss;
        union { struct cmsghdr align; uint8_t bytes[256]; } control;
        struct iovec iov = { packet, sizeof(packet) };
        struct msghdr mh = { .msg_name = &ss, .msg_namelen = sizeof(ss), .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(fd, &mh, MSG_DONTWAIT);

        *e = (struct ends){ 0 };
        *named = n >= 0 && addr_from_sockaddr(&e->src, &e->src_port, (struct sockaddr *)&ss, mh.msg_namelen) == 0 && destination(&mh, &e->dst, &e->dst_port);
        return n;
}

static void on_udp(evutil_socket_t fd, short what, void *arg)
{
        struct gram *g = arg;
        struct ends e;
        bool named;

        (void)what;
        for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
                ssize_t n = receive(fd, &e, &named);
                if (n < 0)
                        return;
                if (!named || !e.dst_port || outbox_stalled(g->d->outbox)) /* what cannot be recorded does not happen */
                        continue;
                if (e.dst_port == 53) {
                        uint8_t out[DNS_MESSAGE_BYTES];
                        size_t len = dns_reply(g->d, slice_of(packet, (size_t)n), true, out);
                        if (len)
                                send_udp(g->d, &e, slice_of(out, len));
                } else {
                        forward(g, &e, SLICE_EMPTY, slice_of(packet, (size_t)n));
                }
        }
}

static void on_icmp(evutil_socket_t fd, short what, void *arg)
{
        struct gram *g = arg;
        struct ends e;
        struct echo echo = { 0 };
        bool named;

        (void)what;
        for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
                ssize_t n = receive(fd, &e, &named);
                uint8_t head[4];
                if (n < 0)
                        return;
                if (outbox_stalled(g->d->outbox))
                        continue;
                if (fd == g->d->icmp4 ? !packet_echo_v4(slice_of(packet, (size_t)n), &echo) : !named || !packet_echo_v6(slice_of(packet, (size_t)n), &echo))
                        continue;
                if (fd == g->d->icmp4) {
                        e.src = echo.src;
                        e.dst = echo.dst;
                }
                e.icmp = true;
                e.src_port = echo.id;
                e.dst_port = 0;
                head[0] = (uint8_t)(echo.id >> 8), head[1] = (uint8_t)echo.id;
                head[2] = (uint8_t)(echo.seq >> 8), head[3] = (uint8_t)echo.seq;
                forward(g, &e, slice_of(head, sizeof(head)), echo.data);
        }
}

void gram_tick(struct gram *g, int64_t now_ms)
{
        struct gram_flow *f, *next;

        for (f = TAILQ_FIRST(&g->age); f; f = next) {
                int64_t idle = now_ms - f->last_ms;
                next = TAILQ_NEXT(f, age);
                if (idle < ICMP_IDLE_MS)
                        break;
                if (f->icmp || idle >= (f->replied ? UDP_REPLIED_IDLE_MS : UDP_IDLE_MS))
                        flow_end(f);
        }
}

static struct event *watch(struct door *d, int fd, event_callback_fn fn, struct gram *g)
{
        struct event *e = event_new(d->base, fd, EV_READ | EV_PERSIST, fn, g);

        if (e && event_add(e, NULL) < 0) {
                event_free(e);
                e = NULL;
        }
        return e;
}

struct gram *gram_open(struct door *d)
{
        struct gram *g = calloc(1, sizeof(*g));

        if (!g)
                return NULL;
        g->d = d;
        TAILQ_INIT(&g->age);
        g->udp = watch(d, d->udp, on_udp, g);
        g->icmp4 = watch(d, d->icmp4, on_icmp, g);
        g->icmp6 = watch(d, d->icmp6, on_icmp, g);
        if (g->udp && g->icmp4 && g->icmp6)
                return g;
        gram_close(g);
        return NULL;
}

void gram_close(struct gram *g)
{
        if (!g)
                return;
        while (TAILQ_FIRST(&g->age))
                flow_end(TAILQ_FIRST(&g->age));
        if (g->udp)
                event_free(g->udp);
        if (g->icmp4)
                event_free(g->icmp4);
        if (g->icmp6)
                event_free(g->icmp6);
        free(g);
}
