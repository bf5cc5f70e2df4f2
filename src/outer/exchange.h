/* One stream of the link: an HTTP exchange, a WebSocket, a TCP flow, a UDP flow or echoes. It stands between the link, which brings
 * the request and takes the answer, and one upstream (a connection, a relay), which does the opposite.
 *
 * Bytes wait here in two queues, one a direction. Each side gives room back only for what was passed on, so a slow reader at one end
 * slows the writer at the other and nothing in between grows.
 *
 * An exchange is freed by the link only, when its stream closed; an upstream lets go of it with exchange_detach or by ending it. */
#ifndef BROME_OUTER_EXCHANGE_H
#define BROME_OUTER_EXCHANGE_H

#include "link/fields.h"
#include "outer/decide.h"
#include "outer/outer.h"
#include "wire/request.h"
#include "wire/response.h"

struct exchange;

/* What an upstream does when the exchange moves. All are called from the loop, never from within the upstream's own call. */
struct upstream_ops {
        void (*up)(struct exchange *ex);   /* more in ex->up, or ex->up_ended was set */
        void (*room)(struct exchange *ex); /* the link took bytes of ex->down */
        void (*abort)(struct exchange *ex); /* the guest or the policy ends it: let go of it, now */
};

enum exchange_state {
        EXCHANGE_HEAD,    /* fields are coming in */
        EXCHANGE_HELD,    /* admitted by name; waits for its body or for a person */
        EXCHANGE_WAITING, /* admitted by name; waits for a connection */
        EXCHANGE_SENT,    /* handed to a connection; no answer yet */
        EXCHANGE_ANSWERED, /* the answer's head went to the link */
        EXCHANGE_DONE,    /* nothing more comes from us: ended, refused or reset */
};

/* Where it goes, and how its body is framed: as the guest said, unless it is re-routed or the secret is put in the body. */
struct target {
        enum scheme scheme;
        struct authority authority;
        struct slice base; /* of `via`; empty: not re-routed */
        enum body_kind body;
        uint64_t length;
};

struct exchange {
        struct outer *outer;
        int32_t stream;
        uint64_t flow; /* brome-flow: the inner door's number */
        enum exchange_state state;
        enum exchange_kind kind;
        struct arena arena;
        struct request req; /* brome-* and framing fields taken out */
        struct decision decision; /* the last one */
        struct target to;
        struct {
                uint64_t id;                      /* of the question that is open; 0: none */
                bool asks_rule;                   /* that question is the rule's */
                bool rule_agreed, account_agreed;
                struct slice rule, host;          /* what a rule's question is about: its text, the host as the guest names it */
        } consent;
        bool secret_went;                  /* the secret was written in the request */
        struct account_field secret_field; /* where in its head; slot SLOT_COUNT: not there */

        struct buf up;          /* request bytes that the upstream did not take yet */
        bool up_ended;          /* all of the request is here */
        struct buf up_taken;    /* what the upstream took, for the case that it has to be sent once more */
        bool up_lost;           /* some of that is not kept: it cannot be */
        uint64_t up_bytes;      /* came in so far */
        size_t up_charged;      /* of them, not given back to the link's windows */
        struct swapping *swap;  /* NULL: they go on as they come */
        struct reading *reading; /* NULL: no profile */
        struct headers up_trailers;

        struct buf down; /* answer bytes that the link did not take yet */
        bool down_ended, down_deferred;
        struct headers down_trailers;
        unsigned interim;
        struct answer *answer;  /* NULL: it goes on as it comes */
        size_t down_raw_bytes;  /* waits there */
        struct headers own;     /* brome-* fields of the answer, beside those that every one has */

        const struct upstream_ops *ops; /* NULL: nobody */
        void *upstream;
        bool has_address;
        struct addr address; /* what the connection was made to */
        unsigned retries, refusals; /* sent once more: because a kept connection was stale; because the server had not taken it and took others */
        struct exchange *prev, *next;           /* all of the link */
        struct exchange *queue_prev, *queue_next; /* the upstream's own list */
        int64_t queued_ms;                        /* when it began to wait for a connection */
        int64_t pooled_ms;                        /* when it first did */

