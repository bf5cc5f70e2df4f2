/* Paths put together: like snprintf, but what does not fit becomes the empty path, which no call opens. plan.c bounds what comes from outside. */
#ifndef BROME_LAUNCH_PLACE_H
#define BROME_LAUNCH_PLACE_H

#include <stddef.h>

void place(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
