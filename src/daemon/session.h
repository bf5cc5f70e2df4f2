/* One run of a workspace: its three programs, the order in which they answer each other (docs/CONTROL.md), and its end.
 *
 * Dead means closed: whichever program ends or misbehaves, the gateway is shut first, then everything of the session is ended; the
 * workspace is stopped or failed, with one line that says why. Functions that end a session return before it is gone: the last of it is
 * done from the loop. */
#ifndef BROME_DAEMON_SESSION_H
#define BROME_DAEMON_SESSION_H

#include "control/request.h"
#include "daemon/daemon.h"
#include "daemon/doors.h"
#include "daemon/live.h"
#include "daemon/program.h"
#include "daemon/record.h"
#include <sys/types.h>

/* In the folder of a workspace whose session runs: bromed's own death is noted at the next start. */
#define SESSION_RUNNING_MARK "session"
/* In the folder of a workspace that is to vanish with its session: what a crash left is removed at the next start. */
#define SESSION_THROW_AWAY_MARK "throw-away"

enum { SESSION_INNER, SESSION_OUTER, SESSION_DOORS, SESSION_LAUNCH = SESSION_DOORS, SESSION_PROGRAMS };
enum { SESSION_CLOSERS = 16, SESSION_EXECS_WAITING = 64, SESSION_STATS_WAITING = 8 };

enum change_stage { CHANGE_NONE, CHANGE_OUTER, CHANGE_INNER };

struct session {
        struct workspace *ws;
        uint64_t number;
        pid_t pid; /* the launcher's; 0: not known yet */
        struct program programs[SESSION_PROGRAMS];
        struct record_door events[SESSION_DOORS];
        struct event *deadline; /* of the stage while opening, of the end while stopping */
        struct event *ack;      /* of what was asked of the doors while running */
        struct event *done;     /* finishes from the loop */

        struct reply opener; /* waits for `session` */
        uint64_t owner;      /* the client with which it ends; 0: kept */
        char *proxy, *no_proxy; /* malloc'ed or NULL */
        char *path;             /* PATH of the opener, where its tools are looked for; likewise */

        struct account_door *account_doors;
        struct live *live;     /* placeholders, known */
        struct policy *policy; /* the newest that the doors were given; NULL before */

        int inner_events, inner_link; /* the inner door's, until its start; -1 */
        bool inner_started, inner_ready, outer_ready, launch_ready, opened;
        json_t *isolation; /* launch's notes */

        /* A change of the rules on its way: outer door first, then inner. */
        enum change_stage change;
        bool outer_due; /* of CHANGE_OUTER: the door without an account has not confirmed */
        uint64_t change_generation;
        int change_policy; /* memory file, or -1 */
        bool change_again; /* rules changed again meanwhile */
        long long change_cut;
        struct reply change_waits;
        struct reply next_waits; /* for the change after this one */

        unsigned refusals_unanswered; /* refuse and admit sent, not yet answered */
        bool freezing, thawing;
        struct reply freeze_waits;

        bool thaw_after_admit; /* the guest goes on when the inner door admits again */
        bool refreeze;        /* a trip while the guest was being continued */
        bool thaw_after_change; /* continue: first the doors know the decision, then the guest goes on */
        int64_t trip_us;      /* the first trip, until the guest stands still; 0 */
        unsigned trips;
        json_t *processes;    /* what the guest ran then, or NULL */
        bool evidence;        /* its closer wants it */

        unsigned revokes_owed; /* by doors */
        long long revoke_cut;
        struct reply revoke_waits;

        uint64_t last_exec;
        struct {
                uint64_t id; /* 0: free */
                struct reply reply;
                const char *op; /* of the answer: exec, forward */
        } execs[SESSION_EXECS_WAITING];
        struct reply stats[SESSION_STATS_WAITING];
        struct event *stats_deadline;

        bool failed, killed, exit_heard;
        bool vague; /* failed because something fell silent: a signal heard of later says why */
        enum request_error code; /* of the failure, for the opener */
        char why[512];
        json_t *changed; /* launch's list of files that the host may execute */
        json_t *kept_out; /* launch's list of git configurations that were not carried back whole */
        long long changed_more; /* files beyond that list */
        struct reply closers[SESSION_CLOSERS];
};

struct session_options {
        uint64_t owner;
        struct reply reply;
        const char *proxy, *no_proxy, *path;
};
/* Starts it. 0: the reply is answered later; -1: with the reason, the workspace is failed or unchanged. */
int session_open(struct workspace *ws, const struct session_options *o, enum request_error *code, struct err *err)
        __attribute__((warn_unused_result));
/* Ends it by request; `reply` is answered when everything is gone. force: no grace for the guest. */
void session_close(struct workspace *ws, const char *why, bool force, struct reply reply);
/* Ends it because of a failure. Texts are raw: they are escaped once, here. */
void session_fail(struct workspace *ws, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void session_fail_code(struct workspace *ws, enum request_error code, const char *text);

/* Something of it ended. */
void session_lost(struct workspace *ws, struct program *p, const char *why);
void session_events_ended(struct workspace *ws, const char *door);
/* One of its account doors is gone. */
void session_check_gone(struct session *s);
/* A non-blocking socket pair. */
int session_stream_pair(int pair[2]) __attribute__((warn_unused_result));
/* An outer door's start message, without its descriptors. */
json_t *session_outer_start(const struct session *s, const char *account);

/* From brome-spawn. True when `id` was one of this session's. */
bool session_exited(struct workspace *ws, uint64_t id, int status, const char *never_ran);

/* Brings the workspace's present rules to the doors; `reply` (may be empty) is answered when both acknowledged. Busy with another change:
 * this one follows it; a second reply that would wait for that is refused. */
void session_policy(struct workspace *ws, struct reply reply, const char *what);
/* The journal stopped or started to take records. */
void session_journal(struct workspace *ws, bool refusing);

/* Requests. Each answers `reply` now or later. */
void session_exec(struct workspace *ws, const struct request *r, struct reply reply);
void session_forward(struct workspace *ws, uint16_t port, struct reply reply);
void session_freeze(struct workspace *ws, bool freeze, struct reply reply);
void session_stats(struct workspace *ws, struct reply reply);
/* Tripped: flows refused, gateway shut, guest stopped; whatever was under way. */
void session_stand_still(struct session *s);
/* A person decided to continue: the doors get the decision, then the guest goes on; `reply` is answered then. */
void session_continue(struct session *s, struct reply reply);
/* Tells the doors that a grant is gone; `reply` of the last revocation is answered by session_revoke_reply. */
void session_revoke(struct session *s, bool rule, const char *name, const char *host, uint16_t port);
void session_revoke_reply(struct session *s, struct reply reply);
void session_revoke_answered(struct session *s, unsigned count, long long cut);

/* session_talk.c: what the programs say, and the next step when all is there for it. */
program_heard session_heard_inner, session_heard_outer, session_heard_launch;
void session_advance(struct session *s);
/* Starts the deadline of a stage anew. */
void session_stage(struct session *s);
void session_change_begin(struct session *s, int policy);
/* An outer door confirmed, or is gone: the inner door's turn when it was the last. */
void session_change_settled(struct session *s);
/* The answer to rules.show (in commands.c): `stats` is the inner door's message, or NULL. */
void commands_rules(struct workspace *ws, struct reply *reply, json_t *stats);
/* The session of a workspace that is to be wiped is over (in commands_accounts.c). */
void commands_wiped(struct workspace *ws);

#endif
