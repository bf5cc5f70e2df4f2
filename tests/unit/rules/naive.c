/* Reference matcher: see naive.h. Written for plainness; quadratic or worse everywhere. */
#include "naive.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "rules/rules_priv.h"

enum via { VIA_NOT = 0, VIA_ANY = 1, VIA_NAME = 2, VIA_PATTERN = 4, VIA_LITERAL = 8, VIA_RESOLVED = 16 };

static bool below(struct slice name, struct slice base)
{
        for (size_t i = 1; i < name.n; i++)
                if (name.p[i - 1] == '.' && slice_eq(slice_skip(name, i), base))
                        return true;
        return false;
}

static bool in_cidr(const struct cidr *c, const struct addr *a)
{
        bool v4 = memcmp(a->b, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0, rule4 = c->bits >= 96 && memcmp(c->addr.b, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0;

        if (v4 != rule4)
                return false;
        for (unsigned i = 0; i < c->bits; i++)
                if (((a->b[i / 8] ^ c->addr.b[i / 8]) >> (7 - i % 8)) & 1)
                        return false;
        return true;
}

/* NAT64, as one example of an IPv6 spelling; the others are rows of test_policy.c. */
static bool in_cidr_by_nat64(const struct cidr *c, const struct addr *a)
{
        struct addr v4 = addr_v4(0);

        if (memcmp(a->b, "\0\x64\xff\x9b\0\0\0\0\0\0\0\0", 12) != 0)
                return false;
        memcpy(v4.b + 12, a->b + 12, 4);
        return in_cidr(c, &v4);
}

static unsigned target_via(const struct target *t, const struct policy_flow_query *q)
{
        unsigned via = VIA_NOT;

        if (t->kind == TARGET_ANY)
                return VIA_ANY;
        if (t->kind == TARGET_TABLE) {
                for (size_t i = 0; i < t->table->count; i++)
                        via |= target_via(&t->table->entries[i], q);
                return via;
        }
        if (t->kind == TARGET_CIDR) {
                if (q->name.n == 0)
                        return in_cidr(&t->cidr, q->literal) ? VIA_LITERAL : in_cidr_by_nat64(&t->cidr, q->literal) ? VIA_RESOLVED : VIA_NOT;
                return q->resolved && (in_cidr(&t->cidr, q->resolved) || in_cidr_by_nat64(&t->cidr, q->resolved)) ? VIA_RESOLVED : VIA_NOT;
        }
        if (q->name.n == 0)
                return VIA_NOT;
        if (t->kind == TARGET_NAME)
                return slice_eq(q->name, t->name) ? VIA_NAME : VIA_NOT;
        if (t->kind == TARGET_SUBTREE && slice_eq(q->name, t->name))
                return VIA_PATTERN;
        return below(q->name, t->name) ? VIA_PATTERN : VIA_NOT;
}

/* How the rule's scope but for the path fits, or VIA_NOT. */
static unsigned scope(const struct rule *r, const struct policy_flow_query *q)
{
        unsigned via = VIA_NOT;
        bool port = r->proto == PROTO_ICMP;
        enum flow_proto proto = r->proto == PROTO_UDP ? FLOW_UDP : r->proto == PROTO_ICMP ? FLOW_ICMP : FLOW_TCP;

        for (size_t i = 0; i < r->port_count; i++)
                port = port || (q->port >= r->ports[i].lo && q->port <= r->ports[i].hi);
        if (proto != q->proto || !port)
                return VIA_NOT;
        for (size_t i = 0; i < r->target_count; i++)
                via |= target_via(&r->targets[i], q);
        return r->action == RULE_ALLOW ? via & ~(unsigned)VIA_RESOLVED : via;
}

static bool private_ok(const struct policy *p, const struct policy_flow_query *q, unsigned via)
{
        if (q->name.n == 0)
                return (via & VIA_LITERAL) != 0;
        for (size_t i = 0; i < p->prog.host_count; i++) {
                const struct host_directive *d = &p->prog.hosts[i].d;
                if (slice_eq(d->name, q->name))
                        return d->pinned || (d->private_ok && (via & VIA_NAME));
        }
        return false;
}

static void set(struct policy_verdict *v, bool allow, enum flow_action action, int rule, enum reason why, bool log, bool priv)
{
        *v = (struct policy_verdict){ .allow = allow, .action = allow ? action : FLOW_DENY, .rule = rule, .reason = allow ? REASON_NONE : why, .log = log,
                                      .admits_private = allow && priv, .max_body = -1 };
}

static bool has_limits(const struct rule *r) { return r->read_only || r->method_count || r->query != QUERY_ANY || r->body != BODY_ANY; }

void naive_flow(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v)
{
        const struct ruleset *rs = &p->prog.rules;
        static const enum flow_action actions[] = { FLOW_INSPECT, FLOW_TLS_PASS, FLOW_SPLICE, FLOW_ALLOW, FLOW_ALLOW, FLOW_INSPECT_OR_SPLICE };

        /* A request might be allowed by a path rule that stands before the first rule that ends the walk. */
        for (size_t i = 0, seen = 0; i <= rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                unsigned via;
                bool open_end;
                if (i == rs->count) {
                        set(v, rs->default_allow && q->proto == FLOW_TCP, seen ? FLOW_INSPECT : FLOW_INSPECT_OR_SPLICE, POLICY_DEFAULT_RULE, REASON_DEFAULT_DENY, false, false);
                        return;
                }
                via = scope(r, q);
                if (!via)
                        continue;
                open_end = r->path.n || (r->action == RULE_DENY && has_limits(r));
                if (open_end && r->action == RULE_ALLOW) {
                        set(v, true, FLOW_INSPECT, (int)i, REASON_NONE, r->log, private_ok(p, q, via));
                        return;
                }
                if (open_end) {
                        seen = 1;
                        continue;
                }
                if (r->action == RULE_ALLOW && seen && (r->proto == PROTO_TLS || r->proto == PROTO_TCP)) {
                        set(v, false, FLOW_DENY, (int)i, REASON_UNINSPECTED, r->log, false);
                        return;
                }
                set(v, r->action == RULE_ALLOW, seen && r->proto == PROTO_ANY ? FLOW_INSPECT : actions[r->proto], (int)i, REASON_RULE_DENY, r->log, private_ok(p, q, via));
                v->ask = r->ask && (r->proto == PROTO_TLS || r->proto == PROTO_TCP);
                return;
        }
}

void naive_opaque(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v)
{
        const struct ruleset *rs = &p->prog.rules;

        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                unsigned via = scope(r, q);
                bool spliced = r->proto == PROTO_ANY || r->proto == PROTO_TCP;
                if (!via)
                        continue;
                if (r->action == RULE_ALLOW && spliced)
                        set(v, true, FLOW_SPLICE, (int)i, REASON_NONE, r->log, private_ok(p, q, via)), v->ask = r->ask;
                else
                        set(v, false, FLOW_DENY, (int)i, r->action == RULE_DENY && !r->path.n && !has_limits(r) ? REASON_RULE_DENY : REASON_NOT_HTTP_OR_TLS, r->log, false);
                return;
        }
        set(v, rs->default_allow, FLOW_SPLICE, POLICY_DEFAULT_RULE, REASON_DEFAULT_DENY, false, false);
}

static bool hidden_slash(struct slice s) { return s.n >= 3 && (slice_ieq(slice_first(s, 3), SLICE_LIT("%2f")) || slice_ieq(slice_first(s, 3), SLICE_LIT("%5c"))); }

bool naive_glob(struct slice pat, struct slice s, bool sure)
{
        bool two = pat.n > 1 && pat.p[0] == '*' && pat.p[1] == '*';

        if (pat.n == 0)
                return s.n == 0;
        if (pat.p[0] != '*')
                return s.n && s.p[0] == pat.p[0] && naive_glob(slice_skip(pat, 1), slice_skip(s, 1), sure);
        for (;;) {
                if (naive_glob(slice_skip(pat, two ? 2 : 1), s, sure))
                        return true;
                if (s.n == 0 || (!two && (s.p[0] == '/' || (sure && hidden_slash(s)))))
                        return false;
                s = slice_skip(s, 1);
        }
}

/* The profiles as regular expressions (POSIX extended, with a back reference). */
#define SCOPE "[a-z0-9][a-z0-9._-]*"
#define NAME "[A-Za-z0-9][A-Za-z0-9._-]*"
#define NUMBER "(0|[1-9][0-9]{0,15})"
#define TAIL "[0-9A-Za-z][0-9A-Za-z.-]{0,63}"
#define VERSION NUMBER "\\." NUMBER "\\." NUMBER "(-" TAIL ")?(\\+" TAIL ")?"
#define REPOSITORY "/[A-Za-z0-9._~@+/-]*[A-Za-z0-9._~@+-]"
static const struct {
        enum policy_profile profile;
        const char *methods, *query, *path;
} forms[] = {
        { PROFILE_NPM, "GET HEAD", "", "^/(@" SCOPE "(/|%2[Ff]))?" NAME "$" },
        { PROFILE_NPM, "GET", "", "^/(@" SCOPE "/)?(" NAME ")/-/(\\1)?\\2-" VERSION "\\.tgz$" },
        { PROFILE_NPM, "GET", "", "^/-/npm/v1/keys$" },
        { PROFILE_NPM, "GET", "", "^/-/npm/v1/attestations/(@" SCOPE "(/|%2[Ff]))?" NAME "@" VERSION "$" },
        { PROFILE_NPM, "GET", "", "^/-/package/(@" SCOPE "(/|%2[Ff]))?" NAME "/dist-tags$" },
        { PROFILE_GIT, "GET", "service=git-upload-pack", "^" REPOSITORY "/info/refs$" },
        { PROFILE_GIT, "POST", "", "^" REPOSITORY "/git-upload-pack$" },
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]), PATH_MAX_BYTES = 600 };

