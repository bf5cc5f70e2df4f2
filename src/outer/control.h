/* The channel to bromed: start, policy, ready, questions and their answers (docs/CONTROL.md). */
#ifndef BROME_OUTER_CONTROL_H
#define BROME_OUTER_CONTROL_H

#include "outer/outer.h"
#include <jansson.h>

enum { CONTROL_FD = 3, CONTROL_START_MS = 10 * 1000 /* bromed sends `start` at once */ };

struct start {
        char workspace[128], account[128];
        char *proxy, *no_proxy; /* SECURITY: the URL may hold a password; wiped and freed by control_start_fini */
        int events_fd, link_fd, secret_fd; /* the last for an account only */
};

/* Waits for `start`. 0 or -1 with the reason. */
int control_start(struct start *out, struct err *err) __attribute__((warn_unused_result));
void control_start_fini(struct start *s);
/* Takes the reference. What bromed does not take at once waits; when too much does, the process ends. */
void control_say(struct control *c, json_t *body);
/* Serves the channel in the loop; ends the loop when bromed is gone or says what it must not. */
int control_run(struct outer *o) __attribute__((warn_unused_result));

#endif
