/* A workspace as bromed knows it, and the registry of all. One function changes its state; every change is a line in the journal.
 *
 * stopped    nothing of it runs; it may be opened, changed, removed
 * preparing  its folder, CA and session number are being made; nothing of it runs yet
 * opening    its programs start and answer each other; the guest gets no packet out; a deadline runs for each stage
 * running    the guest runs and the gate serves it
 * frozen     the guest's processes stand still and every flow is refused, until thawed or closed
 * compromised  as frozen, because a placeholder was on its way to where it does not belong: only a person's decision leads out
 * compromised  (at rest) no session, and nobody has decided yet: nothing of it starts
 * stopping   its programs are being ended and their last records read; a deadline runs, then they are killed
 * failed     as stopped, and the last session did not end by request: the reason is kept to be shown */
#ifndef BROME_DAEMON_WORKSPACE_H
#define BROME_DAEMON_WORKSPACE_H

#include "base/slice.h"
#include "control/request.h"
#include "daemon/daemon.h"
#include "daemon/settings.h"
#include <limits.h>

/* In the folder of a workspace whose person still has to decide after a trip. */
#define WORKSPACE_COMPROMISED_MARK "compromised"
#define WORKSPACE_PROCESSES "compromised.processes" /* what ran when the tripwire went off: JSON, for an evidence that is asked for later */

enum workspace_state { WS_STOPPED, WS_PREPARING, WS_OPENING, WS_RUNNING, WS_FROZEN, WS_COMPROMISED, WS_COMPROMISED_REST, WS_STOPPING, WS_FAILED, WS_STATE_COUNT };
enum workspace_origin { WS_FROM_CONFIG, WS_FROM_STATE, WS_THROW_AWAY };

enum { WORKSPACE_USES = 256 }; /* pairs that are counted one by one; what is beyond is not counted */

struct session;

struct account_use {
        char credential[REQUEST_NAME_BYTES], host[256];
        uint64_t count;
        int64_t last_us;
};

struct workspace {
        struct daemon *daemon;
        char name[REQUEST_NAME_BYTES];
        enum workspace_origin origin;
        enum workspace_state state;
        char reason[512];      /* why it came into this state, one line */
        int64_t since_us;      /* real time */
        char folder[PATH_MAX]; /* <state>/workspaces/NAME */
        char file[PATH_MAX];   /* where its block is: workspace.conf, the configuration's file, or a name for messages */

        struct settings *settings;            /* one reference */
        const struct config_workspace *conf;  /* in it */
        char *text;                           /* block of a state-made or throw-away one; malloc'ed; NULL of the configuration's */
        uint64_t generation;                  /* of its policy, from 1 */
        bool gone;                            /* no longer in the configuration: leaves the registry when its session ends */
        bool remove_folder;                   /* throw-away with rm: its folder goes with the session */

        bool undecided;                       /* it was compromised, and no person has decided yet: the mark is in its folder */
        struct reply wipe_waits;              /* its folder is made new when its session ends, then this is answered */
        bool wipe;

        struct session *session; /* from preparing to stopping */

        /* How often each credential was used towards each host, since bromed runs. */
        struct account_use uses[WORKSPACE_USES];
        size_t use_count;
};

const char *workspace_state_name(enum workspace_state s);
/* Is there a session (whatever stage)? */
bool workspace_busy(const struct workspace *ws);
/* Moves along a legal edge (anything else is a panic), keeps the reason (may be NULL) and writes the Workspace note. */
void workspace_state(struct workspace *ws, enum workspace_state to, const char *reason);
/* For the unit test: the table of edges. */
bool workspace_edge(enum workspace_state from, enum workspace_state to);

struct workspace *workspace_find(const struct daemon *d, const char *name);
/* Counts uses of a credential. */
void workspace_used(struct workspace *ws, const char *credential, const char *host, uint64_t count);

/* A new one in the registry. Takes settings and text (also on failure). NULL with the reason. */
struct workspace *workspace_add(struct daemon *d, const char *name, enum workspace_origin origin, struct settings *settings, char *text,
                                struct err *err);
/* Out of the registry; it must not be busy. */
void workspace_remove(struct workspace *ws);
/* Other settings for the same workspace. Takes them. */
void workspace_adopt(struct workspace *ws, struct settings *settings);

/* Reads brome.conf and every workspace.conf again. 0; -1 with diagnostics: nothing changed. Running sessions get new rules. */
int registry_load(struct daemon *d, struct diags *errors) __attribute__((warn_unused_result));
/* What stands on disk does not parse: the sentence that says so, and what is in force instead. False: it does. */
enum { REGISTRY_STALE_BYTES = 640 };
bool registry_stale(const struct daemon *d, char out[REGISTRY_STALE_BYTES]);
/* For the journal (ctx: the daemon): a workspace that is defined or has a folder exists, and so does each while that cannot be told. */
bool registry_exists(void *ctx, struct slice name);
/* Puts a workspace's folder aside to be removed by brome-sweep. */
int registry_discard(struct daemon *d, const char *name, struct err *err);
/* Gives the workspace a new folder (with its block, where it was made by `workspace new`); the old one is put aside to be removed. */
int registry_wipe(struct workspace *ws, struct err *err) __attribute__((warn_unused_result));
/* Removes what was put aside, also by an earlier bromed; and throw-away folders that a crash left. */
void registry_sweep(struct daemon *d);
void registry_sweep_left_over(struct daemon *d);
/* brome-sweep ended. True when `id` was one. */
bool registry_swept(struct daemon *d, uint64_t id);

/* The name in `workspace NAME {…}`, the only one in text that its parse yields beside the configuration's. */
int registry_block_name(const struct daemon *d, struct slice text, const char *file, char name[REQUEST_NAME_BYTES], struct settings **settings,
                        struct diags *errors) __attribute__((warn_unused_result));

#endif