static bool word_in(const char *list, struct slice word)
{
        for (const char *p = list; *p; p++)
                if ((p == list || p[-1] == ' ') && strncmp(p, (const char *)word.p, word.n) == 0 && (p[word.n] == 0 || p[word.n] == ' '))
                        return word.n > 0;
        return false;
}

static bool form_fits(size_t i, const char *path)
{
        static regex_t compiled[FORMS];
        static bool ready[FORMS];

        if (!ready[i] && regcomp(&compiled[i], forms[i].path, REG_EXTENDED) != 0)
                abort();
        ready[i] = true;
        return regexec(&compiled[i], path, 0, NULL, 0) == 0;
}

bool naive_profile(enum policy_profile profile, struct slice path, const struct policy_request_query *q)
{
        char text[PATH_MAX_BYTES];

        if (path.n >= sizeof(text) || (path.n && memchr(path.p, 0, path.n)) || q->upgrade != UPGRADE_NONE || q->override_header)
                return false;
        snprintf(text, sizeof(text), "%.*s", SLICE_FMT(path));
        for (size_t i = 0; i < FORMS; i++)
                if (forms[i].profile == profile && word_in(forms[i].methods, q->method) && slice_is(q->query, forms[i].query) && q->has_query == (forms[i].query[0] != 0) &&
                    form_fits(i, text))
                        return slice_is(q->method, "POST") || !q->has_body || q->body_bytes == 0;
        return false;
}

