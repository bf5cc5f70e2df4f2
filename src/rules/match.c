/* Verdicts: see policy.h. Read this file to know what a rule set means.
 *
 * Candidates come in order; the first whose scope fits governs. Three walks of the same kind: at the flow's opening (no request is
 * known, so web rules with a path or a denied method leave the flow open for inspection), for a request, and for a flow that is no HTTP.
 * Whatever the walks could disagree on is refused. */
#include "base/host.h"
#include "rules/rules_priv.h"

/* ---- scope ----------------------------------------------------------------------------------------------------------------------------- */

static bool port_fits(const struct rule *r, uint16_t port)
{
        for (size_t i = 0; i < r->port_count; i++)
                if (port >= r->ports[i].lo && port <= r->ports[i].hi)
                        return true;
        return false;
}

static bool proto_fits(const struct rule *r, enum flow_proto proto)
{
        switch (r->proto) {
        case PROTO_WEB:
        case PROTO_TLS:
        case PROTO_TCP:
        case PROTO_ANY:
                return proto == FLOW_TCP;
        case PROTO_UDP:
                return proto == FLOW_UDP;
        case PROTO_ICMP:
                return proto == FLOW_ICMP;
        case PROTO_COUNT:
                break;
        }
        return false;
}

/* SECURITY: an address that a name resolved to is only ever denied by; an allow by address never admits a name. */
static bool rule_fits(const struct rule *r, const struct policy_flow_query *q, unsigned origins)
{
        if (r->action == RULE_ALLOW && origins == 1u << FROM_RESOLVED)
                return false;
        return proto_fits(r, q->proto) && (r->proto == PROTO_ICMP || port_fits(r, q->port));
}

static const struct host_entry *find_host(const struct policy *p, struct slice name)
{
        if (!p->host_slots || name.n == 0)
                return NULL;
        for (size_t i = index_hash(name) & p->host_mask; p->host_slots[i]; i = (i + 1) & p->host_mask)
                if (slice_eq(p->prog.hosts[p->host_slots[i] - 1].d.name, name))
                        return &p->prog.hosts[p->host_slots[i] - 1];
        return NULL;
}

/* Exact name and `private ok`, a pinned address, or a rule that names the literal address. */
static bool admits_private(const struct policy *p, const struct policy_flow_query *q, unsigned origins)
{
        const struct host_entry *h = find_host(p, q->name);

        if (q->name.n == 0)
                return origins >> FROM_LITERAL & 1;
        return h && (h->d.pinned || (h->d.private_ok && (origins >> FROM_NAME & 1)));
}

/* What else an allowing rule says of the request. With `via` the address that is dialled is another host's: its own block says whether it may be private. */
static void verdict_rule(struct policy_verdict *v, const struct policy *p, const struct rule *r)
{
        v->ask = r->ask;
        v->anonymous = r->anonymous;
        v->stream_ok = r->stream_ok;
        v->profile = r->profile;
        v->misses = r->misses;
        v->via = r->via;
        if (r->via.found) {
                const struct host_entry *h = find_host(p, r->via.name);
                v->admits_private = h && (h->d.pinned || h->d.private_ok);
        }
}

static bool query_ok(const struct policy_flow_query *q)
{
        if (q->proto != FLOW_ICMP && q->port == 0)
                return false;
        return q->name.n ? host_is_canonical(q->name) : q->literal != NULL;
}

/* ---- verdicts --------------------------------------------------------------------------------------------------------------------------- */

static void verdict_init(struct policy_verdict *v) { *v = (struct policy_verdict){ .rule = POLICY_DEFAULT_RULE, .reason = REASON_DEFAULT_DENY, .max_body = -1 }; }

static void verdict_refuse(struct policy_verdict *v, int rule, bool log, enum reason why)
{
        v->allow = false;
        v->action = FLOW_DENY;
        v->rule = rule;
        v->log = log;
        v->reason = why;
        v->admits_private = false;
        v->ask = v->anonymous = v->stream_ok = false;
        v->profile = PROFILE_NONE;
        v->misses = 0;
        v->via = (struct policy_via){ .found = false };
}

