/* Overrides: what makes an origin read another method or path than the request shows. One table of names, for header fields and for query keys,
 * read by the codecs (field roles) and by the rules (read-only, methods, paths): two tables would differ, and what differs is found.
 *
 * Names are folded before they are compared, in the ways frameworks fold them: no case; '-' and '_' are alike, since CGI cannot tell them apart; of a
 * query key also the decoded form, blanks in front dropped, ' ', '.' and '[' as '_' (PHP), and what stands before a '[' or a NUL.
 * Pure. It must never be narrower than a framework that people run; a harmless name refused costs one line of the rules. */
#ifndef BROME_BASE_OVERRIDE_H
#define BROME_BASE_OVERRIDE_H

#include "base/slice.h"

enum { OVERRIDE_NAME_BYTES = 22 }; /* the longest name of the table */
enum override_place { OVERRIDE_QUERY = 1, OVERRIDE_FIELD = 2 };

struct override_row {
        const char *name; /* folded: lower case, '_' for '-' */
        unsigned places;
};
extern const struct override_row override_rows[];
extern const size_t override_row_count;

/* A header field's name, in any case. */
bool override_field(struct slice name);
/* A query as sent or canonical, without '?'; '&' and ';' both separate. A key with a malformed escape counts: who knows what the origin makes of it. */
bool override_query(struct slice query);

#endif
