/* Redaction on any path. Properties: twice is once; no query value survives; never longer than the input by more than its marks. */
#include "journal/redact.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct buf once, twice;
        struct slice rest;
        ptrdiff_t q;

        buf_init(&once, 0);
        buf_init(&twice, 0);
        if (redact_path(&once, slice_of(data, size)) < 0 || redact_path(&twice, buf_slice(&once)) < 0 ||
            !slice_eq(buf_slice(&once), buf_slice(&twice)))
                abort();
        rest = buf_slice(&once);
        q = slice_find(rest, '#');
        rest = q < 0 ? rest : slice_first(rest, (size_t)q);
        q = slice_find(rest, '?');
        rest = q < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)q);
        for (ptrdiff_t at; (at = slice_find(rest, '=')) >= 0;) {
                rest = slice_skip(rest, (size_t)at + 1);
                if (rest.n && rest.p[0] != '&' && !slice_starts(rest, SLICE_LIT("\xe2\x80\xa6")))
                        abort();
                at = slice_find(rest, '&');
                rest = at < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)at);
        }
        buf_fini(&once);
        buf_fini(&twice);
        return 0;
}
