/* Logging: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *log_program = "brome", *log_workspace;
static bool log_debugging;

void log_init(const char *program, const char *workspace)
{
        log_program = program;
        log_workspace = workspace;
        log_debugging = getenv("BROME_DEBUG") != NULL;
}

__attribute__((format(printf, 1, 0))) static void log_line(const char *fmt, va_list ap)
{
        char line[1024];
        size_t at = 0;
        int n;

        n = snprintf(line, sizeof(line), "%s%s%s%s: ", log_program, log_workspace ? "[" : "", log_workspace ? log_workspace : "",
                     log_workspace ? "]" : "");
        at = n < 0 ? 0 : (size_t)n;
        n = vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);
        if (n > 0)
                at = (size_t)n < sizeof(line) - at - 1 ? at + (size_t)n : sizeof(line) - 2;
        line[at++] = '\n';
        /* One write, so that lines of several processes do not mix. A log that cannot be written must not stop the gate. */
        if (write(STDERR_FILENO, line, at) < 0)
                return;
}

#define LOG_BODY                                                                                                                \
        va_list ap;                                                                                                             \
        va_start(ap, fmt);                                                                                                      \
        log_line(fmt, ap);                                                                                                      \
        va_end(ap)

void log_error(const char *fmt, ...) { LOG_BODY; }
void log_info(const char *fmt, ...) { LOG_BODY; }
void log_debug(const char *fmt, ...)
{
        if (log_debugging) {
                LOG_BODY;
        }
}

_Noreturn void log_panic(const char *file, int line, const char *what)
{
        log_error("impossible: %s (%s:%d)", what, file, line);
        abort();
}
