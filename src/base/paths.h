/* Where brome keeps things. XDG places, or BROME_CONFIG (a file), BROME_STATE, BROME_RUNTIME (folders) for a hermetic set-up. */
#ifndef BROME_BASE_PATHS_H
#define BROME_BASE_PATHS_H

#include "base/err.h"
#include <limits.h>

struct paths {
        char config[PATH_MAX];  /* brome.conf */
        char state[PATH_MAX];   /* journal.db, workspaces/NAME/…; mode 0700 */
        char runtime[PATH_MAX]; /* bromed.sock, bromed.lock, bromed.log; mode 0700 */
        char agents[PATH_MAX];  /* presets of the installation, NAME.conf each; empty: there are none */
};

/* Fills *out from the environment (config_override may be NULL). Makes no folder. 0, or -1 with the reason. */
int paths_find(struct paths *out, const char *config_override, struct err *err) __attribute__((warn_unused_result));

/* The folder of our programs: BROME_LIBEXEC, else ../libexec/brome beside the running program's folder, else that folder itself.
 * out gets "<folder>/<name>". */
int paths_program(char out[PATH_MAX], const char *name, struct err *err) __attribute__((warn_unused_result));

/* What is installed besides programs: "<folder>/<name>" in out, when it is there. The folder: BROME_DATA, else ../share/brome beside the running
 * program's folder, else ../../share/brome (for programs in libexec/brome). -1: it is not there, out is empty. */
int paths_data(char out[PATH_MAX], const char *name) __attribute__((warn_unused_result));

#endif
