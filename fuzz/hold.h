/* Shared by the fuzzers: a property that does not hold aborts. */
#ifndef BROME_FUZZ_HOLD_H
#define BROME_FUZZ_HOLD_H

#include "base/slice.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(x) ((x) ? (void)0 : abort())

/* The input's next byte; 0 at its end. */
static inline uint8_t fuzz_byte(struct slice *in)
{
        uint8_t c = in->n ? in->p[0] : 0;
        *in = slice_skip(*in, 1);
        return c;
}

/* The next n bytes, fewer at its end. */
static inline struct slice fuzz_take(struct slice *in, size_t n)
{
        struct slice s = slice_first(*in, n);
        *in = slice_skip(*in, s.n);
        return s;
}

#endif
