/* Canonical path and query: what the origin will see, in one spelling, or refused (ATTACKS kind: path confusion).
 *
 * Canonical form (RFC 3986 §6.2.2, narrower): begins with "/"; unreserved characters, sub-delims but "+", ":" and "@" stand decoded;
 * every other byte stands as %XX in upper case; the decoded path is valid UTF-8. "+" and "%2B" stay as sent, since origins
 * differ in reading them. "%2F" stays an encoded byte (npm's @scope%2Fname) but counts as a separator in every check.
 * Refused: segments of dots and blanks alone, empty segments (a trailing slash is fine), backslash, controls, ";" raw or encoded (many
 * origins cut "/admin;x" to "/admin"), malformed escapes, "%25" before two hex digits (double encoding), a fragment. Canonical of canonical is
 * itself. The doors forward this form and no other. */
#ifndef BROME_WIRE_PATH_H
#define BROME_WIRE_PATH_H

#include "base/arena.h"
#include "base/slice.h"
#include "wire/reason.h"

struct path {
        struct slice path;    /* "/…", or "*" from the asterisk form */
        struct slice slashed; /* path with %2F as "/", when there is one; else empty: rules must hold for both */
        struct slice query;   /* without "?"; escapes upper case, unreserved decoded, non-ASCII encoded */
        bool has_query;       /* "?" was there, query may be empty */
        bool changed;         /* differs from what was sent */
};

/* raw: path and optional query, origin form. Slices of *out belong to the arena, or borrow from raw when nothing changed. */
enum wire_reason path_canonical(struct arena *a, struct slice raw, struct path *out) __attribute__((warn_unused_result));

/* Next key and value of a canonical query, still encoded; "&" and ";" both separate (the stricter reading). False at the end. */
bool query_next(struct slice *rest, struct slice *key, struct slice *value);
/* Decodes %XX and "+" into out (as long as s at most); returns the length. */
size_t query_decode(uint8_t *out, struct slice s);
/* Valid UTF-8: no overlong form, surrogate or value above U+10FFFF. */
bool utf8_ok(struct slice s);

#endif
