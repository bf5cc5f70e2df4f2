/* Substitution: the secret stands where the placeholder stood and nowhere else, encoded as its field wants it; what cannot be carried is refused. */
#include "account_test.h"

#include "account/basic.h"
#include "account/swap.h"

#define SECRET "real-Secret_0123456789/+=~"

enum { TEXT = 8192 };

/* Judges and swaps; the request as HTTP/1.1 text in *text. */
static int swap_text(void **state, const struct binding *b, const char *line, const char *fields, struct slice secret, struct buf *text)
{
        char l[TEXT], f[TEXT];
        const char *x = b->placeholder.n ? (const char *)b->placeholder.p : "none";
        struct account_use u;
        struct request req;

        test_request(*state, test_fill(l, TEXT, line, x), test_fill(f, TEXT, fields, x), &req);
        account_check(b, &req, &u);
        if (b->attach && account_strip(*state, &req) < 0)
                return -1;
        if (swap_head(*state, b, &u, secret, &req) < 0)
                return -1;
        buf_init(text, 0);
        assert_int_equal(request_to_h1(text, &req, true), 0);
        return 0;
}

static void assert_swapped(void **state, const struct binding *b, const char *line, const char *fields, const char *want)
{
        char f[TEXT];
        struct buf text;

        if (swap_text(state, b, line, fields, SLICE_LIT(SECRET), &text) < 0)
                fail_msg("not swapped: %s %s", line, fields);
        snprintf(f, sizeof(f), "%s HTTP/1.1\r\nhost: " HOST "\r\n%s\r\n", strchr(want, '\n') ? "GET /" : want, strchr(want, '\n') ? want : "");
        assert_slice(buf_slice(&text), f);
        buf_fini(&text);
}

static void assert_basic(void **state, const struct binding *b, const char *plain, struct slice secret, const char *want)
{
        char filled[TEXT], encoded[TEXT], fields[TEXT * 2], expect[TEXT * 4];
        struct buf text;

        encoded[base64_encode(slice_str(test_fill(filled, TEXT, plain, (const char *)b->placeholder.p)), encoded)] = '\0';
        assert_int_equal(swap_text(state, b, "GET /", test_fill(fields, sizeof(fields), "Authorization: Basic @\r\n", encoded), secret, &text), 0);
        encoded[base64_encode(slice_str(want), encoded)] = '\0';
        snprintf(expect, sizeof(expect), "GET / HTTP/1.1\r\nhost: " HOST "\r\nauthorization: Basic %s\r\n\r\n", encoded);
        assert_slice(buf_slice(&text), expect);
        buf_fini(&text);
}

static void test_head(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_swapped(state, &t.b, "GET /", "Authorization: Bearer @\r\n", "authorization: Bearer " SECRET "\r\n");
        assert_swapped(state, &t.b, "GET /", "Authorization: token @\r\n", "authorization: token " SECRET "\r\n");
        assert_swapped(state, &t.b, "GET /", "A: b\r\nAuthorization: @\r\nC: d\r\n", "a: b\r\nauthorization: " SECRET "\r\nc: d\r\n");
        test_bind(&t, ACCOUNT_ANTHROPIC, "claude");
        assert_swapped(state, &t.b, "GET /", "X-Api-Key: @\r\n", "x-api-key: " SECRET "\r\n");
        test_bind(&t, ACCOUNT_GEMINI, "gemini");
        assert_swapped(state, &t.b, "GET /?a=b&key=@&c=d", "", "GET /?a=b&key=real-Secret_0123456789%2F%2B%3D~&c=d");
        assert_swapped(state, &t.b, "GET /?KEY=@", "", "GET /?KEY=real-Secret_0123456789%2F%2B%3D~");
}

