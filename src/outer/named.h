/* Which objects did a git server name to this workspace? Learned from what it answers to `ls-refs` and, of a shallow clone's edge, to `fetch`; asked when a fetch wants some.
 *
 * Bounded: the repository that was used longest ago is forgotten for another. What does not fit counts as not named. */
#ifndef BROME_OUTER_NAMED_H
#define BROME_OUTER_NAMED_H

#include "base/slice.h"

struct named;
struct named *named_new(void);
void named_free(struct named *n); /* NULL is fine; wipes */
/* The server of `repository` (host, port and path, as the guest names them) said this id (40 or 64 digits). */
void named_add(struct named *n, struct slice repository, struct slice id);
enum named_answer { NAMED_NO, NAMED_YES, NAMED_AGAIN }; /* AGAIN: the same body asked the same before */
enum { NAMED_USES = 8 };
/* A body that asks. Where another one asks between for the same id, a repetition is not seen; but no body hears YES more often than there are ids. */
struct named_body {
        uint32_t number; /* its own */
        uint32_t went[NAMED_USES];
};
/* use: what for, below NAMED_USES. */
enum named_answer named_ask(struct named *n, struct slice repository, struct slice id, struct named_body *body, unsigned use);

#endif
