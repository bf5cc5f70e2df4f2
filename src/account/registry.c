/* Token answers of container registries: see registry.h.
 *
 * What is not understood does not pass: of the object only the members that the protocol names are written again, the three that are secrets with
 * placeholders. So a token under a name of its own making never reaches the guest. */
#include "account/registry.h"

#include "account/kind.h"
#include "account/mask.h"
#include "account/swap.h"

#include <jansson.h>

enum { EXPIRES_S_DEFAULT = 60, EXPIRES_S_MAX = 24 * 3600 }; /* a token that claims to be good for longer is forgotten all the same */

static const char *const token_names[] = { "token", "access_token", "refresh_token" };
static const char *const plain_names[] = { "expires_in", "issued_at", "scope", "token_type" };
enum { TOKEN_NAMES = sizeof(token_names) / sizeof(*token_names), PLAIN_NAMES = sizeof(plain_names) / sizeof(*plain_names) };

/* The secret texts; what the parser had besides, an account's door wipes as it is freed (json_set_alloc_funcs). */
static void forget(json_t *root)
{
        for (size_t i = 0; root && i < TOKEN_NAMES; i++) {
                json_t *v = json_object_get(root, token_names[i]);

                if (json_is_string(v))
                        explicit_bzero((void *)(uintptr_t)json_string_value(v), json_string_length(v));
        }
        json_decref(root);
}

static bool token_ok(const json_t *v)
{
        struct slice s = slice_of(json_string_value(v), json_string_length(v));

        if (!json_is_string(v) || s.n < MASK_SECRET_BYTES_MIN || s.n > SECRET_BYTES_MAX || placeholder_ok(s))
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
                        return false;
        return true;
}

/* Every token member is sound, and there is one that the protocol asks for. */
static bool answer_ok(const json_t *root, size_t *bytes)
{
        *bytes = 0;
        if (!json_is_object(root))
                return false;
        for (size_t i = 0; i < TOKEN_NAMES; i++) {
                json_t *v = json_object_get(root, token_names[i]);

                if (v && !token_ok(v))
                        return false;
                *bytes += json_string_length(v);
        }
        return json_object_get(root, "token") || json_object_get(root, "access_token");
}

static uint64_t expires_of(const json_t *root)
{
        json_int_t s = json_integer_value(json_object_get(root, "expires_in"));
        return s <= 0 ? EXPIRES_S_DEFAULT : s > EXPIRES_S_MAX ? EXPIRES_S_MAX : (uint64_t)s;
}

struct reminting {
        const uint8_t (*random)[PLACEHOLDER_RANDOM_BYTES];
        size_t max, n;
        struct minted *minted;
        struct buf *store;
        uint64_t expires_s;
};

/* The placeholder of that secret, minted when it is a new one; NULL: no room. */
static const char *remint(struct reminting *m, struct slice secret)
{
        struct minted *new = &m->minted[m->n];
        uint8_t *at;

        for (size_t i = 0; i < m->n; i++)
                if (slice_eq(m->minted[i].secret, secret))
                        return m->minted[i].placeholder;
        if (m->n == m->max || !(at = buf_reserve(m->store, secret.n))) /* room for all was made before: it does not move */
                return NULL;
        memcpy(at, secret.p, secret.n);
        buf_commit(m->store, secret.n);
        new->secret = slice_of(at, secret.n);
        new->expires_s = m->expires_s;
        placeholder_mint(ACCOUNT_REGISTRY, m->random[m->n], new->placeholder);
        m->n++;
        return new->placeholder;
}

/* A string that holds none of the tokens, a number. */
static bool plain_ok(const json_t *root, json_t *v)
{
        if (json_is_integer(v))
                return true;
        for (size_t i = 0; json_is_string(v) && i < TOKEN_NAMES; i++) {
                const char *token = json_string_value(json_object_get(root, token_names[i]));
                if (token && strstr(json_string_value(v), token))
                        return false;
        }
        return json_is_string(v);
}

static json_t *rewrite(const json_t *root, struct reminting *m)
{
        json_t *out = json_object();
        int rc = out ? 0 : -1;

        for (size_t i = 0; rc == 0 && i < TOKEN_NAMES; i++) {
                json_t *v = json_object_get(root, token_names[i]);
                const char *placeholder = v ? remint(m, slice_of(json_string_value(v), json_string_length(v))) : NULL;

                if (v)
                        rc = placeholder ? json_object_set_new(out, token_names[i], json_string(placeholder)) : -1;
        }
        for (size_t i = 0; rc == 0 && i < PLAIN_NAMES; i++) {
                json_t *v = json_object_get(root, plain_names[i]);
                if (v && plain_ok(root, v))
                        rc = json_object_set(out, plain_names[i], v);
        }
        if (rc < 0) {
                json_decref(out);
                return NULL;
        }
        return out;
}

static int add_chunk(const char *bytes, size_t n, void *out) { return buf_add(out, bytes, n); }

int registry_remint(struct slice answer, const uint8_t (*random)[PLACEHOLDER_RANDOM_BYTES], size_t max, struct minted *minted, struct buf *store, struct buf *out)
{
        struct reminting m = { .random = random, .max = max, .minted = minted, .store = store };
        json_t *root = answer.n <= REGISTRY_ANSWER_BYTES_MAX ? json_loadb((const char *)answer.p, answer.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        json_t *clean = NULL;
        size_t bytes, written = buf_len(out);
        int rc = -1;

        if (answer_ok(root, &bytes) && buf_reserve(store, bytes)) {
                m.expires_s = expires_of(root);
                clean = rewrite(root, &m);
        }
        if (clean && json_dump_callback(clean, add_chunk, out, JSON_COMPACT) == 0)
                rc = (int)m.n;
        if (rc < 0 && buf_len(out) > written)
                out->end = out->start + written;
        json_decref(clean);
        forget(root);
        return rc;
}
