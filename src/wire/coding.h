/* Content codings (RFC 9110 §8.4.1): decoders for what stands in Content-Encoding, several in a row, and for WebSocket messages (RFC 7692).
 * Streaming: bytes in, at most as many bytes out as the caller has room for, so that a bomb costs time and never memory.
 *
 * Strict: a body that ends too early, or goes on behind its end, is bad; gzip may have several members (RFC 1952 §2.2) and zstd several frames. A
 * body of no bytes at all is empty, in every coding. Pure but for the libraries' memory: up to CODING_WINDOW_BYTES_MAX, and twice that for br, for
 * each coding. */
#ifndef BROME_WIRE_CODING_H
#define BROME_WIRE_CODING_H

#include "base/slice.h"

enum coding {
        CODING_GZIP,    /* and x-gzip */
        CODING_DEFLATE, /* zlib, or raw deflate, which some take it for */
        CODING_BR,
        CODING_ZSTD,
        CODING_MESSAGES, /* the payloads of permessage-deflate, each with CODING_MESSAGE_TAIL behind it; never ends. Not in Content-Encoding */
        CODING_COUNT
};
enum {
        CODINGS_MAX = 3,                           /* of one body: nobody has a use for more */
        CODING_WINDOW_BYTES_MAX = 8 * 1024 * 1024, /* zstd: RFC 9659 */
};
#define CODING_MESSAGE_TAIL SLICE_LIT("\x00\x00\xff\xff") /* RFC 7692 §7.2.2 */

const char *coding_name(enum coding c);
/* The value of Content-Encoding (several fields joined by commas), in its order; `identity` is left out. The number of codings, or -1: one that is
 * not known, or too many. */
int codings_parse(struct slice value, enum coding list[CODINGS_MAX]) __attribute__((warn_unused_result));

enum coding_status {
        CODING_OUT,  /* out is full: call again, also with nothing more to give */
        CODING_MORE, /* *in was used up and all of it is in out */
        CODING_END,  /* `last`, and the body is whole */
        CODING_BAD   /* see codings_problem; out has what stands before it, nothing that follows is decoded */
};
enum coding_problem { CODING_PROBLEM_NONE, CODING_CORRUPT, CODING_CUT, CODING_TRAILING, CODING_MEMORY, CODING_PROBLEM_COUNT };

struct codings;
/* list: as codings_parse gave it, the first was applied first. NULL: memory. */
struct codings *codings_new(const enum coding *list, size_t count) __attribute__((warn_unused_result));
void codings_free(struct codings *c); /* NULL is fine */
/* Takes from the front of *in, writes at most cap (> 0) bytes to out, *n of them. last: nothing follows *in. */
enum coding_status codings_step(struct codings *c, struct slice *in, bool last, uint8_t *out, size_t cap, size_t *n)
        __attribute__((warn_unused_result));
enum coding_problem codings_problem(const struct codings *c);
const char *coding_problem_sentence(enum coding_problem p); /* lower case, no full stop */

#endif
