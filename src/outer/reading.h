/* An exchange under a profile, as the outer door sees it: may it be asked (budget.h), what of a git body goes on (profile.h), which objects does the server name (named.h).
 *
 * SECURITY: the inner door reads a git body as well, and may have been taken over; what was named is known here first hand. */
#ifndef BROME_OUTER_READING_H
#define BROME_OUTER_READING_H

#include "outer/exchange.h"

struct reading;

/* After an exchange was admitted and aimed. REASON_NONE (ex->reading is set when a profile holds), or why it is refused. */
enum reason reading_begin(struct exchange *ex) __attribute__((warn_unused_result));
void reading_free(struct reading *r); /* NULL is fine */
/* Is it still read by the same profile? */
bool reading_fits(const struct exchange *ex, const struct decision *d);
/* Why it was refused, where there is more to say than the reason's own sentence; static. NULL: nothing. */
const char *reading_problem(const struct exchange *ex);

/* Is the body written anew? Then its bytes go to reading_feed, which appends to ex->up. */
bool reading_rewrites(const struct exchange *ex);
enum reason reading_feed(struct exchange *ex, struct slice in, bool last) __attribute__((warn_unused_result));
/* May the request be sent? Sets the length of its body. */
bool reading_ready(struct exchange *ex);
/* Its head is about to be written. */
void reading_sent(struct exchange *ex);

/* The answer's head, and its body as it comes from the origin. */
void reading_head(struct exchange *ex, const struct response *r);
bool reading_learns(const struct exchange *ex);
void reading_down(struct exchange *ex, struct slice in);
/* It ends without an answer, for this reason. */
void reading_fail(struct exchange *ex, enum reason reason);

#endif
