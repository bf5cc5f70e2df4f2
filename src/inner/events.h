/* Records to bromed: what was decided and what came of it (journal/event.h), into the door's outbox. */
#ifndef BROME_INNER_EVENTS_H
#define BROME_INNER_EVENTS_H

#include "inner/refuse.h"

/* A flow's verdict; refused when r is not NULL. */
void events_flow(struct door *d, uint64_t id, const char *protocol, const struct authority *to, enum flow_proto proto, const struct policy_verdict *v,
                 const struct refusal *r);
/* A DNS question's, with its type (the record's method: AAAA); `name` is foreign text. */
void events_name(struct door *d, uint64_t id, uint16_t type, struct slice name, bool allowed, enum reason reason);
/* Of a DNS message that got no answer whatever the policy says; `name` is foreign text, empty and the type 0 when it could not be read. */
void events_dns_refusal(struct door *d, uint16_t type, struct slice name, const struct refusal *r);
/* A request's; x->req is NULL when it could not be read. */
void events_request(struct exchange *x, const struct refusal *r);
/* A line about an account of a request: `what` is a refusal's id (denied: its reason) or "redacted", "leak"; of no account when a is NULL. */
struct account;
void events_account(const struct exchange *x, const struct account *a, const enum reason *denied, const char *what, struct slice detail);
/* What came of it; exchange_end calls it. */
void events_end(const struct exchange *x);

#endif
