/* Arena allocator: see arena.h. Blocks double up to 64 KB; a larger request gets a block of its own. */
#include "base/arena.h"

#include <stdlib.h>

enum { ARENA_FIRST_BYTES = 1024, ARENA_MAX_BYTES = 64 * 1024, ARENA_ALIGN = 16 };

struct arena_block {
        struct arena_block *next;
        size_t used, size;
        _Alignas(ARENA_ALIGN) uint8_t bytes[];
};

void arena_init(struct arena *a, size_t limit_bytes) { *a = (struct arena){ .limit_bytes = limit_bytes }; }

void arena_fini(struct arena *a)
{
        struct arena_block *b = a->head;

        while (b) {
                struct arena_block *next = b->next;
                free(b);
                b = next;
        }
        a->head = NULL;
        a->used_bytes = 0;
}

void arena_wipe(struct arena *a)
{
        for (struct arena_block *b = a->head; b; b = b->next)
                explicit_bzero(b->bytes, b->used);
}

static struct arena_block *arena_grow(struct arena *a, size_t n)
{
        size_t size = a->head ? a->head->size * 2 : ARENA_FIRST_BYTES;
        struct arena_block *b;

        if (size > ARENA_MAX_BYTES)
                size = ARENA_MAX_BYTES;
        if (size < n)
                size = n;
        b = malloc(sizeof(*b) + size);
        if (!b)
                return NULL;
        b->used = 0;
        b->size = size;
        b->next = a->head;
        a->head = b;
        return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
        struct arena_block *b = a->head;
        void *p;

        if (n > SIZE_MAX - ARENA_ALIGN - sizeof(*b))
                return NULL;
        n = (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
        if (a->limit_bytes && n > a->limit_bytes - a->used_bytes)
                return NULL;
        if (!b || n > b->size - b->used) {
                b = arena_grow(a, n);
                if (!b)
                        return NULL;
        }
        p = b->bytes + b->used;
        b->used += n;
        a->used_bytes += n;
        return memset(p, 0, n);
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size)
{
        if (size && count > SIZE_MAX / size)
                return NULL;
        return arena_alloc(a, count * size);
}

char *arena_strndup(struct arena *a, const void *p, size_t n)
{
        char *s;

        if (n == SIZE_MAX)
                return NULL;
        s = arena_alloc(a, n + 1);
        if (s && n)
                memcpy(s, p, n);
        return s;
}

struct slice arena_copy(struct arena *a, struct slice s, bool *ok)
{
        char *copy = arena_strndup(a, s.p, s.n);

        if (!copy) {
                *ok = false;
                return SLICE_EMPTY;
        }
        return slice_of(copy, s.n);
}
