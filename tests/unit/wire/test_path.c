/* Canonical paths and queries: one spelling or refused, and canonical of canonical is itself. Byte classes against the grammar. */
#include "wire/path.h"
#include "wire/wire_priv.h"
#include "wire_test.h"

struct row {
        const char *raw, *path, *query; /* path NULL: refused for `why`; query NULL: no "?" */
        enum wire_reason why;
};
static const struct row rows[] = {
        { "/", "/", NULL, 0 },
        { "/a/b/", "/a/b/", NULL, 0 },
        { "/%61%2d%2D%5f%7e", "/a--_~", NULL, 0 },
        { "/%40scope%2fname", "/@scope%2Fname", NULL, 0 },
        { "/a%20b", "/a%20b", NULL, 0 },
        { "/caf%c3%a9", "/caf%C3%A9", NULL, 0 },
        { "/caf\xc3\xa9", "/caf%C3%A9", NULL, 0 },
        { "/a+b%2bc", "/a+b%2Bc", NULL, 0 },
        { "/%21x%3A%3d", "/!x:=", NULL, 0 },
        { "/{a}|\"<>^`[b]", "/%7Ba%7D%7C%22%3C%3E%5E%60%5Bb%5D", NULL, 0 },
        { "/a%3fb%23c", "/a%3Fb%23c", NULL, 0 },
        { "/a...b/.c/%20x", "/a...b/.c/%20x", NULL, 0 },
        { "/.a/a./..a", "/.a/a./..a", NULL, 0 },
        { "/100%25", "/100%25", NULL, 0 },
        { "/100%25g1", "/100%25g1", NULL, 0 },
        { "/a?", "/a", "", 0 },
        { "/a?b=c&d=%7e%2f%c3", "/a", "b=c&d=~%2F%C3", 0 },
        { "/a?q=../..//;x\\", "/a", "q=../..//;x\\", 0 },
        { "/a?b?c", "/a", "b?c", 0 },
        { "/a?%0a%00", "/a", "%0A%00", 0 },
        { "/a?\xc3\xa9", "/a", "%C3%A9", 0 },
        { "", NULL, NULL, WIRE_PATH_FORM },
        { "a", NULL, NULL, WIRE_PATH_FORM },
        { "?a", NULL, NULL, WIRE_PATH_FORM },
        { "/.", NULL, NULL, WIRE_PATH_DOT },
        { "/..", NULL, NULL, WIRE_PATH_DOT },
        { "/./a", NULL, NULL, WIRE_PATH_DOT },
        { "/a/../b", NULL, NULL, WIRE_PATH_DOT },
        { "/a/%2e%2e/b", NULL, NULL, WIRE_PATH_DOT },
        { "/a/.%2E", NULL, NULL, WIRE_PATH_DOT },
        { "/...", NULL, NULL, WIRE_PATH_DOT },
        { "/..%20/a", NULL, NULL, WIRE_PATH_DOT },
        { "/a/%20.%20", NULL, NULL, WIRE_PATH_DOT },
        { "/a%2f..", NULL, NULL, WIRE_PATH_DOT },
        { "/a%2f..%2Fb", NULL, NULL, WIRE_PATH_DOT },
        { "/..%2fb", NULL, NULL, WIRE_PATH_DOT },
        { "//", NULL, NULL, WIRE_PATH_EMPTY },
        { "//a", NULL, NULL, WIRE_PATH_EMPTY },
        { "/a//b", NULL, NULL, WIRE_PATH_EMPTY },
        { "/a/%2fb", NULL, NULL, WIRE_PATH_EMPTY },
        { "/a%2f/b", NULL, NULL, WIRE_PATH_EMPTY },
        { "/a%2f", NULL, NULL, WIRE_PATH_EMPTY },
        { "/%2f", NULL, NULL, WIRE_PATH_EMPTY },
        { "/a\\b", NULL, NULL, WIRE_PATH_BACKSLASH },
        { "/a%5cb", NULL, NULL, WIRE_PATH_BACKSLASH },
        { "/a%5Cb", NULL, NULL, WIRE_PATH_BACKSLASH },
        { "/a%00", NULL, NULL, WIRE_PATH_CONTROL },
        { "/a%0d%0ab", NULL, NULL, WIRE_PATH_CONTROL },
        { "/a%7f", NULL, NULL, WIRE_PATH_CONTROL },
        { "/a b", NULL, NULL, WIRE_PATH_CONTROL },
        { "/%", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/%4", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/%zz", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/%u002e", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/a?%", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/a?100%&b", NULL, NULL, WIRE_PATH_ESCAPE },
        { "/%c0%af", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%c0%ae%c0%ae/", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%e0%80%af", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%ff", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%c3", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%ed%a0%80", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%f4%90%80%80", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%c3/%a9", NULL, NULL, WIRE_PATH_UTF8 },
        { "/%252e%252e/", NULL, NULL, WIRE_PATH_DOUBLE },
        { "/%252f", NULL, NULL, WIRE_PATH_DOUBLE },
        { "/%25%32%65", NULL, NULL, WIRE_PATH_DOUBLE },
        { "/%25%32e", NULL, NULL, WIRE_PATH_DOUBLE },
        { "/%2525", NULL, NULL, WIRE_PATH_DOUBLE },
        { "/a;b", NULL, NULL, WIRE_PATH_PARAM },
        { "/a/..;/b", NULL, NULL, WIRE_PATH_PARAM },
        { "/a%3bb", NULL, NULL, WIRE_PATH_PARAM },
        { "/a#b", NULL, NULL, WIRE_PATH_FRAGMENT },
        { "/a?b#c", NULL, NULL, WIRE_PATH_FRAGMENT },
};

static void paths_have_one_spelling(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct path p = { 0 }, again;
                char text[256];

                assert_reason(path_canonical(*state, slice_str(rows[i].raw), &p), rows[i].why, rows[i].raw);
                if (!rows[i].path)
                        continue;
                assert_slice(p.path, rows[i].path);
                assert_int_equal(p.has_query, rows[i].query != NULL);
                assert_slice(p.query, rows[i].query ? rows[i].query : "");
                snprintf(text, sizeof(text), "%s%s%s", rows[i].path, rows[i].query ? "?" : "", rows[i].query ? rows[i].query : "");
                assert_int_equal(p.changed, strcmp(text, rows[i].raw) != 0);
                assert_reason(path_canonical(*state, slice_str(text), &again), WIRE_OK, text);
                assert_true(slice_eq(again.path, p.path) && slice_eq(again.query, p.query) && !again.changed);
        }
}

static void encoded_slash_has_a_second_reading(void **state)
{
        struct path p;

        assert_reason(path_canonical(*state, SLICE_LIT("/a/x%2fy%2Fz"), &p), WIRE_OK, "");
        assert_slice(p.path, "/a/x%2Fy%2Fz");
        assert_slice(p.slashed, "/a/x/y/z");
        assert_reason(path_canonical(*state, SLICE_LIT("/a/x"), &p), WIRE_OK, "");
        assert_int_equal(p.slashed.n, 0);
}

static void query_keys(void **state)
{
        struct slice q = SLICE_LIT("a=b&c&=d;e%2b=f=g&"), key, value;
        static const char *const keys[] = { "a", "c", "", "e%2b" }, *const values[] = { "b", "", "d", "f=g" };
        uint8_t out[16];
        size_t n = 0;
        (void)state;

        while (query_next(&q, &key, &value)) {
                assert_true(n < COUNT(keys));
                assert_slice(key, keys[n]);
                assert_slice(value, values[n]);
                n++;
        }
        assert_int_equal(n, COUNT(keys));
        assert_slice(slice_of(out, query_decode(out, SLICE_LIT("a+b%2Bc%41"))), "a b+cA");
}

/* wire_ch against the grammars, spelled out. */
static void byte_classes(void **state)
{
        (void)state;
        for (unsigned c = 0; c < 256; c++) {
                bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                bool visible = c > 0x20 && c < 0x7f;
                bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
                bool unreserved = alnum || (c && strchr("-._~", (int)c));

                assert_int_equal(ch_is((uint8_t)c, CH_TOKEN), alnum || (c && strchr("!#$%&'*+-.^_`|~", (int)c)));
                assert_int_equal(ch_is((uint8_t)c, CH_VALUE), visible || c == ' ' || c == '\t' || c >= 0x80);
                assert_int_equal(ch_is((uint8_t)c, CH_TARGET), visible || c >= 0x80);
                assert_int_equal(ch_is((uint8_t)c, CH_UNRESERVED), unreserved);
                assert_int_equal(ch_is((uint8_t)c, CH_PATH), unreserved || (c && strchr("!$&'()*+,=:@/", (int)c)));
                assert_int_equal(ch_is((uint8_t)c, CH_QUERY), visible && c != '#' && c != '%');
                assert_int_equal(ch_is((uint8_t)c, CH_HEX), hex);
                assert_int_equal(ch_is((uint8_t)c, CH_CONTROL), c < 0x20 || c == 0x7f);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(paths_have_one_spelling), ARENA_TEST(encoded_slash_has_a_second_reading), ARENA_TEST(query_keys), ARENA_TEST(byte_classes),
        };
        return cmocka_run_group_tests_name("wire/path", tests, NULL, NULL);
}
