/* An `exec` order as a request to the guest: arguments, folder, terminal, and an environment that is built from nothing. */
#ifndef BROME_LAUNCH_EXECENV_H
#define BROME_LAUNCH_EXECENV_H

#include "base/chan.h"
#include "launch/mux.h"
#include "launch/plan.h"

/* Variables, later ones win: our own, those that make programs trust the CA, placeholders, the workspace's configured ones, the order's (TERM, LANG, TZ …).
 * tool_path: folders with the programs of the plan's tools, separated by colons; may be empty. A new object; NULL without memory. */
json_t *execenv_make(const struct plan *plan, const char *tool_path, const json_t *wanted);
/* Starts what the message asks for. 0, *client_fd is the caller's; -1 with a reason for the user. */
int execenv_exec(struct mux *m, long long id, const struct chan_msg *msg, const struct plan *plan, const char *tool_path, int *client_fd,
        struct err *err) __attribute__((warn_unused_result));

#endif
