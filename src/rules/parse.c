/* Parser core: tokens with macros expanded, messages with their place, recovery at the next statement, keyword look-up with suggestions.
 *
 * The grammar itself stands in tables (parse_block.c, parse_rule.c). A failing parse function has said why and returns false; the statement loop
 * then skips to the end of that statement and goes on, so that one run reports many errors. Recursion: blocks by RULES_BLOCK_DEPTH,
 * includes by RULES_INCLUDE_DEPTH. Macros are stored expanded, so expansion never nests; what they can blow up to is RULES_TOKENS_MAX. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/esc.h"
#include "rules/rules_priv.h"

/* ---- program and places ------------------------------------------------------------------------------------------------------ */

void program_init(struct program *prog)
{
        memset(prog, 0, sizeof(*prog));
        arena_init(&prog->arena, RULES_ARENA_BYTES);
}

void program_fini(struct program *prog)
{
        for (size_t i = 0; i < prog->source_count; i++)
                free(prog->sources[i].owned);
        arena_fini(&prog->arena);
        memset(prog, 0, sizeof(*prog));
}

static struct slice dir_of(struct slice name)
{
        size_t n = name.n;

        while (n && name.p[n - 1] != '/')
                n--;
        if (n == 0)
                return SLICE_LIT(".");
        return slice_first(name, n > 1 ? n - 1 : 1);
}

int program_add_source(struct program *prog, struct diags *errors, const char *name, struct slice text, char *owned)
{
        struct source *s = &prog->sources[prog->source_count], *last = prog->source_count ? s - 1 : NULL;
        struct slice dir;

        if (prog->source_count == RULES_FILES_MAX || text.n > RULES_FILE_BYTES) {
                diag_at(prog, errors, UINT32_MAX, prog->source_count == RULES_FILES_MAX ? "%s: too many files" : "%s: the file is too large", esc_str(name));
                free(owned);
                return -1;
        }
        *s = (struct source){ .name = arena_strndup(&prog->arena, name, strlen(name)), .text = text, .owned = owned };
        if (!s->name) {
                free(owned);
                return -1;
        }
        /* A copy: readers of `dir` take it as a C string, and the name goes on behind it. */
        dir = dir_of(slice_str(s->name));
        s->dir = slice_of(arena_strndup(&prog->arena, (const char *)dir.p, dir.n), dir.n);
        if (!s->dir.p) {
                free(owned);
                return -1;
        }
        s->base = last ? last->base + (uint32_t)last->text.n + 1 : 0;
        prog->source_count++;
        return 0;
}

const struct table *program_table(const struct program *prog, struct slice name)
{
        for (size_t i = 0; i < prog->table_count; i++)
                if (slice_eq(prog->tables[i].name, name))
                        return &prog->tables[i];
        return NULL;
}

static const struct source *source_at(const struct program *prog, uint32_t at)
{
        for (size_t i = prog->source_count; i-- > 0;)
                if (at >= prog->sources[i].base && at - prog->sources[i].base <= prog->sources[i].text.n)
                        return &prog->sources[i];
        return NULL;
}

static size_t char_bytes(struct slice s)
{
        size_t n = 1;

        while (n < s.n && n < 4 && (s.p[n] & 0xc0) == 0x80)
                n++;
        return n;
}

/* The line as shown: one cell a character; what esc() would spell out becomes '?', so that the caret stays under its place. */
static void diag_source(struct diag *d, struct slice line, size_t offset)
{
        enum { BEFORE = 100 };
        size_t skip = offset > BEFORE ? offset - BEFORE : 0, used = 0;
        char shown[16];

        while (skip && skip < line.n && (line.p[skip] & 0xc0) == 0x80)
                skip--;
        d->column = 1;
        for (size_t i = 0; i < offset && i < line.n; i++)
                d->column += (line.p[i] & 0xc0) != 0x80;
        for (size_t i = skip; i < line.n;) {
                struct slice c = slice_of(line.p + i, char_bytes(slice_skip(line, i)));
                if (used + c.n >= sizeof(d->source))
                        break;
                if (i < offset)
                        d->caret++;
                esc_text(shown, sizeof(shown), c);
                if (c.p[0] == '\t')
                        d->source[used++] = ' ';
                else if (!slice_is(c, shown) && c.p[0] != '\\')
                        d->source[used++] = '?';
                else
                        memcpy(d->source + used, c.p, c.n), used += c.n;
                i += c.n;
        }
        d->source[used] = 0;
}

