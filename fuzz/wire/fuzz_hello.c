/* ClientHellos and classification: any cut gives the same answer; a name that comes out is canonical. */
#include "base/host.h"
#include "fuzz_wire.h"
#include "wire/classify.h"
#include "wire/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct hello whole, part;
        struct hello_reader r;
        enum wire_reason why = WIRE_OK, why_part = WIRE_OK;
        enum wire_step step, step_part = WIRE_MORE;
        enum wire_class c = CLASS_MORE;
        struct arena a;

        arena_init(&a, 8u << 20);
        hello_reader_init(&r);
        step = hello_read(&r, in, &a, &whole, &why);
        hello_reader_init(&r);
        for (size_t at = control % 16; step_part == WIRE_MORE; at += control % 7 + 1) {
                step_part = hello_read(&r, slice_first(in, at), &a, &part, &why_part);
                if (at >= in.n)
                        break;
        }
        HOLDS(step == step_part);
        if (step == WIRE_BAD)
                HOLDS(why == why_part && why != WIRE_OK);
        if (step == WIRE_DONE) {
                HOLDS(whole.has_sni == part.has_sni && whole.has_ech == part.has_ech && whole.alpn_n == part.alpn_n);
                HOLDS(!whole.has_sni || (host_is_canonical(whole.sni.name) && slice_eq(whole.sni.name, part.sni.name)));
        }
        for (size_t i = 0; i <= in.n && i <= CLASSIFY_BYTES_MAX; i++) {
                enum wire_class now = classify(slice_first(in, i));

                HOLDS(c == CLASS_MORE || now == c);
                HOLDS(i < CLASSIFY_BYTES_MAX || now != CLASS_MORE);
                c = now;
        }
        arena_fini(&a);
        return 0;
}
