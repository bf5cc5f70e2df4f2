/* Log lines to standard error: "<program>[<workspace>]: <text>". One failure, one line, where it is handled. Text that a guest or an
 * origin chose goes through esc() first. */
#ifndef BROME_BASE_LOG_H
#define BROME_BASE_LOG_H

#include <stdbool.h>

/* Both borrowed for the process's life; `workspace` may be NULL. Debug lines are on when BROME_DEBUG is set. */
void log_init(const char *program, const char *workspace);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For what cannot happen: logs and aborts (core dumps are off by then). */
_Noreturn void log_panic(const char *file, int line, const char *what);
#define MUST(cond) do { if (!(cond)) log_panic(__FILE__, __LINE__, #cond); } while (0)

#endif
