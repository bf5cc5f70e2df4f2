/* WebSocket frames: see ws.h. */
#include "wire/ws.h"

void ws_reader_init(struct ws_reader *r, bool from_client, bool deflate)
{
        *r = (struct ws_reader){ .from_client = from_client, .deflate = deflate };
}

enum { WS_FIN = 0x80, WS_RSV1 = 0x40, WS_RSV23 = 0x30, WS_OPCODE_BITS = 0x0f, WS_MASK_BIT = 0x80, WS_CONTROL_BIT = 8, WS_CONTROL_BYTES_MAX = 125 };

/* Header bytes wanted, as far as the first two tell. */
static size_t ws_head_bytes(const struct ws_reader *r)
{
        uint8_t length = r->head[1] & 0x7f;

        if (r->head_n < 2)
                return 2;
        return 2u + (length == 126 ? 2u : length == 127 ? 8u : 0u) + (r->head[1] & WS_MASK_BIT ? 4u : 0u);
}

static enum wire_reason ws_control_check(uint8_t first, uint8_t opcode, uint8_t length)
{
        if (opcode > WS_PONG)
                return WIRE_WS_OPCODE;
        if (!(first & WS_FIN) || length > WS_CONTROL_BYTES_MAX || (opcode == WS_CLOSE && length == 1))
                return WIRE_WS_CONTROL;
        return first & WS_RSV1 ? WIRE_WS_RSV : WIRE_OK;
}

/* What the first two bytes alone decide, so that a bad frame is refused at once. */
static enum wire_reason ws_head_check(const struct ws_reader *r)
{
        uint8_t first = r->head[0], opcode = first & WS_OPCODE_BITS;
        bool masked = (r->head[1] & WS_MASK_BIT) != 0;

        if (r->closed)
                return WIRE_WS_AFTER_CLOSE;
        if (first & WS_RSV23)
                return WIRE_WS_RSV;
        if (masked != r->from_client)
                return WIRE_WS_MASK;
        if (opcode & WS_CONTROL_BIT)
                return ws_control_check(first, opcode, r->head[1] & 0x7f);
        if (opcode > WS_BINARY)
                return WIRE_WS_OPCODE;
        if ((opcode == WS_CONTINUATION) != r->in_message)
                return WIRE_WS_SEQUENCE;
        if (first & WS_RSV1 && (!r->deflate || opcode == WS_CONTINUATION)) /* RFC 7692 §6 */
                return WIRE_WS_RSV;
        return WIRE_OK;
}

static enum wire_reason ws_frame_begin(struct ws_reader *r)
{
        struct ws_frame *f = &r->frame;
        uint8_t code = r->head[1] & 0x7f;
        size_t at = 2, extra = code == 126 ? 2 : code == 127 ? 8 : 0;
        uint64_t length = extra ? 0 : code;

        for (size_t i = 0; i < extra; i++)
                length = length << 8 | r->head[at++];
        if ((code == 126 && length < 126) || (code == 127 && (length <= UINT16_MAX || length >> 63)))
                return WIRE_WS_LENGTH;
        *f = (struct ws_frame){
                .fin = (r->head[0] & WS_FIN) != 0, .rsv1 = (r->head[0] & WS_RSV1) != 0, .masked = (r->head[1] & WS_MASK_BIT) != 0,
                .opcode = r->head[0] & WS_OPCODE_BITS, .length = length, .head = slice_of(r->head, r->head_n),
        };
        if (f->masked)
                memcpy(f->key, r->head + at, 4);
        if (!(f->opcode & WS_CONTROL_BIT)) {
                if (f->opcode != WS_CONTINUATION)
                        r->message = f->opcode;
                r->in_message = !f->fin;
        }
        f->message = f->opcode & WS_CONTROL_BIT ? 0 : r->message;
        r->closed = f->opcode == WS_CLOSE;
        r->left = length;
        r->offset = 0;
        r->in_frame = true;
        return WIRE_OK;
}

static enum ws_event ws_payload(struct ws_reader *r, struct slice *in, struct slice *payload)
{
        if (r->left == 0) {
                r->in_frame = false;
                r->head_n = 0;
                return WS_FRAME_END;
        }
        if (in->n == 0)
                return WS_MORE;
        r->offset = r->frame.length - r->left;
        *payload = slice_first(*in, r->left < in->n ? (size_t)r->left : in->n);
        *in = slice_skip(*in, payload->n);
        r->left -= payload->n;
        return WS_PAYLOAD;
}

enum ws_event ws_read(struct ws_reader *r, struct slice *in, struct slice *payload, enum wire_reason *why)
{
        if (r->in_frame)
                return ws_payload(r, in, payload);
        while (r->head_n < 2 || r->head_n < ws_head_bytes(r)) {
                if (in->n == 0)
                        return WS_MORE;
                r->head[r->head_n++] = in->p[0];
                *in = slice_skip(*in, 1);
                if (r->head_n == 2 && (*why = ws_head_check(r)) != WIRE_OK)
                        return WS_BAD;
        }
        *why = ws_frame_begin(r);
        return *why == WIRE_OK ? WS_FRAME : WS_BAD;
}

void ws_mask(uint8_t *out, struct slice s, const uint8_t key[4], uint64_t offset)
{
        uint8_t turned[8];
        uint64_t wide, v;
        size_t i = 0;

        for (size_t k = 0; k < 8; k++)
                turned[k] = key[(offset + k) & 3];
        memcpy(&wide, turned, 8);
        for (; s.n - i >= 8; i += 8) {
                memcpy(&v, s.p + i, 8);
                v ^= wide;
                memcpy(out + i, &v, 8);
        }
        for (; i < s.n; i++)
                out[i] = s.p[i] ^ turned[i & 7];
}

size_t ws_head(uint8_t out[WS_HEAD_BYTES_MAX], bool fin, bool rsv1, enum ws_opcode opcode, uint64_t length, const uint8_t key[4])
{
        size_t n = 2, extra = length < 126 ? 0 : length <= UINT16_MAX ? 2 : 8;

        out[0] = (uint8_t)((fin ? WS_FIN : 0) | (rsv1 ? WS_RSV1 : 0) | ((unsigned)opcode & WS_OPCODE_BITS));
        out[1] = (uint8_t)((key ? WS_MASK_BIT : 0) | (extra == 0 ? (unsigned)length : extra == 2 ? 126u : 127u));
        for (size_t i = extra; i-- > 0;)
                out[n++] = (uint8_t)(length >> (8 * i));
        if (key) {
                memcpy(out + n, key, 4);
                n += 4;
        }
        return n;
}
