/* Whose account a request uses: every place in which a placeholder or another key can stand, for both doors. "@" is the workspace's placeholder. */
#include "account_test.h"

#include "account/basic.h"
#include "account/check.h"

enum { TEXT = 4096 };

struct row {
        const char *line, *fields;
        enum account_reason reason;
        enum account_slot slot; /* SLOT_COUNT: not used */
};

static void check_at(void **state, const struct binding *b, const struct row *r, struct account_use *u)
{
        char line[TEXT], fields[TEXT];
        struct request req;
        const char *x = (const char *)b->placeholder.p;

        test_request(*state, test_fill(line, TEXT, r->line, x), test_fill(fields, TEXT, r->fields, x), &req);
        account_check(b, &req, u);
        if (u->reason != r->reason)
                fail_msg("%s / %s: %s, not: %s", r->line, r->fields, account_reason_sentence(u->reason), account_reason_sentence(r->reason));
        if (u->reason == ACCOUNT_OK && (u->used ? u->field.slot : SLOT_COUNT) != r->slot)
                fail_msg("%s / %s: used %d, slot %d", r->line, r->fields, u->used, (int)u->field.slot);
        assert_true(u->reason == ACCOUNT_OK || !u->used);
        assert_true(u->header == SIZE_MAX || u->header < req.headers.n);
}

static void run(void **state, const struct binding *b, const struct row *rows, size_t n)
{
        struct account_use u;

        for (size_t i = 0; i < n; i++)
                check_at(state, b, &rows[i], &u);
}

