/* The command table and what is printed from it: see table.h and commands.tbl. The idea: whatever a person is told about a command comes from its
 * rows, so that it cannot differ from what the parser takes. Pure but for printing; it never runs a command. */
#include "cli/table.h"

#include <string.h>

enum {
        NEAR_WORD_BYTES = 32, /* longer words are not compared: no command or option is that long */
        NEAR_EDITS = 2,       /* two slips of the finger */
        OPTION_COLUMN = 28,   /* where the text of an option begins */
};

const struct cli_row cli_rows[] = {
#define COMMAND(words, fn, operands, sentence, sample) { .name = words, .run = fn, .takes = operands, .text = sentence, .example = sample },
#define OPTION(word, ch, argument, sentence) { .name = word, .letter = ch, .takes = argument, .text = sentence },
#include "cli/commands.tbl"
#undef COMMAND
#undef OPTION
        { 0 },
};

/* ---- finding ---- */

static const struct cli_row *next(const struct cli_row *r)
{
        do
                r++;
        while (r->name && !row_is_command(r));
        return r;
}

const struct cli_row *row_next_command(const struct cli_row *command) { return next(command); }

bool row_repeats(const struct cli_row *option) { return strstr(option->takes, "…") != NULL; }

static size_t first_word(const struct cli_row *r) { return strcspn(r->name, " "); }
static bool begins_with(const struct cli_row *r, const char *word)
{
        return strlen(word) == first_word(r) && strncmp(r->name, word, first_word(r)) == 0;
}
static const char *second_word(const struct cli_row *r) { return r->name[first_word(r)] ? r->name + first_word(r) + 1 : NULL; }

const struct cli_row *table_find(int argc, char *const *argv, int *words)
{
        for (const struct cli_row *r = cli_rows; argc > 0 && r->name; r = next(r)) {
                const char *second = second_word(r);
                if (!begins_with(r, argv[0]) || (second && (argc < 2 || strcmp(second, argv[1]) != 0)))
                        continue;
                *words = second ? 2 : 1;
                return r;
        }
        return NULL;
}

bool table_is_group(const char *word)
{
        for (const struct cli_row *r = cli_rows; r->name; r = next(r))
                if (second_word(r) && begins_with(r, word))
                        return true;
        return false;
}

/* ---- help ---- */

void table_usage(const struct cli_row *command, char *out, size_t size)
{
        bool options = (command + 1)->name && !row_is_command(command + 1);

        snprintf(out, size, "brome %s%s%s%s", command->name, options ? " [OPTION …]" : "", *command->takes ? " " : "", command->takes);
}

static void print_row(FILE *to, const struct cli_row *r)
{
        fprintf(to, "  %-20s %s\n", r->name, r->text);
}

void table_print_all(FILE *to)
{
        fputs("brome runs a coding agent in a workspace that has nothing to log in with.\n\n"
              "usage: brome [--config FILE] [--json] COMMAND …\n\n", to);
        for (const struct cli_row *r = cli_rows; r->name; r = next(r))
                print_row(to, r);
        fputs("\nFirst steps: `brome demo` tells the whole story; `brome COMMAND --help` shows a command's options; brome(1) is the reference.\n", to);
}

void table_print_group(FILE *to, const char *word)
{
        fprintf(to, "usage: brome %s COMMAND …\n\n", word);
        for (const struct cli_row *r = cli_rows; r->name; r = next(r))
                if (begins_with(r, word))
                        print_row(to, r);
        fprintf(to, "\n`brome %s COMMAND --help` shows a command's options.\n", word);
}

/* Columns that the text takes: bytes that do not continue a character. */
static int columns(const char *s)
{
        int n = 0;

        for (; *s; s++)
                n += (*s & 0xc0) != 0x80;
        return n;
}

static void print_option(char letter, const char *name, const char *takes, const char *text)
{
        char left[128], dash[8] = "    ";
        int width = (int)strcspn(takes, "…");

        if (letter)
                snprintf(dash, sizeof(dash), "-%c, ", letter);
        snprintf(left, sizeof(left), "%s--%s%s%.*s", dash, name, *takes ? " " : "", width, takes);
        if (columns(left) >= OPTION_COLUMN)
                printf("  %s\n  %*s", left, OPTION_COLUMN, "");
        else
                printf("  %s%*s", left, OPTION_COLUMN - columns(left), "");
        printf("%s%s\n", text, takes[width] ? " (again and again)" : "");
}

