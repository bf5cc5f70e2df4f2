/* The inner door as a whole: what one process holds for its one workspace. One struct, made by main.c, borrowed by everything else.
 * No file but main.c makes or frees it. */
#ifndef BROME_INNER_DOOR_H
#define BROME_INNER_DOOR_H

#include "base/addr.h"
#include "base/slice.h"
#include "inner/limits.h"
#include "rules/reasons.h"

#include <event2/event.h>
#include <stdint.h>
#include <sys/queue.h>

struct flow;
struct exchange;
struct udp_flow;
struct icmp_flow;
struct policy;
struct names;
struct outbox;
struct tls;
struct link;
struct account;
struct token_set;
struct hold;
struct tripwire;

TAILQ_HEAD(account_list, account);
TAILQ_HEAD(hold_list, hold);
TAILQ_HEAD(flow_list, flow);
TAILQ_HEAD(exchange_list, exchange);

struct door {
        struct event_base *base;
        int control; /* to bromed */
        struct event *control_event;
        char workspace[72];
        bool trace;

        struct policy *policy;
        uint64_t generation;
        uint64_t *hits; /* by rule index, the default last */
        char **rule_text; /* the same, made when first needed */
        size_t rule_count;
        enum reason refuse; /* NONE: new flows are admitted */

        int tcp, udp, raw4, raw6, icmp4, icmp6;
        struct event *listen_event;
        bool listening;
        bool stalled; /* records piled up when the last turn ended */
        bool no_fds; /* accept failed for want of descriptors: not again before the next tick */

        struct names *names;
        struct outbox *outbox;
        struct tls *tls;
        struct link *link; /* to the outer door without an account */

        struct account_list accounts;   /* of this and earlier policies */
        struct token_set *tokens;       /* their placeholders; NULL: none, and nothing is held or looked at */
        struct hold_list hold_queue;    /* that wait for room, oldest first */
        size_t hold_reserved;           /* of HOLDS_BYTES */
        size_t hold_bytes;              /* in holds, not given on */
        size_t decode_bytes;            /* of DECODE_BYTES */
        struct tripwire *trip;          /* went off in this turn; told when it ends */
        uint64_t leaks[LEAKS_KEPT];     /* hashes of what was told: a ring */
        unsigned leak_count;
        bool tripped;                   /* bromed did not answer the trip yet: only `refuse` with compromised ends that */

        struct flow_list flows;
        unsigned flow_count;
        struct exchange_list exchanges;
        unsigned exchange_count;
        struct flow_list dead_flows; /* freed when the turn ends */
        struct exchange_list dead_exchanges;
        size_t held_bytes; /* of exchanges, waiting for the link; what is held to be scanned is not among it */
        uint64_t next_id;
        bool quit;
};

/* The gateway's own addresses (docs/CONTROL.md). */
extern const struct addr gateway_v4, gateway_v6;

static inline uint64_t door_id(struct door *d) { return d->next_id++; }

#endif
