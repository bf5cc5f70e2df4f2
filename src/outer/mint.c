/* Registry tokens: see mint.h. */
#include "outer/mint.h"

#include "account/tokenserver.h"
#include "outer/account.h"
#include <jansson.h>
#include <openssl/rand.h>

enum { TOKENS_MAX = 3 }; /* token, access_token, refresh_token */

bool mint_asked(const struct exchange *ex)
{
        return ex->decision.binding && ex->decision.binding->kind == ACCOUNT_REGISTRY && !ex->to.base.n && ex->req.scheme == SCHEME_HTTPS &&
               tokenserver_asked(account_realms(ex->outer->account), &ex->req);
}

enum mint mint_of(const struct exchange *ex, const struct response *r, bool json)
{
        struct slice type = headers_value(&r->headers, "content-type");
        bool good = r->status >= 200 && r->status <= 299;

        if (!ex->decision.binding || ex->decision.binding->kind != ACCOUNT_REGISTRY || ex->to.base.n || ex->req.scheme != SCHEME_HTTPS)
                return MINT_NO;
        if (mint_asked(ex))
                return good ? MINT_MUST : MINT_MAYBE;
        /* Clients of registries do not look at the type: what may be read as JSON counts as JSON. */
        return good && (json || !type.n || slice_starts(type, SLICE_LIT("text/"))) ? MINT_MAYBE : MINT_NO;
}

/* A member that some reader takes for a token: Go's looks at no case, and reads the first value of several. */
static bool has_token(struct slice body)
{
        json_t *root = json_loadb((const char *)body.p, body.n, JSON_DISABLE_EOF_CHECK, NULL), *value;
        bool found = false;
        const char *name;

        if (!root)
                return tokenserver_suspects(body);
        json_object_foreach(root, name, value)
                found = found || tokenserver_member(slice_str(name));
        json_decref(root);
        return found;
}

static int tell(struct exchange *ex, const struct minted *minted, size_t count)
{
        struct header *at = arena_alloc_array(&ex->arena, count, sizeof(*at));
        bool ok = at != NULL;

        for (size_t i = 0; ok && i < count; i++)
                at[i] = (struct header){ SLICE_LIT("brome-minted"), arena_copy(&ex->arena, slice_str(minted[i].placeholder), &ok) };
        ex->own = (struct headers){ at, ok ? count : 0 };
        return ok ? 0 : -1;
}

int mint_answer(struct exchange *ex, struct slice body, struct buf *out)
{
        uint8_t random[TOKENS_MAX][PLACEHOLDER_RANDOM_BYTES];
        struct minted minted[TOKENS_MAX];
        struct buf store;
        int n = -1;

        buf_init(&store, 0);
        store.wipe = true;
        if (RAND_bytes(random[0], sizeof(random)) == 1)
                n = registry_remint(body, random, TOKENS_MAX, minted, &store, out);
        if (n <= 0 && !has_token(body)) {
                buf_fini(&store);
                return 0;
        }
        if (n > 0 && (account_keep(ex->outer->account, minted, (size_t)n) < 0 || tell(ex, minted, (size_t)n) < 0))
                n = -1;
        explicit_bzero(minted, sizeof(minted));
        buf_fini(&store);
        return n > 0 ? 1 : -1;
}
