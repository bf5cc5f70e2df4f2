/* The link to the outer door: an HTTP/2 client over a socket pair (docs/CONTROL.md). Exchanges are its streams.
 *
 * The outer door meets hostile origins and may have been taken over: what it says is checked like any peer's, and the end of the plain link ends every
 * exchange with OUTER_GONE, that of an account's link those on it. Functions take NULL for a link that is not there. */
#ifndef BROME_INNER_LINK_H
#define BROME_INNER_LINK_H

#include "inner/exchange.h"

/* Takes fd. account: whose door it is; NULL: the plain one. NULL without memory; fd is closed then. */
struct link *link_open(struct door *d, int fd, struct account *account) __attribute__((warn_unused_result));
void link_close(struct link *l); /* NULL is fine */
bool link_is_up(const struct link *l);
bool link_takes(const struct link *l); /* up, and its door did not say that it leaves */

/* 0, or -1. */
int link_start(struct link *l, struct exchange *x) __attribute__((warn_unused_result));
void link_more(struct link *l, struct exchange *x);              /* x->up grew or ended */
void link_passed(struct link *l, struct exchange *x, size_t n);  /* give n bytes of window back */
void link_drop(struct link *l, struct exchange *x);              /* the exchange ends; the stream is reset when a side is still open */
/* Sends what there is. Returns whether anything was made. Call once per turn. */
bool link_turn_end(struct link *l);

#endif
