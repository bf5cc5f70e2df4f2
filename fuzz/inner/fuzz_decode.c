/* Decoding to look: whatever the cuts, the text is the same; and of the coded bytes, what is not `pending` decodes to nothing but text that was taken as clear. The input: how to pack,
 * how to cut, how much of the text is kept back each time, the text; or bytes as they are, which need not be good. */
#include "hold.h"
#include "inner/decode.h"

#include <zlib.h>
#include <zstd.h>

enum { TEXT_BYTES_MAX = 1 << 20 };

struct run {
        struct decode *dec;
        uint8_t keep;   /* of the text, at most */
        struct buf all; /* the text so far */
        size_t clear;   /* bytes of it that were taken */
};

static int got(void *ctx, struct slice s)
{
        struct run *r = ctx;
        size_t held, kept;

        HOLDS(buf_add_slice(&r->all, s) == 0 && buf_add_slice(&r->dec->text, s) == 0);
        held = buf_len(&r->dec->text);
        kept = held < r->keep ? held : r->keep;
        r->keep = (uint8_t)(r->keep * 5 + 1) % 64 & (r->keep % 3 ? 255 : 0);
        buf_consume(&r->dec->text, held - kept);
        r->clear += held - kept;
        return 0;
}

/* SECURITY: what goes on is not pending. As the receiver of those bytes would decode it. */
static void decided_is_clear(const struct run *r, const enum coding *list, size_t count, struct slice fed)
{
        struct codings *c = codings_new(list, count);
        struct slice sent = slice_first(fed, r->dec->pending < fed.n ? fed.n - r->dec->pending : 0);
        static uint8_t out[4096];
        enum coding_status status;
        size_t n, total = 0;

        HOLDS(c);
        do {
                status = codings_step(c, &sent, false, out, sizeof(out), &n);
                HOLDS(total + n <= r->clear && (!n || memcmp(r->all.bytes + r->all.start + total, out, n) == 0));
                total += n;
        } while (status == CODING_OUT);
        codings_free(c);
}

static enum decode_answer decode(const enum coding *list, size_t count, struct slice in, size_t step, uint8_t keep, struct run *r)
{
        enum decode_answer answer = DECODE_OK;
        size_t at = 0;

        *r = (struct run){ .dec = decode_new(list, count, NULL), .keep = keep };
        HOLDS(r->dec);
        buf_init(&r->all, 0);
        do {
                struct slice piece = slice_first(slice_skip(in, at), step);

                at += piece.n;
                answer = decode_feed(r->dec, piece, at == in.n, got, r);
                if (answer == DECODE_OK && at < in.n && keep)
                        decided_is_clear(r, list, count, slice_first(in, at));
        } while (answer == DECODE_OK && at < in.n && buf_len(&r->all) < TEXT_BYTES_MAX);
        return answer;
}

static void run_fini(struct run *r)
{
        decode_free(r->dec);
        buf_fini(&r->all);
}

/* SLICE_EMPTY: as it is. */
static struct slice packed(enum coding how, struct slice text, uint8_t *room, size_t cap)
{
        z_stream z = { 0 };
        size_t n;

        if (how == CODING_ZSTD) {
                n = ZSTD_compress(room, cap, text.p, text.n, 1);
                HOLDS(!ZSTD_isError(n));
                return slice_of(room, n);
        }
        if (how != CODING_GZIP && how != CODING_DEFLATE)
                return text;
        HOLDS(deflateInit2(&z, 1 + (int)(text.n % 9), Z_DEFLATED, how == CODING_GZIP ? 31 : 15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
        z.next_in = (uint8_t *)(uintptr_t)text.p;
        z.avail_in = (uInt)text.n;
        z.next_out = room;
        z.avail_out = (uInt)cap;
        HOLDS(deflate(&z, Z_FINISH) == Z_STREAM_END);
        n = cap - z.avail_out;
        deflateEnd(&z);
        return slice_of(room, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), bytes;
        uint8_t how = fuzz_byte(&in), cuts = fuzz_byte(&in), keep = fuzz_byte(&in);
        enum coding list[2] = { (enum coding)(how % CODING_MESSAGES), (enum coding)(how / 4 % CODING_MESSAGES) };
        size_t count = how & 64 ? 2 : 1, cap = 2 * in.n + 1024;
        uint8_t *one = malloc(cap), *two = malloc(2 * cap);
        enum decode_answer whole, part;
        struct run a, b;

        HOLDS(one && two);
        bytes = how & 128 ? in : packed(list[0], in, one, cap);
        if (!(how & 128) && count == 2)
                bytes = packed(list[1], bytes, two, 2 * cap);
        whole = decode(list, count, bytes, bytes.n + 1, 0, &a);
        part = decode(list, count, bytes, cuts + 1u, keep % 64, &b);
        HOLDS(whole != DECODE_STOPPED && part != DECODE_STOPPED);
        if (buf_len(&a.all) < TEXT_BYTES_MAX && buf_len(&b.all) < TEXT_BYTES_MAX) {
                HOLDS(whole == part);
                HOLDS(whole == DECODE_BAD || slice_eq(buf_slice(&a.all), buf_slice(&b.all)));
                if (!(how & 128) && list[0] != CODING_BR && (count == 1 || list[1] != CODING_BR))
                        HOLDS(whole == DECODE_OK && slice_eq(buf_slice(&a.all), in));
        }
        run_fini(&a);
        run_fini(&b);
        free(one);
        free(two);
        return 0;
}
