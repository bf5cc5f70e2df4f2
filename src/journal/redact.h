/* Redaction of a request's path before it is written anywhere: the journal shows what was asked for, never what was said.
 *   query     `?a=1&b=2` → `?a=…&b=…`: keys stay, values go; a key that looks like a secret goes as well
 *   segments  of 24 bytes or more that look random (hex, base64, UUID-like, mixed digits and cases) or carry a known token prefix
 *             → their first four bytes and `…`; shorter ones stay
 * Pure. Idempotent: redacting twice changes nothing more. Percent escapes count as the byte they stand for. */
#ifndef BROME_JOURNAL_REDACT_H
#define BROME_JOURNAL_REDACT_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        REDACT_OPAQUE_BYTES = 24, /* shorter than any token that matters; longer than most words joined by dashes */
        REDACT_PREVIEW_BYTES = 4, /* enough to tell two apart, too little to use */
};

/* Appends the redacted form of `path` (path, optionally with ?query and #fragment). 0, or -1 when the buffer refused. */
int redact_path(struct buf *out, struct slice path) __attribute__((warn_unused_result));
/* Whether one segment or value would be replaced. */
bool redact_is_opaque(struct slice segment);

#endif
