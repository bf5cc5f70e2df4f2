/* What the files that build an image share. */
#ifndef BROME_VM_BUILD_PRIV_H
#define BROME_VM_BUILD_PRIV_H

#include "vm/build.h"
#include "vm/owners.h"
#include "vm/sources.h"

/* A distribution that images can be made of. */
struct distribution {
        const char *id; /* of /etc/os-release */
        const char *kernel_amd64, *kernel_arm64; /* the package that depends on the generic kernel in force */
};

struct build {
        const struct image_build *how;
        const struct distribution *distribution;
        struct owners owners;
        struct sources sources;
        char suite[64], architecture[16];
        char work[PATH_MAX - 512]; /* STATE/images/.new-PID: short enough for what is put behind it */
        char epoch[40], home[PATH_MAX], temporary[PATH_MAX], apt_config[PATH_MAX + 16]; /* variables of the commands, with their names */
        char proxies[6][512];
        const char *env[16];
        int log;
};

/* Paths below the work folder. */
void build_path(const struct build *b, char out[PATH_MAX], const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Runs a program; in the new root folder when `inside`. A failure says which, and shows its last lines. */
int build_run(struct build *b, const char *const *argv, bool inside, struct err *err) __attribute__((warn_unused_result));
#define BUILD_RUN(b, inside, err, ...) build_run(b, (const char *const[]){ __VA_ARGS__, NULL }, inside, err)
int build_out_of_space(const struct build *b, int errno_value, struct err *err, const char *what);

/* build_kernel.c: fetch and unpack the kernel; vmlinuz, initrd; modules into the root. kernel: its version. */
int build_kernel_fetch(struct build *b, struct err *err) __attribute__((warn_unused_result));
int build_kernel_install(struct build *b, struct err *err) __attribute__((warn_unused_result));
/* The kernel's version, of the folder of modules in the new root. */
int build_kernel_version(const struct build *b, char out[MANIFEST_TEXT_BYTES], struct err *err) __attribute__((warn_unused_result));

/* build_disks.c */
int build_disks(struct build *b, struct err *err) __attribute__((warn_unused_result));
int build_digest(const struct build *b, enum image_file file, struct manifest *m, struct err *err) __attribute__((warn_unused_result));

#endif
