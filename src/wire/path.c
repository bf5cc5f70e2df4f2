/* Canonical path and query: see path.h. Most targets hold nothing but plain characters and are only checked, not copied. */
#include "wire/path.h"

#include "wire/wire_priv.h"

/* UTF-8, a byte at a time (RFC 3629 §4). */
struct utf8 {
        uint8_t need, low, high; /* continuation bytes to come; range of the next */
};

static bool utf8_step(struct utf8 *u, uint8_t c)
{
        if (u->need) {
                if (c < u->low || c > u->high)
                        return false;
                u->need--;
                u->low = 0x80;
                u->high = 0xbf;
                return true;
        }
        if (c < 0x80)
                return true;
        if (c < 0xc2 || c > 0xf4)
                return false;
        u->need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        u->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        u->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        return true;
}

bool utf8_ok(struct slice s)
{
        struct utf8 u = { 0 };

        for (size_t i = 0; i < s.n; i++)
                if (!utf8_step(&u, s.p[i]))
                        return false;
        return u.need == 0;
}

static size_t put_escape(uint8_t *out, uint8_t c)
{
        static const char digits[] = "0123456789ABCDEF";

        out[0] = '%';
        out[1] = (uint8_t)digits[c >> 4];
        out[2] = (uint8_t)digits[c & 15];
        return 3;
}

/* The byte at s.p[*i], decoded when it is an escape; *i moves behind it. -1: malformed escape. */
static int next_byte(struct slice s, size_t *i, bool *escaped)
{
        uint8_t c = s.p[*i];

        *escaped = c == '%';
        if (!*escaped) {
                *i += 1;
                return c;
        }
        if (s.n - *i < 3 || !ch_is(s.p[*i + 1], CH_HEX) || !ch_is(s.p[*i + 2], CH_HEX))
                return -1;
        c = (uint8_t)(hex_value(s.p[*i + 1]) << 4 | hex_value(s.p[*i + 2]));
        *i += 3;
        return c;
}

/* What is never accepted in a path, raw or encoded. */
static enum wire_reason path_byte_check(uint8_t c, bool escaped)
{
        if (ch_is(c, CH_CONTROL) || (c == ' ' && !escaped))
                return WIRE_PATH_CONTROL;
        if (c == '\\')
                return WIRE_PATH_BACKSLASH;
        if (c == ';')
                return WIRE_PATH_PARAM;
        if (c == '#' && !escaped)
                return WIRE_PATH_FRAGMENT;
        return WIRE_OK;
}

/* Writes the canonical path to out (room for three times raw). */
static enum wire_reason path_rewrite(struct slice raw, uint8_t *out, size_t *n)
{
        struct utf8 u = { 0 };
        size_t i = 0, o = 0;

        while (i < raw.n) {
                bool escaped;
                int v = next_byte(raw, &i, &escaped);
                enum wire_reason why;

                if (v < 0)
                        return WIRE_PATH_ESCAPE;
                uint8_t c = (uint8_t)v;
                why = path_byte_check(c, escaped);
                if (why != WIRE_OK)
                        return why;
                if (!utf8_step(&u, c))
                        return WIRE_PATH_UTF8;
                if (ch_is(c, CH_PATH) && !(escaped && (c == '/' || c == '+')))
                        out[o++] = c;
                else
                        o += put_escape(out + o, c);
        }
        *n = o;
        return u.need ? WIRE_PATH_UTF8 : WIRE_OK;
}

static bool is_escape_of(struct slice s, size_t i, char high, char low)
{
        return s.n - i >= 3 && s.p[i] == '%' && s.p[i + 1] == (uint8_t)high && s.p[i + 2] == (uint8_t)low;
}

/* Dots and blanks alone: some file systems drop trailing blanks and further dots, so that ".. " and "..." go up too. */
static bool path_piece_is_dots(struct slice piece)
{
        size_t i = 0, dots = 0;

        while (i < piece.n) {
                bool blank = is_escape_of(piece, i, '2', '0');

                if (!blank && piece.p[i] != '.')
                        return false;
                dots += !blank;
                i += blank ? 3 : 1;
        }
        return dots > 0;
}

/* The bytes before an encoded or plain slash. */
static enum wire_reason path_piece_check(struct slice piece)
{
        if (piece.n == 0)
                return WIRE_PATH_EMPTY;
        return path_piece_is_dots(piece) ? WIRE_PATH_DOT : WIRE_OK;
}

/* Dot and empty segments, with %2F as a separator too: some origins decode it before they split. path is canonical and begins with "/". */
static enum wire_reason path_segments(struct slice path, bool *encoded_slash)
{
        size_t start = 1, i = 1;
        enum wire_reason why;
        bool last_plain = true;

