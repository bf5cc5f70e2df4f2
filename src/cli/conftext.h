/* The text of a configuration, as far as a command changes it: where a block stands, a block at the end. Everything else stays byte for byte. Pure.
 *
 * It knows of the language only what tells blocks apart: words, strings, comments, braces. What it makes is always parsed before it is used. */
#ifndef BROME_CLI_CONFTEXT_H
#define BROME_CLI_CONFTEXT_H

#include "base/buf.h"
#include "base/slice.h"

/* text and block, the block on lines of its own at the end. */
int conftext_append(struct slice text, struct slice block, struct buf *out) __attribute__((warn_unused_result));
/* Where the block `word name { … }` stands at the top of the text, with the rest of its lines when nothing else stands on them. False: it is not there. */
bool conftext_find(struct slice text, const char *word, const char *name, size_t *at, size_t *n);

#endif
