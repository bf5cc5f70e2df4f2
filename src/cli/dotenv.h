/* A .env file: NAME=VALUE lines as shells and the dotenv libraries read them. Pure; values are decoded in place, so they borrow from the text.
 *
 *   [export] NAME = bare value # comment      blanks around it go; a # behind a blank begins a comment
 *   NAME='as it stands'                       no escapes; may go over lines
 *   NAME="with \n \t \\ \" \$ escapes"        may go over lines
 * Nothing is ever expanded or executed: a value with $NAME or $(…) in it is taken as it stands. */
#ifndef BROME_CLI_DOTENV_H
#define BROME_CLI_DOTENV_H

#include "base/slice.h"

struct dotenv {
        uint8_t *p;   /* the text; changed as it is read */
        size_t at, n;
        unsigned line; /* of the last answer, from 1 */
};
enum dotenv_status { DOTENV_END, DOTENV_VARIABLE, DOTENV_BROKEN };
/* The next variable. DOTENV_BROKEN: that line is none, *name is what was wrong; reading goes on behind it. */
enum dotenv_status dotenv_next(struct dotenv *d, struct slice *name, struct slice *value);

#endif
