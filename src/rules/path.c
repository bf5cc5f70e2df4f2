/* Path patterns: `*` is any run of bytes within one segment, `**` any run at all; the rest is literal, on the canonical path.
 *
 * The matcher follows all readings at once (Thompson), a bit per place in the pattern, so that no pattern and no path makes it slow: at most
 * path × pattern steps, in practice a few a byte. An encoded slash or backslash is where origins disagree about segments; see path_match. */
#include "rules/rules_priv.h"

enum { WORDS = RULES_PATH_BYTES / 64 + 1 };

static bool is_upper_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); }

static bool is_unreserved(uint8_t c) /* RFC 3986 §2.3 */
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

static uint8_t hex_value(uint8_t c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'A' + 10); }

static const char *escape_problem(struct slice p, size_t i)
{
        if (p.n - i < 3 || !is_upper_hex(p.p[i + 1]) || !is_upper_hex(p.p[i + 2]))
                return "`%` in a path pattern is followed by two hexadecimal digits, letters in upper case";
        if (is_unreserved((uint8_t)(hex_value(p.p[i + 1]) << 4 | hex_value(p.p[i + 2]))))
                return "this percent-encoding is not canonical: write the character itself";
        return NULL;
}

static const char *segments_problem(struct slice p)
{
        size_t start = 1;

        for (size_t i = 1; i <= p.n; i++) {
                struct slice seg;
                if (i < p.n && p.p[i] != '/')
                        continue;
                seg = slice_of(p.p + start, i - start);
                if (slice_is(seg, ".") || slice_is(seg, ".."))
                        return "a path pattern has no `.` and `..` segments: paths are canonical";
                if (seg.n == 0 && i < p.n)
                        return "a path pattern has no empty segments: paths are canonical";
                start = i + 1;
        }
        return NULL;
}

const char *path_pattern_problem(struct slice p)
{
        size_t stars = 0, run = 0;
        const char *problem;

        if (p.n == 0 || p.p[0] != '/')
                return "a path pattern begins with `/`";
        if (p.n > RULES_PATH_BYTES)
                return "the path pattern is too long";
        for (size_t i = 0; i < p.n; i++) {
                uint8_t c = p.p[i];
                if (c == '?' || c == '#')
                        return "a path pattern ends before `?` and `#`; for the query there is `query`";
                if (c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>')
                        return "this character does not occur in a canonical path: percent-encode it";
                if (c == '%' && (problem = escape_problem(p, i)) != NULL)
                        return problem;
                run = c == '*' ? run + 1 : 0;
                if (run == 3)
                        return "`*` is one segment, `**` any number; `***` is neither";
                if (run == 1 && ++stars > RULES_PATH_STARS)
                        return "the path pattern has too many stars";
        }
        return segments_problem(p);
}

static void state_add(uint64_t *set, struct slice pattern, size_t i)
{
        for (;;) {
                set[i / 64] |= 1ull << (i % 64);
                if (i >= pattern.n || pattern.p[i] != '*')
                        return;
                i += i + 1 < pattern.n && pattern.p[i + 1] == '*' ? 2 : 1; /* a star may match nothing */
        }
}

/* Does the byte at j begin an encoded slash or backslash? */
static bool is_hidden_slash(struct slice path, size_t j)
{
        uint8_t a, b;

        if (path.p[j] != '%' || path.n - j < 3)
                return false;
        a = path.p[j + 1];
        b = ascii_lower(path.p[j + 2]);
        return (a == '2' && b == 'f') || (a == '5' && b == 'c');
}

static void state_step(uint64_t *next, struct slice pattern, size_t i, uint8_t c, bool hidden)
{
        if (i >= pattern.n)
                return;
        if (pattern.p[i] != '*') {
                if (pattern.p[i] == c)
                        state_add(next, pattern, i + 1);
        } else if ((i + 1 < pattern.n && pattern.p[i + 1] == '*') || (c != '/' && !hidden)) {
                state_add(next, pattern, i);
        }
}

static bool path_run(struct slice pattern, struct slice path, bool sure)
{
        uint64_t a[WORDS] = { 0 }, b[WORDS] = { 0 }, *now = a, *next = b, *swap;
        size_t words = pattern.n / 64 + 1;

        state_add(now, pattern, 0);
        for (size_t j = 0; j < path.n; j++) {
                bool hidden = sure && is_hidden_slash(path, j);
                uint64_t any = 0;
                for (size_t w = 0; w < words; w++)
                        for (uint64_t bits = now[w]; bits; bits &= bits - 1)
                                state_step(next, pattern, w * 64 + (size_t)__builtin_ctzll(bits), path.p[j], hidden);
                for (size_t w = 0; w < words; w++) {
                        any |= next[w];
                        now[w] = 0;
                }
                if (!any)
                        return false;
                swap = now;
                now = next;
                next = swap;
        }
        return now[pattern.n / 64] >> (pattern.n % 64) & 1;
}

bool path_match(struct slice pattern, struct slice path, bool sure)
{
        ptrdiff_t star = slice_find(pattern, '*');
        size_t literal = star < 0 ? pattern.n : (size_t)star;

        if (path.n < literal || memcmp(pattern.p, path.p, literal) != 0)
                return false;
        if (star < 0)
                return path.n == literal;
        pattern = slice_skip(pattern, literal);
        if (slice_is(pattern, "**"))
                return true;
        return path_run(pattern, slice_skip(path, literal), sure);
}
