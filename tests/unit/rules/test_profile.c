/* `as npm`, `as git`: which requests, which fields, which bodies. The path grammars are also held against regular expressions (differ.c, fuzz_profile.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "naive.h"
#include "rules/profile.h"

struct row {
        const char *method, *path, *query; /* query NULL: no '?' */
        bool body, ok;
};

static bool asks(enum policy_profile p, const struct row *r)
{
        struct policy_request_query q = { .method = slice_str(r->method), .path = slice_str(r->path), .query = slice_str(r->query), .has_query = r->query != NULL, .has_body = r->body,
                                          .body_bytes = r->body ? -1 : 0 };
        bool body_ok, fits = profile_request(p, q.path, &q, &body_ok);

        assert_int_equal(fits, naive_profile(p, q.path, &q));
        return fits;
}

static void expect_rows(enum policy_profile p, const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (asks(p, &rows[i]) != rows[i].ok)
                        fail_msg("%s %s?%s", rows[i].method, rows[i].path, rows[i].query);
}
#define EXPECT_ROWS(p, rows) expect_rows(p, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_npm(void **state)
{
        static const struct row rows[] = {
                { "GET", "/left-pad", NULL, false, true },
                { "HEAD", "/left-pad", NULL, false, true },
                { "GET", "/@types%2Fnode", NULL, false, true },
                { "GET", "/@types/node", NULL, false, true },
                { "GET", "/left-pad/-/left-pad-1.3.0.tgz", NULL, false, true },
                { "GET", "/@types/node/-/node-20.1.0-rc.1+b.2.tgz", NULL, false, true },
                { "GET", "/@types/node/-/@types/node-20.1.0.tgz", NULL, false, true }, /* Artifactory's */
                { "GET", "/JSONStream", NULL, false, true }, /* older than the rule of lower case */
                { "GET", "/JSONStream/-/JSONStream-1.3.5.tgz", NULL, false, true },
                { "GET", "/@types%2FJSONStream", NULL, false, true },
                { "GET", "/-/package/JSONStream/dist-tags", NULL, false, true },
                { "GET", "/-/npm/v1/keys", NULL, false, true },
                { "GET", "/-/npm/v1/attestations/left-pad@1.3.0", NULL, false, true },
                { "GET", "/-/npm/v1/attestations/@a%2Fb@1.3.0", NULL, false, true },
                { "GET", "/-/package/@a%2Fb/dist-tags", NULL, false, true },
                { "GET", "/-/package/a/dist-tags", NULL, false, true },
                { "GET", "/-/package/@a/b/dist-tags", NULL, false, true }, /* the second reading of an encoded slash */
                { "GET", "/-/npm/v1/attestations/@a/b@1.3.0", NULL, false, true },
                /* Writes, and what says nothing about a package. */
                { "PUT", "/left-pad", NULL, true, false },
                { "PUT", "/left-pad", NULL, false, false },
                { "DELETE", "/left-pad/-rev/1", NULL, false, false },
                { "OPTIONS", "/left-pad", NULL, false, false },
                { "get", "/left-pad", NULL, false, false },
                { "GET", "/left-pad", "write=true", false, false },
                { "GET", "/left-pad", "", false, false },
                { "GET", "/left-pad", NULL, true, false },
                { "GET", "/", NULL, false, false },
                { "GET", "/left-pad/", NULL, false, false },
                { "GET", "/left-pad/1.3.0", NULL, false, false },
                { "GET", "/left-pad/-rev/1", NULL, false, false },
                { "GET", "/-/v1/search", "text=a", false, false },
                { "GET", "/-/v1/search", NULL, false, false },
                { "GET", "/-/whoami", NULL, false, false },
                { "GET", "/-/user/org.couchdb.user:a", NULL, false, false },
                { "POST", "/-/npm/v1/security/advisories/bulk", NULL, true, false },
                { "PUT", "/-/package/a/dist-tags/latest", NULL, true, false },
                { "GET", "/-/package/a/access", NULL, false, false },
                { "GET", "/-/npm/v1/tokens", NULL, false, false },
                { "HEAD", "/-/npm/v1/keys", NULL, false, false },
                /* Names and versions that are none. */
                { "GET", "/@Types/node", NULL, false, false },
                { "GET", "/@Types%2Fnode", NULL, false, false },
                { "GET", "/left-pad/-/Left-Pad-1.3.0.tgz", NULL, false, false },
                { "GET", "/-/NPM/v1/keys", NULL, false, false },
                { "GET", "/_users", NULL, false, false },
                { "GET", "/.hidden", NULL, false, false },
                { "GET", "/%6Ceft", NULL, false, false },
                { "GET", "/@types", NULL, false, false },
                { "GET", "/@types%252Fnode", NULL, false, false },
                { "GET", "/@/node", NULL, false, false },
                { "GET", "/@types/node/x", NULL, false, false },
                { "GET", "/@types%2Fnode/-/node-1.0.0.tgz", NULL, false, false },
                { "GET", "/left-pad/-/right-pad-1.3.0.tgz", NULL, false, false },
                { "GET", "/@types/node/-/@other/node-1.3.0.tgz", NULL, false, false },
                { "GET", "/node/-/@types/node-1.3.0.tgz", NULL, false, false },
                { "GET", "/left-pad/-/left-pad-1.3.tgz", NULL, false, false },
                { "GET", "/left-pad/-/left-pad-01.3.0.tgz", NULL, false, false },
                { "GET", "/left-pad/-/left-pad-1.3.0-.tgz", NULL, false, false },
                { "GET", "/left-pad/-/left-pad-1.3.0.tar", NULL, false, false },
                { "GET", "/left-pad/-/left-pad-1.3.0.tgz/x", NULL, false, false },
                { "HEAD", "/left-pad/-/left-pad-1.3.0.tgz", NULL, false, false },
                { "GET", "left-pad", NULL, false, false },
                { "GET", "", NULL, false, false },
        };
        char name[260] = "/";
        struct row longest = { "GET", name, NULL, false, true };
        struct policy_request_query q = { .method = SLICE_LIT("GET"), .path = SLICE_LIT("/a"), .override_header = true };
        bool body_ok;

        (void)state;
        EXPECT_ROWS(PROFILE_NPM, rows);
        memset(name + 1, 'a', 214);
        assert_true(asks(PROFILE_NPM, &longest));
        name[215] = 'a';
        q.path = slice_str(name);
        assert_false(profile_request(PROFILE_NPM, q.path, &q, &body_ok));
        q = (struct policy_request_query){ .method = SLICE_LIT("GET"), .path = SLICE_LIT("/a"), .override_header = true };
        assert_false(profile_request(PROFILE_NPM, q.path, &q, &body_ok));
        q.override_header = false;
        q.upgrade = UPGRADE_WEBSOCKET;
        assert_false(profile_request(PROFILE_NPM, q.path, &q, &body_ok));
        q.upgrade = UPGRADE_NONE;
        assert_true(profile_request(PROFILE_NPM, q.path, &q, &body_ok) && !body_ok);
}

