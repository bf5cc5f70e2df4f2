/* Mounts, one call each: overlays, binds, tmpfs; every path is relative to the new root, which is the working directory while it is built. */
#ifndef BROME_LAUNCH_LAYER_H
#define BROME_LAUNCH_LAYER_H

#include "base/err.h"
#include "launch/ids.h"
#include <stdbool.h>
#include <sys/types.h>

/* The new root: everything private to this mount namespace, a tmpfs at the folder `path` (options as below), which becomes the working directory. */
int layer_stage(const struct ids *ids, const char *path, const char *options, struct err *err) __attribute__((warn_unused_result));
/* Enters it; the old root is gone. */
int layer_become_root(struct err *err) __attribute__((warn_unused_result));

/* A folder of the guest's: made when missing, owned by the guest's root. Not for paths in which a guest could have put a link. */
int layer_mkdir(const struct ids *ids, const char *path, mode_t mode, struct err *err) __attribute__((warn_unused_result));
/* The same for every folder on the way. */
int layer_mkdirs(const struct ids *ids, const char *path, struct err *err) __attribute__((warn_unused_result));
/* An empty file to mount something over. */
int layer_touch(const char *path, struct err *err) __attribute__((warn_unused_result));

/* tmpfs owned by the guest's root; `options` start after its owner, e.g. "mode=755,size=64m". */
int layer_tmpfs(const struct ids *ids, const char *path, unsigned long flags, const char *options, struct err *err) __attribute__((warn_unused_result));

/* lower_fd, over it top_fd (-1: none; its owners stay), over these a writable layer in `store` (folders upper and work), mounted at path; nosuid, nodev. With ids->root and map_userns ≥ 0 the lower
 * layer is shown through that user namespace. *unmapped (may be NULL) is set when the kernel cannot do that for overlays (before 5.19). */
int layer_overlay(const struct ids *ids, int top_fd, int lower_fd, int map_userns, const char *store, const char *path, bool *unmapped, struct err *err)
        __attribute__((warn_unused_result));
/* Can the kernel show this folder in an overlay under other owners? Linux 5.19, and the file system has a say. */
bool layer_can_map(int fd, int map_userns);

/* NAME of the host's root, if it is a link (into /usr): made again. 1: done, or the host has nothing of that name; 0: it is a folder; -1. */
int layer_system_link(const char *name, struct err *err) __attribute__((warn_unused_result));

struct layer_node {
        const char *name; /* in /dev */
        unsigned major, minor;
};
/* dev/NAME: a node of its own where we may make one, else the host's. Everybody may open it. */
int layer_device(const struct ids *ids, const struct layer_node *d, struct err *err) __attribute__((warn_unused_result));

enum { LAYER_READ_ONLY = 1, LAYER_DEVICE = 2, LAYER_RECURSIVE = 4 };
/* A detached copy of the mount at fd (O_PATH): nosuid, nodev unless LAYER_DEVICE. map_userns as above, -1: none. The descriptor, or -1. */
int layer_clone(int fd, int map_userns, unsigned flags, struct err *err) __attribute__((warn_unused_result));
/* Attaches a detached mount at path, or at the object target_fd when path is "". */
int layer_attach(int mount_fd, int target_fd, const char *path, struct err *err) __attribute__((warn_unused_result));
/* open, clone, attach in one: host path `from` (NULL: `path` itself) at `path`. */
int layer_bind(const char *from, const char *path, unsigned flags, struct err *err) __attribute__((warn_unused_result));

#endif
