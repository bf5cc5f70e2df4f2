/* A binding: a credential as the gate sees it, without its secret. It stands in the policy of a workspace; both doors have it.
 *
 * A host (name and port) belongs to at most one binding of a workspace: the checker of src/rules sees to it. Everything borrows from the policy. */
#ifndef BROME_ACCOUNT_BINDING_H
#define BROME_ACCOUNT_BINDING_H

#include "account/kind.h"

#include <stdint.h>

enum { ACCOUNT_HOSTS_MAX = 32 }; /* of one credential */

struct binding_host {
        struct slice name; /* canonical, exact; never a pattern or an address */
        uint16_t port;     /* as the guest sees it */
};

struct binding {
        struct slice name; /* of the credential: [a-z0-9][a-z0-9-]* */
        enum account_kind kind;
        const struct binding_host *hosts;
        size_t host_count;
        const struct account_field *fields; /* the kind's and the declared ones */
        size_t field_count;
        struct slice user;        /* of SLOT_BASIC: what attach writes, and the only one that may stand beside the placeholder; empty: any */
        struct slice placeholder; /* empty: none was minted (attach; or a policy that is only looked at) */
        bool attach;     /* added by the gate to every request; what the guest sent is stripped */
        bool ask;        /* ask before use */
        bool ask_wait;   /* also while there is nobody to ask */
        bool foreign_ok; /* other accounts may be used on these hosts */
};

bool binding_covers(const struct binding *b, struct slice host, uint16_t port);

#endif
