/* An initramfs as the kernel reads it: the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources), written into
 * a buffer. Every entry belongs to 0:0; inode numbers count upwards, so that equal input makes equal bytes. Pure: no I/O. */
#ifndef BROME_VM_CPIO_H
#define BROME_VM_CPIO_H

#include "base/buf.h"
#include <stdint.h>

enum {
        CPIO_NAME_BYTES = 255,                /* of an entry: what the kernel's own limit (PATH_MAX) leaves far behind */
        CPIO_FILE_BYTES = 256 * 1024 * 1024,  /* of one file: no module and no program of ours is near */
};

struct cpio {
        struct buf *out;    /* borrowed */
        uint32_t mtime;     /* of every entry, seconds since 1970 */
        uint32_t last_inode;
};

/* name: relative, without "." and ".." and empty parts ("modules/001-virtio.ko"); folders before what is in them, as the kernel makes no missing ones.
 * mode: permission bits alone. 0; -1: the name or the size is refused, or the buffer is full (give it up). */
int cpio_folder(struct cpio *c, const char *name, uint32_t mode) __attribute__((warn_unused_result));
int cpio_file(struct cpio *c, const char *name, uint32_t mode, struct slice bytes) __attribute__((warn_unused_result));
/* The trailer, and zeros up to a whole 512 byte block. */
int cpio_end(struct cpio *c) __attribute__((warn_unused_result));

#endif
