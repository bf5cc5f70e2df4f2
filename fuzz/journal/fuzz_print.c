/* Printing any record. Properties: the JSON parses, and it is one line; the text holds no control byte but its line ends. */
#include "journal/print.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(struct buf *out)
{
        json_t *parsed = json_loadb((const char *)buf_slice(out).p, buf_len(out), JSON_ALLOW_NUL, NULL);

        if (!parsed || slice_find(buf_slice(out), '\n') != (ptrdiff_t)buf_len(out) - 1)
                abort();
        json_decref(parsed);
        buf_clear(out);
}

static void check_text(struct buf *out)
{
        for (size_t i = 0; i < buf_len(out); i++) {
                uint8_t c = buf_slice(out).p[i];
                if ((c < 0x20 && c != '\n') || c == 0x7f)
                        abort();
        }
        buf_clear(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct row row = { .seq = 1, .session = 1 };
        struct refusal_row refusal = { .count = 2 };
        size_t used;
        struct buf out;

        if (event_read(slice_of(data, size), &row.event, &used) != 1)
                return 0;
        row.time_us = (int64_t)row.event.num[EVENT_ID];
        row.workspace = row.event.text[EVENT_HOST];
        row.ended = row.event.type == EVENT_END;
        row.class = (enum journal_class)(row.event.num[EVENT_FLAGS] % JOURNAL_CLASS_COUNT);
        refusal.event = row.event;
        buf_init(&out, 0);
        if (print_trace(&out, PRINT_JSON, &row) < 0)
                abort();
        check_json(&out);
        if (print_refusal(&out, PRINT_JSON, &refusal) < 0)
                abort();
        check_json(&out);
        if (print_trace(&out, PRINT_TEXT, &row) < 0 || print_timeline(&out, PRINT_TEXT, &row) < 0 || print_refusal(&out, PRINT_TEXT, &refusal) < 0)
                abort();
        check_text(&out);
        buf_fini(&out);
        return 0;
}
