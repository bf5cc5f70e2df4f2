/* Token answers: the guest gets placeholders, and nothing that may be a token. */
#include "account_test.h"

#include "account/registry.h"

#include <jansson.h>

#define TOKEN "eyJhbGciOiJSUzI1NiJ9.aaaa.bbbb"

static uint8_t randoms[4][PLACEHOLDER_RANDOM_BYTES];
static struct buf store, out;
static struct minted minted[4];

static int setup(void **state)
{
        (void)state;
        for (size_t i = 0; i < 4; i++)
                memset(randoms[i], (int)(i * 50 + 7), sizeof(randoms[i]));
        buf_init(&store, 0);
        buf_init(&out, 0);
        return 0;
}
static int teardown(void **state)
{
        (void)state;
        buf_fini(&store);
        buf_fini(&out);
        return 0;
}

static int remint(const char *answer) { return registry_remint(slice_str(answer), randoms, 3, minted, &store, &out); }

static const char *member(const char *name)
{
        static char text[512];
        json_t *o = json_loadb((const char *)buf_slice(&out).p, buf_len(&out), JSON_REJECT_DUPLICATES, NULL);
        json_t *v = json_object_get(o, name);

        assert_non_null(o);
        if (json_is_string(v))
                snprintf(text, sizeof(text), "%s", json_string_value(v));
        else
                snprintf(text, sizeof(text), v ? "%lld" : "absent", (long long)json_integer_value(v));
        json_decref(o);
        return text;
}

static void test_one(void **state)
{
        (void)state;
        assert_int_equal(remint("{\"token\":\"" TOKEN "\",\"expires_in\":300,\"issued_at\":\"2026-01-01T00:00:00Z\"}"), 1);
        assert_slice(minted[0].secret, TOKEN);
        assert_int_equal(minted[0].expires_s, 300);
        assert_true(placeholder_ok(slice_str(minted[0].placeholder)));
        assert_string_equal(member("token"), minted[0].placeholder);
        assert_string_equal(member("expires_in"), "300");
        assert_string_equal(member("issued_at"), "2026-01-01T00:00:00Z");
        assert_null(memmem(buf_slice(&out).p, buf_len(&out), TOKEN, strlen(TOKEN)));
}

static void test_several(void **state)
{
        (void)state;
        assert_int_equal(remint("{\"token\":\"" TOKEN "\",\"access_token\":\"" TOKEN "\"}"), 1); /* the same: one placeholder */
        assert_string_equal(member("access_token"), minted[0].placeholder);
        assert_int_equal(minted[0].expires_s, 60);
        buf_clear(&out);
        assert_int_equal(remint("{\"access_token\":\"" TOKEN "1\",\"token\":\"" TOKEN "2\",\"refresh_token\":\"" TOKEN "3\"}"), 3);
        assert_string_equal(member("token"), minted[0].placeholder);
        assert_string_equal(member("access_token"), minted[1].placeholder);
        assert_string_equal(member("refresh_token"), minted[2].placeholder);
        for (int i = 0; i < 3; i++)
                assert_true(slice_starts(minted[i].secret, SLICE_LIT(TOKEN)));
        assert_string_not_equal(minted[0].placeholder, minted[1].placeholder);
        assert_int_equal(registry_remint(SLICE_LIT("{\"access_token\":\"" TOKEN "1\",\"token\":\"" TOKEN "2\"}"), randoms, 1, minted, &store, &out), -1); /* no room */
}

static void test_dropped(void **state)
{
        (void)state;
        assert_int_equal(remint("{\"token\":\"" TOKEN "\",\"id_token\":\"another-secret\",\"x\":{\"token\":\"deep\"},\"scope\":\"see " TOKEN "\",\"issued_at\":[1]}"), 1);
        assert_string_equal(member("id_token"), "absent");
        assert_string_equal(member("x"), "absent");
        assert_string_equal(member("scope"), "absent");
        assert_string_equal(member("issued_at"), "absent");
}

/* Escapes of any kind are no way around: what goes out is written anew. */
static void test_escaped(void **state)
{
        (void)state;
        assert_int_equal(remint("{\"t\\u006fken\":\"secret\\u0021with\\/escapes\"}"), 1);
        assert_slice(minted[0].secret, "secret!with/escapes");
}

static void test_refused(void **state)
{
        static const char *const bad[] = {
                "", "null", "[]", "{}", "\"token\"", "{\"token\":null}", "{\"token\":5}", "{\"token\":\"\"}", "{\"token\":\"short\"}", "{\"token\":\"with blank in it\"}",
                "{\"token\":\"with\\nnewline\"}", "{\"token\":\"with\\u0000nul-nul\"}", "{\"token\":\"not-ascii-\xc3\xa4\"}", "{\"refresh_token\":\"" TOKEN "\"}",
                "{\"token\":\"" TOKEN "\",\"access_token\":7}", "{\"token\":\"" TOKEN "\",\"token\":\"" TOKEN "\"}", "{\"token\":\"" TOKEN "\"} trailing",
                "{\"token\":\"" TOKEN "\"", "{token:\"" TOKEN "\"}",
        };
        char own[512], x[PLACEHOLDER_BYTES_MAX + 1];

        (void)state;
        for (size_t i = 0; i < COUNT(bad); i++)
                if (remint(bad[i]) != -1)
                        fail_msg("%s was taken", bad[i]);
        test_mint(ACCOUNT_BEARER, 1, x);
        assert_int_equal(remint(test_fill(own, sizeof(own), "{\"token\":\"@\"}", x)), -1);
        assert_int_equal(buf_len(&out), 0);
}

static void test_expiry(void **state)
{
        (void)state;
        assert_int_equal(remint("{\"token\":\"" TOKEN "\",\"expires_in\":-5}"), 1);
        assert_int_equal(minted[0].expires_s, 60);
        assert_int_equal(remint("{\"token\":\"" TOKEN "\",\"expires_in\":99999999999}"), 1);
        assert_int_equal(minted[0].expires_s, 24 * 3600);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
        const struct CMUnitTest tests[] = { TEST(test_one), TEST(test_several), TEST(test_dropped), TEST(test_escaped), TEST(test_refused), TEST(test_expiry) };
        return cmocka_run_group_tests_name("account/registry", tests, NULL, NULL);
}
