/* Blocks: everything of brome.conf that is no rule. One table a block; a handler parses what follows its word and stores it. */
#include <stdio.h>

#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

bool once(struct parser *p, uint32_t *seen, const struct keyword_table *t, const struct keyword *k)
{
        uint32_t bit = 1u << (unsigned)(k - t->rows);

        if (*seen & bit)
                return parser_fail(p, p->keyword_at, "`%s` is given already", k->word);
        *seen |= bit;
        return true;
}

bool keep_text(struct parser *p, struct slice *out, struct slice text)
{
        bool ok = true;

        *out = arena_copy(&p->prog->arena, text, &ok);
        return ok || parser_fail(p, p->tok.at, "out of memory");
}

bool take_name(struct parser *p, struct slice *out, bool identifier, const char *what)
{
        if (p->tok.kind != TOK_WORD)
                return parser_expected(p, what);
        if (!name_ok(p->tok.text, identifier))
                return parser_fail(p, p->tok.at, identifier ? "`%s` is not made of letters, digits and `_`" : "`%s` is not made of lower case letters, digits, `-` and `_`",
                                   esc(slice_first(p->tok.text, 64)));
        if (!keep_text(p, out, p->tok.text))
                return false;
        parser_next(p);
        return true;
}

bool take_path(struct parser *p, struct slice *out, const char *what)
{
        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, what);
        if (p->tok.text.n == 0)
                return parser_fail(p, p->tok.at, "the path is empty");
        if (!keep_text(p, out, p->tok.text))
                return false;
        parser_next(p);
        return true;
}

/* A word of a table whose rows are values. */
bool take_value(struct parser *p, const struct keyword_table *t, int *out)
{
        uint32_t at = p->tok.at;
        const struct keyword *k = parser_keyword(p, t);

        if (!k)
                return false;
        *out = k->value;
        return k->instead ? parser_not_yet(p, at, k) : true;
}

/* ---- workspace ------------------------------------------------------------------------------------------------------------------- */

static const struct keyword rows_isolation[] = {
        { "namespace", "", "Linux namespaces on this kernel", NULL, ISOLATION_NAMESPACE, NULL },
        { "vm", "", "a virtual machine with a kernel of its own", NULL, ISOLATION_VM, NULL },
};
const struct keyword_table keywords_isolation = KEYWORD_TABLE("isolation", "a kind of isolation", rows_isolation);
static const struct keyword rows_dns[] = {
        { "synthetic", "", "every name has an address of the workspace's own (default)", NULL, DNS_SYNTHETIC, NULL },
        { "real", "", "names answer with their real addresses", "leave the line out", DNS_REAL, NULL },
};
const struct keyword_table keywords_dns = KEYWORD_TABLE("dns", "a way to answer names", rows_dns);
static const struct keyword rows_yesno[] = { { "yes", "", "", NULL, 1, NULL }, { "no", "", "", NULL, 0, NULL } };
const struct keyword_table keywords_yesno = KEYWORD_TABLE("yesno", "`yes` or `no`", rows_yesno);
static const struct keyword rows_trace[] = {
        { "off", "", "decisions only", NULL, 0, NULL },
        { "activity", "", "one record a request, without bodies (default)", NULL, 1, NULL },
        { "ai", "", "bodies of model requests too", "use activity", 0, NULL },
        { "everything", "", "all bodies", "use activity", 0, NULL },
};
const struct keyword_table keywords_trace = KEYWORD_TABLE("trace", "a depth of trace", rows_trace);
static const struct keyword rows_detect[] = {
        { "off", "", "no detector", NULL, 1, NULL },
        { "log", "", "findings are recorded", "use off", 0, NULL },
        { "ask", "", "a person decides", "use off", 0, NULL },
        { "block", "", "findings are refused", "use off", 0, NULL },
};
const struct keyword_table keywords_detect = KEYWORD_TABLE("detect", "a detector mode", rows_detect);
static const struct keyword rows_share[] = {
        { "read-only", "", "the guest may read", NULL, SHARE_READ_ONLY, NULL },
        { "overlay", "", "the guest writes to a layer of its own", NULL, SHARE_OVERLAY, NULL },
        { "sockets", "ok", "a folder that holds a socket may be shared", NULL, -1, NULL },
};
const struct keyword_table keywords_share = KEYWORD_TABLE("share", "a share option", rows_share);

