/* The hold: what goes up is looked at before it goes (DESIGN section 5). Only where the workspace has a placeholder, or a profile reads the body.
 *
 * The one idea: bytes stand in the hold until they are known to be clear, and the request itself stands behind its first MiB.
 *
 *   waiting   no room among HOLDS_BYTES yet: its bytes are not even read
 *   holding   no byte of the request has left; the leg got its room for what stands here, so that the guest goes on sending
 *   released  all of it, or its first HOLD_BYTES, is clear: the stream is open, and bytes go on as they are scanned
 *
 * Streams that are duplex by nature are released from the start. A coded body is scanned as it came and decoded; what goes on is what came,
 * but for a git body under its profile, which goes on as it was read.
 * So is one that looks packed and does not say so (guess.h). */
#ifndef BROME_INNER_HOLD_H
#define BROME_INNER_HOLD_H

#include "inner/exchange.h"

/* Of a vetted request with a body. REASON_NONE (x->hold is set when there is something to do), or why it is refused. */
enum reason hold_begin(struct exchange *x) __attribute__((warn_unused_result));
/* Of a spliced flow. 0, or -1 without memory. */
int hold_begin_stream(struct exchange *x) __attribute__((warn_unused_result));
bool hold_keeps(const struct exchange *x);    /* the stream must not be opened yet */
bool hold_rewrites(const struct exchange *x); /* the body goes on in another length than it came */
bool hold_has_room(const struct exchange *x); /* only while hold_keeps */
/* Takes bytes, or the end. -1: x was refused and has ended. */
int hold_feed(struct exchange *x, struct slice s);
int hold_end(struct exchange *x, struct headers *trailers);
void hold_taken(struct exchange *x); /* the link took what was prepaid */
void hold_stop(struct exchange *x);  /* the exchange ends. The memory goes with hold_free */
void hold_free(struct hold *h);

void hold_tick(struct door *d, int64_t now_ms);
void hold_turn(struct door *d); /* admits those that wait */

#endif