static void test_git(void **state)
{
        static const struct row rows[] = {
                { "GET", "/a/b.git/info/refs", "service=git-upload-pack", false, true },
                { "GET", "/r/info/refs", "service=git-upload-pack", false, true },
                { "POST", "/a/b.git/git-upload-pack", NULL, true, true },
                { "POST", "/~me/b/git-upload-pack", NULL, true, true },
                { "GET", "/a/b.git/info/refs", "service=git-receive-pack", false, false },
                { "GET", "/a/b.git/info/refs", "service=git-upload-pack&x=1", false, false },
                { "GET", "/a/b.git/info/refs", NULL, false, false },
                { "GET", "/a/b.git/info/refs", "service=git-upload-pack", true, false },
                { "HEAD", "/a/b.git/info/refs", "service=git-upload-pack", false, false },
                { "POST", "/a/b.git/git-receive-pack", NULL, true, false },
                { "POST", "/a/b.git/git-upload-pack", "x", true, false },
                { "POST", "/a/b.git/git-upload-pack", "", true, false },
                { "GET", "/a/b.git/git-upload-pack", NULL, false, false },
                { "POST", "/a/b.git/info/lfs/objects/batch", NULL, true, false },
                { "GET", "/a/b.git/HEAD", NULL, false, false },
                { "GET", "/a/b.git/objects/info/packs", NULL, false, false },
                { "GET", "/info/refs", "service=git-upload-pack", false, false },
                { "POST", "/git-upload-pack", NULL, true, false },
                { "POST", "/a%2Fb/git-upload-pack", NULL, true, false },
        };

        (void)state;
        EXPECT_ROWS(PROFILE_GIT, rows);
}

