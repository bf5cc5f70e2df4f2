/* Capsules (RFC 9297 §3) with HTTP datagrams (type 0, context 0 as in RFC 9298 §5): how UDP travels between the doors. */
#ifndef BROME_WIRE_CAPSULE_H
#define BROME_WIRE_CAPSULE_H

#include "base/slice.h"
#include "wire/reason.h"

#define CAPSULE_DATAGRAM 0
#define CAPSULE_BYTES_MAX 65544    /* a UDP payload (65,527) and its context, with room */
#define CAPSULE_HEAD_BYTES_MAX 17  /* type, length, context */

struct capsule {
        uint64_t type;
        struct slice value;   /* borrows from in */
        bool is_udp;          /* a datagram with context 0 */
        struct slice payload; /* of it */
};

/* QUIC variable-length integers (RFC 9000 §16). varint_read: bytes used, 0 when in is too short. */
size_t varint_read(struct slice in, uint64_t *out);
size_t varint_write(uint8_t out[8], uint64_t v);

/* Unknown types are returned too: pass over them. */
enum wire_step capsule_read(struct slice in, struct capsule *out, size_t *used, enum wire_reason *why) __attribute__((warn_unused_result));
/* The head of a UDP datagram capsule: write it, then the payload. */
size_t capsule_udp_head(uint8_t out[CAPSULE_HEAD_BYTES_MAX], size_t payload_bytes);

#endif
