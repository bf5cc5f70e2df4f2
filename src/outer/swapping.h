/* The placeholder in what follows a request's head: in its body, or in a WebSocket's text messages, where the credential declares such a field. The secret takes its place as the bytes
 * come from the link, so that limits, queues and windows see what will be sent.
 *
 * A body of a declared length is held until it is here, up to SWAP_HOLD_BYTES, since its length may change; a longer one loses its length. */
#ifndef BROME_OUTER_SWAPPING_H
#define BROME_OUTER_SWAPPING_H

#include "outer/exchange.h"

struct swapping;
/* Makes ex->swap where the binding declares a field for what this request carries. 0, or -1 (memory). */
int swapping_begin(struct exchange *ex) __attribute__((warn_unused_result));
void swapping_free(struct swapping *s); /* NULL is fine */
/* Appends to ex->up what may go on of these bytes; last: nothing follows. REASON_NONE, or why not. */
enum reason swapping_feed(struct exchange *ex, struct slice in, bool last) __attribute__((warn_unused_result));
/* Is enough of the body here for the request to go? Settles its length then. */
bool swapping_ready(struct exchange *ex);
/* Was the placeholder in it, or may it come yet? */
bool swapping_uses(const struct exchange *ex);
/* Do the rules still say the same of it? */
bool swapping_fits(const struct exchange *ex, const struct decision *d);

#endif
