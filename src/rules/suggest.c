/* The rule that would have allowed it: printed at the end of a run and in every refusal, so it must parse and must be narrow;
 * and it is tried on the request first: a line that would refuse again is worse than none. */
#include <stdlib.h>

#include "base/host.h"
#include "rules/rules_priv.h"

enum { SUGGEST_PATH_BYTES = 200 }; /* longer ones are no pattern a person would keep */

static void suggest_host(struct buf *out, const struct policy_flow_query *q, bool port)
{
        char text[ADDR_TEXT_BYTES];

        if (q->name.n) {
                buf_add_slice(out, q->name);
                return;
        }
        addr_print(text, q->literal);
        buf_addf(out, port && !addr_is_v4(q->literal) ? "[%s]" : "%s", text);
}

static bool can_suggest(const struct policy_flow_query *q) { return q->name.n ? host_is_canonical(q->name) : q->literal != NULL; }

void policy_suggest_flow(const struct policy_flow_query *q, struct buf *out)
{
        static const char *const protos[] = { "tcp", "udp", "icmp" };
        bool web = q->proto == FLOW_TCP && (q->port == 80 || q->port == 443);

        if (!can_suggest(q) || (unsigned)q->proto > FLOW_ICMP)
                return;
        buf_addf(out, "allow %s ", web ? "web" : protos[q->proto]);
        suggest_host(out, q, !web && q->proto != FLOW_ICMP);
        if (web)
                buf_add_str(out, " read-only");
        else if (q->proto != FLOW_ICMP)
                buf_addf(out, ":%u", q->port);
}

static bool method_ok(struct slice m)
{
        for (size_t i = 0; i < m.n; i++)
                if (m.p[i] < 'A' || m.p[i] > 'Z')
                        return false;
        return m.n && m.n <= RULES_METHOD_BYTES && !slice_is(m, "CONNECT");
}

static bool reading(struct slice m) { return slice_is(m, "GET") || slice_is(m, "HEAD") || slice_is(m, "OPTIONS"); }

/* Does the path, as a pattern, stand for itself alone? The canonical form encodes quotes, backslashes and spaces; "*" it keeps. */
static bool path_ok(struct slice path) { return path.n && path.p[0] == '/' && path.n <= SUGGEST_PATH_BYTES && slice_find(path, '*') < 0; }

/* From the narrowest that a person would keep to the widest. */
enum width { WIDTH_PROFILE, WIDTH_PATH, WIDTH_METHODS, WIDTH_HOST, WIDTH_COUNT };

/* Room for what a suggested rule points to. */
struct suggestion {
        struct rule rule;
        struct target target;
        struct port_range ports[2];
        struct slice methods[4];
};

static enum hold holds(const struct rule *r, const struct policy_request_query *q)
{
        enum policy_limit which;
        enum reason why;
        int64_t max;

        return limits_hold(r, q, &which, &why, &max);
}

/* What the governing rule demands besides: whom it asks, where it leads, whose account it refuses. It is not lost by a suggestion, and neither are the
 * limits that the request kept to. */
static void keep_limits(struct rule *s, const struct rule *governing, const struct policy_request_query *q)
{
        struct rule query = { .query = governing->query, .query_keys = governing->query_keys, .query_key_count = governing->query_key_count };
        struct rule body = { .body = governing->body, .body_max_bytes = governing->body_max_bytes };

        s->ask = governing->ask;
        s->anonymous = governing->anonymous;
        s->stream_ok = governing->stream_ok;
        s->via = governing->via;
        if (holds(&query, q) == HOLD_YES) {
                s->query = query.query;
                s->query_keys = query.query_keys;
                s->query_key_count = query.query_key_count;
        }
        if (holds(&body, q) == HOLD_YES) {
                s->body = body.body;
                s->body_max_bytes = body.body_max_bytes;
        }
}

static void suggest_target(struct suggestion *s, const struct policy_flow_query *q)
{
        bool web = q->port == 80 || q->port == 443;

        if (q->name.n)
                s->target = (struct target){ .kind = TARGET_NAME, .name = q->name };
        else
                s->target = (struct target){ .kind = TARGET_CIDR, .cidr = { *q->literal, 128 } };
        s->ports[0] = web ? (struct port_range){ 80, 80 } : (struct port_range){ q->port, q->port };
        s->ports[1] = (struct port_range){ 443, 443 };
        s->rule.targets = &s->target;
        s->rule.target_count = 1;
        s->rule.ports = s->ports;
        s->rule.port_count = web ? 2 : 1;
}

