/* One end of the socket pair between the doors (docs/CONTROL.md): the frames that go out, and the window that is given back for what came in.
 *
 * Each door has a session of its own on it and decides when; what is the same at both ends stands here. */
#ifndef BROME_LINK_PIPE_H
#define BROME_LINK_PIPE_H

#include "base/buf.h"
#include <nghttp2/nghttp2.h>

struct pipe {
        int fd; /* borrowed */
        struct buf out;
        size_t out_max_bytes; /* above it no more frames are made */
        bool blocked;         /* the socket takes no more for now; the owner clears it when it does */
        bool sent;            /* a frame left at once; for the owner to clear */
};

void pipe_init(struct pipe *p, int fd, size_t out_max_bytes);
void pipe_fini(struct pipe *p);
/* Makes frames until there are none, the queue is full or the socket blocks. 0, or nghttp2's error. */
int pipe_fill(struct pipe *p, nghttp2_session *s) __attribute__((warn_unused_result));
/* From the session's send_data callback, and returned by it: a small frame is gathered with others; a large one goes out from where it stands,
 * behind what was gathered. 0: taken. */
int pipe_data(struct pipe *p, const uint8_t *head, struct slice body) __attribute__((warn_unused_result));
/* Sends what the socket takes. 0, or -1 with errno. */
int pipe_send(struct pipe *p) __attribute__((warn_unused_result));
/* LINK_FRAME_BYTES, for a session_plan. */
ssize_t pipe_frame_length(nghttp2_session *s, uint8_t type, int32_t stream, int32_t connection_window, int32_t stream_window, uint32_t frame_max, void *user);

/* The connection's window is given back at once while little is held, so that a few peers that do not read do not stop every stream; beyond
 * LINK_HELD_BYTES only for what was passed on, which bounds the memory. */
struct window {
        size_t held_bytes;     /* came in and were not yet passed on */
        size_t deferred_bytes; /* not yet given back */
};

/* n bytes came in; n bytes were passed on or dropped. 0, or nghttp2's error. */
int window_take(struct window *w, nghttp2_session *s, size_t n) __attribute__((warn_unused_result));
int window_pass(struct window *w, nghttp2_session *s, size_t n) __attribute__((warn_unused_result));

#endif
