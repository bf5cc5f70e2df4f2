/* What lies between OpenSSL and an origin's socket: ciphertext is read in large pieces and leaves with one call a turn.
 *
 * Every call into OpenSSL stands between cipher_begin and cipher_end, and nothing else does: meanwhile the connection has two shared blocks,
 * one for what is read and one for what is written. What is left in them afterwards stays with the connection; an idle one owns no memory. */
#ifndef BROME_OUTER_CIPHER_H
#define BROME_OUTER_CIPHER_H

#include "base/buf.h"
#include <openssl/types.h>
#include <stdbool.h>

struct cipher {
        int fd; /* borrowed */
        struct buf raw, wire; /* read ahead of OpenSSL; not yet taken by the socket */
        bool eof;             /* the origin sends no more */
        bool dry;             /* the socket had no more when it was last read */
};

void cipher_init(struct cipher *c, int fd);
void cipher_fini(struct cipher *c);
/* A BIO for SSL_set_bio; c keeps its place until the BIO is freed. NULL: no memory. */
BIO *cipher_bio(struct cipher *c) __attribute__((warn_unused_result));
void cipher_begin(struct cipher *c);
/* Is there room for one more record in the block? */
bool cipher_has_room(const struct cipher *c);
/* Sends. 0, also when the socket did not take all (then buf_len(&c->wire)); -1 when it is broken. */
int cipher_end(struct cipher *c) __attribute__((warn_unused_result));

#endif
