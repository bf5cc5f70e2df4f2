/* Linter: rules that say less than they seem to. Warnings only; nothing here changes a verdict. */
#include <stdarg.h>
#include <stdio.h>

#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

enum { LINT_PAIRS_MAX = 100 * 1000 * 1000 }; /* pairs of targets looked at: a second or so */

static bool ports_cover(const struct rule *a, const struct rule *b)
{
        for (size_t i = 0; i < b->port_count; i++) {
                size_t j;
                for (j = 0; j < a->port_count && !(a->ports[j].lo <= b->ports[i].lo && a->ports[j].hi >= b->ports[i].hi); j++)
                        ;
                if (j == a->port_count)
                        return false;
        }
        return true;
}

static bool name_covers(const struct target *a, const struct target *b)
{
        if (!host_is_under(b->name, a->name))
                return false;
        switch (a->kind) {
        case TARGET_NAME:
                return b->kind == TARGET_NAME && b->name.n == a->name.n;
        case TARGET_SUBTREE:
                return true;
        case TARGET_BELOW:
                return b->name.n != a->name.n || b->kind == TARGET_BELOW;
        case TARGET_ANY:
        case TARGET_CIDR:
        case TARGET_TABLE:
                break;
        }
        return false;
}

/* `names_too`: b also judges names by what they resolve to, which an allow by address never does. */
static bool entry_covers(const struct target *a, const struct target *b, bool names_too)
{
        if (a->kind == TARGET_ANY)
                return true;
        if (b->kind == TARGET_ANY || (a->kind == TARGET_CIDR) != (b->kind == TARGET_CIDR))
                return false;
        if (a->kind != TARGET_CIDR)
                return name_covers(a, b);
        return !names_too && cidr_is_v4(&a->cidr) == cidr_is_v4(&b->cidr) && a->cidr.bits <= b->cidr.bits && cidr_has(&a->cidr, &b->cidr.addr);
}

static bool covered_by_rule(const struct rule *a, const struct target *b, bool names_too, size_t *budget)
{
        for (size_t i = 0; i < a->target_count; i++) {
                const struct target *t = &a->targets[i];
                size_t n = t->kind == TARGET_TABLE ? t->table->count : 1;
                const struct target *entries = t->kind == TARGET_TABLE ? t->table->entries : t;
                if (*budget < n)
                        return false;
                *budget -= n;
                for (size_t j = 0; j < n; j++)
                        if (entry_covers(&entries[j], b, names_too))
                                return true;
        }
        return false;
}

static bool targets_cover(const struct rule *a, const struct rule *b, size_t *budget)
{
        bool names_too = b->action == RULE_DENY && a->action == RULE_ALLOW;

        for (size_t i = 0; i < b->target_count; i++) {
                const struct target *t = &b->targets[i];
                size_t n = t->kind == TARGET_TABLE ? t->table->count : 1;
                const struct target *entries = t->kind == TARGET_TABLE ? t->table->entries : t;
                for (size_t j = 0; j < n; j++)
                        if (!covered_by_rule(a, &entries[j], names_too, budget))
                                return false;
        }
        return true;
}

static bool is_tcp(const struct rule *r) { return r->proto != PROTO_UDP && r->proto != PROTO_ICMP; }

/* Does a, which stands before b, take everything that b could decide? */
static bool rule_shadows(const struct rule *a, const struct rule *b, size_t *budget)
{
        bool same_path = a->proto == PROTO_WEB && a->action == RULE_ALLOW && b->proto == PROTO_WEB && a->path.n && slice_eq(a->path, b->path);

        if (is_tcp(a) != is_tcp(b) || (!is_tcp(a) && a->proto != b->proto))
                return false;
        return (!rule_is_conditional(a) || same_path) && ports_cover(a, b) && targets_cover(a, b, budget);
}

static bool rule_has(const struct rule *r, enum target_kind kind)
{
        for (size_t i = 0; i < r->target_count; i++)
                if (r->targets[i].kind == kind)
                        return true;
        return false;
}

static bool rule_has_port(const struct rule *r, unsigned port)
{
        for (size_t i = 0; i < r->port_count; i++)
                if (r->ports[i].lo <= port && port <= r->ports[i].hi)
                        return true;
        return false;
}

void lint_warn(const struct lint *l, uint32_t at, const char *fmt, ...)
{
        char text[sizeof(l->warnings->list[0].message)];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (l->workspace)
                diag_at(l->prog, l->warnings, at, "warning: workspace %.*s: %s", SLICE_FMT(l->workspace->w.name), text);
        else
                diag_at(l->prog, l->warnings, at, "warning: %s", text);
}

