/* Output, options and small parsers of the command line: see cli.h. */
#include "cli/cli.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CLI_OPTIONS = 24 };

static void __attribute__((format(printf, 2, 0))) vsay(const char *who, const char *fmt, va_list ap)
{
        fprintf(stderr, "brome%s%s: ", who ? " " : "", who ? who : "");
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
}

int cli_fail(int code, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vsay(NULL, fmt, ap);
        va_end(ap);
        return code;
}

void cli_note(const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vsay(NULL, fmt, ap);
        va_end(ap);
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        vsay(cli->command->name, fmt, ap);
        va_end(ap);
        fprintf(stderr, "usage: brome %s %s\n", cli->command->name, cli->command->usage);
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

static int take_option(struct cli *cli, const struct cli_option *o, const char *value)
{
        if (o->flag)
                *o->flag = true;
        else if (o->text)
                *o->text = value;
        else if (*o->many_count < o->many_max)
                o->many[(*o->many_count)++] = value;
        else {
                cli_usage(cli, "--%s may be given at most %zu times", o->name, o->many_max);
                return -1;
        }
        return 0;
}

static int parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count, bool before)
{
        struct option list[CLI_OPTIONS + 3] = { { "json", no_argument, NULL, 1000 }, { "help", no_argument, NULL, 'h' } };
        char letters[2 * CLI_OPTIONS + 4] = "+h", *set = before ? letters : letters + 1;
        size_t at = 2;
        int c;

        for (size_t i = 0; i < count; i++) {
                list[i + 2] = (struct option){ options[i].name, options[i].value ? required_argument : no_argument, NULL, 1001 + (int)i };
                if (options[i].letter) {
                        letters[at++] = options[i].letter;
                        if (options[i].value)
                                letters[at++] = ':';
                }
        }
        letters[at] = 0;
        argv[0] = (char *)(uintptr_t)"brome"; /* what getopt's messages begin with */
        optind = 0;                           /* starts getopt afresh */
        while ((c = getopt_long(argc, argv, set, list, NULL)) != -1) {
                size_t i = (size_t)(c - 1001);
                if (c == 1000) {
                        cli->json = true;
                        continue;
                }
                if (c == 'h') {
                        printf("usage: brome %s %s\n%s.\n", cli->command->name, cli->command->usage, cli->command->help);
                        return -2;
                }
                if (c < 1000 && c != '?')
                        for (i = 0; i < count && options[i].letter != c; i++)
                                ;
                if (c == '?' || i >= count) {
                        fprintf(stderr, "usage: brome %s %s\n", cli->command->name, cli->command->usage);
                        return -1;
                }
                if (take_option(cli, &options[i], optarg) < 0)
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
