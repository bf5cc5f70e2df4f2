/* The accounts of a policy: which credential does a host belong to, which hosts are the model's, what was decided after a trip.
 *
 * One hash table by host name, since it is asked for every request. It holds no secret and decides nothing: the account checks are in src/account. */
#include "rules/rules_priv.h"

int account_index(struct policy *p)
{
        const struct program *prog = &p->prog;
        size_t slots = 16, hosts = 0;

        for (size_t c = 0; c < prog->credential_count; c++)
                hosts += prog->credentials[c].c.b.host_count;
        while (slots < hosts * 2)
                slots *= 2;
        p->account_mask = slots - 1;
        p->account_slots = arena_alloc_array(&p->prog.arena, slots, sizeof(*p->account_slots));
        if (!p->account_slots)
                return -1;
        for (size_t c = 0; c < prog->credential_count; c++)
                for (size_t h = 0; h < prog->credentials[c].c.b.host_count; h++) {
                        const struct binding_host *host = &prog->credentials[c].c.b.hosts[h];
                        size_t i = index_hash(host->name) & p->account_mask;
                        while (p->account_slots[i].host)
                                i = (i + 1) & p->account_mask;
                        p->account_slots[i] = (struct account_slot_entry){ host, (uint32_t)c };
                }
        return 0;
}

size_t policy_account_count(const struct policy *p) { return p->prog.credential_count; }

const struct binding *policy_account_at(const struct policy *p, size_t i) { return i < p->prog.credential_count ? &p->prog.credentials[i].c.b : NULL; }

int policy_account_of(const struct policy *p, struct slice name, uint16_t port)
{
        const struct account_slot_entry *e;

        if (name.n == 0)
                return -1;
        for (size_t i = index_hash(name) & p->account_mask; (e = &p->account_slots[i])->host; i = (i + 1) & p->account_mask)
                if (e->host->port == port && slice_eq(e->host->name, name))
                        return (int)e->credential;
        return -1;
}

bool policy_is_model_host(const struct policy *p, struct slice name)
{
        for (size_t i = 0; i < p->prog.model_count; i++)
                if (slice_eq(p->prog.models[i], name))
                        return true;
        return false;
}

bool policy_trip_known(const struct policy *p, struct slice credential, struct slice host)
{
        for (size_t i = 0; i < p->prog.known_count; i++)
                if (slice_eq(p->prog.known[i].credential, credential) && slice_eq(p->prog.known[i].host, host))
                        return true;
        return false;
}
