/* The guest protocol: frames between brome-guest (PID 1 inside) and brome-launch, and, with stream 0 only, between brome-launch and the
 * client that asked for an exec. The same over a socket pair and over a virtio-serial port. Both ends treat the other as hostile.
 *
 *   frame = u32 stream | u8 type | u8 flags (0) | u16 length | payload      little-endian; length ≤ PROTO_PAYLOAD_BYTES
 *
 * Stream 0 on the guest channel is the guest itself; each exec and each connection is a stream of its own, numbered upwards by brome-launch, never reused in a session.
 * Opening: guest HELLO → host HELLO → host SETUP → guest READY; only then EXEC. Anything out of order ends the channel.
 * A machine that cannot be set up says FAILED on stream 0 in place of READY, and ends. Its port may close and come back, at any time: the guest then hangs up
 * what it started for the one who left and says HELLO again. One who left and came in the same moment is the same one to the guest: so who comes to a port where another
 * was sends CLOSE on stream 0, drops what comes before the guest's HELLO, answers that, and drops a second HELLO.
 * Flow control: a sender of STDIN, STDOUT or STDERR may have at most PROTO_WINDOW_BYTES unacknowledged on a stream and direction; WINDOW gives bytes back.
 * The host never stops reading because it cannot write: the guest stops taking frames while its own answers pile up, so a host that waits would wait for ever.
 * Frames for a stream that has ended (after FAILED or EXIT) are ignored: they were under way.
 * EXIT comes when the main process has ended and what could be read at that moment has been sent (PROTO_DRAIN_BYTES at most): a program left in
 * the background with the terminal or a pipe does not hold it up, and what that program prints later is lost. EXIT is the last frame of a stream.
 * CONNECT opens a connection to a server of the workspace, on its loopback (127.0.0.1, or ::1 where nobody listens there), and is answered with STARTED or FAILED as an EXEC is.
 * STDIN and STDOUT are its two directions, each ended by an empty frame, under the same windows; no STDERR, RESIZE, SIGNAL. EXIT when both have ended: 0, or not 0 where it was
 * cut off; CLOSE cuts it off from here.
 * Pure codec: no I/O. */
#ifndef BROME_GUEST_PROTO_H
#define BROME_GUEST_PROTO_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        PROTO_VERSION = 2, /* 1 had no CONNECT */
        PROTO_HEAD_BYTES = 8,
        PROTO_PAYLOAD_BYTES = 32 * 1024,
        PROTO_WINDOW_BYTES = 256 * 1024,
        PROTO_STREAMS = 256, /* execs and connections at once */
        PROTO_EXEC_BYTES = 256 * 1024, /* one EXEC, over several EXEC frames */
        PROTO_EXEC_STRINGS = 4096, /* arguments and variables of one EXEC, each; far above what people pass, and bounds the vectors */
        PROTO_DRAIN_BYTES = 1024 * 1024, /* output read after the main process ended: the largest pipe an ordinary process may have */
        PROTO_TEXT_BYTES = 256, /* the sentence of FAILED */
        PROTO_SEED_BYTES = 32, /* of CLOCK */
        PROTO_NOTES_BYTES = 1024, /* the sentences of READY: one for each of a few files */
};

enum proto_type {
        PROTO_HELLO = 1, /* guest → host, stream 0: u32 protocol version (PROTO_VERSION); host → guest: the same, answered before anything else */
        PROTO_SETUP,     /* host → guest, stream 0: a piece of what PID 1 has to do before it is ready (vm/setup.h; namespace kind: one, empty); flags bit 0: last piece */
        PROTO_READY,     /* guest → host, stream 0: printable sentences for a person, one a line; mostly none */
        PROTO_EXEC,      /* host → guest: a piece of the request (see proto_exec); flags bit 0: last piece */
        PROTO_STARTED,   /* guest → host: u32 pid inside, 0 of a connection; or FAILED */
        PROTO_FAILED,    /* guest → host: u32 errno, then a printable sentence. Stream 0: instead of READY, the machine could not be set up */
        PROTO_STDIN,     /* towards the program; empty: end of input (on a pty: its end-of-file character, while that is what it means) */
        PROTO_STDOUT,    /* from the program (with a pty: everything); empty: end */
        PROTO_STDERR,
        PROTO_WINDOW,    /* u32 bytes consumed, u8 which (PROTO_STDIN, _STDOUT, _STDERR) */
        PROTO_RESIZE,    /* u16 rows, u16 columns */
        PROTO_SIGNAL,    /* u32 signal number, to the foreground process group, or the program's own group without a pty */
        PROTO_EXIT,      /* guest → host: u32 wait status */
        PROTO_CLOSE,     /* the client is gone: hang up the program, kill it after a grace. Stream 0, a machine only: start over with HELLO */
        PROTO_SHUTDOWN,  /* host → guest, stream 0: u32 grace in ms: TERM, at half of it HUP, then KILL, then exit */
        PROTO_CLOCK,     /* host → guest, stream 0: u64 real time in µs (after a resume), and 32 bytes for the random pool or nothing */
        PROTO_CONNECT,   /* host → guest: u16 port, not 0 */
        PROTO_TYPE_COUNT
};
enum { PROTO_LAST_PIECE = 1 }; /* flag of EXEC and SETUP */

