/* The link to the inner door: an nghttp2 server on a socket pair (docs/CONTROL.md). It turns streams into exchanges and back and judges
 * nothing. SECURITY: the peer parses the guest's bytes and may have been taken over; a malformed stream is reset, a malformed
 * connection ends the process. */
#ifndef BROME_OUTER_LINK_H
#define BROME_OUTER_LINK_H

#include "outer/exchange.h"

struct link;
/* Takes fd. `broken` is called once when the link ended. */
struct link *link_new(struct outer *o, int fd, void (*broken)(void *ctx, const char *why), void *ctx) __attribute__((warn_unused_result));
void link_start(struct link *l);
/* Every live exchange, for a policy change: the callback may end the exchange it is given. */
void link_each(struct link *l, void (*each)(struct exchange *ex, void *ctx), void *ctx);
size_t link_streams(const struct link *l);
/* Says which streams it has taken, and takes no more (RFC 9113 §6.8): the inner door sends the others to the next door. False: it cannot be said now, and nothing changed. */
bool link_leave(struct link *l);

/* --- for exchange.c --- */
int link_interim(struct link *l, struct exchange *ex, const struct headers *fields) __attribute__((warn_unused_result));
int link_answer(struct link *l, struct exchange *ex, const struct headers *fields, bool end) __attribute__((warn_unused_result));
void link_wake(struct link *l, struct exchange *ex); /* ex->down or ex->down_ended changed */
void link_give(struct link *l, struct exchange *ex, size_t n); /* n request bytes were passed on */
void link_reset(struct link *l, struct exchange *ex, uint32_t h2_code);

#endif
