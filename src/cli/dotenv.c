/* A .env file: see dotenv.h. */
#include "cli/dotenv.h"

#include <string.h>

static uint8_t peek(const struct dotenv *d) { return d->at < d->n ? d->p[d->at] : '\n'; }
static bool blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

static void skip_blanks(struct dotenv *d)
{
        while (d->at < d->n && blank(d->p[d->at]))
                d->at++;
}

static void skip_line(struct dotenv *d)
{
        while (d->at < d->n && d->p[d->at] != '\n')
                d->at++;
}

static bool name_char(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static struct slice take_name(struct dotenv *d)
{
        size_t from = d->at;

        while (d->at < d->n && name_char(d->p[d->at]))
                d->at++;
        return slice_of(d->p + from, d->at - from);
}

static struct slice bare(struct dotenv *d)
{
        size_t from = d->at, end;

        while (d->at < d->n && d->p[d->at] != '\n' && !(d->p[d->at] == '#' && (d->at == from || blank(d->p[d->at - 1]))))
                d->at++;
        for (end = d->at; end > from && blank(d->p[end - 1]);)
                end--;
        skip_line(d);
        return slice_of(d->p + from, end - from);
}

static uint8_t escaped(uint8_t c) { return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c; }

/* Behind the opening quote. False: it is never closed. */
static bool quoted(struct dotenv *d, uint8_t quote, struct slice *value, unsigned *lines)
{
        size_t from = d->at, to = d->at, i = d->at;

        for (; i < d->n && d->p[i] != quote; i++) {
                uint8_t c = d->p[i];

                *lines += c == '\n';
                if (c == '\\' && quote == '"' && i + 1 < d->n && strchr("nrt\\\"$`", d->p[i + 1]))
                        c = escaped(d->p[++i]);
                d->p[to++] = c;
        }
        if (i == d->n)
                return false;
        d->at = i + 1;
        *value = slice_of(d->p + from, to - from);
        return true;
}

static enum dotenv_status broken(struct dotenv *d, struct slice *name, const char *why)
{
        skip_line(d);
        *name = slice_str(why);
        return DOTENV_BROKEN;
}

static enum dotenv_status take_value(struct dotenv *d, struct slice *name, struct slice *value, unsigned *lines)
{
        uint8_t c;
        size_t begin;

        skip_blanks(d);
        if (peek(d) != '=')
                return broken(d, name, "there is no = behind the name");
        d->at++;
        skip_blanks(d);
        c = peek(d);
        if (c != '"' && c != '\'') {
                *value = bare(d);
                return DOTENV_VARIABLE;
        }
        begin = d->at++;
        if (!quoted(d, c, value, lines)) {
                d->at = begin;
                *lines = 0;
                return broken(d, name, "the quote is never closed");
        }
        skip_blanks(d);
        if (peek(d) != '\n' && peek(d) != '#')
                return broken(d, name, "something stands behind the closing quote");
        skip_line(d);
        return DOTENV_VARIABLE;
}

enum dotenv_status dotenv_next(struct dotenv *d, struct slice *name, struct slice *value)
{
        while (d->at < d->n) {
                enum dotenv_status status;
                unsigned lines = 0;

                d->line++;
                skip_blanks(d);
                if (peek(d) == '\n' || peek(d) == '#') {
                        skip_line(d);
                        d->at += d->at < d->n;
                        continue;
                }
                *name = take_name(d);
                if (slice_is(*name, "export") && blank(peek(d))) {
                        skip_blanks(d);
                        *name = take_name(d);
                }
                status = name->n ? take_value(d, name, value, &lines) : broken(d, name, "this is no NAME=VALUE");
                d->at += d->at < d->n; /* the end of the line */
                d->line += lines;
                return status;
        }
        return DOTENV_END;
}
