/* Challenges of any bytes: what is learnt from one is a canonical place, and a request to that place is known again. URLs and text of any bytes besides. */
#include "account/check.h"
#include "account/tokenserver.h"
#include "accounts.h"

static void asked_again(struct arena *a, const struct realms *r, const struct realm *realm)
{
        struct request req = { .method = SLICE_LIT("GET"), .scheme = SCHEME_HTTPS };

        HOLDS(realm->path[0] == '/' && memchr(realm->authority, 0, sizeof(realm->authority)) && memchr(realm->path, 0, sizeof(realm->path)));
        HOLDS(authority_parse(a, slice_str(realm->authority), SCHEME_HTTPS, &req.authority) == WIRE_OK);
        req.target.path = slice_str(realm->path);
        HOLDS(tokenserver_asked(r, &req));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct realms r = { .n = 0 };
        struct slice in = slice_of(data, n);
        struct arena a;

        realms_learn(&r, in);
        arena_init(&a, 0);
        for (size_t i = 0; i < r.n && i < REALMS_MAX; i++)
                asked_again(&a, &r, &r.at[i]);
        arena_fini(&a);
        if (tokenserver_url_has_key(in))
                HOLDS(slice_find(in, '?') >= 0 || slice_find(in, '#') >= 0);
        if (tokenserver_suspects(in))
                HOLDS(slice_find(in, '"') >= 0);
        HOLDS(!tokenserver_member(in) || account_is_query(in));
        return 0;
}
