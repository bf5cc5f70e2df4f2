/* The client's side of one exec: a terminal or three files here, frames of guest/proto.h with stream 0 to brome-launch there.
 *
 * Without a pty it behaves like the command itself: SIGINT, SIGTERM, SIGHUP, SIGQUIT are passed on, stopping it (^Z) stops both. With a pty the local
 * terminal is raw and job control happens inside; output passes the terminal filter; on every way out, crashes included, the terminal's
 * modes are put back, what the guest left on is switched off, and typed-ahead input is dropped, so that it does not reach the shell.
 * A question of bromed's is asked here: the program's output is held, what was typed ahead is dropped, and the answer goes to bromed alone (question.h).
 * Everything that arrives is hostile: windows are enforced, text of failures is escaped. */
#ifndef BROME_ATTACH_ATTACH_H
#define BROME_ATTACH_ATTACH_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/* A connection to bromed on which `watch` was asked: what needs a person comes over it, and the answers go back. The descriptor is the caller's. */
struct attach_watch {
        int fd;
        long long *last_id;            /* of requests on it */
        void (*note)(const char *text); /* one printable line, where there is no terminal to ask on */
        bool leaves;                    /* after the tripwire nothing waits for a person's decision: ATTACH_TRIPPED */
};

struct attach_options {
        bool pty;         /* what the exec request said; raw mode only if 0 and 1 are terminals as well */
        struct err *err;  /* why it failed; NULL: printed to standard error as "brome: …" */
        const struct attach_watch *watch; /* NULL: nobody asks */
};

/* The size of the terminal for the exec request; false (and 24 × 80) when standard output is none. */
bool attach_terminal_size(uint16_t *rows, uint16_t *cols);
/* Are standard input and output terminals, so that a pty makes sense? */
bool attach_wants_pty(void);

enum {
        ATTACH_TRIPPED = 123,
        ATTACH_CANNOT_RUN = 126, /* as a shell says it */
        ATTACH_NOT_FOUND = 127,
        ATTACH_LOST = 125,       /* the stream ended before the program did, or carried nonsense */
};
/* Takes stream_fd (closes it); relays descriptors 0, 1, 2. Handles signals meanwhile and restores the handlers. Not reentrant.
 * Returns the exit status: the program's, 128 + its signal, 128 + ours when a signal ended the session, or one of the above. */
int attach_run(int stream_fd, const struct attach_options *options);

#endif
