/* TLS over a socket: ciphertext is read in large pieces and leaves with one call a turn.
 *
 * Every call into OpenSSL stands between cipher_begin and cipher_end, and nothing else does: meanwhile the connection has two blocks that all share,
 * one for what is read and one for what is written. What is left in them afterwards stays with the connection; an idle one owns no memory. */
#ifndef BROME_TLS_CIPHER_H
#define BROME_TLS_CIPHER_H

#include "base/buf.h"
#include <openssl/types.h>
#include <stdbool.h>

enum {
        CIPHER_READ_BYTES = 128 * 1024,                  /* the block for what is read: eight records */
        CIPHER_SEND_BYTES = 128 * 1024 + 20 * 1024,      /* that for what is written: eight records, their heads, and the room asked for before the last */
};

struct cipher {
        int fd; /* borrowed */
        size_t read_bytes, wire_bytes; /* limits of this connection: one read of the socket; what may wait in `wire` */
        struct buf raw, wire; /* read ahead of OpenSSL; not yet taken by the socket */
        bool eof;             /* the peer sends no more */
        bool dry;             /* the socket had no more when it was last read */
        bool more;            /* cipher_read left something: here, in OpenSSL or in the socket */
};

/* read_bytes: CIPHER_READ_BYTES at most. */
void cipher_init(struct cipher *c, int fd, size_t read_bytes, size_t wire_bytes);
void cipher_fini(struct cipher *c);
/* A BIO for SSL_set_bio; c keeps its place until the BIO is freed. NULL: no memory. */
BIO *cipher_bio(struct cipher *c) __attribute__((warn_unused_result));
void cipher_begin(struct cipher *c);
/* Sends. 0, also when the socket did not take all (then buf_len(&c->wire)); -1 when it is broken or `wire` is over its limit. */
int cipher_end(struct cipher *c) __attribute__((warn_unused_result));

/* Begins, calls OpenSSL, ends: */
/* Reads the socket once and decrypts up to cap bytes. *n: how many; 0 go on, 1 the peer said that it sends no more, -1 broken or cut short (c->eof). */
int cipher_read(struct cipher *c, SSL *ssl, uint8_t *p, size_t cap, size_t *n) __attribute__((warn_unused_result));
/* Encrypts and sends the queue and then *s, until both or the socket's patience ends; leaves in both what is left of them. 0, or -1 broken. */
int cipher_write(struct cipher *c, SSL *ssl, struct buf *queue, struct slice *s) __attribute__((warn_unused_result));

#endif
