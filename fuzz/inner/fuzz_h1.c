/* HTTP/1 from the guest, head to answer, against an outer door that answers every request at its end: however the bytes are cut, the outer door is
 * told the same and the guest reads the same. (That nothing is started which the policy forbids, world.c checks.) */
#include "world.h"

static void run(struct slice in, size_t step, bool eof, bool accounts, struct buf *up, struct buf *down)
{
        struct world *w = world_open(false, accounts);

        w->answers = true;
        for (size_t at = 0; at < in.n; at += step)
                world_guest(w, slice_first(slice_skip(in, at), step));
        if (eof)
                world_guest_eof(w);
        HOLDS(buf_add_slice(up, buf_slice(&w->up)) == 0 && buf_add_slice(down, buf_slice(&w->down)) == 0);
        world_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct buf up, down, up_cut, down_cut;

        buf_init(&up, 0);
        buf_init(&down, 0);
        buf_init(&up_cut, 0);
        buf_init(&down_cut, 0);
        run(in, in.n + 1, control & 1, false, &up, &down);
        run(in, control / 2 % 61 + 1, control & 1, false, &up_cut, &down_cut);
        HOLDS(slice_eq(buf_slice(&up), buf_slice(&up_cut)) && slice_eq(buf_slice(&down), buf_slice(&down_cut)));
        /* With something to look for: bodies are held, so the same went up. How much of the answers is read when all is cut depends on the cuts. */
        buf_clear(&up);
        buf_clear(&up_cut);
        run(in, in.n + 1, control & 1, true, &up, &down);
        run(in, control / 2 % 61 + 1, control & 1, true, &up_cut, &down_cut);
        HOLDS(slice_eq(buf_slice(&up), buf_slice(&up_cut)));
        buf_fini(&up);
        buf_fini(&down);
        buf_fini(&up_cut);
        buf_fini(&down_cut);
        return 0;
}
