/* The processes of a workspace as PID 1 sees them: starting one, signalling groups and sessions, ending everything. The only part of brome-guest
 * that forks or kills, so that the state machine (guest.c) can be driven without a single process. */
#ifndef BROME_GUEST_PROCESS_H
#define BROME_GUEST_PROCESS_H

#include "guest/proto.h"
#include <stdint.h>
#include <sys/types.h>

struct process {
        pid_t pid;   /* leader of its own session and process group */
        int started; /* readable: nothing before the end means the program runs, else a struct process_failure */
        int in, out, err; /* our ends, non-blocking; on a terminal in and out are two descriptors of its master, err is -1 */
        int slave;   /* a terminal only: our hold on the program's side, so that the master does not report a hang-up while the program lives */
};
struct process_failure {
        int errno_value;
        int step; /* enum process_step */
};
#define PROCESS_NONE ((struct process){ .pid = -1, .started = -1, .in = -1, .out = -1, .err = -1, .slave = -1 })

/* Starts the program. 0; -1 with *failure when it could not even be forked. */
int process_start(const struct proto_exec *exec, struct process *out, struct process_failure *failure) __attribute__((warn_unused_result));
const char *process_step_text(int step); /* a sentence for FAILED */
void process_close(struct process *p);   /* every descriptor; the pid stays */

void process_resize(const struct process *p, uint16_t rows, uint16_t cols);
/* The end-of-file character of the terminal when it has that meaning now, else -1. */
int process_eof_char(const struct process *p);
/* To the foreground process group of the terminal, or to the program's own group. */
void process_signal(const struct process *p, int signal_number);
/* To every process of the session that pid leads or led. Returns how many there were. */
int process_signal_session(pid_t pid, int signal_number);
/* To every process of the workspace but us. Only as PID 1 (false otherwise): anywhere else it would be the host's. */
bool process_signal_all(int signal_number);

/* Begins a connection to a server of the workspace: 127.0.0.1 or, v6, ::1. out->started is writable when it is decided. 0; -1 with errno. */
int process_connect(uint16_t port, bool v6, struct process *out) __attribute__((warn_unused_result));
/* Decided: 0 when it stands, else why not. */
int process_connected(const struct process *p);
/* No more input: a connection's other end hears it and may go on sending. Closes p->in. */
void process_end_input(struct process *p, bool connection);

/* Reaps one ended child: 1 with *pid and *status; 0: none has ended; -1: there is no child at all. */
int process_reap(pid_t *pid, int *status);

#endif
