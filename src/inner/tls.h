/* TLS towards the guest: the workspace's own CA, a leaf for each name, OpenSSL as server. */
#ifndef BROME_INNER_TLS_H
#define BROME_INNER_TLS_H

#include "base/err.h"
#include "base/slice.h"
#include "wire/authority.h"

#include <openssl/ssl.h>

struct tls;
/* PEM texts of the CA. NULL with the reason. */
struct tls *tls_open(struct slice key_pem, struct slice cert_pem, struct err *err) __attribute__((warn_unused_result));
void tls_close(struct tls *t); /* NULL is fine */
/* A server for one flow, its certificate being for `to`. NULL without memory. The caller owns it. */
SSL *tls_accept(struct tls *t, const struct authority *to) __attribute__((warn_unused_result));
bool tls_is_h2(SSL *ssl); /* what ALPN chose */

#endif
