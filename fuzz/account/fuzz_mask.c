/* Re-masking: the same for every cut and kernel; no secret is left plainly in it; a text in which nothing was found stays byte for byte. The input: a
 * byte for the cuts, one for the secrets, how long a secret of the input's own is and that secret, then the text, in which the bytes 1 to 12 stand
 * for a secret in a spelling of scan_test.h. */
#include "account/find.h"
#include "account/mask.h"
#include "hold.h"
#include "scan_test.h"

static void run(struct mask *m, struct slice text, uint8_t cuts, struct buf *out, uint64_t *found)
{
        struct mask_stream s;
        size_t at = 0;
        uint32_t x = cuts * 2654435761u + 1;

        mask_begin(&s, m);
        do {
                size_t n;
                uint8_t *piece;
                x = x * 1664525u + 1013904223u;
                n = cuts == 0 ? text.n : x >> 16 & (cuts & 1 ? 3 : 63);
                n = n < text.n - at ? n : text.n - at;
                piece = malloc(n ? n : 1);
                HOLDS(piece);
                if (n)
                        memcpy(piece, text.p + at, n);
                at += n;
                HOLDS(mask_feed(&s, slice_of(piece, n), at == text.n, out) == 0);
                free(piece);
        } while (at < text.n);
        HOLDS(buf_len(&s.keep) == 0);
        *found = s.found;
        mask_end(&s);
}

static bool stands_in(struct slice text, struct slice what) { return what.n && text.n >= what.n && memmem(text.p, text.n, what.p, what.n); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), own;
        uint8_t cuts = fuzz_byte(&in), how = fuzz_byte(&in);
        struct slice secrets[3] = { SLICE_LIT("ghp_Real/Secret+0123456789"), SLICE_LIT("pass\\n%41\nword"), SLICE_EMPTY };
        struct mask *m = mask_new();
        struct buf text, whole, other;
        uint64_t found, again;
        size_t count = 2;

        own = fuzz_take(&in, fuzz_byte(&in));
        HOLDS(m && mask_add(m, secrets[0], SLICE_LIT("<one>")) == 0 && mask_add(m, secrets[1], SLICE_LIT("<two>")) == 0);
        if (own.n >= MASK_SECRET_BYTES_MIN) {
                HOLDS(mask_add(m, own, SLICE_LIT("<own>")) == 0);
                secrets[count++] = own;
        }
        buf_init(&text, 0);
        buf_init(&whole, 0);
        buf_init(&other, 0);
        for (size_t i = 0; i < in.n && buf_len(&text) < 8192; i++) {
                if (in.p[i] >= 1 && in.p[i] <= 12)
                        spell(&spelling_rows[in.p[i] - 1], &text, secrets[how % count],
                              (struct spelling_how){ .which = how * 0x01010101u, .line = how >> 3, .between = "\n" });
                else
                        HOLDS(buf_add(&text, &in.p[i], 1) == 0);
        }
        run(m, buf_slice(&text), 0, &whole, &found);
        HOLDS(found || slice_eq(buf_slice(&text), buf_slice(&whole)));
        for (int k = FIND_AUTO; k < FIND_KERNEL_COUNT; k++) {
                if (!find_kernel_use((enum find_kernel)k))
                        continue;
                buf_clear(&other);
                run(m, buf_slice(&text), (uint8_t)(cuts + k), &other, &again);
                HOLDS(found == again && slice_eq(buf_slice(&whole), buf_slice(&other)));
        }
        find_kernel_use(FIND_AUTO);
        /* What was put in its place can make a new occurrence with what stands around it; where nothing of the kind stands, there is none. */
        if (count == 2 && !stands_in(buf_slice(&text), SLICE_LIT("<")))
                for (size_t i = 0; i < count; i++)
                        HOLDS(!stands_in(buf_slice(&whole), secrets[i]));
        mask_free(m);
        buf_fini(&text);
        buf_fini(&whole);
        buf_fini(&other);
        return 0;
}
