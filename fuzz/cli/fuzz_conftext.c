/* The text of a configuration, changed. Properties: a block that is added is found; taking it out leaves what was there; of a text that parses, what is taken
 * out is that block alone. */
#include "cli/conftext.h"
#include "rules/config.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(c) do { if (!(c)) abort(); } while (0)
#define BLOCK "credential added {\n        kind bearer # }\n        secret command \"printf }\\\"{\"\n        for { added.example }\n}\n"

static struct config *parse(struct slice text)
{
        static struct diags errors;

        errors = (struct diags){ 0 };
        return config_parse(text, "x", &errors);
}

static struct slice without(struct slice text, size_t at, size_t n, struct buf *out)
{
        HOLDS(at <= text.n && n <= text.n - at);
        HOLDS(buf_add_slice(out, slice_first(text, at)) == 0 && buf_add_slice(out, slice_skip(text, at + n)) == 0);
        return buf_slice(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice text = slice_of(data, size);
        struct config *before = size < 65536 ? parse(text) : NULL, *after;
        struct buf longer, shorter;
        size_t at, n, credentials;
        bool known;

        (void)!conftext_find(text, "credential", "a", &at, &n); /* whatever it is, it ends, within bounds */
        if (!before)
                return 0;
        credentials = config_credential_count(before);
        known = config_credential(before, SLICE_LIT("added"));
        config_free(before);
        buf_init(&longer, 0);
        buf_init(&shorter, 0);
        HOLDS(conftext_append(text, SLICE_LIT(BLOCK), &longer) == 0);
        after = known ? NULL : parse(buf_slice(&longer));
        if (after) {
                HOLDS(config_credential_count(after) == credentials + 1);
                config_free(after);
                HOLDS(conftext_find(buf_slice(&longer), "credential", "added", &at, &n));
                after = parse(without(buf_slice(&longer), at, n, &shorter));
                HOLDS(after && config_credential_count(after) == credentials && !config_credential(after, SLICE_LIT("added")));
                HOLDS(buf_len(&shorter) >= text.n && slice_eq(slice_first(buf_slice(&shorter), text.n), text));
                config_free(after);
        }
        buf_fini(&longer);
        buf_fini(&shorter);
        return 0;
}
