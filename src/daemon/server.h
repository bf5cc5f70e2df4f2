/* The control socket: accepts clients that are the user's own and on this side of every namespace, reads their requests, sends answers. */
#ifndef BROME_DAEMON_SERVER_H
#define BROME_DAEMON_SERVER_H

#include "base/err.h"
#include "control/request.h"
#include "daemon/daemon.h"
#include <jansson.h>

/* Listens on $BROME_RUNTIME/bromed.sock, replacing a left-over socket (the lock is held). NULL with the reason. */
struct server *server_open(struct daemon *d, struct err *err) __attribute__((warn_unused_result));
void server_close(struct server *s);

/* Answers and forgets the reply. Takes body; fds borrowed. A client that is gone, or does not read, gets nothing. */
void reply_send(struct daemon *d, struct reply *reply, json_t *body, const int *fds, size_t fd_count);
void reply_error(struct daemon *d, struct reply *reply, enum request_error code, const char *text);
void reply_done(struct daemon *d, struct reply *reply);
/* A sentence of progress; the reply stays. */
void reply_progress(struct daemon *d, const struct reply *reply, const char *step);

/* The client of this reply is told of everything of the workspace (NULL: of all) from now on; hears: it shows it to nobody who could answer. False: it watches already. */
bool server_watch(struct daemon *d, const struct reply *reply, const char *workspace, bool hears);
/* Is anybody there to be asked? */
bool server_watched(const struct daemon *d, const char *workspace);
/* To this one alone. Takes body. */
void server_notice_one(struct daemon *d, const struct reply *reply, json_t *body);
/* To whoever watches. Takes body (NULL is fine). */
void server_notice(struct daemon *d, const char *workspace, json_t *body);

/* brome-spawn's word on a peer. */
void server_peer(struct daemon *d, uint64_t id, const char *refusal);

/* One request of a client that was let in (commands.c); must answer `reply` now or keep it. The message's descriptors may be taken. */
struct chan_msg;
void command_run(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply reply);
/* A client is gone: what it owned ends. */
void command_client_gone(struct daemon *d, uint64_t client);

#endif
