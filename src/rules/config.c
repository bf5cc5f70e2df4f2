/* Configurations: read through the caller's loader, printed, turned into the policies that doors run. */
#include "rules/config.h"

#include <stdlib.h>

#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

struct config {
        struct program prog;
};

static struct config *config_finish(struct config *c, const struct config_loader *loader, struct diags *errors)
{
        if (program_parse(&c->prog, PARSE_CONFIG, loader, 0, errors) < 0) {
                config_free(c);
                return NULL;
        }
        for (size_t i = 0; i < c->prog.workspace_count; i++) {
                struct workspace_entry *e = &c->prog.workspaces[i];
                e->w.rules = e->rules.rules;
                e->w.rule_count = e->rules.count;
                e->w.default_allow = e->rules.default_allow;
        }
        return c;
}

static struct config *config_new(struct diags *errors)
{
        struct config *c = calloc(1, sizeof(*c));

        if (c)
                program_init(&c->prog);
        else
                errors->total++;
        return c;
}

struct config *config_load(const struct config_loader *loader, const char *path, struct slice extra, const char *extra_name, struct diags *errors)
{
        struct config *c = config_new(errors);
        char name[4096] = "", why[128] = "";
        char *text = NULL;
        size_t n = 0;

        if (!c)
                return NULL;
        if (loader->load(loader->ctx, path, NULL, name, sizeof(name), &text, &n, why, sizeof(why)) < 0) {
                diag_at(&c->prog, errors, UINT32_MAX, "%s: the file cannot be read: %s", esc_str(path), esc_str(why));
                config_free(c);
                return NULL;
        }
        if (program_add_source(&c->prog, errors, name, slice_of(text, n), text) < 0) {
                config_free(c);
                return NULL;
        }
        if (extra.n) {
                c->prog.extra_source = 1;
                if (program_add_copy(&c->prog, errors, extra_name, extra) < 0) {
                        config_free(c);
                        return NULL;
                }
        }
        return config_finish(c, loader, errors);
}

struct config *config_parse(struct slice text, const char *name, struct diags *errors)
{
        struct config *c = config_new(errors);

        if (!c)
                return NULL;
        if (program_add_copy(&c->prog, errors, name, text) < 0) {
                config_free(c);
                return NULL;
        }
        return config_finish(c, NULL, errors);
}

void config_free(struct config *c)
{
        if (!c)
                return;
        program_fini(&c->prog);
        free(c);
}

/* ---- printing ---------------------------------------------------------------------------------------------------------------------------- */

static void print_share(struct buf *out, const struct config *c, const struct config_workspace *w, const struct config_share *s)
{
        static const char *const modes[] = { "", " read-only", " overlay" };

        buf_add_str(out, "        share ");
        print_path(out, c->prog.sources[0].dir, w->dir, s->path);
        buf_addf(out, "%s%s\n", modes[s->mode], s->sockets_ok ? " sockets ok" : "");
}

static void print_limits_of(struct buf *out, const struct config_workspace *w)
{
        if (w->memory_bytes) {
                buf_add_str(out, "        memory ");
                print_size(out, w->memory_bytes);
                buf_add_str(out, "\n");
        }
        if (w->processes)
                buf_addf(out, "        processes %u\n", w->processes);
        if (w->cpu_percent && w->cpu_percent % 100 == 0)
                buf_addf(out, "        cpu %u\n", w->cpu_percent / 100);
        else if (w->cpu_percent)
                buf_addf(out, "        cpu %u.%02u\n", w->cpu_percent / 100, w->cpu_percent % 100);
}

static void print_bound(struct buf *out, const struct config_workspace *w)
{
        if (w->credential_count == 0)
                return;
        buf_add_str(out, "        credential { ");
        for (size_t i = 0; i < w->credential_count; i++)
                buf_addf(out, "%s%.*s", i ? ", " : "", SLICE_FMT(w->credentials[i]->b.name));
        buf_add_str(out, " }\n");
}

