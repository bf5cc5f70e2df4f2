/* QEMU's root folder, built by its first process as rootfs.h builds the namespace kind's: the host's /usr, read-only, a handful of devices, the image's
 * files, the workspace's two disks, and the shares. Nothing else of the host is in it, and what a QEMU that was taken over finds is what its guest
 * was given anyway.
 *
 * Before that, in the launcher: which image, and the disks over it. A workspace keeps the image that it was made from; STATE/workspaces/NAME/vm/image says which. */
#ifndef BROME_LAUNCH_VMROOT_H
#define BROME_LAUNCH_VMROOT_H

#include "base/err.h"
#include "launch/ids.h"
#include "launch/plan.h"
#include "launch/shares.h"
#include <jansson.h>
#include <stdbool.h>

enum { VMROOT_SHARES = SETUP_SHARES }; /* shares, tools, and the folders that hold private git configurations */
_Static_assert(PLAN_SHARES + PLAN_TOOLS <= (int)VMROOT_SHARES, "room for every share");

struct vmroot {
        const struct ids *ids;
        const struct plan *plan;
        const struct shares *shares;
        char image[PATH_MAX];  /* folder, without links */
        const char *qemu;      /* program */
        bool kvm;
};

/* In the launcher, as who started us: finds the image and QEMU. Appends to warnings, an array, what is slower or weaker here than it could be. */
int vmroot_judge(struct vmroot *r, json_t *warnings, struct err *err) __attribute__((warn_unused_result));
/* In the launcher: makes the disks that are missing. */
int vmroot_prepare(const struct vmroot *r, struct err *err) __attribute__((warn_unused_result));
/* In QEMU's process (own mount, pid namespaces): builds it and goes in. arg: struct vmroot. */
int vmroot_enter(const void *arg, struct err *err) __attribute__((warn_unused_result));

/* Where things lie inside. */
#define VMROOT_IMAGE "/image"
#define VMROOT_DISK "/disk"
#define VMROOT_SHARED "/shares" /* a share lies at this and its own path */

#endif
