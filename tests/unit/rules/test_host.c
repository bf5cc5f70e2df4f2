/* Canonical host names: one spelling, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/host.h"

#define LABEL63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

static const struct {
        const char *in, *out; /* NULL: refused */
        int kind;
} cases[] = {
        { "example.org", "example.org", HOST_NAME },
        { "EXAMPLE.Org.", "example.org", HOST_NAME },
        { "a_b.example", "a_b.example", HOST_NAME },
        { "bücher.example", "xn--bcher-kva.example", HOST_NAME },
        { "BÜCHER.example.", "xn--bcher-kva.example", HOST_NAME },
        { "xn--bcher-kva.example", "xn--bcher-kva.example", HOST_NAME },
        { "XN--BCHER-KVA.example", "xn--bcher-kva.example", HOST_NAME },
        { "straße.example", "xn--strae-oqa.example", HOST_NAME },
        { "ex。ample", "ex.ample", HOST_NAME },
        { LABEL63 ".example", LABEL63 ".example", HOST_NAME },
        { "0x.example", "0x.example", HOST_NAME },
        { "1.2.3.4a", "1.2.3.4a", HOST_NAME },
        { "127.0.0.1", "127.0.0.1", HOST_ADDR },
        { "127.0.0.1.", "127.0.0.1", HOST_ADDR },
        { "[FD00:0::1]", "[fd00::1]", HOST_ADDR },
        { "[::ffff:10.0.0.1]", "10.0.0.1", HOST_ADDR },
        { "１２７.0.0.1", "127.0.0.1", HOST_ADDR },
        { "", NULL, 0 },
        { ".", NULL, 0 },
        { "a..b", NULL, 0 },
        { "example.org..", NULL, 0 },
        { ".example", NULL, 0 },
        { "-a.example", NULL, 0 },
        { "2130706433", NULL, 0 },
        { "0x7f.1", NULL, 0 },
        { "0x7f000001", NULL, 0 },
        { "0177.0.0.1", NULL, 0 },
        { "127.1", NULL, 0 },
        { "127.0.0.1.1", NULL, 0 },
        { "a.0x", NULL, 0 },
        { "a.1", NULL, 0 },
        { "１２７.1", NULL, 0 },
        { "[127.0.0.1]", NULL, 0 },
        { "[fd00::1", NULL, 0 },
        { "[fd00::1]x", NULL, 0 },
        { "[fe80::1%25eth0]", NULL, 0 },
        { "fd00::1", NULL, 0 },
        { "a b", NULL, 0 },
        { "a\tb", NULL, 0 },
        { "a@b", NULL, 0 },
        { "a:80", NULL, 0 },
        { "a/b", NULL, 0 },
        { "a%2eb", NULL, 0 },
        { "*.example", NULL, 0 },
        { "a\\b", NULL, 0 },
        { "xn--\x80", NULL, 0 },
        { "xn--a", NULL, 0 },
        { "\xff\xfe.example", NULL, 0 },
        { "a\xe2\x80\x8b\xe2\x80\xae.example", NULL, 0 },
        { LABEL63 "x.example", NULL, 0 },
        { LABEL63 "." LABEL63 "." LABEL63 "." LABEL63, NULL, 0 },
};

static void test_cases(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char out[HOST_NAME_BYTES] = "untouched";
                int kind = host_canonical(out, sizeof(out), slice_str(cases[i].in));
                if (cases[i].out ? kind != cases[i].kind || strcmp(out, cases[i].out) != 0 : kind != -1 || strcmp(out, "untouched") != 0)
                        fail_msg("row %zu: %s gives %d %s", i, cases[i].in, kind, out);
        }
        assert_int_equal(host_canonical((char[4]){ 0 }, 4, SLICE_LIT("long.example")), -1);
        assert_int_equal(host_canonical((char[HOST_NAME_BYTES]){ 0 }, HOST_NAME_BYTES, slice_of("a\0b", 3)), -1);
}

static void test_relations(void **state)
{
        (void)state;
        assert_true(host_is_under(SLICE_LIT("a.b.example"), SLICE_LIT("b.example")));
        assert_true(host_is_under(SLICE_LIT("b.example"), SLICE_LIT("b.example")));
        assert_false(host_is_under(SLICE_LIT("ab.example"), SLICE_LIT("b.example")));
        assert_true(host_is_canonical(SLICE_LIT("a.example")));
        assert_false(host_is_canonical(SLICE_LIT("A.example")));
        assert_false(host_is_canonical(SLICE_LIT("a.example.")));
        assert_false(host_is_canonical(SLICE_LIT("10.0.0.1")));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases), cmocka_unit_test(test_relations) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
