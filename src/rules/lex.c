/* Lexer: see lex.h. Words are maximal runs of bytes that are neither blank nor one of the marks below, so `db:5432`, `[fd00::1]:443`, `*.example.org`
 * and `10.0.0.0/8` are words each; the parser takes them apart. Only printable ASCII stands outside strings and comments, but that names may be IDN. */
#include "rules/lex.h"

#include <stdio.h>

#include "base/esc.h"
#include "rules/limits.h"

struct mark {
        char c;
        enum token_kind kind;
};

static const struct mark marks[] = { { '{', TOK_OPEN },   { '}', TOK_CLOSE }, { ',', TOK_COMMA },   { ';', TOK_SEMICOLON },
                                     { '=', TOK_EQUALS }, { '<', TOK_LESS },  { '>', TOK_GREATER }, { '\n', TOK_NEWLINE } };

static bool lex_is_word(uint8_t c)
{
        if (c <= ' ' || c == 0x7f || c == '"' || c == '#' || c == '$' || c == '\\')
                return false;
        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
                if (marks[i].c == (char)c)
                        return false;
        return true;
}

static struct token lex_bad(struct lexer *lx, size_t at, size_t resume, const char *problem)
{
        lx->problem = problem;
        lx->pos = resume;
        return (struct token){ TOK_BAD, lx->base + (uint32_t)at, SLICE_EMPTY };
}

/* Blanks, comments and backslash-newline. */
static void lex_skip(struct lexer *lx)
{
        struct slice t = lx->text;

        while (lx->pos < t.n) {
                uint8_t c = t.p[lx->pos];
                if (c == ' ' || c == '\t' || (c == '\r' && lx->pos + 1 < t.n && t.p[lx->pos + 1] == '\n')) {
                        lx->pos++;
                } else if (c == '\\' && lx->pos + 1 < t.n && t.p[lx->pos + 1] == '\n') {
                        lx->pos += 2;
                } else if (c == '#') {
                        ptrdiff_t nl = slice_find(slice_skip(t, lx->pos), '\n');
                        lx->pos = nl < 0 ? t.n : lx->pos + (size_t)nl;
                } else {
                        return;
                }
        }
}

static size_t lex_line_end(const struct lexer *lx, size_t from)
{
        ptrdiff_t nl = slice_find(slice_skip(lx->text, from), '\n');
        return nl < 0 ? lx->text.n : from + (size_t)nl;
}

static struct token lex_unescape(struct lexer *lx, struct arena *arena, struct token t, size_t end)
{
        uint8_t *out = arena_alloc(arena, t.text.n + 1);
        size_t n = 0;

        if (!out)
                return lex_bad(lx, t.at - lx->base, end, "out of memory");
        for (size_t i = 0; i < t.text.n; i++) {
                if (t.text.p[i] == '\\')
                        i++;
                out[n++] = t.text.p[i];
        }
        t.text = slice_of(out, n);
        return t;
}

/* Length of the well-formed UTF-8 sequence at the front of s (RFC 3629: shortest form, no surrogates), 0 when there is none. */
static size_t utf8_length(struct slice s)
{
        uint8_t c = s.p[0];
        size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;

        if (n == 0 || s.n < n)
                return 0;
        for (size_t i = 1; i < n; i++)
                if ((s.p[i] & 0xc0) != 0x80)
                        return 0;
        if ((c == 0xe0 && s.p[1] < 0xa0) || (c == 0xed && s.p[1] > 0x9f) || (c == 0xf0 && s.p[1] < 0x90) || (c == 0xf4 && s.p[1] > 0x8f))
                return 0;
        return n;
}

static struct token lex_string(struct lexer *lx, struct arena *arena)
{
        size_t start = lx->pos, i = start + 1;
        struct slice t = lx->text;
        bool escapes = false;
        struct token tok;

