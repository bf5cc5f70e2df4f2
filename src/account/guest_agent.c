/* What coding agents want in a file before they take a key from their environment: that it is approved, that there is nothing to log in to, that they ask
 * nobody else. The kind of the credential tells whose file it is.
 *
 * The guest's word counts: a setting that stands there stays, whatever it says. So running it again changes nothing, and nothing is taken out but keys. */
#include "account/guest_priv.h"

#include "account/placeholder.h"

static struct slice text_of(const json_t *v) { return slice_of(json_string_value(v), json_string_length(v)); }

static const struct binding *first_of(const struct binding *bindings, size_t count, unsigned kinds)
{
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], kinds))
                        return &bindings[i];
        return NULL;
}

/* Takes value. Where a member on the way is something else than an object, the guest means something else. */
static int set_missing(json_t *root, const char *const *path, json_t *value)
{
        json_t *o = root;

        for (; path[1] && json_is_object(o); path++) {
                json_t *next = json_object_get(o, path[0]);

                if (!next && json_object_set_new(o, path[0], next = json_object()) < 0) {
                        json_decref(value);
                        return -1;
                }
                o = next;
        }
        if (json_is_object(o) && !json_object_get(o, path[0]))
                return json_object_set_new(o, path[0], value);
        json_decref(value);
        return 0;
}
#define PATH(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- Claude Code: ~/.claude.json ----------------------------------------------------------------------------------------------------------------------- */

enum { CLAUDE_TAIL_BYTES = 20 }; /* it remembers a key by its last characters */

static bool has_text(const json_t *list, struct slice text)
{
        size_t i;
        json_t *v;

        json_array_foreach(list, i, v)
                if (slice_eq(text_of(v), text))
                        return true;
        return false;
}

static int claude_approve(json_t *root, const struct binding *b)
{
        struct slice key = b->placeholder, tail = key.n > CLAUDE_TAIL_BYTES ? slice_skip(key, key.n - CLAUDE_TAIL_BYTES) : key;
        json_t *answers, *approved;

        if (set_missing(root, PATH("customApiKeyResponses", "approved"), json_array()) < 0 || set_missing(root, PATH("customApiKeyResponses", "rejected"), json_array()) < 0)
                return -1;
        answers = json_object_get(root, "customApiKeyResponses");
        approved = json_object_get(answers, "approved");
        if (!json_is_array(approved) || has_text(approved, tail) || has_text(json_object_get(answers, "rejected"), tail))
                return 0;
        return json_array_append_new(approved, json_stringn((const char *)tail.p, tail.n));
}

int members_claude(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        if (mcp_claude(root, bindings, count, why) < 0)
                return -1;
        *why = "out of memory";
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], KIND_BIT(ACCOUNT_ANTHROPIC)) &&
                    (set_missing(root, PATH("hasCompletedOnboarding"), json_true()) < 0 || claude_approve(root, &bindings[i]) < 0))
                        return -1;
        return 0;
}

/* ---- Gemini CLI: ~/.gemini/settings.json --------------------------------------------------------------------------------------------------------------- */

int members_gemini(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        if (mcp_gemini(root, bindings, count, why) < 0)
                return -1;
        *why = "out of memory";
        if (!first_of(bindings, count, KIND_BIT(ACCOUNT_GEMINI)))
                return 0;
        if (set_missing(root, PATH("security", "auth", "selectedType"), json_string("gemini-api-key")) < 0 ||
            set_missing(root, PATH("privacy", "usageStatisticsEnabled"), json_false()) < 0 || set_missing(root, PATH("general", "enableAutoUpdate"), json_false()) < 0)
                return -1;
        return set_missing(root, PATH("general", "enableAutoUpdateNotification"), json_false());
}

/* ---- Codex: ~/.codex/auth.json, ~/.codex/config.toml ------------------------------------------------------------------------------------------------------ */

#define CODEX_KEY "OPENAI_API_KEY"

/* A login of the guest's own, with tokens or another key, stays. */
int members_codex_auth(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        const struct binding *b = first_of(bindings, count, KIND_BIT(ACCOUNT_OPENAI));
        json_t *key = json_object_get(root, CODEX_KEY), *mode = json_object_get(root, "auth_mode");
        bool ours = json_is_string(key) && placeholder_ok(text_of(key));

        *why = "out of memory";
        if (!b)
                return ours ? json_object_set_new(root, CODEX_KEY, json_null()) : 0;
        if ((key && !json_is_null(key) && !ours) || (mode && !slice_is(text_of(mode), "apikey")) || json_is_object(json_object_get(root, "tokens")))
                return 0;
        if (set_missing(root, PATH("auth_mode"), json_string("apikey")) < 0)
                return -1;
        return json_object_set_new(root, CODEX_KEY, json_stringn((const char *)b->placeholder.p, b->placeholder.n));
}

/* A table stands once in TOML, and not beside dotted keys of its name: where the word is anywhere, the guest has said something. */
static void table_once(struct slice rest, struct buf *out, const char *word, const char *lines)
{
        struct slice said = buf_slice(out);

        if ((rest.n && memmem(rest.p, rest.n, word, strlen(word))) || (said.n && memmem(said.p, said.n, word, strlen(word))))
                return;
        buf_addf(out, "[%s]\n%s", word, lines);
}

void lines_codex(const struct binding *b, struct slice rest, struct buf *out)
{
        if (b->kind == ACCOUNT_MCP) {
                mcp_codex(b, rest, out);
                return;
        }
        table_once(rest, out, "features", "api_key_model_discovery = false\nplugins = false\n");
        table_once(rest, out, "analytics", "enabled = false\n");
}
