/* Tar archives, as `brome cp` sends them to a workspace and takes them from one: ustar with pax headers (POSIX.1-2017, pax).
 *
 * The reader is strict, because a hostile guest writes what it reads: a path is relative, has no empty, "." or ".." component and bounded lengths; sizes are octal or
 * a pax record; what it does not know ends the archive. It keeps one header, never a file. Pure: no I/O. */
#ifndef BROME_SHARE_TAR_H
#define BROME_SHARE_TAR_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        TAR_BLOCK_BYTES = 512,
        TAR_PATH_BYTES = 4095,      /* PATH_MAX without its NUL */
        TAR_NAME_BYTES = 255,       /* NAME_MAX */
        TAR_DEPTH = 64,             /* folders in each other; source trees have 30 */
        TAR_PAX_BYTES = 16 * 1024,  /* a path, a target and times need 9,000 */
};
enum tar_kind { TAR_FILE, TAR_FOLDER, TAR_LINK, TAR_OTHER /* devices, pipes, hard links: told, never made */ };

struct tar_entry {
        enum tar_kind kind;
        unsigned mode;  /* permission bits only: 0777 */
        uint64_t size;  /* of a file; else 0 */
        char path[TAR_PATH_BYTES + 1];
        char target[TAR_PATH_BYTES + 1]; /* of a link; any text without NUL */
};

enum tar_event {
        TAR_MORE,  /* the input is used up */
        TAR_ENTRY, /* r->entry */
        TAR_DATA,  /* *data: the next of its bytes, borrowed from the input; entry.size in all */
        TAR_END,   /* the archive's end; what follows is nobody's */
        TAR_BAD,   /* r->why; sticky */
};
struct tar_reader {
        struct tar_entry entry;
        const char *why;
        uint64_t left;         /* of the entry's bytes, then of its padding */
        unsigned padding;
        bool in_pax, has_pax, ended;
        bool pax_path, pax_target, pax_size;
        uint64_t size;         /* by pax */
        uint8_t block[TAR_BLOCK_BYTES];
        size_t have;
        uint8_t pax[TAR_PAX_BYTES];
        size_t pax_have;
};
void tar_reader_init(struct tar_reader *r);
/* Advances *in. */
enum tar_event tar_read(struct tar_reader *r, struct slice *in, struct slice *data) __attribute__((warn_unused_result));
/* Is it a path that the reader lets through (without a "/" at its end)? */
bool tar_path_ok(struct slice path);

/* The headers of an entry; the caller adds its bytes and tar_write_padding. 0; -1: no such path, or no memory. */
int tar_write_entry(struct buf *out, const struct tar_entry *e) __attribute__((warn_unused_result));
int tar_write_padding(struct buf *out, uint64_t size) __attribute__((warn_unused_result));
int tar_write_end(struct buf *out) __attribute__((warn_unused_result));

#endif
