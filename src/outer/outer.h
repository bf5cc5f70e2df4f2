/* What the parts of the outer door share. One process, one thread, one workspace; the process ends with all of it. */
#ifndef BROME_OUTER_OUTER_H
#define BROME_OUTER_OUTER_H

#include "base/addr.h"
#include "base/buf.h"
#include "base/err.h"
#include "outer/limits.h"
#include <event2/event.h>
#include <stdbool.h>

struct outer {
        struct event_base *base;
        struct ruleset *rules; /* NULL until the first policy */
        struct events *events;
        struct link *link;
        struct resolver *resolver;
        struct pool *pool;
        struct tls *tls;
        struct proxy *proxy; /* NULL: none */
        struct turn *turn;
        struct account *account; /* NULL: the plain door */
        struct consent *consent;
        struct named *named;     /* NULL before a profile was used, as budgets */
        struct budgets *budgets;
        struct control *control; /* NULL before control_run */
        size_t held_bytes; /* answer bytes of all exchanges that wait for the link */
        size_t replay_bytes; /* request bytes of all exchanges that are kept though an origin has them */
};

#endif
