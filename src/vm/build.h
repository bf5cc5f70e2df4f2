/* Building an image (docs/VM.md, "The image"): a root file system of the host's own distribution, its kernel unpacked, our initramfs, two disks. All of it is
 * made in STATE/images/.new-PID by programs of the host; what fails or is interrupted leaves nothing behind. */
#ifndef BROME_VM_BUILD_H
#define BROME_VM_BUILD_H

#include "base/err.h"
#include "base/slice.h"
#include "vm/manifest.h"
#include <limits.h>
#include <signal.h>

enum {
        BUILD_SYSTEM_GIB = 32, /* the system disk: sparse, so that only what is used counts */
        BUILD_HOME_GIB = 64,   /* larger than a home gets; the same */
};

struct image_build {
        const char *state;
        void (*step)(const char *text);         /* a line of progress; also called from a process below */
        void (*lines)(struct slice text);       /* the last lines of a command that failed: escaped */
        const volatile sig_atomic_t *stop;      /* set by a signal handler */
        char init[PATH_MAX];                    /* brome-guest-vm, which becomes /init */
};

/* 0 and the new image's ID, which is current now. -1: err with the way out. -2: the host lacks something; err with the way out. */
int image_build(const struct image_build *how, char id[IMAGE_ID_CHARS + 1], struct err *err) __attribute__((warn_unused_result));

#endif
