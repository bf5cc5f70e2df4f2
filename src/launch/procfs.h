/* /proc of the guest: its own processes, what programs need of the kernel's, and nothing that tells of, counts for or moves the host. */
#ifndef BROME_LAUNCH_PROCFS_H
#define BROME_LAUNCH_PROCFS_H

#include "base/err.h"
#include "launch/ids.h"

/* Mounts at "proc" of the working directory, in the guest's pid namespace. */
int procfs_mount(const struct ids *ids, struct err *err) __attribute__((warn_unused_result));

#endif