static void of_rule(struct policy_verdict *v, const struct policy *p, const struct rule *r)
{
        v->ask = r->ask;
        v->anonymous = r->anonymous;
        v->stream_ok = r->stream_ok;
        v->profile = r->profile;
        v->misses = r->misses;
        v->via = r->via;
        if (!r->via.found)
                return;
        v->admits_private = false;
        for (size_t i = 0; i < p->prog.host_count; i++)
                if (slice_eq(p->prog.hosts[i].d.name, r->via.name))
                        v->admits_private = p->prog.hosts[i].d.pinned || p->prog.hosts[i].d.private_ok;
}

/* 1 holds, 0 not, -1 unsure. The limits themselves have tables of cases in test_policy.c; here only their place in the walk is in question. */
static int holds(const struct rule *r, const struct policy_request_query *q, struct policy_verdict *v)
{
        struct rule without = *r;
        enum hold h;
        struct slice rest = slice_skip(q->path, r->profile_skip);

        without.profile = PROFILE_NONE;
        h = limits_hold(&without, q, &v->failed, &v->reason, &v->max_body);
        if (r->profile == PROFILE_NONE)
                return h == HOLD_YES ? 1 : h == HOLD_NO ? 0 : -1;
        if (!slice_is(q->method, "POST"))
                v->max_body = 0;
        if (naive_profile(r->profile, rest, q))
                return h == HOLD_YES ? 1 : h == HOLD_NO ? 0 : -1;
        if (h != HOLD_NO) {
                v->failed = LIMIT_PROFILE;
                v->reason = REASON_PROFILE;
        }
        return 0;
}

