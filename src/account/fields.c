/* Which header fields and query keys name an account: one table for both.
 *
 * Names are folded first, as origins fold them: no case, "-" as "_" (CGI), of a query key also the decoded form, blanks in front dropped, "." and " "
 * as "_" and what stands before a "[" or a NUL (PHP). A row is a whole name or an ending; endings catch the vendors that nobody listed (x-acme-api-key).
 * It must never be narrower than what origins take for a key; a harmless name refused costs `foreign ok`. */
#include "account/check.h"

enum {
        AT_HEADER = 1,
        AT_QUERY = 2,
        ENDING = 4,
        NAME_BYTES = 64, /* longer names are judged by their end */
};

static const struct {
        const char *name; /* folded */
        unsigned where;
} rows[] = {
        { "authorization", AT_HEADER | AT_QUERY | ENDING }, /* proxy-, x-, x-forwarded-, x-original-, http-, x-serverless- */
        { "authentication", AT_HEADER | AT_QUERY | ENDING },
        { "auth", AT_HEADER | AT_QUERY | ENDING },         /* x-auth, x-registry-auth, x-sentry-auth, helicone-auth */
        { "cookie", AT_HEADER | ENDING },
        { "cookie2", AT_HEADER },
        { "token", AT_HEADER | AT_QUERY | ENDING },        /* private-token, job-token, x-auth-token, access_token, x-amz-security-token */
        { "apikey", AT_HEADER | AT_QUERY | ENDING },
        { "api_key", AT_HEADER | AT_QUERY | ENDING },      /* x-api-key, x-goog-api-key, xi-api-key, dd-api-key */
        { "hapikey", AT_QUERY },
        { "auth_key", AT_HEADER | AT_QUERY | ENDING },
        { "authkey", AT_HEADER | AT_QUERY | ENDING },
        { "access_key", AT_HEADER | AT_QUERY | ENDING },
        { "accesskey", AT_HEADER | AT_QUERY | ENDING },
        { "access_key_id", AT_HEADER | AT_QUERY | ENDING },
        { "accesskeyid", AT_HEADER | AT_QUERY | ENDING },  /* awsaccesskeyid */
        { "googleaccessid", AT_QUERY },
        { "app_key", AT_HEADER | AT_QUERY | ENDING },
        { "appkey", AT_HEADER | AT_QUERY | ENDING },
        { "application_key", AT_HEADER | AT_QUERY | ENDING },
        { "subscription_key", AT_HEADER | AT_QUERY | ENDING }, /* ocp-apim-subscription-key */
        { "functions_key", AT_HEADER | ENDING },
        { "rapidapi_key", AT_HEADER | AT_QUERY | ENDING },
        { "secret_key", AT_HEADER | AT_QUERY | ENDING },
        { "secretkey", AT_HEADER | AT_QUERY | ENDING },
        { "private_key", AT_HEADER | AT_QUERY | ENDING },
        { "license_key", AT_HEADER | AT_QUERY | ENDING },
        { "user_key", AT_HEADER | AT_QUERY | ENDING },
        { "userkey", AT_HEADER | AT_QUERY },
        { "x_key", AT_HEADER },
        { "key", AT_QUERY },
        { "secret", AT_HEADER | AT_QUERY | ENDING },       /* client_secret, cf-access-client-secret */
        { "password", AT_HEADER | AT_QUERY | ENDING },
        { "passwd", AT_HEADER | AT_QUERY },
        { "pwd", AT_QUERY },
        { "passphrase", AT_HEADER | AT_QUERY | ENDING },
        { "credential", AT_HEADER | AT_QUERY | ENDING },   /* x-amz-credential, x-goog-credential */
        { "credentials", AT_HEADER | AT_QUERY | ENDING },
        { "signature", AT_HEADER | AT_QUERY | ENDING },    /* who signed it: x-amz-signature, x-goog-signature */
        { "sig", AT_QUERY },
        { "assertion", AT_HEADER | AT_QUERY | ENDING },    /* client_assertion, cf-access-jwt-assertion */
        { "jwt", AT_HEADER | AT_QUERY | ENDING },
        { "x_jfrog_art_api", AT_HEADER },
        { "x_registry_config", AT_HEADER },
        { "x_honeycomb_team", AT_HEADER },
        { "phpsessid", AT_QUERY },
        { "jsessionid", AT_QUERY },
        { "appid", AT_QUERY },
};

/* Names with such an ending that name no account. */
static const char *const harmless[] = { "csrf", "xsrf", "page", "next", "prev", "continuation", "sync", "cursor", "resume", "idempotency", "request_token" };

static bool has(struct slice s, const char *text)
{
        struct slice t = slice_str(text);

        for (size_t i = 0; i + t.n <= s.n; i++)
                if (memcmp(s.p + i, t.p, t.n) == 0)
                        return true;
        return false;
}

static bool listed(struct slice folded, unsigned where)
{
        bool found = false;

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct slice name = slice_str(rows[i].name);

                if (!(rows[i].where & where))
                        continue;
                if (slice_eq(folded, name))
                        return true;
                found = found || ((rows[i].where & ENDING) && slice_ends(folded, name));
        }
        if (!found)
                return false;
        for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
                if (has(folded, harmless[i]))
                        return false;
        return true;
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
        f->bytes[f->n++] = strchr("-. ", c) && c ? '_' : ascii_lower((uint8_t)c);
}

bool account_is_header(struct slice name)
{
        struct folded f = { .n = 0 };

        for (size_t i = 0; i < name.n; i++)
                fold_byte(&f, name.p[i]);
        return listed(slice_of(f.bytes, f.n), AT_HEADER);
}

static int hex_value(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool account_is_query(struct slice key)
{
        struct folded f = { .n = 0 };

        for (size_t i = 0; i < key.n; i++) {
                int c = key.p[i] == '+' ? ' ' : key.p[i];

                if (c == '%' && key.n - i > 2) {
                        int hi = hex_value(key.p[i + 1]), lo = hex_value(key.p[i + 2]);
                        if (hi >= 0 && lo >= 0) {
                                c = hi << 4 | lo;
                                i += 2;
                        }
                }
                if (c == '[' || c == 0)
                        break;
                if (c != ' ' || f.n)
                        fold_byte(&f, c);
        }
        return listed(slice_of(f.bytes, f.n), AT_QUERY);
}
