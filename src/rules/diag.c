/* Diagnostics as text: see diag.h. Everything in a struct diag is printable already; this only lays it out. */
#include "rules/diag.h"

#include <stdio.h>

static void diag_print(const struct diag *d, struct buf *out)
{
        if (d->line)
                buf_addf(out, "%s:%u:%u: ", d->file, d->line, d->column);
        else if (d->file[0])
                buf_addf(out, "%s: ", d->file);
        buf_addf(out, "%s\n", d->message);
        if (d->line)
                buf_addf(out, "    %s\n    %*s^\n", d->source, (int)d->caret, "");
}

void diags_print(const struct diags *d, struct buf *out)
{
        for (size_t i = 0; i < d->count; i++)
                diag_print(&d->list[i], out);
        if (d->total > d->count)
                buf_addf(out, "… and %zu more\n", d->total - d->count);
}

void diags_first(const struct diags *d, char *out, size_t size)
{
        const struct diag *f = &d->list[0];

        if (d->count == 0)
                snprintf(out, size, "%s", "");
        else if (f->line)
                snprintf(out, size, "%s:%u:%u: %s", f->file, f->line, f->column, f->message);
        else
                snprintf(out, size, "%s%s%s", f->file, f->file[0] ? ": " : "", f->message);
}
