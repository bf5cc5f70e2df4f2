/* The account of this door: its secret, what is masked in answers, and the tokens that a registry handed out under it. The plain door has none.
 *
 * SECURITY: the secret stands in locked memory (base/secret.h) and is never printed; it leaves only through swap_head and swap_feed, towards a connection
 * whose certificate was verified for a host of the binding (outgoing.c). */
#ifndef BROME_OUTER_ACCOUNT_H
#define BROME_OUTER_ACCOUNT_H

#include "account/mask.h"
#include "account/registry.h"
#include "account/tokenserver.h"
#include "outer/decide.h"
#include "outer/outer.h"

struct account;

/* Reads the pipe to its end (it is closed here). NULL with the reason. */
struct account *account_open(const char *name, int secret_fd, struct err *err) __attribute__((warn_unused_result));
/* Begins to count and to look whether it is idle. 0, or -1 (memory). */
int account_start(struct account *a, struct outer *o) __attribute__((warn_unused_result));
/* The rules changed, and with them perhaps the placeholder. 0, or -1 with the reason: memory, a secret that its fields cannot carry. */
int account_policy(struct account *a, const struct policy *p, struct err *err) __attribute__((warn_unused_result));
struct slice account_name(const struct account *a);

/* The placeholder minted here that stands in the request's Authorization; empty: none does. */
struct slice account_minted_in(const struct account *a, const struct request *req);
/* What a placeholder stands for: a minted one's token, else the credential's secret. Borrows from the account. */
struct slice account_secret(const struct account *a, struct slice minted);
/* Where its registry's token server was said to be. */
const struct realms *account_realms(const struct account *a);
void account_challenged(struct account *a, struct slice www_authenticate);
/* Keeps tokens of an answer. 0; -1: no room or memory: then the answer must not pass. */
int account_keep(struct account *a, const struct minted *minted, size_t count) __attribute__((warn_unused_result));

/* What is masked, as it is now. Streams hold on to it: give it back. */
struct account_mask {
        struct mask *mask;
        unsigned holders;
};
struct account_mask *account_mask_hold(struct account *a);
void account_mask_release(struct account_mask *m); /* NULL is fine */

/* The secret went to a host. True: for the first time. */
bool account_used(struct account *a, struct slice host);

#endif
