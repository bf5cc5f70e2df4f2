/* The tripwire's eye: finds placeholders in bytes on their way out, in every encoding a tool applies by accident or on purpose. Pure, streaming, bounded.
 *
 * The one idea: every placeholder has the marker `brm` in it, so one pass looks for the marker in all its spellings (as it is in any case, base64 at three
 * alignments in both alphabets, hex), however many placeholders there are; at a candidate the bytes are decoded and compared with the set. Percent-encoding (once, twice),
 * JSON escapes and line breaks inside long encoded runs are seen through.
 * The promise: no byte of a placeholder's random part is ever `clear` before it is certain that it belongs to none. */
#ifndef BROME_ACCOUNT_SCAN_H
#define BROME_ACCOUNT_SCAN_H

#include "account/placeholder.h"

#include <stdint.h>

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
        size_t seen; /* of the held bytes, how many were looked at: only new ones are scanned */
};
struct scan_hit {
        size_t at, n; /* in the held bytes: what would have to be overwritten to remove it */
        int number;   /* of the token */
        enum scan_view view;
        bool in_json_string; /* it stands plainly inside a JSON string, so that overwriting it at the same length keeps the text valid */
};

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
/* The most bytes that scan_step ever keeps back when none of them is part of a hit. */
#define SCAN_KEEP_BYTES_MAX 4096

#endif
