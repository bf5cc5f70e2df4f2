/* A new, empty qcow2 layer over a raw disk, as `qemu-img create` makes one: four clusters, and a file that grows with what is written.
 * The format is QEMU's docs/interop/qcow2.txt, version 3. Pure: bytes out, no I/O. */
#ifndef BROME_VM_QCOW2_H
#define BROME_VM_QCOW2_H

#include "base/buf.h"
#include <stdint.h>

enum {
        QCOW2_CLUSTER_BITS = 16,            /* 64 KiB, QEMU's default */
        QCOW2_NAME_BYTES = 1023,            /* the format's limit */
};
#define QCOW2_DISK_BYTES (4ULL << 40) /* what one cluster of the first table reaches; no workspace's disk is larger */

/* size: of the disk, in whole sectors; base: where QEMU finds the raw disk below. 0; -1: out of the bounds above, or no memory. */
int qcow2_layer(struct buf *out, uint64_t size, const char *base) __attribute__((warn_unused_result));

#endif
