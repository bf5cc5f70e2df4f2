/* Token servers of registries: see tokenserver.h. */
#include "account/tokenserver.h"

#include "account/check.h"
#include "base/arena.h"

/* ---- realms ---- */

static struct slice skip_blanks(struct slice s)
{
        while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
                s = slice_skip(s, 1);
        return s;
}

/* What stands behind `realm=` at the beginning of s, without its quotes; empty: nothing. */
static struct slice realm_value(struct slice s)
{
        ptrdiff_t end;

        s = skip_blanks(slice_skip(s, strlen("realm")));
        if (!s.n || s.p[0] != '=')
                return SLICE_EMPTY;
        s = skip_blanks(slice_skip(s, 1));
        if (s.n && s.p[0] == '"') {
                s = slice_skip(s, 1);
                end = slice_find(s, '"');
        } else {
                end = slice_find(s, ',');
        }
        return end < 0 ? s : slice_first(s, (size_t)end);
}

static void learn_url(struct realms *r, struct slice url)
{
        static const char *const schemes[] = { "https://", "http://" }; /* behind a proxy a server may not know its own scheme */
        struct realm *at = &r->at[r->n % REALMS_MAX];
        struct slice rest = SLICE_EMPTY, host;
        struct authority authority;
        struct path path;
        struct arena a;
        char text[AUTHORITY_TEXT_BYTES];
        size_t n = 0;

        for (size_t i = 0; i < 2; i++)
                if (slice_iis(slice_first(url, strlen(schemes[i])), schemes[i]))
                        rest = slice_skip(url, strlen(schemes[i]));
        while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
                n++;
        host = slice_first(rest, n);
        rest = slice_skip(rest, n);
        if (!rest.n || rest.p[0] != '/')
                rest = SLICE_LIT("/");
        arena_init(&a, 0);
        if (host.n && authority_parse(&a, host, SCHEME_HTTPS, &authority) == WIRE_OK && path_canonical(&a, rest, &path) == WIRE_OK) {
                struct slice name = authority_print(text, &authority, SCHEME_HTTPS), p = slice_first(path.path, REALM_PATH_BYTES_MAX);
                bool known = false;

                for (size_t i = 0; i < REALMS_MAX; i++)
                        known = known || (slice_is(name, r->at[i].authority) && slice_is(p, r->at[i].path));
                if (!known && name.n < sizeof(at->authority)) {
                        memset(at, 0, sizeof(*at));
                        memcpy(at->authority, name.p, name.n);
                        memcpy(at->path, p.p, p.n);
                        r->n++;
                }
        }
        arena_fini(&a);
}

/* More realms than are kept are none that a registry names: each is read to its end, so that many would cost much. */
void realms_learn(struct realms *r, struct slice www_authenticate)
{
        size_t seen = 0;

        for (size_t i = 0; i + strlen("realm") <= www_authenticate.n && seen < REALMS_MAX; i++) {
                struct slice s = slice_skip(www_authenticate, i);

                if (!slice_iis(slice_first(s, strlen("realm")), "realm"))
                        continue;
                learn_url(r, realm_value(s));
                seen++;
        }
}

/* Its path, and what is below it: some servers look at the beginning only. */
static bool is_realm(const struct realms *r, const struct request *req)
{
        char text[AUTHORITY_TEXT_BYTES];
        struct slice name = authority_print(text, &req->authority, SCHEME_HTTPS), path = req->target.path;

        for (size_t i = 0; i < REALMS_MAX; i++) {
                struct slice realm = slice_str(r->at[i].path);

                if (!slice_is(name, r->at[i].authority) || !slice_iis(slice_first(path, realm.n), r->at[i].path))
                        continue;
                if (realm.n == 1 ? path.n == 1 : path.n == realm.n || realm.n == REALM_PATH_BYTES_MAX || realm.p[realm.n - 1] == '/' || path.p[realm.n] == '/')
                        return true;
        }
        return false;
}

/* ---- requests ---- */

static bool among(struct slice word, const char *const *words, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (slice_iis(word, words[i]))
                        return true;
        return false;
}

/* "/token", "/v2/token", "/jwt/auth", "/oauth2/exchange"; not a repository or tag of that name, "/v2/acme/auth/manifests/token". */
static bool usual_path(struct slice path)
{
        static const char *const servers[] = { "token", "tokens", "auth", "exchange", "login" };
        static const char *const contents[] = { "manifests", "blobs", "tags", "referrers" };
        bool api = false, content = false, usual = false;

        while (path.n) {
                ptrdiff_t end;
                struct slice segment;

                path = slice_skip(path, 1);
                end = slice_find(path, '/');
                segment = end < 0 ? path : slice_first(path, (size_t)end);
                path = slice_skip(path, segment.n);
                usual = usual || among(segment, servers, sizeof(servers) / sizeof(*servers));
                content = content || (api && among(segment, contents, sizeof(contents) / sizeof(*contents)));
                api = api || slice_iis(segment, "v2");
        }
        return usual && !content;
}

static bool asks_for_service(struct slice query)
{
        struct slice key, value;

        while (query_next(&query, &key, &value))
                if (account_same_query(key, SLICE_LIT("service")) || account_same_query(key, SLICE_LIT("scope")))
                        return true;
        return false;
}

/* OAuth's way: POST with a form (grant_type, service, scope). */
static bool posts_form(const struct request *req)
{
        const char form[] = "application/x-www-form-urlencoded";

        return slice_is(req->method, "POST") && slice_iis(slice_first(headers_value(&req->headers, "content-type"), sizeof(form) - 1), form);
}

bool tokenserver_asked(const struct realms *r, const struct request *req)
{
        return is_realm(r, req) || usual_path(req->target.path) || asks_for_service(req->target.query) || posts_form(req);
}

/* ---- answers ---- */

bool tokenserver_drops(struct slice field)
{
        return slice_is(field, "set-cookie") || slice_is(field, "set-cookie2") || account_is_header(field);
}

static size_t find_any(struct slice s, size_t from, const char *set)
{
        while (from < s.n && (!s.p[from] || !strchr(set, s.p[from])))
                from++;
        return from;
}

/* In one pass, whoever reads the query or the fragment, and wherever they begin: "?" and "#" part pairs as "&" does. */
bool tokenserver_url_has_key(struct slice url)
{
        struct slice key, value;

        for (size_t at = find_any(url, 0, "?#"), end; at < url.n; at = end) {
                struct slice rest;

                end = find_any(url, at + 1, "?#&");
                rest = slice_of(url.p + at + 1, end - at - 1);
                while (query_next(&rest, &key, &value))
                        if (value.n && (account_is_query(key) || account_same_query(key, SLICE_LIT("code"))))
                                return true;
        }
        return false;
}

static bool ends_in_token(struct slice name)
{
        static const char word[] = "token";
        size_t n = sizeof(word) - 1;

        return name.n >= n && slice_iis(slice_skip(name, name.n - n), word);
}

bool tokenserver_member(struct slice name) { return ends_in_token(name) && account_is_query(name); }

bool tokenserver_suspects(struct slice text)
{
        struct slice rest = text;
        ptrdiff_t quote;

        while ((quote = slice_find(rest, '"')) >= 0) {
                if (ends_in_token(slice_first(rest, (size_t)quote)))
                        return true;
                rest = slice_skip(rest, (size_t)quote + 1);
        }
        return false;
}
