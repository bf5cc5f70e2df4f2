/* Content codings: the same for every cut and room; a step never writes more than there is room for, and takes or gives something. The input: which
 * codings, how to cut, the body. */
#include "fuzz_wire.h"
#include "wire/coding.h"

enum { OUT_BYTES_MAX = 1 << 20 };

static enum coding_status decode(const enum coding *list, size_t count, struct slice in, size_t step, size_t cap, struct buf *out,
                                 enum coding_problem *problem)
{
        struct codings *c = codings_new(list, count);
        enum coding_status status;
        size_t at = 0;

        HOLDS(c);
        do {
                struct slice piece = slice_first(slice_skip(in, at), step), rest;
                uint8_t *copy = malloc(piece.n ? piece.n : 1), *room = malloc(cap);
                HOLDS(copy && room);
                if (piece.n)
                        memcpy(copy, piece.p, piece.n);
                rest = slice_of(copy, piece.n);
                at += piece.n;
                do {
                        size_t before = rest.n, n;
                        status = codings_step(c, &rest, at == in.n, room, cap, &n);
                        HOLDS(n <= cap && rest.n <= before && (status != CODING_MORE || rest.n == 0) && (status != CODING_OUT || n == cap));
                        HOLDS(buf_add(out, room, n) == 0);
                } while (status == CODING_OUT && buf_len(out) < OUT_BYTES_MAX);
                free(copy);
                free(room);
        } while (status == CODING_MORE && at < in.n);
        *problem = codings_problem(c);
        codings_free(c);
        return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t which = fuzz_byte(&in), cuts = fuzz_byte(&in);
        enum coding list[2] = { (enum coding)(which % CODING_COUNT), (enum coding)(which / CODING_COUNT % CODING_COUNT) };
        size_t count = which / CODING_COUNT / CODING_COUNT & 1 ? 2 : 1;
        struct buf whole, part;
        enum coding_problem why, why_part;
        enum coding_status status, status_part;

        buf_init(&whole, 0);
        buf_init(&part, 0);
        status = decode(list, count, in, in.n + 1, 65536, &whole, &why);
        status_part = decode(list, count, in, cuts % 16u + 1, cuts / 16u * 97 + 1, &part, &why_part);
        if (status != CODING_OUT && status_part != CODING_OUT) { /* neither was too much for us */
                HOLDS(status == status_part);
                HOLDS(status == CODING_BAD || slice_eq(buf_slice(&whole), buf_slice(&part)));
        }
        buf_fini(&whole);
        buf_fini(&part);
        return 0;
}
