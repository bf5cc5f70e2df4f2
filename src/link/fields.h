/* Header blocks between nghttp2 and our own form of them: in, field by field, into an arena; out, as the vector that nghttp2 takes.
 *
 * The list that comes in is bounded as a block is (wire/field.h), so that a peer cannot fill the arena; whether the block is a good one is
 * for the reader in src/wire to say. */
#ifndef BROME_LINK_FIELDS_H
#define BROME_LINK_FIELDS_H

#include "wire/field.h"
#include <nghttp2/nghttp2.h>

struct field_list {
        struct header *at;
        size_t n, bytes;
        enum wire_reason bad; /* WIRE_OK, or why the block is to be refused: too many, too large, no memory */
};

static inline void fields_begin(struct field_list *l) { *l = (struct field_list){ 0 }; }
static inline struct headers fields_block(const struct field_list *l) { return (struct headers){ l->at, l->n }; }
/* Copies name and value into the arena. */
void fields_add(struct field_list *l, struct arena *a, struct slice name, struct slice value);

/* One field for nghttp2; the flags say what it need not copy. */
static inline nghttp2_nv field_nv(struct slice name, struct slice value, uint8_t flags)
{
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name.p, (uint8_t *)(uintptr_t)value.p, name.n, value.n, flags };
}
/* The first `cap` fields of h. How many those are. */
size_t fields_nv(nghttp2_nv *nv, size_t cap, const struct headers *h, uint8_t flags);
/* From a data provider's read callback, with the last bytes: submits what trailers there are and has nghttp2 end the stream with them.
 * 0, or what the callback is to return. */
int fields_end(nghttp2_session *s, int32_t stream, const struct headers *trailers, uint32_t *flags) __attribute__((warn_unused_result));

#endif
