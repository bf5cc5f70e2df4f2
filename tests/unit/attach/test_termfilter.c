/* The terminal filter: what passes, what does not, wherever the input is cut, and what is put back at the end. */
#include "attach/termfilter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define E "\x1b"
static const struct {
        const char *in, *out;
} cases[] = {
        { "plain text\r\n\ttab\b\a", "plain text\r\n\ttab\b\a" },
        { "Gr\xc3\xbc\xc3\x9f" "e \xe2\x9c\x93 \xf0\x9f\x98\x80 \xc3\x9c \xe2\x80\x9c", "Gr\xc3\xbc\xc3\x9f" "e \xe2\x9c\x93 \xf0\x9f\x98\x80 \xc3\x9c \xe2\x80\x9c" }, /* 9b, 9c, 98 within UTF-8 */
        { "a\x05" "b\x7f" "c\x10", "abc" },
        /* colours, cursor, screen */
        { E "[1;31mred" E "[0m" E "[38:2::1:2:3m" E "[38;2;1;2;3m", E "[1;31mred" E "[0m" E "[38:2::1:2:3m" E "[38;2;1;2;3m" },
        { E "[H" E "[2J" E "[10;5H" E "[?25l" E "[4h" E "[2;10r", E "[H" E "[2J" E "[10;5H" E "[?25l" E "[4h" E "[2;10r" },
        { E "7" E "8" E "M" E "=" E ">" E "c" E "(0" E ")B" E "#8", E "7" E "8" E "M" E "=" E ">" E "c" E "(0" E ")B" E "#8" },
        { E "[2 q" E "[!p" E "[?1049h" E "[?2004h", E "[2 q" E "[!p" E "[?1049h" E "[?2004h" },
        { E "[?1000;3;1006;40h", E "[?1000;1006h" }, /* the known of a list */
        { E "[?3h" E "[?2048h" E "[2h" E "[?1000s", "" },
        /* questions that programs need */
        { E "[c" E "[0c" E "[>c" E "[5n" E "[6n" E "[?6n" E "[?2026$p" E "[?u", E "[c" E "[0c" E "[>c" E "[5n" E "[6n" E "[?6n" E "[?2026$p" E "[?u" },
        { E "[=c" E "[?15n" E "[?996n" E "[15n" E "[x" E "[>q" E "[1;1;1;1;1;1*y" E "[?1;1;0S" E "Z" E "[1$w" E "[1;2c", "" },
        { E "[>4;2m" E "[>1u" E "[<u" E "[=1u" E "[>0m", E "[>4;2m" E "[>1u" E "[<u" E "[=1u" },
        /* windows, titles, printing */
        { E "[21t" E "[18t" E "[14t" E "[8;10;10t" E "[2t" E "[5i" E "[?5i", "" },
        { E "[22;2t" E "[23;2t", E "[22;2t" E "[23;2t" },
        { E "]0;title\a" E "]2;title" E "\\", E "]0;title\a" E "]2;title" E "\\" },
        { E "]52;c;aGk=\a" E "]52;c;?" E "\\x", "x" },
        { E "]10;?\a" E "]11;?" E "\\" E "]4;1;?\a" E "]7;file://x/\a" E "]9;hi\a" E "]777;notify;a;b\a" E "]1337;File=\a" E "]50;x\a" E "]133;A\a" E "]22;x\a", "" },
        { E "]8;;https://a.example/\alink" E "]8;;\a", E "]8;;https://a.example/\alink" E "]8;;\a" },
        { E "]8;id=1;HTTP://a.example/" E "\\x" E "]8;;" E "\\", E "]8;id=1;HTTP://a.example/" E "\\x" E "]8;;" E "\\" },
        { E "]8;;file:///etc/passwd\ax" E "]8;;ssh://-x\ay" E "]8;;\a", "xy" E "]8;;\a" },
        { E "]0;a\x01\n" "b\a", E "]0;ab\a" },
        { E "]0;cut" E "[31mred", E "[31mred" },
        { E "]0;cut\x18" "after", "after" },
        { E "]P1234567text" E "]Rtext", "texttext" },
        /* strings */
        { E "P$qm" E "\\x", "x" },
        { E "P+q544e\x9cx", "x" },
        { E "Pqsixel...\xc2\x9cx", "x" },
        { E "_apc" E "\\" E "^pm" E "\\" E "Xsos" E "\\" E "ktitle" E "\\x", "x" },
        { E "P with \a bell and " E "]52;c;AA\a" "x", "x" },
        /* C1 as bytes and as code points */
        { "\x9b" "31mred\x9b" "21t", E "[31mred" },
        { "\xc2\x9b" "31mred\xc2\x9b" "21t", E "[31mred" },
        { "\x9d" "52;c;AA\x9c" "x\x9d" "0;t\x9c", "x" E "]0;t" E "\\" },
        { "\x90" "$qm\x9cx\x85\x84\x8d", "x" E "E" E "D" E "M" },
        { "\xe0\x82\x9b" "21tx", "\xef\xbf\xbd" "x" }, /* an overlong CSI: E0 begins no character, 82 is a control that nobody needs, 9B begins a report */
        { "\xff\xc0\xaf\xed\xa0\x80" "x", NULL },
        { "\xe2\x9b" "A", "\xef\xbf\xbd" "A" },
        /* controls within sequences, restarts, nonsense */
        { E "[3\r1m", "\r" E "[31m" },
        { E "[3" E "[31m", E "[31m" },
        { E "[3\x18" "1m", "1m" },
        { E "[1?h" E "[1 2 q" E "[1;?2h" E "[<?1h" E "[$$p", "" },
        { E "[999999999999999999999A" E "[1;2;3;4;5;6;7;8;9T", "" },
        { E "%@" E "%G" E " F" E " G" E "6" E "l" E "n" E "$(B" E "(K", "" },
        { E "\xc3\xa9" "x", "\xc3\xa9x" },
};

