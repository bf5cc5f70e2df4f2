/* Output, options and small parsers of the command line: see cli.h. */
#include "cli/cli.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/table.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
        CLI_OPTIONS = 24,       /* of one command: more would not fit its help page */
        CLI_SAY_BYTES = 4096,   /* one message; longer ones are cut */
        OPT_JSON = 1000, OPT_HELP = 'h', OPT_FIRST = 1001,
};

/* ---- messages ---- */

/* Errors are made where no struct cli is at hand; the program has one command line. */
static bool json_errors;

void cli_json_on(struct cli *cli)
{
        cli->json = true;
        json_errors = true;
}

/* Text that is not UTF-8 (a file's name) is shown escaped. */
static json_t *json_text(const char *s)
{
        json_t *t = s ? json_string(s) : json_null();
        return t ? t : json_string(esc_str(s));
}

static void say_json(json_t *o)
{
        char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

        fprintf(stderr, "%s\n", text ? text : "{\"error\":\"no memory\",\"hint\":null}");
        free(text);
        json_decref(o);
}

/* Messages of bromed and of the libraries come whole: "what happened; what to do". NULL: this one has no second half. */
static const char *split_hint(char *text)
{
        char *at = strstr(text, "; "), *last = NULL;

        for (; at; at = strstr(at + 1, "; "))
                last = at;
        if (!last || last == text)
                return NULL;
        *last = 0;
        return last + 2;
}

static void vfail(const char *who, const char *hint, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
static void vfail(const char *who, const char *hint, const char *fmt, va_list ap)
{
        char text[CLI_SAY_BYTES];

        vsnprintf(text, sizeof(text), fmt, ap);
        if (json_errors) {
                const char *next = hint ? hint : split_hint(text);
                say_json(json_pack("{s:o, s:o}", "error", json_text(text), "hint", json_text(next)));
        } else {
                fprintf(stderr, "brome%s%s: %s%s%s\n", who ? " " : "", who ? who : "", text, hint ? "; " : "", hint ? hint : "");
        }
}

int cli_fail(int code, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vfail(NULL, NULL, fmt, ap);
        va_end(ap);
        return code;
}

int cli_fail_hint(int code, const char *hint, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vfail(NULL, hint && *hint ? hint : NULL, fmt, ap);
        va_end(ap);
        return code;
}

/* With --json one object: `kind` holds the text, or the first line where there is none. */
static void json_lines(const char *kind, struct slice lines, const char *said)
{
        char text[CLI_SAY_BYTES];
        json_t *list = json_array(), *o = json_object();
        const char *hint;

        while (lines.n) {
                ptrdiff_t nl = slice_find(lines, '\n');
                struct slice line = nl < 0 ? lines : slice_first(lines, (size_t)nl);
                json_array_append_new(list, json_stringn((const char *)line.p, line.n));
                lines = slice_skip(lines, line.n + (nl >= 0));
        }
        if (!said)
                said = json_string_value(json_array_get(list, 0));
        snprintf(text, sizeof(text), "%s", said ? said : "no reason was given");
        hint = said == json_string_value(json_array_get(list, 0)) ? NULL : split_hint(text);
        json_object_set_new(o, kind, json_text(text));
        if (strcmp(kind, "error") == 0)
                json_object_set_new(o, "hint", json_text(hint));
        json_object_set_new(o, "diagnostics", list);
        say_json(o);
}

static void say_lines(const char *kind, struct slice lines, const char *text)
{
        if (json_errors)
                json_lines(kind, lines, text);
        else if (fd_write_all(STDERR_FILENO, lines.p, lines.n) == 0 && text)
                fprintf(stderr, "brome: %s\n", text);
}

int cli_fail_lines(int code, struct slice lines, const char *text)
{
        say_lines("error", lines, text);
        return code;
}

void cli_note_lines(struct slice lines) { say_lines("note", lines, NULL); }

void cli_note(const char *fmt, ...)
{
        char text[CLI_SAY_BYTES];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (json_errors)
                say_json(json_pack("{s:o}", "note", json_text(text)));
        else
                fprintf(stderr, "brome: %s\n", text);
}

static void vusage(const struct cli *cli, const char *hint, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
static void vusage(const struct cli *cli, const char *hint, const char *fmt, va_list ap)
{
        char usage[256];

        table_usage(cli->command, usage, sizeof(usage));
        vfail(cli->command->name, hint || !json_errors ? hint : usage, fmt, ap);
        if (!json_errors)
                fprintf(stderr, "usage: %s   (`brome %s --help` tells more)\n", usage, cli->command->name);
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        vusage(cli, NULL, fmt, ap);
        va_end(ap);
        return EXIT_USAGE_;
}

int cli_flush(struct buf *out)
{
        struct slice s = buf_slice(out);
        int rc = fd_write_all(STDOUT_FILENO, s.p, s.n);

        /* Whoever reads our output may leave (head -1); a full disk is another matter. */
        if (rc < 0 && errno != EPIPE)
                exit(cli_fail(EXIT_INTERNAL, "the output could not be written: %s", strerror(errno)));
        buf_clear(out);
        return rc;
}

bool cli_colour(void)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
        return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* ---- options ---- */

struct parsing {
        const struct cli_row *rows; /* the command's options */
        const struct cli_option *bound[CLI_OPTIONS]; /* row i's */
        size_t count;
        struct option list[CLI_OPTIONS + 3];
        char letters[2 * CLI_OPTIONS + 4];
        char error[512], hint[128]; /* the first; told at the end, when it is known whether --json was given */
};

static const struct cli_option *binding(const struct cli_option *options, size_t count, const struct cli_row *row)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(options[i].name, row->name) == 0 && !options[i].flag == (*row->takes != 0) && !options[i].many == !row_repeats(row))
                        return &options[i];
        fprintf(stderr, "brome: commands.tbl and the command disagree about --%s\n", row->name);
        abort();
}

