/* Untrusted text made fit for a person's terminal, log or error line. */
#ifndef BROME_BASE_ESC_H
#define BROME_BASE_ESC_H

#include "base/slice.h"

/* Writes s to out (size ≥ 8), NUL terminated: printable ASCII and well-formed printable UTF-8 stay; control bytes, bidi
 * controls, zero-width and tag characters, invalid UTF-8 and the backslash become \xHH or \u{H}; cut with "…" when it does not fit.
 * Returns out. */
const char *esc_text(char *out, size_t size, struct slice s);

/* A per-thread ring of 8 buffers of 512 bytes, for use inside one printf call. */
const char *esc(struct slice s);
static inline const char *esc_str(const char *s) { return esc(slice_str(s)); }

#endif
