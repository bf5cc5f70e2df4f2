/* Accounts of the workspace, as the inner door knows them: their placeholders, and a link to the outer door of each (docs/ACCOUNTS.md).
 *
 * The one idea: a door for an account is asked for when the first exchange needs it, and exchanges wait for it, bounded in number and time. An account
 * that a later policy no longer has stays known: its placeholder is still one of this workspace's, and good for no host.
 *
 *   no link, not asked → (an exchange comes) asked, ACCOUNT_WAIT_MS → `link`: up → its end: no link, not asked      `no-link`: what waits is refused */
#ifndef BROME_INNER_ACCOUNTS_H
#define BROME_INNER_ACCOUNTS_H

#include "account/scan.h"
#include "inner/exchange.h"

struct account {
        TAILQ_ENTRY(account) list;
        struct door *door;
        char *name;        /* of the credential */
        int number;        /* of its placeholders in the door's token set: for as long as the door lives */
        int index;         /* in the present policy; -1: no longer there */
        struct link *link; /* NULL, or maybe down */
        bool asked;
        int64_t asked_ms;
        struct exchange_list waiting; /* by x->waiting */
        unsigned waiting_count;
        char placeholder[PLACEHOLDER_BYTES_MAX + 1]; /* empty: none (attach) */
        char minted[ACCOUNT_MINTED][PLACEHOLDER_BYTES_MAX + 1]; /* of tokens that its door handed out; a ring, the oldest goes */
        unsigned minted_count;                                  /* ever */
};

/* The door has a new policy: the accounts are those in it. 0, or -1 without memory. */
int accounts_policy(struct door *d) __attribute__((warn_unused_result));
/* The account that the present policy binds to a place; with `via`, to where it is re-routed. NULL: none. */
struct account *accounts_of(struct door *d, const struct authority *to, const struct policy_via *via);
struct account *accounts_by_number(struct door *d, int number);
/* NULL: the policy no longer has it. Borrows from the policy. */
const struct binding *accounts_binding(const struct account *a);

/* x->account's door: opens the stream, or x waits. 0; -1: refuse it with *reason. */
int accounts_start(struct exchange *x, enum reason *reason) __attribute__((warn_unused_result));
/* Asks for the door, since it will be needed. */
void accounts_want(struct account *a);
void accounts_forget(struct exchange *x); /* it no longer waits */

/* What bromed and the door say. */
int accounts_link(struct door *d, const char *name, int fd) __attribute__((warn_unused_result)); /* takes fd; -1: no such account, or no memory */
void accounts_no_link(struct door *d, const char *name, const char *reason);
void accounts_minted(struct account *a, struct slice placeholder);
/* One of them that stands in the request's Authorization, behind the scheme word, and is good there in the credential's place; empty: none. */
struct slice accounts_minted_in(const struct account *a, const struct request *req);

void accounts_tick(struct door *d, int64_t now_ms);
/* As link_turn_end, of every account's link. */
bool accounts_turn_end(struct door *d);

#endif
