/* Where this process stands in the trees of control groups (cgroups(7)). */
#ifndef BROME_BASE_CGPATH_H
#define BROME_BASE_CGPATH_H

#include <limits.h>
#include <stdbool.h>

/* Where the version 2 tree is mounted ("/sys/fs/cgroup", or below it on a hybrid host); NULL when there is none. */
const char *cgpath_v2(void);
/* Our own path in the hierarchy of `controller` ("" is version 2), from /proc/self/cgroup. */
bool cgpath_own(const char *controller, char out[PATH_MAX]);

#endif
