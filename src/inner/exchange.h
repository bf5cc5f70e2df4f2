/* Exchange: one stream of the link and the guest's side of it: an HTTP request, a WebSocket, a spliced TCP flow, a UDP flow, an echo.
 *
 * The guest's side (the leg) gives bytes up with exchange_send and gets heads, bytes and the end through leg_ops; the link does the
 * other half. Flow control is one rule: a byte is given back to its sender's window when it was handed on, never before.
 *
 *   OPEN   both sides may send       ANSWERED  the final head came       ENDED  no side sends any more; freed at the turn's end
 *
 * How far it is on its way to the link: NEW → (HELD: its body is scanned first, hold.h) → (WAITING: for its account's door) → STARTED */
#ifndef BROME_INNER_EXCHANGE_H
#define BROME_INNER_EXCHANGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "inner/door.h"
#include "link/fields.h"
#include "rules/policy.h"
#include "wire/request.h"
#include "wire/response.h"

enum exchange_kind { EXCHANGE_HTTP, EXCHANGE_WEBSOCKET, EXCHANGE_TCP, EXCHANGE_UDP, EXCHANGE_ICMP };
enum exchange_state { EXCHANGE_OPEN, EXCHANGE_ANSWERED, EXCHANGE_ENDED };
enum exchange_stage { STAGE_NEW, STAGE_HELD, STAGE_WAITING, STAGE_STARTED };

enum { EXCHANGE_DETAIL_BYTES = 512 };

struct exchange;
struct leg_ops {
        /* A head, interim ones included. For kinds other than HTTP and WebSocket only the final one, with status 200. */
        void (*head)(struct exchange *x, const struct response *r);
        /* Bytes down. The leg takes them all and later says exchange_passed. */
        void (*data)(struct exchange *x, struct slice s);
        /* The stream's regular end. trailers may be empty. The leg calls exchange_end when it is done too. */
        void (*end)(struct exchange *x, const struct headers *trailers);
        /* n bytes of what the leg sent were handed to the link: there is room again. Also once, maybe with 0, when the end was. */
        void (*room)(struct exchange *x, size_t n);
        /* It will not be completed: refused (by the outer door, by a limit, by a policy change) or reset (reason NONE). Before ANSWERED the leg
         * answers with a refusal; after it the leg cuts. The exchange is ended when this returns. */
        void (*cut)(struct exchange *x, enum reason reason, struct slice detail);
};

struct exchange {
        TAILQ_ENTRY(exchange) list;
        struct door *door;
        enum exchange_kind kind;
        enum exchange_state state;
        const struct leg_ops *leg;
        void *owner;     /* the leg's */
        uint64_t id;     /* in records and as brome-flow */
        struct arena arena;
        struct request *req;        /* HTTP and WebSocket */
        struct headers came;        /* its fields as they came: among them those that do not go on */
        struct authority to;        /* name and port of the flow; text in the arena */
        bool https;
        const char *protocol;       /* for records: "h2", "http/1.1", "websocket", "tcp", … static */
        struct policy_verdict verdict;
        const char *splice_kind;    /* brome-kind: "tcp", "tls", "any" */

        enum exchange_stage stage;
        struct account *account; /* whose door it takes; NULL: the plain one */
        TAILQ_ENTRY(exchange) waiting; /* for that door */
        struct hold *hold;       /* looks at what goes up; NULL: nobody has to */
        struct ws_guard *guard;  /* the same for a WebSocket */
        size_t prepaid;          /* bytes at the front of `up` for which the leg got its room already */
        const struct account *whose; /* whose placeholder was found last; NULL: none */
        bool own_used;           /* its account's placeholder stands in it already */
        bool drop_trailers;      /* a profile's reader sends none */
        bool plain_frames;       /* the WebSocket extensions were struck out: none may be agreed on */
        bool swapped;            /* the outer door says that the account was used */

        struct link *link; /* that carries it; NULL: not started */
        bool tried;        /* one door did not take it: this one is the last */
        bool keep_up;      /* what goes up is kept, since this door may not take it */
        bool up_gone;      /* bytes went up and were not kept */
        struct buf kept;
        int32_t stream;    /* of the link; 0: none (any more) */
        struct buf up;  /* waiting for the link */
        bool up_ended, up_sent_end, down_ended;
        struct headers *up_trailers;
        struct field_list block; /* the answer's fields as they come */
        size_t owed; /* bytes down not yet given back to the window */
        uint64_t bytes_up, bytes_down;
        int64_t started_us, head_us;
        uint16_t status;
        char address[ADDR_TEXT_BYTES]; /* brome-address */
        bool recorded;                 /* its verdict was: so its end is, too */
        const char *engine;            /* who refused; NULL: the firewall. Static */
        enum reason reason;            /* of a cut or a refusal */
        enum wire_reason found;        /* what a codec found wrong in the middle of it; stands in the record instead of `reason` */
        struct slice detail;           /* of it, in the arena; the outer door's words */
};

/* A new exchange with a number and an arena; NULL: too many, or no memory. Every one ends with exchange_end or a cut. */
struct exchange *exchange_new(struct door *d, enum exchange_kind kind, const struct leg_ops *leg, void *owner) __attribute__((warn_unused_result));
/* Records the verdict and opens the stream: at once, or when its body was looked at and its door is there. 0, or -1: the outer door is not there. */
int exchange_start(struct exchange *x) __attribute__((warn_unused_result));
/* Does it still take bytes from the guest? */
static inline bool exchange_takes(const struct exchange *x)
{
        return x->state != EXCHANGE_ENDED && !x->up_ended && (x->stream || x->stage != STAGE_STARTED);
}
/* Bytes from the guest, counted against the rule's body limit. 0, or -1 when the limit was passed: the exchange was cut. */
int exchange_send(struct exchange *x, struct slice s) __attribute__((warn_unused_result));
bool exchange_has_room(const struct exchange *x);
/* No more from the guest. `trailers` borrows from the exchange's arena or is NULL. */
void exchange_send_end(struct exchange *x, struct headers *trailers);
/* The leg handed n bytes on to the guest. */
void exchange_passed(struct exchange *x, size_t n);
/* The leg is done with it: resets the stream unless both sides ended. The leg forgets x. */
void exchange_end(struct exchange *x);
/* Refuses it in the middle of its way: records that, then cuts. */
void exchange_refuse(struct exchange *x, const char *engine, enum reason reason, struct slice detail);
/* Ends it from our side with a reason; calls leg->cut. */
void exchange_cut(struct exchange *x, enum reason reason, struct slice detail);
void exchange_free_dead(struct door *d);

/* For whoever opens it: records the verdict and opens the stream on that link. 0 or -1. */
int exchange_start_on(struct exchange *x, struct link *l) __attribute__((warn_unused_result));
/* For the hold: the stream may be opened; bytes that were looked at go on, or nothing follows. */
void exchange_go(struct exchange *x);
void exchange_queue(struct exchange *x, struct slice s);
void exchange_queue_end(struct exchange *x, struct headers *trailers);

/* For the link. Its door took nothing of it, and everything that went up is there: it waits for the next door of its account. False: it has to end. */
bool exchange_again(struct exchange *x) __attribute__((warn_unused_result));
void exchange_link_head(struct exchange *x, const struct response *r);
void exchange_link_data(struct exchange *x, struct slice s);
void exchange_link_end(struct exchange *x, const struct headers *trailers);
void exchange_link_reset(struct exchange *x, enum reason reason, struct slice detail);
void exchange_link_took(struct exchange *x, size_t n);

#endif
