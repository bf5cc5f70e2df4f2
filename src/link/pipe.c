/* The socket pair: see pipe.h. */
#include "link/pipe.h"

#include "base/fd.h"
#include "link/limits.h"
#include <errno.h>
#include <sys/socket.h>

enum { FRAME_HEAD_BYTES = 9 }; /* RFC 9113 §4.1 */

void pipe_init(struct pipe *p, int fd, size_t out_max_bytes)
{
        *p = (struct pipe){ .fd = fd, .out_max_bytes = out_max_bytes };
        buf_init(&p->out, 0);
}

void pipe_fini(struct pipe *p) { buf_fini(&p->out); }

int pipe_fill(struct pipe *p, nghttp2_session *s)
{
        const uint8_t *bytes;
        ssize_t n = 0;

        /* Appending to what the socket does not take would only move bytes about. */
        while (!p->blocked && buf_len(&p->out) < p->out_max_bytes && (n = nghttp2_session_mem_send(s, &bytes)) > 0)
                if (buf_add(&p->out, bytes, (size_t)n) < 0)
                        return NGHTTP2_ERR_NOMEM;
        return n < 0 ? (int)n : 0;
}

int pipe_data(struct pipe *p, const uint8_t *head, struct slice body)
{
        struct slice front = slice_of(head, FRAME_HEAD_BYTES);
        int rc;

        if (p->blocked || buf_len(&p->out) >= p->out_max_bytes)
                return NGHTTP2_ERR_WOULDBLOCK;
        if (body.n < LINK_GATHER_BYTES)
                return buf_add_slice(&p->out, front) < 0 || buf_add_slice(&p->out, body) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
        rc = fd_send_after(p->fd, &p->out, front, body);
        if (rc < 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        p->blocked = rc == 0 || buf_len(&p->out);
        p->sent = p->sent || rc > 0;
        return rc == 0 ? NGHTTP2_ERR_WOULDBLOCK : 0;
}

int pipe_send(struct pipe *p)
{
        while (buf_len(&p->out) && !p->blocked) {
                ssize_t n = send(p->fd, buf_slice(&p->out).p, buf_len(&p->out), MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                p->blocked = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
                if (n < 0 && !p->blocked)
                        return -1;
                if (n > 0)
                        buf_consume(&p->out, (size_t)n);
        }
        return 0;
}

ssize_t pipe_frame_length(nghttp2_session *s, uint8_t type, int32_t stream, int32_t connection_window, int32_t stream_window, uint32_t frame_max, void *user)
{
        (void)s, (void)type, (void)stream, (void)connection_window, (void)stream_window, (void)user;
        return frame_max < LINK_FRAME_BYTES ? frame_max : LINK_FRAME_BYTES;
}

/* --- the window --- */

static int settle(struct window *w, nghttp2_session *s)
{
        size_t keep = w->held_bytes > LINK_HELD_BYTES ? w->held_bytes - LINK_HELD_BYTES : 0, give;

        if (w->deferred_bytes <= keep)
                return 0;
        give = w->deferred_bytes - keep;
        w->deferred_bytes = keep;
        return nghttp2_session_consume_connection(s, give);
}

int window_take(struct window *w, nghttp2_session *s, size_t n)
{
        w->held_bytes += n;
        w->deferred_bytes += n;
        return settle(w, s);
}

int window_pass(struct window *w, nghttp2_session *s, size_t n)
{
        w->held_bytes -= n;
        return settle(w, s);
}