static void __attribute__((format(printf, 4, 0))) diag_add(const struct program *prog, struct diags *errors, uint32_t at, const char *fmt, va_list ap)
{
        const struct source *s = source_at(prog, at);
        struct diag *d;
        size_t offset, start, end;

        errors->total++;
        if (errors->count == RULES_ERRORS_MAX)
                return;
        d = &errors->list[errors->count++];
        memset(d, 0, sizeof(*d));
        vsnprintf(d->message, sizeof(d->message), fmt, ap);
        if (!s)
                return;
        esc_text(d->file, sizeof(d->file), slice_str(s->name));
        offset = at - s->base;
        for (start = offset; start && s->text.p[start - 1] != '\n';)
                start--;
        for (end = offset; end < s->text.n && s->text.p[end] != '\n';)
                end++;
        d->line = 1;
        for (size_t i = 0; i < start; i++)
                d->line += s->text.p[i] == '\n';
        diag_source(d, slice_of(s->text.p ? s->text.p + start : NULL, end - start), offset - start);
}

void diag_at(const struct program *prog, struct diags *errors, uint32_t at, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        diag_add(prog, errors, at, fmt, ap);
        va_end(ap);
}

bool parser_fail(struct parser *p, uint32_t at, const char *fmt, ...)
{
        va_list ap;

        /* A bad token was reported by the lexer; what the grammar would say about it is noise. */
        if (p->gave_up || (p->tok.kind == TOK_BAD && at == p->tok.at))
                return false;
        va_start(ap, fmt);
        diag_add(p->prog, p->errors, at, fmt, ap);
        va_end(ap);
        return false;
}

static void parser_give_up(struct parser *p, const char *why)
{
        if (!p->gave_up)
                diag_at(p->prog, p->errors, p->tok.at, "%s", why);
        p->gave_up = true;
}

/* ---- tokens -------------------------------------------------------------------------------------------------------------------- */

static const struct macro *parser_macro(const struct parser *p, struct slice name)
{
        for (size_t i = 0; i < p->macro_count; i++)
                if (slice_eq(p->macros[i].name, name))
                        return &p->macros[i];
        return NULL;
}

/* One token, macros expanded. */
static struct token parser_fetch(struct parser *p)
{
        struct token t;
        const struct macro *m;

        if (p->gave_up || ++p->tokens > RULES_TOKENS_MAX) {
                parser_give_up(p, "the text is too large, its macros expanded");
                return (struct token){ TOK_EOF, p->tok.at, SLICE_EMPTY };
        }
        if (p->pending_count) {
                t = *p->pending++;
                p->pending_count--;
                t.at = p->pending_at;
                return t;
        }
        t = lex_next(&p->lexer, &p->prog->arena);
        if (t.kind == TOK_BAD)
                diag_at(p->prog, p->errors, t.at, "%s", p->lexer.problem);
        if (t.kind != TOK_MACRO)
                return t;
        m = parser_macro(p, t.text);
        if (!m) {
                diag_at(p->prog, p->errors, t.at, "there is no macro `%s`", esc(t.text));
                return (struct token){ TOK_BAD, t.at, SLICE_EMPTY };
        }
        p->pending = m->tokens;
        p->pending_count = m->count;
        p->pending_at = t.at;
        return parser_fetch(p); /* once: a macro holds no macro and at least one token */
}

