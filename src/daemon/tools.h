/* Tools: where the programs of the host that a workspace's agent needs are installed. The guest sees those folders read-only where they lie. */
#ifndef BROME_DAEMON_TOOLS_H
#define BROME_DAEMON_TOOLS_H

#include "rules/config.h"

#include <jansson.h>

enum { TOOLS_FOLDERS_MAX = 16 }; /* what the launcher takes */

struct tools_search {
        const char *path, *own_path; /* PATH of whoever opens the session, then bromed's own; NULL: none */
        const char *home;            /* NULL: none */
        json_t *closed;              /* real names of folders that a guest may write: read-write shares */
        json_t *links;               /* of a machine: an object to be filled, name of a program → where it lies; NULL: the guest sees the host's /usr */
};

/* Folders for the plan: of each program, as PATH finds it, the narrowest that it runs from, and the same of where its links lead when that is elsewhere.
 * What lies in /usr a guest in namespaces has anyway; what is not installed is left out. New reference.
 *
 * A machine has a /usr of its own: of the host's it gets a program's own folder (below /usr/lib, of node.js the one package), never one that holds many programs, such as
 * /usr/bin, which would cover the machine's. What PATH finds in such a one is an entry of `links`; a program whose file itself lies there only in /usr/local.
 *
 * SECURITY: what is found becomes visible to the guest, so nobody but the user and root may choose it. A folder of PATH counts only when its name is absolute
 * and not everybody may write it; a program whose way leads through a closed folder, by a link too, is not taken. */
json_t *tools_folders(const struct config_workspace *w, const struct tools_search *where);

#endif
