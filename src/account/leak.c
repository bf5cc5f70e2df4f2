/* The leak warning: towards a host without a binding, a key that brome did not issue stands in an account field.
 *
 * It is a line for the trace, not a refusal, and so it must not become a leak itself: it shows a class and the vendor's public prefix, of an unknown
 * key at most four characters, of a password nothing. */
#include "account/account_priv.h"

#include "account/placeholder.h"

enum { OPAQUE_BYTES_MIN = 16, SHOWN_BYTES_MAX = 8, CLASS_BYTES_MAX = 11 /* class, blank, 8, "…" and NUL fit 24 */ };

static const struct {
        const char *prefix, *class;
        size_t bytes_min; /* of the whole */
} vendors[] = {
        { "ghp_", "github", 30 },      { "gho_", "github", 30 },     { "ghu_", "github", 30 },      { "ghs_", "github", 30 },
        { "ghr_", "github", 30 },      { "github_pat_", "github", 40 }, { "glpat-", "gitlab", 20 }, { "gldt-", "gitlab", 20 },
        { "glrt-", "gitlab", 20 },     { "glcbt-", "gitlab", 20 },   { "sk-ant-", "anthropic", 20 }, { "sk-or-", "openrouter", 20 },
        { "sk-", "openai", 20 },       { "AIza", "google", 35 },     { "ya29.", "google", 20 },     { "xai-", "xai", 20 },
        { "gsk_", "groq", 20 },        { "hf_", "huggingface", 20 }, { "npm_", "npm", 30 },         { "pypi-", "pypi", 30 },
        { "AKIA", "aws", 20 },         { "ASIA", "aws", 20 },        { "xoxb-", "slack", 20 },      { "xoxp-", "slack", 20 },
        { "xapp-", "slack", 20 },      { "sk_live_", "stripe", 20 }, { "rk_live_", "stripe", 20 },  { "SG.", "sendgrid", 40 },
        { "dop_v1_", "digitaloc.", 40 }, { "shpat_", "shopify", 30 }, { "lin_api_", "linear", 30 }, { "ATATT", "atlassian", 40 },
        { "eyJ", "jwt", 30 },
};

const char *token_class(struct slice token, size_t *show)
{
        for (size_t i = 0; i < sizeof(vendors) / sizeof(*vendors); i++) {
                struct slice prefix = slice_str(vendors[i].prefix);

                if (token.n < vendors[i].bytes_min || !slice_starts(token, prefix))
                        continue;
                *show = prefix.n < SHOWN_BYTES_MAX ? prefix.n : SHOWN_BYTES_MAX;
                return vendors[i].class;
        }
        return NULL;
}

static bool opaque(struct slice token)
{
        for (size_t i = 0; i < token.n; i++)
                if (token.p[i] <= ' ' || token.p[i] >= 0x7f || token.p[i] == '"')
                        return false;
        return token.n >= OPAQUE_BYTES_MIN;
}

static void warn(struct account_use *u, const char *class, struct slice token, size_t show, struct account_field field)
{
        char *out = u->leak_preview;
        size_t n = strnlen(class, CLASS_BYTES_MAX);

        if (u->leak)
                return;
        u->leak = true;
        u->leak_field = field;
        memcpy(out, class, n);
        out[n++] = ' ';
        for (size_t i = 0; i < show && i < token.n; i++)
                out[n++] = token.p[i] > ' ' && token.p[i] < 0x7f ? (char)token.p[i] : '?';
        memcpy(out + n, "…", sizeof("…"));
}

/* A key that is the whole content of a field. */
static void look(struct account_use *u, struct slice token, const char *unknown, struct account_field field)
{
        size_t show = 4;
        const char *class;

        if (placeholder_ok(token)) /* not a leak: the tripwire's */
                return;
        class = token_class(token, &show);
        if (class || opaque(token))
                warn(u, class ? class : unknown, token, show, field);
}

static void look_basic(struct account_use *u, struct slice encoded)
{
        struct account_field field = { .slot = SLOT_BASIC };
        uint8_t store[BASIC_BYTES_MAX];
        struct slice user, password, token;
        const char *class;
        size_t show = 0;

        if (!basic_decode(encoded, store, &user, &password))
                return;
        token = password.n ? password : user;
        if (!token.n || placeholder_ok(token))
                return;
        class = token_class(token, &show);
        warn(u, class ? class : "basic", token, show, field); /* a password shows nothing of itself */
}

static void look_header(struct account_use *u, const struct header *h)
{
        struct account_field field = { .slot = SLOT_HEADER, .name = h->name };
        struct authorization a;

        if (!account_is_header(h->name) || slice_ends(h->name, SLICE_LIT("cookie")))
                return;
        a = authorization_split(h->value);
        if (!slice_is(h->name, "authorization")) {
                look(u, a.scheme.n ? a.rest : h->value, "key", field);
                return;
        }
        field = (struct account_field){ .slot = SLOT_AUTHORIZATION };
        if (a.basic)
                look_basic(u, a.rest);
        else
                look(u, a.rest, "bearer", field);
}

void leak_find(const struct request *req, struct account_use *u)
{
        struct slice rest = req->target.query, key, value;

        for (size_t i = 0; i < req->headers.n; i++)
                look_header(u, &req->headers.at[i]);
        while (query_next(&rest, &key, &value))
                if (account_is_query(key))
                        look(u, value, "key", (struct account_field){ .slot = SLOT_QUERY, .name = key });
}
