/* The guest's first process, from the clone to the exec: it builds its own file system with the launcher's privileges, then gives them up one after the
 * other and becomes PID 1 of the workspace. What it becomes is brome-guest, or the QEMU that holds a machine: a job says which root it builds, what it
 * keeps and what it executes; all the rest is the same. */
#ifndef BROME_LAUNCH_CHILD_H
#define BROME_LAUNCH_CHILD_H

#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/ids.h"
#include "launch/plan.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
        CHILD_CHANNEL_FD = 3, /* where what is executed finds its end of the channel */
        CHILD_FIRST_FD = 6,   /* and, from here on, what the job hands it */
        CHILD_FDS = 4,
};

struct child_job {
        const struct plan *plan;
        const struct ids *ids;
        const struct cgroup *groups;
        int netns;                                          /* borrowed: its network namespace */
        int (*enter)(const void *root, struct err *err);    /* builds the root folder and goes in, as the launcher's root */
        const void *root;
        bool machine;             /* what is executed holds a machine: no home to fill, no capability to keep */
        const char *program;      /* path in the root; NULL: brome-guest as a sealed memory file */
        char *const *argv;        /* NULL: brome-guest's */
        int fds[CHILD_FDS];       /* borrowed; at CHILD_FIRST_FD and on, the first also its standard error */
        size_t fd_count;
};

struct child {
        pid_t pid;
        int pidfd;
        int sync;    /* its reports, our word to go on */
        int channel; /* to brome-guest, here or in a machine */
};

/* Clones it; it enters the network namespace and goes on to build at once. */
int child_start(struct child *c, const struct child_job *job, struct err *err) __attribute__((warn_unused_result));
/* Waits until it has built and sealed all but the last step. Appends to notes, an array, sentences about what it left alone. */
int child_built(const struct child *c, json_t *notes, struct err *err) __attribute__((warn_unused_result));
/* Lets it exec its program, and waits until it has. */
int child_go(struct child *c, struct err *err) __attribute__((warn_unused_result));

#endif
