/* Chunked bodies: any cut gives the same data, end and refusal; what was read and is written again reads the same. */
#include "fuzz_wire.h"
#include "wire/chunk.h"

struct outcome {
        enum body_event last;
        enum wire_reason why;
        size_t used;
        struct buf data;
        struct headers trailers;
};

static void read_in(struct arena *a, bool request, struct slice in, size_t step, struct outcome *o)
{
        struct chunk_reader r;
        size_t at = 0;

        *o = (struct outcome){ .last = BODY_MORE };
        buf_init(&o->data, 0);
        chunk_reader_init(&r, request, a);
        while (at < in.n && o->last == BODY_MORE) {
                struct slice part = slice_first(slice_skip(in, at), step), data;
                size_t n = part.n;

                while ((o->last = chunk_read(&r, &part, &data, &o->why)) == BODY_DATA)
                        HOLDS(buf_add_slice(&o->data, data) == 0);
                at += n - part.n;
        }
        o->used = at;
        o->trailers = r.trailers;
}

static bool same(const struct outcome *a, const struct outcome *b)
{
        if (a->last != b->last || !slice_eq(buf_slice(&a->data), buf_slice(&b->data)) || a->trailers.n != b->trailers.n)
                return false;
        for (size_t i = 0; i < a->trailers.n; i++)
                if (!slice_eq(a->trailers.at[i].name, b->trailers.at[i].name) || !slice_eq(a->trailers.at[i].value, b->trailers.at[i].value))
                        return false;
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct outcome whole, part, again;
        struct buf b;
        struct arena a;

        arena_init(&a, 8u << 20);
        read_in(&a, control & 1, in, in.n, &whole);
        read_in(&a, control & 1, in, control / 2 % 19 + 1, &part);
        HOLDS(same(&whole, &part));
        if (whole.last == BODY_BAD)
                HOLDS(whole.why == part.why && whole.why != WIRE_OK);
        if (whole.last == BODY_END) {
                HOLDS(whole.used == part.used);
                HOLDS(trailers_check(&whole.trailers, false) == WIRE_OK);
                buf_init(&b, 0);
                HOLDS(chunk_write(&b, buf_slice(&whole.data)) == 0 && chunk_write_end(&b, &whole.trailers) == 0);
                read_in(&a, true, buf_slice(&b), 4096, &again);
                HOLDS(same(&whole, &again));
                buf_fini(&b);
                buf_fini(&again.data);
        }
        buf_fini(&whole.data);
        buf_fini(&part.data);
        arena_fini(&a);
        return 0;
}
