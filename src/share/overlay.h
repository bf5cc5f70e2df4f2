/* What a workspace wrote into the upper layer of an overlay share, shown and applied to the host's folder.
 *
 * Both trees are hostile. Every file is opened beneath its root without following a link; applying writes a new file and renames it, so that
 * nothing is ever written *through* what is there. Only for a workspace that is not running: a mounted overlay must not change below.
 * The launcher mounts with redirect_dir=off, metacopy=off, index=off (`userxattr` implies the first two); a redirect met here is an error. */
#ifndef BROME_SHARE_OVERLAY_H
#define BROME_SHARE_OVERLAY_H

#include "base/buf.h"
#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

enum {
        OVERLAY_CHANGES = 200 * 1000,          /* changes one diff reports; more is an error */
        OVERLAY_COMPARE_BYTES = 64 * 1024 * 1024, /* equal-sized files are compared up to here, larger ones count as changed */
        OVERLAY_TEXT_BYTES = 1024 * 1024,      /* a side of a text difference; larger files only "differ" */
        OVERLAY_TEXT_LINES = 20 * 1000,
        OVERLAY_TEXT_EDITS = 1000,             /* beyond, the changed middle is shown as a whole: the search is quadratic in it */
        OVERLAY_TEXT_OUT_BYTES = 4 * 1024 * 1024,
};

enum overlay_kind { OVERLAY_ADDED, OVERLAY_CHANGED, OVERLAY_DELETED, OVERLAY_MODE, OVERLAY_KIND_COUNT };

struct overlay_change {
        enum overlay_kind kind;
        const char *path;        /* relative, raw; borrowed for the call. A folder comes before what is in it. */
        mode_t lower_mode;       /* st_mode, 0 when there is none */
        mode_t upper_mode;       /* likewise; 0 for OVERLAY_DELETED */
        off_t upper_bytes;
        const char *refused;     /* why overlay_apply would not take it unless named (or at all); NULL: fine */
};
/* Returns 0 to go on, anything else stops and is returned by overlay_diff. */
typedef int overlay_fn(void *arg, const struct overlay_change *c);
int overlay_diff(int lower_fd, int upper_fd, overlay_fn *fn, void *arg, struct err *err) __attribute__((warn_unused_result));

struct overlay_apply_result {
        size_t applied, refused, failed;
};
/* Applies the changes. `paths` (NULL: all): a change is taken when it is one of them or lies below one. Refused always: devices, sockets, FIFOs,
 * set-user-ID and set-group-ID files. Refused unless the very path is in `paths`: what protected.tbl names, and links that leave the share.
 * `fn` (may be NULL) is told each change with `refused` as it was decided. 0; -1 when something failed (the rest is still tried; first reason in err). */
int overlay_apply(int lower_fd, int upper_fd, const char *const *paths, size_t path_count, overlay_fn *fn, void *arg, struct overlay_apply_result *result,
                  struct err *err) __attribute__((warn_unused_result));

/* Appends a unified difference of one path (text files), a sentence for binary, large or other files; foreign text escaped, tabs kept. 0 or -1. */
int overlay_diff_text(int lower_fd, int upper_fd, const char *path, struct buf *out, struct err *err) __attribute__((warn_unused_result));

#endif