void config_print_workspace(const struct config *c, const struct config_workspace *w, struct buf *out)
{
        buf_addf(out, "workspace %.*s {\n", SLICE_FMT(w->name));
        if (w->isolation == ISOLATION_NAMESPACE)
                buf_add_str(out, "        isolation namespace\n");
        if (w->isolation == ISOLATION_VM)
                buf_add_str(out, "        isolation vm\n");
        if (w->image.n) {
                buf_add_str(out, "        image ");
                print_string(out, w->image);
                buf_add_str(out, "\n");
        }
        for (size_t i = 0; i < w->share_count; i++)
                print_share(out, c, w, &w->shares[i]);
        print_limits_of(out, w);
        for (size_t i = 0; i < w->env_count; i++) {
                buf_addf(out, "        env %.*s ", SLICE_FMT(w->env[i].name));
                print_string(out, w->env[i].value);
                buf_add_str(out, "\n");
        }
        print_bound(out, w);
        print_names(out, "        ", "model", w->models, w->model_count);
        for (size_t i = 0; i < w->tool_count; i++) {
                buf_add_str(out, "        tool ");
                print_string(out, w->tools[i]);
                buf_add_str(out, "\n");
        }
        if (w->dns == DNS_REAL)
                buf_add_str(out, "        dns real\n");
        if (w->nested)
                buf_add_str(out, "        nested yes\n");
        if (!w->trace_activity)
                buf_add_str(out, "        trace off\n");
        if (w->detect_off)
                buf_add_str(out, "        detect off\n");
        buf_add_str(out, "        rules {\n");
        print_ruleset(out, w->rules, w->rule_count, w->default_allow, "                ");
        buf_add_str(out, "        }\n}\n");
}


