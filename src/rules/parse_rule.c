/* Rules: action ["log"] proto target [ports] ["path" string] { limit }. The tables of this file are the language; see rules_priv.h. */
#include <stdio.h>

#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

enum { ACTION_ASK = 100 };

static const struct keyword rows_rules[] = {
        { "allow", "PROTO TARGET[:PORTS] [path \"…\"] [limits]", "what fits may pass, if every limit holds", NULL, RULE_ALLOW, parse_rule },
        { "deny", "PROTO TARGET[:PORTS] [path \"…\"] [limits]", "what fits, limits included, is refused", NULL, RULE_DENY, parse_rule },
        { "ask", "PROTO TARGET[:PORTS] [path \"…\"] [limits]", "what fits, if every limit holds, waits for a person who agrees", NULL, ACTION_ASK, parse_rule },
        { "default", "allow|deny", "what no rule fits; deny when absent", NULL, 0, parse_default },
};
const struct keyword_table keywords_rules = KEYWORD_TABLE("rules", "a rule", rows_rules);

static const struct keyword rows_proto[] = {
        { "web", "", "HTTP and HTTPS, inspected; ports 80 and 443 unless given", NULL, PROTO_WEB, NULL },
        { "tls", "", "TLS by server name, not inspected; port 443 unless given", NULL, PROTO_TLS, NULL },
        { "tcp", "", "TCP, not inspected; a port is required", NULL, PROTO_TCP, NULL },
        { "udp", "", "UDP; a port is required", NULL, PROTO_UDP, NULL },
        { "icmp", "", "echo requests and their answers", NULL, PROTO_ICMP, NULL },
        { "any", "", "TCP on every port unless given, inspected where it is TLS or HTTP", NULL, PROTO_ANY, NULL },
};
const struct keyword_table keywords_proto = KEYWORD_TABLE("proto", "a protocol", rows_proto);

static bool limit_flag(struct parser *p, void *obj, const struct keyword *k);
static bool limit_query(struct parser *p, void *obj, const struct keyword *k);
static bool limit_body(struct parser *p, void *obj, const struct keyword *k);
static bool limit_stream(struct parser *p, void *obj, const struct keyword *k);
static bool limit_as(struct parser *p, void *obj, const struct keyword *k);
static bool limit_via(struct parser *p, void *obj, const struct keyword *k);
static bool limit_generic(struct parser *p, void *obj, const struct keyword *k);
static bool option_misses(struct parser *p, void *obj, const struct keyword *k);

enum { L_READ_ONLY, L_QUERY, L_BODY, L_ANONYMOUS, L_STREAM, L_AS, L_VIA, L_UP };
static const struct keyword rows_limit[] = {
        [L_READ_ONLY] = { "read-only", "", "GET, HEAD and OPTIONS in effect: no body, no upgrade, no method override", NULL, 0, limit_flag },
        [L_QUERY] = { "query", "none | \"KEY\" …", "no query, or only these keys in it", NULL, 0, limit_query },
        [L_BODY] = { "body", "none | max SIZE", "no request body, or one up to SIZE", NULL, 0, limit_body },
        [L_ANONYMOUS] = { "anonymous", "", "a request that carries any account is refused", NULL, 0, limit_flag },
        [L_STREAM] = { "stream", "ok", "a body of unknown length passes as it is looked at, instead of being held first", NULL, 0, limit_stream },
        [L_AS] = { "as", "npm | git [misses N/h]", "exactly what a reader of that protocol asks for", NULL, 0, limit_as },
        [L_VIA] = { "via", "\"https://HOST[:PORT]/BASE/\"", "goes to that place instead", NULL, 0, limit_via },
        [L_UP] = { "up", "SIZE/UNIT", "bytes out per workspace and rule", "", 0, limit_generic },
};
const struct keyword_table keywords_limit = KEYWORD_TABLE("limit", "a limit", rows_limit);

static const struct keyword rows_profile[] = {
        { "npm", "", "package documents and tarballs; a `path \"/PREFIX/**\"` is a mirror's fixed prefix", NULL, PROFILE_NPM, NULL },
        { "git", "", "clone and fetch over https", NULL, PROFILE_GIT, NULL },
        { "pypi", "", "simple pages and files", "use a path and read-only", 0, NULL },
        { "cargo", "", "a sparse index and crates", "use a path and read-only", 0, NULL },
        { "go", "", "a module proxy", "use a path and read-only", 0, NULL },
        { "maven", "", "a Maven repository", "use a path and read-only", 0, NULL },
        { "oci", "", "a container registry", "use a path and read-only", 0, NULL },
        { "apt", "", "a Debian archive", "use a path and read-only", 0, NULL },
};
const struct keyword_table keywords_profile = KEYWORD_TABLE("profile", "a profile", rows_profile);

