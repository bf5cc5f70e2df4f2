/* Files of lines: git, gh, npm, netrc, cargo, codex. Host names and credential names are of [a-z0-9._-], placeholders of [A-Za-z0-9_-]; only a user name may
 * hold anything, and is escaped, or its line is left out. */
#include "account/guest_priv.h"

#include "account/placeholder.h"

#include <stdio.h>

static bool plain_byte(uint8_t c)
{
        return (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || (c && strchr("-._", c));
}

static bool plain(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!plain_byte(s.p[i]) && s.p[i] != '@' && s.p[i] != '+')
                        return false;
        return s.n > 0;
}

static void add_percent(struct buf *out, struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                if (plain_byte(s.p[i]))
                        buf_add(out, &s.p[i], 1);
                else
                        buf_addf(out, "%%%02X", s.p[i]);
        }
}

/* A line of text that begins so? */
static bool has_line(struct slice text, const char *start)
{
        struct slice s = slice_str(start);

        for (size_t i = 0; i < text.n; i++)
                if ((i == 0 || text.p[i - 1] == '\n') && slice_starts(slice_skip(text, i), s))
                        return true;
        return false;
}

/* The API's host is no place for git. */
static bool git_host(const struct binding *b, const struct binding_host *h)
{
        return b->kind != ACCOUNT_GITHUB || !slice_starts(h->name, SLICE_LIT("api."));
}

/* ---- git ---------------------------------------------------------------------------------------------------------------------------------- */

/* git-credential-store(1): one URL a line, the first that fits counts. */
void lines_git_credentials(const struct binding *b, struct slice rest, struct buf *out)
{
        char host[HOST_TEXT_MAX];

        (void)rest;
        for (size_t i = 0; i < b->host_count; i++) {
                if (!git_host(b, &b->hosts[i]))
                        continue;
                buf_add_str(out, "https://");
                add_percent(out, guest_user(b, "git"));
                buf_add_str(out, ":");
                buf_add_slice(out, b->placeholder);
                buf_addf(out, "@%s\n", host_text(host, &b->hosts[i]));
        }
}

/* git moves a line to the top when it worked. */
bool stray_git_credentials(struct slice line)
{
        ptrdiff_t colon, at;

        if (!slice_starts(line, SLICE_LIT("https://")))
                return false;
        line = slice_skip(line, strlen("https://"));
        colon = slice_find(line, ':');
        at = slice_find(line, '@');
        return colon >= 0 && at > colon && placeholder_ok(slice_of(line.p + colon + 1, (size_t)(at - colon - 1)));
}

void lines_git_config(const struct binding *b, struct slice rest, struct buf *out)
{
        char host[HOST_TEXT_MAX];

        (void)rest;
        for (size_t i = 0; i < b->host_count; i++)
                if (git_host(b, &b->hosts[i]))
                        buf_addf(out, "[credential \"https://%s\"]\n\thelper = store\n", host_text(host, &b->hosts[i]));
}

/* gh knows the API's host by the name of the site. */
void lines_gh_hosts(const struct binding *b, struct slice rest, struct buf *out)
{
        static const struct slice api = { (const uint8_t *)"api.", 4 };

        for (size_t i = 0; i < b->host_count; i++) {
                struct slice name = b->hosts[i].name;
                char key[HOST_TEXT_MAX];
                bool again = false;

                if (slice_starts(name, api))
                        name = slice_skip(name, api.n);
                for (size_t k = 0; k < i; k++) {
                        struct slice other = b->hosts[k].name;
                        again = again || slice_eq(slice_starts(other, api) ? slice_skip(other, api.n) : other, name);
                }
                snprintf(key, sizeof(key), "%.*s:", SLICE_FMT(name));
                if (again || b->hosts[i].port != 443 || has_line(rest, key))
                        continue;
                buf_addf(out, "%s\n    user: brome\n    oauth_token: ", key); /* a name: without one, gh asks the API for it before anything else */
                buf_add_slice(out, b->placeholder);
                buf_add_str(out, "\n    users:\n        brome:\n            oauth_token: "); /* since 2.40 */
                buf_add_slice(out, b->placeholder);
                buf_add_str(out, "\n    git_protocol: https\n");
        }
}

/* ---- npm, netrc ----------------------------------------------------------------------------------------------------------------------------- */

#define NPM_KEY "/:_authToken="

void lines_npmrc(const struct binding *b, struct slice rest, struct buf *out)
{
        char host[HOST_TEXT_MAX];

        (void)rest;
        for (size_t i = 0; i < b->host_count; i++) {
                buf_addf(out, "//%s" NPM_KEY, host_text(host, &b->hosts[i]));
                buf_add_slice(out, b->placeholder);
                buf_add_str(out, "\n");
        }
}

/* `npm config set` writes the file anew, without comments. */
bool stray_npmrc(struct slice line)
{
        static const struct slice key = { (const uint8_t *)NPM_KEY, sizeof(NPM_KEY) - 1 };

        if (!slice_starts(line, SLICE_LIT("//")))
                return false;
        for (; line.n; line = slice_skip(line, 1))
                if (slice_starts(line, key))
                        return placeholder_ok(slice_skip(line, key.n));
        return false;
}

/* By name alone: the format has no ports. */
void lines_netrc(const struct binding *b, struct slice rest, struct buf *out)
{
        struct slice user = guest_user(b, "git");

        (void)rest;
        for (size_t i = 0; plain(user) && i < b->host_count; i++) {
                bool again = false;

                for (size_t k = 0; k < i; k++)
                        again = again || slice_eq(b->hosts[k].name, b->hosts[i].name);
                if (again)
                        continue;
                buf_addf(out, "machine %.*s login %.*s password ", SLICE_FMT(b->hosts[i].name), SLICE_FMT(user));
                buf_add_slice(out, b->placeholder);
                buf_add_str(out, "\n");
        }
}

bool stray_netrc(struct slice line)
{
        static const struct slice word = { (const uint8_t *)" password ", 10 };

        if (!slice_starts(line, SLICE_LIT("machine ")))
                return false;
        for (; line.n; line = slice_skip(line, 1))
                if (slice_starts(line, word))
                        return placeholder_ok(slice_skip(line, word.n));
        return false;
}

/* ---- TOML: a table may stand there once ------------------------------------------------------------------------------------------------------- */

void lines_cargo(const struct binding *b, struct slice rest, struct buf *out)
{
        char table[HOST_TEXT_MAX];

        snprintf(table, sizeof(table), "[registries.%.*s]", SLICE_FMT(b->name));
        if (has_line(rest, table))
                return;
        buf_addf(out, "%s\ntoken = \"", table);
        buf_add_slice(out, b->placeholder);
        buf_add_str(out, "\"\n");
}

void mcp_codex(const struct binding *b, struct slice rest, struct buf *out)
{
        char table[HOST_TEXT_MAX], host[HOST_TEXT_MAX];

        snprintf(table, sizeof(table), "[mcp_servers.%.*s]", SLICE_FMT(b->name));
        if (b->host_count == 0 || has_line(rest, table))
                return;
        buf_addf(out, "%s\nurl = \"https://%s/mcp\"\nhttp_headers = { \"Authorization\" = \"Bearer ", table, host_text(host, &b->hosts[0]));
        buf_add_slice(out, b->placeholder);
        buf_add_str(out, "\" }\n");
}
