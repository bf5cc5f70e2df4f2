/* TLS towards origins: one client context, verification against the system's roots and the CAs that hosts name, sessions kept for
 * resumption.
 *
 * The roots are not loaded: the bundle is mapped read-only and indexed by subject; a certificate is parsed when a chain asks for it. */
#ifndef BROME_OUTER_TLS_H
#define BROME_OUTER_TLS_H

#include "base/err.h"
#include "base/slice.h"
#include "tls/cipher.h"
#include <openssl/ssl.h>
#include <stdbool.h>

struct tls;
struct roots;

/* Opens the system's bundle (the first that exists of a fixed list). To be called before the process is sealed; no bundle is no
 * error here, every verification will fail then. `secrets` may be in what passes through. NULL with the reason. */
struct tls *tls_new(bool secrets, struct err *err) __attribute__((warn_unused_result));
size_t tls_root_count(const struct tls *t);
/* A store of the system's roots and the certificates of a PEM text. The caller frees it. */
X509_STORE *tls_store_new(struct tls *t, struct slice pem, struct err *err) __attribute__((warn_unused_result));
/* A client for `host` (canonical name or address text) over a connected socket's cipher, which stays until the SSL is freed. key tells apart what may share sessions: "host:port" and what the
 * policy pins; NULL: none. store NULL: the system's roots. h2: offer it. */
SSL *tls_client(struct tls *t, struct cipher *below, const char *host, bool is_addr, const char *key, X509_STORE *store, bool h2) __attribute__((warn_unused_result));
/* Why a handshake failed, for a person; verification problems named. Writes printable or to-be-escaped text to out. True when it was the certificate. */
bool tls_why(SSL *ssl, const char *host, char *out, size_t size);
/* Sessions of the past are no longer good: a resumed session is not verified again, so a policy change ends them all. */
void tls_forget_sessions(struct tls *t);

/* roots.c */
struct roots *roots_open(struct err *err) __attribute__((warn_unused_result));
size_t roots_count(const struct roots *r);
/* Makes the store look up issuers there. 0 or -1. */
int roots_attach(struct roots *r, X509_STORE *store) __attribute__((warn_unused_result));

#endif
