/* Which kernel modules are loaded in which order: what depmod writes into modules.dep,
 *
 *   kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
 *
 * a line a module, its dependencies behind the colon. Pure: no I/O; struct modules borrows the text. */
#ifndef BROME_VM_MODULES_H
#define BROME_VM_MODULES_H

#include "base/err.h"
#include "base/slice.h"

enum {
        MODULES_TEXT_BYTES = 4 * 1024 * 1024, /* Debian's generic kernel has 600 KB */
        MODULES_MAX = 16384,                  /* and 4,000 modules */
        MODULES_PATH_BYTES = 240,
        MODULES_DEPTH = 64,                   /* of dependencies: real ones stay below 10; deeper is a circle */
};

struct module {
        struct slice path, needs; /* borrowed; needs: paths with one space between them */
        unsigned char state;
};

struct modules {
        struct module *all; /* by path */
        size_t count;
        size_t *order; /* indices, what is needed before what needs it, each once */
        size_t order_count;
};

/* 0, or -1 with the reason: too long, a line that is no such line, a path that leaves the tree, two lines for one module. */
int modules_parse(struct modules *m, struct slice text, struct err *err) __attribute__((warn_unused_result));
void modules_free(struct modules *m);

/* By name as modprobe takes it ("9pnet_virtio"; - and _ are the same); -1: there is none. */
ptrdiff_t modules_find(const struct modules *m, const char *name) __attribute__((warn_unused_result));
/* Is it in the text of modules.builtin (a path a line)? */
bool modules_built_in(struct slice text, const char *name) __attribute__((warn_unused_result));
/* Appends module number i, after what it needs, to the order, unless it is there. -1: something it needs has no line, or a circle. */
int modules_need(struct modules *m, size_t i, struct err *err) __attribute__((warn_unused_result));
/* Begins a new order. */
void modules_forget(struct modules *m);

/* "virtio_blk" of kernel/drivers/block/virtio_blk.ko.xz; not normalised. */
struct slice modules_name(struct slice path) __attribute__((warn_unused_result));
enum modules_coding { MODULES_PLAIN, MODULES_XZ, MODULES_ZSTD, MODULES_GZIP };
enum modules_coding modules_coding(struct slice path) __attribute__((warn_unused_result));

#endif
