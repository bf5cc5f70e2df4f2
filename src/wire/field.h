/* Header fields (RFC 9110 §5), in one form for HTTP/1.x and HTTP/2.
 *
 * The one idea: in every `struct header` of this folder the name is a lower-case token and the value is trimmed and free of CR, LF,
 * NUL and other controls but HTAB. So names compare by bytes, and a list can be written to either version as it is. */
#ifndef BROME_WIRE_FIELD_H
#define BROME_WIRE_FIELD_H

#include "base/arena.h"
#include "base/slice.h"
#include "wire/reason.h"

#define FIELDS_MAX 128             /* per head; browsers and agents stay below 60 */
#define FIELD_LINE_BYTES_MAX 8192  /* one field line, as nginx and haproxy; cookies and tokens fit */
#define HEAD_BYTES_MAX 65536       /* start line and fields together */
/* An HTTP/2 block has pseudo-headers and, on the link, a door's own fields besides; and a canonical target may be thrice as long as
 * what came. So what one door accepts, the next one does. */
#define BLOCK_FIELDS_MAX (FIELDS_MAX + 16)
#define BLOCK_BYTES_MAX (HEAD_BYTES_MAX + 2 * FIELD_LINE_BYTES_MAX)
#define METHOD_BYTES_MAX 24        /* longest registered: UPDATEREDIRECTREF (17) */

struct header {
        struct slice name, value;
};
#define HEADERS_SPARE 8 /* room behind the lists that request_to_h2 and response_to_h2 make, for fields of a door */

/* Borrows: the array and the bytes belong to the arena that made them. */
struct headers {
        struct header *at;
        size_t n;
};

/* First field of that name (given in lower case), or NULL. */
const struct header *headers_find(const struct headers *h, const char *name);
size_t headers_count(const struct headers *h, const char *name);
/* Its value, or the empty slice. */
struct slice headers_value(const struct headers *h, const char *name);

/* Next element of a comma separated list (RFC 9110 §5.6.1), trimmed; empty elements are skipped. False at the end. */
bool list_next(struct slice *rest, struct slice *element);
/* Trims SP and HTAB at both ends. */
struct slice field_trim(struct slice s);

bool field_is_token(struct slice s);    /* RFC 9110 §5.6.2, at least one character */
bool field_value_ok(struct slice s);    /* HTAB, SP, VCHAR, obs-text only */
bool field_is_hop(struct slice name);   /* hop-by-hop: never forwarded (RFC 9110 §7.6.1) */
bool field_is_ours(struct slice name);  /* brome-*, lower case: between the doors only */
bool field_is_no_trailer(struct slice name); /* must not stand in a trailer (RFC 9110 §6.5.1) */
/* `content_length` and the like: CGI origins read `_` as `-`. */
bool field_is_alias(struct slice name);

/* One "name: value" line without its CRLF, strictly (RFC 9112 §5). The slices borrow from line; the name keeps its case. */
enum wire_reason field_parse(struct slice line, struct slice *name, struct slice *value) __attribute__((warn_unused_result));

/* A plain decimal number up to 2^63-1, no sign, space or list. False when it is none. */
bool field_number(struct slice s, uint64_t *out);

/* Takes the brome-* ones out of what came from a guest or an origin; the list is changed in place. */
void trailers_drop_ours(struct headers *h);
/* Trailers as they may be passed on: refuses forbidden fields; from_h2 adds RFC 9113 §8.1 (no pseudo-headers, lower case). */
enum wire_reason trailers_check(const struct headers *h, bool from_h2) __attribute__((warn_unused_result));

#endif