/* What may stand behind a profile, or once may. */
static const struct keyword rows_profile_option[] = {
        { "push", "\"REF\" …", "pushes to these refs", "", 0, NULL },
        { "from", "{ HOST, … }", "further hosts", "allow them in a rule of their own", 0, NULL },
        { "names", "\"FILE\"", "only names of that lock file", "", 0, NULL },
        { "misses", "N/h", "so many names an hour may not exist; 30 when it is not said", NULL, 0, option_misses },
};

/* ---- limits -------------------------------------------------------------------------------------------------------------------- */

/* read-only, anonymous */
static bool limit_flag(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;

        (void)p;
        if (k == &rows_limit[L_READ_ONLY])
                r->read_only = true;
        else
                r->anonymous = true;
        return true;
}

static bool limit_stream(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;

        (void)k;
        if (!parser_is(p, "ok"))
                return parser_expected(p, "`ok`");
        parser_next(p);
        r->stream_ok = true;
        return true;
}

/* npm knows what stands behind a fixed prefix; a git repository may have any path. */
static bool profile_path(struct parser *p, struct rule *r, uint32_t at)
{
        struct slice path = r->path;

        if (r->profile != PROFILE_NPM || path.n == 0)
                return true;
        if (!slice_ends(path, SLICE_LIT("/**")) || slice_find(slice_first(path, path.n - 2), '*') >= 0)
                return parser_fail(p, at, "with `as npm` the path is the registry's own prefix, as in `path \"/artifactory/api/npm/npm/**\"`");
        r->profile_skip = path.n - 3;
        return true;
}

static bool option_misses(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;
        struct slice w = p->tok.text;
        uint64_t n;

        (void)k;
        if (p->tok.kind != TOK_WORD || !slice_ends(w, SLICE_LIT("/h")) || !parse_number(slice_first(w, w.n - 2), RULES_MISSES_MAX, &n) || n == 0)
                return parser_expected(p, "a number an hour, as in `misses 100/h`, up to 100000");
        r->misses = (uint32_t)n;
        parser_next(p);
        return true;
}

static bool limit_as(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;
        uint32_t at = p->keyword_at;
        int v;

        (void)k;
        if (!take_value(p, &keywords_profile, &v))
                return false;
        r->profile = (enum policy_profile)v;
        if (!profile_path(p, r, at))
                return false;
        for (size_t i = 0; i < sizeof(rows_profile_option) / sizeof(rows_profile_option[0]); i++) {
                const struct keyword *option = &rows_profile_option[i];
                if (!parser_is(p, option->word))
                        continue;
                if (option->instead)
                        return parser_not_yet(p, p->tok.at, option);
                parser_next(p);
                return option->parse(p, r, option);
        }
        return true;
}

/* "/" or more: as canonical as the paths that are put behind it. NULL when fine. */
static const char *base_problem(struct slice base)
{
        const char *problem = path_pattern_problem(base);

        if (base.n == 0 || base.p[base.n - 1] != '/')
                return "the base ends in `/`";
        if (slice_find(base, '*') >= 0 || slice_find(base, ';') >= 0)
                return "the base has no `*` and no `;`";
        return problem;
}

static bool limit_via(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;
        struct slice url = p->tok.text, host, ports, base;
        uint32_t at = p->tok.at;
        char name[HOST_NAME_BYTES];
        uint64_t port = 443;
        const char *problem;

        (void)k;
        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "a URL in quotes, as in `via \"https://mirror.corp.example/npm/\"`");
        if (!slice_starts(url, SLICE_LIT("https://")))
                return parser_fail(p, at, "`via` begins with https://: nothing is re-routed in the clear");
        url = slice_skip(url, 8);
        host = slice_find(url, '/') < 0 ? url : slice_first(url, (size_t)slice_find(url, '/'));
        base = slice_skip(url, host.n);
        problem = base_problem(base);
        if (problem)
                return parser_fail(p, at, "%s", problem);
        host = split_ports(host, &ports);
        if (host_canonical(name, sizeof(name), host) != HOST_NAME)
                return parser_fail(p, at, "`%s` is not a name: a certificate has to vouch for it", esc(slice_first(host, HOST_TEXT_BYTES)));
        if (ports.n && (!parse_number(slice_skip(ports, 1), 65535, &port) || port == 0))
                return parser_fail(p, at, "`%s` is not a port", esc(slice_first(slice_skip(ports, 1), 16)));
        parser_next(p);
        r->via = (struct policy_via){ .found = true, .port = (uint16_t)port };
        return keep_text(p, &r->via.name, slice_str(name)) && keep_text(p, &r->via.base, base);
}

