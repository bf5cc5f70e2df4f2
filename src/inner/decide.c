/* The policy's questions: see decide.h. SECURITY: every query is filled from what was proven canonical, never from what was sent. */
#include "inner/decide.h"

#include <string.h>

static struct policy_flow_query flow_query(const struct authority *to, enum flow_proto proto)
{
        struct policy_flow_query q = { .port = proto == FLOW_ICMP ? 0 : to->port, .proto = proto };

        if (to->is_addr)
                q.literal = &to->addr;
        else
                q.name = to->name;
        return q;
}

/* A path with an encoded slash is judged in both readings; the stricter answer stands. */
static struct policy_request_query request_query(const struct exchange *x, struct slice path)
{
        static const enum policy_upgrade upgrades[] = {
                [WIRE_UPGRADE_NONE] = UPGRADE_NONE, [WIRE_UPGRADE_WEBSOCKET] = UPGRADE_WEBSOCKET,
                [WIRE_UPGRADE_OTHER] = UPGRADE_OTHER, [WIRE_UPGRADE_TUNNEL] = UPGRADE_OTHER,
        };
        const struct request *r = x->req;

        return (struct policy_request_query){
                .flow = flow_query(&x->to, FLOW_TCP),
                .https = x->https,
                .method = r->method,
                .path = path,
                .query = r->target.query,
                .has_query = r->target.has_query,
                .has_body = r->body != BODY_NONE,
                .body_bytes = r->body == BODY_LENGTH ? (int64_t)r->length : r->body == BODY_NONE ? 0 : -1,
                .upgrade = upgrades[r->upgrade],
                .override_header = r->override,
        };
}

static void refuse(struct policy_verdict *v, enum reason reason)
{
        *v = (struct policy_verdict){ .action = FLOW_DENY, .rule = POLICY_DEFAULT_RULE, .reason = reason, .max_body = -1 };
}

static bool door_refuses(const struct door *d, struct policy_verdict *v)
{
        if (d->refuse == REASON_NONE && d->policy)
                return false;
        refuse(v, d->policy ? d->refuse : REASON_NO_POLICY);
        return true;
}

static void hit(struct door *d, int rule)
{
        if (d->hits && rule >= POLICY_DEFAULT_RULE && rule < (int)d->rule_count)
                d->hits[rule == POLICY_DEFAULT_RULE ? d->rule_count : (size_t)rule]++;
}

bool decide_again_flow(struct door *d, const struct authority *to, enum flow_proto proto, struct policy_verdict *v)
{
        struct policy_flow_query q = flow_query(to, proto);

        if (door_refuses(d, v))
                return false;
        policy_flow(d->policy, &q, v);
        return v->allow;
}

void decide_flow(struct door *d, const struct authority *to, enum flow_proto proto, struct policy_verdict *v)
{
        (void)decide_again_flow(d, to, proto, v);
        hit(d, v->rule);
}

void decide_opaque(struct door *d, const struct authority *to, struct policy_verdict *v)
{
        struct policy_flow_query q = flow_query(to, FLOW_TCP);

        if (door_refuses(d, v))
                return;
        policy_opaque(d->policy, &q, v);
        hit(d, v->rule);
}

bool decide_name(struct door *d, struct slice name, enum reason *reason)
{
        struct policy_verdict v;

        if (door_refuses(d, &v)) {
                *reason = v.reason;
                return false;
        }
        *reason = REASON_NAME_NOT_ALLOWED;
        /* A single label is a search-domain guess, unless the configuration names it. */
        if (slice_find(name, '.') < 0 && !policy_host(d->policy, name).found)
                return false;
        return policy_name_possible(d->policy, name);
}

static void judge_request(const struct exchange *x, struct policy_verdict *v)
{
        struct policy_request_query q = request_query(x, x->req->target.path);

        if (door_refuses(x->door, v))
                return;
        policy_request(x->door->policy, &q, v);
        if (v->allow && x->req->target.slashed.n) {
                q.path = x->req->target.slashed;
                policy_request(x->door->policy, &q, v);
        }
}

void decide_request(struct exchange *x)
{
        judge_request(x, &x->verdict);
        hit(x->door, x->verdict.rule);
}

void decide_via(const struct exchange *x, struct policy_via *via)
{
        struct policy_request_query q = request_query(x, x->req->target.path);
        struct policy_verdict v;

        *via = (struct policy_via){ .found = false };
        q.method = SLICE_LIT("GET");
        q.query = SLICE_EMPTY;
        q.has_query = q.has_body = q.override_header = false;
        q.body_bytes = 0;
        q.upgrade = UPGRADE_NONE;
        if (door_refuses(x->door, &v))
                return;
        policy_request(x->door->policy, &q, &v);
        if (v.allow)
                *via = v.via;
}

/* Does the flow's action still pass bytes of this kind unseen? */
static bool splice_fits(const struct exchange *x, struct policy_verdict *v)
{
        struct policy_flow_query q = flow_query(&x->to, FLOW_TCP);

        if (!strcmp(x->splice_kind, "tls"))
                return v->action == FLOW_TLS_PASS;
        if (v->action == FLOW_SPLICE)
                return true;
        if (v->action != FLOW_INSPECT_OR_SPLICE)
                return false;
        policy_opaque(x->door->policy, &q, v);
        return v->allow && v->action == FLOW_SPLICE;
}

bool decide_again_exchange(const struct exchange *x, struct policy_verdict *v)
{
        if (x->req) {
                judge_request(x, v);
                return v->allow;
        }
        switch (x->kind) {
        case EXCHANGE_UDP:
                return decide_again_flow(x->door, &x->to, FLOW_UDP, v);
        case EXCHANGE_ICMP:
                return decide_again_flow(x->door, &x->to, FLOW_ICMP, v);
        case EXCHANGE_TCP:
                return decide_again_flow(x->door, &x->to, FLOW_TCP, v) && splice_fits(x, v);
        case EXCHANGE_HTTP:
        case EXCHANGE_WEBSOCKET:
                break;
        }
        refuse(v, REASON_INTERNAL);
        return false;
}

void decide_suggest_flow(const struct authority *to, enum flow_proto proto, struct buf *out)
{
        struct policy_flow_query q = flow_query(to, proto);

        policy_suggest_flow(&q, out);
}

void decide_suggest_request(const struct exchange *x, struct buf *out)
{
        struct policy_request_query q = request_query(x, x->req->target.path);

        policy_suggest_request(x->door->policy, &q, x->verdict.rule, out);
}