static bool ws_isolation(struct parser *p, void *obj, const struct keyword *k);
static bool ws_image(struct parser *p, void *obj, const struct keyword *k);
static bool ws_share(struct parser *p, void *obj, const struct keyword *k);
static bool ws_memory(struct parser *p, void *obj, const struct keyword *k);
static bool ws_processes(struct parser *p, void *obj, const struct keyword *k);
static bool ws_cpu(struct parser *p, void *obj, const struct keyword *k);
static bool ws_dns(struct parser *p, void *obj, const struct keyword *k);
static bool ws_nested(struct parser *p, void *obj, const struct keyword *k);
static bool ws_trace(struct parser *p, void *obj, const struct keyword *k);
static bool ws_detect(struct parser *p, void *obj, const struct keyword *k);

static const struct keyword rows_workspace[] = {
        { "isolation", "namespace|vm", "how the workspace is kept apart", NULL, 0, ws_isolation },
        { "share", "\"PATH\" [read-only|overlay] [sockets ok]", "a folder of the host inside the workspace; nothing is shared by itself", NULL, 0, ws_share },
        { "memory", "SIZE", "memory limit", NULL, 0, ws_memory },
        { "processes", "N", "limit of processes and threads", NULL, 0, ws_processes },
        { "cpu", "N[.N]", "limit in processors", NULL, 0, ws_cpu },
        { "env", "NAME \"VALUE\"", "a variable of the guest's environment", NULL, 0, ws_env },
        { "rules", "{ … }", "what may leave; nothing when absent", NULL, 0, ws_rules },
        { "dns", "synthetic|real", "how names are answered", NULL, 0, ws_dns },
        { "nested", "yes|no", "new user namespaces inside", NULL, 0, ws_nested },
        { "trace", "activity|off", "what is recorded", NULL, 0, ws_trace },
        { "detect", "log|off", "the injection detector", NULL, 0, ws_detect },
        { "agent", "NAME", "preset of an agent: its rules, those for its model before these, its variables, its model's hosts, its programs", NULL, 0, ws_agent },
        { "credential", "{ NAME, … }", "credentials that are bound: the workspace has their placeholders", NULL, 0, ws_credential },
        { "model", "{ HOST, … }", "hosts of the agent's model: a placeholder in what it tells them is overwritten", NULL, 0, ws_model },
        { "tool", "\"PROGRAM\"", "a program of the host whose installation the guest may read", NULL, 0, ws_tool },
        { "image", "\"ID|FOLDER\"", "image that a machine's disks are made from; the current one of `brome image build` when absent", NULL, 0, ws_image },
};
const struct keyword_table keywords_workspace = KEYWORD_TABLE("workspace", "a statement of a workspace", rows_workspace);

static bool ws_isolation(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        int v;

        if (!once(p, &b->seen, &keywords_workspace, k) || !take_value(p, &keywords_isolation, &v))
                return false;
        b->ws->w.isolation = (enum isolation)v;
        return true;
}

static bool ws_image(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;

        b->image_at = p->tok.at;
        return once(p, &b->seen, &keywords_workspace, k) && take_path(p, &b->ws->w.image, "the image's ID or its folder, in quotes");
}

static bool share_option(struct parser *p, struct config_share *s, bool *mode_given)
{
        uint32_t at = p->tok.at;
        int v;

        if (!take_value(p, &keywords_share, &v))
                return false;
        if (v >= 0) {
                if (*mode_given)
                        return parser_fail(p, at, "a share is either read-only or overlay");
                *mode_given = true;
                s->mode = (enum share_mode)v;
                return true;
        }
        if (!parser_is(p, "ok"))
                return parser_expected(p, "`ok`");
        parser_next(p);
        s->sockets_ok = true;
        return true;
}

static bool ws_share(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        struct config_workspace *w = &b->ws->w;
        struct config_share s = { .mode = SHARE_READ_WRITE }, *to, *list = (struct config_share *)w->shares;
        bool mode_given = false;
        uint32_t at = p->tok.at;

        (void)k;
        if (!take_path(p, &s.path, "the folder in quotes"))
                return false;
        while (!parser_at_end(p))
                if (!share_option(p, &s, &mode_given))
                        return false;
        for (size_t i = 0; i < w->share_count; i++)
                if (slice_eq(list[i].path, s.path))
                        return parser_fail(p, at, "this folder is shared already");
        to = parser_push(p, &list, &w->share_count, &b->share_cap, sizeof(s), RULES_SHARES_MAX, "shares");
        w->shares = list;
        if (to)
                *to = s;
        return to != NULL;
}

