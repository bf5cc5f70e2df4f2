/* A header block while it comes in, field by field, into an arena. */
#ifndef BROME_OUTER_FIELDS_H
#define BROME_OUTER_FIELDS_H

#include "wire/field.h"

struct field_list {
        struct header *at;
        size_t n, bytes;
        bool bad; /* too many, too large, no memory: the block is to be refused */
};

static inline void fields_begin(struct field_list *l) { *l = (struct field_list){ 0 }; }
static inline struct headers fields_block(const struct field_list *l) { return (struct headers){ l->at, l->n }; }

/* Copies. The list grows by doubling: most heads fit in the first sixteen. */
static inline void fields_add(struct field_list *l, struct arena *a, struct slice name, struct slice value)
{
        bool ok = true;
        size_t n = l->n;

        l->bytes += name.n + value.n + 32; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
        if (l->bad || n >= FIELDS_MAX || l->bytes > HEAD_BYTES_MAX + FIELDS_MAX * 32) {
                l->bad = true;
                return;
        }
        if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
                struct header *more = arena_alloc_array(a, n ? 2 * n : 16, sizeof(*more));

                if (!more) {
                        l->bad = true;
                        return;
                }
                if (n)
                        memcpy(more, l->at, n * sizeof(*more));
                l->at = more;
        }
        l->at[n].name = arena_copy(a, name, &ok);
        l->at[n].value = arena_copy(a, value, &ok);
        l->n++;
        l->bad = !ok;
}

#endif
