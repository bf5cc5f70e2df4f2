/* What a guest gets of its credentials: variables, and files in which all that is not ours stays byte for byte. */
#include "account_test.h"

#include "account/guest.h"

#include <jansson.h>

#define BEGIN "# >>> brome: placeholders, written anew at every start\n"
#define END "# <<< brome\n"

enum { TEXT = 4096 };

static size_t file_number(const char *name)
{
        for (size_t i = 0; guest_file_name(i); i++)
                if (strcmp(guest_file_name(i), name) == 0)
                        return i;
        fail_msg("no file %s", name);
        return 0;
}

/* Runs it; that running it again changes nothing is checked each time. */
static int write_file(const char *name, const struct binding *b, size_t n, const char *present, char out[TEXT])
{
        size_t i = file_number(name);
        struct buf once, again;
        const char *why = NULL;
        int rc;

        buf_init(&once, 0);
        buf_init(&again, 0);
        rc = guest_file(i, b, n, slice_str(present), &once, &why);
        assert_int_equal(rc < 0, why != NULL);
        assert_true(rc == 1 || buf_len(&once) == 0);
        if (rc == 1) {
                assert_true(buf_len(&once) < TEXT);
                assert_int_equal(guest_file(i, b, n, buf_slice(&once), &again, &why), 0);
        }
        snprintf(out, TEXT, "%.*s", SLICE_FMT(buf_slice(&once)));
        buf_fini(&once);
        buf_fini(&again);
        return rc;
}

/* `want` with "@" for the placeholder. */
static void assert_file(const char *name, const struct test_binding *t, const char *present, const char *want)
{
        char out[TEXT], filled[TEXT], before[TEXT];

        assert_int_equal(write_file(name, &t->b, 1, test_fill(before, TEXT, present, t->placeholder), out), 1);
        assert_string_equal(out, test_fill(filled, TEXT, want, t->placeholder));
}
static void assert_removed(const char *name, const struct test_binding *t, const char *present, const char *want)
{
        char out[TEXT], before[TEXT];

        assert_int_equal(write_file(name, NULL, 0, test_fill(before, TEXT, present, t->placeholder), out), 1);
        assert_string_equal(out, want);
}

/* ---- variables ---------------------------------------------------------------------------------------------------------------------------- */

static void collect(void *ctx, const char *name, struct slice value)
{
        buf_addf(ctx, "%s=%.*s\n", name, SLICE_FMT(value));
}

static void assert_env(const struct test_binding *t, const char *as_env, const char *want)
{
        struct buf got;
        char filled[TEXT];

        buf_init(&got, 0);
        guest_env(&t->b, slice_str(as_env), collect, &got);
        assert_slice(buf_slice(&got), test_fill(filled, TEXT, want, t->placeholder));
        buf_fini(&got);
}

static void test_env(void **state)
{
        struct test_binding t;

        (void)state;
        test_bind(&t, ACCOUNT_GITHUB, "forge");
        assert_env(&t, "", "GITHUB_TOKEN=@\nGH_TOKEN=@\n");
        assert_env(&t, "CI_TOKEN", "GITHUB_TOKEN=@\nGH_TOKEN=@\nCI_TOKEN=@\n");
        assert_env(&t, "GH_TOKEN", "GITHUB_TOKEN=@\nGH_TOKEN=@\n");
        test_bind(&t, ACCOUNT_ANTHROPIC, "claude");
        assert_env(&t, "", "ANTHROPIC_API_KEY=@\n");
        assert_env(&t, "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN=@\n"); /* instead: with both, the client sends both */
        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_env(&t, "", "API_TOKEN=@\n");
        assert_env(&t, "CI_KEY", "CI_KEY=@\n");
        test_bind(&t, ACCOUNT_BASIC, "my-deploy");
        assert_env(&t, "", "MY_DEPLOY_TOKEN=@\n");
        test_bind(&t, ACCOUNT_REGISTRY, "images");
        assert_env(&t, "", "");
        test_bind(&t, ACCOUNT_CARGO, "my-crates");
        assert_env(&t, "", "CARGO_REGISTRY_TOKEN=@\nCARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS=cargo:token\nCARGO_REGISTRIES_MY_CRATES_TOKEN=@\n");
        test_bind(&t, ACCOUNT_PYPI, "wheels");
        assert_env(&t, "", "TWINE_PASSWORD=@\nUV_PUBLISH_TOKEN=@\nTWINE_USERNAME=__token__\n");
        t.b.attach = true;
        assert_env(&t, "X", "");
        t.b.attach = false;
        t.b.placeholder = SLICE_EMPTY;
        assert_env(&t, "X", "");
}

