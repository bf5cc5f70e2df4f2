/* A reader of git's configuration syntax (git-config(1), "Syntax"), with the place of each entry in the text. Pure. */
#ifndef BROME_SHARE_GITCONF_H
#define BROME_SHARE_GITCONF_H

#include "base/slice.h"

enum { GITCONF_NAME_BYTES = 128, GITCONF_SUB_BYTES = 1024, GITCONF_VALUE_BYTES = 8192 };

struct gitconf_entry {
        struct slice section;    /* lower case */
        struct slice subsection; /* as meant, escapes resolved; lower case when written [a.b] */
        bool has_subsection;
        struct slice key;        /* lower case; empty for the section header itself */
        struct slice value;      /* as meant; a key without "=" has an empty one and no_value */
        bool no_value;
        size_t start, end;       /* of the entry (header) in the text: from after what precedes it to after its newline */
};
/* Headers come as entries with an empty key. Everything is borrowed for the call. The callback returns 0 to go on.
 * 0; -1: not a configuration; -2: the callback stopped. */
typedef int gitconf_fn(void *arg, const struct gitconf_entry *e);
int gitconf_read(struct slice text, gitconf_fn *fn, void *arg) __attribute__((warn_unused_result));

#endif
