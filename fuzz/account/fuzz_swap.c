/* Substitution in a stream: the same result however the bytes are cut, and the one that a plain search gives.
 *
 * Input: flags, the length of the placeholder, the placeholder, then the text. */
#include "account/check.h"
#include "account/swap.h"
#include "accounts.h"

enum { ALL_CUTS = 48 };

static const struct slice secret = { (const uint8_t *)"s\"e\\c\n", 6 };

static int feed(struct swap_stream *s, struct slice in, bool last, struct buf *out)
{
        uint8_t *copy = malloc(in.n ? in.n : 1);
        int rc;

        HOLDS(copy != NULL);
        if (in.n)
                memcpy(copy, in.p, in.n);
        rc = swap_feed(s, slice_of(copy, in.n), last, out);
        free(copy);
        return rc;
}

static int cut(const struct binding *b, bool json, struct slice text, size_t i, size_t k, struct buf *out)
{
        struct swap_stream s;
        int rc;

        swap_begin(&s, b, secret, json);
        rc = feed(&s, slice_first(text, i), false, out);
        if (rc == ACCOUNT_OK)
                rc = feed(&s, slice_of(text.p + i, k - i), false, out);
        return rc == ACCOUNT_OK ? feed(&s, slice_skip(text, k), true, out) : rc;
}

/* What it is to be: the first occurrence replaced, ACCOUNT_TWICE with another behind it. */
static int plain(struct slice x, bool json, struct slice text, struct buf *out)
{
        struct slice with = json ? SLICE_LIT("s\\\"e\\\\c\\u000a") : secret;
        bool done = false;

        for (size_t i = 0; i < text.n;) {
                if (x.n && slice_starts(slice_skip(text, i), x)) {
                        if (done)
                                return ACCOUNT_TWICE;
                        done = true;
                        HOLDS(buf_add_slice(out, with) == 0);
                        i += x.n;
                } else {
                        HOLDS(buf_add(out, &text.p[i++], 1) == 0);
                }
        }
        return ACCOUNT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), text;
        struct fuzz_binding f;
        struct buf want, got;
        bool json = fuzz_byte(&in) & 1;
        int rc;

        fuzz_bind(&f, ACCOUNT_BEARER);
        f.b.placeholder = fuzz_take(&in, fuzz_byte(&in) % 161);
        text = in;
        if (text.n > 4096)
                return 0;
        buf_init(&want, 0);
        buf_init(&got, 0);
        rc = plain(f.b.placeholder, json, text, &want);
        for (size_t i = 0; i <= text.n; i++)
                for (size_t k = i; k <= text.n; k += text.n <= ALL_CUTS ? 1 : text.n / 3 + 1) {
                        if (text.n > ALL_CUTS && i % (text.n / ALL_CUTS + 1))
                                continue;
                        buf_clear(&got);
                        HOLDS(cut(&f.b, json, text, i, k, &got) == rc);
                        HOLDS(rc != ACCOUNT_OK || slice_eq(buf_slice(&got), buf_slice(&want)));
                }
        buf_fini(&want);
        buf_fini(&got);
        return 0;
}
