/* What stands in the guest's /etc (etc.c), for the file that keeps it (etckeep.c). */
#ifndef BROME_LAUNCH_ETC_PRIV_H
#define BROME_LAUNCH_ETC_PRIV_H

#include "launch/etc.h"

/* Raise when what etc.c or trust.c writes changes, so that kept copies are made anew. */
#define ETC_GENERATION "4"

struct etc_job {
        const struct ids *ids;
        const struct plan *plan;
        uint32_t owner;      /* of the files, as seen from here */
        char etc[PATH_MAX];  /* the folder being made */
        size_t files;
};

/* What every workspace has. */
int etc_write_shared(struct etc_job *j, struct err *err) __attribute__((warn_unused_result));
/* What names this one. `below`: the folder over which j->etc will lie, or j->etc itself. `id`: the 32 digits of its machine id; empty: a new one. */
int etc_write_own(struct etc_job *j, const char *below, struct slice ca, struct slice id, struct err *err) __attribute__((warn_unused_result));
/* Adds a line for everything of the host that the shared layer is made from. */
void etc_stamp(struct buf *b, const struct ids *ids);
int etc_remove(const char *path);

#endif
