/* Agent presets: `agent NAME` in a workspace stands for what NAME.conf of the installation says: variables, the model's hosts, programs, rules.
 *
 * A preset is read like an include and merged when the workspace's block is complete. The workspace's variables win. SECURITY: the preset's rules for its
 * model's hosts stand before the workspace's own: they say what the agent's credential is good for, and `allow web any` opens nothing else there. Its other
 * rules stand behind. Printed, the workspace has it all written out, as with macros. A preset says nothing of the rest of the configuration. */
#include <stdio.h>

#include "base/esc.h"
#include "rules/rules_priv.h"

/* ---- statements ---------------------------------------------------------------------------------------------------------------------------- */

bool ws_agent(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;

        if (!once(p, &b->seen, &keywords_workspace, k))
                return false;
        b->agent_at = p->tok.at;
        return take_name(p, &b->agent, false, "the name of an agent");
}

bool ws_model(struct parser *p, void *obj, const struct keyword *k)
{
        struct block *b = obj;
        struct slice *list = (struct slice *)(uintptr_t)b->ws->w.models;
        bool ok;

        (void)k;
        ok = parse_model_hosts(p, &list, &b->ws->w.model_count, &b->model_cap);
        b->ws->w.models = list;
        return ok;
}

static bool add_tool(struct parser *p, struct block *b, struct slice name)
{
        struct config_workspace *w = &b->ws->w;
        struct slice *list = (struct slice *)(uintptr_t)w->tools, *to;

        for (size_t i = 0; i < w->tool_count; i++)
                if (slice_eq(list[i], name))
                        return true;
        to = parser_push(p, &list, &w->tool_count, &b->tool_cap, sizeof(*to), RULES_TOOLS_MAX, "tools");
        w->tools = list;
        if (to)
                *to = name;
        return to != NULL;
}

bool ws_tool(struct parser *p, void *obj, const struct keyword *k)
{
        struct slice name;

        (void)k;
        return take_path(p, &name, "the program in quotes") && add_tool(p, obj, name);
}

/* ---- the preset ----------------------------------------------------------------------------------------------------------------------------- */

struct preset {
        struct slice name; /* as asked for */
        bool found;
        struct block b;
        struct workspace_entry e;
        enum account_kind kind;
};

static bool preset_kind(struct parser *p, void *obj, const struct keyword *k);
static bool preset_agent(struct parser *p, void *obj, const struct keyword *k);

static bool preset_env(struct parser *p, void *obj, const struct keyword *k) { return ws_env(p, &((struct preset *)obj)->b, k); }
static bool preset_model(struct parser *p, void *obj, const struct keyword *k) { return ws_model(p, &((struct preset *)obj)->b, k); }
static bool preset_tool(struct parser *p, void *obj, const struct keyword *k) { return ws_tool(p, &((struct preset *)obj)->b, k); }

static bool preset_rules(struct parser *p, void *obj, const struct keyword *k)
{
        struct preset *preset = obj;

        (void)k;
        if (preset->e.rules.at)
                return parser_fail(p, p->keyword_at, "`rules` is given already");
        return parse_rules_block(p, &preset->e.rules);
}

static const struct keyword rows_agent[] = {
        { "kind", "KIND", "the kind of credential that its client uses", NULL, 0, preset_kind },
        { "model", "{ HOST, … }", "hosts of its model", NULL, 0, preset_model },
        { "env", "NAME \"VALUE\"", "a variable of the guest's environment", NULL, 0, preset_env },
        { "tool", "\"PROGRAM\"", "where it lies on the host", NULL, 0, preset_tool },
        { "rules", "{ … }", "what it needs, without a default", NULL, 0, preset_rules },
};
const struct keyword_table keywords_agent = KEYWORD_TABLE("agent", "a statement of an agent's preset", rows_agent);

static const struct keyword rows_preset[] = { { "agent", "NAME { … }", "an agent's preset", NULL, 0, preset_agent } };
static const struct keyword_table keywords_preset = KEYWORD_TABLE("preset", "a preset's statement", rows_preset);

static bool preset_kind(struct parser *p, void *obj, const struct keyword *k)
{
        struct preset *preset = obj;

        return once(p, &preset->b.seen, &keywords_agent, k) && take_kind(p, &preset->kind);
}