static bool ws_memory(struct parser *p, void *obj, const struct keyword *k)
{
        enum { MEMORY_MIN_BYTES = 16 << 20 }; /* less does not run a shell */
        struct block *b = obj;
        uint64_t v;

        if (!once(p, &b->seen, &keywords_workspace, k))
                return false;
        if (p->tok.kind != TOK_WORD || !parse_size(p->tok.text, &v))
                return parser_expected(p, "a size, as in `512M` or `4G`");
        if (v < MEMORY_MIN_BYTES)
                return parser_fail(p, p->tok.at, "less than 16M runs nothing");
        b->ws->w.memory_bytes = v;
        parser_next(p);
        return true;
}

static bool ws_processes(struct parser *p, void *obj, const struct keyword *k)
{
        enum { PROCESSES_MIN = 8, PROCESSES_MAX = 4 << 20 }; /* the kernel's own pid limit */
        struct block *b = obj;
        uint64_t v;

        if (!once(p, &b->seen, &keywords_workspace, k))
                return false;
        if (p->tok.kind != TOK_WORD || !parse_number(p->tok.text, PROCESSES_MAX, &v) || v < PROCESSES_MIN)
                return parser_expected(p, "a number from 8 to 4194304");
        b->ws->w.processes = (uint32_t)v;
        parser_next(p);
        return true;
}

static bool ws_cpu(struct parser *p, void *obj, const struct keyword *k)
{
        enum { CPU_MAX = 1024 };
        struct block *b = obj;
        uint64_t whole, part = 0;
        struct slice w = p->tok.text;
        ptrdiff_t dot = slice_find(w, '.');
        struct slice fraction = dot < 0 ? SLICE_EMPTY : slice_skip(w, (size_t)dot + 1);
        bool ok;

        if (!once(p, &b->seen, &keywords_workspace, k))
                return false;
        ok = p->tok.kind == TOK_WORD && parse_number(dot < 0 ? w : slice_first(w, (size_t)dot), CPU_MAX, &whole);
        if (ok && dot >= 0)
                ok = fraction.n == 1 || fraction.n == 2;
        for (size_t i = 0; ok && dot >= 0 && i < 2; i++) {
                uint8_t digit = i < fraction.n ? (uint8_t)(fraction.p[i] - '0') : 0;
                ok = digit <= 9;
                part = part * 10 + digit;
        }
        if (!ok || whole * 100 + part == 0)
                return parser_expected(p, "a number of processors, as in `2` or `0.5`");
        b->ws->w.cpu_percent = (uint32_t)(whole * 100 + part);
        parser_next(p);
        return true;
}

bool ws_env(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        struct config_workspace *w = &b->ws->w;
        struct config_env e, *to, *list = (struct config_env *)w->env;
        uint32_t at = p->tok.at;

        (void)k;
        if (!take_name(p, &e.name, true, "the name of a variable"))
                return false;
        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "the value in quotes");
        if (!keep_text(p, &e.value, p->tok.text))
                return false;
        parser_next(p);
        for (size_t i = 0; i < w->env_count; i++)
                if (slice_eq(list[i].name, e.name))
                        return parser_fail(p, at, "the variable `%s` is there already", esc(e.name));
        to = parser_push(p, &list, &w->env_count, &b->env_cap, sizeof(e), RULES_ENV_MAX, "variables");
        w->env = list;
        if (to)
                *to = e;
        return to != NULL;
}

bool ws_rules(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;

        return once(p, &b->seen, &keywords_workspace, k) && parse_rules_block(p, &b->ws->rules);
}

static bool ws_dns(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        int v;

        if (!once(p, &b->seen, &keywords_workspace, k) || !take_value(p, &keywords_dns, &v))
                return false;
        b->ws->w.dns = (enum dns_mode)v;
        return true;
}

static bool ws_nested(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        int v;

        if (!once(p, &b->seen, &keywords_workspace, k) || !take_value(p, &keywords_yesno, &v))
                return false;
        b->ws->w.nested = v != 0;
        return true;
}

static bool ws_trace(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        int v;

        if (!once(p, &b->seen, &keywords_workspace, k) || !take_value(p, &keywords_trace, &v))
                return false;
        b->ws->w.trace_activity = v != 0;
        return true;
}

static bool ws_detect(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        int v;

        if (!once(p, &b->seen, &keywords_workspace, k) || !take_value(p, &keywords_detect, &v))
                return false;
        b->ws->w.detect_off = v != 0;
        return true;
}

