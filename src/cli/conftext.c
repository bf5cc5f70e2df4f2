/* The text of a configuration: see conftext.h. */
#include "cli/conftext.h"

#include <string.h>

int conftext_append(struct slice text, struct slice block, struct buf *out)
{
        buf_add_slice(out, text);
        if (text.n && text.p[text.n - 1] != '\n')
                buf_add_str(out, "\n");
        if (text.n)
                buf_add_str(out, "\n");
        return buf_add_slice(out, block);
}

static bool ends_word(uint8_t c) { return c <= ' ' || strchr("{}\"#;,=<>$\\", c) != NULL; }

/* The next thing of the language from *i on: a word, a string (with its quotes) or one character. Comments and blanks are passed over; line breaks are things.
 * Empty at the end. */
static struct slice next_thing(struct slice t, size_t *i)
{
        size_t at;

        for (; *i < t.n; (*i)++) {
                if (t.p[*i] == '#')
                        while (*i + 1 < t.n && t.p[*i + 1] != '\n')
                                (*i)++;
                else if (t.p[*i] == '\\' && *i + 1 < t.n && t.p[*i + 1] == '\n')
                        (*i)++;
                else if (t.p[*i] != ' ' && t.p[*i] != '\t' && t.p[*i] != '\r')
                        break;
        }
        at = *i;
        if (at >= t.n)
                return SLICE_EMPTY;
        if (t.p[at] == '"') {
                for ((*i)++; *i < t.n && t.p[*i] != '"' && t.p[*i] != '\n'; (*i)++)
                        if (t.p[*i] == '\\')
                                (*i)++;
                *i = *i < t.n ? *i + 1 : t.n;
        } else if (ends_word(t.p[at])) {
                (*i)++;
        } else {
                while (*i < t.n && !ends_word(t.p[*i]))
                        (*i)++;
        }
        return slice_of(t.p + at, *i - at);
}

/* Behind the brace that closes the one before *i. */
static bool skip_block(struct slice t, size_t *i)
{
        struct slice s;

        for (int depth = 1; depth > 0;) {
                s = next_thing(t, i);
                if (s.n == 0)
                        return false;
                depth += slice_is(s, "{") ? 1 : slice_is(s, "}") ? -1 : 0;
        }
        return true;
}

/* Whole lines when nothing else stands on them. */
static void take_lines(struct slice t, size_t *at, size_t *end)
{
        size_t a = *at, b = *end;

        while (a && (t.p[a - 1] == ' ' || t.p[a - 1] == '\t'))
                a--;
        while (b < t.n && (t.p[b] == ' ' || t.p[b] == '\t' || t.p[b] == ';' || t.p[b] == '\r'))
                b++;
        if ((a && t.p[a - 1] != '\n') || (b < t.n && t.p[b] != '\n'))
                return;
        *at = a;
        *end = b < t.n ? b + 1 : b;
        /* One of two empty lines around it goes too. */
        if (*at >= 2 && t.p[*at - 1] == '\n' && t.p[*at - 2] == '\n' && (*end == t.n || t.p[*end] == '\n'))
                (*at)--;
}

bool conftext_find(struct slice t, const char *word, const char *name, size_t *at, size_t *n)
{
        size_t i = 0;

        for (;;) {
                struct slice first = next_thing(t, &i), s;
                size_t begin = first.n ? (size_t)(first.p - t.p) : 0, end;

                if (first.n == 0)
                        return false;
                if (slice_is(first, "{") && !skip_block(t, &i))
                        return false;
                if (!slice_is(first, word))
                        continue;
                end = i;
                s = next_thing(t, &end);
                if (!slice_is(s, name))
                        continue;
                s = next_thing(t, &end);
                if (!slice_is(s, "{") || !skip_block(t, &end))
                        continue;
                take_lines(t, &begin, &end);
                *at = begin;
                *n = end - begin;
                return true;
        }
}
