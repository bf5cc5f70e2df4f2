/* The client's side of one stream of guest/proto.h, for programs that have a loop of their own: of an exec whose output is data, or of a connection.
 *
 * Bytes of the other side are hostile: windows are enforced, an illegal frame ends the stream. What arrives waits in `output` until it is taken, and
 * only what was taken is given back as window, so that memory is bounded by two windows. No signals, no terminal: that is attach.h. */
#ifndef BROME_ATTACH_STREAM_H
#define BROME_ATTACH_STREAM_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum {
        STREAM_OUT_HIGH = 256 * 1024, /* above it no more is offered to be sent */
};
enum stream_output { STREAM_STDOUT, STREAM_STDERR, STREAM_OUTPUTS };

struct stream {
        int fd;
        struct buf in, out;
        uint32_t window;     /* what the other side still takes of our input */
        struct {
                struct buf bytes;
                uint32_t taken, unacked; /* taken: not yet given back; unacked: all that is not */
                bool ended;
        } output[STREAM_OUTPUTS];
        bool started;
        bool over;   /* EXIT or FAILED came; nothing follows */
        bool failed; /* FAILED: err says why */
        int status;  /* wait status */
        int code;    /* errno of FAILED */
        struct err err;
};

/* Takes fd, and makes it non-blocking. */
void stream_open(struct stream *s, int fd);
/* Cuts it off, where it is not over. */
void stream_close(struct stream *s);

/* Bytes as they came: 0; -1: not what a workspace may send (err). */
int stream_feed(struct stream *s, struct slice bytes) __attribute__((warn_unused_result));
/* Reads once. 0; -1: lost (err), what had arrived stays. */
int stream_read(struct stream *s) __attribute__((warn_unused_result));
/* Writes what waits, as far as it goes. 0; -1: lost; what has arrived can still be read. */
int stream_write(struct stream *s) __attribute__((warn_unused_result));
bool stream_has_to_write(const struct stream *s);

/* How much of input may be sent now. */
size_t stream_room(const struct stream *s);
/* At most stream_room; empty: the end of input. 0; -1: out of memory. */
int stream_send(struct stream *s, struct slice bytes) __attribute__((warn_unused_result));
int stream_signal(struct stream *s, int number) __attribute__((warn_unused_result));

/* n bytes of the output were used. 0; -1: out of memory. */
int stream_take(struct stream *s, enum stream_output which, size_t n) __attribute__((warn_unused_result));
static inline struct slice stream_output(const struct stream *s, enum stream_output which) { return buf_slice(&s->output[which].bytes); }

#endif
