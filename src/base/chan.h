/* Channel between two of our own processes: SOCK_SEQPACKET pair, one JSON object a message, descriptors along with it.
 * The peer may have been taken over: every message is bounded, must be one JSON object with a string "op", and a broken one ends
 * the channel. See docs/CONTROL.md for the messages. */
#ifndef BROME_BASE_CHAN_H
#define BROME_BASE_CHAN_H

#include "base/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
        CHAN_MESSAGE_BYTES = 64 * 1024, /* one message; larger things travel as a memfd */
        CHAN_FDS = 32,                  /* descriptors with one message */
};

struct chan_msg {
        json_t *body; /* an object; chan_msg_fini drops it */
        const char *op; /* body.op, borrowed */
        int fds[CHAN_FDS];
        size_t fd_count; /* take one by copying it out and setting the slot to -1 */
};

/* Both ends, close-on-exec, non-blocking. */
int chan_pair(int fds[2]) __attribute__((warn_unused_result));
/* Sends body (takes the reference) with fds (borrowed). 0; -1 with errno (EAGAIN: the peer does not read). */
int chan_send(int fd, json_t *body, const int *fds, size_t fd_count) __attribute__((warn_unused_result));
/* 1: a message in *msg; 0: nothing now (EAGAIN); -1: closed or broken, the reason in err ("closed" when the peer went away). */
int chan_recv(int fd, struct chan_msg *msg, struct err *err) __attribute__((warn_unused_result));
/* Waits up to timeout_ms, then as chan_recv (0: timed out). For the time before a loop runs. */
int chan_wait(int fd, int timeout_ms, struct chan_msg *msg, struct err *err) __attribute__((warn_unused_result));
/* Closes what was not taken. */
void chan_msg_fini(struct chan_msg *msg);

/* Typed access; a missing or mistyped member gives the default. Strings are borrowed from the message. */
const char *chan_str(const struct chan_msg *msg, const char *key, const char *otherwise);
long long chan_int(const struct chan_msg *msg, const char *key, long long otherwise);
bool chan_bool(const struct chan_msg *msg, const char *key, bool otherwise);
/* Takes descriptor number i out of the message; -1 when there is none. */
int chan_take_fd(struct chan_msg *msg, size_t i);

#endif