void parser_next(struct parser *p)
{
        if (p->tok.kind == TOK_OPEN)
                p->depth++;
        else if (p->tok.kind == TOK_CLOSE && p->depth)
                p->depth--;
        p->tok = p->has_ahead ? p->ahead : parser_fetch(p);
        p->has_ahead = false;
}

const struct token *parser_peek(struct parser *p)
{
        if (!p->has_ahead)
                p->ahead = parser_fetch(p);
        p->has_ahead = true;
        return &p->ahead;
}

bool parser_at_end(const struct parser *p)
{
        return p->tok.kind == TOK_NEWLINE || p->tok.kind == TOK_SEMICOLON || p->tok.kind == TOK_CLOSE || p->tok.kind == TOK_EOF;
}

bool parser_is(const struct parser *p, const char *word) { return p->tok.kind == TOK_WORD && slice_is(p->tok.text, word); }

bool parser_expected(struct parser *p, const char *what)
{
        char name[160];

        return parser_fail(p, p->tok.at, "expected %s, not %s", what, token_name(name, sizeof(name), &p->tok));
}

bool parser_take(struct parser *p, enum token_kind kind, const char *what)
{
        if (p->tok.kind != kind)
                return parser_expected(p, what);
        parser_next(p);
        return true;
}

bool parser_word_or_string(struct parser *p, struct slice *out, const char *what)
{
        if (p->tok.kind != TOK_WORD && p->tok.kind != TOK_STRING)
                return parser_expected(p, what);
        *out = p->tok.text;
        parser_next(p);
        return true;
}

void *parser_push(struct parser *p, void *array, size_t *count, size_t *cap, size_t size, size_t max, const char *what)
{
        void **a = array;
        size_t bigger = *cap ? *cap * 2 : 4;
        void *copy;

        if (*count >= max) {
                parser_fail(p, p->tok.at, "too many %s: %zu at most", what, max);
                return NULL;
        }
        if (*count == *cap) {
                copy = arena_alloc_array(&p->prog->arena, bigger, size);
                if (!copy) {
                        parser_give_up(p, "out of memory");
                        return NULL;
                }
                if (*count)
                        memcpy(copy, *a, *count * size);
                *a = copy;
                *cap = bigger;
        }
        return (char *)*a + (*count)++ * size;
}

/* ---- keywords ------------------------------------------------------------------------------------------------------------------ */

/* Edit distance of two short words: insert, delete, replace, swap neighbours. */
static unsigned word_distance(struct slice a, struct slice b)
{
        enum { WORD_MAX = 24 };
        unsigned rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2], *swap;

        if (a.n > WORD_MAX || b.n > WORD_MAX)
                return WORD_MAX;
        for (size_t j = 0; j <= b.n; j++)
                before[j] = last[j] = (unsigned)j;
        for (size_t i = 1; i <= a.n; i++) {
                row[0] = (unsigned)i;
                for (size_t j = 1; j <= b.n; j++) {
                        unsigned best = last[j - 1] + (ascii_lower(a.p[i - 1]) != b.p[j - 1]);
                        if (last[j] + 1 < best)
                                best = last[j] + 1;
                        if (row[j - 1] + 1 < best)
                                best = row[j - 1] + 1;
                        if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] && before[j - 2] + 1 < best)
                                best = before[j - 2] + 1;
                        row[j] = best;
                }
                swap = before;
                before = last;
                last = row;
                row = swap;
        }
        return last[b.n];
}

/* One slip in a short word, two in a longer one; more is another word. */
static const char *keyword_nearest(const struct keyword_table *t, struct slice word)
{
        const char *nearest = NULL;
        unsigned best = word.n > 4 ? 3 : 2, d;

        for (size_t i = 0; i < t->count; i++) {
                d = word_distance(word, slice_str(t->rows[i].word));
                if (d < best) {
                        best = d;
                        nearest = t->rows[i].word;
                }
        }
        return nearest;
}

