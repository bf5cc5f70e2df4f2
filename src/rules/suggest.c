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
enum width { WIDTH_PATH, WIDTH_METHODS, WIDTH_HOST, WIDTH_COUNT };

static void request_rule(const struct policy_request_query *q, bool governed, enum width width, struct buf *out)
{
        static const struct rule read_only = { .action = RULE_ALLOW, .read_only = true };
        bool port = q->flow.port != 80 && q->flow.port != 443;
        struct slice method = q->upgrade == UPGRADE_WEBSOCKET ? SLICE_LIT("GET") : q->method;
        enum policy_limit which;
        enum reason why;
        int64_t max;

        buf_add_str(out, "allow web ");
        suggest_host(out, &q->flow, port);
        if (port)
                buf_addf(out, ":%u", q->flow.port);
        if (width == WIDTH_HOST)
                return;
        if (governed && width == WIDTH_PATH && path_ok(q->path))
                buf_addf(out, " path \"%.*s\"", SLICE_FMT(q->path));
        if (limits_hold(&read_only, q, &which, &why, &max) == HOLD_YES)
                buf_add_str(out, " read-only");
        else if (method_ok(method)) {
                buf_add_str(out, governed ? " GET,HEAD,OPTIONS" : "");
                if (!governed || !reading(method))
                        buf_addf(out, governed ? ",%.*s" : " %.*s", SLICE_FMT(method));
        }
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

void policy_suggest_request(const struct policy_request_query *q, bool governed, struct buf *out)
{
        if (!can_suggest(&q->flow))
                return;
        for (enum width width = WIDTH_PATH; width < WIDTH_COUNT; width++) {
                struct buf rule;
                bool good;

                buf_init(&rule, 0);
                request_rule(q, governed, width, &rule);
                good = !rule.failed && rule_allows(buf_slice(&rule), q);
                if (good)
                        buf_add_slice(out, buf_slice(&rule));
                buf_fini(&rule);
                if (good)
                        return;
        }
}
