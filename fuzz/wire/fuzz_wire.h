/* Shared by the wire fuzzers. Input: a control byte or two, then the bytes for the codec. A property that does not hold aborts. */
#ifndef BROME_FUZZ_WIRE_H
#define BROME_FUZZ_WIRE_H

#include "base/arena.h"
#include "base/buf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(x) ((x) ? (void)0 : abort())

static inline uint8_t fuzz_byte(struct slice *in)
{
        uint8_t c = in->n ? in->p[0] : 0;
        *in = slice_skip(*in, 1);
        return c;
}

#endif
