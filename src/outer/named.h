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
/* body: a number of the body that asks; use: what for, below NAMED_USES. */
enum named_answer named_ask(struct named *n, struct slice repository, struct slice id, uint32_t body, unsigned use);

#endif
