/* The command table: find a command, print its help, say what somebody probably meant. */
#ifndef BROME_CLI_TABLE_H
#define BROME_CLI_TABLE_H

#include "cli/cli.h"
#include <stdio.h>

/* Every row in the order of commands.tbl; the last one has no name. */
extern const struct cli_row cli_rows[];

/* Is the row a command (and not an option, nor the end)? */
static inline bool row_is_command(const struct cli_row *r) { return r->run != NULL; }
/* The row after the command's last option. */
const struct cli_row *row_next_command(const struct cli_row *command);
/* May the option be given again and again? */
bool row_repeats(const struct cli_row *option);

/* The command that argv begins with, and how many words its name takes (1 or 2). NULL: none. */
const struct cli_row *table_find(int argc, char *const *argv, int *words);
/* Is it the first word of commands of two words? */
bool table_is_group(const char *word);

void table_print_all(FILE *to);
void table_print_group(FILE *to, const char *word);
void table_print_command(const struct cli_row *command);
/* "brome trace ls [OPTION …] [WORKSPACE]" */
void table_usage(const struct cli_row *command, char *out, size_t size);

/* What was probably meant, as it would be typed ("" when nothing is near): a command for these words, an option of a command. */
void table_near_command(int argc, char *const *argv, char *out, size_t size);
void table_near_option(const struct cli_row *command, const char *typed, char *out, size_t size);

#endif
