/* The request as it is written to an origin. It is made when a connection is there, from the canonical request that was judged, and lives as long as the writing takes.
 *
 * Re-routed by `via`, its fields rebuilt where a profile says so, what could hide an answer's bytes from us narrowed, and last the placeholder swapped for the secret. */
#ifndef BROME_OUTER_OUTGOING_H
#define BROME_OUTER_OUTGOING_H

#include "outer/conn.h"
#include "outer/exchange.h"

/* Where it goes: names the origin, in the exchange's memory. 0, or -1 (memory). After each judgement that admits it by name. */
int outgoing_aim(struct exchange *ex) __attribute__((warn_unused_result));
/* Would the present decision send it elsewhere? */
bool outgoing_is_aimed(const struct exchange *ex, const struct decision *d);

/* Fills *out. What it adds stands in `scratch`, which the caller wipes; c is the connection it is written to. 0; -1: *why says why not. */
int outgoing_make(struct exchange *ex, const struct conn *c, struct arena *scratch, struct request *out, const char **why) __attribute__((warn_unused_result));
/* Is this a field in which a secret stands? For HTTP/2, whose tables would remember it. */
bool outgoing_is_secret(const struct exchange *ex, const struct header *h);

#endif
