/* The state machine of PID 1: frames in, processes and frames out. Owns the channel's buffers and every exec; knows nothing of signals or namespaces.
 *
 * Memory is bounded: output is read from a program only while its window is open and little waits to be sent (GUEST_OUT_HIGH_BYTES); frames are
 * taken only under the same condition; input of a program is bounded by its window. So a peer that does not read stops itself. */
#ifndef BROME_GUEST_GUEST_H
#define BROME_GUEST_GUEST_H

#include "guest/process.h"
#include "guest/proto.h"
#include <poll.h>

enum {
        GUEST_OUT_HIGH_BYTES = 256 * 1024,   /* waiting to be sent: above it nothing more is read from anywhere */
        GUEST_OUT_BYTES = 1024 * 1024,       /* the high mark, one more frame of output and the small answers of every stream */
        GUEST_IN_BYTES = 64 * 1024,          /* a whole frame and what came with it */
        GUEST_ACK_BYTES = 32 * 1024,         /* give window back in pieces of this size, not for each key stroke */
        GUEST_CLOSE_GRACE_MS = 3000,         /* between hanging up and killing: as long as an editor needs to save */
        GUEST_CONNECT_MS = 10 * 1000,        /* to a server on the loopback that does not even accept: its queue is full */
        GUEST_SHUTDOWN_MAX_MS = 60 * 1000,
        GUEST_FLUSH_MS = 1000,               /* after the last process: for the last output to go */
        GUEST_SETUP_BYTES = 512 * 1024,      /* as vm/setup.h; a namespace's is empty */
        GUEST_POLL_FDS = 4 * PROTO_STREAMS, /* started, in, out, err */
};

enum guest_phase {
        GUEST_HELLO, /* said hello, waits for the host's; legal: HELLO */
        GUEST_SETUP, /* legal: SETUP, in pieces */
        GUEST_READY, /* everything but HELLO and SETUP */
        GUEST_STOPS, /* SHUTDOWN came: no EXEC is started any more; until the last process is gone */
        GUEST_FAILS, /* FAILED is on its way; nothing is read any more */
};
enum guest_result {
        GUEST_GOES_ON,
        GUEST_ENDS,
        GUEST_KNOCKED, /* a machine: another host is at the port; start over */
        GUEST_BROKEN,  /* the host broke the protocol, or memory is out */
};

enum exec_state {
        EXEC_FREE,
        EXEC_PIECES,   /* the request is being put together */
        EXEC_STARTING, /* forked, the program has not been entered; or connecting */
        EXEC_RUNNING,
        EXEC_ENDED,    /* the main process is reaped; its output is being sent */
        EXEC_LINGERS,  /* closed and reaped, but others of its session live: killed at kill_at_ms; the stream is over */
};
struct exec {
        enum exec_state state;
        uint32_t stream;
        uint16_t port;          /* a connection to it; 0: a program */
        bool v6;                /* ::1 is tried, 127.0.0.1 was refused */
        struct buf bytes;       /* the pieces, then the input on its way to the program */
        struct process process;
        bool input_ends;        /* close (or end-of-file character) after the bytes */
        bool line_open;         /* terminal: the last byte written was not a newline */
        bool reaped, closed;
        int status;
        uint32_t consumed;      /* input not yet given back as window */
        uint32_t window[2];     /* what the host still takes of STDOUT and STDERR */
        uint32_t drain_bytes[2];
        int64_t kill_at_ms;     /* 0: none */
};
struct guest_wait {
        uint16_t exec; /* index of the exec that waits */
        uint8_t which; /* enum wait_kind of guest.c */
};
/* What a machine does that a namespace has no need of. NULL in a namespace: its SETUP is empty, its clock the host's. */
struct guest_machine {
        /* 0, *text: what READY says besides (printable sentences, one a line; or ""); -1, *text: why not, a sentence. Kept until the next call, which comes
         * when the port has come back. */
        int (*set_up)(struct slice payload, const char **text);
        void (*clock)(uint64_t us, const uint8_t *seed);
};
struct guest {
        enum guest_phase phase;
        const struct guest_machine *machine;
        struct buf in, out, setup;
        uint32_t last_stream;
        bool childless;
        bool knocked; /* CLOSE on stream 0: nothing more is done for this host */
        int64_t hang_up_at_ms, kill_at_ms; /* GUEST_STOPS */
        int64_t leave_at_ms; /* GUEST_STOPS: childless since then; GUEST_FAILS: the sentence goes until then */
        struct exec execs[PROTO_STREAMS];
        struct guest_wait waits[GUEST_POLL_FDS]; /* beside the descriptors that guest_wants filled in */
        uint8_t scratch[PROTO_PAYLOAD_BYTES];
};

/* Puts HELLO into g->out. machine: static, or NULL. */
int guest_init(struct guest *g, const struct guest_machine *machine) __attribute__((warn_unused_result));
void guest_fini(struct guest *g);
/* Channel side: append to g->in (guest_in_room bytes at most), take from g->out. */
size_t guest_in_room(const struct guest *g);
/* Fills fds[0 … GUEST_POLL_FDS - 1]; returns the count. *timeout_ms: -1 or when guest_turn has to be called at the latest. */
size_t guest_wants(struct guest *g, struct pollfd *fds, int64_t now_ms, int *timeout_ms);
/* One turn: frames, the ready descriptors (as filled by guest_wants and then polled), drains, deadlines. */
enum guest_result guest_turn(struct guest *g, const struct pollfd *fds, size_t count, int64_t now_ms);
void guest_reaped(struct guest *g, pid_t pid, int status);

#endif
