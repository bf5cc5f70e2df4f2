/* Checks of a whole rule set, after everything was read: tables exist, no uninspected rule opens what a path rule narrows. */
#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

bool cidr_is_v4(const struct cidr *c) { return addr_is_v4(&c->addr) && c->bits >= 96; }

/* A web rule with a path, or a deny with limits: the flow alone does not say whether it governs. */
bool rule_is_conditional(const struct rule *r)
{
        bool limits = r->read_only || r->method_count || r->query != QUERY_ANY || r->body != BODY_ANY;

        return r->path.n || (r->action == RULE_DENY && limits);
}

bool ports_overlap(const struct rule *a, const struct rule *b)
{
        for (size_t i = 0; i < a->port_count; i++)
                for (size_t j = 0; j < b->port_count; j++)
                        if (a->ports[i].lo <= b->ports[j].hi && b->ports[j].lo <= a->ports[i].hi)
                                return true;
        return false;
}

/* ---- overlap of targets -------------------------------------------------------------------------------------------------------------- */

static bool names_overlap(const struct target *a, const struct target *b)
{
        if (a->kind == TARGET_NAME && b->kind == TARGET_NAME)
                return slice_eq(a->name, b->name);
        if (a->kind == TARGET_NAME)
                return host_is_under(a->name, b->name) && (b->kind != TARGET_BELOW || a->name.n != b->name.n);
        if (b->kind == TARGET_NAME)
                return names_overlap(b, a);
        return host_is_under(a->name, b->name) || host_is_under(b->name, a->name);
}

static bool cidrs_overlap(const struct cidr *a, const struct cidr *b)
{
        if (cidr_is_v4(a) != cidr_is_v4(b))
                return false;
        return a->bits <= b->bits ? cidr_has(a, &b->addr) : cidr_has(b, &a->addr);
}

static bool entries_overlap(const struct target *a, const struct target *b)
{
        if (a->kind == TARGET_ANY || b->kind == TARGET_ANY)
                return true;
        if ((a->kind == TARGET_CIDR) != (b->kind == TARGET_CIDR))
                return false;
        return a->kind == TARGET_CIDR ? cidrs_overlap(&a->cidr, &b->cidr) : names_overlap(a, b);
}

static bool target_overlaps(const struct target *a, const struct target *b)
{
        if (a->kind == TARGET_TABLE) {
                for (size_t i = 0; a->table && i < a->table->count; i++)
                        if (target_overlaps(&a->table->entries[i], b))
                                return true;
                return false;
        }
        return b->kind == TARGET_TABLE ? target_overlaps(b, a) : entries_overlap(a, b);
}

bool targets_overlap(const struct rule *a, const struct rule *b)
{
        for (size_t i = 0; i < a->target_count; i++)
                for (size_t j = 0; j < b->target_count; j++)
                        if (target_overlaps(&a->targets[i], &b->targets[j]))
                                return true;
        return false;
}

/* ---- the checks ------------------------------------------------------------------------------------------------------------------------ */

static void check_tables(const struct program *prog, struct ruleset *rs, struct diags *errors)
{
        for (size_t i = 0; i < rs->count; i++)
                for (size_t j = 0; j < rs->rules[i].target_count; j++) {
                        struct target *t = &rs->rules[i].targets[j];
                        if (t->kind != TARGET_TABLE)
                                continue;
                        t->table = program_table(prog, t->name);
                        if (!t->table)
                                diag_at(prog, errors, t->at, "there is no table <%s>", esc(slice_first(t->name, RULES_NAME_BYTES)));
                }
}

static bool is_uninspected(const struct rule *r) { return r->action == RULE_ALLOW && (r->proto == PROTO_TLS || r->proto == PROTO_TCP); }

static void check_uninspected(const struct program *prog, const struct ruleset *rs, struct diags *errors)
{
        size_t conditional = 0;

        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                if (rule_is_conditional(r)) {
                        conditional++;
                        continue;
                }
                if (!conditional || !is_uninspected(r))
                        continue;
                for (size_t j = 0; j < i; j++) {
                        const struct rule *e = &rs->rules[j];
                        if (!rule_is_conditional(e) || !ports_overlap(e, r) || !targets_overlap(e, r))
                                continue;
                        diag_at(prog, errors, r->at, "this rule passes bytes unseen where an earlier `web` rule looks at %s: nobody could tell which one holds",
                                e->path.n ? "the path" : "the request");
                        break;
                }
        }
}

void check_ruleset(const struct program *prog, struct ruleset *rs, struct diags *errors)
{
        size_t before = errors->total;

        check_tables(prog, rs, errors);
        if (errors->total == before)
                check_uninspected(prog, rs, errors);
}
