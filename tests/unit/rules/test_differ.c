/* The differential test in the normal run: fixed seeds, so that a failure comes again. The fuzzer of the same name goes further. */
#include <stdio.h>
#include <stdlib.h>

#include "naive.h"

int main(int argc, char **argv)
{
        enum { ROUNDS = 4000, BYTES = 700 };
        long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;
        uint8_t bytes[BYTES];
        uint64_t x = 88172645463325252ull;
        long refused = 0;

        for (long i = 0; i < rounds; i++) {
                int rc;
                for (size_t j = 0; j < BYTES; j++) {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        bytes[j] = (uint8_t)(x >> 32);
                }
                rc = differ_run(bytes, BYTES);
                if (rc < 0) {
                        printf("round %ld\n", i);
                        return 1;
                }
                refused += rc;
        }
        printf("%ld rule sets agree, %ld were refused by the checker\n", rounds - refused, refused);
        return refused > rounds / 2;
}
