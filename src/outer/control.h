/* The channel to bromed: start, policy, ready (docs/CONTROL.md). */
#ifndef BROME_OUTER_CONTROL_H
#define BROME_OUTER_CONTROL_H

#include "outer/outer.h"

enum { CONTROL_FD = 3, CONTROL_START_MS = 10 * 1000 /* bromed sends `start` at once */ };

struct start {
        char workspace[128], account[128];
        char *proxy, *no_proxy; /* SECURITY: the URL may hold a password; wiped and freed by control_start_fini */
        int events_fd, link_fd;
};

/* Waits for `start`. 0 or -1 with the reason. */
int control_start(struct start *out, struct err *err) __attribute__((warn_unused_result));
void control_start_fini(struct start *s);
/* Serves the channel in the loop; ends the loop when bromed is gone or says what it must not. */
int control_run(struct outer *o) __attribute__((warn_unused_result));

#endif
