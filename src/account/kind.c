/* The kinds of credential, one row each: see kind.h.
 *
 * A row says what no code decides: the vendor's shape and length (as its clients and scanners know them), the fields in which its clients carry it,
 * the variables in which they look for it. Lengths are those of real keys, so that whatever checks the length of a key takes a placeholder. */
#include "account/kind.h"

#define NOWHERE { .slot = SLOT_COUNT }
#define AUTHORIZATION { .slot = SLOT_AUTHORIZATION }
#define BASIC { .slot = SLOT_BASIC }
#define HEADER(n) { .slot = SLOT_HEADER, .name = { (const uint8_t *)("" n ""), sizeof(n) - 1 } }
#define QUERY(n) { .slot = SLOT_QUERY, .name = { (const uint8_t *)("" n ""), sizeof(n) - 1 } }

static const struct kind_row rows[ACCOUNT_KIND_COUNT] = {
        [ACCOUNT_BEARER] = {
                .name = "bearer", .help = "a token behind a scheme word in Authorization",
                .shape_prefix = "brm_", .shape_bytes = 36,
                .fields = { AUTHORIZATION, NOWHERE, NOWHERE, NOWHERE },
        },
        [ACCOUNT_BASIC] = {
                .name = "basic", .help = "a password (or a token as user name) of Basic authentication; git over https among it",
                .shape_prefix = "brm_", .shape_bytes = 36,
                .fields = { BASIC, NOWHERE, NOWHERE, NOWHERE },
        },
        [ACCOUNT_HEADER] = {
                .name = "header", .help = "a key that is the value of one header, named by `header`",
                .shape_prefix = "brm_", .shape_bytes = 36,
                .fields = { NOWHERE, NOWHERE, NOWHERE, NOWHERE },
        },
        [ACCOUNT_ANTHROPIC] = {
                .name = "anthropic", .help = "an Anthropic API key, or the OAuth token of Claude Code with `as env CLAUDE_CODE_OAUTH_TOKEN`",
                .shape_prefix = "sk-ant-api03-brm-", .shape_bytes = 108,
                .fields = { HEADER("x-api-key"), AUTHORIZATION, NOWHERE, NOWHERE },
                .env = { "ANTHROPIC_API_KEY" }, .instead = { "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN" },
                .test_method = "GET", .test_path = "/v1/models", .default_host = "api.anthropic.com",
        },
        [ACCOUNT_OPENAI] = {
                .name = "openai", .help = "an OpenAI API key, or that of a server that speaks its protocol",
                .shape_prefix = "sk-brm-", .shape_bytes = 51,
                .fields = { AUTHORIZATION, HEADER("api-key"), NOWHERE, NOWHERE }, /* api-key: the same protocol on Azure */
                .env = { "OPENAI_API_KEY", "CODEX_API_KEY" }, .instead = { "AZURE_OPENAI_API_KEY" },
                .test_method = "GET", .test_path = "/v1/models", .default_host = "api.openai.com",
        },
        [ACCOUNT_GEMINI] = {
                .name = "gemini", .help = "a Gemini API key",
                .shape_prefix = "AIzaSybrm", .shape_bytes = 39, /* ^AIza[0-9A-Za-z_-]{35}$ is what its scanners and clients know */
                .fields = { HEADER("x-goog-api-key"), QUERY("key"), AUTHORIZATION, NOWHERE },
                .env = { "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY" }, .instead = { "GOOGLE_API_KEY" },
                .test_method = "GET", .test_path = "/v1beta/models", .default_host = "generativelanguage.googleapis.com",
        },
        [ACCOUNT_XAI] = {
                .name = "xai", .help = "an xAI API key",
                .shape_prefix = "xai-brm-", .shape_bytes = 84,
                .fields = { AUTHORIZATION, HEADER("x-api-key"), NOWHERE, NOWHERE },
                .env = { "XAI_API_KEY", "GROK_API_KEY" },
                .test_method = "GET", .test_path = "/v1/models", .default_host = "api.x.ai",
        },
        [ACCOUNT_GITHUB] = {
                .name = "github", .help = "a GitHub token, for the API and for git over https",
                .shape_prefix = "ghp_brm", .shape_bytes = 40, .crc = true,
                .fields = { AUTHORIZATION, BASIC, NOWHERE, NOWHERE },
                .env = { "GITHUB_TOKEN", "GH_TOKEN" }, .instead = { "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN" },
                .user = "x-access-token",
                .test_method = "GET", .test_path = "/user", .default_host = "api.github.com",
        },
        [ACCOUNT_GITLAB] = {
                .name = "gitlab", .help = "a GitLab token, for the API and for git over https",
                .shape_prefix = "glpat-brm-", .shape_bytes = 36, /* vendors' 26 leave too few random characters; newer ones are longer anyway */
                .fields = { HEADER("private-token"), AUTHORIZATION, BASIC, QUERY("private_token") },
                .env = { "GITLAB_TOKEN" }, .user = "oauth2",
                .test_method = "GET", .test_path = "/api/v4/user", .default_host = "gitlab.com",
        },
        [ACCOUNT_MCP] = {
                .name = "mcp", .help = "the bearer token of an MCP server",
                .shape_prefix = "brm-mcp_", .shape_bytes = 40,
                .fields = { AUTHORIZATION, NOWHERE, NOWHERE, NOWHERE },
                .env = { "MCP_BEARER_TOKEN" },
        },
        [ACCOUNT_REGISTRY] = {
                .name = "registry", .help = "the password of a container registry (OCI distribution, with its token flow)",
                .shape_prefix = "brm_", .shape_bytes = 36,
                .fields = { BASIC, AUTHORIZATION, NOWHERE, NOWHERE },
                .test_method = "GET", .test_path = "/v2/",
        },
        [ACCOUNT_NPM] = {
                .name = "npm", .help = "the token of an npm registry",
                .shape_prefix = "npm_brm", .shape_bytes = 40, .crc = true,
                .fields = { AUTHORIZATION, BASIC, NOWHERE, NOWHERE },
                .env = { "NPM_TOKEN", "NODE_AUTH_TOKEN" },
                .test_method = "GET", .test_path = "/-/whoami",
        },
        [ACCOUNT_PYPI] = {
                .name = "pypi", .help = "the token of a Python package index, for pip, uv and twine",
                .shape_prefix = "pypi-brm-", .shape_bytes = 72,
                .fields = { BASIC, AUTHORIZATION, NOWHERE, NOWHERE },
                .env = { "TWINE_PASSWORD", "UV_PUBLISH_TOKEN" }, .user = "__token__",
        },
        [ACCOUNT_CARGO] = {
                .name = "cargo", .help = "the token of a cargo registry",
                .shape_prefix = "brm_", .shape_bytes = 36,
                .fields = { AUTHORIZATION, NOWHERE, NOWHERE, NOWHERE },
                .env = { "CARGO_REGISTRY_TOKEN" },
        },
};

