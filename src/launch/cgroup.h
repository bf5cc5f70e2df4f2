/* Limits and freezing by control groups: v2 where a folder of it can be had, v1 and hybrid hierarchies, else resource limits.
 *
 * One folder per hierarchy, made by the launcher, entered by the guest's first process itself, emptied and removed by the keeper.
 * Only descriptors live on; nothing is looked up by name once the guest runs. */
#ifndef BROME_LAUNCH_CGROUP_H
#define BROME_LAUNCH_CGROUP_H

#include "base/err.h"
#include "launch/plan.h"
#include <jansson.h>
#include <stdbool.h>

enum { CGROUP_FOLDERS = 6 }; /* v2 and the v1 controllers of cgroup.c */

struct cgroup_folder {
        int parent; /* to remove it from */
        int dir;
};

struct cgroup {
        char name[128];
        struct cgroup_folder folders[CGROUP_FOLDERS];
        size_t count;
        int freeze_v2; /* cgroup.freeze; -1 */
        int freeze_v1; /* freezer.state; -1 */
        int kill;      /* cgroup.kill; -1 */
        int populated; /* cgroup.events; -1 */
        bool memory, processes, cpu; /* limits that hold */
};

/* Makes what can be had; that nothing can be had is no error. */
void cgroup_open(struct cgroup *c, const struct plan *plan);
/* In the guest's process: enters all of them, and sets the resource limits that stand in for missing ones. 0, or -1 with the reason. */
int cgroup_enter(const struct cgroup *c, const struct plan *plan, struct err *err) __attribute__((warn_unused_result));
/* For `ready`: {"memory": "cgroup"|"none", …}, with a warning for each wanted limit that does not hold. */
json_t *cgroup_describe(const struct cgroup *c, const struct plan *plan, json_t *warnings);
/* The keeper's: true when the groups can do it and did. */
bool cgroup_freeze(const struct cgroup *c, bool frozen);
bool cgroup_kill(const struct cgroup *c);
/* Removes the folders; busy ones are tried again for a moment (the kernel empties them behind the last exit). */
void cgroup_remove(struct cgroup *c);

#endif
