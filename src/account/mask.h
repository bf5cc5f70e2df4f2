/* Re-masking: the real secret in what an origin answers becomes the placeholder again, in every form an echo takes: as it is, base64 (standard and url
 * alphabets, three alignments), percent-encoded (any subset of its characters, either case; a blank also as "+"), JSON-escaped (\uXXXX, \/ , any subset), escaped for HTML
 * (&amp;, &#43;, &#x2F;; in base64 not within its first three characters). Not seen: a character that is not ASCII, escaped as one. Streaming: the same
 * result however the bytes are cut. Pure; held by outer doors for accounts only.
 *
 * Line breaks inside base64 are seen through (not within its first three characters); all backslashes of JSON in JSON are. A stream may keep back a last character or two
 * that could begin a secret: where a peer waits for each message (WebSocket), end the message with `last` and begin anew.
 *
 * It guards against echoes, not against an origin that transforms on purpose. What stands in base64 is replaced at the same length, so that what surrounds it
 * still decodes. Secrets shorter than MASK_SECRET_BYTES_MIN are not looked for (they would be found everywhere): secret_problem refuses them. */
#ifndef BROME_ACCOUNT_MASK_H
#define BROME_ACCOUNT_MASK_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>

enum {
        MASK_SECRET_BYTES_MIN = 8,
        MASK_PAIRS_MAX = 64, /* a registry account has its tokens besides */
};

struct mask; /* the compiled set: secret → placeholder; SECURITY: holds secrets, wiped by mask_free */
struct mask *mask_new(void) __attribute__((warn_unused_result));
void mask_free(struct mask *m); /* NULL is fine */
/* The new set will hold secrets that `from` has too where that one has them, until `from` is freed: locked memory is scarce. Before mask_add; `from` must live
 * until the last one. */
void mask_share(struct mask *m, const struct mask *from);
/* 0; -1: too many, too short, or no memory can be locked. Streams begun before see the new pair from their next byte on. */
int mask_add(struct mask *m, struct slice secret, struct slice placeholder) __attribute__((warn_unused_result));

struct mask_stream {
        struct mask *m;
        struct buf keep; /* a possible part of a match */
        uint64_t found;  /* occurrences replaced */
};
void mask_begin(struct mask_stream *s, struct mask *m);
void mask_end(struct mask_stream *s);
/* Appends what may go on to out; `last` gives up everything. 0, or -1 (memory). */
int mask_feed(struct mask_stream *s, struct slice in, bool last, struct buf *out) __attribute__((warn_unused_result));
/* One whole text (a header value): true when something was replaced, then *out has it. -1 memory. */
int mask_text(struct mask *m, struct slice in, struct buf *out) __attribute__((warn_unused_result));

#endif
