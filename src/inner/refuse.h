/* Refusals: one row whether a rule, a codec or the outer door says no, and the short page that tells the person. */
#ifndef BROME_INNER_REFUSE_H
#define BROME_INNER_REFUSE_H

#include "inner/exchange.h"

struct refusal {
        const char *id;   /* in records; static */
        const char *text; /* for a person; static */
        uint16_t status;  /* HTTP */
        uint32_t h2;      /* HTTP/2 error code where no answer can be given */
        uint16_t retry_s; /* Retry-After: a person may have decided by then; 0: none */
};

struct refusal refusal_of(enum reason r);
struct refusal refusal_of_wire(enum wire_reason r);
/* Would a rule have helped? Then a suggestion is printed. */
bool refusal_is_policy(enum reason r);

/* The body of the answer: why, which rule, and the command that would allow it. x may lack a request (malformed): then only why. Appends to
 * out; printable text only. */
void refuse_body(struct buf *out, const struct exchange *x, const struct refusal *r);

#endif
