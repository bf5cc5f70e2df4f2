/* subuid(5): see subids.h. */
#include "vm/subids.h"

#include <stdio.h>

static bool number(struct slice s, uint32_t *out)
{
        uint64_t n = 0;

        if (s.n == 0 || s.n > 10)
                return false;
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] < '0' || s.p[i] > '9')
                        return false;
                n = n * 10 + (uint64_t)(s.p[i] - '0');
        }
        *out = (uint32_t)n;
        return n <= UINT32_MAX;
}

bool subids_find(struct slice text, const char *name, uint32_t uid, uint32_t *start)
{
        char by_number[16];

        snprintf(by_number, sizeof(by_number), "%u", uid);
        while (text.n > 0) {
                ptrdiff_t end = slice_find(text, '\n'), a, b;
                struct slice line = end < 0 ? text : slice_first(text, (size_t)end), who, rest;
                uint32_t first, count;
                text = end < 0 ? SLICE_EMPTY : slice_skip(text, (size_t)end + 1);
                if ((a = slice_find(line, ':')) < 0)
                        continue;
                who = slice_first(line, (size_t)a);
                rest = slice_skip(line, (size_t)a + 1);
                if ((!slice_is(who, name) && !slice_is(who, by_number)) || (b = slice_find(rest, ':')) < 0)
                        continue;
                if (!number(slice_first(rest, (size_t)b), &first) || !number(slice_skip(rest, (size_t)b + 1), &count))
                        continue;
                if (first == 0 || count < SUBIDS_NEEDED || UINT32_MAX - first < SUBIDS_NEEDED)
                        continue;
                *start = first;
                return true;
        }
        return false;
}
