/* Happy Eyeballs (RFC 8305 §5): tries addresses of both families in turn, a new one every 250 ms, the first that answers wins.
 * It dials exactly the addresses it is given: whoever calls has checked each of them. */
#ifndef BROME_OUTER_DIAL_H
#define BROME_OUTER_DIAL_H

#include "base/addr.h"
#include <event2/event.h>

struct dial;
/* fd ≥ 0: taken by the callee, connected to *to. -1: none answered, errno_value of the last. The dial is freed after the call. */
typedef void (*dial_fn)(void *ctx, int fd, const struct addr *to, int errno_value);

/* NULL: no memory. The callback never comes before this returns. */
struct dial *dial_start(struct event_base *base, const struct addr *addrs, size_t count, uint16_t port, dial_fn done, void *ctx)
        __attribute__((warn_unused_result));
void dial_cancel(struct dial *d);
/* Puts the families in turn, IPv6 first, each in the order it came. */
void dial_interleave(struct addr *addrs, size_t count);

#endif