/* ---- lines -------------------------------------------------------------------------------------------------------------------------------- */

static void test_git(void **state)
{
        struct test_binding t;
        char out[TEXT], want[TEXT], before[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_GITHUB, "forge");
        snprintf(want, TEXT, BEGIN "https://x-access-token:%s@other.example:8443\n" END, t.placeholder); /* none for api.example: git does not go there */
        assert_int_equal(write_file(".git-credentials", &t.b, 1, "", out), 1);
        assert_string_equal(out, want);
        /* git moved our line to the top: it is ours still, and the guest's own stays */
        snprintf(before, TEXT, "https://x-access-token:%s@other.example:8443\nhttps://me:mine@elsewhere.example\n" BEGIN END, t.placeholder);
        snprintf(want, TEXT, "https://me:mine@elsewhere.example\n" BEGIN "https://x-access-token:%s@other.example:8443\n" END, t.placeholder);
        assert_int_equal(write_file(".git-credentials", &t.b, 1, before, out), 1);
        assert_string_equal(out, want);
        assert_int_equal(write_file(".git-credentials", NULL, 0, want, out), 1);
        assert_string_equal(out, "https://me:mine@elsewhere.example\n");
        assert_file(".gitconfig", &t, "[user]\n\tname = me", "[user]\n\tname = me\n" BEGIN "[credential \"https://other.example:8443\"]\n\thelper = store\n" END);
        assert_file(".gitconfig", &t, BEGIN "old\n" END "[user]\r\n", BEGIN "[credential \"https://other.example:8443\"]\n\thelper = store\n" END "[user]\r\n");
        test_bind(&t, ACCOUNT_BASIC, "deploy");
        t.b.user = SLICE_LIT("a b:c@d/%");
        snprintf(want, TEXT, BEGIN "https://a%%20b%%3Ac%%40d%%2F%%25:%s@" HOST "\nhttps://a%%20b%%3Ac%%40d%%2F%%25:%s@other.example:8443\n" END, t.placeholder, t.placeholder);
        assert_int_equal(write_file(".git-credentials", &t.b, 1, "", out), 1);
        assert_string_equal(out, want);
        assert_int_equal(write_file(".netrc", &t.b, 1, "", out), 0); /* a user name that the format cannot hold */
}

static void test_gh(void **state)
{
        struct test_binding t;

        (void)state;
        test_bind(&t, ACCOUNT_GITHUB, "forge");
        t.hosts[0].name = SLICE_LIT("api.forge.example");
        t.hosts[1] = (struct binding_host){ SLICE_LIT("forge.example"), 443 };
#define ENTRY "forge.example:\n    user: brome\n    oauth_token: @\n    users:\n        brome:\n            oauth_token: @\n    git_protocol: https\n"
        assert_file(".config/gh/hosts.yml", &t, "", BEGIN ENTRY END);
        assert_file(".config/gh/hosts.yml", &t, "{}\n", BEGIN ENTRY END);
        assert_file(".config/gh/hosts.yml", &t, "ghe.example:\n    user: me\n", "ghe.example:\n    user: me\n" BEGIN ENTRY END);
        assert_removed(".config/gh/hosts.yml", &t, "ghe.example:\n    user: me\n" BEGIN ENTRY END, "ghe.example:\n    user: me\n");
        char out[TEXT];
        assert_int_equal(write_file(".config/gh/hosts.yml", &t.b, 1, "forge.example:\n    user: me\n", out), 0); /* a key twice is no YAML */
}