static struct workspace_entry *workspace_slot(struct parser *p, struct slice name, uint32_t at)
{
        struct program *prog = p->prog;

        for (size_t i = 0; i < prog->workspace_count; i++) {
                struct workspace_entry *e = &prog->workspaces[i];
                if (!slice_eq(e->w.name, name))
                        continue;
                /* A throw-away block, the second text, stands for the saved one of its name. */
                if (e->source == p->source || p->source == 0 || p->source != prog->extra_source) {
                        parser_fail(p, at, "the workspace `%s` is there already", esc(name));
                        return NULL;
                }
                return e;
        }
        return parser_push(p, &prog->workspaces, &prog->workspace_count, &prog->workspace_cap, sizeof(struct workspace_entry), RULES_WORKSPACES_MAX, "workspaces");
}

/* What only a complete block can be asked. */
static bool machine_ok(struct parser *p, const struct block *b, uint32_t at)
{
        enum {
                MACHINE_MIN_BYTES = 256 << 20, /* its kernel and the unpacked initrd want a part of it */
                MACHINE_CPU_PERCENT = 64 * 100, /* COMMAND_CPUS of vm/command.h */
        };
        const struct config_workspace *w = &b->ws->w;

        if (w->isolation != ISOLATION_VM)
                return w->image.n == 0 || parser_fail(p, b->image_at, "an image is for a machine: `isolation vm`");
        if (w->cpu_percent > MACHINE_CPU_PERCENT)
                return parser_fail(p, at, "a machine has 64 processors at most");
        return w->memory_bytes == 0 || w->memory_bytes >= MACHINE_MIN_BYTES || parser_fail(p, at, "a machine with less than 256M does not start");
}

static bool top_workspace(struct parser *p, void *obj, const struct keyword *k)
{
        struct workspace_entry *ws;
        struct block b = { 0 };
        struct slice name;
        uint32_t at = p->tok.at;
        const struct source *s = &p->prog->sources[p->source];

        (void)obj;
        (void)k;
        if (p->mode == PARSE_POLICY)
                return parser_fail(p, at, "a workspace is no part of a policy");
        if (!take_name(p, &name, false, "the name of the workspace"))
                return false;
        ws = workspace_slot(p, name, at);
        if (!ws)
                return false;
        *ws = (struct workspace_entry){ .at = at, .source = p->source };
        ws->w = (struct config_workspace){ .name = name, .file = slice_str(s->name), .dir = s->dir, .trace_activity = true };
        ws->w.agent_kind = ACCOUNT_KIND_COUNT;
        b.ws = ws;
        return parse_statements(p, &keywords_workspace, &b, true) && machine_ok(p, &b, at) && (!b.agent.n || agent_merge(p, &b));
}

/* ---- host ------------------------------------------------------------------------------------------------------------------------ */

static bool host_private(struct parser *p, void *obj, const struct keyword *k);
static bool host_address(struct parser *p, void *obj, const struct keyword *k);
static bool host_ca(struct parser *p, void *obj, const struct keyword *k);

static const struct keyword rows_host[] = {
        { "private", "ok", "its address may be private", NULL, 0, host_private },
        { "address", "ADDRESS [port N]", "is dialled instead of what the name resolves to", NULL, 0, host_address },
        { "ca", "file \"PATH\"", "a CA that vouches for this name, besides the system's", NULL, 0, host_ca },
};
const struct keyword_table keywords_host = KEYWORD_TABLE("host", "a statement of a host", rows_host);

static bool host_private(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;

        if (!once(p, &b->seen, &keywords_host, k))
                return false;
        if (!parser_is(p, "ok"))
                return parser_expected(p, "`ok`");
        b->host->d.private_ok = true;
        parser_next(p);
        return true;
}

static bool host_address(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        struct target t;
        uint64_t port = 0;

        if (!once(p, &b->seen, &keywords_host, k))
                return false;
        if (p->tok.kind != TOK_WORD)
                return parser_expected(p, "an address");
        if (!parse_host_word(p, p->tok.at, p->tok.text, &t))
                return false;
        if (t.kind != TARGET_CIDR || slice_find(p->tok.text, '/') >= 0)
                return parser_fail(p, p->tok.at, "`%s` is not an address", esc(p->tok.text));
        parser_next(p);
        if (parser_is(p, "port")) {
                parser_next(p);
                if (p->tok.kind != TOK_WORD || !parse_number(p->tok.text, 65535, &port) || port == 0)
                        return parser_expected(p, "a port");
                parser_next(p);
        }
        b->host->d.pinned = true;
        b->host->d.address = t.cidr.addr;
        b->host->d.port = (uint16_t)port;
        return true;
}

