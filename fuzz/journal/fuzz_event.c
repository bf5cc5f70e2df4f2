/* The record reader on any bytes. Property: what it accepts, written again, reads back the same, and nothing it hands out lies outside. */
#include "journal/event.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct slice all, struct slice part)
{
        if (part.n && (part.p < all.p || part.n > all.n - (size_t)(part.p - all.p)))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice in = slice_of(data, size);
        struct event_record e, back;
        struct buf out;
        size_t used, again;

        buf_init(&out, 0);
        while (event_read(in, &e, &used) == 1) {
                if (used == 0 || used > in.n)
                        abort();
                for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++)
                        inside(slice_first(in, used), e.text[f]);
                buf_clear(&out);
                if (event_write(&out, &e) < 0 || event_read(buf_slice(&out), &back, &again) != 1 || again != buf_len(&out))
                        abort();
                if (back.type != e.type || back.present != e.present)
                        abort();
                for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++)
                        if (back.num[f] != e.num[f] || !slice_eq(back.text[f], e.text[f]))
                                abort();
                in = slice_skip(in, used);
        }
        buf_fini(&out);
        return 0;
}
