/* Writing one JSON object by hand, into a buffer: jansson refuses malformed UTF-8, and what stands in a record may be any bytes. */
#ifndef BROME_JOURNAL_JSON_H
#define BROME_JOURNAL_JSON_H

#include "base/buf.h"

/* A string with its quotes. Malformed UTF-8 becomes U+FFFD; control, bidi and other invisible characters become \uXXXX. */
int json_put_string(struct buf *out, struct slice s);

struct json_writer {
        struct buf *out;
        bool any; /* a member was written */
};
void json_begin(struct json_writer *w, struct buf *out);
void json_text(struct json_writer *w, const char *key, struct slice value);
void json_number(struct json_writer *w, const char *key, uint64_t value);
void json_flag(struct json_writer *w, const char *key, bool value);
void json_time(struct json_writer *w, const char *key, int64_t time_us);
/* Ends the object and the line; -1 when the buffer refused anything. */
int json_end(struct json_writer *w) __attribute__((warn_unused_result));

/* RFC 3339, UTC, milliseconds; without quotes. */
int json_put_time(struct buf *out, int64_t time_us);

#endif