static void test_basic(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_GITHUB, "forge");
        assert_basic(state, &t.b, "x-access-token:@", SLICE_LIT(SECRET), "x-access-token:" SECRET);
        assert_basic(state, &t.b, ":@", SLICE_LIT(SECRET), ":" SECRET);
        assert_basic(state, &t.b, "@:", SLICE_LIT(SECRET), SECRET ":");
        assert_basic(state, &t.b, "@:x-oauth-basic", SLICE_LIT(SECRET), SECRET ":x-oauth-basic");
        test_bind(&t, ACCOUNT_BASIC, "deploy");
        assert_basic(state, &t.b, "deploy:@", SLICE_LIT("pässword: with: colons"), "deploy:pässword: with: colons");
        test_bind(&t, ACCOUNT_REGISTRY, "images");
        assert_basic(state, &t.b, "_json_key:@", SLICE_LIT("{\n \"key\": \"-----\\n\"\n}"), "_json_key:{\n \"key\": \"-----\\n\"\n}");
}

static void test_attach(void **state)
{
        struct test_binding t;

        test_bind(&t, ACCOUNT_NPM, "mirror");
        t.b.attach = true;
        t.b.placeholder = SLICE_EMPTY;
        assert_swapped(state, &t.b, "GET /", "Authorization: Bearer guest\r\nA: b\r\nAuthorization: Basic eDp5\r\n", "a: b\r\nauthorization: Bearer " SECRET "\r\n");
        test_bind(&t, ACCOUNT_CARGO, "crates");
        t.b.attach = true;
        assert_swapped(state, &t.b, "GET /", "", "authorization: " SECRET "\r\n");
        test_bind(&t, ACCOUNT_BASIC, "deploy");
        t.b.attach = true;
        t.b.user = SLICE_LIT("deploy");
        assert_swapped(state, &t.b, "GET /", "", "authorization: Basic ZGVwbG95OnJlYWwtU2VjcmV0XzAxMjM0NTY3ODkvKz1+\r\n");
        test_bind(&t, ACCOUNT_HEADER, "search");
        test_field(&t, SLOT_HEADER, "x-search");
        t.b.attach = true;
        assert_swapped(state, &t.b, "GET /", "X-Search: guest\r\nX_Search: guest\r\nA: b\r\n", "a: b\r\nx-search: " SECRET "\r\n");
        test_bind(&t, ACCOUNT_HEADER, "search");
        test_field(&t, SLOT_QUERY, "appkey");
        t.b.attach = true;
        assert_swapped(state, &t.b, "GET /?a=b&appkey=guest", "", "GET /?a=b&appkey=real-Secret_0123456789%2F%2B%3D~");
        assert_swapped(state, &t.b, "GET /", "", "GET /?appkey=real-Secret_0123456789%2F%2B%3D~");
        test_bind(&t, ACCOUNT_HEADER, "search");
        test_field(&t, SLOT_QUERY, "q");
        t.b.attach = true;
        assert_int_equal(swap_text(state, &t.b, "GET /?q=guest", "", SLICE_LIT(SECRET), &(struct buf){ .limit_bytes = 0 }), -1); /* two of them */
        assert_int_equal(swap_text(state, &t.b, "GET /?%71%5B0%5D=guest", "", SLICE_LIT(SECRET), &(struct buf){ .limit_bytes = 0 }), -1);
        test_bind(&t, ACCOUNT_HEADER, "body");
        test_field(&t, SLOT_BODY, "");
        t.b.attach = true;
        assert_int_equal(swap_text(state, &t.b, "GET /", "", SLICE_LIT(SECRET), &(struct buf){ .limit_bytes = 0 }), -1); /* nothing to attach it to */
}