static void test_npm_netrc(void **state)
{
        struct test_binding t;
        char out[TEXT], stray[TEXT], filled[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_NPM, "npm");
        assert_file(".npmrc", &t, "registry=https://mirror.corp.example/\n", "registry=https://mirror.corp.example/\n" BEGIN "//" HOST "/:_authToken=@\n//other.example:8443/:_authToken=@\n" END);
        /* npm wrote the file anew, without comments */
        test_fill(stray, TEXT, "//" HOST "/:_authToken=@\nfund=false\n//other.example:8443/:_authToken=@\n", t.placeholder);
        assert_int_equal(write_file(".npmrc", &t.b, 1, stray, out), 1);
        assert_string_equal(out, test_fill(filled, TEXT, "fund=false\n" BEGIN "//" HOST "/:_authToken=@\n//other.example:8443/:_authToken=@\n" END, t.placeholder));
        assert_int_equal(write_file(".npmrc", NULL, 0, stray, out), 1);
        assert_string_equal(out, "fund=false\n");
        assert_int_equal(write_file(".npmrc", NULL, 0, "//x.example/:_authToken=npm_mine\n", out), 0);
        test_bind(&t, ACCOUNT_PYPI, "wheels");
        assert_file(".netrc", &t, "machine mine.example login a password b\n",
                    BEGIN "machine " HOST " login __token__ password @\nmachine other.example login __token__ password @\n" END "machine mine.example login a password b\n");
}

static void test_toml(void **state)
{
        struct test_binding t;
        char out[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_CARGO, "my-crates");
        assert_file(".cargo/credentials.toml", &t, "[registry]\ntoken = \"x\"\n", "[registry]\ntoken = \"x\"\n" BEGIN "[registries.my-crates]\ntoken = \"@\"\n" END);
        assert_int_equal(write_file(".cargo/credentials.toml", &t.b, 1, "[registries.my-crates]\ntoken = \"x\"\n", out), 0);
        test_bind(&t, ACCOUNT_MCP, "tools");
        assert_file(".codex/config.toml", &t, "model = \"m\"\n",
                    "model = \"m\"\n" BEGIN "[mcp_servers.tools]\nurl = \"https://" HOST "/mcp\"\nhttp_headers = { \"Authorization\" = \"Bearer @\" }\n" END);
}

static void test_marks(void **state)
{
        static const char *const broken[] = { BEGIN, "a\n" BEGIN "b\n", BEGIN END BEGIN };
        struct test_binding t;
        char out[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_NPM, "npm");
        for (size_t i = 0; i < COUNT(broken); i++)
                assert_int_equal(write_file(".npmrc", &t.b, 1, broken[i], out), -1);
        assert_file(".npmrc", &t, "a\n" BEGIN "x\n" END "b\n" BEGIN "y\n" END "c", "a\n" BEGIN "//" HOST "/:_authToken=@\n//other.example:8443/:_authToken=@\n" END "b\nc");
        assert_removed(".npmrc", &t, "a\n" BEGIN "x\n" END "b\n" BEGIN "y\n" END "c", "a\nb\nc");
        assert_removed(".npmrc", &t, "a\r\n# >>> brome: placeholders, written anew at every start\r\nx\r\n# <<< brome\r\nb\r\n", "a\r\nb\r\n");
        assert_int_equal(write_file(".npmrc", NULL, 0, "a\n# <<< brome\nb\n", out), 0); /* an end alone is the guest's */
        assert_int_equal(write_file(".npmrc", NULL, 0, "", out), 0);
        t.b.attach = true;
        assert_int_equal(write_file(".npmrc", &t.b, 1, "", out), 0);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void test_docker(void **state)
{
        struct test_binding t;
        char out[TEXT];
        json_t *o;

        (void)state;
        test_bind(&t, ACCOUNT_REGISTRY, "images");
        t.b.user = SLICE_LIT("me");
        assert_int_equal(write_file(".docker/config.json", &t.b, 1, "", out), 1);
        o = json_loads(out, 0, NULL);
        assert_int_equal(json_object_size(json_object_get(o, "auths")), 2);
        json_decref(o);
        assert_int_equal(write_file(".docker/config.json", &t.b, 1, "{\"psFormat\":\"x\",\"auths\":{\"mine.example\":{\"auth\":\"eDp5\"},\"" HOST "\":{\"auth\":\"eDp5\"}}}", out), 1);
        o = json_loads(out, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(o, "psFormat")), "x");
        assert_int_equal(json_object_size(json_object_get(o, "auths")), 3);
        assert_string_equal(json_string_value(json_object_get(json_object_get(json_object_get(o, "auths"), HOST), "auth")), "eDp5"); /* the guest's own stays */
        json_decref(o);
        char before[TEXT];
        snprintf(before, sizeof(before), "%s", out);
        assert_int_equal(write_file(".docker/config.json", NULL, 0, before, out), 1);
        o = json_loads(out, 0, NULL);
        assert_int_equal(json_object_size(json_object_get(o, "auths")), 2);
        json_decref(o);
        assert_int_equal(write_file(".docker/config.json", NULL, 0, "{ \"a\" : 1.50 }", out), 0);
}