static bool host_ca(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;

        if (!once(p, &b->seen, &keywords_host, k))
                return false;
        if (!parser_is(p, "file"))
                return parser_expected(p, "`file`");
        parser_next(p);
        return take_path(p, &b->host->d.ca_path, "the file in quotes");
}

static bool top_host(struct parser *p, void *obj, const struct keyword *k)
{
        struct program *prog = p->prog;
        struct block b = { 0 };
        struct target t;
        size_t errors;
        uint32_t at = p->tok.at;

        (void)obj;
        (void)k;
        if (p->tok.kind != TOK_WORD)
                return parser_expected(p, "the name of the host");
        if (!parse_host_word(p, at, p->tok.text, &t))
                return false;
        if (t.kind != TARGET_NAME)
                return parser_fail(p, at, "`%s`: a host block is for one exact name", esc(p->tok.text));
        for (size_t i = 0; i < prog->host_count; i++)
                if (slice_eq(prog->hosts[i].d.name, t.name))
                        return parser_fail(p, at, "the host `%s` is there already", esc(t.name));
        parser_next(p);
        b.host = parser_push(p, &prog->hosts, &prog->host_count, &prog->host_cap, sizeof(*b.host), RULES_HOSTS_MAX, "host blocks");
        if (!b.host)
                return false;
        errors = p->errors->total;
        *b.host = (struct host_entry){ .d = { .name = t.name, .at = at }, .dir = prog->sources[p->source].dir };
        if (!parse_statements(p, &keywords_host, &b, true))
                return false;
        if (!b.seen && p->errors->total == errors) /* else what stands in it was told already */
                return parser_fail(p, at, "the host block is empty or says nothing that holds");
        return true;
}

/* ---- the rest of the top level ------------------------------------------------------------------------------------------------------ */

static bool top_table(struct parser *p, void *obj, const struct keyword *k)
{
        struct program *prog = p->prog;
        struct table t = { .at = p->tok.at }, *to;

        (void)obj;
        (void)k;
        if (!parser_take(p, TOK_LESS, "`<`") || !take_name(p, &t.name, false, "the name of the table") || !parser_take(p, TOK_GREATER, "`>`"))
                return false;
        if (program_table(prog, t.name))
                return parser_fail(p, t.at, "the table <%s> is there already", esc(t.name));
        if (!parse_table_entries(p, &t))
                return false;
        to = parser_push(p, &prog->tables, &prog->table_count, &prog->table_cap, sizeof(t), RULES_TABLES_MAX, "tables");
        if (to)
                *to = t;
        return to != NULL;
}

void parse_source(struct parser *p, uint16_t source, const struct keyword_table *t, void *obj)
{
        struct parser saved = *p;
        const struct source *s = &p->prog->sources[source];

        p->source = source;
        p->lexer = (struct lexer){ .text = s->text, .base = s->base };
        p->has_ahead = false;
        p->pending_count = 0;
        p->depth = 0;
        p->tok = (struct token){ TOK_EOF, s->base, SLICE_EMPTY };
        parser_next(p);
        parse_statements(p, t, obj, false);
        /* The place goes back to the text before; macros, counts and errors stay. */
        p->source = saved.source;
        p->lexer = saved.lexer;
        p->tok = saved.tok;
        p->ahead = saved.ahead;
        p->has_ahead = saved.has_ahead;
        p->pending = saved.pending;
        p->pending_count = saved.pending_count;
        p->pending_at = saved.pending_at;
        p->depth = saved.depth;
}

static bool include_read(struct parser *p, uint32_t at, const char *path)
{
        const char *from = p->prog->sources[p->source].name;
        char name[4096] = "", why[128] = "";
        char *text = NULL;
        size_t n = 0;

        if (p->loader->load(p->loader->ctx, path, from, name, sizeof(name), &text, &n, why, sizeof(why)) < 0)
                return parser_fail(p, at, "the file cannot be read: %s", esc_str(why));
        for (size_t i = 0; i < p->prog->source_count; i++)
                if (strcmp(p->prog->sources[i].name, name) == 0) {
                        parser_fail(p, at, "%s is included already", esc_str(name));
                        program_add_source(p->prog, p->errors, name, slice_of(text, n), text); /* frees it with the rest */
                        return false;
                }
        return program_add_source(p->prog, p->errors, name, slice_of(text, n), text) == 0;
}

