/* The tripwire's eye: the same hit for every cut and kernel; what is clear ends before it; what stays back is bounded; a placeholder that stands in
 * it is found. The input: three bytes that say how to cut and spell, then the text, in which the bytes 1 to 18 stand for a placeholder in the
 * spellings of scan_test.h. */
#include "account/find.h"
#include "hold.h"
#include "scan_test.h"

struct outcome {
        bool found;
        size_t at, n;
        int number;
        enum scan_view view;
};

static void run(const struct token_set *set, struct slice text, uint8_t cuts, struct outcome *o)
{
        struct scan s;
        struct scan_hit hit;
        size_t dropped = 0, end = 0;
        uint32_t x = cuts * 2654435761u + 1;

        *o = (struct outcome){ 0 };
        scan_begin(&s, set);
        do {
                size_t n, clear;
                uint8_t *held;
                x = x * 1664525u + 1013904223u;
                end += cuts == 0 ? text.n : x >> 16 & (cuts & 1 ? 3 : 63);
                end = end < text.n ? end : text.n;
                n = end - dropped;
                held = malloc(n ? n : 1);
                HOLDS(held);
                if (n)
                        memcpy(held, text.p + dropped, n);
                clear = scan_step(&s, slice_of(held, n), end == text.n, &o->found, &hit);
                free(held);
                HOLDS(clear <= n);
                if (o->found) {
                        HOLDS(hit.at >= clear && hit.n && hit.at + hit.n <= n);
                        *o = (struct outcome){ true, dropped + hit.at, hit.n, hit.number, hit.view };
                        return;
                }
                HOLDS(end < text.n ? n - clear <= SCAN_KEEP_BYTES_MAX : clear == n);
                if (cuts & 2 && end < text.n)
                        clear -= clear / 3;
                scan_drop(&s, clear);
                dropped += clear;
        } while (end < text.n);
}

/* True when a placeholder stands in the text as one of the spellings. */
static bool fill(struct buf *text, struct slice in, uint8_t token, uint8_t how)
{
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
        static const char *const breaks[] = { "\n", "\r\n", "\\n", "=\r\n" };
        bool some = false;

        spelt_token(token % SPELT_TOKENS, placeholder);
        for (size_t i = 0; i < in.n && buf_len(text) < 3000; i++) {
                if (in.p[i] >= 1 && in.p[i] <= SPELLING_ROWS) {
                        const struct spelling_row *row = &spelling_rows[in.p[i] - 1];
                        struct spelling_how spelt = { .which = how * 0x01010101u, .line = how >> 3, .between = breaks[how & 3] };
                        spell(row, text, slice_str(placeholder), spelt);
                        some = some || row->outer == spell_plain || row->outer == spell_percent || row->outer == spell_json;
                } else {
                        HOLDS(buf_add(text, &in.p[i], 1) == 0);
                }
        }
        return some;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct token_set *set;
        struct slice in = slice_of(data, n);
        uint8_t cuts = fuzz_byte(&in), token = fuzz_byte(&in), how = fuzz_byte(&in);
        struct outcome whole, other;
        struct buf text;
        bool some;

        if (!set)
                set = spelt_set();
        HOLDS(set);
        buf_init(&text, 0);
        some = fill(&text, in, token, how);
        run(set, buf_slice(&text), 0, &whole);
        HOLDS(whole.found || !some);
        for (int k = FIND_PORTABLE; k < FIND_KERNEL_COUNT; k++) {
                if (!find_kernel_use((enum find_kernel)k))
                        continue;
                run(set, buf_slice(&text), k == FIND_PORTABLE ? cuts : 0, &other);
                HOLDS(whole.found == other.found && whole.at == other.at && whole.n == other.n && whole.number == other.number &&
                      whole.view == other.view);
        }
        find_kernel_use(FIND_AUTO);
        run(set, buf_slice(&text), (uint8_t)(cuts + 1), &other);
        HOLDS(whole.found == other.found && whole.at == other.at && whole.n == other.n && whole.number == other.number && whole.view == other.view);
        buf_fini(&text);
        return 0;
}