static bool preset_agent(struct parser *p, void *obj, const struct keyword *k)
{
        struct preset *preset = obj;
        struct slice name;
        uint32_t at = p->tok.at;

        (void)k;
        if (!take_name(p, &name, false, "the name of the agent"))
                return false;
        if (!slice_eq(name, preset->name))
                return parser_fail(p, at, "this preset is of the agent `%s`: it stands in a file of its own name", esc(name));
        if (preset->found)
                return parser_fail(p, at, "the agent `%s` is there already", esc(name));
        preset->found = true;
        if (!parse_statements(p, &keywords_agent, preset, true))
                return false;
        return !preset->e.rules.default_given || parser_fail(p, at, "a preset has no `default`: that is the workspace's");
}

/* The source that holds the preset; read once, however many workspaces name it. */
static bool preset_source(struct parser *p, const struct block *b, uint16_t *source)
{
        char path[4096], name[4096] = "", why[128] = "";
        char *text = NULL;
        size_t n = 0;

        if (!p->loader || !p->loader->agents)
                return parser_fail(p, b->agent_at, "no presets of agents are installed beside this brome: install it whole, or name their folder's parent by BROME_DATA");
        if (snprintf(path, sizeof(path), "%s/%.*s.conf", p->loader->agents, SLICE_FMT(b->agent)) >= (int)sizeof(path))
                return parser_fail(p, b->agent_at, "the folder of the presets has too long a path");
        for (size_t i = 0; i < p->prog->source_count; i++)
                if (strcmp(p->prog->sources[i].name, path) == 0) {
                        *source = (uint16_t)i;
                        return true;
                }
        if (p->loader->load(p->loader->ctx, path, p->prog->sources[p->source].name, name, sizeof(name), &text, &n, why, sizeof(why)) < 0)
                return parser_fail(p, b->agent_at, "there is no preset for the agent `%s`: %s", esc(b->agent), esc_str(why));
        if (program_add_source(p->prog, p->errors, path, slice_of(text, n), text) < 0)
                return false;
        *source = (uint16_t)(p->prog->source_count - 1);
        return true;
}

/* ---- merging --------------------------------------------------------------------------------------------------------------------------------- */

static bool has_env(const struct config_workspace *w, struct slice name)
{
        for (size_t i = 0; i < w->env_count; i++)
                if (slice_eq(w->env[i].name, name))
                        return true;
        return false;
}

static bool merge_env(struct parser *p, struct block *b, const struct config_workspace *from)
{
        struct config_workspace *w = &b->ws->w;
        struct config_env *list = (struct config_env *)(uintptr_t)w->env, *to;

        for (size_t i = 0; i < from->env_count; i++) {
                if (has_env(w, from->env[i].name))
                        continue;
                to = parser_push(p, &list, &w->env_count, &b->env_cap, sizeof(*to), RULES_ENV_MAX, "variables");
                w->env = list;
                if (!to)
                        return false;
                *to = from->env[i];
        }
        return true;
}

static bool merge_models(struct parser *p, struct block *b, const struct config_workspace *from)
{
        struct config_workspace *w = &b->ws->w;
        struct slice *list = (struct slice *)(uintptr_t)w->models, *to;

        for (size_t i = 0; i < from->model_count; i++) {
                size_t j;
                for (j = 0; j < w->model_count && !slice_eq(list[j], from->models[i]); j++)
                        ;
                if (j < w->model_count)
                        continue;
                to = parser_push(p, &list, &w->model_count, &b->model_cap, sizeof(*to), RULES_MODELS_MAX, "hosts of a model");
                w->models = list;
                if (!to)
                        return false;
                *to = from->models[i];
        }
        return true;
}

bool rule_same(const struct rule *a, const struct rule *b)
{
        struct buf x, y;
        bool same;

        if (a->action != b->action || a->proto != b->proto || a->target_count != b->target_count || a->method_count != b->method_count || !slice_eq(a->path, b->path) ||
            !slice_eq(a->targets[0].name, b->targets[0].name))
                return false; /* most of them, without printing */
        buf_init(&x, 0);
        buf_init(&y, 0);
        print_rule(&x, a);
        print_rule(&y, b);
        same = slice_eq(buf_slice(&x), buf_slice(&y));
        buf_fini(&x);
        buf_fini(&y);
        return same;
}

