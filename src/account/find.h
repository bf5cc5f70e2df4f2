/* Where in a text may one of a few shapes begin? A shape is three sets, for three bytes in a row. One pass of vector compares over the text.
 *
 * The one idea: each set is looked up by the two halves of a byte (two shuffles of sixteen entries), eight shapes at a time, a bit each; what comes
 * through is looked at again with whole bytes. What is found is a candidate: the caller looks at it properly. The kernel is chosen at run time; all
 * of them find the same. Pure. */
#ifndef BROME_ACCOUNT_FIND_H
#define BROME_ACCOUNT_FIND_H

#include "base/slice.h"

enum { FIND_SHAPE_BYTES = 3, FIND_GROUPS = 3, FIND_BUCKETS = 8 * FIND_GROUPS };

struct byte_set {
        uint64_t bits[4];
};
static inline void byte_set_add(struct byte_set *s, uint8_t c) { s->bits[c >> 6] |= UINT64_C(1) << (c & 63); }
static inline bool byte_set_has(const struct byte_set *s, uint8_t c) { return s->bits[c >> 6] >> (c & 63) & 1; }
void byte_set_add_text(struct byte_set *s, const char *chars);
void byte_set_add_all(struct byte_set *s);

struct find {
        uint8_t low[FIND_GROUPS][FIND_SHAPE_BYTES][16], high[FIND_GROUPS][FIND_SHAPE_BYTES][16];
        uint32_t exact[FIND_SHAPE_BYTES][256];           /* a bit for each bucket */
        uint32_t halves[FIND_BUCKETS][FIND_SHAPE_BYTES]; /* what a bucket's bytes have as low halves (16 bits) and as high ones (16 more) */
};

void find_init(struct find *f);
/* There are fewer buckets than shapes may be added: a shape joins those with which it makes the fewest false candidates. A bucket matches whatever
 * its shapes match set by set. So add the rare and narrow ones last, and give a set that spreads over the high halves of bytes in parts. */
void find_add(struct find *f, const struct byte_set shape[FIND_SHAPE_BYTES]);
/* A walk over a text from candidate to candidate. */
struct find_walk {
        const struct find *find;
        struct slice text;
        uint64_t some;     /* positions of the present block that passed the shuffles and were not looked at yet, from `block` on */
        size_t block, end; /* the present block */
};
static inline struct find_walk find_begin(const struct find *f, struct slice text) { return (struct find_walk){ .find = f, .text = text }; }
/* The first position at or behind `from` at which a shape begins, or the first position too near the end to tell (fewer than FIND_SHAPE_BYTES bytes
 * are left). `from` never goes back. */
size_t find_next(struct find_walk *w, size_t from);

/* For tests and figures: which kernels there are on this machine, and the one to use. FIND_AUTO chooses. */
enum find_kernel { FIND_AUTO, FIND_PORTABLE, FIND_SSSE3, FIND_AVX2, FIND_KERNEL_COUNT };
const char *find_kernel_name(enum find_kernel k);
bool find_kernel_use(enum find_kernel k);

#endif
