/* An outer door without sockets: account.c, conn.c, consent.c, pool.c, link.c and events.c are replaced by what stands in world.c; exchange.c, answer.c, h1.c, h2.c and what they use are
 * the door's own. The origin is a slice of bytes; the link is a log for each exchange.
 *
 * What holds for every input is checked in world.c: at most one head, nothing after the end, no field of an answer that is the door's own or would not be
 * read again by the inner door, a body of exactly the declared length when it ended well, and no memory or exchange left behind. */
#ifndef BROME_FUZZ_OUTER_WORLD_H
#define BROME_FUZZ_OUTER_WORLD_H

#include "hold.h"
#include "account/binding.h"
#include "outer/http.h"

enum { WORLD_EXCHANGES = 4 };

struct told {
        struct exchange *ex;
        struct buf log; /* what the link was told, in a form that is the same for every cut */
        struct buf body;
        bool answered, ended, failed, retried;
        bool has_length;
        uint64_t length;
};

struct world {
        struct outer outer;
        struct conn conn;
        struct http http;
        struct told told[WORLD_EXCHANGES];
        size_t count;
        bool asked;
        struct binding binding; /* of the account; no name: the plain door */
        bool via;
};

/* A connection that has just opened. */
struct world *world_open(const struct http_ops *ops);
/* From here on it is an account's door: WORLD_SECRET is masked. kind: of the credential; via: requests are re-routed. */
#define WORLD_SECRET "s3cret-t0ken-of-the-fuzzer"
#define WORLD_HOLDER "brm_abcdefghijklmnopqrstuvwxyz234567"
void world_account(struct world *w, enum account_kind kind, bool via);
/* A request on it: `which` & 3: GET, HEAD, POST with a body, WebSocket. False: the connection takes no more. */
bool world_request(struct world *w, unsigned which);
/* Bytes of the origin, and all that follows; eof: the last. */
void world_origin(struct world *w, struct slice s, bool eof);
/* The guest or the policy ends it. */
void world_abort(struct world *w, size_t i);
void world_close(struct world *w);

#endif
