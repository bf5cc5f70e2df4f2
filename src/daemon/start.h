/* Before bromed serves: arguments, folders, the lock that decides who is the daemon, the log. */
#ifndef BROME_DAEMON_START_H
#define BROME_DAEMON_START_H

#include "base/err.h"
#include "base/paths.h"
#include <stdbool.h>

struct start_options {
        bool foreground;    /* log to standard error */
        int ready_fd;       /* -1: nobody waits */
        const char *config; /* or NULL */
};

/* 0; 1: help or version was printed; -1 with the reason. */
int start_arguments(struct start_options *o, int argc, char **argv, struct err *err) __attribute__((warn_unused_result));
/* Makes the folders (0700) and refuses those of others or that others may enter. */
int start_folders(const struct paths *p, struct err *err) __attribute__((warn_unused_result));
/* Takes $BROME_RUNTIME/bromed.lock and <state>/bromed.lock for life: one daemon a runtime folder, and one writer a state folder even where
 * two runtime folders are in use. -1 when another one holds them. */
int start_lock(const struct paths *p, struct err *err) __attribute__((warn_unused_result));
/* Standard error becomes $BROME_RUNTIME/bromed.log; a large one is put aside first. */
int start_log(const struct paths *p, struct err *err) __attribute__((warn_unused_result));
/* "ok" or the reason, one line, then the end. Once. */
void start_tell(struct start_options *o, const char *text);

#endif
