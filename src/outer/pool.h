/* HTTP connections to origins, reused. The process serves one workspace, so everything here is that workspace's.
 *
 * An origin is scheme, host and port as the policy knows them; what waits for it stands in its queue, and one function (pump) gives each its connection,
 * or opens one. SECURITY: every exchange is judged again with the address of the very connection that it is given. */
#ifndef BROME_OUTER_POOL_H
#define BROME_OUTER_POOL_H

#include "outer/exchange.h"

struct pool;
struct pool *pool_new(struct outer *o) __attribute__((warn_unused_result));
/* Sends it, now or when a connection is there. */
void pool_open(struct pool *p, struct exchange *ex);
/* The policy changed: idle connections and those being opened go, busy ones take nothing new. What waits stays and is tried again. */
void pool_renew(struct pool *p);
size_t pool_connections(const struct pool *p);

#endif
