/* Re-masking: every spelling of a secret is replaced, at every cut the same; base64 around it still decodes; what is no secret stays byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "account/find.h"
#include "account/mask.h"
#include "scan_test.h"

#define SECRET "ghp_Real/Secret+with~odd=chars0123456789"
#define INSTEAD "ghp_brmaaaaaaaaaaaaaaaaaaaaaaaaaa000000"

static void feed_cut(struct mask *m, struct slice text, size_t cut, size_t step, struct buf *out, uint64_t *found)
{
        struct mask_stream s;

        mask_begin(&s, m);
        if (cut)
                assert_int_equal(mask_feed(&s, slice_first(text, cut), cut == text.n, out), 0);
        for (size_t at = cut; at < text.n; at += step)
                assert_int_equal(mask_feed(&s, slice_first(slice_skip(text, at), step), at + step >= text.n, out), 0);
        assert_int_equal(buf_len(&s.keep), 0);
        *found = s.found;
        mask_end(&s);
}

/* Masks a text whole, byte by byte, at every single cut, and by every kernel: *out has it. Returns how many were found. */
static uint64_t every_cut(struct mask *m, struct slice text, struct buf *out)
{
        uint64_t found, again;

        buf_clear(out);
        feed_cut(m, text, text.n, 1, out, &found);
        for (size_t cut = 0; cut <= text.n + FIND_KERNEL_COUNT; cut++) {
                struct buf one;
                buf_init(&one, 0);
                if (cut > text.n)
                        find_kernel_use((enum find_kernel)(cut - text.n - 1));
                feed_cut(m, text, cut > text.n ? text.n : cut, cut == 0 ? 1 : text.n, &one, &again);
                if (!slice_eq(buf_slice(out), buf_slice(&one)))
                        fail_msg("cut at %zu of %.*s: %.*s, not %.*s", cut, SLICE_FMT(text), SLICE_FMT(buf_slice(&one)), SLICE_FMT(buf_slice(out)));
                assert_int_equal(found, again);
                buf_fini(&one);
        }
        find_kernel_use(FIND_AUTO);
        return found;
}

static bool contains(struct slice text, struct slice what) { return what.n && memmem(text.p, text.n, what.p, what.n); }

static struct mask *mask_of(const char *secret, const char *instead)
{
        struct mask *m = mask_new();

        assert_non_null(m);
        assert_int_equal(mask_add(m, slice_str(secret), slice_str(instead)), 0);
        return m;
}

static void test_plain(void **state)
{
        static spell_fn *const spellings[] = { spell_plain, spell_percent, spell_percent_twice, spell_json, spell_json_twice, spell_json_percent,
                                                spell_percent_of_percent, spell_percent_of_json };
        struct mask *m = mask_of(SECRET, INSTEAD);
        uint32_t x = 123456789u;

        (void)state;
        for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
                for (int round = 0; round < 40; round++) {
                        struct buf text, out;
                        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                        buf_init(&text, 0);
                        buf_init(&out, 0);
                        buf_add_str(&text, "{\"you sent\": \"");
                        spellings[i](&text, slice_str(SECRET), (struct spelling_how){ .which = round ? x : UINT32_MAX });
                        buf_add_str(&text, "\"}");
                        assert_int_equal(every_cut(m, buf_slice(&text), &out), 1);
                        assert_true(slice_is(buf_slice(&out), "{\"you sent\": \"" INSTEAD "\"}"));
                        buf_fini(&text);
                        buf_fini(&out);
                }
        mask_free(m);
}

static void unbase64(struct slice in, struct buf *out)
{
        uint32_t acc = 0;
        unsigned bits = 0;

        for (size_t i = 0; i < in.n; i++) {
                const char *at = in.p[i] == '-' ? "+" : in.p[i] == '_' ? "/" : "";
                static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
                const char *digit = strchr(chars, *at ? *at : in.p[i]);
                if (in.p[i] == '=' || in.p[i] == '\n')
                        continue;
                assert_non_null(digit);
                acc = acc << 6 | (uint32_t)(digit - chars);
                bits += 6;
                if (bits >= 8) {
                        bits -= 8;
                        buf_addf(out, "%c", (int)(acc >> bits & 0xff));
                }
        }
}