static json_t *server_of(const char *text, const char *servers, const char *name, json_t **root)
{
        *root = json_loads(text, 0, NULL);
        return json_object_get(json_object_get(*root, servers), name);
}

static void test_mcp(void **state)
{
        struct test_binding t;
        char out[TEXT], before[TEXT], bearer[TEXT];
        json_t *root, *s;

        (void)state;
        test_bind(&t, ACCOUNT_MCP, "tools");
        snprintf(bearer, sizeof(bearer), "Bearer %s", t.placeholder);
        assert_int_equal(write_file(".claude.json", &t.b, 1, "{\"numStartups\":3,\"mcpServers\":{\"mine\":{\"command\":\"x\"}}}", out), 1);
        s = server_of(out, "mcpServers", "tools", &root);
        assert_string_equal(json_string_value(json_object_get(s, "type")), "http");
        assert_string_equal(json_string_value(json_object_get(s, "url")), "https://" HOST "/mcp");
        assert_string_equal(json_string_value(json_object_get(json_object_get(s, "headers"), "Authorization")), bearer);
        assert_non_null(json_object_get(json_object_get(root, "mcpServers"), "mine"));
        /* the guest changed the path: it stays, and a new placeholder is brought in */
        json_object_set_new(s, "url", json_string("https://" HOST "/v1/mcp"));
        test_mint(ACCOUNT_MCP, 5, t.placeholder);
        char *changed = json_dumps(root, 0);
        assert_int_equal(write_file(".claude.json", &t.b, 1, changed, out), 1);
        free(changed);
        json_decref(root);
        s = server_of(out, "mcpServers", "tools", &root);
        snprintf(bearer, sizeof(bearer), "Bearer %s", t.placeholder);
        assert_string_equal(json_string_value(json_object_get(s, "url")), "https://" HOST "/v1/mcp");
        assert_string_equal(json_string_value(json_object_get(json_object_get(s, "headers"), "Authorization")), bearer);
        json_decref(root);
        snprintf(before, sizeof(before), "%s", out);
        assert_int_equal(write_file(".claude.json", NULL, 0, before, out), 1);
        assert_null(strstr(out, "tools"));
        assert_non_null(strstr(out, "\"mine\""));
        assert_int_equal(write_file(".gemini/settings.json", &t.b, 1, "", out), 1);
        assert_non_null(strstr(out, "\"httpUrl\": \"https://" HOST "/mcp\""));
        assert_int_equal(write_file(".config/opencode/opencode.json", &t.b, 1, "", out), 1);
        assert_non_null(strstr(out, "\"type\": \"remote\""));
}

