/* Taking files out of a hostile archive: beneath one folder and nowhere else. For brome cp.
 *
 * Folders are made and files written by descriptor, no link followed in any component; a file is written beside its name and renamed when it is whole;
 * set-user-ID and the like are not taken over; links are made last, and only those that stay within what was copied. What cannot be taken is told and left out. */
#ifndef BROME_CLI_TAKE_H
#define BROME_CLI_TAKE_H

#include "base/err.h"
#include "share/tar.h"
#include <sys/types.h>

enum {
        TAKE_ENTRIES = 1000 * 1000,   /* of one source; the largest source trees have a tenth */
        TAKE_LINKS_BYTES = 32 * 1024 * 1024, /* links that wait for the end */
        TAKE_TOLD = 20,               /* lines about what was left out; then a count */
        TAKE_TEMP_BYTES = 32,
};

struct take {
        int folder;            /* beneath it; the caller's */
        const char *as;        /* the name there of what is taken */
        const char *from;      /* its name in the archive */
        const char *workspace; /* for lines */
        uint64_t bytes_max;
        mode_t umask;
        struct tar_reader reader;
        struct buf links;
        bool ended;
        int parent, file;      /* of the file that is being written; -1 */
        char temp[TAKE_TEMP_BYTES], name[TAR_NAME_BYTES + 1];
        unsigned mode;
        uint64_t due;          /* bytes of it to come */
        uint64_t files, bytes, entries, left_out;
};
void take_init(struct take *t, int folder, const char *from, const char *as, const char *workspace, uint64_t bytes_max);
/* Bytes of the archive. 0; -1: it cannot go on. */
int take_feed(struct take *t, struct slice bytes, struct err *err) __attribute__((warn_unused_result));
/* The archive is over: links, and was it whole? */
int take_finish(struct take *t, struct err *err) __attribute__((warn_unused_result));
/* Nothing half written stays. */
void take_fini(struct take *t);

#endif
