/* Paths: see place.h. */
#include "launch/place.h"

#include <stdarg.h>
#include <stdio.h>

void place(char *out, size_t size, const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(out, size, fmt, ap);
        va_end(ap);
        if (n < 0 || (size_t)n >= size)
                out[0] = 0;
}
