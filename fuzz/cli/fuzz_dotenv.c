/* .env files. Properties: it ends; names are names; values lie in the text, one behind the other, and never grow; what a line holds is found again when the file is
 * written plainly. */
#include "cli/dotenv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(c) do { if (!(c)) abort(); } while (0)

static void again(struct slice name, struct slice value)
{
        struct slice n, v;
        struct dotenv d = { 0 };
        uint8_t *text;

        /* Single quotes take everything but themselves. */
        if (slice_find(value, '\'') >= 0)
                return;
        text = malloc(name.n + value.n + 4);
        HOLDS(text);
        memcpy(text, name.p, name.n);
        memcpy(text + name.n, "='", 2);
        if (value.n)
                memcpy(text + name.n + 2, value.p, value.n);
        text[name.n + 2 + value.n] = '\'';
        d.p = text;
        d.n = name.n + value.n + 3;
        HOLDS(dotenv_next(&d, &n, &v) == DOTENV_VARIABLE && slice_eq(n, name) && slice_eq(v, value) && dotenv_next(&d, &n, &v) == DOTENV_END);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice name, value;
        enum dotenv_status status;
        struct dotenv d = { .n = size };
        size_t at = 0;
        unsigned line = 0;

        d.p = malloc(size + 1);
        HOLDS(d.p);
        memcpy(d.p, data, size);
        while ((status = dotenv_next(&d, &name, &value)) != DOTENV_END) {
                HOLDS(d.at > at && d.at <= size && d.line > line);
                at = d.at;
                line = d.line;
                if (status == DOTENV_BROKEN)
                        continue;
                HOLDS(name.n && name.p >= d.p && value.p >= name.p + name.n && value.p + value.n <= d.p + size);
                for (size_t i = 0; i < name.n; i++)
                        HOLDS(name.p[i] == '_' || (name.p[i] >= '0' && name.p[i] <= '9') || ((name.p[i] | 32) >= 'a' && (name.p[i] | 32) <= 'z'));
                if (!slice_is(name, "export"))
                        again(name, value);
        }
        free(d.p);
        return 0;
}