/* What people call them in .env files, besides the rows' own. */
static const struct {
        const char *variable;
        enum account_kind kind;
} also_known[] = {
        { "ANTHROPIC_TOKEN", ACCOUNT_ANTHROPIC },
        { "CLAUDE_API_KEY", ACCOUNT_ANTHROPIC },
        { "OPENAI_KEY", ACCOUNT_OPENAI },
        { "OPENAI_TOKEN", ACCOUNT_OPENAI },
        { "GOOGLE_GEMINI_API_KEY", ACCOUNT_GEMINI },
        { "XAI_TOKEN", ACCOUNT_XAI },
        { "GITHUB_PAT", ACCOUNT_GITHUB },
        { "GITHUB_ACCESS_TOKEN", ACCOUNT_GITHUB },
        { "GITHUB_API_TOKEN", ACCOUNT_GITHUB },
        { "GITHUB_PERSONAL_ACCESS_TOKEN", ACCOUNT_GITHUB },
        { "GITLAB_PAT", ACCOUNT_GITLAB },
        { "GITLAB_ACCESS_TOKEN", ACCOUNT_GITLAB },
        { "GITLAB_PRIVATE_TOKEN", ACCOUNT_GITLAB },
        { "MCP_TOKEN", ACCOUNT_MCP },
        { "NPM_AUTH_TOKEN", ACCOUNT_NPM },
        { "NPM_ACCESS_TOKEN", ACCOUNT_NPM },
        { "PYPI_TOKEN", ACCOUNT_PYPI },
        { "PYPI_API_TOKEN", ACCOUNT_PYPI },
        { "CARGO_TOKEN", ACCOUNT_CARGO },
};

const struct kind_row *kind_row(enum account_kind k) { return (size_t)k < ACCOUNT_KIND_COUNT ? &rows[k] : NULL; }

enum account_kind kind_by_name(struct slice name)
{
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++)
                if (slice_is(name, rows[k].name))
                        return (enum account_kind)k;
        return ACCOUNT_KIND_COUNT;
}

static bool among(const char *const names[4], struct slice name)
{
        for (size_t i = 0; i < 4 && names[i]; i++)
                if (slice_is(name, names[i]))
                        return true;
        return false;
}

bool kind_env_instead(enum account_kind k, struct slice variable) { return among(rows[k].instead, variable); }

enum account_kind kind_by_env(struct slice variable)
{
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++)
                if (among(rows[k].env, variable) || among(rows[k].instead, variable))
                        return (enum account_kind)k;
        for (size_t i = 0; i < sizeof(also_known) / sizeof(*also_known); i++)
                if (slice_is(variable, also_known[i].variable))
                        return also_known[i].kind;
        return ACCOUNT_KIND_COUNT;
}
