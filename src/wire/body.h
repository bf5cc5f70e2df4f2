/* One reader for every HTTP/1.x body, whatever its framing. */
#ifndef BROME_WIRE_BODY_H
#define BROME_WIRE_BODY_H

#include "wire/chunk.h"
#include "wire/h1.h"

struct body_reader {
        enum body_kind kind;
        uint64_t left;
        bool ended;
        struct chunk_reader chunk;
};

/* The arena is used for trailers only. */
void body_reader_init(struct body_reader *r, const struct framing *f, bool is_request, struct arena *a);
/* As chunk_read. BODY_END comes once, at once for an empty body; then stop calling. */
enum body_event body_read(struct body_reader *r, struct slice *in, struct slice *data, enum wire_reason *why)
        __attribute__((warn_unused_result));
/* The connection ended: BODY_END where that ends the body, else BODY_BAD. */
enum body_event body_eof(struct body_reader *r, enum wire_reason *why) __attribute__((warn_unused_result));
static inline const struct headers *body_trailers(const struct body_reader *r) { return &r->chunk.trailers; }

#endif
