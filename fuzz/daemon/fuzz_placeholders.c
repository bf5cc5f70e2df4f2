/* A workspace's file of placeholders: what is accepted is printed again as the same bytes, and holds well-formed names and placeholders only. */
#include "daemon/placeholders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
        if (!ok)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct placeholders p;
        struct slice in = slice_of(data, n);
        char line[512];

        if (placeholders_parse(&p, in) < 0)
                return 0;
        for (size_t i = 0; i < p.count; i++) {
                int bytes = snprintf(line, sizeof(line), "%s %s %s\n", p.rows[i].credential, kind_row(p.rows[i].kind)->name, p.rows[i].text);

                must(request_name_ok(p.rows[i].credential) && placeholder_ok(slice_str(p.rows[i].text)));
                must(bytes > 0 && slice_starts(in, slice_of(line, (size_t)bytes)));
                in = slice_skip(in, (size_t)bytes);
        }
        must(in.n == 0);
        return 0;
}
