/* The command line: a table of commands (commands.tbl), one file a command, results on standard output, everything else on standard error.
 * A command returns its exit code; it prints its own error with cli_fail and never exits by itself. */
#ifndef BROME_CLI_CLI_H
#define BROME_CLI_CLI_H

#include "base/buf.h"
#include "base/err.h"
#include "base/paths.h"
#include "base/slice.h"

/* Exit codes (brome(1) lists them). `run`, `exec` and `shell` pass the command's own code through, 128 + N for signal N. */
enum {
        EXIT_OK = 0,
        EXIT_NO = 1,         /* the answer is no: refused by the rules, findings, nothing there */
        EXIT_USAGE_ = 64,    /* the command line is wrong */
        EXIT_CONFIG_ = 65,   /* the configuration or the rules are wrong */
        EXIT_HOST = 69,      /* this machine lacks something; see brome doctor */
        EXIT_INTERNAL = 70,
        EXIT_DAEMON = 75,    /* the supervisor cannot be reached or refused */
        EXIT_TRIPPED = 123,  /* run, without a terminal: the tripwire stopped the command */
        EXIT_BROME = 125,    /* run, exec, shell: brome itself failed before the command ran */
        EXIT_CANNOT_RUN = 126,
        EXIT_NOT_FOUND = 127,
};

struct cli {
        struct paths paths;
        const char *config_override; /* --config FILE */
        bool json;                   /* --json was given before or after the command: see cli_json_on */
        const struct cli_row *command;
};

/* A row of commands.tbl: a command, or an option of the command above it. */
struct cli_row {
        const char *name; /* "trace ls"; of an option, its name without dashes */
        int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's last word; NULL: an option */
        const char *takes;   /* operands; of an option, its argument ("" none, "RULE…" again and again) */
        const char *text;    /* a sentence without its full stop */
        const char *example; /* of a command, without `brome` */
        char letter;         /* of an option, or 0 */
};

/* Errors. For a person "brome: text; hint"; with --json one object {"error":text,"hint":hint or null}, on standard error both ways. A hint says
 * what to do next. Foreign text in them went through esc(). All return `code`. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_fail_hint(int code, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Printable lines that say where, then the text (NULL: the lines say it all). With --json the lines are the member "diagnostics". */
int cli_fail_lines(int code, struct slice lines, const char *text);
void cli_note_lines(struct slice lines);
/* "brome trace ls: text" and the usage line; returns EXIT_USAGE_. */
int cli_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What is no error: "brome: text", with --json {"note":text}. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on listings and errors are JSON. */
void cli_json_on(struct cli *cli);
/* Writes the buffer to standard output and clears it. 0, or -1 when the reader went away. */
int cli_flush(struct buf *out);
bool cli_colour(void); /* standard output is a terminal and NO_COLOR is unset */

/* Where an option's argument goes; its letter, argument and text are in commands.tbl. One that has no row for this command is not offered. */
struct cli_option {
        const char *name; /* without dashes */
        const char **text;             /* where the value goes; NULL: see many and flag */
        bool *flag;
        const char **many; size_t *many_count, many_max; /* may be given again and again */
};
/* Parses options wherever they stand (argv is reordered, operands last); returns the index of the first operand in argv, -1 after printing
 * the usage error, -2 after printing the help. */
int cli_options(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count);
/* The same, but stops at the first operand or after "--": what follows belongs to somebody else. */
int cli_options_before(struct cli *cli, int argc, char **argv, const struct cli_option *options, size_t count);
/* "2h", "30m", "1d", "45s" or RFC 3339 → microseconds since 1970. */
int cli_since(const char *text, int64_t *out_us, struct err *err) __attribute__((warn_unused_result));
/* Workspace names: [a-z0-9][a-z0-9_-]{0,62}. */
bool cli_name_ok(const char *name);

/* The commands themselves. */
#define COMMAND(words, fn, operands, sentence, sample) int fn(struct cli *cli, int argc, char **argv);
#define OPTION(word, ch, argument, sentence)
#include "cli/commands.tbl"
#undef COMMAND
#undef OPTION

#endif