static void lint_one(const struct lint *l, const struct rule *r, bool names_before)
{
        bool any = rule_has(r, TARGET_ANY);

        if (r->action == RULE_ALLOW && r->proto == PROTO_ANY && any)
                lint_warn(l, r->at, "`allow any any` lets everything out but UDP and private addresses");
        else if (r->action == RULE_ALLOW && r->proto == PROTO_TCP && any)
                lint_warn(l, r->at, "this rule lets bytes out unseen to every name");
        else if (r->action == RULE_ALLOW && r->proto == PROTO_TCP && (rule_has_port(r, 443) || rule_has_port(r, 80)))
                lint_warn(l, r->at, "a `tcp` rule on a web port passes requests unseen; `web` would look at them");
        if (r->action == RULE_ALLOW && r->proto == PROTO_UDP && rule_has_port(r, 53))
                lint_warn(l, r->at, "DNS to a foreign server is a way out for data; names are answered by the gate");
        if (r->action == RULE_DENY && rule_has(r, TARGET_CIDR) && names_before)
                lint_warn(l, r->at, "this deny by address does not stop names that rules above it allow: put it first");
        for (size_t i = 0; i < r->method_count; i++)
                if (slice_is(r->methods[i], "TRACE") && r->action == RULE_ALLOW)
                        lint_warn(l, r->at, "TRACE shows a request's fields to whoever reads the answer");
}

/* The agent's preset: rules that the workspace's own cannot stand before. */
static size_t preset_first(const struct lint *l) { return l->workspace ? l->workspace->preset_first : 0; }

static void warn_never(const struct lint *l, const struct rule *r, const struct rule *before, bool preset)
{
        struct buf text;

        buf_init(&text, 0);
        print_rule(&text, before);
        if (preset)
                buf_addf(&text, "` of the agent `%s", esc(l->workspace->w.agent));
        lint_warn(l, r->at, "this rule is never reached: `%.*s` comes first", (int)(buf_len(&text) < 200 ? buf_len(&text) : 200), (const char *)buf_slice(&text).p);
        buf_fini(&text);
}

/* A deny or ask that names a host of the agent's model and closes nothing there. */
static void lint_own(const struct lint *l, const struct ruleset *rs, const struct rule *r)
{
        if (r->action == RULE_ALLOW && !r->ask)
                return;
        if (rule_has(r, TARGET_ANY) || rule_has(r, TARGET_CIDR) || rule_has(r, TARGET_TABLE))
                return; /* what is closed for everybody, not for this host */
        for (size_t i = 0; i < preset_first(l); i++)
                if (rs->rules[i].action == RULE_ALLOW && is_tcp(r) && ports_overlap(&rs->rules[i], r) && targets_overlap(&rs->rules[i], r)) {
                        lint_warn(l, r->at, "the rules of the agent `%s` come before this one, which closes nothing that they open", esc(l->workspace->w.agent));
                        return;
                }
}

static void lint_ruleset(const struct lint *l, const struct ruleset *rs)
{
        bool names_before = false;
        size_t budget = LINT_PAIRS_MAX;

        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                size_t j;
                lint_one(l, r, names_before);
                for (j = 0; j < i && !rule_shadows(&rs->rules[j], r, &budget);)
                        j++;
                if (j < i)
                        warn_never(l, r, &rs->rules[j], j < preset_first(l));
                else if (i >= preset_first(l))
                        lint_own(l, rs, r);
                /* An agent's rules stand above whatever is said; the hosts that they name are its model's. */
                if (i >= preset_first(l) && r->action == RULE_ALLOW && is_tcp(r) && (rule_has(r, TARGET_ANY) || rule_has(r, TARGET_NAME) || rule_has(r, TARGET_SUBTREE) || rule_has(r, TARGET_BELOW)))
                        names_before = true;
        }
        if (rs->default_allow)
                lint_warn(l, l->workspace ? rs->at : UINT32_MAX, "`default allow` lets out to every public address what no rule denies");
}

void policy_lint(const struct policy *p, struct diags *warnings)
{
        struct lint l = { .prog = &p->prog, .warnings = warnings };

        for (size_t i = 0; i < p->prog.credential_count && i < RULES_BOUND_MAX; i++)
                l.bound[l.bound_count++] = &p->prog.credentials[i].c;
        lint_ruleset(&l, &p->prog.rules);
        lint_accounts(&l, &p->prog.rules);
}

void config_lint(const struct config *c, const struct config_workspace *w, struct diags *warnings)
{
        const struct program *prog = config_program(c);

        for (size_t i = 0; i < prog->workspace_count; i++) {
                struct lint l = { .prog = prog, .workspace = &prog->workspaces[i], .warnings = warnings };
                if (&prog->workspaces[i].w != w)
                        continue;
                for (size_t j = 0; j < w->credential_count && j < RULES_BOUND_MAX; j++)
                        l.bound[l.bound_count++] = w->credentials[j];
                lint_ruleset(&l, &prog->workspaces[i].rules);
                lint_accounts(&l, &prog->workspaces[i].rules);
        }
}
