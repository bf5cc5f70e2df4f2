/* The kernel out of its archive. A machine under emulation takes as long to unpack its kernel as for all the rest, so it is done once, when the image is built:
 * a bzImage (Documentation/x86/boot.rst in the kernel's sources) holds a packed ELF file, which QEMU starts by its PVH note. And modules without the signature
 * behind them. Pure: no I/O. */
#ifndef BROME_VM_VMLINUX_H
#define BROME_VM_VMLINUX_H

#include "base/err.h"
#include "base/slice.h"
#include "vm/modules.h"

enum {
        VMLINUX_BYTES = 256 * 1024 * 1024, /* unpacked: 66 MB */
        VMLINUX_SEGMENTS = 64,             /* five */
};

struct vmlinux_packed {
        struct slice bytes;         /* one whole gzip, xz or zstd file; borrowed */
        enum modules_coding coding; /* never MODULES_PLAIN */
        uint32_t unpacked_bytes;    /* what must come out */
};

/* Finds the packed kernel in a bzImage. -1: it is none, or packed in a way that nobody here unpacks. */
int vmlinux_find(struct slice image, struct vmlinux_packed *out, struct err *err) __attribute__((warn_unused_result));
/* Judges the unpacked kernel and cuts off what no machine loads: sections, and zeros at the end of the last segment. The new size in *kept.
 * -1: no ELF file that QEMU could start by a PVH note; nothing was changed. */
int vmlinux_trim(uint8_t *elf, size_t n, size_t *kept, struct err *err) __attribute__((warn_unused_result));

/* The module without the signature at its end; as it is where there is none, or one of an unknown kind. */
struct slice vmlinux_module_unsigned(struct slice module) __attribute__((warn_unused_result));
/* Does a kernel of this configuration (/boot/config-VERSION) load modules without a signature? No, when the text is empty. */
bool vmlinux_loads_unsigned(struct slice config) __attribute__((warn_unused_result));

#endif
