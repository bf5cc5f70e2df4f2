/* What a request must be besides allowed: whose account it uses, whether it may use any, whether a placeholder stands in its head, what a profile makes of it. */
#ifndef BROME_INNER_VET_H
#define BROME_INNER_VET_H

#include "inner/exchange.h"

/* After decide_request said yes. May change the request (a profile's fields, WebSocket extensions); sets x->account and, where its body has to be
 * looked at, x->hold. REASON_NONE, or why not, with x->detail and x->engine. */
enum reason vet_request(struct exchange *x) __attribute__((warn_unused_result));
/* After a policy change: x is still allowed, by verdict v; does it still go the same way, under the same conditions? */
bool vet_again(struct exchange *x, const struct policy_verdict *v);

#endif