        struct field_list block; /* of the request, then of its trailers, while it comes in */
};

/* The head is complete and well formed: judge it by name and send it on its way, or refuse it. */
void exchange_start(struct exchange *ex);
/* Held no more, or nothing held it: on its way, as far as it may go. */
void exchange_go(struct exchange *ex);
/* Is the account used in it, or may it be? */
bool exchange_uses_account(const struct exchange *ex, const struct decision *d);
/* Request bytes from the link. 0; -1: the exchange was ended. */
int exchange_up_add(struct exchange *ex, struct slice bytes) __attribute__((warn_unused_result));
/* The request's end. */
void exchange_up_end(struct exchange *ex);
/* It is on its way as it was judged: would this later judgement have sent it the same way, and is what it wants agreed to? */
bool exchange_fits(struct exchange *ex, const struct decision *d);
/* What was let through is let through no more. False: nothing was left to cut. */
bool exchange_cut(struct exchange *ex, enum reason reason, const char *why);
/* What the policy says of it now, its body so far included. */
void exchange_judge(const struct exchange *ex, const struct addr *resolved, struct decision *d);
/* Judges again by what the policy is now (and the address, where known). False: it was refused and is done. */
bool exchange_admit(struct exchange *ex, const struct addr *resolved);
/* For the link: the exchange's stream is gone. Lets the upstream go, then frees nothing of the link's. */
void exchange_abort(struct exchange *ex);

/* --- for upstreams --- */
void exchange_attach(struct exchange *ex, const struct upstream_ops *ops, void *upstream);
void exchange_detach(struct exchange *ex);
/* n bytes of ex->up were passed on; drops them and gives the room back. */
void exchange_took(struct exchange *ex, size_t n);
void exchange_interim(struct exchange *ex, const struct response *r);
/* The answer's head; `end` when nothing follows. 0; -1 when it could not be passed on (the exchange is done then). */
int exchange_answer(struct exchange *ex, const struct response *r, bool end) __attribute__((warn_unused_result));
/* The head as the link gets it, with our own fields; for answer.c. */
int exchange_send_head(struct exchange *ex, const struct response *r, bool end) __attribute__((warn_unused_result));
/* The answer to a CONNECT: 200. */
int exchange_open(struct exchange *ex) __attribute__((warn_unused_result));
int exchange_down(struct exchange *ex, struct slice bytes) __attribute__((warn_unused_result));
/* The same with all that a queue holds; a long one changes hands instead of being copied. */
int exchange_down_all(struct exchange *ex, struct buf *from) __attribute__((warn_unused_result));
/* The answer's end, after its bytes. Trailers may be NULL; they must live in ex->arena. */
void exchange_end(struct exchange *ex, const struct headers *trailers);
/* A relay's other end sends no more; the way up stays open. */
void exchange_half_close(struct exchange *ex);
/* May more be read for it? */
static inline bool exchange_has_room(const struct exchange *ex)
{
        size_t n = buf_len(&ex->down) + ex->down_raw_bytes;

        return n < EXCHANGE_DOWN_BYTES && (ex->outer->held_bytes < HELD_BYTES || n == 0);
}
/* May reading go on that was stopped for want of room? Only when most of the queue is gone: appending to a half-full one moves it about. */
static inline bool exchange_wants_more(const struct exchange *ex)
{
        return buf_len(&ex->down) + ex->down_raw_bytes <= EXCHANGE_DOWN_BYTES / 4 && exchange_has_room(ex);
}
/* All of it is still here, nothing of an answer was passed on, and it was not tried too often or too long: it may be sent over another connection, if the
 * server did nothing with it. */
bool exchange_is_replayable(const struct exchange *ex);
/* Its body is whole again, as it was before the first connection. 0, or -1 (memory). */
int exchange_rewind(struct exchange *ex) __attribute__((warn_unused_result));
/* Ends it with a reason: an answer of our own when none went out yet, a reset otherwise. `detail` is made printable here.
 * The upstream lets go of it first (the caller's abort is not called). */
void exchange_fail(struct exchange *ex, enum reason reason, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
