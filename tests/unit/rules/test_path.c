/* Path patterns: cases, agreement with a backtracking matcher, and no pattern that makes the matcher slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "naive.h"
#include "rules/rules_priv.h"

static void test_cases(void **state)
{
        static const struct {
                const char *pattern, *path;
                bool sure, maybe;
        } cases[] = {
                { "/a", "/a", true, true },
                { "/a", "/a/", false, false },
                { "/a/*", "/a/b", true, true },
                { "/a/*", "/a/", true, true },
                { "/a/*", "/a", false, false },
                { "/a/*", "/a/b/c", false, false },
                { "/a/**", "/a/b/c", true, true },
                { "/a/**", "/a/", true, true },
                { "/a/**", "/a", false, false },
                { "/**", "/", true, true },
                { "/*/c", "/a/b/c", false, false },
                { "/**/c", "/a/b/c", true, true },
                { "/**/c", "/c", false, false },
                { "/v*/x", "/v12/x", true, true },
                { "/*.tgz", "/a/b.tgz", false, false },
                { "/**.tgz", "/a/b.tgz", true, true },
                { "/a/*", "/a/b%2Fc", false, true },
                { "/a/*", "/a/b%5cc", false, true },
                { "/a/*", "/a/b%2Gc", true, true },
                { "/a/**", "/a/b%2Fc", true, true },
                { "/@s%2Fn", "/@s%2Fn", true, true },
                { "/*a**b*", "/xa/y/b", true, true },
                { "/**a*b", "/aab/ab", true, true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct slice pattern = slice_str(cases[i].pattern), path = slice_str(cases[i].path);
                if (path_match(pattern, path, true) != cases[i].sure || path_match(pattern, path, false) != cases[i].maybe)
                        fail_msg("row %zu: %s %s", i, cases[i].pattern, cases[i].path);
        }
}

/* Every pattern and path of up to five and six bytes over small alphabets. */
static void test_exhaustive(void **state)
{
        static const char alphabet[] = "*/a", letters[] = "/ab";
        char pattern[8] = "/", path[8] = "/";

        (void)state;
        for (unsigned i = 0; i < 243; i++)
                for (unsigned j = 0; j < 729; j++) {
                        size_t n = 1, m = 1;
                        for (unsigned k = i, d = 0; d < 5; d++, k /= 3)
                                pattern[n++] = alphabet[k % 3];
                        for (unsigned k = j, d = 0; d < 6; d++, k /= 3)
                                path[m++] = letters[k % 3];
                        if (path_pattern_problem(slice_of(pattern, n)))
                                continue;
                        assert_int_equal(path_match(slice_of(pattern, n), slice_of(path, m), true), naive_glob(slice_of(pattern, n), slice_of(path, m), true));
                }
}

/* A backtracking matcher would need years; the processor time of ours is a fraction of a second even under a sanitizer. */
static void test_adversarial(void **state)
{
        enum { PATH = 64 * 1024 };
        static char path[PATH];
        const char *patterns[] = { "/*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*ab", "/**a**a**a**a**a**a**a**a**a**a**a**a**a**a**a**a**a**a**a**b", "/**a*a**a*a**a*a**a*a**ab" };
        clock_t start = clock();

        (void)state;
        memset(path, 'a', PATH);
        path[0] = '/';
        for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
                assert_null(path_pattern_problem(slice_str(patterns[i])));
                assert_false(path_match(slice_str(patterns[i]), slice_of(path, PATH), true));
        }
        assert_true((clock() - start) / CLOCKS_PER_SEC < 60);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases), cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_adversarial) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