static void keyword_list(const struct keyword_table *t, char *out, size_t size)
{
        size_t n = 0;

        out[0] = 0;
        for (size_t i = 0; i < t->count && n < size; i++) {
                int put = snprintf(out + n, size - n, "%s%s", i ? ", " : "", t->rows[i].word);
                if (put < 0)
                        return;
                n += (size_t)put;
        }
}

const struct keyword *parser_keyword(struct parser *p, const struct keyword_table *t)
{
        char list[200];
        const char *nearest;

        if (p->tok.kind != TOK_WORD) {
                parser_expected(p, t->what);
                return NULL;
        }
        for (size_t i = 0; i < t->count; i++) {
                if (!slice_is(p->tok.text, t->rows[i].word))
                        continue;
                p->keyword_at = p->tok.at;
                parser_next(p);
                return &t->rows[i];
        }
        nearest = keyword_nearest(t, p->tok.text);
        keyword_list(t, list, sizeof(list));
        if (nearest)
                parser_fail(p, p->tok.at, "`%s` is not %s; did you mean `%s`?", esc(slice_first(p->tok.text, 64)), t->what, nearest);
        else
                parser_fail(p, p->tok.at, "`%s` is not %s: %s", esc(slice_first(p->tok.text, 64)), t->what, list);
        return NULL;
}

bool parser_not_yet(struct parser *p, uint32_t at, const struct keyword *k)
{
        return parser_fail(p, at, "`%s` is not available yet%s%s", k->word, k->instead[0] ? ": " : "", k->instead);
}

/* ---- statements ---------------------------------------------------------------------------------------------------------------- */

/* To the end of the statement that began at brace depth `depth`; always makes progress or stands at an end. */
static void parser_skip_statement(struct parser *p, unsigned depth)
{
        while (p->tok.kind != TOK_EOF) {
                bool level = p->depth <= depth;
                if (level && (p->tok.kind == TOK_NEWLINE || p->tok.kind == TOK_SEMICOLON || p->tok.kind == TOK_CLOSE))
                        return;
                parser_next(p);
        }
}

static bool parse_macro_definition(struct parser *p)
{
        struct token name = p->tok;
        struct token *tokens = NULL;
        size_t count = 0, cap = 0;
        unsigned depth = p->depth;
        struct macro *m;

        if (!name_ok(name.text, true))
                return parser_fail(p, name.at, "a macro's name is made of letters, digits and `_`");
        if (parser_macro(p, name.text))
                return parser_fail(p, name.at, "the macro `%s` is there already", esc(name.text));
        parser_next(p);
        parser_next(p);
        while (!(p->depth == depth && parser_at_end(p))) {
                struct token *t;
                if (p->tok.kind == TOK_BAD || p->tok.kind == TOK_EOF)
                        return parser_expected(p, "`}`");
                t = parser_push(p, &tokens, &count, &cap, sizeof(*tokens), RULES_MACRO_TOKENS, "words in a macro");
                if (!t)
                        return false;
                *t = p->tok;
                parser_next(p);
        }
        if (count == 0)
                return parser_expected(p, "the macro's value");
        m = parser_push(p, &p->macros, &p->macro_count, &p->macro_cap, sizeof(*m), RULES_MACROS_MAX, "macros");
        if (m)
                *m = (struct macro){ name.text, tokens, count };
        return m != NULL;
}

static bool parse_statement(struct parser *p, const struct keyword_table *t, void *obj)
{
        const struct keyword *k;
        uint32_t at = p->tok.at;

        if (t == &keywords_top && p->tok.kind == TOK_WORD && parser_peek(p)->kind == TOK_EQUALS)
                return parse_macro_definition(p);
        k = parser_keyword(p, t);
        if (!k)
                return false;
        if (!k->parse(p, obj, k))
                return false;
        if (!parser_at_end(p))
                return parser_expected(p, "the end of the statement");
        /* The shape was right; the word is not ours yet. */
        return k->instead ? parser_not_yet(p, at, k) : true;
}

