/* A WebSocket's frames in both directions: each is checked before its first byte goes on (RFC 6455). Where the workspace has a placeholder, what the guest sends is
 * looked into besides: unmasked, across the fragments of a message. */
#ifndef BROME_INNER_WS_H
#define BROME_INNER_WS_H

#include "base/buf.h"
#include "inner/exchange.h"
#include "wire/response.h"
#include "wire/ws.h"

struct ws_pair {
        struct ws_reader up, down;
};
/* r: the answer that opened it. */
void ws_pair_init(struct ws_pair *p, const struct response *r);
/* Appends the checked bytes of `in`, all of it, to out. 0; -1 with the reason: the connection is beyond use. */
int ws_pass(struct ws_reader *r, struct slice in, struct buf *out, enum wire_reason *why) __attribute__((warn_unused_result));

/* What the guest sends through x: as ws_pass, but with x->guard only what is clear is appended. -1 also when x was refused and has ended. */
int ws_up(struct exchange *x, struct ws_reader *r, struct slice in, struct buf *out) __attribute__((warn_unused_result));
struct ws_guard *ws_guard_new(struct exchange *x) __attribute__((warn_unused_result)); /* NULL: memory */
void ws_guard_free(struct ws_guard *g);                                             /* NULL is fine */

#endif
