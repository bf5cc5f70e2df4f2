/* The guest's file system, built by the guest's first process before it enters the guest's user namespace.
 *
 * Everything is mounted with the launcher's privileges on a fresh tmpfs, then becomes the root; the old root is gone. As the mount namespace
 * belongs to the launcher's user namespace, no capability of the guest moves a mount, and no inode of the host's /usr is shared:
 * each system folder is an overlay of the workspace's own. */
#ifndef BROME_LAUNCH_ROOTFS_H
#define BROME_LAUNCH_ROOTFS_H

#include "base/err.h"
#include "launch/etc.h"
#include "launch/ids.h"
#include "launch/plan.h"
#include "launch/shares.h"
#include <stdbool.h>

struct rootfs {
        const struct ids *ids;
        const struct plan *plan;
        const struct shares *shares;
        const struct etc *etc;
        bool without_opt; /* see rootfs_holds_mounts: the guest's /opt is then empty */
};

/* Is something mounted below that folder of the host? Then an ordinary user cannot lay a layer over it: the kernel does not let a user namespace
 * look behind a mount that it did not make. */
bool rootfs_holds_mounts(const char *folder);

/* In the launcher, before the guest's process: the folders in the workspace's state that the layers need. */
int rootfs_prepare(const struct rootfs *r, struct err *err) __attribute__((warn_unused_result));
/* In the guest's process (own mount, pid namespaces): builds, enters and forgets the old root. arg: struct rootfs. */
int rootfs_enter(const void *arg, struct err *err) __attribute__((warn_unused_result));

#endif
