/* For the tests, the fuzzers and the figures of scan.c: placeholders, and what a tool makes of one. Each spelling writes to a buf. */
#ifndef BROME_SCAN_TEST_H
#define BROME_SCAN_TEST_H

#include "account/scan.h"
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

static const enum account_kind spelt_kinds[] = { ACCOUNT_BEARER, ACCOUNT_GITHUB, ACCOUNT_ANTHROPIC, ACCOUNT_MCP };
enum { SPELT_TOKENS = 4 };

/* Token i, always the same; its core starts at *core and has *core_n bytes. */
static inline void spelt_token(unsigned i, char out[PLACEHOLDER_BYTES_MAX + 1])
{
        uint8_t random[PLACEHOLDER_RANDOM_BYTES];
        uint32_t x = 2463534242u + i * 7919u;

        for (size_t k = 0; k < sizeof(random); k++) {
                x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                random[k] = (uint8_t)x;
        }
        placeholder_mint(spelt_kinds[i % SPELT_TOKENS], random, out);
}

static inline struct token_set *spelt_set(void)
{
        struct token_set *t = token_set_new();

        for (unsigned i = 0; t && i < SPELT_TOKENS; i++) {
                char token[PLACEHOLDER_BYTES_MAX + 1];
                spelt_token(i, token);
                if (token_set_add(t, slice_str(token), 10 + (int)i) < 0)
                        abort();
        }
        return t;
}

struct spelling_how {
        uint32_t which;      /* bit i % 32: is character i escaped? */
        size_t line;         /* characters in a line; 0: no lines */
        const char *between; /* the line break */
};

static inline void spell_plain(struct buf *out, struct slice in, struct spelling_how how) { (void)how, (void)buf_add_slice(out, in); }
static inline void spell_upper(struct buf *out, struct slice in, struct spelling_how how)
{
        for (size_t i = 0; i < in.n; i++)
                buf_addf(out, "%c", in.p[i] >= 'a' && in.p[i] <= 'z' && how.which >> i % 32 & 1 ? in.p[i] - 32 : in.p[i]);
}

static inline void spell_lines(struct buf *out, size_t i, struct spelling_how how)
{
        if (how.line && i && i % how.line == 0)
                buf_add_str(out, how.between);
}

static inline void spell_soft(struct buf *out, struct slice in, struct spelling_how how)
{
        for (size_t i = 0; i < in.n; i++) {
                spell_lines(out, i, how);
                buf_add(out, in.p + i, 1);
        }
}

