/* Names to addresses: c-ares in the loop, A and AAAA together, /etc/hosts first. Answers are kept for their time to live within bounds;
 * the servers follow /etc/resolv.conf. No search domains: a name is exactly that name.
 *
 * It asks the world for whatever it is told to: only the pool and the relays call it, after the rules admitted the name. */
#ifndef BROME_OUTER_RESOLVE_H
#define BROME_OUTER_RESOLVE_H

#include "base/addr.h"
#include "base/err.h"
#include "outer/limits.h"
#include <event2/event.h>

struct resolver;
struct resolve; /* one question that waits */

struct resolve_answer {
        struct addr addr[RESOLVE_ADDRS_MAX];
        size_t count;     /* 0: failed */
        const char *why;  /* then: a static string for a person */
        bool timed_out;
};
typedef void (*resolve_fn)(void *ctx, const struct resolve_answer *answer);

struct resolver *resolver_new(struct event_base *base, struct err *err) __attribute__((warn_unused_result));
/* 1: *answer was known; 0: *handle waits and done(ctx) will be called; -1: too many names wait. */
int resolve_start(struct resolver *r, struct slice name, resolve_fn done, void *ctx, struct resolve_answer *answer, struct resolve **handle)
        __attribute__((warn_unused_result));
void resolve_cancel(struct resolve *handle);

#endif