static void verdict_allow(struct policy_verdict *v, int rule, bool log, enum flow_action action, bool private_ok)
{
        v->allow = true;
        v->action = action;
        v->rule = rule;
        v->log = log;
        v->reason = REASON_NONE;
        v->admits_private = private_ok;
}

static enum flow_action action_of(enum rule_proto proto)
{
        switch (proto) {
        case PROTO_WEB:
                return FLOW_INSPECT;
        case PROTO_TLS:
                return FLOW_TLS_PASS;
        case PROTO_TCP:
                return FLOW_SPLICE;
        case PROTO_UDP:
        case PROTO_ICMP:
                return FLOW_ALLOW;
        case PROTO_ANY:
                return FLOW_INSPECT_OR_SPLICE;
        case PROTO_COUNT:
                break;
        }
        return FLOW_DENY;
}

/* An unconditional end of the walk, after conditional web rules of which the first allow is already in v (v->allow). */
static void flow_decide(struct policy_verdict *v, bool conditional, bool allow, int rule, bool log, enum flow_action action, bool private_ok)
{
        if (v->allow)
                return; /* some request may pass: inspect, the requests are judged one by one */
        if (!allow) {
                verdict_refuse(v, rule, log, rule == POLICY_DEFAULT_RULE ? REASON_DEFAULT_DENY : REASON_RULE_DENY);
                return;
        }
        if (conditional && (action == FLOW_SPLICE || action == FLOW_TLS_PASS)) {
                verdict_refuse(v, rule, log, REASON_UNINSPECTED);
                return;
        }
        /* SECURITY: what a web rule looks into is never spliced, whatever comes behind it. */
        verdict_allow(v, rule, log, conditional && action == FLOW_INSPECT_OR_SPLICE ? FLOW_INSPECT : action, private_ok);
}

void policy_flow(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v)
{
        struct candidates c;
        bool conditional = false;
        unsigned origins;
        int i;

        verdict_init(v);
        if (!query_ok(q)) {
                v->reason = REASON_AUTHORITY_INVALID;
                return;
        }
        candidates_init(&c, &p->index, q->name, q->literal, q->resolved);
        while ((i = candidates_next(&c, &origins)) >= 0) {
                const struct rule *r = &p->prog.rules.rules[i];
                if (!rule_fits(r, q, origins))
                        continue;
                if (!rule_is_conditional(r)) {
                        flow_decide(v, conditional, r->action == RULE_ALLOW, i, r->log, action_of(r->proto), admits_private(p, q, origins));
                        /* What is inspected is asked for request by request. */
                        v->ask = r->ask && v->allow && v->rule == i && (v->action == FLOW_SPLICE || v->action == FLOW_TLS_PASS);
                        return;
                }
                conditional = true;
                if (r->action == RULE_ALLOW && !v->allow)
                        verdict_allow(v, i, r->log, FLOW_INSPECT, admits_private(p, q, origins));
        }
        flow_decide(v, conditional, p->prog.rules.default_allow && q->proto == FLOW_TCP, POLICY_DEFAULT_RULE, false, FLOW_INSPECT_OR_SPLICE, false);
}

