/* Every name of the table in every disguise that a framework undoes, as a field and as a query key; and what is near but none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/override.h"

/* upper: 0 lower case, 1 upper case, 2 mixed. dash stands for each '_'. */
static struct slice spell(char *out, size_t cap, const char *name, unsigned upper, char dash)
{
        size_t n = 0;

        for (; name[n]; n++) {
                char c = name[n];

                assert_true(n + 1 < cap);
                if (c == '_')
                        c = dash;
                else if (c >= 'a' && c <= 'z' && (upper == 1 || (upper == 2 && n % 2)))
                        c = (char)(c - 32);
                out[n] = c;
        }
        out[n] = 0;
        return slice_of(out, n);
}

static void table_is_folded(void **state)
{
        size_t longest = 0;
        (void)state;

        for (size_t i = 0; i < override_row_count; i++) {
                const char *name = override_rows[i].name;

                longest = strlen(name) > longest ? strlen(name) : longest;
                assert_true(override_rows[i].places != 0);
                for (const char *p = name; *p; p++)
                        assert_true((*p >= 'a' && *p <= 'z') || *p == '_' || *p == '$');
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(name, override_rows[k].name);
                /* The quick way out of override_field lets every field of the table through. */
                assert_true(!(override_rows[i].places & OVERRIDE_FIELD) || strchr("xh", name[0]));
        }
        assert_int_equal(longest, OVERRIDE_NAME_BYTES);
}

static void fields(void **state)
{
        char text[64];
        (void)state;

        for (size_t i = 0; i < override_row_count; i++)
                for (unsigned upper = 0; upper < 3; upper++)
                        for (const char *dash = "-_"; *dash; dash++) {
                                struct slice name = spell(text, sizeof(text), override_rows[i].name, upper, *dash);

                                assert_int_equal(override_field(name), (override_rows[i].places & OVERRIDE_FIELD) != 0);
                                text[name.n] = 's';
                                assert_false(override_field(slice_of(text, name.n + 1)));
                        }
        assert_false(override_field(SLICE_EMPTY));
        assert_false(override_field(SLICE_LIT("x-http-methods")));
        assert_false(override_field(SLICE_LIT("x.http.method")));
        assert_false(override_field(SLICE_LIT("\0-http-method")));
        assert_false(override_field(SLICE_LIT("x-http-method-override-and-more")));
}

static bool asks(const char *before, const char *key, const char *after)
{
        char query[512];

        snprintf(query, sizeof(query), "%s%s%s", before, key, after);
        return override_query(slice_str(query));
}

/* key with the bytes whose bit is set in mask escaped. */
static void escape_some(char *out, size_t cap, const char *key, unsigned mask)
{
        size_t n = 0;

        for (size_t i = 0; key[i]; i++)
                n += (size_t)snprintf(out + n, cap - n, mask >> i % 8 & 1 ? (i % 2 ? "%%%02x" : "%%%02X") : "%c", (unsigned char)key[i]);
}

static void keys(void **state)
{
        char text[64], escaped[200];
        (void)state;

        for (size_t i = 0; i < override_row_count; i++)
                for (unsigned upper = 0; upper < 3; upper++)
                        for (const char *dash = "_-. +"; *dash; dash++) {
                                bool is = (override_rows[i].places & OVERRIDE_QUERY) != 0;
                                bool blank = *dash == ' ' || *dash == '+';

                                spell(text, sizeof(text), override_rows[i].name, upper, *dash);
                                if (blank && text[0] == *dash)
                                        continue; /* blanks in front are dropped: another name, which has a row or not */
                                assert_int_equal(asks("", text, "=PUT"), is);
                                assert_int_equal(asks("", text, ""), is);
                                assert_int_equal(asks("a=b&", text, "=PUT&c=d"), is);
                                assert_int_equal(asks("a=b;;&;", text, ";c"), is);
                                assert_int_equal(asks("", text, "=GET&x=1"), is); /* whatever the value: the key asks */
                                assert_int_equal(asks("", text, "[]=PUT"), is);
                                assert_int_equal(asks("", text, "%5B0%5D=PUT"), is);
                                assert_int_equal(asks("", text, "%00tail=PUT"), is);
                                assert_int_equal(asks("+%20", text, "=PUT"), is);
                                assert_false(asks("a=", text, ""));
                                assert_false(asks("a", text, "="));
                                assert_false(asks("", text, "s=PUT"));
                                for (unsigned mask = 1; mask < 256 && *dash != '+'; mask += 3) {
                                        escape_some(escaped, sizeof(escaped), text, mask);
                                        assert_int_equal(asks("", escaped, "=PUT"), is);
                                }
                        }
}

static void repeated_and_odd_keys(void **state)
{
        char longer[3 * OVERRIDE_NAME_BYTES + 200];
        (void)state;

        assert_true(override_query(SLICE_LIT("_method=GET&_method=DELETE")));
        assert_true(override_query(SLICE_LIT("method=GET&method=GET&_METHOD=DELETE")));
        assert_true(override_query(SLICE_LIT("_method[a][b]=DELETE")));
        assert_true(override_query(SLICE_LIT("_method[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]=DELETE")));
        assert_true(override_query(SLICE_LIT("_http[method=DELETE"))); /* PHP: no ']' follows, and the '[' becomes '_' */
        assert_true(override_query(SLICE_LIT("%5fm%65thod")));
        assert_true(override_query(SLICE_LIT("a%=1")));  /* malformed */
        assert_true(override_query(SLICE_LIT("a%4=1")));
        assert_true(override_query(SLICE_LIT("a%zz=1")));
        assert_false(override_query(SLICE_LIT("a=%zz")));
        assert_false(override_query(SLICE_EMPTY));
        assert_false(override_query(SLICE_LIT("&;&=;=x")));
        assert_false(override_query(SLICE_LIT("method=x&b=_method")));
        assert_false(override_query(SLICE_LIT("%255Fmethod=x"))); /* decoded twice by nobody who decodes a form */
        assert_false(override_query(SLICE_LIT("form[_method]=x")));
        assert_false(override_query(SLICE_LIT("a%00_method=x")));
        assert_false(override_query(SLICE_LIT("+++")));
        memset(longer, 'a', sizeof(longer));
        assert_false(override_query(slice_of(longer, sizeof(longer))));
        memcpy(longer + sizeof(longer) - 3, "%zz", 3); /* however long: the escape counts */
        assert_true(override_query(slice_of(longer, sizeof(longer))));
        memcpy(longer, "_method[", 8);
        memset(longer + sizeof(longer) - 3, 'a', 3);
        assert_true(override_query(slice_of(longer, sizeof(longer))));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(table_is_folded), cmocka_unit_test(fields), cmocka_unit_test(keys), cmocka_unit_test(repeated_and_odd_keys),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