static void test_base64(void **state)
{
        static const char *const before[] = { "", "x", "us", "usr:" }, *const behind[] = { "", ".", "\xff\xff", "more" };
        struct mask *m = mask_of(SECRET, INSTEAD);

        (void)state;
        for (size_t i = 0; i < 4 * 4 * 4; i++) {
                struct buf plain, text, out, back, want;
                const char *pre = before[i % 4], *post = behind[i / 4 % 4];
                buf_init(&plain, 0);
                buf_init(&text, 0);
                buf_init(&out, 0);
                buf_init(&back, 0);
                buf_init(&want, 0);
                buf_addf(&plain, "%s%s%s", pre, SECRET, post);
                (i / 16 & 1 ? spell_base64url : spell_base64)(&text, buf_slice(&plain),
                                                              (struct spelling_how){ .line = i / 32 ? 12 : 0, .between = "\n" });
                assert_int_equal(every_cut(m, buf_slice(&text), &out), 1);
                assert_int_equal(buf_len(&text), buf_len(&out));
                unbase64(buf_slice(&out), &back);
                buf_addf(&want, "%s%s%.*s%s", pre, INSTEAD, (int)(strlen(SECRET) - strlen(INSTEAD)), "*", post);
                assert_true(slice_eq(buf_slice(&back), buf_slice(&want)));
                buf_fini(&plain);
                buf_fini(&text);
                buf_fini(&out);
                buf_fini(&back);
                buf_fini(&want);
        }
        mask_free(m);
}

/* Base64 on a page, where a template escaped what it thought had to be. */
static void test_base64_in_html(void **state)
{
        struct mask *m = mask_of("abc>>>???xyz", "placeholder!");
        struct buf out;

        (void)state;
        buf_init(&out, 0);
        assert_int_equal(every_cut(m, SLICE_LIT("<b>YWJjPj4&#43;Pz8&#x2F;eHl6</b>"), &out), 1);
        assert_true(slice_is(buf_slice(&out), "<b>cGxhY2Vob2xkZXIh</b>"));
        buf_fini(&out);
        mask_free(m);
}