        *encoded_slash = false;
        while (i < path.n) {
                bool plain = path.p[i] == '/';

                if (!plain && !is_escape_of(path, i, '2', 'F')) {
                        i++;
                        continue;
                }
                why = path_piece_check(slice_of(path.p + start, i - start));
                if (why != WIRE_OK)
                        return why;
                *encoded_slash = *encoded_slash || !plain;
                last_plain = plain;
                i += plain ? 1 : 3;
                start = i;
        }
        if (start == path.n && last_plain)
                return WIRE_OK; /* trailing slash */
        return path_piece_check(slice_of(path.p + start, path.n - start));
}

static bool path_double_escaped(struct slice path)
{
        for (size_t i = 0; i + 5 <= path.n; i++)
                if (is_escape_of(path, i, '2', '5') && ch_is(path.p[i + 3], CH_HEX) && ch_is(path.p[i + 4], CH_HEX))
                        return true;
        return false;
}

static enum wire_reason path_slashed(struct arena *a, struct slice path, struct slice *out)
{
        uint8_t *p = arena_alloc(a, path.n);
        size_t n = 0;

        if (!p)
                return WIRE_MEMORY;
        for (size_t i = 0; i < path.n;) {
                bool slash = is_escape_of(path, i, '2', 'F');

                p[n++] = slash ? '/' : path.p[i];
                i += slash ? 3 : 1;
        }
        *out = slice_of(p, n);
        return WIRE_OK;
}

static enum wire_reason path_part(struct arena *a, struct slice raw, struct path *out)
{
        enum wire_reason why;
        bool encoded_slash;
        size_t n = 0;

        while (n < raw.n && ch_is(raw.p[n], CH_PATH))
                n++;
        if (n == raw.n) {
                out->path = raw;
        } else {
                uint8_t *p = arena_alloc_array(a, raw.n, 3);

                if (!p)
                        return WIRE_MEMORY;
                why = path_rewrite(raw, p, &n);
                if (why != WIRE_OK)
                        return why;
                out->path = slice_of(p, n);
                out->changed = !slice_eq(out->path, raw);
                if (path_double_escaped(out->path))
                        return WIRE_PATH_DOUBLE;
        }
        why = path_segments(out->path, &encoded_slash);
        return why == WIRE_OK && encoded_slash ? path_slashed(a, out->path, &out->slashed) : why;
}

static enum wire_reason query_part(struct arena *a, struct slice raw, struct path *out)
{
        size_t i = 0, n = 0;
        uint8_t *p;

        while (i < raw.n && ch_is(raw.p[i], CH_QUERY))
                i++;
        out->query = raw;
        if (i == raw.n)
                return WIRE_OK;
        p = arena_alloc_array(a, raw.n, 3);
        if (!p)
                return WIRE_MEMORY;
        for (i = 0; i < raw.n;) {
                bool escaped;
                int v = next_byte(raw, &i, &escaped);

                if (v < 0)
                        return WIRE_PATH_ESCAPE;
                uint8_t c = (uint8_t)v;

                if (!escaped && (c == '#' || c == ' ' || ch_is(c, CH_CONTROL)))
                        return c == '#' ? WIRE_PATH_FRAGMENT : WIRE_PATH_CONTROL;
                if (ch_is(c, CH_UNRESERVED) || (!escaped && ch_is(c, CH_QUERY)))
                        p[n++] = c;
                else
                        n += put_escape(p + n, c);
        }
        out->query = slice_of(p, n);
        out->changed = out->changed || !slice_eq(out->query, raw);
        return WIRE_OK;
}

enum wire_reason path_canonical(struct arena *a, struct slice raw, struct path *out)
{
        ptrdiff_t mark = slice_find(raw, '?');
        struct path result = { .has_query = mark >= 0 };
        enum wire_reason why;

        if (raw.n == 0 || raw.p[0] != '/')
                return WIRE_PATH_FORM;
        why = path_part(a, mark < 0 ? raw : slice_first(raw, (size_t)mark), &result);
        if (why == WIRE_OK && mark >= 0)
                why = query_part(a, slice_skip(raw, (size_t)mark + 1), &result);
        if (why == WIRE_OK)
                *out = result;
        return why;
}

bool query_next(struct slice *rest, struct slice *key, struct slice *value)
{
        size_t n = 0, eq;

        if (rest->n == 0)
                return false;
        while (n < rest->n && rest->p[n] != '&' && rest->p[n] != ';')
                n++;
        for (eq = 0; eq < n && rest->p[eq] != '=';)
                eq++;
        *key = slice_first(*rest, eq);
        *value = eq < n ? slice_of(rest->p + eq + 1, n - eq - 1) : SLICE_EMPTY;
        *rest = slice_skip(*rest, n < rest->n ? n + 1 : n);
        return true;
}

size_t query_decode(uint8_t *out, struct slice s)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n;) {
                bool escaped;
                int v = next_byte(s, &i, &escaped);

                if (v < 0) /* not canonical: as it stands */
                        v = s.p[i++];
                out[n++] = !escaped && v == '+' ? ' ' : (uint8_t)v;
        }
        return n;
}
