/* Strict HTTP/1.x head reader (RFC 9112), for requests and answers.
 *
 * The one idea: a head is read line by line as the bytes come, each byte looked at once, so a fault is refused when its line is
 * complete and not when the head is. CRLF only; no folding; no space before the colon; HTTP/1.0 or HTTP/1.1 and nothing else.
 * It must never be looser than llhttp's strict mode, and never repairs: what is forwarded is written anew from the struct. */
#ifndef BROME_WIRE_H1_H
#define BROME_WIRE_H1_H

#include "wire/field.h"

#define H1_START_BYTES_MAX 8192 /* start line; the target is inside it */

enum h1_form {
        H1_ORIGIN,    /* /path?query */
        H1_ABSOLUTE,  /* http://host/path */
        H1_AUTHORITY, /* host:port, CONNECT only */
        H1_ASTERISK,  /* *, OPTIONS only */
        H1_FORM_COUNT
};

struct h1_head {
        bool is_request;
        uint8_t minor; /* HTTP/1.minor: 0 or 1 */
        struct slice method, target;
        enum h1_form form;
        uint16_t status; /* answers */
        struct headers headers;
};

/* Positions relative to the start of the head. Open for embedding; touch only through the functions. */
struct h1_reader {
        bool is_request;
        bool started;      /* the start line was read */
        uint8_t minor;
        uint8_t form;
        uint16_t status;
        uint16_t fields;
        uint32_t line, scan; /* begin of the current line; bytes of it already searched */
        uint32_t method_n, target_at, target_n;
        struct {
                uint32_t name_at, value_at;
                uint16_t name_n, value_n;
        } field[FIELDS_MAX];
};

void h1_reader_init(struct h1_reader *r, bool is_request);
/* `in` is everything of this head so far, always from its first byte (its address may change between calls). WIRE_DONE: *out is
 * filled, its bytes copied to the arena, *used is the length of the head; the reader is ready for the next. */
enum wire_step h1_read(struct h1_reader *r, struct slice in, struct arena *a, struct h1_head *out, size_t *used, enum wire_reason *why)
        __attribute__((warn_unused_result));

/* --- framing: what of the bytes that follow is the body (RFC 9112 §6.3), decided here and nowhere else --- */
enum body_kind {
        BODY_NONE,
        BODY_LENGTH,  /* exactly `length` bytes, more than none */
        BODY_CHUNKED, /* of a length that is not known beforehand, ended by the framing (chunked, or END_STREAM in HTTP/2) */
        BODY_CLOSE,   /* until the connection ends; answers only */
        BODY_KIND_COUNT
};
struct framing {
        enum body_kind kind;
        uint64_t length;
        bool has_length; /* a length was declared: also for an answer to HEAD, or 0 */
};
/* `method` is that of the request this answer belongs to; ignored for requests. */
enum wire_reason h1_framing(const struct h1_head *h, struct slice method, struct framing *out) __attribute__((warn_unused_result));

/* --- the Connection field (RFC 9110 §7.6.1) --- */
#define CONNECTION_NAMES_MAX 16 /* nominated fields; more is an attack on the list */
#define CONNECTION_OPTION_BYTES_MAX 64 /* longer than any field name in use */
struct connection {
        bool keep_alive; /* the result: may the connection be used again */
        bool upgrade;    /* "upgrade" was nominated */
        bool te;
        struct slice names[CONNECTION_NAMES_MAX]; /* other nominated fields, lower case not assured */
        size_t n;
};
/* Refuses nominations of framing, routing and account fields. */
enum wire_reason connection_parse(const struct headers *h, uint8_t minor, struct connection *out) __attribute__((warn_unused_result));
bool connection_names(const struct connection *c, struct slice field);

#endif