void policy_opaque(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v)
{
        struct candidates c;
        unsigned origins;
        int i;

        verdict_init(v);
        if (!query_ok(q) || q->proto != FLOW_TCP) {
                v->reason = REASON_AUTHORITY_INVALID;
                return;
        }
        candidates_init(&c, &p->index, q->name, q->literal, q->resolved);
        while ((i = candidates_next(&c, &origins)) >= 0) {
                const struct rule *r = &p->prog.rules.rules[i];
                if (!rule_fits(r, q, origins))
                        continue;
                if (r->action == RULE_ALLOW && (r->proto == PROTO_ANY || r->proto == PROTO_TCP))
                        verdict_allow(v, i, r->log, FLOW_SPLICE, admits_private(p, q, origins)), v->ask = r->ask;
                else
                        verdict_refuse(v, i, r->log, r->action == RULE_DENY && !rule_is_conditional(r) ? REASON_RULE_DENY : REASON_NOT_HTTP_OR_TLS);
                return;
        }
        if (p->prog.rules.default_allow)
                verdict_allow(v, POLICY_DEFAULT_RULE, false, FLOW_SPLICE, false);
}

/* ---- requests --------------------------------------------------------------------------------------------------------------------------- */

enum step { STEP_NEXT, STEP_DONE };

/* The rule is for another path. A field like X-Original-URL may make the origin serve that very path: then nobody can tell. */
static enum step path_passed_over(const struct policy_request_query *q, const struct rule *r, int i, struct policy_verdict *v)
{
        if (!q->override_header)
                return STEP_NEXT;
        verdict_refuse(v, i, r->log, REASON_OVERRIDE);
        return STEP_DONE;
}

static enum step request_allow(const struct policy *p, const struct policy_request_query *q, int i, unsigned origins, struct policy_verdict *v)
{
        const struct rule *r = &p->prog.rules.rules[i];

        if (r->proto == PROTO_TLS || r->proto == PROTO_TCP) {
                verdict_refuse(v, i, r->log, REASON_UNINSPECTED);
                return STEP_DONE;
        }
        if (r->path.n && !path_match(r->path, q->path, true)) {
                if (!path_match(r->path, q->path, false))
                        return path_passed_over(q, r, i, v);
                /* Going on would let the request slip past this rule's limits under another reading. */
                verdict_refuse(v, i, r->log, REASON_PATH_AMBIGUOUS);
                return STEP_DONE;
        }
        verdict_allow(v, i, r->log, FLOW_INSPECT, admits_private(p, &q->flow, origins));
        verdict_rule(v, p, r);
        if (limits_hold(r, q, &v->failed, &v->reason, &v->max_body) != HOLD_YES)
                verdict_refuse(v, i, r->log, v->reason);
        return STEP_DONE;
}

static enum step request_deny(const struct policy *p, const struct policy_request_query *q, int i, struct policy_verdict *v)
{
        const struct rule *r = &p->prog.rules.rules[i];
        enum policy_limit which;
        enum reason why;
        int64_t max;

        if (r->path.n && !path_match(r->path, q->path, false))
                return path_passed_over(q, r, i, v);
        if (limits_hold(r, q, &which, &why, &max) == HOLD_NO)
                return STEP_NEXT;
        verdict_refuse(v, i, r->log, REASON_RULE_DENY);
        return STEP_DONE;
}

static bool request_ok(const struct policy_request_query *q, enum reason *why)
{
        bool connect = slice_is(q->method, "CONNECT");

        *why = REASON_NONE;
        if (!query_ok(&q->flow) || q->flow.proto != FLOW_TCP)
                *why = REASON_AUTHORITY_INVALID;
        else if (connect && q->upgrade != UPGRADE_WEBSOCKET)
                *why = REASON_CONNECT_REFUSED;
        else if (q->method.n == 0)
                *why = REASON_FRAMING;
        else if (!(q->path.n && q->path.p[0] == '/') && !(slice_is(q->path, "*") && slice_is(q->method, "OPTIONS")))
                *why = REASON_PATH_INVALID;
        return *why == REASON_NONE;
}