void table_print_command(const struct cli_row *command)
{
        char usage[256];

        table_usage(command, usage, sizeof(usage));
        printf("usage: %s\n\n%s.\n\n", usage, command->text);
        for (const struct cli_row *o = command + 1; o < next(command); o++)
                print_option(o->letter, o->name, o->takes, o->text);
        print_option(0, "json", "", "print listings as one JSON object a line, errors as one object");
        print_option('h', "help", "", "print this");
        printf("\nexample:\n  brome %s\n\nExit status: brome(1) lists the codes; 64 is a wrong command line.\n", command->example);
}

/* ---- what was meant ---- */

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/* Edits (a letter more, less, other, two swapped) from a to b, at most NEAR_EDITS + 1: optimal string alignment. */
static unsigned distance(const char *a, const char *b)
{
        unsigned d[NEAR_WORD_BYTES + 1][NEAR_WORD_BYTES + 1];
        size_t n = strlen(a), m = strlen(b);

        if (n > NEAR_WORD_BYTES || m > NEAR_WORD_BYTES)
                return NEAR_EDITS + 1;
        for (size_t i = 0; i <= n; i++)
                for (size_t j = 0; j <= m; j++) {
                        if (!i || !j) {
                                d[i][j] = (unsigned)(i + j);
                                continue;
                        }
                        d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
                }
        return d[n][m];
}

/* 0: the same; more: farther; NEAR_EDITS + 1: not near. A beginning of two letters or more is as near as one slip, and a word of
 * three letters may not differ in two. */
static unsigned nearness(const char *typed, const char *word)
{
        size_t n = strlen(typed);
        unsigned d = distance(typed, word);

        if (d == 0)
                return 0;
        if (n >= 2 && strncmp(typed, word, n) == 0)
                return 1;
        return d > NEAR_EDITS || 2 * d >= n ? NEAR_EDITS + 1 : d;
}

/* How near the typed words are to a command, and which words to offer: the whole name, or the first word when only that is near. */
static unsigned command_nearness(const struct cli_row *r, int argc, char *const *argv, bool group, size_t *offer)
{
        const char *second = second_word(r), *typed = argc > 1 ? argv[1] : "";
        char first[NEAR_WORD_BYTES];
        unsigned d;

        *offer = strlen(r->name);
        if (group)
                return begins_with(r, argv[0]) ? 2 * nearness(typed, second) : 2 * NEAR_EDITS + 2;
        if (second && strcmp(argv[0], second) == 0)
                return 0; /* `brome freeze` */
        snprintf(first, sizeof(first), "%.*s", (int)first_word(r), r->name);
        d = 2 * nearness(argv[0], first);
        if (second && strcmp(typed, second) != 0) {
                *offer = first_word(r);
                d++;
        }
        return d;
}

void table_near_command(int argc, char *const *argv, char *out, size_t size)
{
        unsigned best = 2 * NEAR_EDITS + 2;
        bool group = table_is_group(argv[0]);

        out[0] = 0;
        for (const struct cli_row *r = cli_rows; r->name; r = next(r)) {
                size_t offer;
                unsigned d = command_nearness(r, argc, argv, group, &offer);
                if (d < best) {
                        best = d;
                        snprintf(out, size, "%.*s", (int)offer, r->name);
                }
        }
}

void table_near_option(const struct cli_row *command, const char *typed, char *out, size_t size)
{
        unsigned best = NEAR_EDITS + 1;
        char word[NEAR_WORD_BYTES * 2];

        out[0] = 0;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(typed, "="), typed);
        for (const struct cli_row *o = command + 1; o < next(command); o++) {
                unsigned d = nearness(word, o->name);
                if (d < best) {
                        best = d;
                        snprintf(out, size, "--%s", o->name);
                }
        }
}
