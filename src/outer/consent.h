/* Consent: what a person has to agree to is held here until bromed has the answer. A rule may ask (`ask web …`), and a credential (`ask before use`).
 *
 * A grant's key is what is asked for, its name, host and port; it is remembered here as long as it holds, so that the next request need not ask. One exchange may need two. */
#ifndef BROME_OUTER_CONSENT_H
#define BROME_OUTER_CONSENT_H

#include "outer/exchange.h"

struct consent;
struct consent *consent_new(struct outer *o) __attribute__((warn_unused_result));

/* May the exchange go on its way, as it was last judged? False: it is held (exchange_go is called when that ends), or was refused. */
bool consent_pass(struct exchange *ex) __attribute__((warn_unused_result));
/* After a change of the rules: is all that it needs now agreed to? Asks nobody. */
bool consent_holds(struct exchange *ex, const struct decision *d);
/* The rules changed while it is held: a question that is no longer to be asked is taken back, and it goes on. */
void consent_renew(struct exchange *ex);
/* It is held, and goes: the question is taken back. */
void consent_withdraw(struct exchange *ex);

/* --- from bromed --- */
/* False: no such answer (a broken peer). One that comes too late is none. */
bool consent_answer(struct consent *c, uint64_t id, const char *answer, int64_t ttl_ms);
/* Drops the grant and cuts what it opened. How many were cut. */
size_t consent_revoke(struct consent *c, bool rule, const char *name, const char *host, uint16_t port);

/* SHA-256, in hex, over the request's method, scheme, authority, path and query, each with its length in front: nothing can be read in two ways. */
enum { CONSENT_DIGEST_TEXT = 65 };
int consent_digest(const struct exchange *ex, char out[CONSENT_DIGEST_TEXT]) __attribute__((warn_unused_result));

#endif