/* A use that was judged on another request than the one at hand puts the secret nowhere. */
static void test_judged_elsewhere(void **state)
{
        struct test_binding t;
        struct account_use good, u;
        struct request req, other;
        char f[TEXT];
        struct slice secret = SLICE_LIT(SECRET);

        test_bind(&t, ACCOUNT_BEARER, "api");
        test_fill(f, TEXT, "Authorization: Bearer @\r\n", t.placeholder);
        test_request(*state, "GET /", f, &req);
        account_check(&t.b, &req, &good);
        test_request(*state, "GET /", "", &other);
        assert_int_equal(swap_head(*state, &t.b, &good, secret, &other), -1);
        test_request(*state, "GET /", "Authorization: Bearer other\r\n", &other);
        assert_int_equal(swap_head(*state, &t.b, &good, secret, &other), -1);
        test_request_at(*state, SCHEME_HTTP, HOST, 443, "GET /", f, &other);
        assert_int_equal(swap_head(*state, &t.b, &good, secret, &other), -1);
        test_request_at(*state, SCHEME_HTTPS, "evil.example", 443, "GET /", f, &other);
        assert_int_equal(swap_head(*state, &t.b, &good, secret, &other), -1);
        test_request_at(*state, SCHEME_HTTPS, HOST, 444, "GET /", f, &other);
        assert_int_equal(swap_head(*state, &t.b, &good, secret, &other), -1);
        u = good;
        u.used = false;
        assert_int_equal(swap_head(*state, &t.b, &u, secret, &req), -1);
        u = good;
        u.reason = ACCOUNT_FOREIGN;
        assert_int_equal(swap_head(*state, &t.b, &u, secret, &req), -1);
        u = good;
        u.header = SIZE_MAX;
        assert_int_equal(swap_head(*state, &t.b, &u, secret, &req), -1);
        t.b.attach = true;
        test_request_at(*state, SCHEME_HTTPS, "evil.example", 443, "GET /", "", &other);
        account_check(&t.b, &other, &u);
        assert_int_equal(swap_head(*state, &t.b, &u, secret, &other), -1);
}

static void test_secrets(void **state)
{
        static const struct {
                enum account_kind kind;
                struct slice secret;
                bool fine;
        } rows[] = {
                { ACCOUNT_BEARER, SLICE_LIT(SECRET), true },
                { ACCOUNT_BEARER, SLICE_LIT(""), false },
                { ACCOUNT_BEARER, SLICE_LIT("short"), false },
                { ACCOUNT_BEARER, SLICE_LIT("secret-with-newline\n"), false },
                { ACCOUNT_BEARER, SLICE_LIT("secret\r\nX-Evil: 1"), false },
                { ACCOUNT_BEARER, SLICE_LIT("secret with blank"), false },
                { ACCOUNT_BEARER, SLICE_LIT("secret\0with NUL"), false },
                { ACCOUNT_BEARER, SLICE_LIT("sécret-not-ascii"), false },
                { ACCOUNT_HEADER, SLICE_LIT("two words, fine"), true },
                { ACCOUNT_HEADER, SLICE_LIT(" blank in front"), false },
                { ACCOUNT_BASIC, SLICE_LIT("pass word ü"), true },
                { ACCOUNT_BASIC, SLICE_LIT("pass\0word.."), false },
                { ACCOUNT_REGISTRY, SLICE_LIT("{\n\"a\": 1 }"), true },
        };
        char x[PLACEHOLDER_BYTES_MAX + 1];

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++)
                if ((secret_problem(rows[i].kind, rows[i].secret) == NULL) != rows[i].fine)
                        fail_msg("%.*s: %s", SLICE_FMT(rows[i].secret), secret_problem(rows[i].kind, rows[i].secret));
        test_mint(ACCOUNT_GITHUB, 3, x);
        assert_non_null(secret_problem(ACCOUNT_GITHUB, slice_str(x)));
}

