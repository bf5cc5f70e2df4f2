/* Replacing one workspace's rules in a text that a person wrote: comments, order and layout elsewhere stay byte for byte.
 *
 * Works on the lexer alone, not on the grammar: the rest of the text may use macros, tables and includes of other files. The caller has parsed the new
 * rules before, and parses the result after. */
#include "base/esc.h"
#include "rules/rules_priv.h"

struct span {
        size_t start, end; /* between the braces */
        size_t word;       /* of the keyword before */
        bool found;
};

struct scan {
        struct arena arena;
        struct lexer lexer;
        struct token tok;
        unsigned depth;
        bool broken;
};

static void scan_next(struct scan *s)
{
        if (s->tok.kind == TOK_OPEN)
                s->depth++;
        else if (s->tok.kind == TOK_CLOSE && s->depth == 0)
                s->broken = true;
        else if (s->tok.kind == TOK_CLOSE)
                s->depth--;
        s->tok = lex_next(&s->lexer, &s->arena);
        if (s->tok.kind == TOK_BAD)
                s->broken = true;
}

static void scan_init(struct scan *s, struct slice text)
{
        *s = (struct scan){ .lexer = { .text = text }, .tok = { TOK_NEWLINE, 0, SLICE_EMPTY } };
        arena_init(&s->arena, RULES_ARENA_BYTES);
}

/* With the opening brace as the current token: to the matching close. */
static bool scan_block(struct scan *s, struct span *out)
{
        unsigned depth = s->depth;

        out->start = s->tok.at + 1;
        scan_next(s);
        while (!s->broken && s->tok.kind != TOK_EOF && !(s->tok.kind == TOK_CLOSE && s->depth == depth + 1))
                scan_next(s);
        out->end = s->tok.at;
        out->found = !s->broken && s->tok.kind == TOK_CLOSE;
        return out->found;
}

/* The first statement at this depth that is `word [name] {`, up to the end of the text or block. The current token is its brace when true. */
static bool scan_find(struct scan *s, const char *word, struct slice name, size_t *word_at)
{
        unsigned depth = s->depth;
        bool at_start = true;

        while (!s->broken && s->tok.kind != TOK_EOF && s->depth >= depth && !(s->tok.kind == TOK_CLOSE && s->depth == depth)) {
                bool hit = at_start && s->depth == depth && s->tok.kind == TOK_WORD && slice_is(s->tok.text, word);
                *word_at = s->tok.at;
                at_start = s->tok.kind == TOK_NEWLINE || s->tok.kind == TOK_SEMICOLON;
                scan_next(s);
                if (hit && name.n) {
                        hit = s->tok.kind == TOK_WORD && slice_eq(s->tok.text, name);
                        if (hit)
                                scan_next(s);
                }
                if (hit && s->tok.kind == TOK_OPEN)
                        return true;
        }
        return false;
}

static bool is_balanced(struct slice text)
{
        struct scan s;
        bool ok;

        scan_init(&s, text);
        while (!s.broken && s.tok.kind != TOK_EOF)
                scan_next(&s);
        ok = !s.broken && s.depth == 0;
        arena_fini(&s.arena);
        return ok;
}

static bool find_workspace(struct slice text, struct slice name, struct span *ws, struct span *rules)
{
        struct scan s;
        bool ok;

        scan_init(&s, text);
        ok = scan_find(&s, "workspace", name, &ws->word);
        if (ok) {
                struct scan inner = s; /* borrows the arena; only `s` frees it */
                ok = scan_block(&s, ws);
                inner.arena = (struct arena){ 0 };
                scan_next(&inner);
                if (ok && scan_find(&inner, "rules", SLICE_EMPTY, &rules->word))
                        ok = scan_block(&inner, rules);
                arena_fini(&inner.arena);
        }
        arena_fini(&s.arena);
        return ok;
}

/* Blanks in front of the line that holds `at`. */
static struct slice indent_at(struct slice text, size_t at)
{
        size_t start = at, n = 0;

        while (start && text.p[start - 1] != '\n')
                start--;
        while (start + n < at && (text.p[start + n] == ' ' || text.p[start + n] == '\t'))
                n++;
        return slice_of(text.p + start, n);
}

static void add_indent(struct buf *out, struct slice indent, unsigned deeper)
{
        buf_add_slice(out, indent);
        for (unsigned i = 0; i < deeper; i++)
                buf_add_str(out, "        ");
}

/* The block from its brace on; its lines stand `level` steps deeper than `indent`, its closing brace one less. */
static void add_rules(struct buf *out, struct slice rules, struct slice indent, unsigned level)
{
        buf_add_str(out, "{\n");
        while (rules.n) {
                ptrdiff_t nl = slice_find(rules, '\n');
                struct slice line = nl < 0 ? rules : slice_first(rules, (size_t)nl);
                rules = nl < 0 ? SLICE_EMPTY : slice_skip(rules, (size_t)nl + 1);
                while (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
                        line = slice_skip(line, 1);
                if (line.n == 0)
                        continue;
                add_indent(out, indent, level);
                buf_add_slice(out, line);
                buf_add_str(out, "\n");
        }
        add_indent(out, indent, level - 1);
        buf_add_str(out, "}");
}

int config_replace_rules(struct slice text, const char *file, struct slice workspace, struct slice rules, struct buf *out, struct diags *errors)
{
        struct span ws = { 0 }, old = { 0 };
        struct program none = { 0 };
        struct slice indent, blanks;

        if (text.n > RULES_FILE_BYTES || rules.n > RULES_FILE_BYTES || !is_balanced(rules)) {
                diag_at(&none, errors, UINT32_MAX, "the rules do not end where they should: a brace or a quote is open");
                return -1;
        }
        if (!find_workspace(text, workspace, &ws, &old)) {
                diag_at(&none, errors, UINT32_MAX, "%s: there is no block of workspace `%s` that could be changed", esc_str(file), esc(workspace));
                return -1;
        }
        if (old.found) {
                indent = indent_at(text, old.word);
                buf_add_slice(out, slice_first(text, old.start - 1));
                add_rules(out, rules, indent, 1);
                buf_add_slice(out, slice_skip(text, old.end + 1));
                return out->failed ? -1 : 0;
        }
        /* No rules yet: a block of them in front of the workspace's closing brace. */
        indent = indent_at(text, ws.word);
        blanks = indent_at(text, ws.end);
        /* The brace may stand behind other words on its line; only blanks are taken away. */
        buf_add_slice(out, slice_first(text, blanks.p + blanks.n == text.p + ws.end ? ws.end - blanks.n : ws.end));
        if (ws.end && buf_len(out) && buf_slice(out).p[buf_len(out) - 1] != '\n')
                buf_add_str(out, "\n");
        buf_add_slice(out, indent);
        buf_add_str(out, "        rules ");
        add_rules(out, rules, indent, 2);
        buf_add_str(out, "\n");
        buf_add_slice(out, indent);
        buf_add_slice(out, slice_skip(text, ws.end));
        return out->failed ? -1 : 0;
}
