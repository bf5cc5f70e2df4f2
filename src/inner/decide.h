/* Where the inner door asks the policy. Everything that may pass was asked here; nothing else in this folder says "allow". */
#ifndef BROME_INNER_DECIDE_H
#define BROME_INNER_DECIDE_H

#include "inner/exchange.h"

/* The flow-level question, with the door's own refusals (frozen, journal, no policy) first. Counts the hit. */
void decide_flow(struct door *d, const struct authority *to, enum flow_proto proto, struct policy_verdict *v);
/* A flow that is neither TLS nor HTTP under FLOW_INSPECT_OR_SPLICE. Counts the hit. */
void decide_opaque(struct door *d, const struct authority *to, struct policy_verdict *v);
/* A name asked for by DNS. */
bool decide_name(struct door *d, struct slice name, enum reason *reason);
/* x->req, which is canonical and agrees with its flow. Fills x->verdict; counts the hit. */
void decide_request(struct exchange *x);
/* Where a request for its path goes by the rules, if one may be made there at all: a refused one was on its way there as well. Counts nothing. */
void decide_via(const struct exchange *x, struct policy_via *via);

/* After a policy change: is it still allowed by the door's policy? Fills *v; counts nothing. */
bool decide_again_flow(struct door *d, const struct authority *to, enum flow_proto proto, struct policy_verdict *v);
bool decide_again_exchange(const struct exchange *x, struct policy_verdict *v);

/* One line, the narrowest rule that would allow it. */
void decide_suggest_flow(const struct authority *to, enum flow_proto proto, struct buf *out);
void decide_suggest_request(const struct exchange *x, struct buf *out);

#endif