/* A secret that its kind may have and the field cannot carry is refused there. */
static void test_cannot_carry(void **state)
{
        struct test_binding t;
        struct buf text;
        char encoded[TEXT], filled[TEXT], fields[TEXT];

        test_bind(&t, ACCOUNT_BASIC, "deploy");
        test_field(&t, SLOT_HEADER, "x-key");
        test_field(&t, SLOT_AUTHORIZATION, "");
        assert_int_equal(swap_text(state, &t.b, "GET /", "X-Key: @\r\n", SLICE_LIT("line\nbreak"), &text), -1);
        assert_int_equal(swap_text(state, &t.b, "GET /", "Authorization: Bearer @\r\n", SLICE_LIT("pass word"), &text), -1);
        encoded[base64_encode(slice_str(test_fill(filled, TEXT, "@:", t.placeholder)), encoded)] = '\0';
        assert_int_equal(swap_text(state, &t.b, "GET /", test_fill(fields, TEXT, "Authorization: Basic @\r\n", encoded), SLICE_LIT("with:colon"), &text), -1);
}

/* Out of memory at any moment: refused, and the request is as it was. */
static void test_memory(void **state)
{
        static const struct {
                enum account_kind kind;
                bool attach;
                const char *line, *fields;
        } rows[] = {
                { ACCOUNT_BEARER, false, "GET /", "Authorization: Bearer @\r\n" },
                { ACCOUNT_GEMINI, false, "GET /?key=@", "" },
                { ACCOUNT_BASIC, true, "GET /?a=b", "Authorization: Bearer x\r\nA: b\r\n" },
                { ACCOUNT_GITLAB, true, "GET /", "" },
        };

        for (size_t i = 0; i < COUNT(rows); i++) {
                struct test_binding t;
                struct account_use u;
                struct request req, was;
                char l[TEXT], f[TEXT];
                int rc = -1;

                test_bind(&t, rows[i].kind, "it");
                t.b.attach = rows[i].attach;
                test_request(*state, test_fill(l, TEXT, rows[i].line, t.placeholder), test_fill(f, TEXT, rows[i].fields, t.placeholder), &req);
                account_check(&t.b, &req, &u);
                was = req;
                for (size_t limit = 16; rc < 0; limit += 16) {
                        struct arena small;

                        assert_true(limit < TEXT);
                        arena_init(&small, limit);
                        rc = swap_head(&small, &t.b, &u, SLICE_LIT(SECRET), &req);
                        if (rc < 0) {
                                assert_memory_equal(&req, &was, sizeof(req));
                                assert_true(!req.headers.n || memmem(req.headers.at[0].value.p, req.headers.at[0].value.n, SECRET, strlen(SECRET)) == NULL);
                        }
                        arena_wipe(&small);
                        arena_fini(&small);
                }
        }
}

/* ---- streams ---------------------------------------------------------------------------------------------------------------------------- */

static int feed(struct swap_stream *s, struct slice in, bool last, struct buf *out)
{
        /* a copy of its own size, so that a sanitizer sees the first byte past it */
        uint8_t *copy = malloc(in.n ? in.n : 1);
        int rc;

        if (!copy)
                abort();
        if (in.n)
                memcpy(copy, in.p, in.n);
        rc = swap_feed(s, slice_of(copy, in.n), last, out);
        free(copy);
        return rc;
}

/* The whole text with cuts at i and k; the same result as in one piece. */
static void assert_stream(const struct binding *b, bool json, const char *text, const char *want, int want_rc)
{
        struct slice in = slice_str(text);

        for (size_t i = 0; i <= in.n; i++)
                for (size_t k = i; k <= in.n; k++) {
                        struct swap_stream s;
                        struct buf out;
                        int rc;

                        buf_init(&out, 0);
                        swap_begin(&s, b, SLICE_LIT("sec\"ret\\\n"), json);
                        rc = feed(&s, slice_first(in, i), false, &out);
                        if (rc == ACCOUNT_OK)
                                rc = feed(&s, slice_of(in.p + i, k - i), false, &out);
                        if (rc == ACCOUNT_OK)
                                rc = feed(&s, slice_skip(in, k), true, &out);
                        if (rc != want_rc)
                                fail_msg("%s cut at %zu, %zu: %d", text, i, k, rc);
                        if (rc == ACCOUNT_OK)
                                assert_slice(buf_slice(&out), want);
                        buf_fini(&out);
                }
}

