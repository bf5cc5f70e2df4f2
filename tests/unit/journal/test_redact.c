/* Redaction: what must go, what must stay, and that twice is once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/redact.h"

static const struct { const char *in, *out; } cases[] = {
        /* stays */
        { "/", "/" },
        { "", "" },
        { "/v1/messages", "/v1/messages" },
        { "/npm/@scope%2fname/-/name-1.2.3.tgz", "/npm/@scope%2fname/-/name-1.2.3.tgz" },
        { "/acme/a-rather-long-repository-name/pulls", "/acme/a-rather-long-repository-name/pulls" },
        { "/internationalization-and-localization", "/internationalization-and-localization" },
        { "/-/npm/v1/security/advisories/bulk", "/-/npm/v1/security/advisories/bulk" },
        { "/debian/pool/main/l/linux/linux-image-6.1.0-18-amd64_6.1.76-1_amd64.deb", "/debian/pool/main/l/linux/linux-image-6.1.0-18-amd64_6.1.76-1_amd64.deb" },
        { "/git/info/refs?service", "/git/info/refs?service" },
        { "//a//b", "//a//b" },
        /* queries */
        { "/a?x=1&y=2", "/a?x=…&y=…" },
        { "/a?x=&y", "/a?x=&y" },
        { "/a?x=1=2&&=3", "/a?x=…&&=…" },
        { "/a?b?c=d", "/a?b?c=…" },
        { "/a?sk-proj-abcdef1234567890", "/a?sk-p…" },
        { "/a?x=1#frag", "/a?x=…#…" },
        /* segments */
        { "/d41d8cd98f00b204e9800998ecf8427e/x", "/d41d…/x" },
        { "/x/550e8400-e29b-41d4-a716-446655440000", "/x/550e…" },
        { "/hook/T02AB3CD4/B05EF6GH7/aB3dE5fG7hJ9kL1mN3pQ5rS7", "/hook/T02AB3CD4/B05EF6GH7/aB3d…" },
        { "/bot/ghp_abcdefgh12345678", "/bot/ghp_…" },
        { "/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln", "/eyJh…" },
        { "/AKIAIOSFODNN7EXAMPLE", "/AKIA…" },
        { "/d41d8cd98f00b204e980%30998ecf8427e", "/d41d…" },
};

static void table(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct buf once, twice;
                buf_init(&once, 0);
                buf_init(&twice, 0);
                assert_int_equal(redact_path(&once, slice_str(cases[i].in)), 0);
                if (!slice_is(buf_slice(&once), cases[i].out))
                        fail_msg("%s gave %.*s", cases[i].in, SLICE_FMT(buf_slice(&once)));
                assert_int_equal(redact_path(&twice, buf_slice(&once)), 0);
                assert_true(slice_eq(buf_slice(&once), buf_slice(&twice)));
                buf_fini(&once);
                buf_fini(&twice);
        }
}

/* No value of a query and no long random segment leaves more than its first four bytes. */
static void nothing_leaks(void **state)
{
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        uint32_t seed = 1;
        unsigned kept = 0;

        (void)state;
        for (int round = 0; round < 20000; round++) {
                char path[64] = "/x/";
                struct buf out;
                for (int i = 3; i < 43; i++) {
                        seed = seed * 1664525u + 1013904223u;
                        path[i] = alphabet[seed >> 26];
                }
                buf_init(&out, 0);
                assert_int_equal(redact_path(&out, slice_str(path)), 0);
                kept += buf_len(&out) > 12;
                buf_fini(&out);
        }
        assert_true(kept <= 2); /* random text that looks like words: one in ten thousand at the most */
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(table), cmocka_unit_test(nothing_leaks) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
