/* Tokens that a container registry's token server hands out (docs/ACCOUNTS.md, kind registry): the guest gets placeholders, the account keeps the pairs. */
#ifndef BROME_OUTER_MINT_H
#define BROME_OUTER_MINT_H

#include "outer/exchange.h"

/* May this answer be a token server's? Then its body is collected before its head goes. */
bool mint_may(const struct exchange *ex, const struct response *r, bool json);
/* Does that text look as if a token stood in it? For what was not read. */
bool mint_suspects(struct slice body);
/* The whole body. 1: *out is what the guest gets, ex->own has a brome-minted field for each placeholder; 0: no token in it; -1: it must not pass. */
int mint_answer(struct exchange *ex, struct slice body, struct buf *out) __attribute__((warn_unused_result));

#endif
