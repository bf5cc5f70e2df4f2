/* One line for a person: what went wrong and the way out. Filled where the failure is found, printed once where it is handled. */
#ifndef BROME_BASE_ERR_H
#define BROME_BASE_ERR_H

struct err {
        char text[512];
};

#define ERR_INIT { .text = "" }

/* Formats the message; always returns -1 so that `return err_set(...)` reads well. `err` may be NULL. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, followed by ": " and strerror(errno_value). */
int err_sys(struct err *err, int errno_value, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
