/* Content codings: see coding.h.
 *
 * A stage is one coding's decoder; a stage takes from the stage outside it through a small buffer, the outermost from the caller. Each library is
 * behind one function of the same shape (step_*); what ends, what may follow an end and what is cut off is decided in one place (stage_step). */
#include "wire/coding.h"

#include <assert.h>
#include <brotli/decode.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { BETWEEN_BYTES = 16 * 1024, ZSTD_WINDOW_LOG_MAX = 23, ZSTD_HEAD_BYTES = 18 /* RFC 8878 §3.1.1: magic number and frame header, at most */ };
static_assert(1 << ZSTD_WINDOW_LOG_MAX == CODING_WINDOW_BYTES_MAX, "the same limit");

enum progress {
        PROGRESS_ON,    /* goes on with more room or more input */
        PROGRESS_ENDED, /* at an end: nothing has to follow */
        PROGRESS_BAD,
        PROGRESS_MEMORY,
};

struct stage {
        enum coding coding;
        bool begun;    /* a byte of it came */
        bool ended;    /* at an end of a member, a frame, a stream */
        bool full;     /* the last step filled its room: there may be more without input */
        uint8_t head;  /* CODING_ZSTD: bytes of the frame's header that were given */
        bool chosen;   /* CODING_DEFLATE: zlib or raw */
        uint8_t first; /* CODING_DEFLATE: the first byte, kept until the second one shows which it is */
        bool has_first;
        z_stream z;
        BrotliDecoderState *br;
        ZSTD_DStream *zstd;
        /* What the stage outside it has given, from between[at] to between[n]; `over`: and nothing follows. */
        size_t at, n;
        bool over;
        uint8_t between[BETWEEN_BYTES];
};

struct codings {
        size_t count;
        enum coding_problem problem;
        struct stage stages[]; /* the outermost first */
};

const char *coding_name(enum coding c)
{
        static const char *const names[CODING_COUNT] = { "gzip", "deflate", "br", "zstd", "permessage-deflate" };

        return names[c];
}

const char *coding_problem_sentence(enum coding_problem p)
{
        static const char *const sentences[CODING_PROBLEM_COUNT] = { "the content can be decoded", "the content cannot be decoded",
                                                                     "the encoded content is cut off", "bytes follow the end of the encoded content",
                                                                     "no memory to decode the content" };

        return sentences[p];
}

static struct slice trimmed(struct slice s)
{
        while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
                s = slice_skip(s, 1);
        while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
                s.n--;
        return s;
}

/* CODING_COUNT: none that is known. */
static enum coding coding_of(struct slice token)
{
        if (slice_iis(token, "x-gzip")) /* RFC 9110 §8.4.1.3 */
                return CODING_GZIP;
        for (int c = 0; c < CODING_MESSAGES; c++)
                if (slice_iis(token, coding_name((enum coding)c)))
                        return (enum coding)c;
        return CODING_COUNT;
}

int codings_parse(struct slice value, enum coding list[CODINGS_MAX])
{
        int count = 0;

        while (value.n) {
                ptrdiff_t comma = slice_find(value, ',');
                struct slice token = trimmed(slice_first(value, comma < 0 ? value.n : (size_t)comma));
                enum coding c = coding_of(token);
                value = slice_skip(value, comma < 0 ? value.n : (size_t)comma + 1);
                if (token.n == 0 || slice_iis(token, "identity"))
                        continue;
                if (c == CODING_COUNT || count == CODINGS_MAX)
                        return -1;
                list[count++] = c;
        }
        return count;
}

/* ---- the libraries ---- */

static bool inflate_open(struct stage *s, int window_bits)
{
        s->chosen = inflateInit2(&s->z, window_bits) == Z_OK;
        return s->chosen;
}

static enum progress step_inflate(struct stage *s, struct slice *in, uint8_t *out, size_t cap, size_t *n)
{
        uInt room = cap > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)cap, given = in->n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)in->n;
        int rc;

        s->z.next_in = (Bytef *)(uintptr_t)in->p; /* zlib's interface knows no const */
        s->z.avail_in = given;
        s->z.next_out = out;
        s->z.avail_out = room;
        rc = inflate(&s->z, Z_NO_FLUSH);
        *in = slice_skip(*in, given - s->z.avail_in);
        *n = room - s->z.avail_out;
        switch (rc) {
        case Z_STREAM_END: return PROGRESS_ENDED;
        case Z_OK:
        case Z_BUF_ERROR: return PROGRESS_ON;
        case Z_MEM_ERROR: return PROGRESS_MEMORY;
        default: return PROGRESS_BAD;
        }
}

