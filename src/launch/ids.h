/* Who we are, and who the guest's root is.
 *
 * Ordinary user: an own user namespace in which we are root (one id mapped, no helper program), and nested in it the guest's, whose root is the
 * same user again. Started by root: the guest's ids are an unused range of 65,536 that never maps to 0; each workspace has its own range,
 * kept in its state folder, so that two workspaces never share an owner either.
 * The guest's user namespace is made by a helper that ends at once; only its descriptor lives on, and the guest enters it as the last step
 * of its set-up. So it owns neither its mounts nor its network: a capability in it moves nothing there. */
#ifndef BROME_LAUNCH_IDS_H
#define BROME_LAUNCH_IDS_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        IDS_RANGE = 65536,       /* what distributions expect of a system: nobody is 65534 */
        IDS_SLOTS = 4096,        /* 0x70000000 … 0x7fffffff: above every range that useradd or systemd hands out, below INT_MAX */
};
#define IDS_FIRST 0x70000000u

struct ids {
        bool root;      /* started by real root */
        uid_t outer_uid;
        gid_t outer_gid;
        uint32_t base;  /* the guest's id 0 as this process sees it: 0 in the user's own namespace, else the range's start */
        uint32_t count; /* ids mapped */
        int userns;     /* the guest's user namespace */
};

/* Enters the user's own namespace unless we are root. Nothing may have been opened that depends on the namespace. */
int ids_enter(struct ids *ids, struct err *err) __attribute__((warn_unused_result));
/* Finds the range of the workspace whose folder is `state`; a new one is taken under a lock and written there. */
int ids_range(struct ids *ids, const char *state, struct err *err) __attribute__((warn_unused_result));
/* Makes the guest's user namespace; without `nested` no further one can be made in it. */
int ids_guest(struct ids *ids, bool nested, struct err *err) __attribute__((warn_unused_result));
/* A user namespace to show files with: on-disk owner `uid`, `gid` appears as the guest's root. The caller closes it. Root only. */
int ids_owner_map(const struct ids *ids, uid_t uid, gid_t gid, struct err *err) __attribute__((warn_unused_result));

#endif