/* One member changes; what stands around it keeps its numbers, escapes, blanks and order. */
static void test_json_in_place(void **state)
{
#define SERVER "{\n    \"tools\": {\n      \"httpUrl\": \"https://" HOST "/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer @\"\n      }\n    }\n  }"
        static const struct {
                const char *present, *want;
        } rows[] = {
                { "", "{\n  \"mcpServers\": " SERVER "\n}\n" },
                { " \n", "{\n  \"mcpServers\": " SERVER "\n}\n" },
                { "{ }", "{\n  \"mcpServers\": " SERVER "\n }" },
                { "{\"a\":1.50}", "{\"a\":1.50,\n  \"mcpServers\": " SERVER "}" },
                { "{\n\t\"a\" : [ {\"mcpServers\":1}, \"}\\\"\\u0000\" ] , \"\\u00e4\":1e3\n}\r\n", "{\n\t\"a\" : [ {\"mcpServers\":1}, \"}\\\"\\u0000\" ] , \"\\u00e4\":1e3,\n  \"mcpServers\": " SERVER "\n}\r\n" },
                { "{\"x\":0.1 , \"mcpServers\" :{}  ,\"y\":-0}", "{\"x\":0.1 , \"mcpServers\" :" SERVER "  ,\"y\":-0}" },
                { "{\"mcpServers\":{ }}", "{\"mcpServers\":" SERVER "}" },
        };
        struct test_binding t;
        char out[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_MCP, "tools");
        for (size_t i = 0; i < COUNT(rows); i++)
                assert_file(".gemini/settings.json", &t, rows[i].present, rows[i].want);
        assert_int_equal(write_file(".gemini/settings.json", &t.b, 1, "{\"mcp\\u0053ervers\":{}}", out), -1); /* the name in another spelling */
}

static void test_agents(void **state)
{
        static const char claude[] = "{\n  \"hasCompletedOnboarding\": true,\n  \"customApiKeyResponses\": {\n    \"approved\": [\n      \"%s\"\n    ],\n    \"rejected\": []\n  }\n}\n";
        static const char gemini[] = "{\n  \"security\": {\n    \"auth\": {\n      \"selectedType\": \"gemini-api-key\"\n    }\n  },\n  \"privacy\": {\n    \"usageStatisticsEnabled\": false\n  },\n"
                                     "  \"general\": {\n    \"enableAutoUpdate\": false,\n    \"enableAutoUpdateNotification\": false\n  }\n}\n";
        struct test_binding t;
        char out[TEXT], want[TEXT], before[TEXT], mixed[TEXT];
        const char *tail;

        (void)state;
        test_bind(&t, ACCOUNT_ANTHROPIC, "model");
        tail = t.placeholder + strlen(t.placeholder) - 20;
        assert_int_equal(write_file(".claude.json", &t.b, 1, "", out), 1);
        snprintf(want, sizeof(want), claude, tail);
        assert_string_equal(out, want);
        /* What the person answered stays, whatever it was; the rest byte for byte. */
        snprintf(before, sizeof(before), "{\"n\":1.50,\"hasCompletedOnboarding\":false, \"customApiKeyResponses\":{\"rejected\":[\"%s\"],\"approved\":[\"x\"]}}", tail);
        assert_int_equal(write_file(".claude.json", &t.b, 1, before, out), 0);
        assert_int_equal(write_file(".claude.json", &t.b, 1, "{\"n\":1.50,\"hasCompletedOnboarding\":1,\"customApiKeyResponses\":{\"approved\":[\"x\"]} , \"m\":-0}", out), 1);
        assert_non_null(strstr(out, "{\"n\":1.50,\"hasCompletedOnboarding\":1,\"customApiKeyResponses\":{\n"));
        assert_non_null(strstr(out, " , \"m\":-0}"));
        assert_non_null(strstr(out, tail));
        assert_int_equal(write_file(".claude.json", &t.b, 1, "{\"hasCompletedOnboarding\":true,\"customApiKeyResponses\":7}", out), 0);
        assert_int_equal(write_file(".claude.json", NULL, 0, want, out), 0);
        test_bind(&t, ACCOUNT_GEMINI, "model");
        assert_file(".gemini/settings.json", &t, "", gemini);
        assert_int_equal(write_file(".gemini/settings.json", &t.b, 1, "{\"security\":{\"auth\":{\"selectedType\":\"oauth-personal\"}},\"privacy\":[],\"general\":0}", out), 0);
        test_bind(&t, ACCOUNT_OPENAI, "model");
        assert_file(".codex/auth.json", &t, "", "{\n  \"auth_mode\": \"apikey\",\n  \"OPENAI_API_KEY\": \"@\"\n}\n");
        assert_file(".codex/auth.json", &t, "{\"OPENAI_API_KEY\":null,\"last_refresh\":null}", "{\"OPENAI_API_KEY\":\"@\",\"last_refresh\":null,\n  \"auth_mode\": \"apikey\"}");
        assert_removed(".codex/auth.json", &t, "{\"auth_mode\":\"apikey\",\"OPENAI_API_KEY\":\"@\"}", "{\"auth_mode\":\"apikey\",\"OPENAI_API_KEY\":null}");
        assert_int_equal(write_file(".codex/auth.json", &t.b, 1, "{\"auth_mode\":\"chatgpt\",\"OPENAI_API_KEY\":null}", out), 0);
        assert_int_equal(write_file(".codex/auth.json", &t.b, 1, "{\"OPENAI_API_KEY\":\"sk-mine\"}", out), 0);
        assert_int_equal(write_file(".codex/auth.json", &t.b, 1, "{\"OPENAI_API_KEY\":null,\"tokens\":{}}", out), 0);
        assert_file(".codex/config.toml", &t, "", BEGIN "[features]\napi_key_model_discovery = false\nplugins = false\n[analytics]\nenabled = false\n" END);
        assert_file(".codex/config.toml", &t, "model = \"x\"\n[ \"features\" ]\nplugins = true\n", "model = \"x\"\n[ \"features\" ]\nplugins = true\n" BEGIN "[analytics]\nenabled = false\n" END);
        assert_removed(".codex/config.toml", &t, "model = \"x\"\n" BEGIN "[features]\nplugins = false\n" END, "model = \"x\"\n");
        /* With servers of MCP in the same file; two keys of one vendor say it once. */
        struct test_binding u, v;
        test_bind(&u, ACCOUNT_MCP, "tools");
        test_bind(&v, ACCOUNT_OPENAI, "second");
        struct binding three[] = { t.b, u.b, v.b };
        assert_int_equal(write_file(".codex/config.toml", three, 3, "", mixed), 1);
        assert_non_null(strstr(mixed, "[mcp_servers.tools]"));
        assert_null(strstr(strstr(mixed, "[features]") + 1, "[features]"));
}

