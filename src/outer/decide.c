/* Decisions: see decide.h. */
#include "outer/decide.h"

#include "base/esc.h"
#include <stdio.h>

static const char *const kind_names[KIND_COUNT] = {
        [KIND_HTTP] = "http", [KIND_WEBSOCKET] = "websocket", [KIND_TCP] = "tcp", [KIND_TLS] = "tls",
        [KIND_ANY] = "tcp", [KIND_UDP] = "udp", [KIND_ICMP] = "icmp",
};
const char *kind_name(enum exchange_kind k) { return kind_names[k]; }

static struct policy_flow_query flow_query(enum exchange_kind kind, const struct request *req, const struct addr *resolved)
{
        struct policy_flow_query q = {
                .resolved = resolved,
                .port = kind == KIND_ICMP ? 0 : req->authority.port,
                .proto = kind == KIND_UDP ? FLOW_UDP : kind == KIND_ICMP ? FLOW_ICMP : FLOW_TCP,
        };

        if (req->authority.is_addr)
                q.literal = &req->authority.addr;
        else
                q.name = req->authority.name;
        if (q.literal)
                q.resolved = NULL;
        return q;
}

static struct policy_request_query request_query(const struct policy_flow_query *flow, const struct request *req, struct slice path)
{
        return (struct policy_request_query){
                .flow = *flow,
                .https = req->scheme == SCHEME_HTTPS,
                .method = req->method,
                .path = path,
                .query = req->target.query,
                .has_query = req->target.has_query,
                .has_body = req->body != BODY_NONE,
                .body_bytes = req->body == BODY_NONE ? 0 : req->body == BODY_LENGTH ? (int64_t)req->length : -1,
                .upgrade = req->upgrade == WIRE_UPGRADE_NONE ? UPGRADE_NONE
                         : req->upgrade == WIRE_UPGRADE_WEBSOCKET ? UPGRADE_WEBSOCKET : UPGRADE_OTHER,
                .override_header = req->override,
        };
}

/* Which kinds of flow each verdict stands for. A kind the rules do not give is refused, even where another kind would pass: a spliced
 * flow under a `web` rule would be a way around the inspection. */
static bool action_fits(enum flow_action action, enum exchange_kind kind)
{
        static const uint8_t fits[KIND_COUNT][FLOW_ALLOW + 1] = {
                [KIND_HTTP] = { [FLOW_INSPECT] = 1, [FLOW_INSPECT_OR_SPLICE] = 1 },
                [KIND_WEBSOCKET] = { [FLOW_INSPECT] = 1, [FLOW_INSPECT_OR_SPLICE] = 1 },
                [KIND_TCP] = { [FLOW_SPLICE] = 1 },
                [KIND_TLS] = { [FLOW_TLS_PASS] = 1 },
                [KIND_ANY] = { [FLOW_INSPECT_OR_SPLICE] = 1 },
                [KIND_UDP] = { [FLOW_ALLOW] = 1 },
                [KIND_ICMP] = { [FLOW_ALLOW] = 1 },
        };

        return action <= FLOW_ALLOW && fits[kind][action];
}

/* The rules alone: flow, then request. Both spellings of a path with %2F must pass. */
static void judge(const struct policy *p, enum exchange_kind kind, const struct request *req, const struct policy_flow_query *flow,
                  struct policy_verdict *v)
{
        policy_flow(p, flow, v);
        if (!v->allow)
                return;
        if (!action_fits(v->action, kind)) {
                *v = (struct policy_verdict){ .rule = v->rule, .log = v->log, .max_body = -1,
                                              .reason = kind == KIND_HTTP || kind == KIND_WEBSOCKET ? REASON_UNINSPECTED : REASON_PROTO_NOT_ALLOWED };
                return;
        }
        if (kind == KIND_ANY)
                policy_opaque(p, flow, v);
        if (kind != KIND_HTTP && kind != KIND_WEBSOCKET)
                return;
        struct policy_request_query q = request_query(flow, req, req->target.path);
        policy_request(p, &q, v);
        if (v->allow && req->target.slashed.n) {
                q.path = req->target.slashed;
                policy_request(p, &q, v);
        }
}

void decide(const struct policy *p, enum exchange_kind kind, const struct request *req, const struct addr *resolved, struct decision *d)
{
        struct policy_flow_query flow = flow_query(kind, req, resolved);
        struct policy_verdict v = { 0 };
        const struct addr *dialled = req->authority.is_addr ? &req->authority.addr : resolved;

        *d = (struct decision){ .max_body = -1, .address_is = "" };
        judge(p, kind, req, &flow, &v);
        d->allow = v.allow;
        d->reason = v.reason;
        d->rule = v.rule;
        d->log = v.log;
        d->max_body = v.max_body;
        if (!v.allow || !dialled)
                return;
        struct policy_host host = req->authority.is_addr ? (struct policy_host){ 0 } : policy_host(p, req->authority.name);
        struct guard_claim claim = {
                .private_ok = host.private_ok || v.admits_private,
                .literal = req->authority.is_addr && v.admits_private,
                .pinned = host.pinned && addr_eq(&host.address, dialled),
        };
        d->reason = guard_check(dialled, &claim, &d->address_is);
        d->allow = d->reason == REASON_NONE;
        d->by_address = !d->allow;
}

struct slice decide_host(const struct request *req, char literal[ADDR_TEXT_BYTES + 2])
{
        char text[ADDR_TEXT_BYTES];

        if (!req->authority.is_addr)
                return req->authority.name;
        snprintf(literal, ADDR_TEXT_BYTES + 2, addr_is_v4(&req->authority.addr) ? "%s" : "[%s]", addr_print(text, &req->authority.addr));
        return slice_str(literal);
}

void decide_explain(const struct decision *d, const struct request *req, const struct addr *resolved, char *out, size_t size)
{
        char literal[ADDR_TEXT_BYTES + 2], text[ADDR_TEXT_BYTES] = "?";
        struct slice host = decide_host(req, literal);

        if (!d->by_address) {
                snprintf(out, size, "%s", reason_text(d->reason));
                return;
        }
        if (req->authority.is_addr)
                snprintf(out, size, "%s is a %s address; only a rule that names it admits it", esc(host), d->address_is);
        else if (resolved && d->reason == REASON_ADDRESS_PRIVATE)
                snprintf(out, size, "%s resolves to %s (%s); to allow it add: host %s { private ok }", esc(host), addr_print(text, resolved),
                         d->address_is, esc(host));
        else
                snprintf(out, size, "%s resolves to %s (%s); only a pinned address admits that: host %s { address %s }", esc(host),
                         resolved ? addr_print(text, resolved) : text, d->address_is, esc(host), text);
}
