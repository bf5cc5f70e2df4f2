/* Shapes in a text: see find.h. */
#include "account/find.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static enum find_kernel kernel; /* FIND_AUTO until a test says otherwise */

void byte_set_add_text(struct byte_set *s, const char *chars)
{
        for (; *chars; chars++)
                byte_set_add(s, (uint8_t)*chars);
}

void byte_set_add_all(struct byte_set *s) { memset(s, 0xff, sizeof(*s)); }

void find_init(struct find *f) { memset(f, 0, sizeof(*f)); }

/* What the halves of the bytes of a set are: 16 bits of low ones, 16 of high ones. */
static uint32_t halves(const struct byte_set *s)
{
        uint32_t h = 0;

        for (unsigned c = 0; c < 256; c++)
                if (byte_set_has(s, (uint8_t)c))
                        h |= 1u << (c & 15) | 0x10000u << (c >> 4);
        return h;
}

static uint32_t combinations(uint32_t h) { return (uint32_t)(__builtin_popcount(h & 0xffff) * __builtin_popcount(h >> 16)); }

/* How many triples of bytes more the bucket lets through when a shape of these halves is in it. */
static uint32_t cost(const struct find *f, unsigned bucket, const uint32_t shape[FIND_SHAPE_BYTES])
{
        uint32_t before = 1, after = 1;

        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                uint32_t h = f->halves[bucket][at];
                before *= combinations(h);
                after *= combinations(h | shape[at]);
        }
        return after - before;
}

static unsigned cheapest(const struct find *f, const uint32_t h[FIND_SHAPE_BYTES])
{
        uint32_t least = UINT32_MAX;
        unsigned bucket = 0;

        for (unsigned b = 0; b < FIND_BUCKETS && least; b++) {
                uint32_t c = cost(f, b, h);
                if (c < least) {
                        least = c;
                        bucket = b;
                }
        }
        return bucket;
}

void find_add(struct find *f, const struct byte_set shape[FIND_SHAPE_BYTES])
{
        uint32_t h[FIND_SHAPE_BYTES];
        unsigned bucket;
        uint8_t bit;

        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++)
                h[at] = halves(&shape[at]);
        bucket = cheapest(f, h);
        bit = (uint8_t)(1u << bucket % 8);
        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                f->halves[bucket][at] |= h[at];
                for (unsigned c = 0; c < 256; c++) {
                        if (!byte_set_has(&shape[at], (uint8_t)c))
                                continue;
                        f->low[bucket / 8][at][c & 15] |= bit;
                        f->high[bucket / 8][at][c >> 4] |= bit;
                        f->exact[at][c] |= UINT32_C(1) << bucket;
                }
        }
}

static inline bool begins(const struct find *f, const uint8_t *p) { return (f->exact[0][p[0]] & f->exact[1][p[1]] & f->exact[2][p[2]]) != 0; }

/* Positions from ≤ i < end, of which each has FIND_SHAPE_BYTES bytes: the first at which a shape begins. */
static size_t find_portable(const struct find *f, const uint8_t *p, size_t from, size_t end)
{
        while (from < end && !begins(f, p + from))
                from++;
        return from;
}

#if defined(__x86_64__)
#define TARGET(isa) __attribute__((target(isa)))
#define UNROLLED _Pragma("GCC unroll 8") /* gcc keeps the vectors in registers only then; by clang the loops are unrolled anyway */

static bool block_found(struct find_walk *w, size_t from, size_t n, uint64_t some)
{
        w->block = from;
        w->end = from + n;
        w->some = some;
        return true;
}

TARGET("ssse3") static inline __m128i group_ssse3(const struct find *f, size_t g, const __m128i low[3], const __m128i high[3])
{
        __m128i all = _mm_set1_epi8(-1);

        UNROLLED
        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                __m128i l = _mm_shuffle_epi8(_mm_loadu_si128((const void *)f->low[g][at]), low[at]);
                __m128i h = _mm_shuffle_epi8(_mm_loadu_si128((const void *)f->high[g][at]), high[at]);
                all = _mm_and_si128(all, _mm_and_si128(l, h));
        }
        return all;
}

/* Each kernel: the first block at or behind w->end, wholly before `end`, in which something passes the shuffles; false: none, and w->end is where it
 * stopped looking. */
