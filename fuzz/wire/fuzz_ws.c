/* WebSocket: what a door forwards is a prefix of what came, and the same for every cut; capsules stay in bounds. */
#include "fuzz_wire.h"
#include "wire/capsule.h"
#include "wire/ws.h"

static bool forward(struct slice in, uint8_t control, size_t step, struct buf *out, enum wire_reason *why)
{
        struct ws_reader r;
        size_t at = 0;

        buf_init(out, 0);
        ws_reader_init(&r, control & 1, control & 2);
        while (at < in.n) {
                struct slice part = slice_first(slice_skip(in, at), step), payload;
                enum ws_event e;

                at += part.n;
                while ((e = ws_read(&r, &part, &payload, why)) != WS_MORE) {
                        if (e == WS_BAD)
                                return false;
                        if (e == WS_FRAME) {
                                uint8_t head[WS_HEAD_BYTES_MAX];
                                size_t n = ws_head(head, r.frame.fin, r.frame.rsv1, (enum ws_opcode)r.frame.opcode, r.frame.length,
                                                   r.frame.masked ? r.frame.key : NULL);

                                HOLDS(slice_eq(slice_of(head, n), r.frame.head)); /* one way to write a header */
                                HOLDS(buf_add_slice(out, r.frame.head) == 0);
                        } else if (e == WS_PAYLOAD) {
                                HOLDS(buf_add_slice(out, payload) == 0);
                        }
                }
        }
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct buf whole, part;
        enum wire_reason why = WIRE_OK, why_part = WIRE_OK;
        bool ok = forward(in, control, in.n, &whole, &why), ok_part = forward(in, control, control / 4 % 23 + 1, &part, &why_part);
        struct capsule c;
        size_t used;

        HOLDS(ok == ok_part && why == why_part);
        HOLDS(slice_eq(buf_slice(&whole), buf_slice(&part)) && slice_starts(in, buf_slice(&whole)));
        buf_fini(&whole);
        buf_fini(&part);
        while (capsule_read(in, &c, &used, &why) == WIRE_DONE) {
                HOLDS(used <= in.n && used > 0 && c.payload.n <= c.value.n);
                in = slice_skip(in, used);
        }
        return 0;
}