/* The grammar behind a mirror's prefix, and the reason when it does not fit. */
static void test_in_a_rule(void **state)
{
        static const struct {
                const char *path;
                bool allow;
        } rows[] = { { "/artifactory/api/npm/npm/left-pad", true },
                     { "/artifactory/api/npm/npm/@a%2Fb", true },
                     { "/artifactory/api/npm/npm/left-pad/-/left-pad-1.0.0.tgz", true },
                     { "/artifactory/api/npm/npm/-/v1/search", false },
                     { "/artifactory/api/npm/npm/", false },
                     { "/artifactory/api/storage/npm", false } };
        struct diags errors = { 0 };
        struct policy *p = policy_parse(SLICE_LIT("host mirror.example { private ok }\nrules { allow web npm.example path \"/artifactory/api/npm/npm/**\" as npm\n"
                                                  "allow web npm.example path \"/artifactory/**\" as npm\n"
                                                  "allow web registry.example as npm via \"https://mirror.example/x/\"\nask web git.example as git body max 1K }"),
                                        "rules", &errors);
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("npm.example"), .port = 443 }, .method = SLICE_LIT("GET"), .https = true };
        struct policy_verdict v;

        (void)state;
        assert_non_null(p);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                q.path = slice_str(rows[i].path);
                policy_request(p, &q, &v);
                assert_int_equal(v.allow, rows[i].allow);
                if (!v.allow)
                        assert_true(v.reason == REASON_PROFILE && v.failed == LIMIT_PROFILE && v.profile == PROFILE_NONE);
                else
                        assert_true(v.profile == PROFILE_NPM && v.max_body == 0);
        }
        q.flow.name = SLICE_LIT("registry.example");
        q.path = SLICE_LIT("/left-pad");
        policy_request(p, &q, &v);
        assert_true(v.allow && v.via.found && v.admits_private && v.via.port == 443 && slice_is(v.via.name, "mirror.example") && slice_is(v.via.base, "/x/"));
        q.flow.name = SLICE_LIT("git.example");
        q.method = SLICE_LIT("POST");
        q.path = SLICE_LIT("/r/git-upload-pack");
        q.has_body = true;
        q.body_bytes = -1;
        policy_request(p, &q, &v);
        assert_true(v.allow && v.ask && v.max_body == 1024 && v.profile == PROFILE_GIT && !v.via.found);
        policy_free(p);
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------------------------- */

static struct profile_field field_at(void *ctx, size_t i)
{
        const char *const *f = ctx;
        return (struct profile_field){ slice_str(f[i * 2]), slice_str(f[i * 2 + 1]) };
}

static void expect_fields(enum policy_profile p, const char *method, bool account, const char *const *in, const char *want)
{
        struct profile_field out[PROFILE_FIELDS_MAX];
        const char *problem;
        struct buf text;
        size_t n = 0;
        int got;

        while (in[n * 2])
                n++;
        got = profile_fields(p, slice_str(method), n, field_at, (void *)(uintptr_t)in, account, out, &problem);
        assert_int_equal(got < 0, want == NULL);
        assert_int_equal(got < 0, problem != NULL);
        buf_init(&text, 0);
        for (int i = 0; i < got; i++)
                buf_addf(&text, "%.*s: %.*s\n", SLICE_FMT(out[i].name), SLICE_FMT(out[i].value));
        if (want && !slice_is(buf_slice(&text), want))
                fail_msg("%.*s", SLICE_FMT(buf_slice(&text)));
        buf_fini(&text);
}
#define FIELDS(...) ((const char *const[]){ __VA_ARGS__, NULL, NULL })

