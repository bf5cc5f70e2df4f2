/* What is in an image: manifest.json (docs/VM.md). Its SHA-256 names the image. Pure: no I/O. */
#ifndef BROME_VM_MANIFEST_H
#define BROME_VM_MANIFEST_H

#include "base/buf.h"
#include "base/err.h"
#include <jansson.h>
#include <stdint.h>

enum {
        MANIFEST_FORMAT = 1,
        MANIFEST_BYTES = 1024 * 1024, /* 600 packages are 20 KB */
        MANIFEST_TEXT_BYTES = 128,    /* a suite, a version */
        IMAGE_ID_CHARS = 16,
};

/* The files an image consists of, besides the manifest and what a probe boot found. A disk's digest is over what is in it, so that holes cost nothing:
 * its 4 KiB blocks that are not all zeros, each behind its offset (u64, little-endian). */
enum image_file { IMAGE_VMLINUZ, IMAGE_INITRD, IMAGE_BASE, IMAGE_HOME, IMAGE_FILE_COUNT };
extern const char *const image_file_names[IMAGE_FILE_COUNT];
static inline bool image_file_is_disk(enum image_file f) { return f == IMAGE_BASE || f == IMAGE_HOME; }
enum { IMAGE_BLOCK_BYTES = 4096, SHA256_BYTES = 32 };

struct manifest {
        char suite[MANIFEST_TEXT_BYTES], kernel[MANIFEST_TEXT_BYTES], architecture[32];
        char init[32];      /* the program that is /init */
        bool all_owners;    /* false: made without subordinate ids, every file belongs to root */
        int64_t made_us;
        struct {
                uint64_t bytes;
                uint8_t sha256[SHA256_BYTES];
        } files[IMAGE_FILE_COUNT];
        json_t *packages; /* name → version; owned */
};

/* Appends the text. -1: no memory, or a value that the reader would refuse. */
int manifest_write(const struct manifest *m, struct buf *out) __attribute__((warn_unused_result));
/* Takes every member of format 1 and no other. *out owns its packages: manifest_fini. */
int manifest_read(struct slice text, struct manifest *out, struct err *err) __attribute__((warn_unused_result));
void manifest_fini(struct manifest *m);
/* The image's ID of its manifest's text. */
int manifest_id(struct slice text, char id[IMAGE_ID_CHARS + 1]) __attribute__((warn_unused_result));
bool image_id_ok(const char *id) __attribute__((warn_unused_result));

#endif