/* Secrets whose own characters are the escapes'. */
static void test_odd_secrets(void **state)
{
        static const struct {
                const char *secret, *text;
        } rows[] = {
                { "pass%41word", "pass%41word" },
                { "pass%41word", "pass%2541word" },
                { "pass%25word", "pass%25word" },
                { "pass%25word", "pass%2525word" },
                { "pass\\nword", "pass\\nword" },
                { "pass\\nword", "pass\\\\nword" },
                { "pass\\nword", "pass\\u005cnword" },
                { "pass\nword", "pass\\nword" },
                { "pass\nword", "pass\nword" },
                { "pass\nword", "pass%0Aword" },
                { "{\"key\":\"abc\"}", "{\\\"key\\\":\\\"abc\\\"}" },
                { "{\"key\":\"abc\"}", "{\\\\\\\"key\\\\\\\":\\\\\\\"abc\\\\\\\"}" },
                { "\\\\\\\\\\\\\\\\", "\\\\\\\\\\\\\\\\" },
                { "\\server\\share", "\\\\server\\\\share" },
                { "%%%%%%%%", "%%%%%%%%" },
                { "%%%%%%%%", "%25%25%25%25%25%25%25%25" },
                { "a=b=c=d=", "a=b=c=d=" },
                { "a/b/c/d/", "a\\/b\\/c/d\\/" },
                { "========", "========" },
                { "pa+ss/wo=rd", "pa&#43;ss&#x2F;wo&#x3d;rd" },
                { "a&b<c>d\"e'f", "a&amp;b&lt;c&gt;d&quot;e&#39;f" },
                { "a&b<c>d\"e'f", "a&#38;b&#60;c&#62;d&#34;e&apos;f" },
                { "a&b<c>d\"e'f", "a&b<c>d\"e'f" },
                { "a&amp;bcdefg", "a&amp;bcdefg" },
                { "a&amp;bcdefg", "a&amp;amp;bcdefg" },
                { "'quoted+secret'", "&#039;quoted&#43;secret&#039;" },
                { "&first-of-all", "&amp;first-of-all" },
                { "&first-of-all", "%26first-of-all" },
                { "two words, three", "two+words%2C+three" },
                { " blank first", "+blank+first" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct mask *m = mask_of(rows[i].secret, INSTEAD);
                struct buf text, out;
                buf_init(&text, 0);
                buf_init(&out, 0);
                buf_addf(&text, "<%s>", rows[i].text);
                if (every_cut(m, buf_slice(&text), &out) != 1 || !slice_is(buf_slice(&out), "<" INSTEAD ">"))
                        fail_msg("%s in %s: %.*s", rows[i].secret, rows[i].text, SLICE_FMT(buf_slice(&out)));
                buf_fini(&text);
                buf_fini(&out);
                mask_free(m);
        }
}

static void test_pairs(void **state)
{
        struct mask *m = mask_of("secret-one-and", "ONE");
        struct buf out;

        (void)state;
        buf_init(&out, 0);
        assert_int_equal(mask_add(m, slice_str("secret-one-and-more"), slice_str("MORE")), 0);
        assert_int_equal(mask_add(m, slice_str("other-secret"), slice_str("OTHER")), 0);
        assert_int_equal(every_cut(m, slice_str("secret-one-and-mor, secret-one-and-more, other-secretother-secret secret-one-an"), &out), 4);
        assert_true(slice_is(buf_slice(&out), "ONE-mor, MORE, OTHEROTHER secret-one-an"));
        assert_int_equal(mask_add(m, slice_str("1234567"), slice_str("X")), -1);
        for (int i = 3; i < MASK_PAIRS_MAX; i++) {
                char secret[32];
                snprintf(secret, sizeof(secret), "%dsecret%d", i * 7919, i);
                assert_int_equal(mask_add(m, slice_str(secret), slice_str(secret + 1)), 0);
        }
        assert_int_equal(mask_add(m, slice_str("one-too-many"), slice_str("X")), -1);
        assert_int_equal(every_cut(m, slice_str("55433secret7 443464secret56"), &out), 2);
        assert_true(slice_is(buf_slice(&out), "5433secret7 43464secret56"));
        mask_free(m);
        buf_fini(&out);
}

static void test_nothing(void **state)
{
        static const char *const texts[] = { "",     "ghp_", "ghp_Real/Secret",     "data: {\"a\": \"%41\\u0041\\\\\"}\n\n",
                                             "100%", "a\\",  "Z2hwX1JlYWwvU2VjcmV0" };
        struct mask *m = mask_of(SECRET, INSTEAD), *none = mask_new();
        struct mask_stream s;
        struct buf out;

        (void)state;
        buf_init(&out, 0);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                assert_int_equal(every_cut(m, slice_str(texts[i]), &out), 0);
                assert_true(slice_is(buf_slice(&out), texts[i]));
                assert_int_equal(every_cut(none, slice_str(texts[i]), &out), 0);
                assert_true(slice_is(buf_slice(&out), texts[i]));
        }
        /* An event is not held up. */
        buf_clear(&out);
        mask_begin(&s, m);
        assert_int_equal(mask_feed(&s, slice_str(texts[3]), false, &out), 0);
        assert_true(slice_is(buf_slice(&out), texts[3]));
        mask_end(&s);
        mask_free(m);
        mask_free(none);
        mask_free(NULL);
        buf_fini(&out);
}

