/* Files that are JSON objects: the container clients' config.json, and the MCP servers of Claude Code, Gemini CLI and opencode.
 *
 * A member is ours when a placeholder stands where we write it. A server of ours whose other members the guest changed (another path, say) keeps them: only
 * its placeholder is brought up to date. */
#include "account/guest_priv.h"

#include "account/basic.h"
#include "account/placeholder.h"

#include <stdio.h>

/* ---- changing one member of a text -------------------------------------------------------------------------------------------------------------------- */

static void skip_blank(struct slice *s)
{
        while (s->n && (s->p[0] == ' ' || s->p[0] == '\t' || s->p[0] == '\r' || s->p[0] == '\n'))
                *s = slice_skip(*s, 1);
}

/* Behind the string at the front. */
static void skip_string(struct slice *s)
{
        *s = slice_skip(*s, 1);
        while (s->n && s->p[0] != '"')
                *s = slice_skip(*s, s->p[0] == '\\' ? 2 : 1);
        *s = slice_skip(*s, 1);
}

/* Behind the value at the front. */
static void skip_value(struct slice *s)
{
        size_t depth = 0;

        while (s->n) {
                uint8_t c = s->p[0];

                if (depth == 0 && (c == ',' || c == '}' || c == ']'))
                        return;
                if (c == '"') {
                        skip_string(s);
                        continue;
                }
                depth += c == '{' || c == '[';
                depth -= c == '}' || c == ']';
                *s = slice_skip(*s, 1);
        }
}

/* Where the members of an object stand in its text. */
struct spot {
        size_t from, to; /* the value under that name; blanks behind it may be in it */
        size_t last;     /* behind the last value, or behind the "{" */
        bool found, any;
};

static struct spot spot_find(struct slice text, struct slice name)
{
        struct slice s = text;
        struct spot at = { .found = false };

        skip_blank(&s);
        s = slice_skip(s, 1);
        at.last = text.n - s.n;
        for (skip_blank(&s); s.n && s.p[0] == '"'; skip_blank(&s)) {
                struct slice key = s, value;

                skip_string(&s);
                key = slice_of(key.p + 1, (size_t)(s.p - key.p) - 2);
                skip_blank(&s);
                s = slice_skip(s, 1); /* ":" */
                skip_blank(&s);
                value = s;
                skip_value(&s);
                value.n -= s.n;
                while (value.n && strchr(" \t\r\n", value.p[value.n - 1]))
                        value.n--;
                at.any = true;
                at.last = (size_t)(value.p + value.n - text.p);
                if (slice_eq(key, name))
                        at = (struct spot){ .from = (size_t)(value.p - text.p), .to = at.last, .last = at.last, .found = true, .any = true };
                if (at.found || !s.n || s.p[0] != ',')
                        break;
                s = slice_skip(s, 1);
        }
        return at;
}

/* Indented as a member of the outermost object; a line break in JSON stands never inside a string. */
static int add_indented(const char *bytes, size_t n, void *out)
{
        for (size_t i = 0; i < n; i++)
                if (buf_add(out, bytes + i, 1) < 0 || (bytes[i] == '\n' && buf_add_str(out, "  ") < 0))
                        return -1;
        return 0;
}

static bool same_spelling(struct slice text, const char *name, bool found)
{
        json_t *o = json_loadb((const char *)text.p, text.n, JSON_ALLOW_NUL, NULL);
        bool there = json_object_get(o, name) != NULL;

        json_decref(o);
        return there == found;
}

int json_splice(struct slice text, const char *name, json_t *value, struct buf *out)
{
        struct spot at = spot_find(text, slice_str(name));

        if (!same_spelling(text, name, at.found))
                return -1;
        if (!at.found)
                at.from = at.to = at.last;
        buf_add_slice(out, slice_first(text, at.from));
        if (!at.found)
                buf_addf(out, "%s\n  \"%s\": ", at.any ? "," : "", name);
        if (json_dump_callback(value, add_indented, out, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0)
                return -1;
        if (!at.any)
                buf_add_str(out, "\n");
        buf_add_slice(out, slice_skip(text, at.to));
        return out->failed ? -1 : 0;
}

/* ---- members ------------------------------------------------------------------------------------------------------------------------------------------ */

static struct slice text_of(const json_t *v) { return slice_of(json_string_value(v), json_string_length(v)); }

/* The object under that name, made when it is missing; NULL: something else stands there. */
static json_t *object_at(json_t *root, const char *name)
{
        json_t *o = json_object_get(root, name);

        if (!o && json_object_set_new(root, name, o = json_object()) < 0)
                return NULL;
        return json_is_object(o) ? o : NULL;
}

typedef bool is_ours(const json_t *member);
typedef bool is_wanted(const char *name, const struct binding *bindings, size_t count);

/* Takes out what was ours and is wanted no more. */
static void members_clear(json_t *o, is_ours *ours, is_wanted *wanted, const struct binding *bindings, size_t count)
{
        const char *name;
        json_t *v;
        void *next;

        json_object_foreach_safe(o, next, name, v)
                if (ours(v) && !wanted(name, bindings, count))
                        json_object_del(o, name);
}

static bool any_wanted(const struct binding *bindings, size_t count, unsigned kinds)
{
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], kinds))
                        return true;
        return false;
}

/* ---- ~/.docker/config.json: docker, podman, skopeo ------------------------------------------------------------------------------------------------- */

