/* The WebSocket relay: what goes on is a prefix of what came, the same however it is cut, and whole when nothing was refused but for a header that is
 * not complete; after a refusal nothing more goes on. */
#include "hold.h"
#include "inner/ws.h"

static int pass(const struct response *opened, bool up, struct slice in, size_t step, struct buf *out, enum wire_reason *why)
{
        struct ws_pair p;

        ws_pair_init(&p, opened);
        for (size_t at = 0; at < in.n; at += step)
                if (ws_pass(up ? &p.up : &p.down, slice_first(slice_skip(in, at), step), out, why) < 0)
                        return -1;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct header extension = { SLICE_LIT("sec-websocket-extensions"), control & 2 ? SLICE_LIT("foo, permessage-deflate; x") : SLICE_LIT("foo") };
        struct response opened = { .status = 101, .upgraded = true, .headers = { &extension, 1 } };
        enum wire_reason why = WIRE_OK, why_cut = WIRE_OK;
        struct buf whole, cut;
        int rc, rc_cut;

        buf_init(&whole, 0);
        buf_init(&cut, 0);
        rc = pass(&opened, control & 1, in, in.n + 1, &whole, &why);
        rc_cut = pass(&opened, control & 1, in, control / 4 % 31 + 1, &cut, &why_cut);
        HOLDS(rc == rc_cut && why == why_cut && slice_eq(buf_slice(&whole), buf_slice(&cut)));
        HOLDS(slice_starts(in, buf_slice(&whole)) && (rc < 0 || in.n - buf_len(&whole) < WS_HEAD_BYTES_MAX));
        buf_fini(&whole);
        buf_fini(&cut);
        return 0;
}
