/* Rows as text and as JSON. Text is for a person: one line a row, local time, every foreign byte through esc_text(). JSON is one object a
 * line, valid for any bytes (malformed UTF-8 becomes U+FFFD, control, bidi and invisible characters are escaped), times in RFC 3339 UTC.
 * Pure: appends to a buffer that the caller writes out; -1 when the buffer refused. */
#ifndef BROME_JOURNAL_PRINT_H
#define BROME_JOURNAL_PRINT_H

#include "journal/reader.h"

enum print_form {
        PRINT_TEXT,
        PRINT_COLOUR, /* text with colours: only for a terminal that was asked */
        PRINT_JSON,
};

/* The heading line of a listing; nothing for JSON. */
int print_trace_head(struct buf *out, enum print_form form) __attribute__((warn_unused_result));
int print_trace(struct buf *out, enum print_form form, const struct row *row) __attribute__((warn_unused_result));
int print_timeline_head(struct buf *out, enum print_form form) __attribute__((warn_unused_result));
int print_timeline(struct buf *out, enum print_form form, const struct row *row) __attribute__((warn_unused_result));
/* Everything of one record: a line with its number, its time and what it is, then a line for each field. JSON: as in the timeline. */
int print_record(struct buf *out, enum print_form form, const struct row *row) __attribute__((warn_unused_result));
/* A leak warning and the two ways out of it: make it an account, or refuse it. */
int print_leak(struct buf *out, enum print_form form, const struct leak_row *row) __attribute__((warn_unused_result));
int print_host_head(struct buf *out, enum print_form form) __attribute__((warn_unused_result));
int print_host(struct buf *out, enum print_form form, const struct host_row *row) __attribute__((warn_unused_result));
int print_summary_head(struct buf *out, enum print_form form) __attribute__((warn_unused_result));
int print_summary(struct buf *out, enum print_form form, const struct summary_row *row) __attribute__((warn_unused_result));
/* "refused  GET https://host:443/path (12 times): reason" and, on lines of their own, "  to allow it:  SUGGEST" or, where a rule refused it,
 * "  refused by:   RULE" and "  to allow it, above that rule:  SUGGEST". */
int print_refusal(struct buf *out, enum print_form form, const struct refusal_row *row) __attribute__((warn_unused_result));
int print_finding(struct buf *out, enum print_form form, uint64_t seq, const char *text) __attribute__((warn_unused_result));
int print_verify(struct buf *out, enum print_form form, const struct verify_result *v) __attribute__((warn_unused_result));

/* For other listings: a JSON string with quotes, valid whatever the bytes. */
int print_json_string(struct buf *out, struct slice s) __attribute__((warn_unused_result));
/* "2026-01-31T12:00:00.123Z". */
int print_time_utc(struct buf *out, int64_t time_us) __attribute__((warn_unused_result));

#endif
