/* WebSocket frames: see frames.h. */
#include "outer/frames.h"

#include <openssl/rand.h>

enum { CONTROL_BYTES_MAX = 125 }; /* RFC 6455 §5.5 */

void frames_init(struct frames *f, bool from_client, const struct frames_filter *filter)
{
        *f = (struct frames){ .filter = *filter, .to_server = from_client };
        ws_reader_init(&f->reader, from_client, false);
        buf_init(&f->piece, 0);
        buf_init(&f->control, 0);
        f->piece.wipe = f->control.wipe = true;
}

void frames_fini(struct frames *f)
{
        buf_fini(&f->piece);
        buf_fini(&f->control);
}

static int put_frame(struct frames *f, bool fin, enum ws_opcode opcode, struct slice payload, struct buf *out)
{
        uint8_t head[WS_HEAD_BYTES_MAX], key[4], *p;
        size_t n;

        if (f->to_server && RAND_bytes(key, sizeof(key)) != 1)
                return -1;
        n = ws_head(head, fin, false, opcode, payload.n, f->to_server ? key : NULL);
        p = buf_reserve(out, n + payload.n);
        if (!p)
                return -1;
        memcpy(p, head, n);
        if (f->to_server)
                ws_mask(p + n, payload, key, 0);
        else if (payload.n)
                memcpy(p + n, payload.p, payload.n);
        buf_commit(out, n + payload.n);
        return 0;
}

/* What there is of the message becomes a frame. */
static int flush_piece(struct frames *f, bool fin, struct buf *out)
{
        int rc;

        if (!fin && buf_len(&f->piece) == 0)
                return 0;
        rc = put_frame(f, fin, f->continued ? WS_CONTINUATION : (enum ws_opcode)f->message, buf_slice(&f->piece), out);
        buf_clear(&f->piece);
        f->continued = !fin;
        return rc;
}

static int take_payload(struct frames *f, struct slice payload)
{
        struct buf plain;
        uint8_t *p;
        int rc;

        if (!f->reader.frame.masked && f->in_control)
                return buf_add_slice(&f->control, payload);
        buf_init(&plain, 0);
        plain.wipe = true;
        if (f->reader.frame.masked) {
                p = buf_reserve(&plain, payload.n);
                if (!p)
                        return -1;
                ws_mask(p, payload, f->reader.frame.key, f->reader.offset);
                buf_commit(&plain, payload.n);
                payload = buf_slice(&plain);
        }
        if (f->in_control)
                rc = buf_add_slice(&f->control, payload);
        else {
                rc = f->filter.message(f->filter.ctx, payload, f->message == WS_TEXT, !f->begun, false, &f->piece);
                f->begun = true;
        }
        buf_fini(&plain);
        return rc;
}

static int end_control(struct frames *f, struct buf *out)
{
        struct buf payload;
        int rc = flush_piece(f, false, out); /* nothing may follow a Close */

        buf_init(&payload, 0);
        payload.wipe = true;
        if (rc == 0)
                rc = f->filter.control(f->filter.ctx, buf_slice(&f->control), &payload);
        if (rc == 0)
                rc = put_frame(f, true, (enum ws_opcode)f->reader.frame.opcode, slice_first(buf_slice(&payload), CONTROL_BYTES_MAX), out);
        buf_fini(&payload);
        buf_clear(&f->control);
        return rc;
}

static int end_frame(struct frames *f, struct buf *out)
{
        int rc;

        if (f->in_control)
                return end_control(f, out);
        if (!f->reader.frame.fin)
                return 0;
        rc = f->filter.message(f->filter.ctx, SLICE_EMPTY, f->message == WS_TEXT, !f->begun, true, &f->piece);
        f->begun = false;
        return rc ? rc : flush_piece(f, true, out);
}

int frames_feed(struct frames *f, struct slice in, struct buf *out)
{
        struct slice payload;
        enum wire_reason why;
        int rc = 0;

        while (rc == 0)
                switch (ws_read(&f->reader, &in, &payload, &why)) {
                case WS_MORE:
                        return flush_piece(f, false, out);
                case WS_FRAME:
                        f->in_control = f->reader.frame.opcode >= WS_CLOSE;
                        if (!f->in_control)
                                f->message = f->reader.frame.message;
                        break;
                case WS_PAYLOAD:
                        rc = take_payload(f, payload);
                        break;
                case WS_FRAME_END:
                        rc = end_frame(f, out);
                        break;
                case WS_BAD:
                        return -2;
                }
        return rc;
}
