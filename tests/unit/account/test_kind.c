/* Kinds and placeholders: every row is whole, what is minted is recognised, of the vendor's shape, and nothing else is. */
#include "account_test.h"

#include "account/basic.h"

static void test_rows(void **state)
{
        (void)state;
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++) {
                const struct kind_row *row = kind_row((enum account_kind)k);

                assert_non_null(row->name);
                assert_non_null(row->help);
                assert_int_equal(kind_by_name(slice_str(row->name)), k);
                assert_non_null(strstr(row->shape_prefix, "brm"));
                assert_true(row->shape_bytes <= PLACEHOLDER_BYTES_MAX);
                assert_true(row->shape_bytes - strlen(row->shape_prefix) - (row->crc ? 6 : 0) >= 26); /* 130 random bits */
                assert_true((row->shape_bytes - strlen(row->shape_prefix)) * 5 <= PLACEHOLDER_RANDOM_BYTES * 8);
                for (size_t i = 0; i < COUNT(row->env) && row->env[i]; i++)
                        assert_int_equal(kind_by_env(slice_str(row->env[i])), k);
                for (size_t i = 0; i < COUNT(row->fields); i++) {
                        bool named = row->fields[i].slot == SLOT_HEADER || row->fields[i].slot == SLOT_QUERY;
                        assert_int_equal(named, row->fields[i].name.n > 0);
                }
        }
        assert_int_equal(kind_by_name(SLICE_LIT("Github")), ACCOUNT_KIND_COUNT);
        assert_int_equal(kind_by_env(SLICE_LIT("PATH")), ACCOUNT_KIND_COUNT);
        assert_int_equal(kind_by_env(SLICE_LIT("CLAUDE_CODE_OAUTH_TOKEN")), ACCOUNT_ANTHROPIC);
        assert_true(kind_env_instead(ACCOUNT_ANTHROPIC, SLICE_LIT("CLAUDE_CODE_OAUTH_TOKEN")));
        assert_false(kind_env_instead(ACCOUNT_ANTHROPIC, SLICE_LIT("ANTHROPIC_API_KEY")));
        assert_null(kind_row(ACCOUNT_KIND_COUNT));
}

static void test_mint_and_know(void **state)
{
        (void)state;
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++) {
                const struct kind_row *row = kind_row((enum account_kind)k);
                char a[PLACEHOLDER_BYTES_MAX + 1], b[PLACEHOLDER_BYTES_MAX + 1], preview[PLACEHOLDER_PREVIEW_BYTES];
                struct slice s, core;

                test_mint((enum account_kind)k, 1, a);
                test_mint((enum account_kind)k, 2, b);
                assert_string_not_equal(a, b);
                assert_int_equal(strlen(a), row->shape_bytes);
                s = slice_str(a);
                assert_true(placeholder_ok(s));
                core = placeholder_core(s);
                assert_true(core.n >= PLACEHOLDER_CORE_BYTES_MIN);
                assert_memory_equal(core.p, "brm", 3);
                assert_false(placeholder_ok(slice_first(s, s.n - 1)));
                assert_false(placeholder_ok(slice_of(a, s.n + 1)));
                for (size_t i = 0; i < s.n; i++) { /* no other byte at any place but another random one, and never where a checksum is */
                        char c = a[i];
                        a[i] = '-';
                        assert_int_equal(placeholder_ok(s), c == '-');
                        a[i] = c == 'b' ? 'c' : 'b';
                        assert_int_equal(placeholder_ok(s), !row->crc && i >= strlen(row->shape_prefix));
                        a[i] = c;
                }
                placeholder_preview(s, preview);
                assert_int_equal(strlen(preview), strlen(row->shape_prefix) + 4 + strlen("…"));
                assert_memory_equal(preview, a, strlen(row->shape_prefix) + 4);
        }
        assert_false(placeholder_ok(SLICE_EMPTY));
        assert_int_equal(placeholder_core(SLICE_LIT("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")).n, 0);
}

/* Every bit of the random bytes that a shape uses changes it, and equal ones give the same. */
static void test_random(void **state)
{
        uint8_t random[PLACEHOLDER_RANDOM_BYTES] = { 0 };
        char zero[PLACEHOLDER_BYTES_MAX + 1], other[PLACEHOLDER_BYTES_MAX + 1];
        size_t used = 0;

        (void)state;
        placeholder_mint(ACCOUNT_GITHUB, random, zero);
        for (size_t bit = 0; bit < sizeof(random) * 8; bit++) {
                random[bit / 8] = (uint8_t)(0x80 >> bit % 8);
                placeholder_mint(ACCOUNT_GITHUB, random, other);
                used += strcmp(zero, other) != 0;
                random[bit / 8] = 0;
        }
        assert_int_equal(used, 27 * 5);
        memset(random, 0xff, sizeof(random));
        placeholder_mint(ACCOUNT_ANTHROPIC, random, other); /* the longest: reads no byte past the last */
        assert_int_equal(strspn(other + strlen("sk-ant-api03-brm-"), "7"), 91);
}

/* The checksum is GitHub's: worked out by hand for a published example, and here for a placeholder of zeros. */
static void test_checksum(void **state)
{
        uint8_t random[PLACEHOLDER_RANDOM_BYTES] = { 0 };
        char out[PLACEHOLDER_BYTES_MAX + 1];

        (void)state;
        placeholder_mint(ACCOUNT_GITHUB, random, out);
        assert_string_equal(out, "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");
        placeholder_mint(ACCOUNT_NPM, random, out);
        assert_string_equal(out, "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");
}

static void test_base64(void **state)
{
        char text[16];
        uint8_t out[16];
        size_t n;
        static const char *const bad[] = { "", "Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "====", "Zm9v\n", "Zm 9", "Zm9-", "Zm9_", "=m9v" };

        (void)state;
        assert_int_equal(base64_encode(SLICE_LIT("foobar"), text), 8);
        assert_memory_equal(text, "Zm9vYmFy", 8);
        assert_int_equal(base64_encode(SLICE_LIT("fooba"), text), 8);
        assert_memory_equal(text, "Zm9vYmE=", 8);
        assert_int_equal(base64_encode(SLICE_LIT("foob"), text), 8);
        assert_memory_equal(text, "Zm9vYg==", 8);
        assert_true(base64_decode(SLICE_LIT("Zm9vYg=="), out, &n));
        assert_int_equal(n, 4);
        assert_memory_equal(out, "foob", 4);
        for (size_t i = 0; i < COUNT(bad); i++)
                if (base64_decode(slice_str(bad[i]), out, &n))
                        fail_msg("%s was decoded", bad[i]);
}

static void test_covers(void **state)
{
        struct test_binding t;

        (void)state;
        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_true(binding_covers(&t.b, SLICE_LIT("api.example"), 443));
        assert_true(binding_covers(&t.b, SLICE_LIT("other.example"), 8443));
        assert_false(binding_covers(&t.b, SLICE_LIT("other.example"), 443));
        assert_false(binding_covers(&t.b, SLICE_LIT("api.example"), 80));
        assert_false(binding_covers(&t.b, SLICE_LIT("xapi.example"), 443));
        assert_false(binding_covers(&t.b, SLICE_LIT("a.api.example"), 443));
        assert_false(binding_covers(&t.b, SLICE_LIT("api.example."), 443));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),     cmocka_unit_test(test_mint_and_know), cmocka_unit_test(test_random),
                cmocka_unit_test(test_checksum), cmocka_unit_test(test_base64),        cmocka_unit_test(test_covers),
        };
        return cmocka_run_group_tests_name("account/kind", tests, NULL, NULL);
}
