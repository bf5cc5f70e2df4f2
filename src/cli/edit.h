/* A text in the person's editor: a private copy, the editor, the difference, a question. Whoever edits decides what becomes of the text. */
#ifndef BROME_CLI_EDIT_H
#define BROME_CLI_EDIT_H

#include "base/slice.h"

/* A private file with the text, below TMPDIR; its path in out. 0 or -1. */
int edit_spill(char *out, size_t size, const char *what, struct slice text) __attribute__((warn_unused_result));
/* Opens it in VISUAL, EDITOR or vi and waits. 0; -1: there is no such editor, or it failed. */
int edit_open(const char *path) __attribute__((warn_unused_result));
/* Prints how the files differ. False: they do not. */
bool edit_show_difference(const char *before, const char *after);

enum edit_answer { EDIT_YES, EDIT_NO, EDIT_AGAIN };
/* One line of standard input: y, e, or anything else for no. */
enum edit_answer edit_confirm(const char *question);

#endif
