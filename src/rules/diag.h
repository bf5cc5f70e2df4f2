/* What the parser, the checker and the linter have to say: file:line:column, a sentence, the source line and a caret. */
#ifndef BROME_RULES_DIAG_H
#define BROME_RULES_DIAG_H

#include "base/buf.h"
#include "base/slice.h"
#include "rules/limits.h"

struct diag {
        char file[256]; /* as named by the caller or the include, escaped; empty when there is no place */
        uint32_t line;  /* from 1; 0: no place */
        uint32_t column; /* from 1, in characters */
        char message[384];
        char source[256]; /* the source line, made printable; a long one is cut around the column */
        uint32_t caret;   /* offset of the caret in `source`, in characters */
};

/* Plain data, nothing to free. `total` counts also what did not fit. */
struct diags {
        size_t count, total;
        struct diag list[RULES_ERRORS_MAX];
};

/* "file:line:column: message\n    source\n    ^\n", one after the other, and "… and N more" at the end. Printable text only. */
void diags_print(const struct diags *d, struct buf *out);
/* The first message as one line, for an err or a log; "" when there is none. */
void diags_first(const struct diags *d, char *out, size_t size);

#endif
