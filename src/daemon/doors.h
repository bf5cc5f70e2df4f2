/* Account doors: one brome-outer for each account of a session, started when the inner door first asks for it, with the secret over a pipe.
 *
 *  starting  asked for, has its first policy; the inner door waits for its link
 *  serving   ready, with the newest policy; the inner door has the link
 *  ending    its channel is closed; its last records are read and its end is waited for. Another one of the same account may start meanwhile
 *
 * The end of an account door is not the end of its session: its flows are closed with it, and it is asked for again. One that misbehaves ends the session. */
#ifndef BROME_DAEMON_DOORS_H
#define BROME_DAEMON_DOORS_H

#include "control/request.h"
#include "daemon/program.h"
#include "daemon/record.h"

struct session;
struct account_door {
        struct program program; /* first: a program is its door */
        struct account_door *next;
        struct record_door events;
        char account[REQUEST_NAME_BYTES];
        uint64_t sent, acked; /* generations of the policy */
        unsigned acks_due;
        bool said_ready, serving, ending;
        int link;             /* the inner door's end, until it is handed over; -1 */
        unsigned revokes_due; /* sent, not answered */
        struct event *deadline, *done;
};

/* The inner door waits for the account's door. It gets none while the workspace is compromised: no secret is handed out then. */
void doors_want(struct session *s, const char *account);
/* Sends the session's change to every door; those whose account is gone end. */
void doors_policy(struct session *s);
/* Has every serving door acknowledged the change? */
bool doors_settled(const struct session *s);
/* The one that has not, for a message. */
const char *doors_unsettled(const struct session *s);
/* Ends the doors of an account (NULL: of all whose secret comes from the vault); they start again with what is then the secret. */
void doors_end(struct session *s, const char *account);
/* The session ends: all channels are closed. */
void doors_hang_up(struct session *s);
bool doors_all_gone(const struct session *s);
/* brome-spawn's word on one of them. */
bool doors_exited(struct session *s, uint64_t id, int status, const char *never_ran);
void doors_kill(struct session *s);
void doors_resume(struct session *s);
void doors_free(struct session *s);
/* A grant is gone: those that may hold it are told. How many. */
unsigned doors_revoke(struct session *s, bool rule, const char *name, const char *host, uint16_t port);

/* What they say. */
bool doors_heard(struct program *p, struct chan_msg *msg);

#endif
