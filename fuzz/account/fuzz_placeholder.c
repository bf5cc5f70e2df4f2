/* Placeholders and Basic credentials on any bytes: what is minted is known, what is known has a core, what decodes is what would have been encoded. */
#include "account/basic.h"
#include "accounts.h"

static void mint(struct slice in)
{
        enum account_kind kind = (enum account_kind)(fuzz_byte(&in) % ACCOUNT_KIND_COUNT);
        uint8_t random[PLACEHOLDER_RANDOM_BYTES] = { 0 };
        struct slice bytes = fuzz_take(&in, sizeof(random));
        char out[PLACEHOLDER_BYTES_MAX + 1];
        size_t n;

        if (bytes.n)
                memcpy(random, bytes.p, bytes.n);
        n = placeholder_mint(kind, random, out);
        HOLDS(n == strlen(out) && n == kind_row(kind)->shape_bytes && placeholder_ok(slice_of(out, n)));
}

static void know(struct slice in)
{
        struct slice core = placeholder_core(in);
        char preview[PLACEHOLDER_PREVIEW_BYTES];

        placeholder_preview(in, preview);
        HOLDS(memchr(preview, 0, sizeof(preview)) != NULL);
        HOLDS(placeholder_ok(in) == (core.n > 0));
        HOLDS(core.n == 0 || (core.n >= PLACEHOLDER_CORE_BYTES_MIN && core.p >= in.p && core.p + core.n <= in.p + in.n && memcmp(core.p, "brm", 3) == 0));
}

static void basic(struct slice in)
{
        uint8_t store[BASIC_BYTES_MAX];
        char again[BASIC_BYTES_MAX + 4];
        struct slice user, password;
        size_t n;

        if (in.n > BASIC_BYTES_MAX)
                return;
        if (base64_decode(in, store, &n))
                HOLDS(slice_eq(slice_of(again, base64_encode(slice_of(store, n), again)), in));
        if (basic_decode(in, store, &user, &password))
                HOLDS(slice_find(user, ':') < 0 && user.n + 1 + password.n <= in.n / 4 * 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);

        mint(in);
        know(in);
        basic(in);
        return 0;
}
