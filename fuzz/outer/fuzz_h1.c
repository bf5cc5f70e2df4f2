/* An HTTP/1 origin: its bytes become the same answer however they are cut, and never more than one; what is kept for the next request has nothing unread.
 * First byte: bits 0-1 the request (world.h), bit 2 end of file after the bytes, bit 3 a second request on the connection when it was kept, bit 4
 * (WebSocket) a right answer to the handshake first; the rest of it and bit 5 up: the cut. */
#include "world.h"

struct outcome {
        struct buf log, body;
        bool kept, failed;
};

static void handshake(struct world *w)
{
        char accept[WS_ACCEPT_TEXT];
        struct buf b;

        buf_init(&b, 0);
        HOLDS(ws_accept(accept, w->told[0].ex->req.ws_key) == 0);
        buf_addf(&b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
        world_origin(w, buf_slice(&b), false);
        buf_fini(&b);
}

static void run(struct slice in, uint8_t control, size_t step, struct outcome *o)
{
        struct world *w = world_open(&h1_ops);

        HOLDS(world_request(w, control));
        if ((control & 0x13) == 0x13)
                handshake(w);
        for (size_t at = 0; at < in.n && !w->http.is_idle; at += step)
                world_origin(w, slice_first(slice_skip(in, at), step), false);
        if (control & 4 && !w->http.is_idle)
                world_origin(w, SLICE_EMPTY, true);
        o->failed = w->told[0].failed;
        o->kept = w->http.is_idle && !w->http.dead;
        HOLDS(!o->kept || (w->told[0].ended && !w->told[0].failed && buf_len(&w->conn.in) == 0));
        buf_init(&o->log, 0);
        buf_init(&o->body, 0);
        HOLDS(buf_add_slice(&o->log, buf_slice(&w->told[0].log)) == 0 && buf_add_slice(&o->body, buf_slice(&w->told[0].body)) == 0);
        if (control & 8 && o->kept)
                HOLDS(world_request(w, 0));
        world_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct outcome whole, cut;

        run(in, control, in.n + 1, &whole);
        run(in, control, control / 32 + 1u, &cut);
        /* Cut behind an answer's end, the connection is kept before the bytes come that must not be there. The answer is the same. */
        HOLDS(slice_eq(buf_slice(&whole.log), buf_slice(&cut.log)) && whole.failed == cut.failed && (cut.kept || !whole.kept));
        /* How much of a body was passed on before it turned out malformed depends on the cut. */
        HOLDS(whole.failed || slice_eq(buf_slice(&whole.body), buf_slice(&cut.body)));
        buf_fini(&whole.log);
        buf_fini(&whole.body);
        buf_fini(&cut.log);
        buf_fini(&cut.body);
        return 0;
}
