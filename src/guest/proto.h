/* The guest protocol: frames between brome-guest (PID 1 inside) and brome-launch, and, with stream 0 only, between brome-launch and the
 * client that asked for an exec. The same over a socket pair and over a virtio-serial port. Both ends treat the other as hostile.
 *
 *   frame = u32 stream | u8 type | u8 flags (0) | u16 length | payload      little-endian; length ≤ PROTO_PAYLOAD_BYTES
 *
 * Stream 0 on the guest channel is the guest itself; each exec is a stream of its own, numbered by brome-launch, never reused in a session.
 * Flow control: a sender of STDIN, STDOUT or STDERR may have at most PROTO_WINDOW_BYTES unacknowledged on a stream and direction; WINDOW gives bytes back.
 * Pure codec: no I/O. */
#ifndef BROME_GUEST_PROTO_H
#define BROME_GUEST_PROTO_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        PROTO_HEAD_BYTES = 8,
        PROTO_PAYLOAD_BYTES = 32 * 1024,
        PROTO_WINDOW_BYTES = 256 * 1024,
        PROTO_STREAMS = 256, /* execs at once */
        PROTO_EXEC_BYTES = 256 * 1024, /* one EXEC, over several EXEC frames */
};

enum proto_type {
        PROTO_HELLO = 1, /* guest → host, stream 0: u32 protocol version (1); host → guest: the same, answered before anything else */
        PROTO_SETUP,     /* host → guest, stream 0: JSON-free TLV: what PID 1 has to do before it is ready (namespace kind: nothing) */
        PROTO_READY,     /* guest → host, stream 0 */
        PROTO_EXEC,      /* host → guest: a piece of the request (see proto_exec); flags bit 0: last piece */
        PROTO_STARTED,   /* guest → host: u32 pid inside; or FAILED */
        PROTO_FAILED,    /* guest → host: u32 errno, then a printable sentence */
        PROTO_STDIN,     /* towards the program; empty: end of input */
        PROTO_STDOUT,    /* from the program (with a pty: everything); empty: end */
        PROTO_STDERR,
        PROTO_WINDOW,    /* u32 bytes consumed, u8 which (PROTO_STDIN, _STDOUT, _STDERR) */
        PROTO_RESIZE,    /* u16 rows, u16 columns */
        PROTO_SIGNAL,    /* u32 signal number, to the foreground process group */
        PROTO_EXIT,      /* guest → host: u32 wait status */
        PROTO_CLOSE,     /* the client is gone: hang up the program */
        PROTO_SHUTDOWN,  /* host → guest, stream 0: u32 grace in ms: TERM, then KILL, then exit */
        PROTO_CLOCK,     /* host → guest, stream 0: u64 real time in µs (after a resume) */
        PROTO_TYPE_COUNT
};

struct proto_frame {
        uint32_t stream;
        enum proto_type type;
        uint8_t flags;
        struct slice payload; /* borrowed from the input */
};

/* 1: a frame, *used bytes to consume; 0: needs more; -1: malformed (unknown type, too long). */
int proto_read(struct slice in, struct proto_frame *out, size_t *used) __attribute__((warn_unused_result));
int proto_write(struct buf *out, uint32_t stream, enum proto_type type, uint8_t flags, struct slice payload) __attribute__((warn_unused_result));

#endif
