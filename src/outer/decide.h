/* The outer door's own judgement: the whole head against the policy, and the address against the guard. Pure.
 *
 * SECURITY: the inner door may have been taken over; nothing it says counts as a verdict. What comes in here is the canonical request as it will be
 * written to the origin, and the address that will be dialled. */
#ifndef BROME_OUTER_DECIDE_H
#define BROME_OUTER_DECIDE_H

#include "account/check.h"
#include "outer/guard.h"
#include "rules/policy.h"
#include "wire/request.h"

enum exchange_kind {
        KIND_HTTP,
        KIND_WEBSOCKET,
        KIND_TCP, /* a flow that a `tcp` rule admits */
        KIND_TLS, /* a flow that a `tls` rule admits */
        KIND_ANY, /* a flow that is neither TLS nor HTTP, under `any` or the default */
        KIND_UDP,
        KIND_ICMP,
        KIND_COUNT
};
const char *kind_name(enum exchange_kind k); /* for records: "http", "websocket", "tcp", … */

/* What this door is: the one of an account, or the plain one. */
struct decide_self {
        struct slice account; /* empty: the plain door, which serves every host that is nobody's */
        struct slice minted;  /* a placeholder that was minted in an answer and stands in this request in the credential's place; empty: none */
};

struct decision {
        bool allow;
        enum reason reason;
        int rule;
        bool log;
        bool ask;                /* the rule wants a person to agree first */
        int64_t max_body;        /* -1: no limit */
        enum policy_profile profile;
        uint32_t misses;         /* an hour; 0: the rule does not say */
        struct policy_via via;   /* borrows from the policy */
        const struct binding *binding; /* of the host that is dialled: always this door's account, NULL at the plain door; borrows from the policy */
        struct account_use use;  /* with a binding: what account_check found in the request */
        const char *why;         /* what a profile or the account fields did not like; static, NULL: the reason's own sentence */
        bool by_address;         /* the guard refused, not the rules */
        const char *address_is;  /* then: "private", "loopback", …; static */
};

/* resolved: the address about to be dialled, NULL while it is not known (then the guard judges literals only). */
void decide(const struct policy *p, const struct decide_self *self, enum exchange_kind kind, const struct request *req, const struct addr *resolved, struct decision *d);
/* The binding as this request uses it: with a minted placeholder where the credential's stands. */
struct binding decide_binding(const struct decide_self *self, const struct binding *b);
/* One sentence for brome-detail and the record: for a private address the line to add. Printable. */
void decide_explain(const struct decision *d, const struct request *req, const struct addr *resolved, char *out, size_t size);
/* The canonical host as the policy and a person see it. */
struct slice decide_host(const struct request *req, char literal[ADDR_TEXT_BYTES + 2]);

#endif
