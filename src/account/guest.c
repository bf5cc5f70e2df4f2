/* What a guest gets of its credentials: see guest.h. One table of files; each is lines between two marks, or members of a JSON object.
 *
 * A file is the guest's: whatever stands outside the marks stays as it is. Running it again changes nothing; without bindings what was ours is taken out. */
#include "account/guest_priv.h"

#include "account/placeholder.h"

#include <stdio.h>

enum { ENV_NAME_BYTES = 128, GUEST_MEMBERS_MAX = 4 };

#define MARK_BEGIN "# >>> brome: placeholders, written anew at every start"
#define MARK_END "# <<< brome"

static const struct file_row {
        const char *name;
        unsigned kinds;
        bool front; /* the first entry of a host is the one that counts */
        guest_lines *lines;
        guest_stray *stray;     /* may be NULL */
        guest_members *members; /* instead of lines */
        const char *member[GUEST_MEMBERS_MAX + 1]; /* the members of the object that may change */
} files[] = {
        { ".git-credentials", KIND_BIT(ACCOUNT_GITHUB) | KIND_BIT(ACCOUNT_GITLAB) | KIND_BIT(ACCOUNT_BASIC), true, lines_git_credentials, stray_git_credentials, NULL, { NULL } },
        { ".gitconfig", KIND_BIT(ACCOUNT_GITHUB) | KIND_BIT(ACCOUNT_GITLAB) | KIND_BIT(ACCOUNT_BASIC), false, lines_git_config, NULL, NULL, { NULL } },
        { ".config/gh/hosts.yml", KIND_BIT(ACCOUNT_GITHUB), false, lines_gh_hosts, NULL, NULL, { NULL } },
        { ".npmrc", KIND_BIT(ACCOUNT_NPM), false, lines_npmrc, stray_npmrc, NULL, { NULL } },
        { ".netrc", KIND_BIT(ACCOUNT_PYPI) | KIND_BIT(ACCOUNT_BASIC), true, lines_netrc, stray_netrc, NULL, { NULL } }, /* pip, uv, curl -n */
        { ".cargo/credentials.toml", KIND_BIT(ACCOUNT_CARGO), false, lines_cargo, NULL, NULL, { NULL } },
        { ".docker/config.json", KIND_BIT(ACCOUNT_REGISTRY), false, NULL, NULL, members_docker, { "auths" } },
        { ".claude.json", KIND_BIT(ACCOUNT_MCP) | KIND_BIT(ACCOUNT_ANTHROPIC), false, NULL, NULL, members_claude, { "mcpServers", "hasCompletedOnboarding", "customApiKeyResponses" } },
        { ".gemini/settings.json", KIND_BIT(ACCOUNT_MCP) | KIND_BIT(ACCOUNT_GEMINI), false, NULL, NULL, members_gemini, { "mcpServers", "security", "privacy", "general" } },
        { ".config/opencode/opencode.json", KIND_BIT(ACCOUNT_MCP), false, NULL, NULL, members_opencode, { "mcp" } },
        { ".codex/auth.json", KIND_BIT(ACCOUNT_OPENAI), false, NULL, NULL, members_codex_auth, { "auth_mode", "OPENAI_API_KEY" } },
        { ".codex/config.toml", KIND_BIT(ACCOUNT_MCP) | KIND_BIT(ACCOUNT_OPENAI), false, lines_codex, NULL, NULL, { NULL } },
};
enum { FILES = sizeof(files) / sizeof(*files) };

const char *guest_file_name(size_t i) { return i < FILES ? files[i].name : NULL; }

bool guest_binding_wants(const struct binding *b, unsigned kinds) { return !b->attach && b->placeholder.n && (kinds & KIND_BIT(b->kind)); }

const char *host_text(char out[HOST_TEXT_MAX], const struct binding_host *h)
{
        if (h->port == 443)
                snprintf(out, HOST_TEXT_MAX, "%.*s", SLICE_FMT(h->name));
        else
                snprintf(out, HOST_TEXT_MAX, "%.*s:%u", SLICE_FMT(h->name), (unsigned)h->port);
        return out;
}

