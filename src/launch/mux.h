/* Many streams, of execs and of connections, over the one channel to the guest (src/guest/proto.h).
 *
 * A client's socket carries frames of stream 0; on the guest's channel each of them has its own number. The mux only renumbers, counts windows on
 * both sides, and trusts neither: a guest that breaks the protocol ends the session, a client that does loses its stream.
 * The guest's channel is always read. What waits for a slow client is bounded by its window, what waits for the guest by not reading clients. */
#ifndef BROME_LAUNCH_MUX_H
#define BROME_LAUNCH_MUX_H

#include "base/err.h"
#include "guest/proto.h"
#include <poll.h>

enum {
        MUX_FDS = 1 + PROTO_STREAMS,
        MUX_GUEST_OUT_HIGH_BYTES = 512 * 1024,      /* above it clients are not read */
        MUX_GUEST_OUT_BYTES = 32 * 1024 * 1024,     /* the high mark, one frame of each client, window returns; beyond it the guest has stopped reading */
        MUX_CLIENT_OUT_BYTES = 5 * 1024 * 1024,     /* two windows in frames of one byte; a guest that makes more is broken */
        MUX_CONNECTIONS = 128,                      /* of the streams: half, so that browsers do not keep a person from a shell */
        MUX_READ_BYTES = 64 * 1024,                 /* one turn's read: a whole frame and what came with it */
};

struct mux_events {
        void *arg;
        void (*ready)(void *arg, struct slice notes);           /* the guest is ready for execs; its sentences, one a line, as it sent them */
        void (*ended)(void *arg, long long id, uint32_t status); /* wait status; 127 << 8 for what could not be started */
};

struct mux;

/* Borrows the guest's channel (non-blocking). */
struct mux *mux_new(int guest_fd, struct mux_events events);
/* The payload of SETUP; without it, an empty one. Before the first turn. 0; -1: out of memory. */
int mux_setup(struct mux *m, struct slice payload) __attribute__((warn_unused_result));
void mux_free(struct mux *m);
/* Starts a program; *client_fd (the caller's, to be passed on) is the other end of its stream. 0; -1 with a reason for the user. */
int mux_exec(struct mux *m, long long id, const struct proto_exec *exec, int *client_fd, struct err *err) __attribute__((warn_unused_result));
/* Opens a connection to a port of the guest's loopback, likewise. `ended` is called for it as for a program. */
int mux_connect(struct mux *m, long long id, uint16_t port, int *client_fd, struct err *err) __attribute__((warn_unused_result));
void mux_shutdown(struct mux *m, uint32_t grace_ms);
/* To a machine that stood still: what time it is (real, in µs), and fresh bytes for its random pool. */
void mux_clock(struct mux *m, int64_t now_us, const uint8_t seed[PROTO_SEED_BYTES]);
/* Fills fds (MUX_FDS) for poll, then, polled, does what they allow. -1: the guest is gone or broke the protocol. */
size_t mux_wants(struct mux *m, struct pollfd *fds);
int mux_turn(struct mux *m, const struct pollfd *fds, size_t count, struct err *err) __attribute__((warn_unused_result));
/* It has said hello. */
bool mux_greeted(const struct mux *m);
/* The guest is gone: from now on only what waits for clients is sent. */
void mux_guest_gone(struct mux *m);
/* Its channel has come to its end, other than by breaking the protocol: whoever held it is ending. */
bool mux_channel_ended(const struct mux *m);
bool mux_guest_is_gone(const struct mux *m);
/* Nothing waits for a client any more. */
bool mux_idle(const struct mux *m);

#endif