static bool limit_query(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;
        size_t cap = 0;

        (void)k;
        if (parser_is(p, "none")) {
                r->query = QUERY_NONE;
                parser_next(p);
                return true;
        }
        r->query = QUERY_KEYS;
        do {
                struct slice *key;
                if (p->tok.kind != TOK_STRING)
                        return parser_expected(p, "`none` or query keys in quotes");
                if (p->tok.text.n == 0)
                        return parser_fail(p, p->tok.at, "a query key is not empty");
                key = parser_push(p, &r->query_keys, &r->query_key_count, &cap, sizeof(*key), RULES_QUERY_KEYS_MAX, "query keys in a rule");
                if (!key)
                        return false;
                *key = p->tok.text;
                parser_next(p);
                if (p->tok.kind == TOK_COMMA)
                        parser_next(p);
                else if (p->tok.kind != TOK_STRING)
                        return true;
        } while (true);
}

static bool limit_body(struct parser *p, void *obj, const struct keyword *k)
{
        struct rule *r = obj;

        (void)k;
        if (parser_is(p, "none")) {
                r->body = BODY_NONE;
        } else if (parser_is(p, "max")) {
                parser_next(p);
                if (p->tok.kind != TOK_WORD || !parse_size(p->tok.text, &r->body_max_bytes) || r->body_max_bytes == 0)
                        return parser_expected(p, "a size, as in `64K` or `10M`");
                r->body = BODY_MAX;
        } else {
                return parser_expected(p, "`none` or `max SIZE`");
        }
        parser_next(p);
        return true;
}

/* Arguments of a limit that is not there yet: words and strings up to the next thing we know. */
static bool limit_generic(struct parser *p, void *obj, const struct keyword *k)
{
        (void)obj;
        (void)k;
        while (!parser_at_end(p) && p->tok.kind != TOK_BAD)
                parser_next(p);
        return true;
}

static bool is_method_word(struct slice w)
{
        for (size_t i = 0; i < w.n; i++)
                if (!((w.p[i] >= 'A' && w.p[i] <= 'Z') || (i && ((w.p[i] >= '0' && w.p[i] <= '9') || w.p[i] == '-' || w.p[i] == '_'))))
                        return false;
        return w.n > 0;
}

/* A well-known method in lower case, which is no word of the language. */
static bool is_lower_word(struct slice w)
{
        static const char *const known[] = { "get", "head", "options", "post", "put", "patch", "delete" };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (slice_iis(w, known[i]) && w.p[0] >= 'a')
                        return true;
        return false;
}

static bool parse_method(struct parser *p, struct rule *r, size_t *cap)
{
        struct slice w = p->tok.text, *to;

        if (p->tok.kind == TOK_WORD && is_lower_word(w))
                return parser_fail(p, p->tok.at, "methods are upper case: GET");
        if (p->tok.kind != TOK_WORD || !is_method_word(w) || w.n > RULES_METHOD_BYTES)
                return parser_expected(p, "a method in upper case");
        if (slice_is(w, "CONNECT"))
                return parser_fail(p, p->tok.at, "CONNECT is never forwarded; a WebSocket counts as GET");
        for (size_t i = 0; i < r->method_count; i++)
                if (slice_eq(r->methods[i], w))
                        return parser_fail(p, p->tok.at, "the method %s is there already", esc(w));
        to = parser_push(p, &r->methods, &r->method_count, cap, sizeof(*to), RULES_METHODS_MAX, "methods in a rule");
        if (!to)
                return false;
        *to = w;
        parser_next(p);
        return true;
}

static bool parse_methods(struct parser *p, struct rule *r)
{
        size_t cap = 0;

        if (r->method_count)
                return parser_fail(p, p->tok.at, "methods are separated by commas, as in `GET,POST`");
        if (!parse_method(p, r, &cap))
                return false;
        while (p->tok.kind == TOK_COMMA) {
                parser_next(p);
                if (!parse_method(p, r, &cap))
                        return false;
        }
        return true;
}