bool parse_statements(struct parser *p, const struct keyword_table *t, void *obj, bool braces)
{
        unsigned depth;
        bool ok = true;
        uint32_t open_at = p->tok.at;

        if (braces && !parser_take(p, TOK_OPEN, "`{`"))
                return false;
        if (p->depth > RULES_BLOCK_DEPTH)
                return parser_fail(p, p->tok.at, "braces are nested too deeply");
        depth = p->depth;
        for (;;) {
                while (p->tok.kind == TOK_NEWLINE || p->tok.kind == TOK_SEMICOLON)
                        parser_next(p);
                if (p->tok.kind == TOK_EOF && braces) {
                        parser_fail(p, open_at, "this `{` is never closed");
                        p->gave_up = true; /* the braces around it are open too: no news */
                        return false;
                }
                if (p->tok.kind == TOK_EOF)
                        return ok;
                if (p->tok.kind == TOK_CLOSE) {
                        if (!braces)
                                ok = parser_fail(p, p->tok.at, "this `}` closes nothing");
                        parser_next(p);
                        if (braces)
                                return true; /* what failed inside was reported; go on behind the block */
                        continue;
                }
                if (!parse_statement(p, t, obj)) {
                        ok = false;
                        parser_skip_statement(p, depth);
                }
        }
}

/* ---- words --------------------------------------------------------------------------------------------------------------------- */

bool parse_number(struct slice word, uint64_t max, uint64_t *out)
{
        uint64_t v = 0;

        if (word.n == 0 || (word.n > 1 && word.p[0] == '0'))
                return false;
        for (size_t i = 0; i < word.n; i++) {
                uint8_t digit = (uint8_t)(word.p[i] - '0');
                if (digit > 9 || v > (max - digit) / 10)
                        return false;
                v = v * 10 + digit;
        }
        *out = v;
        return true;
}

/* Digits and K, M, G or T (binary). */
bool parse_size(struct slice word, uint64_t *out)
{
        static const char units[] = "KMGT";
        const char *unit;
        unsigned shift = 0;
        uint64_t v;

        if (word.n > 1 && (unit = memchr(units, word.p[word.n - 1], sizeof(units) - 1)) != NULL) {
                shift = 10u * (unsigned)(unit - units + 1);
                word.n--;
        }
        if (!parse_number(word, (uint64_t)INT64_MAX >> shift, &v))
                return false;
        *out = v << shift;
        return true;
}

/* Identifiers: letters, digits, `_`, no digit in front. Names: lower case, digits, `-`, `_`, no mark in front. */
bool name_ok(struct slice name, bool identifier)
{
        if (name.n == 0 || name.n > RULES_NAME_BYTES)
                return false;
        for (size_t i = 0; i < name.n; i++) {
                uint8_t c = name.p[i];
                bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
                if (identifier ? !(lower || upper || c == '_' || (digit && i)) : !(lower || digit || (i && (c == '-' || c == '_'))))
                        return false;
        }
        return true;
}

int program_parse(struct program *prog, enum parse_mode mode, const struct config_loader *loader, size_t first_source, struct diags *errors)
{
        size_t before = errors->total, last = prog->source_count; /* includes add sources behind */
        struct parser p = { .prog = prog, .errors = errors, .loader = loader, .mode = mode };

        for (size_t i = first_source; i < last; i++) {
                p.lexer = (struct lexer){ .text = prog->sources[i].text, .base = prog->sources[i].base };
                p.source = (uint16_t)i;
                p.has_ahead = false;
                p.depth = 0;
                p.tok = (struct token){ TOK_EOF, prog->sources[i].base, SLICE_EMPTY };
                parser_next(&p);
                if (mode == PARSE_RULES)
                        parse_statements(&p, &keywords_rules, &prog->rules, false);
                else
                        parse_statements(&p, &keywords_top, NULL, false);
        }
        check_ruleset(prog, &prog->rules, errors);
        for (size_t i = 0; i < prog->workspace_count; i++)
                check_ruleset(prog, &prog->workspaces[i].rules, errors);
        check_accounts(prog, mode, errors);
        return errors->total == before ? 0 : -1;
}
