/* WebSocket frames (RFC 6455 §5): a streaming reader that lets a door see every frame and pass the bytes on unchanged.
 *
 * Forward `head` at WS_FRAME and `payload` at WS_PAYLOAD and the peer gets exactly the sender's bytes, each frame checked before its
 * first byte goes on. Payload spans are as on the wire: unmask a copy to look inside. */
#ifndef BROME_WIRE_WS_H
#define BROME_WIRE_WS_H

#include "base/slice.h"
#include "wire/reason.h"

#define WS_HEAD_BYTES_MAX 14

enum ws_opcode { WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
enum ws_event {
        WS_MORE,
        WS_FRAME,   /* a frame begins: reader->frame is filled */
        WS_PAYLOAD, /* *payload: the next bytes of it */
        WS_FRAME_END,
        WS_BAD
};
struct ws_frame {
        bool fin, rsv1, masked;
        uint8_t opcode;       /* as on the wire */
        uint8_t message;      /* of the message it belongs to: WS_TEXT or WS_BINARY also for continuations */
        uint8_t key[4];
        uint64_t length;
        struct slice head;    /* the header's bytes, in the reader, until the next frame */
};
struct ws_reader {
        bool from_client;  /* must be masked; else must not */
        bool deflate;      /* permessage-deflate was agreed: rsv1 may stand on a message's first frame */
        bool in_message, closed, in_frame;
        uint8_t message, head_n;
        uint8_t head[WS_HEAD_BYTES_MAX];
        uint64_t left, offset; /* of the current payload; offset is for ws_unmask */
        struct ws_frame frame;
};

void ws_reader_init(struct ws_reader *r, bool from_client, bool deflate);
/* Advances *in over what it used. Events of a frame: FRAME, PAYLOAD*, FRAME_END. */
enum ws_event ws_read(struct ws_reader *r, struct slice *in, struct slice *payload, enum wire_reason *why) __attribute__((warn_unused_result));
/* XORs with the key; offset is the position of s in the frame's payload. Masking and unmasking are the same. out may be s.p. */
void ws_mask(uint8_t *out, struct slice s, const uint8_t key[4], uint64_t offset);
/* Writes a header, key NULL for an unmasked frame; returns its length. */
size_t ws_head(uint8_t out[WS_HEAD_BYTES_MAX], bool fin, bool rsv1, enum ws_opcode opcode, uint64_t length, const uint8_t key[4]);

#endif