static void prepare(struct parsing *p, const struct cli_row *command, const struct cli_option *options, size_t count, bool before)
{
        size_t at = 0;

        *p = (struct parsing){ .rows = command + 1, .count = (size_t)(row_next_command(command) - command - 1) };
        if (p->count > CLI_OPTIONS)
                abort();
        /* getopt: stop at an operand, report a missing argument apart. */
        if (before)
                p->letters[at++] = '+';
        p->letters[at++] = ':';
        p->letters[at++] = OPT_HELP;
        p->list[p->count] = (struct option){ "json", no_argument, NULL, OPT_JSON };
        p->list[p->count + 1] = (struct option){ "help", no_argument, NULL, OPT_HELP };
        for (size_t i = 0; i < p->count; i++) {
                const struct cli_row *r = &p->rows[i];
                bool value = *r->takes;
                p->bound[i] = binding(options, count, r);
                p->list[i] = (struct option){ r->name, value ? required_argument : no_argument, NULL, OPT_FIRST + (int)i };
                if (r->letter) {
                        p->letters[at++] = r->letter;
                        if (value)
                                p->letters[at++] = ':';
                }
        }
}

static void __attribute__((format(printf, 2, 3))) wrong(struct parsing *p, const char *fmt, ...)
{
        va_list ap;

        if (p->error[0])
                return;
        va_start(ap, fmt);
        vsnprintf(p->error, sizeof(p->error), fmt, ap);
        va_end(ap);
}

/* c is getopt's ':' (an argument is missing) or '?'. */
static void not_understood(const struct cli *cli, struct parsing *p, int c, const char *typed)
{
        char near[64], text[160];
        const struct cli_row *row = optopt >= OPT_FIRST ? &p->rows[optopt - OPT_FIRST] : NULL;

        esc_text(text, sizeof(text), slice_str(typed));
        for (size_t i = 0; i < p->count && !row && optopt; i++)
                if (p->rows[i].letter == optopt)
                        row = &p->rows[i];
        if (c == ':' && row)
                wrong(p, "--%s needs %.*s", row->name, (int)strcspn(row->takes, "…"), row->takes);
        else if (row || optopt == OPT_JSON || (optopt == OPT_HELP && typed[1] == '-'))
                wrong(p, "`%s`: this option takes no argument", text);
        else if (optopt)
                wrong(p, "there is no option `%s`", esc((struct slice){ .p = (const uint8_t[]){ '-', (uint8_t)optopt }, .n = 2 }));
        else {
                table_near_option(cli->command, typed + 2, near, sizeof(near));
                if (!p->error[0] && *near)
                        snprintf(p->hint, sizeof(p->hint), "did you mean `%s`?", near);
                wrong(p, "there is no option `%s`", text);
        }
}

static void take_option(struct parsing *p, const struct cli_option *o, const char *value)
{
        if (o->flag)
                *o->flag = true;
        else if (o->text)
                *o->text = value;
        else if (*o->many_count < o->many_max)
                o->many[(*o->many_count)++] = value;
        else
                wrong(p, "--%s may be given at most %zu times", o->name, o->many_max);
}

static void __attribute__((format(printf, 3, 4))) usage_error(const struct cli *cli, const char *hint, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        vusage(cli, hint, fmt, ap);
        va_end(ap);
}

static int parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count, bool before)
{
        struct parsing p;
        int c;

        prepare(&p, cli->command, options, count, before);
        opterr = 0;
        optind = 0; /* starts getopt afresh */
        while ((c = getopt_long(argc, argv, p.letters, p.list, NULL)) != -1) {
                if (c == OPT_JSON) {
                        cli_json_on(cli);
                } else if (c == OPT_HELP) {
                        table_print_command(cli->command);
                        return -2;
                } else if (c == '?' || c == ':') {
                        not_understood(cli, &p, c, argv[optind - 1]);
                } else {
                        size_t i = (size_t)(c - OPT_FIRST);
                        for (i = c < OPT_FIRST ? 0 : i; c < OPT_FIRST && p.rows[i].letter != c; i++)
                                ;
                        take_option(&p, p.bound[i], optarg);
                }
        }
        if (p.error[0]) {
                usage_error(cli, *p.hint ? p.hint : NULL, "%s", p.error);
                return -1;
        }
        return optind;
}

int cli_options(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count)
{
        return parse(cli, argc, argv, options, count, false);
}

int cli_options_before(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count)
{
        return parse(cli, argc, argv, options, count, true);
}

/* ---- small parsers ---- */

int cli_since(const char *text, int64_t *out_us, struct err *err)
{
        static const struct { char unit; int64_t seconds; } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
        struct tm tm = { 0 };
        char *end;
        long n = strtol(text, &end, 10);

        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (end != text && end[0] == units[i].unit && !end[1] && n >= 0 && n < 1000000) {
                        *out_us = clock_real_us() - n * units[i].seconds * 1000000;
                        return 0;
                }
        end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        if (end && (!*end || strcmp(end, "Z") == 0)) {
                *out_us = (int64_t)timegm(&tm) * 1000000;
                return 0;
        }
        return err_set(err, "--since takes 45s, 30m, 2h, 1d or a time such as 2026-01-31T12:00:00Z");
}

bool cli_name_ok(const char *name)
{
        size_t n = strlen(name);

        if (n == 0 || n > 63 || name[0] == '-' || name[0] == '_')
                return false;
        return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n;
}
