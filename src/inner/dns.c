/* DNS server: see dns.h. A name that no rule could allow does not exist here; an allowed one gets its synthetic addresses. */
#include "inner/dns.h"
#include "base/clock.h"
#include "base/host.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/names.h"
#include "inner/outbox.h"
#include "inner/tripwire.h"
#include "wire/dns.h"

static bool is_localhost(struct slice name)
{
        return host_is_under(name, SLICE_LIT("localhost"));
}

static void answer_loopback(struct dns_answer *ans, struct addr at[2])
{
        at[0] = addr_v4(0x7f000001u);
        at[1] = (struct addr){ .b = { [15] = 1 } };
        ans->addr = at;
        ans->addr_n = 2;
}

static void answer_ptr(struct door *d, struct slice name, struct dns_answer *ans)
{
        struct addr a;

        ans->rcode = DNS_NXDOMAIN;
        if (!dns_reverse(name, &a))
                return;
        if (addr_eq(&a, &gateway_v4) || addr_eq(&a, &gateway_v6))
                ans->ptr = SLICE_LIT("gateway.localhost");
        else
                ans->ptr = names_owner(d->names, &a);
        if (ans->ptr.n)
                ans->rcode = DNS_NOERROR;
}

/* A name the policy allows gets its pair of addresses; types other than A and AAAA have no records. */
static void answer_name(struct door *d, const struct dns_query *q, struct slice name, struct dns_answer *ans, struct addr at[2])
{
        enum reason reason = REASON_NAME_NOT_ALLOWED;
        int number;

        if (!decide_name(d, name, &reason)) {
                /* Frozen is a state that passes: not to be remembered as a name that does not exist. */
                ans->rcode = reason == REASON_NAME_NOT_ALLOWED ? DNS_NXDOMAIN : DNS_SERVFAIL;
                events_name(d, door_id(d), q->type, name, false, reason);
                return;
        }
        if (q->type != DNS_A && q->type != DNS_AAAA)
                return;
        number = names_number(d->names, name);
        if (number < 0) {
                ans->rcode = DNS_SERVFAIL;
                events_name(d, door_id(d), q->type, name, false, REASON_TOO_MANY_NAMES);
                return;
        }
        at[0] = names_v4(number);
        at[1] = names_v6(number);
        ans->addr = at;
        ans->addr_n = 2;
        events_name(d, door_id(d), q->type, name, true, REASON_NONE);
}

static void answer(struct door *d, const struct dns_query *q, struct dns_answer *ans, struct addr at[2])
{
        char canonical[HOST_NAME_BYTES];
        struct slice name = q->name;

        *ans = (struct dns_answer){ .rcode = DNS_NOERROR, .ttl_s = DNS_TTL_S };
        if (tripwire_name(d, name, 53, d->next_id, "dns")) {
                ans->rcode = DNS_REFUSED;
                events_name(d, door_id(d), q->type, name, false, REASON_TRIPWIRE);
        } else if (q->type == DNS_ANY) {
                struct refusal r = refusal_of(REASON_DNS_ANY);

                ans->rcode = DNS_REFUSED; /* RFC 8482 allows it; nobody needs ANY */
                events_dns_refusal(d, q->type, name, &r);
        } else if (q->type == DNS_PTR || host_is_under(name, SLICE_LIT("arpa"))) {
                if (q->type == DNS_PTR)
                        answer_ptr(d, name, ans);
                else
                        ans->rcode = DNS_NXDOMAIN;
        } else if (is_localhost(name)) {
                answer_loopback(ans, at);
        } else if (!q->host_ok || host_canonical(canonical, sizeof(canonical), name) != HOST_NAME) {
                ans->rcode = DNS_NXDOMAIN;
                events_name(d, door_id(d), q->type, name, false, REASON_NAME_NOT_ALLOWED);
        } else {
                answer_name(d, q, slice_str(canonical), ans, at);
        }
}

size_t dns_reply(struct door *d, struct slice msg, bool over_udp, uint8_t out[DNS_MESSAGE_BYTES])
{
        struct arena a;
        struct dns_query q;
        struct dns_answer ans;
        struct addr at[2];
        enum wire_reason why;
        size_t n;

        arena_init(&a, DNS_QUERY_ARENA_BYTES);
        why = dns_query_parse(&a, msg, &q);
        if (why != WIRE_OK) {
                struct refusal r = refusal_of_wire(why);

                events_dns_refusal(d, 0, SLICE_EMPTY, &r);
                n = dns_refuse(out, DNS_MESSAGE_BYTES, msg);
        } else {
                answer(d, &q, &ans, at);
                n = dns_answer(out, DNS_MESSAGE_BYTES, &q, &ans, over_udp);
        }
        arena_fini(&a);
        return n;
}

/* --- over TCP --- */

static void dns_data(struct conn *c, struct slice *in)
{
        struct flow *f = c->owner;

        f->deadline_ms = clock_mono_ms() + DNS_IDLE_MS;
        while (buf_len(&c->out) < CONN_OUT_HIGH_BYTES && !outbox_stalled(f->door->outbox)) {
                uint8_t out[DNS_MESSAGE_BYTES], prefix[2];
                struct slice msg;
                size_t used, n;
                enum wire_step step = dns_tcp_next(*in, &msg, &used);

                if (step == WIRE_MORE)
                        return;
                n = step == WIRE_DONE ? dns_reply(f->door, msg, false, out) : 0;
                prefix[0] = (uint8_t)(n >> 8);
                prefix[1] = (uint8_t)n;
                if (n == 0 || buf_add(&c->out, prefix, 2) < 0 || buf_add(&c->out, out, n) < 0) {
                        flow_close(f, true);
                        return;
                }
                *in = slice_skip(*in, used);
                conn_touch(c);
        }
}

static void dns_eof(struct conn *c) { conn_finish(c); }

static void dns_drained(struct conn *c, size_t unsent)
{
        struct flow *f = c->owner;

        if (c->fin_sent)
                flow_close(f, false);
        else if (unsent == 0)
                conn_resume(c);
}

static void dns_failed(struct conn *c, const char *why)
{
        (void)why;
        flow_close(c->owner, true);
}

static const struct conn_ops dns_ops = { .data = dns_data, .eof = dns_eof, .drained = dns_drained, .failed = dns_failed };
static void dns_tick(struct flow *f, int64_t now_ms)
{
        if (now_ms >= f->deadline_ms)
                flow_close(f, false);
}

static const struct flow_server dns_server = { .name = "dns", .tick = dns_tick };

void dns_serve(struct flow *f)
{
        flow_served(f, &dns_server, NULL);
        f->deadline_ms = clock_mono_ms() + DNS_IDLE_MS;
        conn_serve(&f->conn, &dns_ops, f);
}
