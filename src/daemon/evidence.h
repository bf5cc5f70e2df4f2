/* Evidence: what is needed to look into a workspace after a trip, in a folder of its own: <state>/evidence/NAME-TIME. Nothing removes it but the user. */
#ifndef BROME_DAEMON_EVIDENCE_H
#define BROME_DAEMON_EVIDENCE_H

#include "daemon/workspace.h"

/* Alerts, rules, names of variables, the journal of that session (0: of all) and its head, timeline and requests of the last hour, a list of its files, the
 * processes (NULL: what the trip left on disk), and sums of all that, whose sum is noted in the journal. No secret, no value of a variable; bounded, with a line where it
 * was cut. keep_folder: the workspace's folder (its home and layers) is moved
 * there too, because it would vanish. 0 with the folder's path in out; -1 with the reason. */
int evidence_save(struct workspace *ws, uint64_t session, json_t *processes, bool keep_folder, char out[PATH_MAX], struct err *err)
        __attribute__((warn_unused_result));

/* The folder of a compromised workspace that nobody can decide about any more (a throw-away one, of a bromed that was killed) becomes evidence. */
void evidence_left_over(struct daemon *d, const char *name);

#endif