/* Limits and the path; a limit that is not there yet is remembered, so that the rest is still checked. */
static bool parse_limits(struct parser *p, struct rule *r)
{
        unsigned seen = 0;

        while (!parser_at_end(p)) {
                uint32_t at = p->tok.at;
                const struct keyword *k;

                if (r->proto != PROTO_WEB)
                        return parser_fail(p, at, "only a `web` rule has a path and limits");
                if (p->tok.kind == TOK_WORD && (is_method_word(p->tok.text) || is_lower_word(p->tok.text))) {
                        if (!parse_methods(p, r))
                                return false;
                        continue;
                }
                if (parser_is(p, "path"))
                        return parser_fail(p, at, r->path.n ? "the path is given already" : "the path stands before the limits");
                k = parser_keyword(p, &keywords_limit);
                if (!k)
                        return false;
                if (seen & (1u << (unsigned)(k - rows_limit)))
                        return parser_fail(p, at, "`%s` is given already", k->word);
                seen |= 1u << (unsigned)(k - rows_limit);
                if (!k->parse(p, r, k))
                        return false;
                if (k->instead)
                        return parser_not_yet(p, at, k);
        }
        if (r->read_only && r->method_count)
                return parser_fail(p, r->at, "`read-only` and a list of methods exclude each other");
        for (size_t i = L_ANONYMOUS; r->action == RULE_DENY && i <= L_VIA; i++)
                if (seen & (1u << i))
                        return parser_fail(p, r->at, "`%s` is for `allow` and `ask`: under `deny` it says nothing", rows_limit[i].word);
        for (size_t i = 0; r->via.found && i < r->target_count; i++)
                if (r->targets[i].kind == TARGET_ANY)
                        return parser_fail(p, r->at, "`via` re-routes named hosts, never `any`");
        return true;
}

static bool parse_path(struct parser *p, struct rule *r)
{
        const char *problem;

        if (!parser_is(p, "path"))
                return true;
        if (r->proto != PROTO_WEB)
                return parser_fail(p, p->tok.at, "only a `web` rule has a path and limits");
        parser_next(p);
        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "a path pattern in quotes");
        problem = path_pattern_problem(p->tok.text);
        if (problem)
                return parser_fail(p, p->tok.at, "%s", problem);
        r->path = p->tok.text;
        parser_next(p);
        return true;
}

/* ---- rules --------------------------------------------------------------------------------------------------------------------- */

bool parse_rule(struct parser *p, void *ruleset, const struct keyword *action)
{
        struct ruleset *rs = ruleset;
        struct rule r = { .at = p->tok.at, .action = action->value == RULE_DENY ? RULE_DENY : RULE_ALLOW, .ask = action->value == ACTION_ASK }, *to;
        const struct keyword *proto;

        if (parser_is(p, "log")) {
                r.log = true;
                parser_next(p);
        }
        proto = parser_keyword(p, &keywords_proto);
        if (!proto)
                return false;
        r.proto = (enum rule_proto)proto->value;
        if (r.ask && (r.proto == PROTO_UDP || r.proto == PROTO_ICMP))
                return parser_fail(p, p->keyword_at, "`ask` holds requests and connections; `%s` has neither: allow or deny it", proto->word);
        if (!parse_targets(p, &r) || !parse_path(p, &r) || !parse_limits(p, &r))
                return false;
        if (rs->default_given)
                return parser_fail(p, r.at, "`default` must be the last line and a rule behind it would never be read: put this rule above the default line");
        to = parser_push(p, &rs->rules, &rs->count, &rs->cap, sizeof(r), RULES_MAX, "rules");
        if (to)
                *to = r;
        return to != NULL;
}

bool parse_default(struct parser *p, void *ruleset, const struct keyword *k)
{
        struct ruleset *rs = ruleset;

        (void)k;
        if (rs->default_given)
                return parser_fail(p, p->tok.at, "`default` is given already");
        if (!parser_is(p, "allow") && !parser_is(p, "deny"))
                return parser_expected(p, "`allow` or `deny`");
        rs->default_given = true;
        rs->default_allow = parser_is(p, "allow");
        parser_next(p);
        return true;
}

bool parse_rules_block(struct parser *p, struct ruleset *rs)
{
        rs->at = p->tok.at;
        return parse_statements(p, &keywords_rules, rs, true);
}