static void test_fields(void **state)
{
        (void)state;
        expect_fields(PROFILE_NPM, "GET", false,
                      FIELDS("user-agent", "npm/10.8.2 node/v20 linux x64", "accept", "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*", "npm-session", "secret",
                             "accept-encoding", "gzip, deflate", "cookie", "a=b", "referer", "x", "pacote-req-type", "packument", "if-none-match", "\"x\"", "range", "bytes=0-9", "authorization",
                             "Bearer x", "x-forwarded-for", "y", "accept-language", "secret"),
                      "accept: application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*\naccept-encoding: gzip\nuser-agent: npm/10 (brome)\n");
        expect_fields(PROFILE_NPM, "GET", true, FIELDS("accept", "application/json", "authorization", "Bearer x"),
                      "accept: application/json\naccept-encoding: identity\nuser-agent: npm/10 (brome)\nauthorization: Bearer x\n");
        expect_fields(PROFILE_NPM, "GET", true, FIELDS("accept", "text/secret", "accept-encoding", "secret"), "accept: */*\naccept-encoding: identity\nuser-agent: npm/10 (brome)\n");
        expect_fields(PROFILE_GIT, "GET", true, FIELDS("git-protocol", "version=2", "pragma", "no-cache", "accept-encoding", "deflate, gzip", "authorization", "Basic eA=="),
                      "accept: */*\naccept-encoding: identity\nuser-agent: git/2 (brome)\nauthorization: Basic eA==\ngit-protocol: version=2\n");
        expect_fields(PROFILE_GIT, "POST", false,
                      FIELDS("git-protocol", "version=2", "content-type", "application/x-git-upload-pack-request", "content-encoding", "gzip", "accept", "application/x-git-upload-pack-result"),
                      "accept: application/x-git-upload-pack-result\naccept-encoding: identity\nuser-agent: git/2 (brome)\ngit-protocol: version=2\n"
                      "content-type: application/x-git-upload-pack-request\ncontent-encoding: gzip\n");
        expect_fields(PROFILE_GIT, "GET", false, FIELDS("accept", "*/*"), NULL);
        expect_fields(PROFILE_GIT, "GET", false, FIELDS("git-protocol", "version=1"), NULL);
        expect_fields(PROFILE_GIT, "GET", false, FIELDS("git-protocol", "version=2", "git-protocol", "version=2"), NULL);
        expect_fields(PROFILE_GIT, "POST", false, FIELDS("git-protocol", "version=2", "content-type", "text/plain"), NULL);
        expect_fields(PROFILE_GIT, "POST", false, FIELDS("git-protocol", "version=2", "content-type", "application/x-git-upload-pack-request", "content-encoding", "br"), NULL);
        expect_fields(PROFILE_NONE, "GET", false, FIELDS("a", "b"), NULL);
}

/* ---- bodies -------------------------------------------------------------------------------------------------------------------------------------- */

#define ID "0123456789abcdef0123456789abcdef01234567"
#define ID256 ID "89abcdef0123456789abcdef"

/* Lines to packets: "0000" and "0001" stand for themselves. */
static void packets(struct buf *out, const char *const *lines)
{
        for (; *lines; lines++) {
                if (strcmp(*lines, "0000") == 0 || strcmp(*lines, "0001") == 0)
                        buf_add_str(out, *lines);
                else
                        buf_addf(out, "%04zx%s", strlen(*lines) + 4, *lines);
        }
}

static git_named_fn *asked; /* what the bodies below are read with */

static bool reads_into(struct slice body, size_t cut, struct buf *out)
{
        struct git_body g;

        git_body_begin(&g, asked, &g);
        for (size_t i = 0; i < body.n; i += cut)
                if (!git_body_feed(&g, slice_first(slice_skip(body, i), cut), out)) {
                        assert_non_null(g.problem);
                        assert_false(git_body_feed(&g, SLICE_LIT("0000"), out));
                        assert_false(git_body_end(&g));
                        return false;
                }
        return git_body_end(&g);
}