#define NONE SLOT_COUNT
static const struct row bearer_rows[] = {
        { "GET /", "", ACCOUNT_OK, NONE },
        { "GET /?page=2&q=key", "User-Agent: x\r\nX-CSRF-Token: abc\r\nIdempotency-Key: 1\r\n", ACCOUNT_OK, NONE },
        { "GET /?page_token=abc&next_page_token=x&max_tokens=7", "", ACCOUNT_OK, NONE },
        { "GET /token?account=me&client_id=docker&offline_token=true&scope=repository%3Aa%3Apull&service=s", "", ACCOUNT_OK, NONE },
        { "GET /", "Accept: */*\r\nMcp-Session-Id: 1\r\nNpm-Auth-Type: web\r\nX-Goog-Api-Client: x\r\nOpenAI-Organization: o\r\nX-Client-Request-Id: 1\r\n", ACCOUNT_OK, NONE },
        { "GET /", "Authorization: Bearer @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
        { "GET /", "authorization: token @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
        { "GET /", "Authorization: @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
        { "GET /", "Authorization: Bearer  @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Authorization: a,b @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Authorization: Bearer @x\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Authorization: Bearer @, Bearer other\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Authorization: Bearer \"@\"\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Authorization: Basic @\r\n", ACCOUNT_UNDECODABLE, NONE },
        { "GET /", "Authorization: Bearer sk-somebody-elses\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Authorization: Digest username=\"x\"\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Authorization: Basic dXNlcjpwYXNz\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Authorization: Basic dXNlcg==\r\n", ACCOUNT_UNDECODABLE, NONE },
        { "GET /", "Authorization: basic !!!\r\n", ACCOUNT_UNDECODABLE, NONE },
        { "GET /", "Authorization: Bearer @\r\nCookie: a=b\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Cookie: a=b\r\nAuthorization: Bearer @\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Authorization: Bearer @\r\nAuthorization: Bearer other-key\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "Authorization: Bearer @\r\nAuthorization: Bearer @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /", "Authorization: Bearer @\r\nX-Api-Key: @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /", "Authorization: Bearer @\r\nUser-Agent: a @ b\r\n", ACCOUNT_TWICE, NONE },
        { "GET /@", "Authorization: Bearer @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /?x=a@", "Authorization: Bearer @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /?@", "Authorization: Bearer @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /@", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /a@b", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /?token=@", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /?x=@", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /?@=x", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "X-Api-Key: @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Cookie: session=@\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "Referer: https://a.example/?q=@\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "X-@: 1\r\n", ACCOUNT_WRONG_FIELD, NONE },
};

static void test_bearer(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_BEARER, "api");
        run(state, &t.b, bearer_rows, COUNT(bearer_rows));
}

/* Every name of the table, in the spellings that origins fold. */
static void test_foreign_names(void **state)
{
        static const char *const headers[] = {
                "Authorization", "Cookie", "Cookie2", "X-Api-Key", "x_api_key", "Api-Key", "ApiKey", "X-Goog-Api-Key", "Private-Token", "Job-Token",
                "Deploy-Token", "X-Auth-Token", "X_Auth_Token", "X-Access-Token", "X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "X-Registry-Auth",
                "X-Authorization", "X-Forwarded-Authorization", "X-Auth", "X-Vault-Token", "XI-Api-Key", "DD-API-KEY", "DD-Application-Key",
                "X-JFrog-Art-Api", "X-NuGet-ApiKey", "CF-Access-Client-Secret", "CF-Access-Jwt-Assertion", "X-Client-Secret", "X-Key", "X-Amz-Credential",
                "X-Sentry-Auth", "Helicone-Auth", "X-RapidAPI-Key", "X-Functions-Key", "X-Plex-Token", "X-Password", "X-Unheard-Of-Vendor-Api-Key",
                "Fastly-Key", "X-Appwrite-Key", "X-Parse-Master-Key", "X-Query-Key", "X-PagerDuty-Api-Key", "X-Sync-Password", "X-Next-Secret",
                "X-Very-Long-Name-Of-A-Header-That-Goes-On-And-On-Past-Any-Table-Of-Names-Api-Key",
        };
        static const char *const keys[] = {
                "key", "KEY", "api_key", "api-key", "apikey", "apiKey", "access_token", "accessToken", "token", "auth", "auth_token", "private_token",
                "%6bey", "k%65y", "api%5Fkey", "api.key", "+key", "key%5B0%5D", "key[]", "token[a]", "key%00x", "sig", "signature", "X-Amz-Signature",
                "x-goog-credential", "X-Amz-Security-Token", "AWSAccessKeyId", "GoogleAccessId", "client_secret", "password", "jwt", "subscription-key",
                "oauth_consumer_key", "serviceKey", "pagerduty_api_key", "cursor_access_key",
                /* nested, as PHP, Rails, qs and Spring read it */
                "user[access_token]", "user%5Baccess_token%5D", "a.access_token", "a%2Eaccess_token", "access_token[]", "access_token%5B%5D", "access_token%5B0%5D",
                "access_token[a][b]", "[access_token]", "user[][password]", "user%5B0%5D%5Bkey%5D", "a[b][c][sig]", "USER[Access_Token]", "User%5bACCESS-token%5d",
                "a[b.jwt]", "access[token", "a]password", "auth.key", "user[+key]", "user[key%00]", "x%00token", "a..token", "a.[key].b",
                /* escaped more than once */
                "access%255Ftoken", "%2561ccess_token", "%25%36%31ccess_token", "%252561ccess_token", "user%255Baccess_token%255D", "%256b%2565%2579", "%25access_key", "k%2565y%255B%255D",
                "x_very_long_name_of_a_key_that_goes_on_and_on_past_any_table_of_names_access_token",
        };
        struct test_binding t;
        struct account_use u;
        char line[TEXT], fields[TEXT];

        test_bind(&t, ACCOUNT_BEARER, "api");
        for (size_t i = 0; i < COUNT(headers); i++) {
                struct row r = { "GET /", test_fill(fields, TEXT, "@: abc\r\n", headers[i]), ACCOUNT_FOREIGN, NONE };
                check_at(state, &t.b, &r, &u);
                assert_int_equal(u.header, 0);
        }
        for (size_t i = 0; i < COUNT(keys); i++) {
                struct row r = { test_fill(line, TEXT, "GET /?a=1&@=abc", keys[i]), "", ACCOUNT_FOREIGN, NONE };
                assert_true(account_is_query(slice_str(keys[i])));
                if (!strpbrk(keys[i], "[]") && !strstr(keys[i], "%00")) { /* what the codec refuses anyway */
                        check_at(state, &t.b, &r, &u);
                        assert_int_equal(u.field.slot, SLOT_QUERY);
                }
        }
        assert_false(account_is_header(SLICE_LIT("content-type")));
        assert_false(account_is_header(SLICE_LIT("sec-websocket-key")));
        assert_false(account_is_header(SLICE_LIT("x-idempotency-key")));
        assert_false(account_is_header(SLICE_LIT("x-xsrf-token")));
        assert_false(account_is_query(SLICE_LIT("nextSyncToken")));
        assert_false(account_is_query(SLICE_LIT("sort_key")));
        assert_false(account_is_header(SLICE_LIT("x-stainless-retry-count")));
        assert_false(account_is_header(SLICE_LIT("anthropic-beta")));
        assert_false(account_is_query(SLICE_LIT("keys")));
        assert_false(account_is_query(SLICE_LIT("monkey")));
        assert_false(account_is_query(SLICE_LIT("pageToken")));
        assert_false(account_is_query(SLICE_LIT("page[token]")));
        assert_false(account_is_query(SLICE_LIT("page.token")));
        assert_false(account_is_query(SLICE_LIT("sort[key]")));
        assert_false(account_is_query(SLICE_LIT("filter[name][]")));
        assert_false(account_is_query(SLICE_LIT("a[keys]")));
        assert_false(account_is_query(SLICE_LIT("[]")));
        assert_false(account_is_query(SLICE_LIT("%25")));
        assert_false(account_is_query(SLICE_LIT("")));
        assert_true(account_same_query(SLICE_LIT("a[Tok-en]"), SLICE_LIT("tok_en")));
        assert_true(account_same_query(SLICE_LIT("a.b"), SLICE_LIT("a.b")));
        assert_false(account_same_query(SLICE_LIT("a.b"), SLICE_LIT("a.b.c")));
        assert_false(account_same_query(SLICE_LIT("tokens"), SLICE_LIT("token")));
        assert_false(account_is_header(SLICE_EMPTY) || account_is_header(SLICE_LIT("y")) || account_is_header(SLICE_LIT("ey")) || account_is_header(SLICE_LIT("-ey")));
        assert_true(account_is_query(SLICE_LIT("key")) && account_is_query(SLICE_LIT("Sig")) && account_is_header(SLICE_LIT("X.Api Key")));
        assert_true(account_same_header(SLICE_LIT("x-api-key"), SLICE_LIT("X_API_Key")) && !account_same_header(SLICE_LIT("x-api-key"), SLICE_LIT("x-api-keys")));
}

/* Where in a text it stands, and how it is spelt there, changes nothing: at its very end, escaped in part, with less behind it than would hold another. */
static void test_last_in_text(void **state)
{
        static const struct row rows[] = {
                { "GET /", "X-A: @\r\n", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /", "X-A: b brm brm@\r\n", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /?a=%25%62%62@", "", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /@", "", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /", "X-A: @b\r\nX-B: b@\r\n", ACCOUNT_TWICE, NONE },
        };
        struct test_binding t;
        struct account_use u;

        test_bind(&t, ACCOUNT_BEARER, "api");
        for (size_t i = 0; i < COUNT(rows); i++)
                check_at(state, &t.b, &rows[i], &u);
}

#define HANDSHAKE "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: "
static const struct row protocol_rows[] = {
        { "GET /", HANDSHAKE "realtime, openai-insecure-api-key.sk-abc\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", HANDSHAKE "graphql-ws, eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", HANDSHAKE "graphql-ws, v12.stomp\r\n", ACCOUNT_OK, NONE },
};

static void test_protocols(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_OPENAI, "openai");
        run(state, &t.b, protocol_rows, COUNT(protocol_rows));
}

static const struct row vendor_rows[] = {
        { "GET /", "X-Api-Key: @\r\nAnthropic-Version: 2023-06-01\r\n", ACCOUNT_OK, SLOT_HEADER },
        { "GET /", "Authorization: Bearer @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
        { "GET /", "X-Api-Key: Bearer @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /", "X-Api-Key: @\r\nX-Api-Key: sk-ant-api03-other\r\n", ACCOUNT_FOREIGN, NONE },
        { "GET /", "X_Api_Key: @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /?key=@", "", ACCOUNT_WRONG_FIELD, NONE },
};
static const struct row query_rows[] = {
        { "GET /?key=@", "", ACCOUNT_OK, SLOT_QUERY },
        { "GET /?a=b&key=@&c=d", "", ACCOUNT_OK, SLOT_QUERY },
        { "GET /?KEY=@", "", ACCOUNT_OK, SLOT_QUERY },
        { "GET /?%6bey=@", "", ACCOUNT_OK, SLOT_QUERY },
        { "GET /?key=@&key=@", "", ACCOUNT_TWICE, NONE },
        { "GET /?key=@&key=other", "", ACCOUNT_FOREIGN, NONE },
        { "GET /?key=x@", "", ACCOUNT_WRONG_FIELD, NONE },
        { "GET /?key=@&access_token=abc", "", ACCOUNT_FOREIGN, NONE },
        { "GET /?a=1;key=@", "", ACCOUNT_OK, SLOT_QUERY },
        { "GET /?key=@", "X-Goog-Api-Key: @\r\n", ACCOUNT_TWICE, NONE },
        { "GET /?key", "X-Goog-Api-Key: @\r\n", ACCOUNT_OK, SLOT_HEADER },
};

static void test_vendors(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_ANTHROPIC, "claude");
        run(state, &t.b, vendor_rows, COUNT(vendor_rows));
        test_bind(&t, ACCOUNT_GEMINI, "gemini");
        run(state, &t.b, query_rows, COUNT(query_rows));
}

/* user ":" password in base64; "@" is the placeholder. */
static enum account_reason check_basic(void **state, const struct binding *b, const char *text, struct account_use *u)
{
        char plain[TEXT], encoded[TEXT * 2] = "", fields[TEXT * 3];
        struct request req;
        struct slice s = slice_str(test_fill(plain, TEXT, text, (const char *)b->placeholder.p));

        encoded[base64_encode(s, encoded)] = '\0';
        test_request(*state, "GET /", test_fill(fields, sizeof(fields), "Authorization: Basic @\r\n", encoded), &req);
        account_check(b, &req, u);
        return u->reason;
}

static void test_basic(void **state)
{
        struct test_binding t;
        struct account_use u;

        test_bind(&t, ACCOUNT_GITHUB, "forge");
        assert_int_equal(check_basic(state, &t.b, "x-access-token:@", &u), ACCOUNT_OK);
        assert_true(u.used && u.field.slot == SLOT_BASIC && u.header == 0);
        assert_int_equal(check_basic(state, &t.b, ":@", &u), ACCOUNT_OK);
        assert_int_equal(check_basic(state, &t.b, "@:", &u), ACCOUNT_OK);
        assert_int_equal(check_basic(state, &t.b, "@:x-oauth-basic", &u), ACCOUNT_OK);
        assert_int_equal(check_basic(state, &t.b, "@:other", &u), ACCOUNT_WRONG_FIELD);
        assert_int_equal(check_basic(state, &t.b, "@:@", &u), ACCOUNT_TWICE);
        assert_int_equal(check_basic(state, &t.b, "user:@x", &u), ACCOUNT_WRONG_FIELD);
        assert_int_equal(check_basic(state, &t.b, "user:x:@", &u), ACCOUNT_WRONG_FIELD);
        assert_int_equal(check_basic(state, &t.b, "user:pass", &u), ACCOUNT_FOREIGN);
        assert_int_equal(check_basic(state, &t.b, "@", &u), ACCOUNT_UNDECODABLE);
        assert_int_equal(check_basic(state, &t.b, "a\nb:@", &u), ACCOUNT_UNDECODABLE);
        assert_int_equal(check_basic(state, &t.b, "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:@", &u), ACCOUNT_WRONG_FIELD); /* another's key beside ours */
        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_int_equal(check_basic(state, &t.b, "user:@", &u), ACCOUNT_WRONG_FIELD);
        t.b.foreign_ok = true;
        assert_int_equal(check_basic(state, &t.b, "user:pass", &u), ACCOUNT_OK);
        assert_int_equal(check_basic(state, &t.b, "user:@", &u), ACCOUNT_WRONG_FIELD);
}

/* Where the credential says whose it is, nobody else's name goes out beside its secret. */
static void test_basic_user(void **state)
{
        struct test_binding t;
        struct account_use u;

        test_bind(&t, ACCOUNT_BASIC, "repo");
        t.b.user = SLICE_LIT("deploy");
        assert_int_equal(check_basic(state, &t.b, "deploy:@", &u), ACCOUNT_OK);
        assert_true(u.used && u.field.slot == SLOT_BASIC);
        for (int foreign_ok = 0; foreign_ok < 2; foreign_ok++) {
                static const char *const others[] = { "root:@", "Deploy:@", "deploy :@", "deployer:@", "deplo:@", ":@", "@:", "@:x-oauth-basic", "x-access-token:@" };

                t.b.foreign_ok = foreign_ok;
                for (size_t i = 0; i < COUNT(others); i++) {
                        assert_int_equal(check_basic(state, &t.b, others[i], &u), ACCOUNT_OTHER_USER);
                        assert_int_equal(u.header, 0);
                        assert_false(u.used);
                }
                assert_int_equal(check_basic(state, &t.b, "deploy:@x", &u), ACCOUNT_WRONG_FIELD);
                assert_int_equal(check_basic(state, &t.b, "@:@", &u), ACCOUNT_TWICE);
        }
        /* What clients send by themselves, where nothing is said. */
        test_bind(&t, ACCOUNT_PYPI, "index");
        assert_int_equal(check_basic(state, &t.b, "__token__:@", &u), ACCOUNT_OK);
        test_bind(&t, ACCOUNT_GITLAB, "lab");
        assert_int_equal(check_basic(state, &t.b, "oauth2:@", &u), ACCOUNT_OK);
        assert_int_equal(check_basic(state, &t.b, "me:@", &u), ACCOUNT_OK);
}

/* Whatever the case and the escapes, it is found; only exact it is used. */
static void test_disguised(void **state)
{
        struct test_binding t;
        struct account_use u;
        struct request req;
        char upper[PLACEHOLDER_BYTES_MAX + 1], escaped[PLACEHOLDER_BYTES_MAX * 3 + 1], line[TEXT], fields[TEXT];

        test_bind(&t, ACCOUNT_BEARER, "api");
        for (size_t i = 0; i <= t.b.placeholder.n; i++) {
                char c = t.placeholder[i];
                upper[i] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
                snprintf(escaped + 3 * i, 4, "%%%02x", (unsigned char)c);
        }
        escaped[3 * t.b.placeholder.n] = '\0';
        test_request(*state, "GET /", test_fill(fields, TEXT, "Authorization: Bearer @\r\n", upper), &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_WRONG_FIELD);
        test_request(*state, test_fill(line, TEXT, "GET /?q=@", escaped), "", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_WRONG_FIELD);
        test_request(*state, "GET /", test_fill(fields, TEXT, "X-Url: @\r\n", escaped), &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_WRONG_FIELD);
        test_field(&t, SLOT_QUERY, "code");
        test_request(*state, test_fill(line, TEXT, "GET /?code=@", escaped), "", &req);
        account_check(&t.b, &req, &u);
        assert_true(u.reason == ACCOUNT_OK && u.used);
}

static void test_declared(void **state)
{
        static const struct row rows[] = {
                { "GET /", "X-Search: @\r\n", ACCOUNT_OK, SLOT_HEADER },
                { "GET /", "X-Search: other\r\n", ACCOUNT_FOREIGN, NONE },
                { "GET /", "X_Search: other\r\n", ACCOUNT_FOREIGN, NONE },
                { "GET /", "X-Search: @\r\nX_search: other\r\n", ACCOUNT_FOREIGN, NONE },
                { "GET /", "X_Search: @\r\n", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /?q%5B0%5D=other", "", ACCOUNT_FOREIGN, NONE },
                { "GET /?q=@&+Q%5b=other", "", ACCOUNT_FOREIGN, NONE },
                { "GET /?q=@", "", ACCOUNT_OK, SLOT_QUERY },
                { "GET /?q=other", "", ACCOUNT_FOREIGN, NONE },
                { "GET /", "Authorization: Bearer @\r\n", ACCOUNT_WRONG_FIELD, NONE },
        };
        struct test_binding t;

        test_bind(&t, ACCOUNT_HEADER, "search");
        test_field(&t, SLOT_HEADER, "x-search");
        test_field(&t, SLOT_QUERY, "q");
        run(state, &t.b, rows, COUNT(rows));
}

static void test_foreign_ok(void **state)
{
        static const struct row rows[] = {
                { "GET /?token=other", "Cookie: a=b\r\nX-Api-Key: other\r\n", ACCOUNT_OK, NONE },
                { "GET /?token=other", "Authorization: Bearer @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
                { "GET /", "Authorization: Bearer other\r\nAuthorization: Bearer @\r\n", ACCOUNT_OK, SLOT_AUTHORIZATION },
                { "GET /?token=@", "", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /", "Cookie: @\r\n", ACCOUNT_WRONG_FIELD, NONE },
                { "GET /", "Authorization: Bearer @\r\nCookie: @\r\n", ACCOUNT_TWICE, NONE },
        };
        struct test_binding t;

        test_bind(&t, ACCOUNT_BEARER, "api");
        t.b.foreign_ok = true;
        run(state, &t.b, rows, COUNT(rows));
}

static void test_places(void **state)
{
        struct test_binding t;
        struct account_use u;
        struct request req;
        char fields[TEXT];

        test_bind(&t, ACCOUNT_BEARER, "api");
        test_fill(fields, TEXT, "Authorization: Bearer @\r\n", t.placeholder);
        test_request_at(*state, SCHEME_HTTP, HOST, 443, "GET /", fields, &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_CLEARTEXT);
        test_request_at(*state, SCHEME_HTTPS, HOST, 8443, "GET /", fields, &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_CLEARTEXT);
        test_request_at(*state, SCHEME_HTTPS, "other.example", 8443, "GET /", fields, &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_OK);
        test_request_at(*state, SCHEME_HTTPS, "x." HOST, 443, "GET /", fields, &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_CLEARTEXT);
        test_request_at(*state, SCHEME_HTTP, HOST, 80, "GET /", "Cookie: a=b\r\n", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_FOREIGN);
        test_request(*state, "GET /", fields, &req);
        req.upgrade = WIRE_UPGRADE_WEBSOCKET;
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_OK);
        req.upgrade = WIRE_UPGRADE_OTHER;
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_UPGRADE);
}

/* A policy that is only looked at has no placeholders: nothing is ours then. */
static void test_no_placeholder(void **state)
{
        struct test_binding t;
        struct account_use u;
        struct request req;

        test_bind(&t, ACCOUNT_BEARER, "api");
        t.b.placeholder = SLICE_EMPTY;
        test_request(*state, "GET /", "Authorization: x\r\n", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_FOREIGN);
        test_request(*state, "GET /?token=", "Authorization: \r\nAccept: */*\r\n", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_OK);
        assert_false(u.used);
}

static void test_attach(void **state)
{
        struct test_binding t;
        struct account_use u;
        struct request req;

        test_bind(&t, ACCOUNT_NPM, "mirror");
        t.b.attach = true;
        t.b.placeholder = SLICE_EMPTY;
        test_request(*state, "GET /a?b=1&token=x&c=2;sig=3;d=4&key", "Authorization: Bearer x\r\nAccept: */*\r\nCookie: a=b\r\nX-Api-Key: k\r\n", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_OK);
        assert_true(u.used && u.field.slot == SLOT_AUTHORIZATION && u.header == SIZE_MAX);
        assert_int_equal(account_strip(*state, &req), 0);
        assert_int_equal(req.headers.n, 1);
        assert_slice(req.headers.at[0].name, "accept");
        assert_slice(req.target.query, "b=1&c=2;d=4");
        test_request(*state, "GET /a?token=x", "", &req);
        assert_int_equal(account_strip(*state, &req), 0);
        assert_false(req.target.has_query);
        test_request_at(*state, SCHEME_HTTP, HOST, 80, "GET /", "", &req);
        account_check(&t.b, &req, &u);
        assert_int_equal(u.reason, ACCOUNT_CLEARTEXT);
}

static void test_anonymous(void **state)
{
        struct account_use u;
        struct request req;

        test_request(*state, "GET /?q=1", "Accept: */*\r\nUser-Agent: x\r\n", &req);
        account_check_anonymous(&req, &u);
        assert_int_equal(u.reason, ACCOUNT_OK);
        test_request(*state, "GET /?q=1&api_key=2", "", &req);
        account_check_anonymous(&req, &u);
        assert_int_equal(u.reason, ACCOUNT_NOT_ANONYMOUS);
        assert_slice(u.field.name, "api_key");
        test_request(*state, "GET /", "Accept: */*\r\nCookie: a=b\r\n", &req);
        account_check_anonymous(&req, &u);
        assert_int_equal(u.reason, ACCOUNT_NOT_ANONYMOUS);
        assert_int_equal(u.header, 1);
}

static void test_leaks(void **state)
{
        static const struct {
                const char *line, *fields, *preview; /* NULL: no warning */
        } rows[] = {
                { "GET /", "Authorization: Bearer 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\r\n", "github ghp_…" },
                { "GET /", "Authorization: Bearer sk-ant-api03-abcdefghijklmnopqrstuvwxyz\r\n", "anthropic sk-ant-…" },
                { "GET /", "Authorization: Bearer 0123456789abcdef0123\r\n", "bearer 0123…" },
                { "GET /", "Authorization: Basic dXNlcjpzM2NyZXRwYXNzd29yZA==\r\n", "basic …" },
                { "GET /", "X-Api-Key: 0123456789abcdef0123\r\n", "key 0123…" },
                { "GET /?key=AIzaSy0123456789012345678901234567890123", "", "google AIza…" },
                { "GET /?token=short", "", NULL },
                { "GET /", "Cookie: session=0123456789abcdef0123\r\n", NULL },
                { "GET /", "Authorization: Digest username=\"x\", realm=\"y\"\r\n", NULL },
                { "GET /", "Authorization: Bearer short\r\n", NULL },
                { "GET /", "Authorization: Bearer @\r\n", NULL },
                { "GET /", "Authorization: Bearer github_pat_0123456789012345678901234567890123\r\n", "github github_p…" },
        };
        char x[PLACEHOLDER_BYTES_MAX + 1], fields[TEXT];
        struct account_use u;
        struct request req;

        test_mint(ACCOUNT_GITHUB, 9, x);
        for (size_t i = 0; i < COUNT(rows); i++) {
                test_request(*state, rows[i].line, test_fill(fields, TEXT, rows[i].fields, x), &req);
                account_check(NULL, &req, &u);
                assert_int_equal(u.reason, ACCOUNT_OK);
                assert_false(u.used);
                assert_int_equal(u.leak, rows[i].preview != NULL);
                if (rows[i].preview)
                        assert_string_equal(u.leak_preview, rows[i].preview);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(test_bearer),    ARENA_TEST(test_foreign_names), ARENA_TEST(test_protocols), ARENA_TEST(test_vendors), ARENA_TEST(test_basic),      ARENA_TEST(test_basic_user),
                ARENA_TEST(test_disguised), ARENA_TEST(test_declared),      ARENA_TEST(test_foreign_ok), ARENA_TEST(test_places), ARENA_TEST(test_no_placeholder),
                ARENA_TEST(test_attach),    ARENA_TEST(test_last_in_text),
                ARENA_TEST(test_anonymous), ARENA_TEST(test_leaks),
        };
        return cmocka_run_group_tests_name("account/check", tests, NULL, NULL);
}