static bool has_rule(const struct ruleset *rs, const struct rule *r)
{
        for (size_t i = 0; i < rs->count; i++)
                if (rule_same(&rs->rules[i], r))
                        return true;
        return false;
}

/* All of `from` but what stands in `said` word for word: behind itself a rule decides nothing. */
static bool add_rules(struct parser *p, struct ruleset *rs, const struct ruleset *from, const struct ruleset *said)
{
        for (size_t i = 0; i < from->count; i++) {
                struct rule *to;
                if (has_rule(said, &from->rules[i]))
                        continue;
                to = parser_push(p, &rs->rules, &rs->count, &rs->cap, sizeof(*to), RULES_MAX, "rules");
                if (!to)
                        return false;
                *to = from->rules[i];
        }
        return true;
}

/* The preset's rules, the first `first` of which stand in front, around `own`. */
static bool surround(struct parser *p, struct ruleset *out, const struct ruleset *own, const struct ruleset *preset, size_t first)
{
        const struct ruleset none = { 0 }, front = { .rules = preset->rules, .count = first }, rest = { .rules = preset->rules + first, .count = preset->count - first };

        *out = (struct ruleset){ .default_given = own->default_given, .default_allow = own->default_allow, .at = own->at };
        return add_rules(p, out, &front, &none) && add_rules(p, out, own, &front) && add_rules(p, out, &rest, own);
}

bool ruleset_surround(struct program *prog, const struct ruleset *own, const struct ruleset *preset, size_t first, struct diags *errors)
{
        struct parser p = { .prog = prog, .errors = errors, .mode = PARSE_RULES };
        struct ruleset all;
        bool ok = surround(&p, &all, own, preset, first);

        prog->rules = all;
        check_ruleset(prog, &prog->rules, errors);
        return ok;
}

/* Is every target one of the model's hosts? */
static bool is_of_model(const struct rule *r, const struct config_workspace *preset)
{
        for (size_t i = 0; i < r->target_count; i++) {
                size_t j;
                for (j = 0; j < preset->model_count && !(r->targets[i].kind == TARGET_NAME && slice_eq(r->targets[i].name, preset->models[j])); j++)
                        ;
                if (j == preset->model_count)
                        return false;
        }
        return true;
}

static bool merge_rules(struct parser *p, struct block *b, const struct workspace_entry *preset)
{
        struct ruleset sorted = { 0 }, all;
        size_t first = 0;

        for (int of_model = 1; of_model >= 0; of_model--) {
                for (size_t i = 0; i < preset->rules.count; i++) {
                        const struct ruleset one = { .rules = &preset->rules.rules[i], .count = 1 };
                        if (is_of_model(one.rules, &preset->w) == (of_model == 1) && !add_rules(p, &sorted, &one, &sorted))
                                return false;
                }
                if (of_model)
                        first = sorted.count;
        }
        if (!surround(p, &all, &b->ws->rules, &sorted, first))
                return false;
        b->ws->preset_first = first;
        /* Of what follows, as much is the preset's as was not the workspace's own as well. */
        for (size_t i = first; i < sorted.count; i++)
                if (!has_rule(&b->ws->rules, &sorted.rules[i]))
                        b->ws->preset_rest++;
        b->ws->rules = all;
        return true;
}

bool agent_merge(struct parser *p, struct block *b)
{
        struct preset preset = { .name = b->agent, .kind = ACCOUNT_KIND_COUNT };
        struct config_workspace *w = &b->ws->w;
        size_t errors = p->errors->total;
        uint16_t source;

        if (!preset_source(p, b, &source))
                return false;
        preset.b.ws = &preset.e;
        parse_source(p, source, &keywords_preset, &preset);
        if (p->errors->total != errors)
                return false;
        if (!preset.found)
                return parser_fail(p, b->agent_at, "the preset %s says nothing about the agent", esc_str(p->prog->sources[source].name));
        w->agent = preset.name;
        w->agent_kind = preset.kind;
        if (!merge_env(p, b, &preset.e.w) || !merge_models(p, b, &preset.e.w) || !merge_rules(p, b, &preset.e))
                return false;
        for (size_t i = 0; i < preset.e.w.tool_count; i++)
                if (!add_tool(p, b, preset.e.w.tools[i]))
                        return false;
        return true;
}
