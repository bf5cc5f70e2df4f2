/* A table of byte keys, for joining and counting: open addressing, at most half full. */
#include "journal/reader_priv.h"

#include <stdlib.h>

static uint64_t hash_of(struct slice key)
{
        uint64_t h = 0xcbf29ce484222325u;

        for (size_t i = 0; i < key.n; i++)
                h = (h ^ key.p[i]) * 0x100000001b3u;
        return h ^ h >> 32;
}

static void place(struct table *t, size_t index)
{
        size_t mask = t->cap * 2 - 1, at = (size_t)t->hashes[index] & mask;

        while (t->slots[at])
                at = (at + 1) & mask;
        t->slots[at] = index + 1;
}

static int grow(struct table *t)
{
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct slice *keys = realloc(t->keys, cap * sizeof(*keys));
        uint64_t *hashes;
        size_t *slots;

        if (keys)
                t->keys = keys;
        hashes = keys ? realloc(t->hashes, cap * sizeof(*hashes)) : NULL;
        if (hashes)
                t->hashes = hashes;
        slots = hashes ? calloc(cap * 2, sizeof(*slots)) : NULL;
        if (!slots)
                return -1;
        free(t->slots);
        t->slots = slots;
        t->cap = cap;
        for (size_t i = 0; i < t->count; i++)
                place(t, i);
        return 0;
}

ptrdiff_t table_index(struct table *t, struct slice key, bool *made)
{
        uint64_t h = hash_of(key);
        bool ok = true;

        *made = false;
        if (t->cap) {
                size_t mask = t->cap * 2 - 1;
                for (size_t at = (size_t)h & mask; t->slots[at]; at = (at + 1) & mask) {
                        size_t i = t->slots[at] - 1;
                        if (t->hashes[i] == h && slice_eq(t->keys[i], key))
                                return (ptrdiff_t)i;
                }
        }
        if (t->count == t->cap && grow(t) < 0)
                return -1;
        t->keys[t->count] = arena_copy(t->arena, key, &ok);
        if (!ok)
                return -1;
        t->hashes[t->count] = h;
        place(t, t->count);
        *made = true;
        return (ptrdiff_t)t->count++;
}

void table_fini(struct table *t)
{
        free(t->keys);
        free(t->hashes);
        free(t->slots);
}
