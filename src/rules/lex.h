/* Lexer of the configuration language. One token at a time out of one text; positions are 32-bit offsets in the space of all sources of a
 * parse (source.base + offset), so that one number finds file, line and column again. Never reads past the text, keeps no state but its place. */
#ifndef BROME_RULES_LEX_H
#define BROME_RULES_LEX_H

#include "base/arena.h"
#include "base/slice.h"

enum token_kind {
        TOK_EOF,
        TOK_NEWLINE,
        TOK_WORD,
        TOK_STRING, /* text is decoded */
        TOK_MACRO,  /* $name; text is the name */
        TOK_OPEN,
        TOK_CLOSE,
        TOK_COMMA,
        TOK_SEMICOLON,
        TOK_EQUALS,
        TOK_LESS,
        TOK_GREATER,
        TOK_BAD, /* lexer.problem says why; already reported when the parser sees it */
};

struct token {
        enum token_kind kind;
        uint32_t at;
        struct slice text; /* borrows from the source, or from the arena for strings with escapes */
};

struct lexer {
        struct slice text;
        size_t pos;
        uint32_t base;
        const char *problem; /* set with TOK_BAD; the token's `at` is where */
};

/* The next token; strings with escapes are decoded into the arena. After TOK_BAD lexing goes on behind the problem. */
struct token lex_next(struct lexer *lx, struct arena *arena);
/* For messages: what a token is called, "`word`" or "end of line". Writes to out, printable. */
const char *token_name(char *out, size_t size, const struct token *t);

#endif