static bool docker_ours(const json_t *member)
{
        struct slice auth = text_of(json_object_get(member, "auth")), user, password;
        uint8_t store[BASIC_BYTES_MAX];

        return auth.n && basic_decode(auth, store, &user, &password) && placeholder_ok(password);
}

static bool docker_wanted(const char *name, const struct binding *bindings, size_t count)
{
        char host[HOST_TEXT_MAX];

        for (size_t i = 0; i < count; i++)
                for (size_t k = 0; guest_binding_wants(&bindings[i], KIND_BIT(ACCOUNT_REGISTRY)) && k < bindings[i].host_count; k++)
                        if (strcmp(name, host_text(host, &bindings[i].hosts[k])) == 0)
                                return true;
        return false;
}

static int docker_set(json_t *auths, const struct binding *b)
{
        struct slice user = guest_user(b, "brome");
        char plain[510], auth[680], host[HOST_TEXT_MAX];
        size_t n;

        if (user.n >= sizeof(plain) || b->placeholder.n >= sizeof(plain) - user.n)
                return 0;
        memcpy(plain, user.p, user.n);
        plain[user.n] = ':';
        memcpy(plain + user.n + 1, b->placeholder.p, b->placeholder.n);
        n = base64_encode(slice_of(plain, user.n + 1 + b->placeholder.n), auth);
        for (size_t i = 0; i < b->host_count; i++) {
                json_t *present = json_object_get(auths, host_text(host, &b->hosts[i]));

                if ((!present || docker_ours(present)) && json_object_set_new(auths, host, json_pack("{s:s%}", "auth", auth, n)) < 0)
                        return -1;
        }
        return 0;
}

int members_docker(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        json_t *auths = json_object_get(root, "auths");

        if (!auths && !any_wanted(bindings, count, KIND_BIT(ACCOUNT_REGISTRY)))
                return 0;
        *why = "its `auths` is not an object";
        if (!(auths = object_at(root, "auths")))
                return -1;
        members_clear(auths, docker_ours, docker_wanted, bindings, count);
        *why = "out of memory";
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], KIND_BIT(ACCOUNT_REGISTRY)) && docker_set(auths, &bindings[i]) < 0)
                        return -1;
        return 0;
}

/* ---- MCP servers ---------------------------------------------------------------------------------------------------------------------------------------- */

#define BEARER "Bearer "

static bool mcp_ours(const json_t *member)
{
        struct slice v = text_of(json_object_get(json_object_get(member, "headers"), "Authorization"));
        return slice_starts(v, SLICE_LIT(BEARER)) && placeholder_ok(slice_skip(v, strlen(BEARER)));
}

static bool mcp_wanted(const char *name, const struct binding *bindings, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], KIND_BIT(ACCOUNT_MCP)) && slice_is(bindings[i].name, name))
                        return true;
        return false;
}

/* How a client names the members of a server. */
struct mcp_client {
        const char *servers, *url, *type; /* type NULL: it has none */
};

static int mcp_set(json_t *servers, const struct mcp_client *c, const struct binding *b)
{
        char name[HOST_TEXT_MAX], host[HOST_TEXT_MAX], url[HOST_TEXT_MAX + 16], bearer[PLACEHOLDER_BYTES_MAX + sizeof(BEARER)];
        json_t *present, *server;

        if (b->host_count == 0 || b->name.n >= sizeof(name) || b->placeholder.n > PLACEHOLDER_BYTES_MAX)
                return 0;
        snprintf(name, sizeof(name), "%.*s", SLICE_FMT(b->name));
        snprintf(bearer, sizeof(bearer), BEARER "%.*s", SLICE_FMT(b->placeholder));
        present = json_object_get(servers, name);
        if (present)
                return mcp_ours(present) ? json_object_set_new(json_object_get(present, "headers"), "Authorization", json_string(bearer)) : 0;
        snprintf(url, sizeof(url), "https://%s/mcp", host_text(host, &b->hosts[0]));
        server = json_object();
        if ((c->type && json_object_set_new(server, "type", json_string(c->type)) < 0) || json_object_set_new(server, c->url, json_string(url)) < 0 ||
            json_object_set_new(server, "headers", json_pack("{s:s}", "Authorization", bearer)) < 0) {
                json_decref(server);
                return -1;
        }
        return json_object_set_new(servers, name, server);
}

static int members_mcp(json_t *root, const struct mcp_client *c, const struct binding *bindings, size_t count, const char **why)
{
        json_t *servers = json_object_get(root, c->servers);

        if (!servers && !any_wanted(bindings, count, KIND_BIT(ACCOUNT_MCP)))
                return 0;
        *why = "its list of MCP servers is not an object";
        if (!(servers = object_at(root, c->servers)))
                return -1;
        members_clear(servers, mcp_ours, mcp_wanted, bindings, count);
        *why = "out of memory";
        for (size_t i = 0; i < count; i++)
                if (guest_binding_wants(&bindings[i], KIND_BIT(ACCOUNT_MCP)) && mcp_set(servers, c, &bindings[i]) < 0)
                        return -1;
        return 0;
}

int mcp_claude(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        static const struct mcp_client client = { "mcpServers", "url", "http" };
        return members_mcp(root, &client, bindings, count, why);
}

int mcp_gemini(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        static const struct mcp_client client = { "mcpServers", "httpUrl", NULL };
        return members_mcp(root, &client, bindings, count, why);
}

int members_opencode(json_t *root, const struct binding *bindings, size_t count, const char **why)
{
        static const struct mcp_client client = { "mcp", "url", "remote" };
        return members_mcp(root, &client, bindings, count, why);
}
