/* Which header fields and query keys name an account: one table for both.
 *
 * Names are folded first, as origins fold them: no case, "-" as "_" (CGI), of a query key also decoded (once, twice, three times), blanks in front dropped,
 * "." and " " as "_" (PHP), and taken apart at "[", "]", "." and NUL: each part counts by itself and with those before it ("user[access_token]", "a.key",
 * "token[]"). A row is a whole name or an ending; endings catch the vendors that nobody listed (x-acme-api-key).
 * It must never be narrower than what origins take for a key; a harmless name refused costs `foreign ok`. */
#include "account/check.h"

#include <assert.h>

enum {
        AT_HEADER = 1,
        AT_QUERY = 2,
        ENDING = 4,
        OFTEN_HARMLESS = 8, /* an ending of names that name no account, too */
        NAME_BYTES = 64, /* longer names are judged by their end */
        END_BYTES = 3,   /* no row is shorter */
        ENDS = 256,
};

#define ROW(text) text, sizeof(text) - 1
static const struct row {
        const char *name; /* folded */
        uint8_t n, where;
} rows[] = {
        { ROW("authorization"), AT_HEADER | AT_QUERY | ENDING }, /* proxy-, x-, x-forwarded-, x-original-, http-, x-serverless- */
        { ROW("authentication"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("auth"), AT_HEADER | AT_QUERY | ENDING },         /* x-auth, x-registry-auth, x-sentry-auth, helicone-auth */
        { ROW("cookie"), AT_HEADER | ENDING },
        { ROW("cookie2"), AT_HEADER },
        { ROW("token"), AT_HEADER | AT_QUERY | ENDING | OFTEN_HARMLESS }, /* private-token, job-token, x-auth-token, access_token, x-amz-security-token */
        { ROW("apikey"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("api_key"), AT_HEADER | AT_QUERY | ENDING },      /* x-api-key, x-goog-api-key, xi-api-key, dd-api-key */
        { ROW("hapikey"), AT_QUERY },
        { ROW("auth_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("authkey"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("access_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("accesskey"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("access_key_id"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("accesskeyid"), AT_HEADER | AT_QUERY | ENDING },  /* awsaccesskeyid */
        { ROW("googleaccessid"), AT_QUERY },
        { ROW("app_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("appkey"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("application_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("subscription_key"), AT_HEADER | AT_QUERY | ENDING }, /* ocp-apim-subscription-key */
        { ROW("functions_key"), AT_HEADER | ENDING },
        { ROW("rapidapi_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("secret_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("secretkey"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("private_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("license_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("user_key"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("userkey"), AT_HEADER | AT_QUERY },
        { ROW("service_key"), AT_QUERY | ENDING },
        { ROW("servicekey"), AT_QUERY | ENDING },
        { ROW("master_key"), AT_QUERY | ENDING },
        { ROW("consumer_key"), AT_QUERY | ENDING },             /* oauth_consumer_key */
        { ROW("_key"), AT_HEADER | ENDING | OFTEN_HARMLESS },   /* x-key, fastly-key, x-appwrite-key, x-query-key, x-parse-master-key */
        { ROW("key"), AT_QUERY },
        { ROW("secret"), AT_HEADER | AT_QUERY | ENDING },       /* client_secret, cf-access-client-secret */
        { ROW("password"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("passwd"), AT_HEADER | AT_QUERY },
        { ROW("pwd"), AT_QUERY },
        { ROW("passphrase"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("credential"), AT_HEADER | AT_QUERY | ENDING },   /* x-amz-credential, x-goog-credential */
        { ROW("credentials"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("signature"), AT_HEADER | AT_QUERY | ENDING },    /* who signed it: x-amz-signature, x-goog-signature */
        { ROW("sig"), AT_QUERY },
        { ROW("assertion"), AT_HEADER | AT_QUERY | ENDING },    /* client_assertion, cf-access-jwt-assertion */
        { ROW("jwt"), AT_HEADER | AT_QUERY | ENDING },
        { ROW("x_jfrog_art_api"), AT_HEADER },
        { ROW("x_registry_config"), AT_HEADER },
        { ROW("x_honeycomb_team"), AT_HEADER },
        { ROW("phpsessid"), AT_QUERY },
        { ROW("jsessionid"), AT_QUERY },
        { ROW("appid"), AT_QUERY },
};

/* What stands in front of such an ending where no account is named: paging, anti-forgery, caching, the WebSocket handshake. */
static const char *const harmless[] = { "csrf", "xsrf", "csrfmiddleware", "page", "next", "prev", "continuation", "sync", "cursor", "resume", "idempotency",
        "offline" /* docker asks a token server for one with offline_token=true */, "sec_websocket", "cache", "surrogate", "partition", "sort" };

static bool names_no_account(struct slice folded, const struct row *r)
{
        struct slice before = slice_first(folded, folded.n - r->n);

        if (before.n && before.p[before.n - 1] == '_')
                before.n--;
        for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
                if (slice_ends(before, slice_str(harmless[i])))
                        return true;
        return false;
}

enum { ROWS = sizeof(rows) / sizeof(*rows) };

/* The rows by what a name ends in: asked of every header of every request, of which nearly none ends like a row. Built at the first question. */
static struct {
        bool built;
        uint8_t first[ENDS]; /* row + 1 */
        uint8_t next[ROWS];
} ends;

static uint8_t fold(uint8_t c) { return c == '-' || c == '.' || c == ' ' ? '_' : ascii_lower(c); }

static uint8_t end_of(struct slice name)
{
        const uint8_t *p = name.p + name.n - END_BYTES;

        return (uint8_t)(fold(p[0]) * 7 + fold(p[1]) * 31 + fold(p[2]));
}

static void ends_build(void)
{
        for (size_t i = ROWS; i-- > 0;) {
                assert(rows[i].n >= END_BYTES);
                uint8_t *first = &ends.first[end_of(slice_of(rows[i].name, rows[i].n))];
                ends.next[i] = *first;
                *first = (uint8_t)(i + 1);
        }
        ends.built = true;
}

/* The first row that ends in what the name ends in, + 1; 0: none. */
static uint8_t ends_like(struct slice name)
{
        if (!ends.built)
                ends_build();
        return name.n < END_BYTES ? 0 : ends.first[end_of(name)];
}

static bool ends_in(struct slice name, const struct row *r)
{
        if (r->n > name.n)
                return false;
        for (size_t i = 1; i <= r->n; i++)
                if (fold(name.p[name.n - i]) != r->name[r->n - i])
                        return false;
        return true;
}

static bool listed(struct slice folded, unsigned where)
{
        for (uint8_t i = ends_like(folded); i; i = ends.next[i - 1]) {
                const struct row *r = &rows[i - 1];

                if (!(r->where & where) || !ends_in(folded, r))
                        continue;
                if (r->n == folded.n || (r->where & ENDING && !(r->where & OFTEN_HARMLESS && names_no_account(folded, r))))
                        return true;
        }
        return false;
}

/* Before a name is folded: does it end in any row? */
static bool like_any(struct slice name)
{
        for (uint8_t i = ends_like(name); i; i = ends.next[i - 1])
                if (ends_in(name, &rows[i - 1]))
                        return true;
        return false;
}

struct folded {
        uint8_t bytes[NAME_BYTES];
        size_t n;
};

static void fold_byte(struct folded *f, int c)
{
        if (f->n == sizeof(f->bytes)) { /* too long to be a whole row: its end is what counts */
                memmove(f->bytes, f->bytes + NAME_BYTES / 2, NAME_BYTES / 2);
                f->n = NAME_BYTES / 2;
        }
        f->bytes[f->n++] = fold((uint8_t)c);
}

static void fold_header(struct folded *f, struct slice name)
{
        f->n = 0;
        for (size_t i = 0; i < name.n; i++)
                fold_byte(f, name.p[i]);
}

static int hex_value(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct slice text_of(const struct folded *f) { return slice_of(f->bytes, f->n); }

/* The byte at *i with `depth` layers of percent-encoding taken off; *i moves behind it. */
static int byte_at(struct slice s, size_t *i, unsigned depth)
{
        size_t at;
        int c, hi = -1, lo = -1;

        if (depth == 0)
                return s.p[(*i)++];
        c = byte_at(s, i, depth - 1);
        if (c != '%')
                return c;
        at = *i;
        if (at < s.n)
                hi = hex_value((uint8_t)byte_at(s, &at, depth - 1));
        if (hi >= 0 && at < s.n)
                lo = hex_value((uint8_t)byte_at(s, &at, depth - 1));
        if (lo < 0)
                return c;
        *i = at;
        return hi << 4 | lo;
}

/* A query key as frameworks take it apart: "user[access_token]" (PHP, Rails, qs), "user.access_token" (qs, Spring), "access_token[]", cut at a NUL. `name`
 * is all that was read, its parts joined by "_"; `part` is where the last part begins in it. */
struct parts {
        struct slice key;
        unsigned depth; /* of percent-encoding */
        size_t i;
        struct folded name;
        size_t part;
};

static bool separates(int c) { return c == '[' || c == ']' || c == '.' || c == 0; }

/* Reads the next part that is not empty; false: there is none. */
static bool part_next(struct parts *p)
{
        size_t n = 0;

        while (p->i < p->key.n) {
                int c = byte_at(p->key, &p->i, p->depth);

                if (c == '+')
                        c = ' ';
                if (separates(c) && n)
                        break;
                if (separates(c) || (c == ' ' && !n)) /* PHP drops blanks in front */
                        continue;
                if (!n && p->name.n)
                        fold_byte(&p->name, '_');
                fold_byte(&p->name, c);
                n++;
        }
        /* fold_byte lets the front go of what is too long: a part of that length is no whole row */
        p->part = n <= p->name.n ? p->name.n - n : 0;
        return n > 0;
}

/* The last part by itself, or all of the name so far. */
static bool part_listed(const struct parts *p)
{
        struct slice name = text_of(&p->name), part = slice_skip(name, p->part);

        if (listed(name, AT_QUERY))
                return true;
        for (uint8_t i = ends_like(part); i; i = ends.next[i - 1]) {
                const struct row *r = &rows[i - 1];

                if (r->where & AT_QUERY && r->n == part.n && ends_in(part, r) && !names_no_account(name, r))
                        return true;
        }
        return false;
}

/* Layers of percent-encoding that are looked through: the origin's own, a proxy's in front of it, and one more. */
enum { DEPTH_MAX = 3 };

static unsigned depth_of(struct slice key) { return slice_find(key, '%') < 0 ? 1 : DEPTH_MAX; }

bool account_is_header(struct slice name)
{
        struct folded f;

        if (!like_any(name))
                return false;
        fold_header(&f, name);
        return listed(text_of(&f), AT_HEADER);
}

/* One layer of encoding more may hide a name as well as show it: each depth is asked. */
bool account_is_query(struct slice key)
{
        for (unsigned depth = 1; depth <= depth_of(key); depth++) {
                struct parts p = { .key = key, .depth = depth };

                while (part_next(&p))
                        if (part_listed(&p))
                                return true;
        }
        return false;
}

bool account_same_header(struct slice a, struct slice b)
{
        struct folded fa, fb;

        if (a.n != b.n && a.n <= NAME_BYTES && b.n <= NAME_BYTES) /* nothing is dropped of them */
                return false;
        fold_header(&fa, a);
        fold_header(&fb, b);
        return slice_eq(text_of(&fa), text_of(&fb));
}

bool account_same_query(struct slice a, struct slice b)
{
        struct parts whole = { .key = b, .depth = 1 };

        while (part_next(&whole))
                ;
        for (unsigned depth = 1; depth <= depth_of(a); depth++) {
                struct parts p = { .key = a, .depth = depth };

                while (part_next(&p)) {
                        struct slice name = text_of(&p.name);
                        if (slice_eq(name, text_of(&whole.name)) || slice_eq(slice_skip(name, p.part), text_of(&whole.name)))
                                return true;
                }
        }
        return false;
}
