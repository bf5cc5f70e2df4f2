/* What bromed may still do once it serves: its table of system calls and paths, each with its reason. */
#ifndef BROME_DAEMON_SEALING_H
#define BROME_DAEMON_SEALING_H

#include "base/err.h"
#include "daemon/daemon.h"

/* After everything was opened and before the first client: no capability, only brome's own folders and those that the configuration reads,
 * only the listed calls. -1 with the reason. A kernel without Landlock is no error: it is logged. */
int sealing_apply(const struct daemon *d, struct err *err) __attribute__((warn_unused_result));

#endif
