/* A connection to an origin: name → addresses → dial → (upstream proxy) → (TLS) → bytes. It knows nothing of HTTP.
 *
 * Bytes to send are appended to conn->out and go out once at the end of the turn; bytes received stand in conn->in until the owner
 * consumes them. The owner closes it; it is freed at the end of the turn, so that it may be closed in the middle of anything. */
#ifndef BROME_OUTER_CONN_H
#define BROME_OUTER_CONN_H

#include "outer/outer.h"
#include "outer/turn.h"
#include "rules/reasons.h"
#include "tls/cipher.h"
#include "wire/authority.h"
#include <openssl/types.h>

struct conn;

struct conn_owner {
        /* May this address be dialled? Asked for every address before it is. */
        bool (*admit)(void *ctx, const struct addr *a);
        /* No address was admitted; `a` is one of them. The connection is closed by the owner, as in failed. */
        void (*refused)(void *ctx, const struct addr *a);
        void (*opened)(void *ctx);
        /* Before it was open. detail: to be escaped. */
        void (*failed)(void *ctx, enum reason reason, const char *detail);
        /* There are bytes in conn->in, or conn->eof. */
        void (*readable)(void *ctx);
        /* At the end of a turn in which conn_ask was called or the socket took bytes; conn_has_room says whether more may be written. */
        void (*writable)(void *ctx);
        /* Broken after it was open. */
        void (*broken)(void *ctx, const char *detail);
};

enum conn_state { CONN_NAME, CONN_DIAL, CONN_PROXY, CONN_TLS, CONN_OPEN, CONN_DEAD };

struct conn_plan {
        const struct authority *to; /* copied */
        bool tls;
        bool h2;          /* offer HTTP/2 */
        bool keep_session; /* remember TLS sessions */
};

struct conn {
        struct outer *outer;
        const struct conn_owner *owner;
        void *ctx;
        enum conn_state state;
        struct authority to; /* its name stands in host */
        char host[HOST_BYTES_MAX + 3];
        struct addr pinned;
        bool is_pinned, tls, h2, keep_session, by_proxy;
        uint16_t dial_port;
        struct resolve *resolve;
        struct dial *dial;
        int fd;
        SSL *ssl;
        struct cipher cipher; /* below ssl */
        struct event *readable, *writable, *deadline;
        struct buf in, out;
        bool eof, paused, shut, blocked; /* blocked: the socket takes no more for now */
        bool dry;        /* without TLS: the socket had no more when it was last read */
        bool out_broken; /* sending failed; the owner is still to be told */
        bool has_address;
        struct addr address; /* what was dialled; not set by way of a proxy */
        uint64_t received;
        struct turn_item flush, read, grave;
};

/* NULL: no memory. `opened` and the rest never come before this returns. */
struct conn *conn_new(struct outer *o, const struct conn_plan *plan, const struct conn_owner *owner, void *ctx) __attribute__((warn_unused_result));
void conn_close(struct conn *c); /* NULL is fine; the owner hears nothing more */
void conn_ask(struct conn *c);   /* something was put in conn->out, or the owner wants `writable` */
/* Appends to conn->out; of many bytes under TLS only what the socket does not take now. 0, or -1 when memory is out. */
int conn_put(struct conn *c, struct slice s) __attribute__((warn_unused_result));
/* Stops and starts reading. */
void conn_pause(struct conn *c, bool pause);
/* Sends no more after what is in conn->out (TCP half close). */
void conn_shut(struct conn *c);
bool conn_is_h2(const struct conn *c);
/* Does something stand in its socket, its end perhaps, that was not read yet? */
bool conn_has_news(const struct conn *c);
/* Is all used that came so far? Looks behind conn->in: at what TLS holds, and at whether the last read emptied the socket. */
bool conn_is_drained(const struct conn *c);
static inline bool conn_has_room(const struct conn *c) { return buf_len(&c->out) < CONN_OUT_BYTES; }

#endif
