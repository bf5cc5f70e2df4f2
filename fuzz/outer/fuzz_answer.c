/* An account's origin that answers with the secret in it wherever it likes: it never comes out as it is, and what comes out is the same for every cut.
 *
 * First byte: bits 0-1 the request (world.h), bit 2 end of file after the bytes, bit 3 re-routed, bit 4 a registry, bit 5 up the cut. In the rest, 0x01 stands for the secret, and 0x02
 * for the head of a gzip body that is stored and not compressed, so that a fuzzer gets behind it. */
#include "wire/ws.h"
#include "world.h"

struct outcome {
        struct buf log, body;
        bool failed;
};

static void expand(struct slice in, struct buf *out)
{
        static const uint8_t gzip[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0, 64, 0, 0xbf, 0xff };

        for (size_t i = 0; i < in.n; i++)
                if (in.p[i] == 1)
                        HOLDS(buf_add_str(out, WORLD_SECRET) == 0);
                else if (in.p[i] == 2)
                        HOLDS(buf_add(out, gzip, sizeof(gzip)) == 0);
                else
                        HOLDS(buf_add(out, in.p + i, 1) == 0);
}

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

static void hides(struct slice s) { HOLDS(!s.n || !memmem(s.p, s.n, WORLD_SECRET, strlen(WORLD_SECRET))); }

/* Message by message: a frame's length may look like a letter of the secret. */
static void frames_hide(struct slice in)
{
        struct ws_reader r;
        struct buf data, control;
        struct slice payload;
        enum wire_reason why;
        enum ws_event e;

        ws_reader_init(&r, false, false);
        buf_init(&data, 0);
        buf_init(&control, 0);
        while ((e = ws_read(&r, &in, &payload, &why)) != WS_MORE) {
                struct buf *b = r.frame.opcode >= WS_CLOSE ? &control : &data;

                HOLDS(e != WS_BAD);
                if (e == WS_PAYLOAD)
                        HOLDS(buf_add_slice(b, payload) == 0);
                hides(buf_slice(b));
                if (e == WS_FRAME_END && r.frame.fin)
                        buf_clear(b);
        }
        buf_fini(&data);
        buf_fini(&control);
}

static void run(struct slice in, uint8_t control, size_t step, struct outcome *o)
{
        struct world *w = world_open(&h1_ops);
        struct told *t = &w->told[0];

        world_account(w, control & 16 ? ACCOUNT_REGISTRY : ACCOUNT_BEARER, control & 8);
        HOLDS(world_request(w, control));
        if ((control & 3) == 3)
                handshake(w);
        for (size_t at = 0; at < in.n && !w->http.is_idle; at += step)
                world_origin(w, slice_first(slice_skip(in, at), step), false);
        if (control & 4 && !w->http.is_idle)
                world_origin(w, SLICE_EMPTY, true);
        o->failed = t->failed;
        buf_init(&o->log, 0);
        buf_init(&o->body, 0);
        HOLDS(buf_add_slice(&o->log, buf_slice(&t->log)) == 0 && buf_add_slice(&o->body, buf_slice(&t->body)) == 0);
        world_close(w);
        hides(buf_slice(&o->log));
        if ((control & 3) == 3)
                frames_hide(buf_slice(&o->body));
        else
                hides(buf_slice(&o->body));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct outcome whole, cut;
        struct buf bytes;

        buf_init(&bytes, 0);
        expand(in, &bytes);
        run(buf_slice(&bytes), control, buf_len(&bytes) + 1, &whole);
        run(buf_slice(&bytes), control, control / 32 + 1u, &cut);
        HOLDS(slice_eq(buf_slice(&whole.log), buf_slice(&cut.log)) && whole.failed == cut.failed);
        /* A WebSocket's messages are cut into frames as they come. */
        HOLDS(whole.failed || (control & 3) == 3 || slice_eq(buf_slice(&whole.body), buf_slice(&cut.body)));
        buf_fini(&bytes);
        buf_fini(&whole.log);
        buf_fini(&whole.body);
        buf_fini(&cut.log);
        buf_fini(&cut.body);
        return 0;
}