static void test_text(void **state)
{
        struct mask *m = mask_of(SECRET, INSTEAD);
        struct buf out;

        (void)state;
        buf_init(&out, 0);
        buf_add_str(&out, "before ");
        assert_int_equal(mask_text(m, slice_str("nothing in it"), &out), 0);
        assert_true(slice_is(buf_slice(&out), "before "));
        assert_int_equal(mask_text(m, slice_str("a " SECRET " b"), &out), 1);
        assert_true(slice_is(buf_slice(&out), "before a " INSTEAD " b"));
        assert_false(contains(buf_slice(&out), SLICE_LIT("Real")));
        buf_clear(&out);
        /* Nothing but the secret; the shortest of its spellings; all of it but the last character; that and more. */
        assert_int_equal(mask_text(m, slice_str(SECRET), &out), 1);
        assert_true(slice_is(buf_slice(&out), INSTEAD));
        buf_clear(&out);
        assert_int_equal(mask_text(m, slice_str("Z2hwX1JlYWwvU2VjcmV0K3dpdGh+b2RkPWNoYXJzMDEyMzQ1Njc4OQ"), &out), 1);
        assert_int_equal(mask_text(m, slice_first(slice_str(SECRET), strlen(SECRET) - 1), &out), 0);
        assert_int_equal(mask_text(m, slice_str("x ghp_Real/Secret+with~odd=chars012345678 9, and what is longer than it"), &out), 0);
        assert_int_equal(mask_text(m, slice_str("text that is longer than it is, and ends as it begins: ghp"), &out), 0);
        assert_int_equal(mask_text(m, SLICE_EMPTY, &out), 0);
        assert_int_equal(mask_add(m, SLICE_LIT("short-er"), SLICE_LIT("placed")), 0);
        buf_clear(&out);
        assert_int_equal(mask_text(m, slice_str("short-er"), &out), 1);
        assert_true(slice_is(buf_slice(&out), "placed"));
        mask_free(m);
        buf_fini(&out);
}

/* A set that takes over what another had outlives it, and holds it once. */
static void test_shared(void **state)
{
        struct mask *old = mask_new(), *new = mask_new(), *newest = mask_new();
        struct buf out;

        (void)state;
        assert_true(old && new && newest);
        buf_init(&out, 0);
        assert_int_equal(mask_add(old, slice_str(SECRET), slice_str(INSTEAD)), 0);
        assert_int_equal(mask_add(old, SLICE_LIT("gone-secret"), SLICE_LIT("gone")), 0);
        mask_share(new, old);
        assert_int_equal(mask_add(new, slice_str(SECRET), SLICE_LIT("renamed")), 0);
        assert_int_equal(mask_add(new, SLICE_LIT("new-secret"), SLICE_LIT("newer")), 0);
        mask_share(new, NULL);
        mask_free(old);
        mask_share(newest, new);
        assert_int_equal(mask_add(newest, slice_str(SECRET), slice_str(INSTEAD)), 0);
        mask_share(newest, NULL);
        assert_int_equal(mask_text(new, slice_str("a " SECRET " b new-secret gone-secret"), &out), 1);
        assert_true(slice_is(buf_slice(&out), "a renamed b newer gone-secret"));
        mask_free(new);
        buf_clear(&out);
        assert_int_equal(mask_text(newest, slice_str(SECRET " new-secret"), &out), 1);
        assert_true(slice_is(buf_slice(&out), INSTEAD " new-secret"));
        mask_free(newest);
        buf_fini(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain), cmocka_unit_test(test_base64), cmocka_unit_test(test_base64_in_html),  cmocka_unit_test(test_odd_secrets),
                cmocka_unit_test(test_pairs), cmocka_unit_test(test_nothing), cmocka_unit_test(test_text),    cmocka_unit_test(test_shared),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
