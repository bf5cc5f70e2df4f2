/* Guessing what is packed: see guess.h. */
#include "inner/guess.h"

static const struct {
        enum coding coding;
        struct slice magic;
} packed[] = {
        { CODING_GZIP, SLICE_LIT("\x1f\x8b\x08") },     /* RFC 1952 §2.3.1: and deflate is the only method */
        { CODING_ZSTD, SLICE_LIT("\x28\xb5\x2f\xfd") }, /* RFC 8878 §3.1.1 */
};
enum { EMPTY_LINE = 0x0d0a0d0a, MAGIC_BYTES_MAX = 4 };

void guess_begin(struct guess *g, struct door *d, bool parts)
{
        *g = (struct guess){ .door = d, .parts = parts, .newest = EMPTY_LINE };
}

void guess_stop(struct guess *g)
{
        if (g->cost)
                g->door->decode_bytes -= g->cost;
        g->cost = 0;
}

void guess_end(struct guess *g)
{
        guess_stop(g);
        decode_free(g->decode);
        g->decode = NULL;
}

/* Which of them begins with the newest bytes, behind an empty line? -1: none. */
static int magic_at_end(uint64_t newest)
{
        for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
                unsigned bits = 8 * (unsigned)packed[i].magic.n;
                uint64_t magic = 0;

                for (size_t k = 0; k < packed[i].magic.n; k++)
                        magic = magic << 8 | packed[i].magic.p[k];
                if ((newest & ((UINT64_C(1) << bits) - 1)) == magic && (uint32_t)(newest >> bits) == EMPTY_LINE)
                        return (int)i;
        }
        return -1;
}

/* A decoder, if there is room for it. */
static void begin(struct guess *g, int which)
{
        struct decode *dec;

        if (g->begun++ >= GUESSES_MAX) {
                g->over = true;
                return;
        }
        dec = decode_new(&packed[which].coding, 1, g->door->tokens);
        if (!dec || g->door->decode_bytes + dec->cost > DECODE_BYTES) {
                decode_free(dec);
                return;
        }
        g->cost = dec->cost;
        g->door->decode_bytes += g->cost;
        g->decode = dec;
}

/* Takes bytes until a decoder has begun. Which one; -1: none, and *in was used up. */
static int find(struct guess *g, struct slice *in)
{
        for (size_t i = 0; i < in->n && !g->over; i++) {
                uint8_t c = in->p[i];
                int which;

                g->newest = g->newest << 8 | c;
                g->over = !g->parts && ++g->seen > MAGIC_BYTES_MAX;
                which = c == 0x08 || c == 0xfd ? magic_at_end(g->newest) : -1;
                if (which < 0)
                        continue;
                begin(g, which);
                if (!g->decode)
                        continue;
                *in = slice_skip(*in, i + 1);
                return which;
        }
        *in = slice_skip(*in, in->n);
        return -1;
}

struct looking {
        struct guess *g;
        guess_look *look;
        void *ctx;
};

static int got_text(void *ctx, struct slice s)
{
        struct looking *l = ctx;

        if (buf_add_slice(&l->g->decode->text, s) < 0)
                return 0; /* cannot be, but for want of memory: then it was not looked at */
        return l->look(l->ctx, l->g->decode, false);
}

/* What is kept back of the text is all there will be. */
static int finish(struct looking *l)
{
        int rc = l->look(l->ctx, l->g->decode, true);

        guess_end(l->g);
        l->g->over = l->g->over || !l->g->parts;
        return rc;
}

/* A piece. 1: it goes on; 0: it was wrong from somewhere in this piece on; -1. */
static int feed_piece(struct looking *l, struct slice piece, bool last)
{
        switch (decode_feed(l->g->decode, piece, last, got_text, l)) {
        case DECODE_OK:
                break;
        case DECODE_STOPPED:
                return -1;
        case DECODE_BAD:
                return finish(l) < 0 ? -1 : 0;
        }
        return !last ? 1 : finish(l) < 0 ? -1 : 0;
}

int guess_feed(struct guess *g, struct slice in, bool last, guess_look *look, void *ctx)
{
        struct looking l = { g, look, ctx };
        int rc;

        while (!g->over) {
                struct slice piece = slice_first(in, DECODE_PIECE_BYTES);

                if (!g->decode) {
                        int which = find(g, &in);
                        if (which < 0)
                                return 0;
                        if (feed_piece(&l, packed[which].magic, last && !in.n) < 0)
                                return -1;
                        continue;
                }
                if (!piece.n && !last)
                        return 0;
                rc = feed_piece(&l, piece, last && piece.n == in.n);
                if (rc < 0)
                        return -1;
                if (rc == 0) { /* its end may stand in the piece, and behind it the next one */
                        g->newest = 0;
                        continue;
                }
                for (size_t i = piece.n > sizeof(g->newest) ? piece.n - sizeof(g->newest) : 0; i < piece.n; i++)
                        g->newest = g->newest << 8 | piece.p[i];
                in = slice_skip(in, piece.n);
        }
        return 0;
}
