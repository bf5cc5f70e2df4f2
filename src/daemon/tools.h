/* Tools: where the programs of the host that a workspace's agent needs are installed. The guest sees those folders read-only where they lie. */
#ifndef BROME_DAEMON_TOOLS_H
#define BROME_DAEMON_TOOLS_H

#include "rules/config.h"

#include <jansson.h>

enum { TOOLS_FOLDERS_MAX = 16 }; /* what the launcher takes */

/* Folders for the plan: of each program, as PATH finds it, the narrowest that it runs from, and the same of where its links lead when that is elsewhere.
 * What lies in /usr the guest has anyway; what is not installed is left out. path, home: as in the environment; NULL: none. New reference. */
json_t *tools_folders(const struct config_workspace *w, const char *path, const char *home);

#endif
