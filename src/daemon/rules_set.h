/* A new set of rules for a workspace: checked as a whole, kept where the workspace's block is kept, then live. Nothing changes on an error. */
#ifndef BROME_DAEMON_RULES_SET_H
#define BROME_DAEMON_RULES_SET_H

#include "control/request.h"
#include "daemon/workspace.h"

/* 0: the workspace has them (a new generation, a Policy note); the session is the caller's to tell. -1: diagnostics, or *code and err. */
int rules_set(struct workspace *ws, struct slice rules, struct diags *errors, enum request_error *code, struct err *err)
        __attribute__((warn_unused_result));
/* Is it a regular file (a memory file is one)? */
bool rules_text_regular(int fd);
/* Every effective setting, as members of *answer. */
void describe_settings(const struct daemon *d, const struct workspace *ws, json_t *answer);

#endif
