/* Questions on the terminal that started us: a line without echo, yes or no. Whatever ends them, a signal included, the terminal's modes are put back. */
#ifndef BROME_CLI_ASK_H
#define BROME_CLI_ASK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Is there a terminal to ask on, whatever standard input is? */
bool ask_possible(void);
/* Prints prompt on the terminal and reads one line into out (size bytes, no NUL), without echo and without its end. 0, or -1 with the reason. */
int ask_hidden(const char *prompt, char *out, size_t size, size_t *n, struct err *err) __attribute__((warn_unused_result));
/* "brome: question [y/N] ": true for a yes. Without a terminal: false. */
bool ask_yes(const char *question);

#endif
