/* Arena: everything one exchange, one rule compile or one command needs, freed in one go. Not thread safe. */
#ifndef BROME_BASE_ARENA_H
#define BROME_BASE_ARENA_H

#include "base/slice.h"

struct arena_block;
struct arena {
        struct arena_block *head;
        size_t used_bytes;  /* handed out so far */
        size_t limit_bytes; /* 0: no limit */
};

void arena_init(struct arena *a, size_t limit_bytes);
/* Frees every block; the arena may be used again. Safe on a zeroed struct. */
void arena_fini(struct arena *a);
/* Overwrites all that was handed out, for an arena in which a secret stood; the arena stays as it is. Before arena_fini. */
void arena_wipe(struct arena *a);

/* Zeroed memory aligned for any object; NULL when the limit is reached or memory is out. */
void *arena_alloc(struct arena *a, size_t n) __attribute__((warn_unused_result));
void *arena_alloc_array(struct arena *a, size_t count, size_t size) __attribute__((warn_unused_result));
/* A NUL terminated copy (the NUL is not counted); NULL as above. */
char *arena_strndup(struct arena *a, const void *p, size_t n) __attribute__((warn_unused_result));
/* Copies a slice; on failure sets *ok false and returns the empty slice. */
struct slice arena_copy(struct arena *a, struct slice s, bool *ok);

#endif
