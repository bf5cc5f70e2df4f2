/* Path patterns and host names on any bytes: the pattern matcher agrees with a backtracking one, a canonical name stays as it is. */
#include <stdlib.h>

#include "base/host.h"
#include "naive.h"
#include "rules/rules_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void fuzz_host(struct slice in)
{
        char once[HOST_NAME_BYTES], twice[HOST_NAME_BYTES];
        int kind = host_canonical(once, sizeof(once), in), again;

        if (kind < 0)
                return;
        again = host_canonical(twice, sizeof(twice), slice_str(once));
        if (again != kind || strcmp(once, twice) != 0 || (kind == HOST_NAME) != host_is_canonical(slice_str(once)))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        enum { SHORT = 24 }; /* the naive matcher is exponential */
        struct slice in = slice_of(data, n), pattern, path;
        ptrdiff_t cut = slice_find(in, ' ');

        fuzz_host(in);
        if (cut < 0)
                return 0;
        pattern = slice_first(in, (size_t)cut);
        path = slice_skip(in, (size_t)cut + 1);
        if (path_pattern_problem(pattern))
                return 0;
        for (int sure = 0; sure < 2; sure++) {
                bool fast = path_match(pattern, path, sure);
                if (pattern.n <= SHORT && path.n <= SHORT && fast != naive_glob(pattern, path, sure))
                        abort();
                if (sure && fast && !path_match(pattern, path, false))
                        abort();
        }
        return 0;
}