static void test_stream(void **state)
{
        struct test_binding t;
        char text[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_stream(&t.b, false, test_fill(text, TEXT, "@", t.placeholder), "sec\"ret\\\n", ACCOUNT_OK);
        assert_stream(&t.b, false, test_fill(text, TEXT, "abbrm_b@x", t.placeholder), "abbrm_bsec\"ret\\\nx", ACCOUNT_OK);
        assert_stream(&t.b, true, test_fill(text, TEXT, "{\"k\":\"@\"}", t.placeholder), "{\"k\":\"sec\\\"ret\\\\\\u000a\"}", ACCOUNT_OK);
        assert_stream(&t.b, false, test_fill(text, TEXT, "@@", t.placeholder), "", ACCOUNT_TWICE);
        assert_stream(&t.b, false, test_fill(text, TEXT, "@ and @ again", t.placeholder), "", ACCOUNT_TWICE);
        assert_stream(&t.b, false, "brbrbrm_brm_brm", "brbrbrm_brm_brm", ACCOUNT_OK);
        t.placeholder[10] = '\0'; /* nearly: all but the end of it */
        snprintf(text, sizeof(text), "%s%s", t.placeholder, t.placeholder);
        test_bind(&t, ACCOUNT_BEARER, "api");
        assert_stream(&t.b, false, text, text, ACCOUNT_OK);
}

/* A placeholder that begins again inside itself: where a naive search loses the match. */
static void test_stream_overlap(void **state)
{
        struct test_binding t;

        (void)state;
        test_bind(&t, ACCOUNT_BEARER, "api");
        t.b.placeholder = SLICE_LIT("aabaaab");
        assert_stream(&t.b, false, "aabaabaaab", "aabsec\"ret\\\n", ACCOUNT_OK);
        assert_stream(&t.b, false, "aaabaaaabaaab", "aaabaasec\"ret\\\n", ACCOUNT_OK);
        assert_stream(&t.b, false, "aabaaaaabaaa", "aabaaaaabaaa", ACCOUNT_OK);
        t.b.placeholder = SLICE_EMPTY;
        assert_stream(&t.b, false, "anything", "anything", ACCOUNT_OK);
}

/* In a form, as a form wants it. */
static void test_stream_form(void **state)
{
        struct test_binding t;
        struct swap_stream s;
        struct buf out;
        char text[TEXT];

        (void)state;
        test_bind(&t, ACCOUNT_BEARER, "api");
        buf_init(&out, 0);
        swap_begin(&s, &t.b, SLICE_LIT("a b&c=d+e/ü"), false);
        s.form = true;
        assert_int_equal(feed(&s, slice_str(test_fill(text, TEXT, "x=1&secret=@&y=2", t.placeholder)), true, &out), ACCOUNT_OK);
        assert_slice(buf_slice(&out), "x=1&secret=a%20b%26c%3Dd%2Be%2F%C3%BC&y=2");
        buf_fini(&out);
}

static void test_wipe(void **state)
{
        struct arena a;
        char *p;

        (void)state;
        arena_init(&a, 0);
        p = arena_strndup(&a, SECRET, strlen(SECRET));
        assert_non_null(p);
        arena_wipe(&a);
        for (size_t i = 0; i < strlen(SECRET); i++)
                assert_int_equal(p[i], 0);
        arena_fini(&a);
        arena_wipe(&a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(test_head),         ARENA_TEST(test_basic),        ARENA_TEST(test_attach),    ARENA_TEST(test_judged_elsewhere), ARENA_TEST(test_secrets),
                ARENA_TEST(test_cannot_carry), ARENA_TEST(test_memory), cmocka_unit_test(test_stream), cmocka_unit_test(test_stream_overlap), cmocka_unit_test(test_stream_form), cmocka_unit_test(test_wipe),
        };
        return cmocka_run_group_tests_name("account/swap", tests, NULL, NULL);
}
