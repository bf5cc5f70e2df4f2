/* What an origin answers, on its way to the link, where it has to be looked at: the secret becomes the placeholder again (an account's door), URLs of a mirror become those of the
 * registry (`via`), a token that was handed out becomes a placeholder (kind registry). In heads, trailers, bodies and WebSocket messages.
 *
 * A body is decoded, rewritten, masked, in that order, as it comes, and passed on decoded. An exchange for which nothing of that holds has no struct answer and costs nothing. */
#ifndef BROME_OUTER_ANSWER_H
#define BROME_OUTER_ANSWER_H

#include "outer/exchange.h"

struct answer;

/* Fields of an interim answer, trailers behind no body. 0 or -1 (memory). */
int answer_fields(struct exchange *ex, struct headers *fields) __attribute__((warn_unused_result));
/* The head: changes *r as it will be passed on and makes ex->answer where the body has to be looked at. 0; 1: the head waits for the body; -1: *reason, *why. */
int answer_begin(struct exchange *ex, struct response *r, bool end, enum reason *reason, const char **why) __attribute__((warn_unused_result));
/* Bytes of the body. 0; -1: the exchange was ended. */
int answer_feed(struct exchange *ex, struct slice in) __attribute__((warn_unused_result));
/* Nothing follows; the upstream has let go. Ends the exchange now or when the link took enough. */
void answer_end(struct exchange *ex, const struct headers *trailers);
/* The link took bytes. */
void answer_room(struct exchange *ex);
/* Has it ended, but for what waits here? */
bool answer_waits(const struct exchange *ex);
void answer_free(struct answer *a); /* NULL is fine */

#endif
