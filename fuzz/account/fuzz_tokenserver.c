/* Challenges of any bytes: what is learnt from one is a canonical place, and a request to that place is known again. URLs and text of any bytes besides. */
#include "account/check.h"
#include "account/tokenserver.h"
#include "accounts.h"
#include "base/buf.h"

static void asked_again(struct arena *a, const struct realms *r, const struct realm *realm)
{
        struct request req = { .method = SLICE_LIT("GET"), .scheme = SCHEME_HTTPS };

        HOLDS(realm->path[0] == '/' && memchr(realm->authority, 0, sizeof(realm->authority)) && memchr(realm->path, 0, sizeof(realm->path)));
        HOLDS(authority_parse(a, slice_str(realm->authority), SCHEME_HTTPS, &req.authority) == WIRE_OK);
        req.target.path = slice_str(realm->path);
        HOLDS(tokenserver_asked(r, &req));
}

/* The naive reading: a query may begin behind every "?" and "#". What it finds is found, whatever stands around it. */
static void url_is_read(struct slice url)
{
        static const char *const around[][2] = { { "https://a.example/?x=1#", "" }, { "/#", "?y" }, { "?", "#z=1" } };
        bool finds = false;

        for (size_t i = 0; i < url.n && i < 256; i++) {
                struct slice rest = slice_skip(url, i + 1), key, value;

                while ((url.p[i] == '?' || url.p[i] == '#') && query_next(&rest, &key, &value)) {
                        bool plain = slice_find(key, '#') < 0 && slice_find(key, '?') < 0 && value.n && value.p[0] != '#' && value.p[0] != '?';
                        finds = finds || (plain && account_is_query(key));
                }
        }
        HOLDS(!finds || tokenserver_url_has_key(url));
        for (size_t i = 0; finds && i < 3; i++) {
                struct buf b;

                buf_init(&b, 0);
                buf_add_str(&b, around[i][0]);
                buf_add_slice(&b, url);
                buf_add_str(&b, around[i][1]);
                HOLDS(tokenserver_url_has_key(buf_slice(&b)));
                buf_fini(&b);
        }
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
        url_is_read(in);
        if (tokenserver_url_has_key(in))
                HOLDS(slice_find(in, '?') >= 0 || slice_find(in, '#') >= 0);
        if (tokenserver_suspects(in))
                HOLDS(slice_find(in, '"') >= 0);
        HOLDS(!tokenserver_member(in) || account_is_query(in));
        return 0;
}
