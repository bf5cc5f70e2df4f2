/* The canonical answer, from and to HTTP/1.x and HTTP/2, interim answers (1xx) included. As in request.h, connection matters are
 * members, not fields. A WebSocket's 101 and an extended CONNECT's 200 are the same thing here: `upgraded`. */
#ifndef BROME_WIRE_RESPONSE_H
#define BROME_WIRE_RESPONSE_H

#include "wire/request.h"

struct response {
        uint16_t status; /* 100–999; 1xx but an upgrade's 101 is interim: another answer follows */
        struct headers headers;
        enum body_kind body;
        uint64_t length; /* declared length: with BODY_LENGTH, or has_length (an answer to HEAD, 304, 0) */
        bool has_length;
        bool upgraded;   /* what follows is no HTTP */
        bool keep_alive; /* HTTP/1.x origin: the connection may be used again after the body */
};

static inline bool response_is_interim(const struct response *r) { return r->status < 200 && !r->upgraded; }

/* req is the request as it was sent on that leg (method, upgrade, ws_key). brome-* fields are dropped but on the link. */
enum wire_reason response_from_h1(struct arena *a, const struct h1_head *h, const struct request *req, struct response *out) __attribute__((warn_unused_result));
enum wire_reason response_from_h2(struct arena *a, const struct headers *block, bool end_stream, const struct request *req, bool link,
                                  struct response *out)
        __attribute__((warn_unused_result));

/* req is the request as it came on that leg. *how says how to write the body: NONE, LENGTH, CHUNKED, or CLOSE (HTTP/1.0 clients: then
 * the connection must be closed after it). keep_alive false adds "connection: close". Interim answers to HTTP/1.0 write nothing. */
int response_to_h1(struct buf *b, const struct response *r, const struct request *req, bool keep_alive, enum body_kind *how)
        __attribute__((warn_unused_result));
enum wire_reason response_to_h2(struct arena *a, const struct response *r, struct headers *out) __attribute__((warn_unused_result));
/* "OK", "Not Found"; "" when unknown. */
const char *status_phrase(uint16_t status);

#endif