        for (; i < t.n && t.p[i] != '"'; i++) {
                if (t.p[i] == '\n')
                        break;
                size_t n = utf8_length(slice_skip(t, i));
                if (t.p[i] < ' ' || t.p[i] == 0x7f)
                        return lex_bad(lx, i, lex_line_end(lx, i), "a control character in a string");
                if (n == 0)
                        return lex_bad(lx, i, lex_line_end(lx, i), "this is not UTF-8");
                if (t.p[i] != '\\') {
                        i += n - 1;
                        continue;
                }
                if (i + 1 >= t.n || (t.p[i + 1] != '"' && t.p[i + 1] != '\\'))
                        return lex_bad(lx, i, lex_line_end(lx, i), "only \\\" and \\\\ are escapes in a string");
                escapes = true;
                i++;
        }
        if (i >= t.n || t.p[i] != '"')
                return lex_bad(lx, start, i < t.n ? i : t.n, "this string has no closing quote on its line");
        if (i - start - 1 > RULES_STRING_BYTES)
                return lex_bad(lx, start, i + 1, "this string is too long");
        lx->pos = i + 1;
        tok = (struct token){ TOK_STRING, lx->base + (uint32_t)start, slice_of(t.p + start + 1, i - start - 1) };
        return escapes ? lex_unescape(lx, arena, tok, i + 1) : tok;
}

static struct token lex_word(struct lexer *lx)
{
        size_t start = lx->pos, i = start;

        while (i < lx->text.n && lex_is_word(lx->text.p[i]))
                i++;
        if (i == start)
                return lex_bad(lx, start, start + 1, "this character has no meaning here");
        if (i - start > RULES_WORD_BYTES)
                return lex_bad(lx, start, i, "this word is too long");
        lx->pos = i;
        return (struct token){ TOK_WORD, lx->base + (uint32_t)start, slice_of(lx->text.p + start, i - start) };
}

static bool lex_is_name(uint8_t c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct token lex_macro(struct lexer *lx)
{
        size_t start = lx->pos, i = start + 1;

        while (i < lx->text.n && lex_is_name(lx->text.p[i]))
                i++;
        if (i == start + 1 || i - start > RULES_NAME_BYTES)
                return lex_bad(lx, start, i, "`$` is followed by the name of a macro");
        lx->pos = i;
        return (struct token){ TOK_MACRO, lx->base + (uint32_t)start, slice_of(lx->text.p + start + 1, i - start - 1) };
}

struct token lex_next(struct lexer *lx, struct arena *arena)
{
        uint32_t at;
        uint8_t c;

        lex_skip(lx);
        at = lx->base + (uint32_t)lx->pos;
        if (lx->pos >= lx->text.n)
                return (struct token){ TOK_EOF, at, SLICE_EMPTY };
        c = lx->text.p[lx->pos];
        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
                if (marks[i].c != (char)c)
                        continue;
                lx->pos++;
                return (struct token){ marks[i].kind, at, slice_of(lx->text.p + lx->pos - 1, 1) };
        }
        if (c == '"')
                return lex_string(lx, arena);
        return c == '$' ? lex_macro(lx) : lex_word(lx);
}

const char *token_name(char *out, size_t size, const struct token *t)
{
        switch (t->kind) {
        case TOK_EOF:
                snprintf(out, size, "the end of the file");
                break;
        case TOK_NEWLINE:
                snprintf(out, size, "the end of the line");
                break;
        case TOK_STRING:
                snprintf(out, size, "the string \"%s\"", esc(slice_first(t->text, 64)));
                break;
        case TOK_MACRO:
                snprintf(out, size, "`$%s`", esc(t->text));
                break;
        case TOK_WORD:
        case TOK_OPEN:
        case TOK_CLOSE:
        case TOK_COMMA:
        case TOK_SEMICOLON:
        case TOK_EQUALS:
        case TOK_LESS:
        case TOK_GREATER:
        case TOK_BAD:
                snprintf(out, size, "`%s`", esc(slice_first(t->text, 64)));
                break;
        }
        return out;
}
