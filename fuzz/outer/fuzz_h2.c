/* An HTTP/2 origin: several requests on one connection, its bytes in pieces, with exchanges that are ended from our side in between. The properties are
 * world.c's. Input: a byte for the first request; then steps: a byte for what (and which), a byte for how long, and its bytes. */
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        struct world *w = world_open(&h2_ops);
        uint8_t first = fuzz_byte(&in);

        (void)world_request(w, first);
        if (first & 4)
                (void)world_request(w, first >> 3);
        while (in.n) {
                uint8_t what = fuzz_byte(&in), len = fuzz_byte(&in);
                switch (what & 3) {
                case 0:
                case 1:
                        world_origin(w, fuzz_take(&in, (what & 4 ? 256u : 0u) + len), what == 0xf1);
                        break;
                case 2:
                        (void)world_request(w, what >> 2);
                        break;
                case 3:
                        world_abort(w, what >> 2);
                        break;
                }
        }
        world_close(w);
        return 0;
}
