/* One HTTP connection of the pool and its two kinds. pool.c owns it; h1.c and h2.c speak. */
#ifndef BROME_OUTER_HTTP_H
#define BROME_OUTER_HTTP_H

#include "outer/conn.h"
#include "outer/exchange.h"
#include "outer/pool.h"

struct http;

struct http_ops {
        int (*start)(struct http *h);                     /* the connection is open. 0 or -1 */
        bool (*can_take)(const struct http *h);           /* one more exchange? */
        void (*take)(struct http *h, struct exchange *ex); /* attaches it */
        void (*readable)(struct http *h);
        void (*writable)(struct http *h);
        void (*broken)(struct http *h, const char *detail); /* fails or gives back what it carries */
        void (*fini)(struct http *h);
};

struct http {
        const struct http_ops *ops; /* NULL until open */
        struct conn *conn;
        struct pool *pool;
        struct origin *origin;  /* NULL: alone */
        struct exchange *alone; /* the one exchange this connection was made for (WebSocket), until it is taken */
        struct http *prev, *next;           /* of the origin */
        struct http *idle_prev, *idle_next; /* of the pool, while idle */
        bool is_idle, retired, dead;
        struct turn_item grave;             /* freed at the end of the turn, so that it may be dropped in the middle of its own work */
        unsigned active;
        uint64_t served;
        uint64_t era;                       /* of the pool, when it was made */
        struct event *idle_timer;
        union {
                struct h1 *h1;
                struct h2 *h2;
        };
};

extern const struct http_ops h1_ops, h2_ops;

/* --- pool.c, for the kinds --- */
/* Nothing is active any more: keep it for the next, if it may be kept. */
void http_idle(struct http *h);
/* It has room again. */
void http_room(struct http *h);
/* Takes no more; closes when nothing is active. */
void http_retire(struct http *h);
/* Closes and forgets it; carries nothing any more. */
void http_drop(struct http *h);
/* Why an exchange is sent once more. */
enum again {
        AGAIN_STALE,    /* the kept connection was closed before anything came back, or the server wants nothing more over it */
        AGAIN_REFUSED,  /* not taken by a connection that took others: each time fewer are left (RFC 9113 §6.8) */
};
/* Gives an exchange back to be sent over another connection; the kind has let go of it, and h takes nothing more. */
void http_retry(struct http *h, struct exchange *ex, enum again why);
/* Can the origin serve WebSockets over this HTTP/2 connection? (h2.c) */
bool h2_can_connect(const struct http *h);

#endif
