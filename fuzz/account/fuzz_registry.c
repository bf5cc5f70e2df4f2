/* Token answers of any bytes: what is written is an object that holds placeholders and none of the tokens; what is not understood writes nothing. */
#include "account/registry.h"
#include "accounts.h"

#include <jansson.h>

static void holds_no_token(struct slice text, const struct minted *minted, int n)
{
        static const char *const names[] = { "token", "access_token", "refresh_token" };
        json_t *o = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES, NULL), *v;
        const char *name;

        HOLDS(json_is_object(o));
        for (size_t i = 0; i < 3; i++) {
                v = json_object_get(o, names[i]);
                HOLDS(!v || placeholder_ok(slice_of(json_string_value(v), json_string_length(v))));
        }
        json_object_foreach(o, name, v)
                for (int i = 0; json_is_string(v) && i < n; i++)
                        HOLDS(memmem(json_string_value(v), json_string_length(v), minted[i].secret.p, minted[i].secret.n) == NULL);
        json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static uint8_t randoms[3][PLACEHOLDER_RANDOM_BYTES];
        struct minted minted[3];
        struct buf store, out;
        int made;

        for (size_t i = 0; i < 3; i++)
                memset(randoms[i], (int)(i * 50 + 7), sizeof(randoms[i]));
        buf_init(&store, 0);
        buf_init(&out, 0);
        buf_add_str(&out, "before");
        made = registry_remint(slice_of(data, n), randoms, 3, minted, &store, &out);
        HOLDS(made == -1 || (made >= 1 && made <= 3));
        HOLDS(slice_starts(buf_slice(&out), SLICE_LIT("before")));
        if (made > 0)
                holds_no_token(slice_skip(buf_slice(&out), 6), minted, made);
        else
                HOLDS(buf_len(&out) == 6);
        buf_fini(&store);
        buf_fini(&out);
        return 0;
}
