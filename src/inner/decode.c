/* Decoding to look: see decode.h. */
#include "inner/decode.h"
#include "inner/limits.h"

#include <stdlib.h>

static uint8_t block[SCRATCH_BYTES];

struct decode *decode_new(const enum coding *list, size_t n, const struct token_set *set)
{
        static const size_t cost[CODING_COUNT] = {
                [CODING_GZIP] = 64 * 1024, [CODING_DEFLATE] = 64 * 1024, [CODING_BR] = 2 * CODING_WINDOW_BYTES_MAX, [CODING_ZSTD] = CODING_WINDOW_BYTES_MAX,
        };
        struct decode *dec = calloc(1, sizeof(*dec));

        if (!dec)
                return NULL;
        buf_init(&dec->text, DECODED_HELD_BYTES);
        scan_begin(&dec->scan, set);
        for (size_t i = 0; i < n; i++)
                dec->cost += cost[list[i]];
        for (size_t i = 0; i < n; i++)
                dec->late = dec->late || list[i] == CODING_ZSTD;
        dec->codings = codings_new(list, n);
        if (dec->codings)
                return dec;
        decode_free(dec);
        return NULL;
}

void decode_free(struct decode *dec)
{
        if (!dec)
                return;
        codings_free(dec->codings);
        buf_fini(&dec->text);
        free(dec);
}

/* One piece. *made: bytes it gave. */
static enum decode_answer feed_piece(struct decode *dec, struct slice in, bool last, int (*text)(void *ctx, struct slice s), void *ctx, uint64_t *made)
{
        enum coding_status status;

        dec->coded += in.n;
        *made = 0;
        do {
                size_t n = 0;

                status = codings_step(dec->codings, &in, last, block, sizeof(block), &n);
                dec->decoded += n;
                *made += n;
                dec->bomb = dec->decoded > DECODED_FREE_BYTES + dec->coded * DECODED_RATIO;
                if (n && text(ctx, slice_of(block, n)) < 0) /* also what stands before the fault */
                        return DECODE_STOPPED;
                if (status == CODING_BAD || dec->bomb)
                        return DECODE_BAD;
        } while (status == CODING_OUT);
        return DECODE_OK;
}

/* SECURITY: a piece is decided when nothing that was decoded is kept back. Where a block is decoded as a whole, text means that those before it are over; the next
 * one may have begun in this piece. */
static void decided(struct decode *dec, size_t piece, uint64_t made)
{
        dec->pending += piece;
        if (buf_len(&dec->text))
                return;
        if (!dec->late)
                dec->pending = 0;
        else if (made)
                dec->pending = piece;
}

enum decode_answer decode_feed(struct decode *dec, struct slice in, bool last, int (*text)(void *ctx, struct slice s), void *ctx)
{
        do {
                struct slice piece = slice_first(in, DECODE_PIECE_BYTES);
                enum decode_answer answer;
                uint64_t made;

                in = slice_skip(in, piece.n);
                answer = feed_piece(dec, piece, last && !in.n, text, ctx, &made);
                if (answer != DECODE_OK)
                        return answer;
                decided(dec, piece.n, made);
        } while (in.n);
        return DECODE_OK;
}

const char *decode_problem(const struct decode *dec)
{
        return dec->bomb ? "it grows without measure when it is decoded" : coding_problem_sentence(codings_problem(dec->codings));
}
