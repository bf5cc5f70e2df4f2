/* WebSocket frames: see ws.h. */
#include "inner/ws.h"

void ws_pair_init(struct ws_pair *p, const struct response *r)
{
        struct slice rest = headers_value(&r->headers, "sec-websocket-extensions"), e;
        bool deflate = false;

        while (list_next(&rest, &e))
                deflate = deflate || slice_starts(e, SLICE_LIT("permessage-deflate"));
        ws_reader_init(&p->up, true, deflate);
        ws_reader_init(&p->down, false, deflate);
}

int ws_pass(struct ws_reader *r, struct slice in, struct buf *out, enum wire_reason *why)
{
        for (;;) {
                struct slice payload;
                switch (ws_read(r, &in, &payload, why)) {
                case WS_MORE:
                        return 0;
                case WS_FRAME:
                        if (buf_add_slice(out, r->frame.head) < 0)
                                goto memory;
                        break;
                case WS_PAYLOAD:
                        if (buf_add_slice(out, payload) < 0)
                                goto memory;
                        break;
                case WS_FRAME_END:
                        break;
                case WS_BAD:
                        return -1;
                }
        }
memory:
        *why = WIRE_MEMORY;
        return -1;
}
