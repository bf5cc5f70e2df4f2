/* The host's own upstream proxy (https_proxy, no_proxy). Its URL may hold a password: that is kept here, written to the proxy and
 * nowhere else, no log, no detail. Pure but for what it keeps. */
#ifndef BROME_OUTER_PROXY_H
#define BROME_OUTER_PROXY_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/authority.h"

struct proxy;
/* NULL and err->text empty: no URL, no proxy. NULL with a reason: one that cannot be served. */
struct proxy *proxy_new(const char *url, const char *no_proxy, struct err *err) __attribute__((warn_unused_result));
void proxy_free(struct proxy *p); /* NULL is fine */
/* Does this host go through it? NULL proxy: never. */
bool proxy_covers(const struct proxy *p, const struct authority *to);
const struct authority *proxy_at(const struct proxy *p);
/* CONNECT for host:port. 0 or -1. */
int proxy_connect(const struct proxy *p, const struct authority *to, struct buf *out) __attribute__((warn_unused_result));
/* Its answer so far: 1 open (*used bytes), 0 more is needed, -1 refused or malformed (the status in *status, 0 when there was none). */
int proxy_answer(struct slice in, size_t *used, unsigned *status) __attribute__((warn_unused_result));

#endif
