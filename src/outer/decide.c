/* Decisions: see decide.h. */
#include "outer/decide.h"

#include "base/esc.h"
#include "rules/profile.h"
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

static void refuse(struct policy_verdict *v, enum reason reason)
{
        *v = (struct policy_verdict){ .rule = v->rule, .log = v->log, .max_body = -1, .reason = reason };
}

/* Does the rule that lets it pass say more of it than that? */
static bool has_conditions(const struct policy_verdict *v) { return v->ask || v->anonymous || v->profile != PROFILE_NONE || v->via.found; }

/* Both spellings of a path with %2F must pass; where two rules would have it go different ways, it has no single reading. */
static void judge_request(const struct policy *p, struct policy_request_query *q, const struct request *req, struct policy_verdict *v)
{
        struct policy_verdict first;

        policy_request(p, q, v);
        if (!v->allow || !req->target.slashed.n)
                return;
        first = *v;
        q->path = req->target.slashed;
        policy_request(p, q, v);
        if (v->allow && v->rule != first.rule && (has_conditions(v) || has_conditions(&first)))
                refuse(v, REASON_PATH_AMBIGUOUS);
}

/* The rules alone: flow, then request. */
static void judge(const struct policy *p, enum exchange_kind kind, const struct request *req, const struct policy_flow_query *flow,
                  struct policy_verdict *v)
{
        policy_flow(p, flow, v);
        if (!v->allow)
                return;
        if (!action_fits(v->action, kind)) {
                refuse(v, kind == KIND_HTTP || kind == KIND_WEBSOCKET ? REASON_UNINSPECTED : REASON_PROTO_NOT_ALLOWED);
                return;
        }
        if (kind == KIND_ANY)
                policy_opaque(p, flow, v);
        if (kind != KIND_HTTP && kind != KIND_WEBSOCKET)
                return;
        struct policy_request_query q = request_query(flow, req, req->target.path);
        judge_request(p, &q, req, v);
}

/* ---- accounts ---- */

static void deny(struct decision *d, enum reason reason, const char *why)
{
        d->allow = false;
        d->reason = reason;
        d->why = why;
}

static enum reason reason_of(enum account_reason r)
{
        static const enum reason reasons[ACCOUNT_REASON_COUNT] = {
                [ACCOUNT_OK] = REASON_NONE,
                [ACCOUNT_FOREIGN] = REASON_FOREIGN_ACCOUNT,
                [ACCOUNT_WRONG_FIELD] = REASON_WRONG_FIELD,
                [ACCOUNT_TWICE] = REASON_PLACEHOLDER_TWICE,
                [ACCOUNT_CLEARTEXT] = REASON_ACCOUNT_CLEARTEXT,
                [ACCOUNT_UPGRADE] = REASON_ACCOUNT_UPGRADE,
                [ACCOUNT_UNDECODABLE] = REASON_FOREIGN_ACCOUNT,
                [ACCOUNT_OTHER_USER] = REASON_FOREIGN_ACCOUNT,
                [ACCOUNT_NOT_ANONYMOUS] = REASON_NOT_ANONYMOUS,
        };

        return reasons[r];
}

struct binding decide_binding(const struct decide_self *self, const struct binding *b)
{
        struct binding effective = *b;

        if (self->minted.n)
                effective.placeholder = self->minted;
        return effective;
}

static struct profile_field get_field(void *ctx, size_t i)
{
        const struct headers *h = ctx;

        return (struct profile_field){ h->at[i].name, h->at[i].value };
}

static void judge_profile(const struct request *req, struct decision *d)
{
        struct profile_field fields[PROFILE_FIELDS_MAX];
        const char *problem;

        if (d->profile != PROFILE_NONE &&
            profile_fields(d->profile, req->method, req->headers.n, get_field, (void *)(uintptr_t)&req->headers, false, fields, &problem) < 0)
                deny(d, REASON_PROFILE, problem);
}

static void judge_anonymous(const struct request *req, struct decision *d)
{
        struct account_use use;

        account_check_anonymous(req, &use);
        if (use.reason != ACCOUNT_OK)
                deny(d, reason_of(use.reason), account_reason_sentence(use.reason));
}