static inline void spell_base64_with(struct buf *out, struct slice in, struct spelling_how how, const char *chars)
{
        for (size_t i = 0, made = 0; i < in.n; i += 3) {
                uint32_t v = (uint32_t)in.p[i] << 16 | (i + 1 < in.n ? (uint32_t)in.p[i + 1] << 8 : 0) | (i + 2 < in.n ? in.p[i + 2] : 0u);
                for (unsigned k = 0; k < 4; k++, made++) {
                        spell_lines(out, made, how);
                        buf_addf(out, "%c", i + k > in.n ? '=' : chars[v >> (18 - 6 * k) & 63]);
                }
        }
}
static inline void spell_base64(struct buf *out, struct slice in, struct spelling_how how)
{
        spell_base64_with(out, in, how, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
}
static inline void spell_base64url(struct buf *out, struct slice in, struct spelling_how how)
{
        spell_base64_with(out, in, how, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
}

static inline void spell_hex(struct buf *out, struct slice in, struct spelling_how how)
{
        for (size_t i = 0; i < 2 * in.n; i++) {
                unsigned digit = in.p[i / 2] >> (i % 2 ? 0 : 4) & 15;
                spell_lines(out, i, how);
                buf_addf(out, "%c", (how.which & 1 ? "0123456789ABCDEF" : "0123456789abcdef")[digit]);
        }
}

/* As debuggers print bytes: "62:72:6d", "62 72 6d", and hexdump's gap behind the eighth. */
static inline void spell_hex_apart(struct buf *out, struct slice in, struct spelling_how how)
{
        static const char *const apart[] = { " ", ":", "-", " " };

        for (size_t i = 0; i < in.n; i++)
                buf_addf(out, how.which & 1 ? "%s%s%02X" : "%s%s%02x", i ? apart[how.which >> 1 & 3] : "", how.which & 8 && i % 16 == 8 ? " " : "", in.p[i]);
}

/* As writers of Markdown and of patterns escape. */
static inline void spell_markdown(struct buf *out, struct slice in, struct spelling_how how)
{
        (void)how;
        for (size_t i = 0; i < in.n; i++)
                buf_addf(out, in.p[i] == '_' || in.p[i] == '-' ? "\\%c" : "%c", in.p[i]);
}

/* As a mail's quoted-printable, its lines long enough for the marker: lines and punctuation, and some of the rest. */
static inline void spell_mail(struct buf *out, struct slice in, struct spelling_how how)
{
        enum { COLUMNS = 24 };

        for (size_t i = 0; i < in.n; i++) {
                bool quote = in.p[i] == '_' || in.p[i] == '-' || (i > COLUMNS && how.which >> i % 32 & 1);

                if (i && i % COLUMNS == 0)
                        buf_add_str(out, how.which & 1 ? "=\r\n" : "=\n");
                buf_addf(out, quote ? "=%02X" : "%c", in.p[i]);
        }
}

/* Escapes the characters that `which` says, its hex digits in either case: `before`, two digits. */
static inline void spell_escaped(struct buf *out, struct slice in, struct spelling_how how, const char *before)
{
        for (size_t i = 0; i < in.n; i++)
                if (how.which >> i % 32 & 1)
                        buf_addf(out, how.which >> (i + 7) % 32 & 1 ? "%s%02X" : "%s%02x", before, in.p[i]);
                else
                        buf_add(out, in.p + i, 1);
}
static inline void spell_percent(struct buf *out, struct slice in, struct spelling_how how) { spell_escaped(out, in, how, "%"); }
static inline void spell_percent_twice(struct buf *out, struct slice in, struct spelling_how how) { spell_escaped(out, in, how, "%25"); }
static inline void spell_json(struct buf *out, struct slice in, struct spelling_how how) { spell_escaped(out, in, how, "\\u00"); }
static inline void spell_json_twice(struct buf *out, struct slice in, struct spelling_how how) { spell_escaped(out, in, how, "\\\\u00"); }
static inline void spell_json_percent(struct buf *out, struct slice in, struct spelling_how how) { spell_escaped(out, in, how, "%5Cu00"); }
/* The same where the encoder encoded what stands behind the escape as well: all of it, or some. */
static inline void spell_encoded_again(struct buf *out, struct slice in, struct spelling_how how, const char *before)
{
        for (size_t i = 0; i < in.n; i++) {
                char escape[16];

                if (!(how.which >> i % 32 & 1)) {
                        buf_add(out, in.p + i, 1);
                        continue;
                }
                snprintf(escape, sizeof(escape), how.which >> (i + 7) % 32 & 1 ? "%s%02X" : "%s%02x", before + 1, in.p[i]);
                buf_addf(out, "%%%02x", (uint8_t)before[0]);
                for (size_t k = 0; escape[k]; k++)
                        buf_addf(out, how.which >> (i + k) % 32 & 1 ? "%%%02X" : "%c", (uint8_t)escape[k]);
        }
}
static inline void spell_percent_of_percent(struct buf *out, struct slice in, struct spelling_how how) { spell_encoded_again(out, in, how, "%"); }
static inline void spell_percent_of_json(struct buf *out, struct slice in, struct spelling_how how) { spell_encoded_again(out, in, how, "\\u00"); }

typedef void spell_fn(struct buf *out, struct slice in, struct spelling_how how);
struct spelling_row {
        const char *name;
        spell_fn *outer, *inner; /* inner first; NULL: only the outer one */
        enum scan_view view;
};
static const struct spelling_row spelling_rows[] = {
        { "plain", spell_plain, NULL, VIEW_PLAIN },
        { "case", spell_upper, NULL, VIEW_PLAIN },
        { "quoted-printable", spell_soft, NULL, VIEW_PLAIN },
        { "percent", spell_percent, NULL, VIEW_PERCENT },
        { "percent twice", spell_percent_twice, NULL, VIEW_PERCENT },
        { "percent of percent", spell_percent_of_percent, NULL, VIEW_PERCENT },
        { "json", spell_json, NULL, VIEW_JSON },
        { "json in json", spell_json_twice, NULL, VIEW_JSON },
        { "percent of json", spell_json_percent, NULL, VIEW_MIXED },
        { "percent of json, encoded throughout", spell_percent_of_json, NULL, VIEW_MIXED },
        { "base64", spell_base64, NULL, VIEW_BASE64 },
        { "base64url", spell_base64url, NULL, VIEW_BASE64 },
        { "hex", spell_hex, NULL, VIEW_HEX },
        { "percent of base64", spell_percent, spell_base64, VIEW_MIXED },
        { "json of base64", spell_json, spell_base64, VIEW_MIXED },
        { "percent of hex", spell_percent, spell_hex, VIEW_MIXED },
        { "percent of percent of base64", spell_percent_of_percent, spell_base64, VIEW_MIXED },
        { "base64 of base64", spell_base64, spell_base64url, VIEW_MIXED },
        { "base64 of hex", spell_base64, spell_hex, VIEW_MIXED },
        { "hex of base64", spell_hex, spell_base64, VIEW_MIXED },
        { "hex of hex", spell_hex, spell_hex, VIEW_MIXED },
        { "hex, bytes apart", spell_hex_apart, NULL, VIEW_HEX },
        { "percent of hex, bytes apart", spell_percent, spell_hex_apart, VIEW_MIXED },
        { "markdown", spell_markdown, NULL, VIEW_PLAIN },
        { "json of markdown", spell_json, spell_markdown, VIEW_JSON },
        { "percent of markdown", spell_percent, spell_markdown, VIEW_PERCENT },
        { "base64 of markdown", spell_base64, spell_markdown, VIEW_BASE64 },
        { "mail", spell_mail, NULL, VIEW_PLAIN },
        { "json of mail", spell_json, spell_mail, VIEW_JSON },
        { "percent of mail", spell_percent, spell_mail, VIEW_PERCENT },
        { "base64 of mail", spell_base64, spell_mail, VIEW_BASE64 },
        { "hex of mail", spell_hex, spell_mail, VIEW_HEX },
};
enum { SPELLING_ROWS = sizeof(spelling_rows) / sizeof(spelling_rows[0]) };

/* `in` as the row spells it; lines are of the outer spelling. */
static inline void spell(const struct spelling_row *row, struct buf *out, struct slice in, struct spelling_how how)
{
        struct buf inner;
        struct spelling_how one = { .which = how.which };

        buf_init(&inner, 0);
        if (row->inner) {
                row->inner(&inner, in, one);
                in = buf_slice(&inner);
        }
        row->outer(out, in, how);
        buf_fini(&inner);
}

#endif