/* A zlib header (RFC 1950 §2.2) without a dictionary? */
static bool is_zlib(uint8_t cmf, uint8_t flags)
{
        return (cmf & 15) == Z_DEFLATED && cmf >> 4 <= 7 && (cmf << 8 | flags) % 31 == 0 && !(flags & 0x20);
}

/* "deflate" is zlib, but some send raw deflate: the first two bytes tell. */
static enum progress step_deflate(struct stage *s, struct slice *in, uint8_t *out, size_t cap, size_t *n)
{
        struct slice first = slice_of(&s->first, 1);

        *n = 0;
        if (!s->has_first && in->n) {
                s->first = in->p[0];
                s->has_first = true;
                *in = slice_skip(*in, 1);
        }
        if (!s->chosen) {
                enum progress p;
                if (in->n == 0)
                        return PROGRESS_ON;
                if (!inflate_open(s, is_zlib(s->first, in->p[0]) ? MAX_WBITS : -MAX_WBITS))
                        return PROGRESS_MEMORY;
                p = step_inflate(s, &first, out, cap, n);
                if (p != PROGRESS_ON || *n)
                        return p;
        }
        return step_inflate(s, in, out, cap, n);
}

static enum progress step_br(struct stage *s, struct slice *in, uint8_t *out, size_t cap, size_t *n)
{
        size_t given = in->n, room = cap;
        const uint8_t *from = in->p;
        BrotliDecoderResult rc = BrotliDecoderDecompressStream(s->br, &given, &from, &room, &out, NULL);

        *in = slice_skip(*in, in->n - given);
        *n = cap - room;
        if (rc == BROTLI_DECODER_RESULT_ERROR)
                return PROGRESS_BAD;
        return rc == BROTLI_DECODER_RESULT_SUCCESS ? PROGRESS_ENDED : PROGRESS_ON;
}

static enum progress step_zstd(struct stage *s, struct slice *in, uint8_t *out, size_t cap, size_t *n)
{
        /* SECURITY: whether a body is good must not depend on how it is cut. The library looks at what it is given in one piece while it reads a frame's
         * header: a frame that is there whole takes another, stricter path, and behind a wrong header a piece that begins with the magic number of a
         * format older than the RFC is decoded as that. The header byte by byte keeps it off both. */
        ZSTD_inBuffer from = { in->p, s->head == ZSTD_HEAD_BYTES || in->n == 0 ? in->n : 1, 0 };
        ZSTD_outBuffer to = { out, cap, 0 };
        size_t rc = ZSTD_decompressStream(s->zstd, &to, &from);

        *in = slice_skip(*in, from.pos);
        *n = to.pos;
        if (rc == 0)
                s->head = 0;
        else if (s->head < ZSTD_HEAD_BYTES)
                s->head = (uint8_t)(s->head + from.pos);
        if (ZSTD_isError(rc))
                return PROGRESS_BAD;
        return rc == 0 ? PROGRESS_ENDED : PROGRESS_ON;
}

/* A new member, frame or block behind an end; false: nothing may follow. */
static bool stage_again(struct stage *s, uint8_t next)
{
        switch (s->coding) {
        case CODING_GZIP: return next == 0x1f && inflateReset(&s->z) == Z_OK;
        case CODING_ZSTD: return next == 0x28 || (next & 0xf0) == 0x50; /* a frame, or one to skip (RFC 8878 §3.1) */
        case CODING_MESSAGES: return inflateResetKeep(&s->z) == Z_OK;   /* RFC 7692 §7.2.3.4: a final block ends a message, not the window */
        case CODING_DEFLATE:
        case CODING_BR:
        case CODING_COUNT: break;
        }
        return false;
}

static bool stage_open(struct stage *s, enum coding coding)
{
        s->coding = coding;
        switch (coding) {
        case CODING_GZIP: return inflate_open(s, 16 + MAX_WBITS);
        case CODING_DEFLATE: return true;
        case CODING_MESSAGES: return inflate_open(s, -MAX_WBITS);
        case CODING_BR: return (s->br = BrotliDecoderCreateInstance(NULL, NULL, NULL)) != NULL;
        case CODING_ZSTD:
                s->zstd = ZSTD_createDStream();
                return s->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX));
        case CODING_COUNT: break;
        }
        return false;
}