struct slice guest_user(const struct binding *b, const char *otherwise)
{
        const char *of_kind = kind_row(b->kind)->user;
        return b->user.n ? b->user : slice_str(of_kind ? of_kind : otherwise);
}

/* ---- variables --------------------------------------------------------------------------------------------------------------------------- */

/* PREFIX, the credential's name as a variable has it, SUFFIX. False: too long. */
static bool env_of_name(char out[ENV_NAME_BYTES], const char *prefix, struct slice name, const char *suffix)
{
        int n = snprintf(out, ENV_NAME_BYTES, "%s%.*s%s", prefix, SLICE_FMT(name), suffix);

        for (char *c = out; *c; c++)
                *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        return n > 0 && n < ENV_NAME_BYTES;
}

/* What a client of that kind needs besides the secret. */
static void env_besides(const struct binding *b, void (*each)(void *ctx, const char *name, struct slice value), void *ctx)
{
        char name[ENV_NAME_BYTES];

        if (b->kind == ACCOUNT_PYPI)
                each(ctx, "TWINE_USERNAME", guest_user(b, "__token__"));
        if (b->kind != ACCOUNT_CARGO)
                return;
        each(ctx, "CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS", SLICE_LIT("cargo:token")); /* without one, cargo refuses to read where a token is needed */
        if (env_of_name(name, "CARGO_REGISTRIES_", b->name, "_TOKEN"))
                each(ctx, name, b->placeholder);
}

void guest_env(const struct binding *b, struct slice as_env, void (*each)(void *ctx, const char *name, struct slice value), void *ctx)
{
        const struct kind_row *row = kind_row(b->kind);
        bool instead = kind_env_instead(b->kind, as_env), given = false;
        char name[ENV_NAME_BYTES];

        if (b->attach || !b->placeholder.n)
                return;
        for (size_t i = 0; !instead && i < sizeof(row->env) / sizeof(*row->env) && row->env[i]; i++) {
                each(ctx, row->env[i], b->placeholder);
                given = given || slice_is(as_env, row->env[i]);
        }
        env_besides(b, each, ctx);
        /* A kind of no vendor: no client looks anywhere by itself, so the placeholder stands under the credential's own name. */
        if (as_env.n == 0 && (KIND_BIT(b->kind) & (KIND_BIT(ACCOUNT_BEARER) | KIND_BIT(ACCOUNT_BASIC) | KIND_BIT(ACCOUNT_HEADER))) && env_of_name(name, "", b->name, "_TOKEN"))
                each(ctx, name, b->placeholder);
        if (given || as_env.n == 0 || as_env.n >= sizeof(name))
                return;
        memcpy(name, as_env.p, as_env.n);
        name[as_env.n] = '\0';
        each(ctx, name, b->placeholder);
}

/* ---- lines between marks -------------------------------------------------------------------------------------------------------------------- */

/* Takes the next line, with its end. */
static struct slice line_next(struct slice *text)
{
        ptrdiff_t end = slice_find(*text, '\n');
        struct slice line = end < 0 ? *text : slice_first(*text, (size_t)end + 1);

        *text = slice_skip(*text, line.n);
        return line;
}