void policy_request(const struct policy *p, const struct policy_request_query *q, struct policy_verdict *v)
{
        struct candidates c;
        unsigned origins;
        enum reason why;
        int i;

        verdict_init(v);
        if (!request_ok(q, &why)) {
                v->reason = why;
                return;
        }
        candidates_init(&c, &p->index, q->flow.name, q->flow.literal, q->flow.resolved);
        while ((i = candidates_next(&c, &origins)) >= 0) {
                const struct rule *r = &p->prog.rules.rules[i];
                if (!rule_fits(r, &q->flow, origins))
                        continue;
                if ((r->action == RULE_ALLOW ? request_allow(p, q, i, origins, v) : request_deny(p, q, i, v)) == STEP_DONE)
                        return;
        }
        if (p->prog.rules.default_allow)
                verdict_allow(v, POLICY_DEFAULT_RULE, false, FLOW_INSPECT, false);
}

/* ---- names ------------------------------------------------------------------------------------------------------------------------------- */

/* Ports that earlier rules deny wholly. */
struct closed {
        uint64_t bits[65536 / 64];
};

static void closed_add(struct closed *c, const struct rule *r)
{
        for (size_t i = 0; i < r->port_count; i++)
                for (unsigned port = r->ports[i].lo; port <= r->ports[i].hi; port++) {
                        if (port % 64 == 0 && port + 63 <= r->ports[i].hi) {
                                c->bits[port / 64] = UINT64_MAX;
                                port += 63;
                        } else {
                                c->bits[port / 64] |= 1ull << (port % 64);
                        }
                }
}

static bool closed_has_all(const struct closed *c, unsigned lo, unsigned hi)
{
        for (unsigned port = lo; port <= hi; port++) {
                if (port % 64 == 0 && port + 63 <= hi && c->bits[port / 64] == UINT64_MAX)
                        port += 63;
                else if (!(c->bits[port / 64] >> (port % 64) & 1))
                        return false;
        }
        return true;
}

static bool any_port_open(const struct closed *c, const struct rule *r)
{
        for (size_t i = 0; i < r->port_count; i++)
                if (!closed_has_all(c, r->ports[i].lo, r->ports[i].hi))
                        return true;
        return false;
}

bool policy_name_possible(const struct policy *p, struct slice name)
{
        struct closed tcp, udp, *ports;
        bool tcp_used = false, udp_used = false, icmp_closed = false, *used;
        struct candidates c;
        unsigned origins;
        int i;

        if (!host_is_canonical(name))
                return false;
        candidates_init(&c, &p->index, name, NULL, NULL);
        while ((i = candidates_next(&c, &origins)) >= 0) {
                const struct rule *r = &p->prog.rules.rules[i];
                ports = r->proto == PROTO_UDP ? &udp : &tcp;
                used = r->proto == PROTO_UDP ? &udp_used : &tcp_used;
                if (r->action == RULE_ALLOW) {
                        if (r->proto == PROTO_ICMP ? !icmp_closed : !*used || any_port_open(ports, r))
                                return true;
                        continue;
                }
                if (rule_is_conditional(r))
                        continue;
                if (r->proto == PROTO_ICMP) {
                        icmp_closed = true;
                        continue;
                }
                if (!*used)
                        memset(ports, 0, sizeof(*ports));
                *used = true;
                closed_add(ports, r);
        }
        return p->prog.rules.default_allow && (!tcp_used || !closed_has_all(&tcp, 1, 65535));
}

/* ---- hosts -------------------------------------------------------------------------------------------------------------------------------- */

static struct policy_host host_of(const struct host_entry *h)
{
        if (!h)
                return (struct policy_host){ .found = false };
        return (struct policy_host){ true, h->d.private_ok, h->d.pinned, h->d.address, h->d.port, h->d.ca_path };
}

struct policy_host policy_host(const struct policy *p, struct slice name) { return host_of(find_host(p, name)); }

size_t policy_host_count(const struct policy *p) { return p->prog.host_count; }

struct policy_host policy_host_at(const struct policy *p, size_t i, struct slice *name)
{
        if (i >= p->prog.host_count)
                return host_of(NULL);
        *name = p->prog.hosts[i].d.name;
        return host_of(&p->prog.hosts[i]);
}
