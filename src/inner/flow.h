/* Flow: one TCP connection of the guest, from accept to close.
 *
 *   NEW       accepted, first bytes awaited (deadline CLASSIFY_MS; SERVER_FIRST_MS under an opaque rule)
 *   HANDSHAKE the ClientHello named the flow's name; OpenSSL ends the TLS (deadline CLASSIFY_MS)
 *   SERVED    by dns, h1, h2 or splice; `server` says which
 *   DEAD      closed; freed when the turn ends */
#ifndef BROME_INNER_FLOW_H
#define BROME_INNER_FLOW_H

#include "inner/conn.h"
#include "inner/exchange.h"
#include "inner/refuse.h"
#include "wire/hello.h"

enum flow_state { FLOW_NEW, FLOW_HANDSHAKE, FLOW_SERVED, FLOW_DEAD };

/* What serves a flow. Any member may be NULL. */
struct flow_server {
        const char *name;
        void (*stop)(struct flow *f);              /* the flow closes: end exchanges */
        void (*retire)(struct flow *f);            /* the rules forbid it now: finish what was answered, then close. NULL: reset */
        void (*tick)(struct flow *f, int64_t now_ms);
        void (*free)(struct flow *f);              /* at the turn's end: the state's memory */
};

struct flow {
        TAILQ_ENTRY(flow) list;
        struct door *door;
        struct conn conn;
        enum flow_state state;
        uint64_t id;
        struct authority to; /* the name kept by the names table, or a literal address */
        struct policy_verdict verdict;
        bool tls;
        bool has_sni;
        int64_t deadline_ms; /* 0: none */
        struct event *first; /* SERVER_FIRST_MS, under FLOW_INSPECT_OR_SPLICE only */
        struct arena arena;  /* the hello */
        struct hello_reader hello;
        const struct flow_server *server;
        void *state_of_server;
};

/* Serves the listener of the door; called by main. 0 or -1. */
int flow_listen(struct door *d) __attribute__((warn_unused_result));
/* Listener on or off, by whether the door admits. */
void flow_admit(struct door *d);
/* A new socket of the guest (taken). */
void flow_accept(struct door *d, int fd);
void flow_served(struct flow *f, const struct flow_server *server, void *state);
/* Idempotent. */
void flow_close(struct flow *f, bool reset);
/* Records a refusal of the whole flow and closes it with a reset. */
void flow_refuse(struct flow *f, const struct refusal *r);
void flow_free_dead(struct door *d);
/* The policy forbids it: nothing more passes; refusals already written still arrive. */
void flow_retire(struct flow *f);
/* Does the door's policy still allow this flow, in the way it is served? */
bool flow_fits(struct flow *f);
/* The guest stands still and cannot read what was written to it: nothing lingers away meanwhile. */
bool flow_waits(const struct flow *f);
void flow_tick(struct door *d, int64_t now_ms);
const char *flow_protocol(const struct flow *f);

/* What the flow's verdict is once its bytes are known (classify.c). */
void classify_begin(struct flow *f);
void classify_tick(struct flow *f, int64_t now_ms);

#endif