static void stage_close(struct stage *s)
{
        if (s->chosen)
                inflateEnd(&s->z);
        if (s->br)
                BrotliDecoderDestroyInstance(s->br);
        ZSTD_freeDStream(s->zstd);
}

/* ---- stages ---- */

struct codings *codings_new(const enum coding *list, size_t count)
{
        struct codings *c = calloc(1, sizeof(*c) + count * sizeof(c->stages[0]));

        assert(count <= CODINGS_MAX);
        if (!c)
                return NULL;
        for (c->count = 0; c->count < count; c->count++) {
                if (!stage_open(&c->stages[c->count], list[count - 1 - c->count])) {
                        c->count++;
                        codings_free(c);
                        return NULL;
                }
        }
        return c;
}

void codings_free(struct codings *c)
{
        if (!c)
                return;
        for (size_t i = 0; i < c->count; i++)
                stage_close(&c->stages[i]);
        free(c);
}

enum coding_problem codings_problem(const struct codings *c) { return c->problem; }

static enum coding_status bad(struct codings *c, enum coding_problem p)
{
        c->problem = p;
        return CODING_BAD;
}

/* One call of the library, with what may follow an end seen to. */
static enum coding_status stage_step(struct codings *c, struct stage *s, struct slice *in, uint8_t *out, size_t cap, size_t *n)
{
        static enum progress (*const steps[CODING_COUNT])(struct stage *, struct slice *, uint8_t *, size_t,
                                                          size_t *) = { step_inflate, step_deflate, step_br, step_zstd, step_inflate };

        *n = 0;
        if (s->ended && in->n) {
                if (!stage_again(s, in->p[0]))
                        return bad(c, CODING_TRAILING);
                s->ended = false;
        }
        if (s->ended)
                return CODING_MORE;
        s->begun = s->begun || in->n;
        switch (steps[s->coding](s, in, out, cap, n)) {
        case PROGRESS_ON: break;
        case PROGRESS_ENDED: s->ended = true; break;
        case PROGRESS_BAD: return bad(c, CODING_CORRUPT);
        case PROGRESS_MEMORY: return bad(c, CODING_MEMORY);
        }
        s->full = *n == cap && !s->ended;
        return CODING_MORE;
}

static enum coding_status stage_finish(struct codings *c, const struct stage *s)
{
        return s->ended || !s->begun || s->coding == CODING_MESSAGES ? CODING_END : bad(c, CODING_CUT);
}

/* Fills `out` from stage i. Recursion: as deep as there are stages. */
static enum coding_status stage_pull(struct codings *c, size_t i, struct slice *in, bool last, uint8_t *out, size_t cap, size_t *n)
{
        struct stage *s = &c->stages[i];

        *n = 0;
        while (*n < cap) {
                struct slice mine = i ? slice_of(s->between + s->at, s->n - s->at) : *in;
                bool over = i ? s->over : last;
                size_t before = mine.n, made;
                if (i && mine.n == 0 && !over && !s->full) {
                        enum coding_status outer = stage_pull(c, i - 1, in, last, s->between, sizeof(s->between), &s->n);
                        s->at = 0;
                        s->over = outer == CODING_END;
                        if (outer == CODING_BAD || (outer == CODING_MORE && s->n == 0))
                                return outer;
                        continue;
                }
                if (mine.n == 0 && !s->full)
                        return over ? stage_finish(c, s) : CODING_MORE;
                enum coding_status status = stage_step(c, s, &mine, out + *n, cap - *n, &made);
                *n += made;
                if (status == CODING_BAD)
                        return CODING_BAD;
                if (i)
                        s->at += before - mine.n;
                else
                        *in = mine;
                if (made == 0 && mine.n == before && mine.n) /* a library that neither takes nor gives would hold us for ever */
                        return bad(c, CODING_CORRUPT);
        }
        return CODING_OUT;
}

enum coding_status codings_step(struct codings *c, struct slice *in, bool last, uint8_t *out, size_t cap, size_t *n)
{
        assert(cap > 0);
        *n = 0;
        if (c->problem != CODING_PROBLEM_NONE)
                return CODING_BAD;
        if (c->count)
                return stage_pull(c, c->count - 1, in, last, out, cap, n);
        *n = in->n < cap ? in->n : cap;
        if (*n)
                memcpy(out, in->p, *n);
        *in = slice_skip(*in, *n);
        return in->n ? CODING_OUT : last ? CODING_END : CODING_MORE;
}
