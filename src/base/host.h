/* Host names in one form, so that "the same name" is a byte comparison everywhere: rules, DNS, SNI, Host, :authority, certificates.
 *
 * Canonical: lower case, A-labels (UTS 46 non-transitional), no trailing dot, 1–253 bytes, labels of 1–63 bytes of [a-z0-9_-], no '-' in front.
 * Addresses: strict dotted quad, or IPv6 in brackets. What a lenient parser would read as an address (2130706433, 0x7f.1, 0177.0.0.1,
 * 127.1) is neither name nor address: refused, because two readers would disagree on it. Pure: no I/O, no locale. */
#ifndef BROME_BASE_HOST_H
#define BROME_BASE_HOST_H

#include "base/addr.h"
#include "base/slice.h"

enum {
        HOST_NAME_BYTES = 256, /* room for the longest name (253) or bracketed address, and a NUL */
        HOST_LABEL_BYTES = 63, /* RFC 1035 §2.3.4 */
        HOST_TEXT_BYTES = 253, /* the same, in presentation form without the last dot */
};

enum host_kind { HOST_NAME = 1, HOST_ADDR = 2 };

/* Writes the canonical text of `in`, NUL terminated (IPv6 in brackets, RFC 5952). Returns HOST_NAME, HOST_ADDR, or -1 with `out` untouched. */
int host_canonical(char *out, size_t cap, struct slice in) __attribute__((warn_unused_result));
/* The address in a canonical (or any acceptable) literal: dotted quad or bracketed IPv6. 0 or -1. */
int host_addr(struct addr *out, struct slice text) __attribute__((warn_unused_result));
/* Is `name` exactly in canonical form? For names that come from our own processes. */
bool host_is_canonical(struct slice name);
/* Is `name` equal to `base` or below it (label boundary)? Both canonical. */
bool host_is_under(struct slice name, struct slice base);

#endif