static void suggest_methods(struct suggestion *s, const struct policy_request_query *q, bool governed)
{
        static const struct rule read_only = { .action = RULE_ALLOW, .read_only = true };
        static const struct slice readers[] = { SLICE_LIT("GET"), SLICE_LIT("HEAD"), SLICE_LIT("OPTIONS") };
        struct slice method = q->upgrade == UPGRADE_WEBSOCKET ? SLICE_LIT("GET") : q->method;

        s->rule.methods = s->methods;
        if (holds(&read_only, q) == HOLD_YES) {
                s->rule.read_only = true;
                return;
        }
        if (!method_ok(method))
                return;
        for (size_t i = 0; governed && i < sizeof(readers) / sizeof(readers[0]); i++)
                s->methods[s->rule.method_count++] = readers[i];
        if (!governed || !reading(method))
                s->methods[s->rule.method_count++] = method;
}

/* false: there is no such suggestion. */
static bool make_suggestion(struct suggestion *s, const struct policy_request_query *q, const struct rule *governing, bool governed, enum width width)
{
        bool profile = governing && governing->profile != PROFILE_NONE;

        *s = (struct suggestion){ .rule = { .action = RULE_ALLOW, .proto = PROTO_WEB } };
        suggest_target(s, &q->flow);
        if (governing)
                keep_limits(&s->rule, governing, q);
        switch (width) {
        case WIDTH_PROFILE: /* the profile was kept to, something else was not */
                s->rule.profile = profile ? governing->profile : PROFILE_NONE;
                s->rule.misses = profile ? governing->misses : 0;
                s->rule.path = profile ? governing->path : SLICE_EMPTY;
                return profile;
        case WIDTH_PATH:
                if (governed && path_ok(q->path))
                        s->rule.path = q->path;
                else if (profile)
                        return false;
                suggest_methods(s, q, governed);
                return true;
        case WIDTH_METHODS: /* for a whole host: that would undo the profile */
                suggest_methods(s, q, governed);
                return !profile;
        case WIDTH_HOST:
        case WIDTH_COUNT:
                break;
        }
        return !profile;
}

/* Would the rule, standing first, let the request pass? A request that hides its method or path is refused by every narrow rule. */
static bool rule_allows(struct slice rule, const struct policy_request_query *q)
{
        struct diags *errors = calloc(1, sizeof(*errors)); /* large */
        struct policy_verdict v = { .allow = false };
        struct policy *p = NULL;
        struct buf text;

        buf_init(&text, RULES_STRING_BYTES * 4);
        buf_add_str(&text, "rules {\n");
        buf_add_slice(&text, rule);
        buf_add_str(&text, "\n}\n");
        if (errors && !text.failed)
                p = policy_parse(buf_slice(&text), "suggestion", errors);
        if (p)
                policy_request(p, q, &v);
        policy_free(p);
        buf_fini(&text);
        free(errors);
        return v.allow;
}

void policy_suggest_request(const struct policy *p, const struct policy_request_query *q, int rule, struct buf *out)
{
        bool governed = rule >= 0 && (size_t)rule < p->prog.rules.count;
        const struct rule *governing = governed && p->prog.rules.rules[rule].action == RULE_ALLOW && p->prog.rules.rules[rule].proto == PROTO_WEB ? &p->prog.rules.rules[rule] : NULL;

        if (!can_suggest(&q->flow) || q->flow.port == 0)
                return;
        /* What a rule says about an agent's model, its preset says, and no rule comes before that. */
        if (governed && policy_is_model_host(p, q->flow.name))
                return;
        for (enum width width = WIDTH_PROFILE; width < WIDTH_COUNT; width++) {
                struct suggestion s;
                struct buf text;
                bool good;

                if (!make_suggestion(&s, q, governing, governed, width))
                        continue;
                buf_init(&text, 0);
                print_rule(&text, &s.rule);
                good = !text.failed && rule_allows(buf_slice(&text), q);
                if (good)
                        buf_add_slice(out, buf_slice(&text));
                buf_fini(&text);
                if (good)
                        return;
        }
}
