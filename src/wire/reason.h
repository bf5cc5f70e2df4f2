/* What every codec of this folder answers with.
 *
 * A codec turns bytes into a struct or into one named reason (a row of reasons.tbl). It does no I/O, writes no log and takes memory
 * only from the caller's arena. A stream codec answers with a step: more bytes are needed, a whole unit is there, or it is refused.
 * However the bytes are cut, the answer is the same. On refusal outputs other than the reason are unspecified. */
#ifndef BROME_WIRE_REASON_H
#define BROME_WIRE_REASON_H

#include <stdint.h>

enum wire_reason {
        WIRE_OK = 0,
#define X(id, key, status, h2, sentence) WIRE_##id,
#include "wire/reasons.tbl"
#undef X
        WIRE_REASON_COUNT
};

enum wire_step {
        WIRE_MORE, /* nothing wrong so far; call again with more bytes */
        WIRE_DONE, /* one whole unit was read */
        WIRE_BAD   /* refused; the reason was set; the stream is beyond use */
};

const char *wire_reason_key(enum wire_reason r);      /* "bare-lf"; "ok" for WIRE_OK */
const char *wire_reason_sentence(enum wire_reason r); /* for a person; no full stop */
uint16_t wire_reason_status(enum wire_reason r);      /* HTTP status towards who sent it */
uint32_t wire_reason_h2(enum wire_reason r);          /* RST_STREAM code */

#endif
