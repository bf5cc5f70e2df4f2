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

/* The conditional rules so far, with what tells most pairs apart at once. */
struct conditional {
        const struct rule *rule;
        uint16_t lo, hi;  /* span of its ports */
        uint32_t last;    /* hash of the last two labels when all its targets are one name or pattern; 0: look closer */
};

/* Names that overlap end in the same two labels: a pattern's base has two at least, or it would be a public suffix. */
static uint32_t last_labels(const struct rule *r)
{
        const struct target *t = &r->targets[0];
        unsigned dots = 0;
        size_t i = t->name.n;

        if (r->target_count != 1 || t->kind == TARGET_ANY || t->kind == TARGET_CIDR || t->kind == TARGET_TABLE)
                return 0;
        while (i && (t->name.p[i - 1] != '.' || ++dots < 2))
                i--;
        return index_hash(slice_skip(t->name, i)) | 1;
}

static struct conditional conditional_of(const struct rule *r)
{
        return (struct conditional){ r, r->ports[0].lo, r->ports[r->port_count - 1].hi, last_labels(r) };
}

static void check_against(const struct program *prog, const struct conditional *list, size_t count, const struct rule *r, struct diags *errors)
{
        struct conditional own = conditional_of(r);

        for (size_t i = 0; i < count; i++) {
                const struct conditional *c = &list[i];
                if (c->lo > own.hi || c->hi < own.lo || (c->last && own.last && c->last != own.last))
                        continue;
                if (!ports_overlap(c->rule, r) || !targets_overlap(c->rule, r))
                        continue;
                diag_at(prog, errors, r->at, "this rule passes bytes unseen where an earlier `web` rule looks at %s: nobody could tell which one holds",
                        c->rule->path.n ? "the path" : "the request");
                return;
        }
}

static void check_uninspected(struct program *prog, const struct ruleset *rs, struct diags *errors)
{
        struct conditional *list = arena_alloc_array(&prog->arena, rs->count, sizeof(*list));
        size_t count = 0;

        if (!list) {
                diag_at(prog, errors, UINT32_MAX, "out of memory");
                return;
        }
        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                if (rule_is_conditional(r))
                        list[count++] = conditional_of(r);
                else if (is_uninspected(r))
                        check_against(prog, list, count, r, errors);
        }
}

void check_ruleset(struct program *prog, struct ruleset *rs, struct diags *errors)
{
        size_t before = errors->total;

        check_tables(prog, rs, errors);
        if (errors->total == before)
                check_uninspected(prog, rs, errors);
}
