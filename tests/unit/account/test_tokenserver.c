/* Token servers of registries: which requests ask one, and what of its answers does not go on. */
#include "account_test.h"

#include "account/tokenserver.h"

static bool asked(void **state, const struct realms *r, const char *host, const char *line, const char *fields)
{
        struct request req;

        test_request_at(*state, SCHEME_HTTPS, host, 443, line, fields, &req);
        return tokenserver_asked(r, &req);
}

static void test_by_what_is_asked(void **state)
{
        static const char *const yes[] = {
                "GET /token", "GET /v2/token", "GET /v2/auth?account=a", "GET /jwt/auth", "GET /service/token", "POST /oauth2/token", "POST /oauth2/exchange", "GET /TOKEN",
                "GET /token/below", "GET /artifactory/api/docker/x/v2/token", "GET /anything?service=oci.example", "GET /anything?a=1&Scope=x", "GET /?%73cope=x",
                "GET /v2/acme/manifests/1?service=x", "GET /a/b?scope%5B%5D=x",
        };
        static const char *const no[] = {
                "GET /v2/", "GET /v2/acme/thing/manifests/1", "GET /v2/acme/token/manifests/token", "GET /v2/token/blobs/sha256:00", "GET /v2/acme/auth/tags/list", "HEAD /v2/a/blobs/x",
                "POST /v2/acme/blobs/uploads/?mount=x&from=y", "GET /v2/_catalog?n=5", "GET /tokenize", "GET /mytoken",
        };
        struct realms none = { .n = 0 };

        for (size_t i = 0; i < COUNT(yes); i++)
                if (!asked(state, &none, HOST, yes[i], ""))
                        fail_msg("%s", yes[i]);
        for (size_t i = 0; i < COUNT(no); i++)
                if (asked(state, &none, HOST, no[i], ""))
                        fail_msg("%s", no[i]);
        assert_true(asked(state, &none, HOST, "POST /x", "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\nContent-Length: 2\r\n"));
        assert_false(asked(state, &none, HOST, "POST /x", "Content-Type: application/json\r\nContent-Length: 2\r\n"));
}

static void test_realms(void **state)
{
        struct realms r = { .n = 0 };
        char field[600], path[400];

        realms_learn(&r, SLICE_LIT("Bearer realm=\"https://auth.example/give\",service=\"oci.example\",scope=\"repository:a:pull\""));
        realms_learn(&r, SLICE_LIT("Basic realm=\"not a url\", bearer REALM = \"HTTPS://Auth.Example:8443/x/\""));
        realms_learn(&r, SLICE_LIT("Bearer realm=http://plain.example/y, service=z"));
        realms_learn(&r, SLICE_LIT("Bearer realm=\"https://root.example\""));
        assert_int_equal(r.n, 4);
        realms_learn(&r, SLICE_LIT("Bearer realm=\"https://auth.example/give?x=1\"")); /* known */
        assert_int_equal(r.n, 4);
        assert_true(asked(state, &r, "auth.example", "GET /give", ""));
        assert_true(asked(state, &r, "auth.example", "GET /give?client_id=x", ""));
        assert_true(asked(state, &r, "auth.example", "GET /Give/below", ""));
        assert_false(asked(state, &r, "auth.example", "GET /given", ""));
        assert_false(asked(state, &r, "auth.example", "GET /x/", ""));
        assert_false(asked(state, &r, "other.example", "GET /give", ""));
        assert_true(asked(state, &r, "plain.example", "GET /y", ""));
        assert_true(asked(state, &r, "root.example", "GET /", ""));
        assert_false(asked(state, &r, "root.example", "GET /v2/", ""));
        /* One that is longer than what is kept, and more than are kept. */
        memset(path, 'p', 300);
        path[300] = '\0';
        snprintf(field, sizeof(field), "Bearer realm=\"https://long.example/%s\"", path);
        realms_learn(&r, slice_str(field));
        snprintf(field, sizeof(field), "GET /%s", path);
        assert_true(asked(state, &r, "long.example", field, ""));
        for (int i = 0; i < 3 * REALMS_MAX; i++) {
                snprintf(field, sizeof(field), "Bearer realm=\"https://many.example/%d\"", i);
                realms_learn(&r, slice_str(field));
                snprintf(field, sizeof(field), "GET /%d", i);
                assert_true(asked(state, &r, "many.example", field, ""));
        }
        assert_false(asked(state, &r, "many.example", "GET /0", ""));
}

