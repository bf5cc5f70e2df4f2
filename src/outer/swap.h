/* Where an account's door will put the real secret in: the one place between judging and writing a request.
 *
 * This door has no account, so the hook is empty. An account's implementation sets it; it may change fields of the head that is about to be
 * written, and nothing else of the process ever sees what it put in. */
#ifndef BROME_OUTER_SWAP_H
#define BROME_OUTER_SWAP_H

#include "wire/request.h"

struct arena;
/* req: a copy for this one sending, its memory from `arena`. 0; -1: refused, nothing is sent. */
typedef int (*swap_fn)(void *ctx, struct arena *arena, struct request *req);
struct swap {
        swap_fn head; /* NULL: no account */
        void *ctx;
};

#endif
