/* A control group of bromed's own, from systemd.
 *
 * On a host where version 2 alone is mounted, groups belong to systemd, and limits hold only below a group that it has given away. So bromed
 * is started in a transient scope with Delegate=yes: by the user's own systemd, or as root by the system's. Without one it is started plainly,
 * and brome-launch takes what can be had. */
#ifndef BROME_CONTROL_SCOPE_H
#define BROME_CONTROL_SCOPE_H

#include <stdbool.h>

/* Does a systemd that would do it answer (the user's by XDG_RUNTIME_DIR)? */
bool scope_offered(void);
/* Becomes `program`, with argv, in a scope called brome-PID. Returns only when there is no systemd-run; it may also end without running the
 * program. Descriptors that are not close-on-exec are kept. */
void scope_exec(const char *program, const char *const *argv);

#endif
