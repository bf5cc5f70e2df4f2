/* The guest's first process, from the clone to the exec of brome-guest: it builds its own file system with the launcher's privileges, then gives
 * them up one after the other and becomes PID 1 of the workspace. */
#ifndef BROME_LAUNCH_CHILD_H
#define BROME_LAUNCH_CHILD_H

#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/rootfs.h"
#include <jansson.h>
#include <sys/types.h>

struct child {
        pid_t pid;
        int pidfd;
        int sync;    /* its reports, our word to go on */
        int channel; /* to brome-guest */
};

/* Clones it; it enters the network namespace `netns` (borrowed) and goes on to build at once. */
int child_start(struct child *c, const struct rootfs *fs, const struct cgroup *groups, int netns, struct err *err) __attribute__((warn_unused_result));
/* Waits until it has built and sealed all but the last step. Appends to notes, an array, sentences about what it left alone. */
int child_built(const struct child *c, json_t *notes, struct err *err) __attribute__((warn_unused_result));
/* Lets it exec brome-guest, and waits until it has. */
int child_go(struct child *c, struct err *err) __attribute__((warn_unused_result));

#endif
