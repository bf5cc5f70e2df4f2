/* One generation of the policy as this door uses it: compiled rules and the certificate stores of hosts that name a CA. */
#ifndef BROME_OUTER_RULESET_H
#define BROME_OUTER_RULESET_H

#include "outer/tls.h"
#include "rules/policy.h"
#include "wire/authority.h"

struct ruleset {
        struct policy *policy;
        long long generation;
        struct ruleset_ca *cas;
        size_t ca_count;
};

/* Reads the policy memory file (docs/CONTROL.md). fd is borrowed. NULL with the reason. */
struct ruleset *ruleset_load(int fd, long long generation, struct tls *tls, struct err *err) __attribute__((warn_unused_result));
void ruleset_free(struct ruleset *r);
/* System roots and that CA; NULL: no such CA came with the policy (the host is then not reachable). Borrows from r. */
struct x509_store_st *ruleset_store(const struct ruleset *r, struct slice ca_path);

/* Would what was dialled under `before` (to *address; NULL: by way of a proxy, or not connected yet) be dialled in the same way under `after`: to that pin or to no pin, to that port,
 * and under TLS with the same CA, byte for byte? The guard and the rules are asked elsewhere. */
bool ruleset_keeps_route(const struct ruleset *before, const struct ruleset *after, const struct authority *to, bool tls, const struct addr *address);

#endif
