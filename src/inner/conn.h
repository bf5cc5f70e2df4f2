/* One byte stream with the guest: a TCP socket, plain or with TLS on top, and its two queues.
 *
 * The one idea: whoever serves the flow (classifier, HTTP/1, HTTP/2, splice, DNS) sees plain bytes and two queues and never a socket.
 * Writes are gathered and go out once per turn of the loop. A callback may close anything: what is closed is freed at the turn's end. */
#ifndef BROME_INNER_CONN_H
#define BROME_INNER_CONN_H

#include "base/buf.h"
#include "base/slice.h"
#include "tls/cipher.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <sys/queue.h>

struct conn;
struct conn_ops {
        /* Unread bytes, oldest first. Advances *in over what it used; the rest is kept and shown again with more. */
        void (*data)(struct conn *c, struct slice *in);
        void (*eof)(struct conn *c);              /* the guest sent its last byte; comes after all data was used */
        void (*drained)(struct conn *c, size_t unsent_bytes); /* some of the out queue was taken by the socket */
        void (*failed)(struct conn *c, const char *why); /* reset, or TLS broken; why is for the log. The owner closes */
        void (*tls_ready)(struct conn *c);        /* handshake done (NULL when TLS is never set on) */
};

struct conn {
        int fd;
        SSL *ssl;
        const struct conn_ops *ops;
        void *owner;
        struct event ev_read, ev_write;
        struct buf in;    /* shown to `data`, not yet used */
        struct buf out;   /* plain bytes to be sent */
        struct cipher cipher; /* below ssl */
        bool reading;     /* ev_read is on */
        bool writing;     /* ev_write is on */
        bool paused;      /* the owner does not want more now */
        bool eof, eof_told;
        bool fin_wanted, fin_sent;
        bool handshaking;
        bool broken;      /* sending failed; the owner is still to be told */
        bool dirty;       /* on the turn's list */
        bool in_data;
        bool dead;
        TAILQ_ENTRY(conn) link;
};

/* Takes fd (non-blocking). Reading starts at once. 0 or -1. */
int conn_open(struct conn *c, struct event_base *base, int fd, const struct conn_ops *ops, void *owner) __attribute__((warn_unused_result));
/* Closes; with reset the guest gets an RST. Idempotent. The memory is the owner's, to be freed after conn_turn_end. */
void conn_close(struct conn *c, bool reset);
/* Changes who serves it; bytes kept are shown to the new owner by conn_resume. */
void conn_serve(struct conn *c, const struct conn_ops *ops, void *owner);
/* Sets TLS on, from within `data`: `ssl` is taken; the bytes of *in (all of them) go to it first. 0 or -1 (memory). */
int conn_start_tls(struct conn *c, SSL *ssl, struct slice *in) __attribute__((warn_unused_result));
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);
/* Asks for a flush at the end of the turn; call after adding to c->out. */
void conn_touch(struct conn *c);
/* Adds to c->out and asks for the flush; of many bytes under TLS only what the socket does not take now. 0, or -1 when memory is out. */
int conn_send(struct conn *c, struct slice s) __attribute__((warn_unused_result));
/* Half close once everything is sent. */
void conn_finish(struct conn *c);
/* Flushes every touched connection. Call once per turn. */
void conn_turn_end(void);
/* Reset before anything else is done with an accepted socket (SO_LINGER 0). */
void conn_reset_fd(int fd);

#endif