struct proto_frame {
        uint32_t stream;
        enum proto_type type;
        uint8_t flags;
        struct slice payload; /* borrowed from the input */
};

/* 1: a frame, *used bytes to consume; 0: needs more; -1: malformed (unknown type, unknown flags, too long). */
int proto_read(struct slice in, struct proto_frame *out, size_t *used) __attribute__((warn_unused_result));
/* 0, or -1: does not fit the buffer or the frame (nothing appended). */
int proto_write(struct buf *out, uint32_t stream, enum proto_type type, uint8_t flags, struct slice payload) __attribute__((warn_unused_result));

/* Payloads of fixed shape. The readers return -1 when the length is not exactly right. */
int proto_write_u32(struct buf *out, uint32_t stream, enum proto_type type, uint32_t value) __attribute__((warn_unused_result)); /* HELLO STARTED SIGNAL EXIT SHUTDOWN */
int proto_write_failed(struct buf *out, uint32_t stream, int errno_value, const char *text) __attribute__((warn_unused_result));
int proto_write_window(struct buf *out, uint32_t stream, uint32_t bytes, enum proto_type which) __attribute__((warn_unused_result));
int proto_write_resize(struct buf *out, uint32_t stream, uint16_t rows, uint16_t cols) __attribute__((warn_unused_result));
int proto_write_connect(struct buf *out, uint32_t stream, uint16_t port) __attribute__((warn_unused_result));
int proto_get_connect(struct slice payload, uint16_t *port) __attribute__((warn_unused_result)); /* -1: port 0, too */
int proto_get_u32(struct slice payload, uint32_t *value) __attribute__((warn_unused_result));
int proto_get_u64(struct slice payload, uint64_t *value) __attribute__((warn_unused_result));
/* CLOCK; *seed: NULL or PROTO_SEED_BYTES, borrowed. */
int proto_get_clock(struct slice payload, uint64_t *us, const uint8_t **seed) __attribute__((warn_unused_result));
int proto_get_failed(struct slice payload, uint32_t *errno_value, struct slice *text) __attribute__((warn_unused_result)); /* text: foreign */
int proto_get_window(struct slice payload, uint32_t *bytes, enum proto_type *which) __attribute__((warn_unused_result));
int proto_get_resize(struct slice payload, uint16_t *rows, uint16_t *cols) __attribute__((warn_unused_result));

/* What to run: the joined payloads of the EXEC frames of one stream, a list of  u8 tag | u32 length | bytes. */
enum proto_exec_tag {
        PROTO_TAG_ARG = 1, /* one argument, in order; the first is the program, looked up in PATH of the variables below */
        PROTO_TAG_ENV,     /* NAME=value; the program gets these variables and no others */
        PROTO_TAG_CWD,     /* absolute; without it "/" */
        PROTO_TAG_PTY,     /* u16 rows, u16 columns: on a terminal of its own; without it three pipes */
        PROTO_TAG_USER,    /* u32 uid, u32 gid inside; without it as PID 1 runs */
        PROTO_TAG_COUNT
};
struct proto_exec {
        const char *const *argv; /* NULL terminated, at least one */
        const char *const *env;  /* NULL terminated, "NAME=value"; or NULL */
        const char *cwd;         /* or NULL */
        bool pty;
        uint16_t rows, cols;
        bool has_user;
        uint32_t uid, gid;
};
/* Appends the EXEC frames for one program. 0; -1: too large, too many strings, or nothing to run (the buffer may hold a part: give it up). */
int proto_exec_write(struct buf *out, uint32_t stream, const struct proto_exec *exec) __attribute__((warn_unused_result));
/* Decodes joined pieces into *out; one block of memory holds all of it (out->argv, env, strings): free(*block). The pieces may go away.
 * 0; -1: malformed (unknown tag, a NUL inside, no argument, a relative cwd, a variable without a name, too many) or no memory: nothing to free. */
int proto_exec_read(struct slice pieces, struct proto_exec *out, void **block) __attribute__((warn_unused_result));

#endif
