/* Linter, accounts: credentials that no rule reaches, rules that keep them out or lead where none is, profiles that their own limits contradict. */
#include "base/esc.h"
#include "base/host.h"
#include "rules/profile.h"
#include "rules/rules_priv.h"

static bool target_names(const struct target *t, struct slice name)
{
        switch (t->kind) {
        case TARGET_ANY:
                return true;
        case TARGET_NAME:
                return slice_eq(t->name, name);
        case TARGET_SUBTREE:
                return host_is_under(name, t->name);
        case TARGET_BELOW:
                return name.n != t->name.n && host_is_under(name, t->name);
        case TARGET_TABLE:
                for (size_t i = 0; i < t->table->count; i++)
                        if (target_names(&t->table->entries[i], name))
                                return true;
                return false;
        case TARGET_CIDR:
                break;
        }
        return false;
}

static bool rule_names(const struct rule *r, const struct binding_host *h)
{
        bool port = false;

        for (size_t i = 0; i < r->port_count; i++)
                port = port || (h->port >= r->ports[i].lo && h->port <= r->ports[i].hi);
        for (size_t i = 0; port && i < r->target_count; i++)
                if (target_names(&r->targets[i], h->name))
                        return true;
        return false;
}

/* Names it with a word of its own: `any` and patterns that happen to take it in are no mistake. */
static bool rule_means(const struct rule *r, const struct binding_host *h)
{
        for (size_t i = 0; i < r->target_count; i++)
                if (r->targets[i].kind == TARGET_NAME && slice_eq(r->targets[i].name, h->name))
                        return rule_names(r, h);
        return false;
}

static bool via_leads_to(const struct rule *r, const struct binding_host *h) { return r->via.found && r->via.port == h->port && slice_eq(r->via.name, h->name); }

/* ---- one rule --------------------------------------------------------------------------------------------------------------------------------- */

static void lint_via(const struct lint *l, const struct rule *r)
{
        const struct binding_host to = { r->via.name, r->via.port };

        for (size_t i = 0; i < l->bound_count; i++)
                for (size_t j = 0; j < l->bound[i]->b.host_count; j++)
                        if (l->bound[i]->b.attach && via_leads_to(r, &l->bound[i]->b.hosts[j]))
                                return;
        lint_warn(l, r->at, "this rule leads to %s:%u, and no bound credential is attached there: the mirror sees what the guest sends and nothing else", esc(to.name), to.port);
}

static bool rule_takes(const struct rule *r, const char *method, const char *path, const char *query)
{
        struct policy_request_query q = { .method = slice_str(method), .query = slice_str(query), .has_query = *query != 0, .has_body = slice_is(slice_str(method), "POST") };
        struct buf full;
        enum policy_limit which;
        enum reason why;
        int64_t max;
        bool takes;

        q.body_bytes = q.has_body ? 1 : 0;
        q.flow.port = 443;
        buf_init(&full, RULES_PATH_BYTES + 64);
        buf_add_slice(&full, slice_first(r->path, r->profile_skip));
        buf_add_str(&full, path);
        q.path = buf_slice(&full);
        takes = limits_hold(r, &q, &which, &why, &max) == HOLD_YES;
        buf_fini(&full);
        return takes;
}

static void lint_profile(const struct lint *l, const struct rule *r)
{
        if (r->profile == PROFILE_GIT && !rule_takes(r, "POST", "/r/git-upload-pack", ""))
                lint_warn(l, r->at, "a clone is a POST, which this rule's other limits refuse; `as git` alone reads and nothing else");
        if ((r->profile == PROFILE_GIT && !rule_takes(r, "GET", "/r/info/refs", "service=git-upload-pack")) || (r->profile == PROFILE_NPM && !rule_takes(r, "GET", "/p", "")))
                lint_warn(l, r->at, "`as %s` begins with a GET, which this rule's other limits refuse", profile_name(r->profile));
}

