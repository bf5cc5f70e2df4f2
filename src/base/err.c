/* Error lines: see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, const char *fmt, ...)
{
        va_list ap;

        if (!err)
                return -1;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
        return -1;
}

int err_sys(struct err *err, int errno_value, const char *fmt, ...)
{
        va_list ap;
        int n;

        if (!err)
                return -1;
        va_start(ap, fmt);
        n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof(err->text))
                snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", strerror(errno_value));
        return -1;
}
