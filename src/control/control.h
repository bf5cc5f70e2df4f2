/* The client's end of the control socket (docs/CONTROL.md): finds bromed, starts it when it does not run, asks and waits for answers.
 *
 * Whoever connects trusts only a socket in a runtime folder that nobody else may enter, with a process of the same user behind it. Starting
 * is done under a lock of its own, so that ten commands at once start one daemon and none of them polls. Blocking; for programs without a
 * loop. Never prints: the caller shows err.text through its own output (texts of the daemon are escaped here). */
#ifndef BROME_CONTROL_CONTROL_H
#define BROME_CONTROL_CONTROL_H

#include "base/chan.h"
#include "base/err.h"
#include "base/paths.h"

enum {
        CONTROL_VERSION = 1,             /* of the messages; another one is refused with the way out */
        CONTROL_START_MS = 20 * 1000,    /* bromed must say within this time that it listens (a large journal is checked first) */
        CONTROL_HELLO_MS = 5 * 1000,     /* first answer */
        CONTROL_ANSWER_MS = 180 * 1000,  /* silence between two messages of one request; opening has deadlines of its own below it */
        CONTROL_READY_BYTES = 4096,      /* what bromed says on its ready pipe: "ok" or the reason */
};

struct control {
        int fd;             /* -1: not connected; may be polled by the caller for exec streams that outlive a request */
        long long last_id;  /* of requests */
        long long pid;      /* bromed's */
        char build[32];     /* bromed's */
        char config[PATH_MAX]; /* the configuration bromed reads */
};

struct control_options {
        const struct paths *paths;
        bool start;         /* start bromed when none answers */
        const char *config; /* --config, or NULL: passed on when starting, compared with what a running daemon reads */
};

/* 0 and *c open; 1: no daemon runs and start was not asked for; -1 with the reason. */
int control_connect(struct control *c, const struct control_options *options, struct err *err) __attribute__((warn_unused_result));
/* Ends the connection; a throw-away session that it opened ends with it. Safe on { .fd = -1 } and twice. */
void control_close(struct control *c);

/* A sentence of progress, escaped. */
typedef void control_progress_fn(void *ctx, const char *step);

enum { CONTROL_REFUSED = 1 };
/* Sends one request and waits for its answer. `body` (reference taken; NULL for none) holds the members besides op and id; fds are borrowed
 * and named by the comma-free words of `fd_names` ("text"), NULL when there are none.
 * 0: *answer holds it (chan_msg_fini). CONTROL_REFUSED: bromed said no; *answer is the error (code, errors) and err has its text, escaped.
 * -1: the connection is lost; *answer is empty. */
int control_call(struct control *c, const char *op, json_t *body, const int *fds, const char *const *fd_names, size_t fd_count,
                 control_progress_fn *progress, void *ctx, struct chan_msg *answer, struct err *err) __attribute__((warn_unused_result));
/* The same without descriptors and progress. */
int control_ask(struct control *c, const char *op, json_t *body, struct chan_msg *answer, struct err *err)
        __attribute__((warn_unused_result));

#endif
