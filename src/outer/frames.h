/* WebSocket frames on an account's connection: each message's bytes pass through a text filter (the mask on the way down, the swap on the way up) and are framed anew,
 * since their number may change. Permessage-deflate is never agreed to here, so payloads are plain.
 *
 * A message may be cut into more frames than it came in (RFC 6455 §5.4), at whatever was there to be passed on: nothing waits for a message's end. */
#ifndef BROME_OUTER_FRAMES_H
#define BROME_OUTER_FRAMES_H

#include "base/buf.h"
#include "wire/ws.h"

struct frames_filter {
        /* One message's bytes, as they come; first: a message begins. Appends to out; 0, or -1 memory, or a code of the filter's own (> 0). */
        int (*message)(void *ctx, struct slice in, bool text, bool first, bool last, struct buf *out);
        /* A control frame's whole payload, at most 125 bytes of it are used. */
        int (*control)(void *ctx, struct slice in, struct buf *out);
        void *ctx;
};

struct frames {
        struct frames_filter filter;
        struct ws_reader reader;
        bool to_server;        /* what is written is masked (RFC 6455 §5.3) */
        bool begun, continued; /* of the message: its first bytes went to the filter; a frame of it was written */
        uint8_t message;       /* its opcode */
        struct buf piece;      /* of the message, filtered, not yet framed */
        struct buf control;    /* payload of a control frame so far */
        bool in_control;
};

void frames_init(struct frames *f, bool from_client, const struct frames_filter *filter);
void frames_fini(struct frames *f);
/* Appends frames to out. 0; -1 memory; -2 the sender broke the rules of WebSocket; a filter's code. */
int frames_feed(struct frames *f, struct slice in, struct buf *out) __attribute__((warn_unused_result));

#endif