static void lint_bound(const struct lint *l, const struct rule *r, const struct binding *b)
{
        for (size_t i = 0; i < b->host_count; i++) {
                const struct binding_host *h = &b->hosts[i];
                if (!rule_means(r, h) && !via_leads_to(r, h))
                        continue;
                if (r->anonymous)
                        lint_warn(l, r->at, "the credential `%s` belongs to %s, and this rule refuses every request that carries an account", esc(b->name), esc(h->name));
                else if (r->proto == PROTO_TLS || r->proto == PROTO_TCP)
                        lint_warn(l, r->at, "the credential `%s` is not swapped in where bytes pass unseen: %s needs `web`", esc(b->name), esc(h->name));
                return;
        }
}

/* ---- a workspace -------------------------------------------------------------------------------------------------------------------------------- */

static bool reached(const struct ruleset *rs, const struct binding_host *h)
{
        bool found = rs->default_allow;

        for (size_t i = 0; !found && i < rs->count; i++)
                found = rs->rules[i].action == RULE_ALLOW && (rule_names(&rs->rules[i], h) || via_leads_to(&rs->rules[i], h));
        return found;
}

static void lint_credential(const struct lint *l, const struct ruleset *rs, size_t n)
{
        const struct binding *b = &l->bound[n]->b;
        uint32_t at = l->workspace ? l->workspace->bound[n].at : UINT32_MAX;

        for (size_t i = 0; i < b->host_count; i++)
                if (!reached(rs, &b->hosts[i]))
                        lint_warn(l, at, "the credential `%s` is good for %s:%u, which no rule allows", esc(b->name), esc(b->hosts[i].name), b->hosts[i].port);
}

/* Variables that the guest would be given twice. */
static void lint_variables(const struct lint *l, size_t n)
{
        const struct config_credential *c = l->bound[n];
        const struct config_workspace *w = &l->workspace->w;

        for (size_t i = 0; i < n && !c->b.attach; i++)
                if (!l->bound[i]->b.attach && (l->bound[i]->b.kind == c->b.kind ? kind_row(c->b.kind)->env[0] != NULL && !c->as_env.n && !l->bound[i]->as_env.n
                                                                                : c->as_env.n && slice_eq(c->as_env, l->bound[i]->as_env)))
                        lint_warn(l, l->workspace->bound[n].at, "`%s` and `%s` give the guest the same variable: `as env NAME` names another one", esc(l->bound[i]->b.name), esc(c->b.name));
        for (size_t i = 0; i < w->env_count; i++)
                if (c->as_env.n && slice_eq(w->env[i].name, c->as_env))
                        lint_warn(l, l->workspace->bound[n].at, "`env %s` and the credential `%s` give the guest the same variable", esc(c->as_env), esc(c->b.name));
}

static void lint_agent(const struct lint *l)
{
        const struct config_workspace *w = &l->workspace->w;

        if (w->agent_kind == ACCOUNT_KIND_COUNT)
                return;
        for (size_t i = 0; i < l->bound_count; i++)
                if (l->bound[i]->b.kind == w->agent_kind)
                        return;
        lint_warn(l, l->workspace->at, "the agent `%s` uses a credential of kind %s, and none is bound", esc(w->agent), kind_row(w->agent_kind)->name);
}

void lint_accounts(const struct lint *l, const struct ruleset *rs)
{
        for (size_t i = 0; i < rs->count; i++) {
                const struct rule *r = &rs->rules[i];
                if (r->action != RULE_ALLOW)
                        continue;
                if (r->via.found)
                        lint_via(l, r);
                if (r->profile != PROFILE_NONE)
                        lint_profile(l, r);
                for (size_t j = 0; j < l->bound_count; j++)
                        lint_bound(l, r, &l->bound[j]->b);
        }
        for (size_t i = 0; i < l->bound_count; i++) {
                lint_credential(l, rs, i);
                if (l->workspace)
                        lint_variables(l, i);
        }
        if (l->workspace)
                lint_agent(l);
}
