/* A machine's file systems: the kernel's own, disks by serial number, shares by 9p, the change of root, and the way back at the end.
 *
 * The system disk is the guest's: in every earlier session it could put links and files where something is to be mounted. Nothing is followed there, so that
 * what is mounted lies where it was told; what stands in the way ends the start with a sentence. */
#ifndef BROME_GUEST_VM_DISK_H
#define BROME_GUEST_VM_DISK_H

#include "base/err.h"
#include "vm/setup.h"

enum {
        VM_DISK_WAIT_MS = 5000, /* for a device to show: drivers look for theirs behind the call that loads them */
        VM_DISK_POLL_MS = 1,
        VM_DISK_MOUNTS = 1024,  /* taken off at the end; programs of the guest may have made some */
};

/* All return 0, or -1 with the reason. */
int vm_disk_begin(struct err *err) __attribute__((warn_unused_result)); /* proc, sys, dev */
/* Onto the system disk, if there is one, with what is mounted already; then the rest of the kernel's file systems. */
int vm_disk_root(const struct setup *setup, struct err *err) __attribute__((warn_unused_result));
int vm_disk_home(const struct setup *setup, struct err *err) __attribute__((warn_unused_result));
int vm_disk_shares(const struct setup *setup, struct err *err) __attribute__((warn_unused_result));
void vm_disk_end(void); /* everything written, everything unmounted that can be */

/* A folder for a mount beneath the folder `root`: made where it is missing, no link followed. path: absolute, plain. */
int vm_disk_point(const char *root, const char *path, struct err *err) __attribute__((warn_unused_result));

#endif
