/* A guest's file of any content: writing it again changes nothing, and what was ours comes out again without a trace.
 *
 * Input: file, which kinds are bound, then the file. "@" is a placeholder. */
#include "account/guest.h"
#include "accounts.h"

#include <jansson.h>

enum { BINDINGS = 8 };

static int write_file(size_t i, const struct binding *b, size_t n, struct slice present, struct buf *out)
{
        const char *why = NULL;
        int rc = guest_file(i, b, n, present, out, &why);

        HOLDS((rc < 0) == (why != NULL));
        HOLDS(rc == 1 || buf_len(out) == 0);
        if (rc == 0)
                buf_add_slice(out, present);
        return rc;
}

/* But for the line end that had to be added, and an empty YAML that nothing could stand beside. */
static bool same(struct slice a, struct slice b)
{
        if (b.n && b.p[b.n - 1] != '\n' && a.n == b.n + 1 && a.p[b.n] == '\n')
                a.n--;
        return slice_eq(a, b) || (a.n == 0 && slice_starts(b, SLICE_LIT("{}")));
}

static bool is_written(const char *name)
{
        static const char *const names[] = { "auths", "mcp", "mcpServers", "hasCompletedOnboarding", "customApiKeyResponses", "security", "privacy", "general", "auth_mode", "OPENAI_API_KEY" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* Every member of the outermost object but those that brome writes is there as before, and none is new but those. */
static void holds_rest(struct slice before, struct slice after)
{
        json_t *was = json_loadb((const char *)before.p, before.n, JSON_ALLOW_NUL, NULL), *now = json_loadb((const char *)after.p, after.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL), *v;
        const char *name;

        json_object_foreach(was, name, v)
                HOLDS(is_written(name) ? json_object_get(now, name) != NULL : json_equal(v, json_object_get(now, name)));
        json_object_foreach(now, name, v)
                HOLDS(json_object_get(was, name) || is_written(name));
        json_decref(was);
        json_decref(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static const enum account_kind kinds[BINDINGS] = { ACCOUNT_GITHUB, ACCOUNT_NPM, ACCOUNT_REGISTRY, ACCOUNT_MCP, ACCOUNT_BASIC, ACCOUNT_ANTHROPIC, ACCOUNT_OPENAI, ACCOUNT_GEMINI };
        struct slice in = slice_of(data, n), present;
        struct fuzz_binding f[BINDINGS];
        struct binding b[BINDINGS];
        struct buf text, once, twice, without, never;
        size_t file = fuzz_byte(&in) % 12, count = 0;
        uint8_t bound = fuzz_byte(&in);

        for (size_t i = 0; i < BINDINGS; i++) {
                fuzz_bind(&f[i], i == 4 && bound & 32 ? ACCOUNT_CARGO : i == 4 && bound & 64 ? ACCOUNT_PYPI : kinds[i]); /* with one of the models */
                if (bound >> i & 1)
                        b[count++] = f[i].b;
        }
        buf_init(&text, 0);
        buf_init(&once, 0);
        buf_init(&twice, 0);
        buf_init(&without, 0);
        buf_init(&never, 0);
        present = fuzz_fill(&text, in, count ? b[0].placeholder : f[0].b.placeholder);
        if (write_file(file, b, count, present, &once) >= 0) {
                if (strstr(guest_file_name(file), ".json"))
                        holds_rest(present, buf_slice(&once));
                HOLDS(write_file(file, b, count, buf_slice(&once), &twice) == 0);
                HOLDS(write_file(file, NULL, 0, buf_slice(&once), &without) >= 0);
                HOLDS(write_file(file, NULL, 0, present, &never) >= 0);
                if (!strstr(guest_file_name(file), ".json"))
                        HOLDS(same(buf_slice(&without), buf_slice(&never)));
        }
        buf_fini(&text);
        buf_fini(&once);
        buf_fini(&twice);
        buf_fini(&without);
        buf_fini(&never);
        return 0;
}
