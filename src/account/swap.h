/* Substitution: the one place where a placeholder becomes a secret. Only an outer door for an account calls it. Pure.
 *
 * SECURITY: called after account_check said OK with `used`, on the request as it will be written, towards a connection whose certificate was verified for the
 * binding's host. Every buffer that got the secret is wiped by the caller (arena_wipe, OPENSSL_cleanse); a secret with bytes that its field cannot carry is
 * refused, never bent. */
#ifndef BROME_ACCOUNT_SWAP_H
#define BROME_ACCOUNT_SWAP_H

#include "account/check.h"
#include "base/buf.h"

enum { SECRET_BYTES_MAX = 16 * 1024 }; /* a service account's JSON key fits */

/* May this secret be carried in the binding's fields (no CR, LF, NUL …; not empty; not a placeholder)? NULL, or what is wrong with it, for a person. */
const char *secret_problem(enum account_kind kind, struct slice secret);

/* Puts the secret where u says. attach: adds the field. New bytes in the arena. 0, or -1 (memory, or the field cannot carry it). */
int swap_head(struct arena *a, const struct binding *b, const struct account_use *u, struct slice secret, struct request *req)
        __attribute__((warn_unused_result));

/* SLOT_BODY and SLOT_WEBSOCKET, streaming: the same result however the bytes are cut. The secret is escaped as the text around it wants it: as JSON (`json`: a placeholder
 * stands in a string there), or percent-encoded in application/x-www-form-urlencoded (set `form` after swap_begin). A second occurrence is ACCOUNT_TWICE. */
struct swap_stream {
        const struct binding *b;
        struct slice secret;
        bool json, form, done;
        size_t held;       /* bytes of a possible match kept back: they are the placeholder's first ones */
        uint8_t back[160]; /* of the search; PLACEHOLDER_BYTES_MAX */
};
void swap_begin(struct swap_stream *s, const struct binding *b, struct slice secret, bool json);
/* Appends to out. ACCOUNT_OK or ACCOUNT_TWICE; -1 is out of memory. */
int swap_feed(struct swap_stream *s, struct slice in, bool last, struct buf *out) __attribute__((warn_unused_result));

#endif
