/* Placeholders: what the guest holds instead of a secret. Pure: the caller brings the random bytes.
 *
 * Shape: the kind's prefix, in it or behind it the marker `brm` and at most one of "-", "_", "-mcp_"; then the random part: lower-case letters and digits
 * a–z 2–7 (RFC 4648 base 32), at least 26 of them (130 bits), so that it survives what folds case (host names, header names); then, for GitHub,
 * the checksum. The core is what stands from the marker to the random part's end: by it a placeholder is recognised wherever it stands. */
#ifndef BROME_ACCOUNT_PLACEHOLDER_H
#define BROME_ACCOUNT_PLACEHOLDER_H

#include "account/kind.h"

#include <stdint.h>

enum {
        PLACEHOLDER_RANDOM_BYTES = 64, /* given to mint; it uses what the shape needs, at least 17 */
        PLACEHOLDER_BYTES_MAX = 160,   /* of one, without NUL */
        PLACEHOLDER_CORE_BYTES_MIN = 29, /* "brm" and 26 */
        PLACEHOLDERS_MAX = 256,        /* of one workspace: its credentials', and tokens minted in answers */
        PLACEHOLDER_PREVIEW_BYTES = 32,
};

/* Makes one of the kind's shape. NUL terminated; returns its length. */
size_t placeholder_mint(enum account_kind kind, const uint8_t random[PLACEHOLDER_RANDOM_BYTES], char out[PLACEHOLDER_BYTES_MAX + 1]);
/* A well-formed placeholder of any kind (of whatever workspace)? */
bool placeholder_ok(struct slice s);
/* Its core; empty when s is none. */
struct slice placeholder_core(struct slice s);
/* What may be shown of it: the prefix and the first four characters of the random part, then "…": never more. */
void placeholder_preview(struct slice s, char out[PLACEHOLDER_PREVIEW_BYTES]);

#endif