static bool reads(struct slice body, size_t cut)
{
        struct buf out, again;
        bool ok;

        buf_init(&out, 0);
        buf_init(&again, 0);
        ok = reads_into(body, cut, &out);
        if (ok && !asked) { /* what goes on is read as itself */
                assert_true(reads_into(buf_slice(&out), 1, &again));
                assert_true(slice_eq(buf_slice(&out), buf_slice(&again)));
        }
        buf_fini(&out);
        buf_fini(&again);
        return ok;
}

/* What goes on of it. */
static void expect_sent(const char *const *lines, const char *const *want)
{
        struct buf in, out, expected;

        buf_init(&in, 0);
        buf_init(&out, 0);
        buf_init(&expected, 0);
        packets(&in, lines);
        packets(&expected, want);
        for (size_t cut = 1; cut <= buf_len(&in); cut++) {
                buf_clear(&out);
                assert_true(reads_into(buf_slice(&in), cut, &out));
                if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
                        fail_msg("cut %zu: %.*s", cut, SLICE_FMT(buf_slice(&out)));
        }
        buf_fini(&in);
        buf_fini(&out);
        buf_fini(&expected);
}

static void expect_body_text(struct slice body, bool want)
{
        for (size_t cut = 1; cut <= body.n || cut == 1; cut++)
                if (reads(body, cut) != want)
                        fail_msg("cut %zu: %.*s", cut, SLICE_FMT(body));
}

