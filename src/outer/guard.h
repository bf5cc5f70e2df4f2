/* Address guard: which addresses a name must not lead to. Pure.
 *
 * One table of ranges, each with its class and a word for people. IPv6 spellings that carry an IPv4 address (mapped, translated,
 * compatible, NAT64, 6to4, Teredo, ISATAP) are judged by what they carry as well; the worse of the two counts. Documentation ranges are
 * ordinary addresses. SECURITY: what is not in the table may be dialled, so the table errs on the side of naming. */
#ifndef BROME_OUTER_GUARD_H
#define BROME_OUTER_GUARD_H

#include "base/addr.h"
#include "rules/reasons.h"

enum guard_class { /* from harmless to worst */
        GUARD_PUBLIC,
        GUARD_PRIVATE,   /* somebody's own network: `host NAME { private ok }` admits it */
        GUARD_LOCAL,     /* this machine, its link, its cloud's metadata: only a pinned address or a rule that names the address */
        GUARD_NEVER,     /* no unicast destination at all */
};

struct guard_range {
        enum guard_class class;
        const char *what; /* "loopback"; a static string; "" for public */
};

struct guard_range guard_judge(const struct addr *a);

struct guard_claim {
        bool private_ok; /* the policy admits private addresses for this name */
        bool literal;    /* the guest used this very address, and a rule that names addresses admits it */
        bool pinned;     /* `host NAME { address … }` */
};
/* REASON_NONE when it may be dialled, ADDRESS_PRIVATE or ADDRESS_FORBIDDEN otherwise; *what says which range. */
enum reason guard_check(const struct addr *a, const struct guard_claim *claim, const char **what);

#endif
