/* Checks of accounts, after everything was read: the credentials that a workspace binds are there, and no host belongs to two of them. */
#include "base/esc.h"
#include "rules/rules_priv.h"

static const struct credential_entry *find_credential(const struct program *prog, struct slice name)
{
        for (size_t i = 0; i < prog->credential_count; i++)
                if (slice_eq(prog->credentials[i].c.b.name, name))
                        return &prog->credentials[i];
        return NULL;
}

static const struct binding_host *shared_host(const struct binding *a, const struct binding *b)
{
        for (size_t i = 0; i < a->host_count; i++)
                for (size_t j = 0; j < b->host_count; j++)
                        if (a->hosts[i].port == b->hosts[j].port && slice_eq(a->hosts[i].name, b->hosts[j].name))
                                return &a->hosts[i];
        return NULL;
}

static void refuse_shared(const struct program *prog, struct diags *errors, uint32_t at, const struct binding *b, const struct binding *before)
{
        const struct binding_host *h = shared_host(b, before);

        if (h)
                diag_at(prog, errors, at, "the host `%s:%u` of the credential `%s` belongs to `%s` already: a workspace uses one account a host", esc(h->name), h->port, esc(b->name),
                        esc(before->name));
}

static void bind_workspace(struct program *prog, struct workspace_entry *e, struct diags *errors)
{
        const struct config_credential **list;

        if (e->bound_count == 0)
                return;
        list = arena_alloc_array(&prog->arena, e->bound_count, sizeof(struct config_credential *));
        if (!list) {
                diag_at(prog, errors, UINT32_MAX, "out of memory");
                return;
        }
        for (size_t i = 0; i < e->bound_count; i++) {
                const struct credential_entry *c = find_credential(prog, e->bound[i].name);
                if (!c) {
                        diag_at(prog, errors, e->bound[i].at, "there is no credential `%s`: say what it is with `credential %s { kind …; for … }`", esc(e->bound[i].name),
                                esc(e->bound[i].name));
                        continue;
                }
                for (size_t j = 0; j < e->w.credential_count; j++)
                        refuse_shared(prog, errors, e->bound[i].at, &c->c.b, &list[j]->b);
                list[e->w.credential_count++] = &c->c;
        }
        e->w.credentials = list;
}

void check_accounts(struct program *prog, enum parse_mode mode, struct diags *errors)
{
        if (mode == PARSE_POLICY)
                for (size_t i = 0; i < prog->credential_count; i++)
                        for (size_t j = 0; j < i; j++)
                                refuse_shared(prog, errors, prog->credentials[i].at, &prog->credentials[i].c.b, &prog->credentials[j].c.b);
        for (size_t i = 0; i < prog->workspace_count; i++)
                bind_workspace(prog, &prog->workspaces[i], errors);
}
