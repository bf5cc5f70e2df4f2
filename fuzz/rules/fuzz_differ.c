/* The compiled matcher against the naive one: the bytes choose a rule set and queries (tests/unit/rules/differ.c). */
#include <stdlib.h>

#include "naive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        if (differ_run(data, n) < 0)
                abort();
        return 0;
}
