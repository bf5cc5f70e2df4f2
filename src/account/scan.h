/* The tripwire's eye: finds placeholders in bytes on their way out, in every encoding a tool applies by accident or on purpose. Pure, streaming, bounded.
 *
 * The one idea: every placeholder has the marker `brm` in it, so one pass looks for the marker in all its spellings (as it is in any case, base64 at three
 * alignments in both alphabets, hex), however many placeholders there are; at a candidate the bytes are decoded and compared with the set. Percent-encoding (once, twice),
 * JSON escapes (also of JSON in JSON) and line breaks inside long encoded runs are seen through: LF, CRLF with indentation, JSON's and percent's, quoted-printable's.
 * So are, under any other spelling, the quoted-printable of a mail (soft line breaks, =XX; the letters of the marker as they are) and the backslash before "_" and "-" of Markdown
 * and patterns; and between bytes in hex " ", ":" or "-".
 * Two codings deep: percent or JSON of base64 and of hex, base64 of base64 and of hex, hex of base64 and of hex (the inner one without line breaks in its marker). Base64 of
 * percent is found when the encoder left letters and digits alone. Not seen: three deep, base32, UTF-16, lists of numbers, ciphers, compression (the caller decodes: wire/coding.h).
 * The promise: no byte of a placeholder's random part is ever `clear` before it is certain that it belongs to none. */
#ifndef BROME_ACCOUNT_SCAN_H
#define BROME_ACCOUNT_SCAN_H

#include "account/placeholder.h"

#include <stdint.h>

enum {
        SCAN_KEEP_BYTES_MAX = 4096,  /* the most bytes that scan_step ever keeps back when none of them is part of a hit: the longest placeholder in its widest spelling */
        SCAN_MARKER_BYTES_MAX = 256, /* a marker spelt with more bytes than that (line breaks, escapes) is none */
        SCAN_BACK_BYTES_MAX = SCAN_MARKER_BYTES_MAX + 64, /* and the line break behind it */
        SCAN_SURE_CHARS = 12,        /* that many characters of a random part (60 bits) are a hit, though the rest is cut off */
};

/* The placeholders of a workspace: each with a number of the caller's (the credential). Owned by the door; scans borrow it. */
struct token_set;
struct token_set *token_set_new(void) __attribute__((warn_unused_result));
void token_set_free(struct token_set *t);
/* 0; -1: no placeholder, too many, memory. The same one again changes its number. */
int token_set_add(struct token_set *t, struct slice placeholder, int number) __attribute__((warn_unused_result));
size_t token_set_count(const struct token_set *t);

enum scan_view { VIEW_PLAIN, VIEW_BASE64, VIEW_HEX, VIEW_PERCENT, VIEW_JSON, VIEW_MIXED, VIEW_COUNT };
const char *scan_view_name(enum scan_view v); /* for records: "plain", "base64", … */

struct scan {
        const struct token_set *set;
        ptrdiff_t next;     /* relative to the held bytes: the first position not yet decided; negative when it was given on already */
        size_t back_n;      /* bytes from there on that were given on: a marker, or a part of one */
        uint8_t back[SCAN_BACK_BYTES_MAX];
        uint8_t first;      /* of the stream, blanks left out; 0: not seen yet */
};
struct scan_hit {
        size_t at, n; /* in the held bytes: the random part, as it is spelt: what has to be overwritten to remove it */
        int number;   /* of the token */
        enum scan_view view;
        bool in_json_string; /* it stands as it is inside a JSON string (the stream begins as JSON), so that overwriting it at the same length keeps the text valid */
};

/* A stream; the set may grow meanwhile. */
void scan_begin(struct scan *s, const struct token_set *set);
/* held: all bytes of the stream that were not given on yet, oldest first. Returns how many of them are clear, from the first on; they must be dropped from `held` before the next call
 * (scan_drop). `last`: nothing follows. With a hit, *found is true, the first hit in *hit, and clear ends before it. */
size_t scan_step(struct scan *s, struct slice held, bool last, bool *found, struct scan_hit *hit);
/* n bytes were given on (≤ clear). */
void scan_drop(struct scan *s, size_t n);
/* After the caller overwrote a hit: look at held bytes again from there. */
void scan_again(struct scan *s, size_t at);
/* A whole short text (header, path, name). */
bool scan_text(const struct token_set *set, struct slice text, struct scan_hit *hit);
/* The same for a host name: its dots are left out, since labels cut what is longer than 63 bytes. The hit is the whole name. */
bool scan_name(const struct token_set *set, struct slice name, struct scan_hit *hit);

#endif
