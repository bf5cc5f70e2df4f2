/* The tripwire's other half: what follows when the inner door met a placeholder on its way to where it does not belong.
 *
 * In this order: the door refuses it and everything else (before it says so) → the gateway is shut and the guest's processes are stopped → the record is on disk
 * → the mark in the workspace's folder, the alert → whoever watches is told. From then on the workspace is compromised until a person says: continue, stop
 * with the evidence, or wipe. The mark outlives bromed. */
#ifndef BROME_DAEMON_TRIP_H
#define BROME_DAEMON_TRIP_H

#include "daemon/program.h"
#include "daemon/workspace.h"

enum { TRIPS_RECORDED = 16 }; /* of one compromise: what was on its way at the same moment */

/* ← trip. */
program_heard trip_heard;
/* The launcher answered: the guest stands still since at_us (monotonic; what cannot be is not believed), or could not be stopped. */
void trip_frozen(struct session *s, bool ok, int64_t at_us);
/* The launcher's list of what the guest runs. */
program_heard trip_heard_processes;

/* A person's decision: `continued`, `stopped`, `wiped`. Removes the mark. 0; -1: it is still owed. */
int trip_decide(struct workspace *ws, const char *decision, struct err *err) __attribute__((warn_unused_result));
/* continue: remembers what tripped, so that it is refused without freezing again; then decides. */
int trip_continue(struct workspace *ws, struct err *err) __attribute__((warn_unused_result));

#endif
