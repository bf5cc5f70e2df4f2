/* The terminal filter: the same output wherever the input is cut; what passed passes again unchanged; the output holds no byte sequence that is not valid
 * UTF-8, no C1 control, no control string but allowed titles and links, and is bounded by the input. */
#include "attach/termfilter.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void filter(struct slice in, size_t cut, struct buf *out)
{
        static struct termfilter f;
        termfilter_init(&f);
        for (size_t i = 0; i < in.n; i += cut)
                if (termfilter_push(&f, slice_first(slice_skip(in, i), cut), out) < 0)
                        abort();
}

static void look(struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                uint8_t b = s.p[i];
                if (b == 0 || b == 5 || b == 0x7f || b == 0x18 || b == 0x1a || (b >= 0x10 && b < 0x20 && b != 0x1b))
                        abort();
                if (b == 0xc2 && (i + 1 == s.n || s.p[i + 1] < 0xa0))
                        abort();
                if (b != 0x1b)
                        continue;
                if (i + 1 == s.n)
                        abort();
                uint8_t c = s.p[i + 1];
                if (c == 'P' || c == 'X' || c == '^' || c == '_' || c == 'k' || c == 'Z' || c == '%' || c == ' ')
                        abort();
                if (c == ']' && (i + 3 >= s.n || s.p[i + 3] != ';' || (s.p[i + 2] != '0' && s.p[i + 2] != '1' && s.p[i + 2] != '2' && s.p[i + 2] != '8')))
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct buf whole, parts, again;
        if (n < 1)
                return 0;
        struct slice in = slice_of(data + 1, n - 1);
        buf_init(&whole, 0);
        buf_init(&parts, 0);
        buf_init(&again, 0);
        filter(in, in.n + 1, &whole);
        filter(in, (size_t)(data[0] % 7) + 1, &parts);
        filter(buf_slice(&whole), buf_len(&whole) + 1, &again);
        if (!slice_eq(buf_slice(&whole), buf_slice(&parts)) || !slice_eq(buf_slice(&whole), buf_slice(&again)) || buf_len(&whole) > 3 * in.n)
                abort();
        look(buf_slice(&whole));
        buf_fini(&whole);
        buf_fini(&parts);
        buf_fini(&again);
        return 0;
}