/* In one field: the first ones, and no more work than for those. */
static void test_many_realms(void **state)
{
        struct realms r = { .n = 0 };
        char field[2048];
        size_t n = 0;

        for (int i = 0; i < REALMS_MAX + 2; i++)
                n += (size_t)snprintf(field + n, sizeof(field) - n, "Bearer realm=\"https://many.example/%d\", ", i);
        realms_learn(&r, slice_of(field, n));
        assert_int_equal(r.n, REALMS_MAX);
        assert_true(asked(state, &r, "many.example", "GET /0", ""));
        assert_false(asked(state, &r, "many.example", "GET /16", ""));
}

/* Cut at every byte, in memory that ends there: what was whole before the cut is found, and nothing beyond it is read. */
static void test_cut(void **state)
{
        static const char field[] = "Bearer realm=\"https://auth.example/give\",service=\"a\"", url[] = "https://a.example/x?a=1#b=2&access_token=345", text[] = "{\"access_token\": \"x\"}";
        const size_t realm_whole = strlen("Bearer realm=\"https://auth.example/give"), key_whole = strlen("https://a.example/x?a=1#b=2&access_token=3"), name_whole = strlen("{\"access_token\"");

        for (size_t n = 0; n < sizeof(field); n++) {
                struct realms r = { .n = 0 };
                char *cut = malloc(n ? n : 1);

                assert_non_null(cut);
                realms_learn(&r, slice_of(memcpy(cut, field, n), n));
                assert_int_equal(asked(state, &r, "auth.example", "GET /give", ""), n >= realm_whole);
                if (n < sizeof(url))
                        assert_int_equal(tokenserver_url_has_key(slice_of(memcpy(cut, url, n), n)), n >= key_whole);
                if (n < sizeof(text))
                        assert_int_equal(tokenserver_suspects(slice_of(memcpy(cut, text, n), n)), n >= name_whole);
                free(cut);
        }
}

static void test_odd_challenges(void **state)
{
        static const char *const odd[] = { "", "realm", "realm=", "realm=\"", "realm=\"https://", "realm=\"https:///x\"", "realm=\"https://a.example/\xff\"", "realm=\"https://u@a.example/\"",
                "realm \t=\t\"ftp://a.example/\"", "Bearer realm=\"https://a.example/%\"", "realm=realm=realm=" };
        struct realms r = { .n = 0 };

        (void)state;
        for (size_t i = 0; i < COUNT(odd); i++)
                realms_learn(&r, slice_str(odd[i]));
        assert_int_equal(r.n, 0);
}

static void test_answers(void **state)
{
        (void)state;
        assert_true(tokenserver_drops(SLICE_LIT("set-cookie")));
        assert_true(tokenserver_drops(SLICE_LIT("x-subject-token")));
        assert_true(tokenserver_drops(SLICE_LIT("authorization")));
        assert_false(tokenserver_drops(SLICE_LIT("www-authenticate")));
        assert_false(tokenserver_drops(SLICE_LIT("content-type")));
        assert_false(tokenserver_drops(SLICE_LIT("docker-distribution-api-version")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("https://a.example/?x=1&access_token=abc")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("https://a.example/#access_token=abc")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/x?a=1#b=2&Token=3")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/x#a?token=3")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/x#access_token=a?b")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/x?a=1#access_token=3&b=c?d")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/x#a=1;b?c#access_token=3")));
        assert_true(tokenserver_url_has_key(SLICE_LIT("/back?code=3")));
        assert_false(tokenserver_url_has_key(SLICE_LIT("/access_token=3&token=4?x=1")));
        assert_false(tokenserver_url_has_key(SLICE_LIT("/x?service=a&scope=b")));
        assert_false(tokenserver_url_has_key(SLICE_LIT("/token")));
        assert_false(tokenserver_url_has_key(SLICE_EMPTY));
        assert_true(tokenserver_member(SLICE_LIT("Token")));
        assert_true(tokenserver_member(SLICE_LIT("accessToken")));
        assert_true(tokenserver_member(SLICE_LIT("IDENTITY_TOKEN")));
        assert_false(tokenserver_member(SLICE_LIT("nextToken")));
        assert_false(tokenserver_member(SLICE_LIT("tokens")));
        assert_true(tokenserver_suspects(SLICE_LIT("{'x', \"Access_ToKen\" : ")));
        assert_false(tokenserver_suspects(SLICE_LIT("a token, \"tokens\" and \"to\"ken")));
        assert_false(tokenserver_suspects(SLICE_EMPTY));
}

int main(void)
{
        const struct CMUnitTest tests[] = { ARENA_TEST(test_by_what_is_asked), ARENA_TEST(test_realms), ARENA_TEST(test_many_realms), ARENA_TEST(test_cut), ARENA_TEST(test_odd_challenges), ARENA_TEST(test_answers) };
        return cmocka_run_group_tests_name("account/tokenserver", tests, NULL, NULL);
}
