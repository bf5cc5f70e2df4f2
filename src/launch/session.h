/* One session of a workspace, as brome-launch holds it: what was made for it, and its supervision. */
#ifndef BROME_LAUNCH_SESSION_H
#define BROME_LAUNCH_SESSION_H

#include "base/err.h"
#include "launch/cgroup.h"
#include "launch/child.h"
#include "launch/gateway.h"
#include "launch/ids.h"
#include "launch/keeper.h"
#include "launch/machine.h"
#include "launch/mux.h"
#include "launch/plan.h"
#include "launch/shares.h"

enum {
        SESSION_CONTROL_FD = 3,
        SESSION_HELLO_MS = 10 * 1000,   /* from the exec of brome-guest to its READY; measured 2 ms */
        SESSION_OPEN_MS = 60 * 1000,    /* from `gateway` to `open`: bromed starts the doors meanwhile */
        SESSION_GRACE_MAX_MS = 60 * 1000,
        SESSION_DRAIN_MS = 500,         /* at the end, for a client that does not read */
        SESSION_NOTES = 16,             /* sentences of a machine about its start: one for each of a few files of the home */
        SESSION_NOTE_BYTES = 256,       /* of each, as it is shown */
        SESSION_KILL_MS = 2000,         /* after the grace: the guest itself gets this long to be gone */
};

struct session {
        int control; /* the channel to bromed */
        struct plan plan;
        struct ids ids;
        struct cgroup groups;
        struct shares shares;
        struct gateway gateway;
        struct child child;
        struct keeper keeper;
        struct machine machine; /* only when plan.machine */
        struct mux *mux;
        json_t *warnings;
        bool started;  /* brome-guest runs */
        bool ready;
        bool greeted;  /* a machine with KVM has said hello in time */
        bool again;    /* another start will go another way */
        bool frozen;
        bool ends;     /* stop was asked for, or something broke */
        bool killed;   /* by us */
        bool asked;    /* stop was asked for */
        char why[256]; /* reason of `exit` */
        int64_t deadline_ms; /* READY, or the guest's end; 0: none */
};

/* Tells bromed of a step, for whoever waits. */
void session_progress(const struct session *s, const char *step);
/* Supervises until the guest is gone. 0: `exit` was sent; -1: bromed is gone, or the reason is in err. */
int session_run(struct session *s, struct err *err) __attribute__((warn_unused_result));

#endif
