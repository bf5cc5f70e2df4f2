/* Names that ask for another method or path: see override.h. */
#include "base/override.h"

#define BOTH (OVERRIDE_QUERY | OVERRIDE_FIELD)
const struct override_row override_rows[] = {
        { "x_http_method_override", BOTH },
        { "x_http_method", BOTH },
        { "x_method_override", BOTH },
        { "x_method", BOTH },
        { "http_method_override", BOTH },
        { "x_original_method", OVERRIDE_FIELD },
        { "x_rewrite_method", OVERRIDE_FIELD },
        { "x_original_url", OVERRIDE_FIELD }, /* another path, not another method */
        { "x_rewrite_url", OVERRIDE_FIELD },
        { "_method", OVERRIDE_QUERY },
        { "__method", OVERRIDE_QUERY },
        { "_http_method", OVERRIDE_QUERY },
        { "_httpmethod", OVERRIDE_QUERY },
        { "httpmethod", OVERRIDE_QUERY },
        { "$httpmethod", OVERRIDE_QUERY },
};
const size_t override_row_count = sizeof(override_rows) / sizeof(override_rows[0]);

static bool listed(struct slice folded, unsigned place)
{
        for (size_t i = 0; i < override_row_count; i++)
                if ((override_rows[i].places & place) && slice_is(folded, override_rows[i].name))
                        return true;
        return false;
}

bool override_field(struct slice name)
{
        uint8_t folded[OVERRIDE_NAME_BYTES];

        if (name.n == 0 || name.n > sizeof(folded) || !strchr("xXhH", name.p[0])) /* nearly all end here; a NUL passes and finds nothing */
                return false;
        for (size_t i = 0; i < name.n; i++)
                folded[i] = name.p[i] == '-' ? '_' : ascii_lower(name.p[i]);
        return listed(slice_of(folded, name.n), OVERRIDE_FIELD);
}

/* ---- query ------------------------------------------------------------------------------------------------------------------------- */

static int hex_digit(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at s.p[*i], decoded; *i moves behind it. -1: malformed escape. */
static int next_byte(struct slice s, size_t *i)
{
        int hi, lo;

        if (s.p[*i] != '%') {
                *i += 1;
                return s.p[*i - 1] == '+' ? ' ' : s.p[*i - 1];
        }
        if (s.n - *i < 3)
                return -1;
        hi = hex_digit(s.p[*i + 1]);
        lo = hex_digit(s.p[*i + 2]);
        *i += 3;
        return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

static uint8_t fold_key_byte(int c) { return strchr("-. [", c) ? '_' : ascii_lower((uint8_t)c); }

/* The whole key is looked at even when it is too long for the table, for the sake of its escapes. */
static bool key_overrides(struct slice key)
{
        uint8_t folded[OVERRIDE_NAME_BYTES];
        size_t n = 0, i = 0;
        bool front = true, found = false, over = false, cut = false;

        while (i < key.n) {
                int c = next_byte(key, &i);

                if (c < 0)
                        return true;
                if (front && c == ' ')
                        continue;
                front = false;
                if ((c == '[' || c == 0) && !over && !cut)
                        found = found || listed(slice_of(folded, n), OVERRIDE_QUERY);
                cut = cut || c == 0;
                over = over || n == sizeof(folded);
                if (!over && !cut)
                        folded[n++] = fold_key_byte(c);
        }
        return found || (!over && !cut && listed(slice_of(folded, n), OVERRIDE_QUERY));
}

bool override_query(struct slice query)
{
        while (query.n) {
                size_t end = 0, eq = 0;

                while (end < query.n && query.p[end] != '&' && query.p[end] != ';')
                        end++;
                while (eq < end && query.p[eq] != '=')
                        eq++;
                if (key_overrides(slice_first(query, eq)))
                        return true;
                query = slice_skip(query, end + 1);
        }
        return false;
}
