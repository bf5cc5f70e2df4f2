/* bromed: what its files share. One process, one thread, one loop; this object lives as long as it does. */
#ifndef BROME_DAEMON_DAEMON_H
#define BROME_DAEMON_DAEMON_H

#include "base/paths.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alerts;
struct approvals;
struct event;
struct event_base;
struct journal;
struct secrets;
struct server;
struct settings;
struct spawn;
struct stamps;
struct workspace;

/* A request that somebody still waits for. By number, not by pointer: the client may be gone when the answer comes. */
struct reply {
        uint64_t client; /* 0: nobody waits */
        long long id;
};

struct daemon {
        struct event_base *base;
        struct paths paths;
        const char *home; /* for "~"; borrowed from the environment, may be NULL */

        struct spawn *spawn;
        struct server *server;

        struct journal *journal;
        struct event *flush, *retry; /* timers of record.c */
        bool refusing;               /* the journal cannot be written: doors were told */

        char vault_path[PATH_MAX], alerts_path[PATH_MAX];
        struct secrets *secrets;
        struct alerts *alerts;
        struct approvals *approvals;
        struct event *approvals_timer; /* of consent.c */

        struct settings *settings;   /* the last good configuration */
        uint64_t settings_generation; /* counts successful loads */
        char settings_error[512];    /* why the last reload failed; empty when it did not */
        int64_t settings_read_us;    /* real time of the last good one */
        struct stamps *stamps;       /* the files that the last load read, good or not */

        struct workspace **workspaces;
        size_t workspace_count, workspace_cap;

        unsigned sweeps; /* brome-sweep processes that run */
        bool sweep_again; /* something was put aside since the folder was last read */
        uint64_t sweep_ids[4];
        char sweep_names[4][128];

        bool stopping; /* asked to end: sessions are being closed */
        struct reply stop_waits;
        int exit_code;
};

/* Ends every session, then the loop. A second call ends the loop at once. */
void daemon_stop(struct daemon *d, const char *why);
/* Called when a session ended: the loop ends when it was the last and the daemon stops. */
void daemon_session_ended(struct daemon *d);

#endif
