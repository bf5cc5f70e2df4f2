/* Tokens that a container registry's token server hands out (docs/ACCOUNTS.md, kind registry): the guest gets placeholders, the account keeps the pairs. */
#ifndef BROME_OUTER_MINT_H
#define BROME_OUTER_MINT_H

#include "outer/exchange.h"

/* Was a token server asked? */
bool mint_asked(const struct exchange *ex);
/* May there be a token in this answer? Unless MINT_NO its body is collected before its head goes. */
enum mint {
        MINT_NO,
        MINT_MAYBE, /* of a registry: where a token stands in it, that becomes a placeholder */
        MINT_MUST,  /* a token server's: it is understood, or refused */
};
enum mint mint_of(const struct exchange *ex, const struct response *r, bool json);
/* The whole body. 1: *out is what the guest gets, ex->own has a brome-minted field for each placeholder; 0: no token in it; -1: it must not pass. */
int mint_answer(struct exchange *ex, struct slice body, struct buf *out) __attribute__((warn_unused_result));

#endif
