/* Policies: made from text, printed, asked for their rules. The verdicts are in match.c. */
#include <stdlib.h>

#include "rules/rules_priv.h"

/* By name, for policy_host. */
static int host_index(struct policy *p)
{
        size_t slots = 16;

        while (slots < p->prog.host_count * 2)
                slots *= 2;
        p->host_mask = slots - 1;
        p->host_slots = arena_alloc_array(&p->prog.arena, slots, sizeof(*p->host_slots));
        if (!p->host_slots)
                return -1;
        for (size_t h = 0; h < p->prog.host_count; h++) {
                size_t i = index_hash(p->prog.hosts[h].d.name) & p->host_mask;
                while (p->host_slots[i])
                        i = (i + 1) & p->host_mask;
                p->host_slots[i] = (uint32_t)h + 1;
        }
        return 0;
}

struct policy *policy_compile(struct program *prog, struct diags *errors)
{
        struct policy *p = calloc(1, sizeof(*p));

        if (!p) {
                diag_at(prog, errors, UINT32_MAX, "out of memory");
                program_fini(prog);
                return NULL;
        }
        p->prog = *prog;
        memset(prog, 0, sizeof(*prog));
        if (index_build(&p->index, &p->prog.arena, &p->prog.rules) == 0 && host_index(p) == 0 && account_index(p) == 0)
                return p;
        diag_at(&p->prog, errors, UINT32_MAX, "the rules and their tables are too large together");
        policy_free(p);
        return NULL;
}

int program_add_copy(struct program *prog, struct diags *errors, const char *name, struct slice text)
{
        char *copy = malloc(text.n + 1);

        if (!copy) {
                diag_at(prog, errors, UINT32_MAX, "out of memory");
                return -1;
        }
        if (text.n)
                memcpy(copy, text.p, text.n);
        copy[text.n] = 0;
        return program_add_source(prog, errors, name, slice_of(copy, text.n), copy);
}

struct policy *policy_parse(struct slice text, const char *file, struct diags *errors)
{
        struct program prog;

        program_init(&prog);
        if (program_add_copy(&prog, errors, file, text) < 0 || program_parse(&prog, PARSE_POLICY, NULL, 0, errors) < 0) {
                program_fini(&prog);
                return NULL;
        }
        return policy_compile(&prog, errors);
}

void policy_free(struct policy *p)
{
        if (!p)
                return;
        program_fini(&p->prog);
        free(p);
}

static bool table_is_used(const struct program *prog, const struct table *t)
{
        for (size_t i = 0; i < prog->rules.count; i++)
                for (size_t j = 0; j < prog->rules.rules[i].target_count; j++)
                        if (prog->rules.rules[i].targets[j].table == t)
                                return true;
        return false;
}

void policy_print(const struct policy *p, struct buf *out)
{
        const struct program *prog = &p->prog;

        for (size_t i = 0; i < prog->table_count; i++)
                if (table_is_used(prog, &prog->tables[i]))
                        print_table(out, &prog->tables[i]);
        for (size_t i = 0; i < prog->host_count; i++)
                print_host_block(out, &prog->hosts[i], prog->hosts[i].dir);
        for (size_t i = 0; i < prog->credential_count; i++)
                print_binding(out, &prog->credentials[i].c, prog->credentials[i].c.b.placeholder);
        print_names(out, "", "model", prog->models, prog->model_count);
        if (prog->known_count)
                buf_add_str(out, "known {\n");
        for (size_t i = 0; i < prog->known_count; i++)
                print_known(out, prog->known[i].credential, prog->known[i].host);
        buf_add_str(out, prog->known_count ? "}\nrules {\n" : "rules {\n");
        print_ruleset(out, prog->rules.rules, prog->rules.count, prog->rules.default_allow, "        ");
        buf_add_str(out, "}\n");
}

size_t policy_rule_count(const struct policy *p) { return p->prog.rules.count; }
bool policy_default_allow(const struct policy *p) { return p->prog.rules.default_allow; }

void policy_rule_text(const struct policy *p, int rule, struct buf *out)
{
        if (rule >= 0 && (size_t)rule < p->prog.rules.count)
                print_rule(out, &p->prog.rules.rules[rule]);
        else
                buf_add_str(out, p->prog.rules.default_allow ? "default allow" : "default deny");
}

static bool starts_with_action(struct slice text)
{
        size_t n = 0;
        struct slice word;

        while (text.n && (text.p[0] == ' ' || text.p[0] == '\t'))
                text = slice_skip(text, 1);
        while (n < text.n && text.p[n] > ' ')
                n++;
        word = slice_first(text, n);
        for (size_t i = 0; i < keywords_rules.count; i++)
                if (slice_is(word, keywords_rules.rows[i].word))
                        return true;
        return false;
}

int policy_rule_parse_one(struct slice text, struct buf *out, struct diags *errors)
{
        struct program prog;
        struct buf full;
        int rc = -1;

        program_init(&prog);
        buf_init(&full, RULES_FILE_BYTES);
        if (!starts_with_action(text))
                buf_add_str(&full, "allow ");
        buf_add_slice(&full, text);
        if (full.failed || program_add_copy(&prog, errors, "rule", buf_slice(&full)) < 0 || program_parse(&prog, PARSE_RULES, NULL, 0, errors) < 0)
                goto out;
        if (prog.rules.count != 1 || prog.rules.default_given) {
                diag_at(&prog, errors, 0, "one rule is expected here");
                goto out;
        }
        print_rule(out, &prog.rules.rules[0]);
        rc = out->failed ? -1 : 0;
out:
        buf_fini(&full);
        program_fini(&prog);
        return rc;
}