TARGET("ssse3") static bool find_ssse3(struct find_walk *w, size_t end)
{
        const __m128i nibble = _mm_set1_epi8(15);
        const struct find *f = w->find;
        const uint8_t *p = w->text.p;
        size_t from = w->end;

        for (; end - from >= 16; from += 16) {
                __m128i low[FIND_SHAPE_BYTES], high[FIND_SHAPE_BYTES], any = _mm_setzero_si128();
                UNROLLED
                for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                        __m128i x = _mm_loadu_si128((const void *)(p + from + at));
                        low[at] = _mm_and_si128(x, nibble);
                        high[at] = _mm_and_si128(_mm_srli_epi16(x, 4), nibble);
                }
                UNROLLED
                for (size_t g = 0; g < FIND_GROUPS; g++)
                        any = _mm_or_si128(any, group_ssse3(f, g, low, high));
                uint32_t none = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(any, _mm_setzero_si128()));
                if (none != 0xffff)
                        return block_found(w, from, 16, none ^ 0xffff);
        }
        w->end = from;
        return false;
}

struct halves_avx2 {
        __m256i low[FIND_SHAPE_BYTES], high[FIND_SHAPE_BYTES];
};

TARGET("avx2") static inline struct halves_avx2 halves_load(const uint8_t *p)
{
        const __m256i nibble = _mm256_set1_epi8(15);
        struct halves_avx2 h;

        UNROLLED
        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                __m256i x = _mm256_loadu_si256((const void *)(p + at));
                h.low[at] = _mm256_and_si256(x, nibble);
                h.high[at] = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
        }
        return h;
}

/* Two blocks at once: a table that was loaded serves both. */
TARGET("avx2") static bool find_avx2(struct find_walk *w, size_t end)
{
        const __m256i zero = _mm256_setzero_si256();
        const struct find *f = w->find;
        const uint8_t *p = w->text.p;
        size_t from = w->end;

        for (; end - from >= 64; from += 64) {
                struct halves_avx2 a = halves_load(p + from), b = halves_load(p + from + 32);
                __m256i any_a = zero, any_b = zero;
                UNROLLED
                for (size_t g = 0; g < FIND_GROUPS; g++) {
                        __m256i all_a = _mm256_set1_epi8(-1), all_b = all_a;
                        UNROLLED
                        for (size_t at = 0; at < FIND_SHAPE_BYTES; at++) {
                                __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)f->low[g][at]));
                                __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)f->high[g][at]));
                                all_a = _mm256_and_si256(
                                        all_a, _mm256_and_si256(_mm256_shuffle_epi8(low, a.low[at]), _mm256_shuffle_epi8(high, a.high[at])));
                                all_b = _mm256_and_si256(
                                        all_b, _mm256_and_si256(_mm256_shuffle_epi8(low, b.low[at]), _mm256_shuffle_epi8(high, b.high[at])));
                        }
                        any_a = _mm256_or_si256(any_a, all_a);
                        any_b = _mm256_or_si256(any_b, all_b);
                }
                uint64_t none = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(any_a, zero));
                none |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(any_b, zero)) << 32;
                if (none != UINT64_MAX)
                        return block_found(w, from, 64, ~none);
        }
        w->end = from;
        return false;
}

static bool kernel_there(enum find_kernel k)
{
        __builtin_cpu_init();
        return k <= FIND_PORTABLE || (k == FIND_SSSE3 && __builtin_cpu_supports("ssse3")) || (k == FIND_AVX2 && __builtin_cpu_supports("avx2"));
}

static bool find_block(struct find_walk *w, size_t end)
{
        if (kernel == FIND_AVX2 || (kernel == FIND_AUTO && kernel_there(FIND_AVX2)))
                return find_avx2(w, end);
        if (kernel == FIND_SSSE3 || (kernel == FIND_AUTO && kernel_there(FIND_SSSE3)))
                return find_ssse3(w, end);
        return false;
}
#else
static bool kernel_there(enum find_kernel k) { return k <= FIND_PORTABLE; }
static bool find_block(struct find_walk *w, size_t end)
{
        (void)w, (void)end;
        return false;
}
#endif

size_t find_next(struct find_walk *w, size_t from)
{
        size_t end = w->text.n < FIND_SHAPE_BYTES ? 0 : w->text.n - (FIND_SHAPE_BYTES - 1);

        for (;;) {
                for (; w->some; w->some &= w->some - 1) {
                        size_t at = w->block + (size_t)__builtin_ctzll(w->some);
                        if (at >= from && begins(w->find, w->text.p + at))
                                return at;
                }
                if (from < w->end)
                        from = w->end;
                if (from >= end)
                        return from;
                w->end = from;
                if (!find_block(w, end))
                        return find_portable(w->find, w->text.p, w->end, end);
        }
}

const char *find_kernel_name(enum find_kernel k)
{
        static const char *const names[FIND_KERNEL_COUNT] = { "auto", "portable", "ssse3", "avx2" };

        return names[k];
}

bool find_kernel_use(enum find_kernel k)
{
        if (!kernel_there(k))
                return false;
        kernel = k;
        return true;
}
