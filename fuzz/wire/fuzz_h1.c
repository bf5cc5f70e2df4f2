/* Heads: the same answer however the bytes are cut; what is accepted holds no byte that could split a message; framing never crashes. */
#include "fuzz_wire.h"
#include "wire/h1.h"
#include "wire/wire_priv.h"

struct outcome {
        enum wire_step step;
        enum wire_reason why;
        size_t used;
        struct h1_head head;
};

static void read_in(struct arena *a, bool request, struct slice in, size_t first, size_t step, struct outcome *o)
{
        struct h1_reader r;

        *o = (struct outcome){ .step = WIRE_MORE };
        h1_reader_init(&r, request);
        for (size_t n = first;; n += step) {
                o->step = h1_read(&r, slice_first(in, n), a, &o->head, &o->used, &o->why);
                if (o->step != WIRE_MORE || n >= in.n)
                        return;
        }
}

static void check_head(const struct h1_head *h)
{
        struct framing f;
        struct connection c;

        for (size_t i = 0; i < h->headers.n; i++) {
                HOLDS(field_is_token(h->headers.at[i].name));
                HOLDS(field_value_ok(h->headers.at[i].value));
                for (size_t k = 0; k < h->headers.at[i].name.n; k++)
                        HOLDS(ascii_lower(h->headers.at[i].name.p[k]) == h->headers.at[i].name.p[k]);
        }
        if (h->is_request) {
                HOLDS(field_is_token(h->method) && h->target.n > 0);
                for (size_t i = 0; i < h->target.n; i++)
                        HOLDS(ch_is(h->target.p[i], CH_TARGET));
        }
        if (h1_framing(h, h->is_request ? h->method : SLICE_LIT("GET"), &f) == WIRE_OK)
                HOLDS(f.kind < BODY_KIND_COUNT && (f.kind != BODY_CLOSE || !h->is_request));
        if (connection_parse(&h->headers, h->minor, &c) == WIRE_OK)
                HOLDS(c.n <= CONNECTION_NAMES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct outcome whole, part;
        struct arena a;

        arena_init(&a, 8u << 20);
        read_in(&a, control & 1, in, in.n, 1, &whole);
        read_in(&a, control & 1, in, control >> 1, control % 5 + 1, &part);
        HOLDS(whole.step == part.step);
        if (whole.step == WIRE_BAD)
                HOLDS(whole.why == part.why && whole.why != WIRE_OK);
        if (whole.step == WIRE_DONE) {
                HOLDS(whole.used == part.used && whole.used <= in.n && whole.head.headers.n == part.head.headers.n);
                check_head(&whole.head);
        }
        arena_fini(&a);
        return 0;
}