static void expect_body(bool want, const char *const *lines)
{
        struct buf out;

        buf_init(&out, 0);
        packets(&out, lines);
        expect_body_text(buf_slice(&out), want);
        buf_fini(&out);
}
#define BODY(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_bodies(void **state)
{
        (void)state;
        expect_body(true, BODY("command=ls-refs\n", "agent=git/2.43.0", "object-format=sha1", "0001", "peel\n", "symrefs\n", "unborn\n", "ref-prefix refs/heads/\n", "ref-prefix HEAD\n", "0000"));
        expect_body(true, BODY("command=ls-refs", "0000"));
        expect_body(true, BODY("command=fetch", "agent=git/2.50.1-Linux", "object-format=sha1", "0001", "thin-pack", "no-progress", "include-tag", "ofs-delta", "want " ID "\n", "have " ID "\n",
                               "shallow " ID "\n", "deepen 1\n", "deepen-relative\n", "deepen-since 1700000000\n", "filter blob:none\n", "done\n", "0000"));
        expect_body(true, BODY("command=fetch", "object-format=sha256", "0001", "want " ID256, "filter tree:0", "wait-for-done", "0000"));
        expect_body(true, BODY("command=fetch", "0001", "want " ID, "filter blob:limit=1m", "0000"));
        expect_body(true, BODY("command=fetch", "0001", "want " ID, "filter object:type=tag", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID, "filter tree:0", "filter tree:1", "0000"));
        expect_body(true, BODY("0000")); /* may it post? */
        expect_body(false, BODY("command=push", "0000"));
        expect_body(false, BODY("command=object-info", "0000"));
        expect_body(false, BODY("want " ID "\n", "0000", "done\n")); /* version 0 */
        expect_body(false, BODY("command=fetch", "0001", "want " ID));
        expect_body(false, BODY("command=fetch", "0001", "want " ID, "0000", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID, "0001", "0000"));
        expect_body(false, BODY("0000", "command=fetch"));
        expect_body(false, BODY("0001"));
        expect_body(true, BODY("command=fetch", "agent=JGit/6", "0000"));
        expect_body(true, BODY("command=fetch", "session-id=secret", "0000"));
        expect_body(false, BODY("command=fetch", "session-id=secret", "session-id=secret", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "deepen-not refs/heads/secret", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want-ref refs/heads/secret", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "deepen 1", "deepen 2", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "done", "done", "0000"));
        expect_body(false, BODY("command=fetch", "agent=", "0000"));
        expect_body(false, BODY("command=fetch", "agent=git/2 secret", "0000"));
        expect_body(false, BODY("command=fetch", "agent=git/2", "agent=git/3", "0000"));
        expect_body(false, BODY("command=fetch", "server-option=secret", "0000"));
        expect_body(false, BODY("command=fetch", "object-format=md5", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID256, "0000"));
        expect_body(false, BODY("command=fetch", "object-format=sha256", "0001", "want " ID, "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want 0123456789ABCDEF0123456789abcdef01234567", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID " x", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "have", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "deepen 01", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "deepen ", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "filter sparse:oid=secret", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "filter object:type=x", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "peel", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "done\n\n", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "\n", "0000"));
        expect_body(false, BODY("command=ls-refs", "0001", "want " ID, "0000"));
        expect_body(false, BODY("command=ls-refs", "0001", "ref-prefix a b", "0000"));
        expect_body(false, BODY("command=ls-refs", "0001", "ref-prefix refs/../x", "0000"));
        expect_body(false, BODY("command=ls-refs", "0001", "ref-prefix ", "0000"));
        expect_body_text(SLICE_LIT(""), false);
        expect_body_text(SLICE_LIT("0004"), false);
        expect_body_text(SLICE_LIT("0002"), false);
        expect_body_text(SLICE_LIT("0003"), false);
        expect_body_text(SLICE_LIT("ffff"), false);
        expect_body_text(SLICE_LIT("00FF"), false);
        expect_body_text(SLICE_LIT("001"), false);
        expect_body_text(SLICE_LIT("0014command=ls-refs\n0000\n"), false);
        expect_body_text(SLICE_LIT("PACK"), false);
}

#define OTHER "89abcdef0123456789abcdef0123456789abcdef"
#define ZEROS "0000000000000000000000000000000000000000"

/* ID is named, OTHER is not; a second ID in one body was said. */
static enum git_named name_id(void *ctx, enum git_use use, struct slice id)
{
        const struct git_body *g = ctx;

        if (!slice_is(id, ID))
                return GIT_UNNAMED;
        return use == GIT_HAVE && g->haves ? GIT_SAID : GIT_NAMED;
}

/* Of a guest's text nothing goes on but what the server said, and numbers. */
static void test_rewritten(void **state)
{
        (void)state;
        expect_sent(BODY("command=ls-refs\n", "agent=secret/1", "session-id=secret", "object-format=sha1\n", "0001", "peel", "0000"),
                    BODY("command=ls-refs", "agent=git/2", "object-format=sha1", "0001", "peel\n", "0000"));
        expect_sent(BODY("command=ls-refs", "0001", "ref-prefix secret\n", "ref-prefix refs/secret\n", "ref-prefix refs/tags/secret\n", "ref-prefix refs/heads/secret\n", "ref-prefix refs/remotes/secret\n",
                         "ref-prefix refs/remotes/secret/HEAD\n", "ref-prefix refs/tags/", "ref-prefix HEAD", "ref-prefix HEADsecret", "0000"),
                    BODY("command=ls-refs", "0001", "ref-prefix refs/tags/\n", "ref-prefix refs/heads/\n", "ref-prefix HEAD\n", "0000"));
        expect_sent(BODY("command=ls-refs", "0001", "ref-prefix refs/pull/12/head", "ref-prefix refs/changes/34/1234/5", "ref-prefix refs/merge-requests/", "ref-prefix refs/pull/secret", "ref-prefix refs/pull/1/2/3/4",
                         "ref-prefix refs/pull/123456789/head", "ref-prefix refs/pull/1/secret", "ref-prefix refs/pull/007/head", "ref-prefix refs/pull/1/2/3", "ref-prefix refs/merge-requests/head",
                         "ref-prefix refs/changes/345/1234/5", "ref-prefix refs/changes/34/1234/head", "ref-prefix refs/pull/1/head/", "0000"),
                    BODY("command=ls-refs", "0001", "ref-prefix refs/pull/12/head\n", "ref-prefix refs/changes/34/1234/5\n", "ref-prefix refs/merge-requests/\n", "0000"));
        asked = name_id;
        expect_sent(BODY("command=fetch", "0001", "want " ID, "have " OTHER, "have " ID, "have " ID, "have " OTHER, "0000"), BODY("command=fetch", "0001", "want " ID "\n", "have " ID "\n", "0000"));
        expect_sent(BODY("command=fetch", "0001", "want " ID, "have " OTHER, "have " OTHER, "0000"), BODY("command=fetch", "0001", "want " ID "\n", "have " ZEROS "\n", "0000"));
        expect_sent(BODY("command=fetch", "0001", "want " ID, "have " OTHER, "done", "0000"), BODY("command=fetch", "0001", "want " ID "\n", "done\n", "0000"));
        expect_sent(BODY("command=fetch", "0001", "want " ID, "shallow " ID, "0000"), BODY("command=fetch", "0001", "want " ID "\n", "shallow " ID "\n", "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " OTHER, "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID, "want " OTHER, "0000"));
        expect_body(false, BODY("command=fetch", "0001", "want " ID, "shallow " OTHER, "0000"));
        asked = NULL;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------------------ */

static void note(void *ctx, struct slice id)
{
        buf_add_slice(ctx, id);
        buf_add_str(ctx, " ");
}

static void expect_names(struct slice body, const char *want)
{
        struct buf got;

        buf_init(&got, 0);
        for (size_t cut = 1; cut <= body.n || cut == 1; cut++) {
                struct git_answer a;
                buf_clear(&got);
                git_answer_begin(&a, note, &got);
                for (size_t i = 0; i < body.n; i += cut)
                        git_answer_feed(&a, slice_first(slice_skip(body, i), cut));
                if (!slice_is(buf_slice(&got), want))
                        fail_msg("cut %zu: %.*s", cut, SLICE_FMT(buf_slice(&got)));
        }
        buf_fini(&got);
}

static void expect_names_in(const char *want, const char *const *lines)
{
        struct buf in;

        buf_init(&in, 0);
        packets(&in, lines);
        expect_names(buf_slice(&in), want);
        buf_fini(&in);
}

static void test_answers(void **state)
{
        char longest[1200] = ID " refs/heads/";

        (void)state;
        expect_names_in(ID " " OTHER " " ID256 " ", BODY(ID " HEAD symref-target:refs/heads/main\n", OTHER " refs/tags/v1 peeled:" ID256 "\n", "unborn HEAD symref-target:refs/heads/x\n", "0000"));
        expect_names_in(ID " " OTHER " ", BODY("acknowledgments\n", "NAK\n", "ready\n", "0001", "shallow-info\n", "shallow " ID "\n", "unshallow " OTHER "\n", "0001", "packfile\n", ID " x\n", "0000"));
        expect_names_in("", BODY("packfile", ID " x\n"));
        expect_names_in("", BODY("ERR " ID "\n", ID "0 x", "X" ID " x", "refs/heads/x peeled:" ID, "shallow  " ID, "shallow " ID "x", "", "0000"));
        expect_names(SLICE_LIT("0003" "002d" ID "\n0000"), "");
        expect_names(SLICE_LIT("002D" ID "\n0000"), "");
        expect_names(SLICE_LIT("002d" ID "\n00"), ID " ");
        expect_names(SLICE_LIT("0002" "0001" "0004" "002d" ID "\n"), ID " ");
        memset(longest + strlen(longest), 'a', sizeof(longest) - strlen(longest) - 1);
        expect_names_in(ID " " OTHER " ", BODY(longest, OTHER " refs/heads/b\n", "0000"));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_npm), cmocka_unit_test(test_git), cmocka_unit_test(test_in_a_rule), cmocka_unit_test(test_fields), cmocka_unit_test(test_bodies),
                                            cmocka_unit_test(test_rewritten), cmocka_unit_test(test_answers) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