static bool top_include(struct parser *p, void *obj, const struct keyword *k)
{
        uint32_t at = p->tok.at;
        struct slice path;

        (void)obj;
        (void)k;
        if (!take_path(p, &path, "the file in quotes"))
                return false;
        if (!p->loader)
                return parser_fail(p, at, "include is not possible here");
        if (p->include_depth == RULES_INCLUDE_DEPTH)
                return parser_fail(p, at, "includes are nested too deeply");
        if (!include_read(p, at, (const char *)path.p))
                return false;
        p->include_depth++;
        parse_source(p, (uint16_t)(p->prog->source_count - 1), &keywords_top, NULL);
        p->include_depth--;
        return true;
}

static bool top_upstream(struct parser *p, void *obj, const struct keyword *k)
{
        struct slice url;
        uint32_t at;

        (void)obj;
        (void)k;
        if (p->mode == PARSE_POLICY)
                return parser_fail(p, p->tok.at, "the proxy is no part of a policy");
        if (!parser_is(p, "proxy"))
                return parser_expected(p, "`proxy`");
        parser_next(p);
        at = p->tok.at;
        if (p->prog->proxy.n)
                return parser_fail(p, at, "`upstream proxy` is given already");
        if (!take_path(p, &url, "the proxy's URL in quotes"))
                return false;
        if (!slice_starts(url, SLICE_LIT("http://")) || url.n == 7 || slice_find(url, ' ') >= 0)
                return parser_fail(p, at, "the proxy's URL begins with http://");
        p->prog->proxy = url;
        return true;
}

static bool top_rules(struct parser *p, void *obj, const struct keyword *k)
{
        (void)obj;
        (void)k;
        if (p->mode != PARSE_POLICY)
                return parser_fail(p, p->tok.at, "rules stand in a workspace");
        if (p->prog->rules.at)
                return parser_fail(p, p->tok.at, "`rules` is given already");
        return parse_rules_block(p, &p->prog->rules);
}

static const struct keyword rows_top[] = {
        { "workspace", "NAME { … }", "a workspace", NULL, 0, top_workspace },
        { "host", "NAME { … }", "what is special about one host", NULL, 0, top_host },
        { "table", "<NAME> { … }", "a list of addresses and names for rules", NULL, 0, top_table },
        { "include", "\"FILE\"", "reads another file here", NULL, 0, top_include },
        { "upstream", "proxy \"URL\"", "the HTTP proxy through which the host reaches the world", NULL, 0, top_upstream },
        { "rules", "{ … }", "the rules of a policy text; in a configuration they stand in a workspace", NULL, 0, top_rules },
        { "credential", "NAME { … }", "a secret and the hosts it is good for", NULL, 0, top_credential },
        { "model", "{ HOST, … }", "of a policy text: the model's hosts; in a configuration they stand in a workspace", NULL, 0, top_model },
        { "known", "{ CREDENTIAL HOST, … }", "of a policy text: what a person decided after a trip", NULL, 0, top_known },
};
const struct keyword_table keywords_top = KEYWORD_TABLE("top", "a statement", rows_top);

/* ---- for other tools ------------------------------------------------------------------------------------------------------------------ */

bool config_keyword_at(size_t i, struct config_keyword *out)
{
        static const struct keyword_table *const tables[] = { &keywords_top,  &keywords_workspace, &keywords_host, &keywords_share,
                                                              &keywords_isolation, &keywords_dns, &keywords_trace, &keywords_detect,
                                                              &keywords_yesno, &keywords_credential, &keywords_secret, &keywords_field, &keywords_agent,
                                                              &keywords_rules, &keywords_proto, &keywords_limit, &keywords_profile };

        for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
                if (i < tables[t]->count) {
                        const struct keyword *k = &tables[t]->rows[i];
                        *out = (struct config_keyword){ tables[t]->context, k->word, k->syntax, k->help, k->instead == NULL };
                        return true;
                }
                i -= tables[t]->count;
        }
        if (i < ACCOUNT_KIND_COUNT) {
                const struct kind_row *r = kind_row((enum account_kind)i);
                *out = (struct config_keyword){ "kind", r->name, "", r->help, true };
                return true;
        }
        return false;
}