/* The account fields of the request as it will go out. Re-routed, it has none: the guest's were for another host. */
static void judge_use(const struct decide_self *self, const struct request *req, struct decision *d)
{
        struct binding b = decide_binding(self, d->binding);
        struct request other = *req;

        if (d->via.found) {
                other.scheme = SCHEME_HTTPS;
                other.headers.n = 0;
                other.target.query = SLICE_EMPTY;
        }
        account_check(&b, &other, &d->use);
        if (d->use.reason != ACCOUNT_OK)
                deny(d, reason_of(d->use.reason), account_reason_sentence(d->use.reason));
}

/* SECURITY: a bound host is served by its account's door and by no other, and there only as requests that were read: past the inspection anybody's account
 * would do. That the inner door knows that too counts for nothing. */
static void judge_account(const struct policy *p, const struct decide_self *self, enum exchange_kind kind, const struct request *req, struct decision *d)
{
        struct slice name = d->via.found ? d->via.name : req->authority.name;
        uint16_t port = d->via.found ? d->via.port : req->authority.port;
        bool named = d->via.found || !req->authority.is_addr;
        int i = named && kind != KIND_ICMP ? policy_account_of(p, name, port) : -1;

        d->binding = i < 0 ? NULL : policy_account_at(p, (size_t)i);
        if (!slice_eq(self->account, d->binding ? d->binding->name : SLICE_EMPTY)) {
                d->binding = NULL;
                deny(d, REASON_POLICY_CHANGED, "the host is of another account than this door's");
        } else if (d->binding && kind != KIND_HTTP && kind != KIND_WEBSOCKET)
                deny(d, REASON_UNINSPECTED, "the host has an account, so only requests that can be read go there");
        else if (d->binding)
                judge_use(self, req, d);
}

static void judge_address(const struct policy *p, const struct request *req, bool admits_private, const struct addr *dialled, struct decision *d)
{
        bool literal = req->authority.is_addr && !d->via.found;
        struct policy_host host = literal ? (struct policy_host){ 0 } : policy_host(p, d->via.found ? d->via.name : req->authority.name);
        struct guard_claim claim = {
                .private_ok = host.private_ok || admits_private,
                .literal = literal && admits_private,
                .pinned = host.pinned && addr_eq(&host.address, dialled),
        };

        d->reason = guard_check(dialled, &claim, &d->address_is);
        d->allow = d->reason == REASON_NONE;
        d->by_address = !d->allow;
}

void decide(const struct policy *p, const struct decide_self *self, enum exchange_kind kind, const struct request *req, const struct addr *resolved, struct decision *d)
{
        struct policy_flow_query flow = flow_query(kind, req, resolved);
        struct policy_verdict v = { 0 };
        const struct addr *dialled;

        judge(p, kind, req, &flow, &v);
        *d = (struct decision){ .allow = v.allow, .reason = v.reason, .rule = v.rule, .log = v.log, .ask = v.ask, .max_body = v.max_body, .profile = v.profile, .misses = v.misses,
                                .via = v.via, .address_is = "" };
        if (d->allow)
                judge_account(p, self, kind, req, d);
        if (d->allow && v.anonymous)
                judge_anonymous(req, d);
        if (d->allow)
                judge_profile(req, d);
        dialled = req->authority.is_addr && !d->via.found ? &req->authority.addr : resolved;
        if (d->allow && dialled)
                judge_address(p, req, v.admits_private, dialled, d);
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
        struct slice host = d->via.found ? d->via.name : decide_host(req, literal);

        if (!d->by_address) {
                snprintf(out, size, "%s", d->why ? d->why : reason_text(d->reason));
                return;
        }
        if (req->authority.is_addr && !d->via.found)
                snprintf(out, size, "%s is a %s address; only a rule that names it admits it", esc(host), d->address_is);
        else if (resolved && d->reason == REASON_ADDRESS_PRIVATE)
                snprintf(out, size, "%s resolves to %s (%s); to allow it add: host %s { private ok }", esc(host), addr_print(text, resolved),
                         d->address_is, esc(host));
        else
                snprintf(out, size, "%s resolves to %s (%s); only a pinned address admits that: host %s { address %s }", esc(host),
                         resolved ? addr_print(text, resolved) : text, d->address_is, esc(host), text);
}