static void test_json_left_alone(void **state)
{
        static const char *const broken[] = { "[]", "{", "// comment\n{}", "{\"a\":1,\"a\":2}", "{\"mcpServers\":[]}", "null" };
        struct test_binding t;
        char out[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_MCP, "tools");
        for (size_t i = 0; i < COUNT(broken); i++)
                assert_int_equal(write_file(".claude.json", &t.b, 1, broken[i], out), -1);
        assert_int_equal(write_file(".claude.json", &t.b, 1, "{\"mcpServers\":{\"tools\":{\"command\":\"mine\"}}}", out), 0);
        assert_int_equal(write_file(".claude.json", NULL, 0, "", out), 0);
}

static void test_large(void **state)
{
        char *text = calloc(1, GUEST_FILE_BYTES_MAX + 1);
        struct buf out;
        const char *why = NULL;

        (void)state;
        assert_non_null(text);
        buf_init(&out, 0);
        assert_int_equal(guest_file(0, NULL, 0, slice_of(text, GUEST_FILE_BYTES_MAX + 1), &out, &why), -1);
        assert_non_null(why);
        assert_int_equal(guest_file(1000, NULL, 0, SLICE_EMPTY, &out, &why), -1);
        buf_fini(&out);
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_env),  cmocka_unit_test(test_git),   cmocka_unit_test(test_gh),     cmocka_unit_test(test_npm_netrc),
                cmocka_unit_test(test_toml), cmocka_unit_test(test_marks), cmocka_unit_test(test_docker), cmocka_unit_test(test_mcp),
                cmocka_unit_test(test_json_in_place), cmocka_unit_test(test_agents), cmocka_unit_test(test_json_left_alone), cmocka_unit_test(test_large),
        };
        return cmocka_run_group_tests_name("account/guest", tests, NULL, NULL);
}
