/* Escaping: no byte of a guest reaches a terminal as anything but itself, printable. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/esc.h"

#include <stdlib.h>

static void test_rows(void **state)
{
        static const struct { const char *in, *out; } rows[] = {
                { "plain text 123 ~", "plain text 123 ~" },
                { "\x1b[31mred", "\\x1b[31mred" },
                { "a\nb\tc\r", "a\\x0ab\\x09c\\x0d" },
                { "back\\slash", "back\\x5cslash" },
                { "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
                { "\xe2\x80\xae" "evil", "\\u{202e}evil" },      /* right-to-left override */
                { "a\xe2\x80\x8b" "b", "a\\u{200b}b" },          /* zero width space */
                { "\xf3\xa0\x81\x81", "\\u{e0041}" },            /* tag letter */
                { "\xc2\x9b" "31m", "\\u{9b}31m" },              /* C1 control sequence introducer */
                { "\xc0\xaf", "\\xc0\\xaf" },                    /* overlong */
                { "\xed\xa0\x80", "\\xed\\xa0\\x80" },           /* surrogate */
                { "\xff\xfe", "\\xff\\xfe" },
                { "\xe2\x82", "\\xe2\\x82" },                    /* cut short */
                { "\x7f", "\\x7f" },
        };
        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_string_equal(esc_str(rows[i].in), rows[i].out);
}

static void test_any_bytes_any_size(void **state)
{
        (void)state;
        srandom(3);
        for (int i = 0; i < 20000; i++) {
                uint8_t in[64];
                char out[40];
                size_t n = (size_t)random() % sizeof(in), size = 8 + (size_t)random() % (sizeof(out) - 8);
                for (size_t k = 0; k < n; k++)
                        in[k] = (uint8_t)random();
                esc_text(out, size, slice_of(in, n));
                assert_true(strlen(out) < size);
                for (const char *p = out; *p; p++)
                        assert_true((uint8_t)*p >= 0x20 && *p != 0x7f);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_any_bytes_any_size) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
