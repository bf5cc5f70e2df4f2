/* git's configuration syntax: see gitconf.h. Stricter than git where that is safe: a NUL, a name or a value beyond its limit is an error. */
#include "share/gitconf.h"

struct reader {
        struct slice text;
        size_t at;
        struct gitconf_entry entry;
        uint8_t section[GITCONF_NAME_BYTES], sub[GITCONF_SUB_BYTES], key[GITCONF_NAME_BYTES], value[GITCONF_VALUE_BYTES];
};

static int peek(const struct reader *r) { return r->at < r->text.n ? r->text.p[r->at] : -1; }
static int take(struct reader *r) { return r->at < r->text.n ? r->text.p[r->at++] : -1; }
static bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
static bool is_alpha(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_name(int c) { return is_alpha(c) || (c >= '0' && c <= '9') || c == '-'; }

static void skip_blanks(struct reader *r)
{
        while (is_blank(peek(r)))
                r->at++;
}

static void skip_line(struct reader *r)
{
        int c;
        while ((c = take(r)) >= 0 && c != '\n')
                ;
}

static int read_quoted_sub(struct reader *r, size_t *n)
{
        int c;
        *n = 0;
        while ((c = take(r)) != '"') {
                if (c == '\\')
                        c = take(r);
                if (c <= 0 || c == '\n' || *n >= sizeof(r->sub))
                        return -1;
                r->sub[(*n)++] = (uint8_t)c;
        }
        return take(r) == ']' ? 0 : -1;
}

/* [section], [section "sub"], [section.sub] */
static int read_header(struct reader *r)
{
        size_t n = 0, sub = 0;
        bool has_sub = false;
        int c;
        while (is_name(c = take(r)) || (c == '.' && n > 0)) {
                if (c == '.' && !has_sub) {
                        has_sub = true;
                        continue;
                }
                if (has_sub ? sub >= sizeof(r->sub) : n >= sizeof(r->section))
                        return -1;
                *(has_sub ? &r->sub[sub++] : &r->section[n++]) = ascii_lower((uint8_t)c);
        }
        if (is_blank(c) && !has_sub) {
                skip_blanks(r);
                has_sub = true;
                if (take(r) != '"' || read_quoted_sub(r, &sub) < 0)
                        return -1;
        } else if (c != ']') {
                return -1;
        }
        r->entry.section = slice_of(r->section, n);
        r->entry.subsection = slice_of(r->sub, sub);
        r->entry.has_subsection = has_sub;
        return n > 0 ? 0 : -1;
}

static int escaped(int c) { return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'b' ? '\b' : c == '"' || c == '\\' ? c : -1; }

/* To the end of the line; blanks at the ends and comments outside quotes dropped. */
static int read_value(struct reader *r, size_t *n)
{
        bool quoted = false;
        size_t keep = 0; /* trailing blanks beyond it are dropped */
        int c;
        *n = 0;
        skip_blanks(r);
        while ((c = take(r)) >= 0 && c != '\n') {
                bool plain_blank = !quoted && is_blank(c);
                if (!quoted && (c == '#' || c == ';')) {
                        skip_line(r);
                        break;
                }
                if (c == '"') {
                        quoted = !quoted;
                        keep = *n;
                        continue;
                }
                if (c == '\\') {
                        c = take(r);
                        if (c == '\r' && peek(r) == '\n')
                                c = take(r);
                        if (c == '\n')
                                continue;
                        c = escaped(c);
                }
                if (c <= 0 || *n >= sizeof(r->value))
                        return -1;
                r->value[(*n)++] = (uint8_t)c;
                if (!plain_blank)
                        keep = *n;
        }
        *n = keep;
        return quoted ? -1 : 0;
}

static int read_key(struct reader *r)
{
        size_t n = 0, value = 0;
        while (is_name(peek(r)) && n < sizeof(r->key))
                r->key[n++] = ascii_lower((uint8_t)take(r));
        skip_blanks(r);
        int c = peek(r);
        r->entry.no_value = c != '=';
        if (c == '=') {
                r->at++;
                if (read_value(r, &value) < 0)
                        return -1;
        } else if (c == '\n' || c < 0 || c == '#' || c == ';') {
                skip_line(r);
        } else {
                return -1;
        }
        r->entry.key = slice_of(r->key, n);
        r->entry.value = slice_of(r->value, value);
        return 0;
}

int gitconf_read(struct slice text, gitconf_fn *fn, void *arg)
{
        struct reader r = { .text = text };
        bool in_section = false;
        if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
                r.at = 3;
        if (slice_find(text, 0) >= 0)
                return -1;
        while (r.at < text.n) {
                size_t start = r.at;
                skip_blanks(&r);
                int c = peek(&r);
                if (c == '\n' || c == '#' || c == ';' || c < 0) {
                        skip_line(&r);
                        continue;
                }
                r.entry.key = r.entry.value = SLICE_EMPTY;
                r.entry.no_value = true;
                if (c == '[') {
                        r.at++;
                        if (read_header(&r) < 0)
                                return -1;
                        size_t after = r.at;
                        skip_blanks(&r);
                        if (peek(&r) == '\n')
                                r.at++;
                        else
                                r.at = after; /* a key or a comment on the same line */
                        in_section = true;
                } else if (!is_alpha(c) || !in_section || read_key(&r) < 0) {
                        return -1;
                }
                r.entry.start = start;
                r.entry.end = r.at;
                if (fn(arg, &r.entry) != 0)
                        return -2;
        }
        return 0;
}
