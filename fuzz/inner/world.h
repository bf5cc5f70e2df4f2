/* An inner door without sockets: conn.c and link.c are replaced by what stands in world.c, everything else is the door's own. The guest is a slice of
 * bytes; the outer door is the fuzzer, which sees every exchange that was started.
 *
 * What holds for every input is checked in world.c: an exchange is started only for what the naive reading of the policy below admits, its body never
 * passes the rule's limit, no byte of a request goes on that was not started, and at the end nothing is held or left. */
#ifndef BROME_FUZZ_INNER_WORLD_H
#define BROME_FUZZ_INNER_WORLD_H

#include "hold.h"
#include "inner/flow.h"

enum { WORLD_STREAMS = 32 };

struct world {
        struct door door;
        struct flow *flow;
        struct exchange *streams[WORLD_STREAMS]; /* started and not ended; by order */
        size_t stream_count;
        struct buf up;   /* what the outer door was told, in order: request heads, bodies, ends */
        size_t up_head;  /* of it, the last head and what was before it */
        struct buf down; /* what the guest got */
        int heard;       /* bromed's end of the control channel */
        bool answers;    /* answers each request at its end by itself */
};

/* One world at a time: a flow to https://a.example, accepted by the policy. h2: as ALPN chose it. accounts: with a placeholder that must not leave. */
struct world *world_open(bool h2, bool accounts);
/* Guest bytes; then everything that follows from them. */
void world_guest(struct world *w, struct slice s);
void world_guest_eof(struct world *w);
/* What the outer door does to stream i (any number; nothing happens when there is none). The head is lines "name:value". */
void world_head(struct world *w, size_t i, struct slice lines, bool end);
void world_data(struct world *w, size_t i, struct slice s);
void world_end(struct world *w, size_t i);
void world_reset(struct world *w, size_t i, enum reason reason);
/* The guest reads, the outer door takes. */
void world_turn(struct world *w);
void world_close(struct world *w);

#endif