static void filter(struct termfilter *f, struct slice in, size_t cut, struct buf *out)
{
        termfilter_init(f);
        for (size_t i = 0; i < in.n; i += cut)
                assert_int_equal(termfilter_push(f, slice_first(slice_skip(in, i), cut), out), 0);
}

static void the_table(void **state)
{
        (void)state;
        static struct termfilter f;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct slice in = slice_str(cases[i].in);
                struct buf whole;
                buf_init(&whole, 0);
                filter(&f, in, in.n, &whole);
                if (cases[i].out != NULL && !slice_is(buf_slice(&whole), cases[i].out))
                        fail_msg("case %zu: %.*s", i, (int)buf_len(&whole), (const char *)buf_slice(&whole).p);
                for (size_t cut = 1; cut < in.n; cut++) {
                        struct buf parts;
                        buf_init(&parts, 0);
                        filter(&f, in, cut, &parts);
                        if (!slice_eq(buf_slice(&parts), buf_slice(&whole)))
                                fail_msg("case %zu cut at %zu", i, cut);
                        buf_fini(&parts);
                }
                /* what has passed passes again as it is */
                struct buf again;
                buf_init(&again, 0);
                filter(&f, buf_slice(&whole), buf_len(&whole) + 1, &again);
                if (!slice_eq(buf_slice(&again), buf_slice(&whole)))
                        fail_msg("case %zu is not stable", i);
                buf_fini(&again);
                buf_fini(&whole);
        }
}

static void long_strings_are_dropped_and_end(void **state)
{
        (void)state;
        static struct termfilter f;
        struct buf in, out;
        buf_init(&in, 0);
        buf_init(&out, 0);
        assert_int_equal(buf_add_str(&in, E "]0;"), 0);
        for (int i = 0; i < TERMFILTER_OSC_BYTES; i++)
                assert_int_equal(buf_add(&in, "t", 1), 0);
        assert_int_equal(buf_add_str(&in, "\aafter"), 0);
        filter(&f, buf_slice(&in), buf_len(&in), &out);
        assert_true(slice_is(buf_slice(&out), "after"));
        buf_clear(&in);
        buf_clear(&out);
        assert_int_equal(buf_add_str(&in, E "P"), 0);
        for (int i = 0; i < TERMFILTER_DROP_BYTES + 2; i++)
                assert_int_equal(buf_add(&in, "q", 1), 0);
        filter(&f, buf_slice(&in), buf_len(&in), &out);
        assert_true(slice_is(buf_slice(&out), "q"));
        buf_fini(&in);
        buf_fini(&out);
}

static const char *left_on(const char *in)
{
        static struct termfilter f;
        static char text[512];
        struct buf out;
        buf_init(&out, 0);
        filter(&f, slice_str(in), 4096, &out);
        buf_clear(&out);
        assert_int_equal(termfilter_reset(&f, &out), 0);
        snprintf(text, sizeof(text), "%.*s", (int)buf_len(&out), (const char *)buf_slice(&out).p);
        assert_int_equal(termfilter_reset(&f, &out), 0);
        buf_fini(&out);
        return text;
}

static void modes_are_put_back(void **state)
{
        (void)state;
        assert_string_equal(left_on("text"), "");
        assert_string_equal(left_on(E "[?1049h" E "[?25l" E "[?1002;1006h"), E "[?1049l" E "[?1006l" E "[?1002l" E "[?25h");
        assert_string_equal(left_on(E "[?1049h" E "[?1049l" E "[?25l" E "[?25h" E "[?7l" E "[?7h"), "");
        assert_string_equal(left_on(E "[>1u" E "=" E "[4 q" E "[31m"), E "[<8u" E "[=0u" E ">" E "[0 q" E "[0m");
        assert_string_equal(left_on("\x0e" E "(0"), "\x0f" E "(B");
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(the_table), cmocka_unit_test(long_strings_are_dropped_and_end), cmocka_unit_test(modes_are_put_back) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