void config_print(const struct config *c, struct buf *out)
{
        const struct program *prog = &c->prog;

        for (size_t i = 0; i < prog->table_count; i++)
                print_table(out, &prog->tables[i]);
        for (size_t i = 0; i < prog->host_count; i++)
                print_host_block(out, &prog->hosts[i], prog->sources[0].dir);
        if (prog->proxy.n) {
                buf_add_str(out, "upstream proxy ");
                print_string(out, prog->proxy);
                buf_add_str(out, "\n");
        }
        for (size_t i = 0; i < prog->credential_count; i++)
                print_credential(out, &prog->credentials[i].c, prog->sources[0].dir);
        for (size_t i = 0; i < prog->workspace_count; i++)
                config_print_workspace(c, &prog->workspaces[i].w, out);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------------ */

const struct program *config_program(const struct config *c) { return &c->prog; }

size_t config_workspace_count(const struct config *c) { return c->prog.workspace_count; }

const struct config_workspace *config_workspace_at(const struct config *c, size_t i) { return i < c->prog.workspace_count ? &c->prog.workspaces[i].w : NULL; }

const struct config_workspace *config_workspace(const struct config *c, struct slice name)
{
        for (size_t i = 0; i < c->prog.workspace_count; i++)
                if (slice_eq(c->prog.workspaces[i].w.name, name))
                        return &c->prog.workspaces[i].w;
        return NULL;
}

size_t config_credential_count(const struct config *c) { return c->prog.credential_count; }

const struct config_credential *config_credential_at(const struct config *c, size_t i)
{
        return i < c->prog.credential_count ? &c->prog.credentials[i].c : NULL;
}

const struct config_credential *config_credential(const struct config *c, struct slice name)
{
        for (size_t i = 0; i < c->prog.credential_count; i++)
                if (slice_eq(c->prog.credentials[i].c.b.name, name))
                        return &c->prog.credentials[i].c;
        return NULL;
}

struct slice config_proxy(const struct config *c) { return c->prog.proxy; }
size_t config_file_count(const struct config *c) { return c->prog.source_count; }
const char *config_file_at(const struct config *c, size_t i) { return i < c->prog.source_count ? c->prog.sources[i].name : NULL; }
struct slice config_file_text(const struct config *c, size_t i) { return i < c->prog.source_count ? c->prog.sources[i].text : SLICE_EMPTY; }

bool config_ca_at(const struct config *c, size_t i, struct slice *path, struct slice *dir)
{
        if (i >= c->prog.host_count)
                return false;
        *path = c->prog.hosts[i].d.ca_path;
        *dir = path->n ? c->prog.hosts[i].dir : SLICE_EMPTY;
        return true;
}

/* ---- policies ----------------------------------------------------------------------------------------------------------------------------- */

/* Decisions on what went where no name leads (a DNS question, a plain flow) say nothing that could be compared: such a trip is a trip again. */
static void print_known_list(const struct config_live *live, struct buf *out)
{
        char host[HOST_NAME_BYTES];
        size_t n = 0;

        for (size_t i = 0; i < live->known_count && n < RULES_KNOWN_MAX; i++) {
                if (!name_ok(live->known[i].credential, false) || host_canonical(host, sizeof(host), live->known[i].host) < 0)
                        continue;
                if (n++ == 0)
                        buf_add_str(out, "known {\n");
                print_known(out, live->known[i].credential, slice_str(host));
        }
        if (n)
                buf_add_str(out, "}\n");
}

/* What stands above the rules: tables, hosts, accounts. */
static void print_head(const struct config *c, const struct config_workspace *w, const struct config_live *live, struct buf *out)
{
        for (size_t i = 0; i < c->prog.table_count; i++)
                print_table(out, &c->prog.tables[i]);
        for (size_t i = 0; i < c->prog.host_count; i++)
                print_host_block(out, &c->prog.hosts[i], SLICE_LIT("."));
        for (size_t i = 0; i < w->credential_count; i++) {
                const struct config_credential *o = w->credentials[i];
                print_binding(out, o, slice_str(live && live->placeholder ? live->placeholder(live->ctx, o->b.name) : NULL));
        }
        print_names(out, "", "model", w->models, w->model_count);
        if (!live || live->known_count == 0)
                return;
        print_known_list(live, out);
}

static const struct workspace_entry *entry_of(const struct config *c, const struct config_workspace *w)
{
        for (size_t i = 0; i < c->prog.workspace_count; i++)
                if (&c->prog.workspaces[i].w == w)
                        return &c->prog.workspaces[i];
        return NULL;
}

static bool is_preset_at(const struct workspace_entry *e, size_t i) { return i < e->preset_first || i >= e->rules.count - e->preset_rest; }

/* Whose a rule is, for who reads and edits them; the parser passes over it. */
static void print_origin(struct buf *out, const struct workspace_entry *e, size_t i)
{
        if (is_preset_at(e, i))
                buf_addf(out, "  # agent %.*s", SLICE_FMT(e->w.agent));
}

void config_print_rules(const struct config *c, const struct config_workspace *w, struct buf *out)
{
        const struct workspace_entry *e = entry_of(c, w);

        for (size_t i = 0; e && i < e->rules.count; i++) {
                print_rule(out, &e->rules.rules[i]);
                print_origin(out, e, i);
                buf_add_str(out, "\n");
        }
        buf_addf(out, "default %s\n", w->default_allow ? "allow" : "deny");
}

/* Is this line, with or without its origin, one of these rules of the preset? */
static bool is_preset_line(const struct workspace_entry *e, size_t from, size_t count, struct slice line)
{
        struct buf text;
        bool same = false;

        buf_init(&text, 0);
        for (size_t i = from; !same && i < from + count; i++) {
                buf_clear(&text);
                print_rule(&text, &e->rules.rules[i]);
                same = slice_eq(buf_slice(&text), line);
                print_origin(&text, e, i);
                same = same || slice_eq(buf_slice(&text), line);
        }
        buf_fini(&text);
        return same;
}

static struct slice trimmed(struct slice s)
{
        while (s.n && strchr(" \t\r\n", s.p[0]) && s.p[0])
                s = slice_skip(s, 1);
        while (s.n && strchr(" \t\r\n", s.p[s.n - 1]) && s.p[s.n - 1])
                s.n--;
        return s;
}

/* From the last line up: a default, blank lines and the preset's rest, until a line is something else. Of what is left, *own stands in front of them, the
 * default from *after on. */
static void cut_rest(const struct workspace_entry *e, struct slice rules, size_t *own, size_t *after)
{
        size_t start;

        *own = *after = rules.n;
        for (size_t end = rules.n; end; end = start) {
                struct slice line;
                for (start = end - 1; start && rules.p[start - 1] != '\n';)
                        start--;
                line = trimmed(slice_of(rules.p + start, end - start));
                if (is_preset_line(e, e->rules.count - e->preset_rest, e->preset_rest, line))
                        *own = start;
                else if (*own == rules.n && slice_starts(line, SLICE_LIT("default ")))
                        *after = start;
                else if (line.n)
                        break;
        }
        if (*after < *own)
                *own = *after;
}

/* Without the preset's first rules, wherever they were put: they stand in front in any case, and behind themselves they decide nothing. */
static void add_without_first(struct buf *out, const struct workspace_entry *e, struct slice rules)
{
        while (rules.n) {
                ptrdiff_t end = slice_find(rules, '\n');
                struct slice line = end < 0 ? rules : slice_first(rules, (size_t)end + 1);

                if (!is_preset_line(e, 0, e->preset_first, trimmed(line)))
                        buf_add_slice(out, line);
                rules = slice_skip(rules, line.n);
        }
}

void config_own_rules(const struct config *c, const struct config_workspace *w, struct slice rules, struct buf *out)
{
        const struct workspace_entry *e = entry_of(c, w);
        size_t own = rules.n, after = rules.n;

        if (e->preset_rest)
                cut_rest(e, rules, &own, &after);
        add_without_first(out, e, slice_first(rules, own));
        buf_add_slice(out, slice_skip(rules, after));
}

/* A live edit says what the workspace says itself; its agent's rules stay around it. */
static bool add_preset(struct program *prog, const struct workspace_entry *e, struct diags *errors)
{
        struct ruleset own = prog->rules;
        struct buf text;
        size_t source = prog->source_count;
        bool ok;

        if (e->preset_first + e->preset_rest == 0)
                return true;
        buf_init(&text, 0);
        for (size_t i = 0; i < e->rules.count; i++) {
                if (!is_preset_at(e, i))
                        continue;
                print_rule(&text, &e->rules.rules[i]);
                buf_add_str(&text, "\n");
        }
        prog->rules = (struct ruleset){ 0 };
        ok = !text.failed && program_add_copy(prog, errors, "the agent's rules", buf_slice(&text)) == 0 && program_parse(prog, PARSE_RULES, NULL, source, errors) == 0;
        buf_fini(&text);
        return ok && ruleset_surround(prog, &own, &prog->rules, e->preset_first, errors);
}

static struct policy *make_policy(const struct config *c, const struct config_workspace *w, struct slice rules, struct slice extra, const struct config_live *live,
                                  struct diags *errors)
{
        const struct workspace_entry *e = entry_of(c, w);
        struct program prog;
        struct buf head, body;
        bool ok;

        program_init(&prog);
        buf_init(&head, 0);
        buf_init(&body, 0);
        print_head(c, w, live, &head);
        if (rules.n)
                buf_add_slice(&body, rules);
        else
                print_ruleset(&body, w->rules + e->preset_first, w->rule_count - e->preset_first - e->preset_rest, w->default_allow, "");
        ok = !head.failed && !body.failed && program_add_copy(&prog, errors, "tables and hosts", buf_slice(&head)) == 0 &&
             program_parse(&prog, PARSE_POLICY, NULL, 0, errors) == 0;
        ok = ok && program_add_copy(&prog, errors, "added rules", extra) == 0 && program_add_copy(&prog, errors, "rules", buf_slice(&body)) == 0 &&
             program_parse(&prog, PARSE_RULES, NULL, 1, errors) == 0 && add_preset(&prog, e, errors);
        buf_fini(&head);
        buf_fini(&body);
        if (ok)
                return policy_compile(&prog, errors);
        program_fini(&prog);
        return NULL;
}

struct policy *config_policy(const struct config *c, const struct config_workspace *w, struct slice rules, struct slice extra, struct diags *errors)
{
        return make_policy(c, w, rules, extra, NULL, errors);
}

int config_policy_text(const struct config *c, const struct config_workspace *w, struct slice rules, struct slice extra, const struct config_live *live, struct buf *out,
                       struct diags *errors)
{
        struct policy *p = make_policy(c, w, rules, extra, live, errors);

        if (!p)
                return -1;
        policy_print(p, out);
        policy_free(p);
        return out->failed ? -1 : 0;
}
