/* The user's terminal while an exec holds it: raw mode and its way back, on every path out of the process that a program can take. */
#ifndef BROME_ATTACH_TERM_H
#define BROME_ATTACH_TERM_H

#include <stdbool.h>

/* Remembers the modes of the terminal on descriptor 0 and makes it raw. From the background the kernel stops us here until we are in front, as any
 * program that sets modes. 0, or -1 with errno. Also restores from fatal signals and at exit. */
int term_raw(void);
/* Back to the remembered modes. `flush`: drop what has been typed and not read. Safe when it is not raw; async-signal-safe. */
void term_restore(bool flush);
/* Drops input that arrives within quiet_ms of the last: answers of the terminal that are still under way. Raw mode only. */
void term_drain(int quiet_ms, int at_most_ms);

#endif