static struct slice line_text(struct slice line)
{
        while (line.n && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
                line.n--;
        return line;
}

/* What the guest wrote, without what is ours; *at is where ours stood. -1: a mark without its end (or memory). */
static int lines_rest(const struct file_row *row, struct slice text, struct buf *rest, size_t *at)
{
        bool inside = false, seen = false;

        *at = 0;
        while (text.n) {
                struct slice line = line_next(&text), bare = line_text(line);

                if (slice_is(bare, inside ? MARK_END : MARK_BEGIN)) {
                        if (!seen)
                                *at = buf_len(rest);
                        seen = true;
                        inside = !inside;
                } else if (!inside && !(row->stray && row->stray(bare)) && buf_add_slice(rest, line) < 0) {
                        return -1;
                }
        }
        if (!seen && !row->front)
                *at = buf_len(rest);
        return inside ? -1 : 0;
}

static int lines_file(const struct file_row *row, const struct binding *bindings, size_t count, struct slice present, struct buf *out, const char **why)
{
        struct buf rest, ours;
        struct slice r;
        size_t at;
        int rc = -1;

        buf_init(&rest, 0);
        buf_init(&ours, 0);
        *why = "a mark of brome's stands in it without the other";
        if (lines_rest(row, present, &rest, &at) < 0)
                goto end;
        r = buf_slice(&rest);
        if (slice_is(line_text(r), "{}")) { /* how YAML is written when it is empty: nothing can stand beside it */
                buf_clear(&rest);
                r = SLICE_EMPTY;
                at = 0;
        }
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], row->kinds))
                        row->lines(&bindings[i], r, &ours);
        *why = "out of memory";
        if (ours.failed)
                goto end;
        buf_add_slice(out, slice_first(r, at));
        if (buf_len(&ours)) {
                if (at && r.p[at - 1] != '\n')
                        buf_add_str(out, "\n");
                buf_add_str(out, MARK_BEGIN "\n");
                buf_add_slice(out, buf_slice(&ours));
                buf_add_str(out, MARK_END "\n");
        }
        buf_add_slice(out, slice_skip(r, at));
        rc = out->failed ? -1 : slice_eq(buf_slice(out), present) ? 0 : 1;
end:
        buf_fini(&rest);
        buf_fini(&ours);
        return rc;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------------------------ */

static bool blank(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != ' ' && s.p[i] != '\t' && s.p[i] != '\r' && s.p[i] != '\n')
                        return false;
        return true;
}

/* 1: *out has the text with the members that changed; 0: none did; -1. */
static int splice_members(const struct file_row *row, struct slice text, const json_t *was, const json_t *now, struct buf *out)
{
        struct buf next;
        int rc = 0;

        buf_init(&next, 0);
        for (size_t i = 0; rc >= 0 && row->member[i]; i++) {
                json_t *value = json_object_get(now, row->member[i]);

                if (!value || json_equal(json_object_get(was, row->member[i]), value))
                        continue;
                buf_clear(&next);
                if (json_splice(rc ? buf_slice(out) : text, row->member[i], value, &next) < 0) {
                        rc = -1;
                        break;
                }
                buf_clear(out);
                rc = buf_add_slice(out, buf_slice(&next)) < 0 ? -1 : 1;
        }
        buf_fini(&next);
        return rc;
}

static int json_file(const struct file_row *row, const struct binding *bindings, size_t count, struct slice present, struct buf *out, const char **why)
{
        struct slice text = blank(present) ? SLICE_LIT("{}\n") : present;
        /* jansson passes over a NUL byte behind a number */
        json_t *was = slice_find(text, 0) >= 0 ? NULL : json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        json_t *now = json_deep_copy(was);
        int rc = -1;

        *why = "it is not a JSON object";
        if (json_is_object(now) && row->members(now, bindings, count, why) == 0) {
                *why = "it cannot be changed in place";
                rc = splice_members(row, text, was, now, out);
        }
        json_decref(was);
        json_decref(now);
        return rc;
}

int guest_file(size_t i, const struct binding *bindings, size_t count, struct slice present, struct buf *out, const char **why)
{
        int rc;

        *why = "there is no such file";
        if (i >= FILES)
                return -1;
        *why = "it is larger than 256 KiB";
        if (present.n > GUEST_FILE_BYTES_MAX)
                return -1;
        buf_clear(out);
        rc = files[i].members ? json_file(&files[i], bindings, count, present, out, why) : lines_file(&files[i], bindings, count, present, out, why);
        if (rc != 1)
                buf_clear(out);
        if (rc >= 0)
                *why = NULL;
        return rc;
}
