/* Chunked coding (RFC 9112 §7.1): strict streaming reader and writer.
 *
 * The reader is a state machine over bytes, so any cut gives the same result. Sizes are 1–16 hexadecimal digits and below 2^63.
 * Extensions are refused in requests; in answers up to 256 bytes a chunk are read over and never forwarded. */
#ifndef BROME_WIRE_CHUNK_H
#define BROME_WIRE_CHUNK_H

#include "base/buf.h"
#include "wire/field.h"

#define CHUNK_EXT_BYTES_MAX 256     /* per chunk; nobody uses them but attackers and one object store */
#define TRAILER_BYTES_MAX 8192      /* whole section */
#define TRAILER_FIELDS_MAX 32
#define CHUNK_HEAD_BYTES_MAX 18     /* 16 digits and CRLF */

enum body_event {
        BODY_MORE, /* *in is used up; call again with more */
        BODY_DATA, /* *data is a span of *in: the next body bytes */
        BODY_END,  /* the message is complete; *in begins behind it */
        BODY_BAD
};

struct chunk_reader {
        uint8_t state, digits;
        bool is_request;
        uint16_t ext_bytes;
        uint64_t left;
        struct arena *arena; /* borrows, for trailers */
        uint8_t *trailer;    /* TRAILER_BYTES_MAX, made at the first trailer byte */
        uint32_t trailer_n, line;
        struct headers trailers;
};

void chunk_reader_init(struct chunk_reader *r, bool is_request, struct arena *a);
/* Advances *in over what it used. After BODY_END r->trailers holds the trailer fields. */
enum body_event chunk_read(struct chunk_reader *r, struct slice *in, struct slice *data, enum wire_reason *why)
        __attribute__((warn_unused_result));

/* Writes "SIZE CRLF"; returns its length. Follow with the data and CRLF. size > 0. */
size_t chunk_head(uint8_t out[CHUNK_HEAD_BYTES_MAX], uint64_t size);
/* A whole chunk; empty data writes nothing. 0 or -1 (buffer). */
int chunk_write(struct buf *b, struct slice data) __attribute__((warn_unused_result));
/* Last chunk, trailers (may be NULL), final CRLF. */
int chunk_write_end(struct buf *b, const struct headers *trailers) __attribute__((warn_unused_result));

#endif
