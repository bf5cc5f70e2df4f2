/* The requests of the control socket: what commands.c and commands_accounts.c share. */
#ifndef BROME_DAEMON_COMMANDS_H
#define BROME_DAEMON_COMMANDS_H

#include "base/buf.h"
#include "daemon/server.h"
#include "daemon/workspace.h"

/* Answers *reply now, or copies it to where it is answered later. Descriptors of the request are taken by setting its slot in *msg to -1. */
typedef void command_fn(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply);

/* The workspace that the request names; NULL when it was refused. */
struct workspace *command_named(struct daemon *d, const struct request *r, struct reply *reply);
void command_refuse_config(struct daemon *d, struct reply *reply, const struct diags *errors);
/* A text descriptor of a client. 0, or answered with an error. */
int command_text(struct daemon *d, struct reply *reply, int fd, struct buf *out) __attribute__((warn_unused_result));

/* commands_accounts.c */
command_fn do_session_needs, do_workspace_wipe, do_secret_give, do_vault, do_vault_create, do_vault_unlock, do_vault_lock, do_vault_put, do_vault_rm,
        do_credentials, do_accounts, do_approvals, do_approvals_answer, do_watch, do_alerts;

#endif
