/* URLs of a mirror: the same result for every cut, nothing else changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "outer/rewrite.h"

static struct arena arena;
static const struct authority mirror = { .name = { (const uint8_t *)"mirror.example", 14 }, .port = 443 }, odd = { .name = { (const uint8_t *)"mirror.example", 14 }, .port = 8443 },
                              registry = { .name = { (const uint8_t *)"registry.example", 16 }, .port = 443 };

static void begin(struct rewrite *r, const struct authority *from, const char *base)
{
        arena_init(&arena, 0);
        assert_int_equal(rewrite_init(r, &arena, from, slice_str(base), &registry, SCHEME_HTTPS), 0);
}

static void end(struct rewrite *r)
{
        rewrite_fini(r);
        arena_fini(&arena);
}

/* Cut at every place, and into single bytes. */
static void gives(const struct authority *from, const char *base, const char *in, const char *want)
{
        size_t n = strlen(in);

        for (size_t cut = 0; cut <= n + 1; cut++) {
                struct rewrite r;
                struct buf out;

                begin(&r, from, base);
                buf_init(&out, 0);
                for (size_t i = 0; cut > n && i < n; i++)
                        assert_int_equal(rewrite_feed(&r, slice_of(in + i, 1), false, &out), 0);
                if (cut <= n) {
                        assert_int_equal(rewrite_feed(&r, slice_of(in, cut), false, &out), 0);
                        assert_int_equal(rewrite_feed(&r, slice_of(in + cut, n - cut), false, &out), 0);
                }
                assert_int_equal(rewrite_feed(&r, SLICE_EMPTY, true, &out), 0);
                assert_int_equal(buf_len(&out), strlen(want));
                assert_memory_equal(buf_slice(&out).p, want, strlen(want));
                buf_fini(&out);
                end(&r);
        }
}

static void bodies(void **state)
{
        (void)state;
        gives(&mirror, "/api/npm/", "", "");
        gives(&mirror, "/api/npm/", "{\"tarball\":\"https://mirror.example/api/npm/x/-/x-1.tgz\"}", "{\"tarball\":\"https://registry.example/x/-/x-1.tgz\"}");
        gives(&mirror, "/api/npm/", "https:\\/\\/mirror.example\\/api\\/npm\\/x", "https:\\/\\/registry.example\\/x");
        gives(&mirror, "/api/npm/", "HTTPS://Mirror.Example:443/api/npm/x", "https://registry.example/x");
        gives(&mirror, "/api/npm/", "hhttps://mirror.example/api/npm/https://mirror.example/api/npm/", "hhttps://registry.example/https://registry.example/");
        gives(&mirror, "/api/npm/", "http://mirror.example/api/npm/ https://mirror.example:8443/api/npm/ https://mirror.example.evil/api/npm/ https://mirror.example/API/npm/ https://mirror.example/api/np",
              "http://mirror.example/api/npm/ https://mirror.example:8443/api/npm/ https://mirror.example.evil/api/npm/ https://mirror.example/API/npm/ https://mirror.example/api/np");
        gives(&odd, "/", "https://mirror.example:8443/x https://mirror.example/y https:\\/\\/mirror.example:8443\\/z https://mirror.example:84430/",
              "https://registry.example/x https://mirror.example/y https:\\/\\/registry.example\\/z https://mirror.example:84430/");
        gives(&mirror, "/", "https://mirror.example", "https://mirror.example");
}

static void field(const char *in, const char *want)
{
        struct rewrite r;
        struct buf out;

        begin(&r, &mirror, "/api/npm/");
        buf_init(&out, 0);
        assert_int_equal(rewrite_field(&r, slice_str(in), &out), want != NULL);
        if (want) {
                assert_int_equal(buf_len(&out), strlen(want));
                assert_memory_equal(buf_slice(&out).p, want, strlen(want));
        }
        buf_fini(&out);
        end(&r);
}

static void fields(void **state)
{
        (void)state;
        field("https://mirror.example/api/npm/x", "https://registry.example/x");
        field("/api/npm/x", "/x");
        field("<https://mirror.example/api/npm/a>; rel=next, </api/npm/b>; rel=prev", "<https://registry.example/a>; rel=next, </b>; rel=prev");
        field("/other", NULL);
        field("x/api/npm/", NULL);
        field("https://elsewhere.example/api/npm/x", NULL);
        field("", NULL);
}

/* A long run that looks like a beginning again and again is passed on whole. */
static void long_runs(void **state)
{
        struct rewrite r;
        struct buf in, out;

        (void)state;
        begin(&r, &mirror, "/api/npm/");
        buf_init(&in, 0);
        buf_init(&out, 0);
        for (int i = 0; i < 10000; i++)
                assert_int_equal(buf_add_str(&in, i % 100 ? "https://mirror.example/api/np" : "https://mirror.example/api/npm/"), 0);
        for (size_t at = 0; at < buf_len(&in); at += 777)
                assert_int_equal(rewrite_feed(&r, slice_first(slice_skip(buf_slice(&in), at), 777), false, &out), 0);
        assert_int_equal(rewrite_feed(&r, SLICE_EMPTY, true, &out), 0);
        assert_int_equal(r.found, 100);
        assert_int_equal(buf_len(&out), buf_len(&in) - 100 * (strlen("https://mirror.example/api/npm/") - strlen("https://registry.example/")));
        buf_fini(&in);
        buf_fini(&out);
        end(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(bodies), cmocka_unit_test(fields), cmocka_unit_test(long_runs) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
