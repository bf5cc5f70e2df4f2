/* A hostile guest (HTTP/1 or HTTP/2) and a hostile outer door at once: the input is a list of steps of either. The properties are world.c's. */
#include "world.h"

/* First byte: bit 0 HTTP/2, bit 1 accounts. Then steps: a byte for what, a byte for how long or which, and its bytes. */
static void step(struct world *w, struct slice *in)
{
        uint8_t what = fuzz_byte(in), n = fuzz_byte(in);
        struct slice bytes;

        switch (what % 8) {
        case 0:
        case 1:
        case 2:
                world_guest(w, fuzz_take(in, (what & 0x80 ? 256u : 0u) + n));
                break;
        case 3:
                bytes = fuzz_take(in, n);
                world_head(w, what >> 4, bytes, what & 8);
                break;
        case 4:
                bytes = fuzz_take(in, n);
                world_data(w, what >> 4, bytes);
                break;
        case 5:
                world_end(w, n);
                break;
        case 6:
                world_reset(w, n & 7, (enum reason)((n >> 3) % REASON_COUNT));
                break;
        case 7:
                if (n == 7)
                        world_guest_eof(w);
                if (n == 9 && w->flow)
                        flow_retire(w->flow);
                world_turn(w);
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t kind = fuzz_byte(&in);
        struct world *w = world_open(kind & 1, kind & 2);

        while (in.n)
                step(w, &in);
        world_close(w);
        return 0;
}
