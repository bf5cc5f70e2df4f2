/* The OCI distribution token flow (the challenge in WWW-Authenticate: Bearer realm=…,service=…,scope=…; then GET realm?service=&scope= with Basic
 * credentials; then the token on the registry). The token server's answer hands out a new secret: it is re-minted before the guest sees it. Pure.
 *
 * The realm's host must be among the credential's hosts; the guest holds a placeholder for each token; the outer door for the account keeps the pairs. */
#ifndef BROME_ACCOUNT_REGISTRY_H
#define BROME_ACCOUNT_REGISTRY_H

#include "account/placeholder.h"
#include "base/buf.h"

enum { REGISTRY_ANSWER_BYTES_MAX = 256 * 1024, REGISTRY_TOKENS_MAX = 48 };

struct minted {
        struct slice secret;      /* borrows from the answer's decoded text, in `store` */
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
        uint64_t expires_s;       /* expires_in, 60 when absent (the protocol's default) */
};
/* A token answer: JSON with `token` and/or `access_token` (the same or two), maybe `refresh_token`. Writes an object with placeholders for them, and what else the protocol names
 * (expires_in, issued_at, scope, token_type), to out and fills minted[]; members it does not name are dropped, since they may be tokens too.
 * random: PLACEHOLDER_RANDOM_BYTES for each. Returns their number; -1: it is not such an answer (then it must not reach the guest when it has a token in it). */
int registry_remint(struct slice answer, const uint8_t (*random)[PLACEHOLDER_RANDOM_BYTES], size_t max, struct minted *minted, struct buf *store, struct buf *out)
        __attribute__((warn_unused_result));

#endif