void naive_request(const struct policy *p, const struct policy_request_query *q, struct policy_verdict *v)
{
        const struct ruleset *rs = &p->prog.rules;

        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                unsigned via = scope(r, &q->flow);
                struct policy_verdict w;
                int h;
                bool sure = !r->path.n || naive_glob(r->path, q->path, true), maybe = !r->path.n || naive_glob(r->path, q->path, false);
                if (!via || (!maybe && !q->override_header))
                        continue;
                if (!maybe) {
                        set(v, false, FLOW_DENY, (int)i, REASON_OVERRIDE, r->log, false);
                        return;
                }
                set(&w, true, FLOW_INSPECT, (int)i, REASON_NONE, r->log, private_ok(p, &q->flow, via));
                h = holds(r, q, &w);
                if (r->action == RULE_DENY) {
                        if (h == 0)
                                continue;
                        set(v, false, FLOW_DENY, (int)i, REASON_RULE_DENY, r->log, false);
                        return;
                }
                if (r->proto == PROTO_TCP || r->proto == PROTO_TLS) {
                        set(v, false, FLOW_DENY, (int)i, REASON_UNINSPECTED, r->log, false);
                } else if (!sure) {
                        set(v, false, FLOW_DENY, (int)i, REASON_PATH_AMBIGUOUS, r->log, false);
                } else {
                        *v = w;
                        if (h == 1)
                                of_rule(v, p, r);
                        if (h != 1) {
                                v->allow = false;
                                v->action = FLOW_DENY;
                                v->admits_private = false;
                        }
                }
                return;
        }
        set(v, rs->default_allow, FLOW_INSPECT, POLICY_DEFAULT_RULE, REASON_DEFAULT_DENY, false, false);
}

static bool flow_possible(const struct policy *p, struct slice name, enum flow_proto proto, unsigned port)
{
        struct policy_flow_query q = { .name = name, .proto = proto, .port = (uint16_t)port };
        struct policy_verdict v;

        if (proto != FLOW_ICMP && (port == 0 || port > 65535))
                return false;
        naive_flow(p, &q, &v);
        return v.allow;
}

bool naive_name_possible(const struct policy *p, struct slice name)
{
        const struct ruleset *rs = &p->prog.rules;

        if (flow_possible(p, name, FLOW_ICMP, 0) || flow_possible(p, name, FLOW_TCP, 1) || flow_possible(p, name, FLOW_UDP, 1))
                return true;
        for (size_t i = 0; i < rs->count; i++)
                for (size_t j = 0; j < rs->rules[i].port_count; j++)
                        for (int d = -1; d <= 1; d++)
                                for (int proto = FLOW_TCP; proto <= FLOW_UDP; proto++)
                                        if (flow_possible(p, name, (enum flow_proto)proto, (unsigned)(rs->rules[i].ports[j].lo + d)) ||
                                            flow_possible(p, name, (enum flow_proto)proto, (unsigned)(rs->rules[i].ports[j].hi + d)))
                                                return true;
        return false;
}
