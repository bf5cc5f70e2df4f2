/* The images of virtual machines: STATE/images/ID (docs/VM.md). Building one is vm/build.h; this is what is there, and who uses it. */
#ifndef BROME_VM_IMAGE_H
#define BROME_VM_IMAGE_H

#include "base/err.h"
#include "vm/manifest.h"
#include <limits.h>

enum {
        IMAGES_MAX = 256,      /* more is not listed: each is half a gigabyte */
        IMAGE_USERS_MAX = 4096, /* workspaces that are looked at */
};

struct image {
        char id[IMAGE_ID_CHARS + 1];
        bool current;
        bool broken;            /* its manifest cannot be read: why says it; nothing else is filled */
        char why[256];          /* of the accelerator, or what is broken */
        char accel[8];          /* kvm, tcg, or "" when no probe boot was made */
        struct manifest manifest;
        uint64_t disk_bytes;    /* what it takes on the disk */
        char **users;           /* names of workspaces whose disks stand on it; owned */
        size_t user_count;
};

struct images {
        struct image *all; /* the youngest first */
        size_t count;
};

/* What is in STATE/images. No folder: none. */
int images_list(const char *state, struct images *out, struct err *err) __attribute__((warn_unused_result));
void images_free(struct images *images);
/* Removes an image; refuses one that a workspace's disk stands on. 0; 1: refused or not there, with the reason; -1: it failed. */
int images_remove(const char *state, const char *id, struct err *err) __attribute__((warn_unused_result));
/* Makes it the one that new workspaces get. */
int images_make_current(const char *state, const char *id, struct err *err) __attribute__((warn_unused_result));
struct probe;
/* Boots the current image once more, and writes down which accelerator runs it. 0; -1: neither did, or it was stopped. */
int images_probe(const char *state, struct probe *p, struct err *err) __attribute__((warn_unused_result));
/* The lock of STATE/images, which building and removing hold. The descriptor; -1: somebody else holds it, or err. */
int images_lock(const char *state, struct err *err) __attribute__((warn_unused_result));

#endif
