/* One conversation with bromed for commands that open sessions and run commands in them. */
#ifndef BROME_CLI_SESSION_H
#define BROME_CLI_SESSION_H

#include "cli/cli.h"
#include "control/control.h"

/* Connects, starting the daemon when `start`. 0, or the exit code after printing the reason. */
int session_connect(struct cli *cli, struct control *c, bool start);
/* session_connect, one request without descriptors, close. The answer is the caller's (chan_msg_fini) when the result is EXIT_OK. */
int session_ask(struct cli *cli, const char *op, json_t *body, struct chan_msg *answer);
/* As control_call with one text descriptor, printing progress that takes longer than a second and every error of the daemon's list. */
int session_call(struct cli *cli, struct control *c, const char *op, json_t *body, struct slice text, struct chan_msg *answer);
/* The same with a descriptor of that name (borrowed; -1: none). */
int session_call_fd(struct cli *cli, struct control *c, const char *op, json_t *body, const char *name, int fd, struct chan_msg *answer);

/* Members of session.open, with what this environment says of proxies and of where programs are. workspace: NULL for a block. */
json_t *session_open_body(const char *workspace, bool keep, bool rm);
struct session_opening {
        const char *workspace, *name; /* a saved one's, or NULL; the name in any case */
        bool keep, rm;
        struct slice block;
};
enum { SESSION_AGAIN = -2 }; /* of session_call: said, and worth the same request once more */
/* session.open; a machine that KVM does not bring up is started once more, emulated. */
int session_open(struct cli *cli, struct control *c, const struct session_opening *o, struct chan_msg *answer);
/* Of the answer to session.open: what of the isolation does not hold here, a note each. */
void session_warnings(const struct chan_msg *answer);

/* --share, --env, --allow and friends as the block of a workspace. */
struct session_options {
        const char *allow[64], *share[32], *env[64], *credential[64];
        size_t allow_count, share_count, env_count, credential_count;
        const char *memory, *processes, *cwd, *agent, *isolation;
};
/* A machine is about to start from the current image: makes it, with its progress, when there is none. workspace: a saved one, or NULL.
 * EXIT_OK, or an exit code after printing the reason. */
int image_first(struct cli *cli, const char *workspace);
/* The same for a saved workspace, of whichever kind: bromed says what it is. */
int session_image(struct cli *cli, struct control *c, const char *workspace);
/* A string of the configuration language, in quotes. */
void session_string(struct buf *out, const char *s);
/* 0, or an exit code after printing what is wrong. */
int session_block(struct cli *cli, const struct session_options *o, const char *name, struct buf *out);

/* Says that the workspace is in this state and not running, and the way out. An exit code. */
int session_not_running(const char *workspace, const char *state);

struct session_exec {
        const char *workspace, *cwd;
        const char *const *argv; /* NULL terminated */
        const char *const *env;  /* NAME=VALUE */
        size_t env_count;
        bool pty;
        bool owns; /* the session ends with the command: nobody is left to decide for it after a trip, unless a person watches */
};
/* Starts it; *fd is the caller's: its stream (attach/stream.h). 0, or the exit code after printing the reason. */
int session_stream(struct cli *cli, struct control *c, const struct session_exec *e, int *fd);
/* Runs it over the connection and passes its exit status through. */
int session_exec(struct cli *cli, struct control *c, const struct session_exec *e);
/* Of the answer to session.close: what changed in the shares that the host may execute, and what of git's configuration was not carried back. */
void session_aftermath(const struct cli *cli, const struct chan_msg *answer);
/* What was refused in that session, and the rule that would allow each, on standard error. */
void session_refusals(struct cli *cli, const char *workspace, uint64_t session);

#endif
