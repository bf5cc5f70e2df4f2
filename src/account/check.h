/* The account fields of a request: whose account does it use? Asked by both doors with the canonical request, before a byte of it goes on. Pure.
 *
 * An account field is: Authorization, Proxy-Authorization, Cookie, the vendors' key headers, and query keys that name a key (one table, check.c).
 * SECURITY: towards a bound host each of them must be exactly this workspace's placeholder in one of its fields, once; anything else is FOREIGN, so
 * that nobody's account but the workspace's works there. `foreign ok` relaxes that for fields without a placeholder; `attach` strips them all. */
#ifndef BROME_ACCOUNT_CHECK_H
#define BROME_ACCOUNT_CHECK_H

#include "account/binding.h"
#include "wire/request.h"

enum account_reason {
        ACCOUNT_OK,
        ACCOUNT_FOREIGN,      /* an account field that is not this workspace's placeholder */
        ACCOUNT_WRONG_FIELD,  /* the placeholder, to its host, in a field that is not its own */
        ACCOUNT_TWICE,        /* the placeholder stands in it more than once */
        ACCOUNT_CLEARTEXT,    /* the placeholder over http, or to another port of its host */
        ACCOUNT_UPGRADE,      /* the placeholder on a request that asks for an upgrade other than a WebSocket */
        ACCOUNT_UNDECODABLE,  /* Basic credentials that are no base64 of user:password */
        ACCOUNT_OTHER_USER,   /* the placeholder in Basic credentials beside a user name that is not the credential's `user` */
        ACCOUNT_NOT_ANONYMOUS, /* the rule says anonymous, and there is an account field */
        ACCOUNT_REASON_COUNT
};
const char *account_reason_sentence(enum account_reason r); /* lower case, no full stop, for a person */

struct account_use {
        enum account_reason reason; /* ACCOUNT_OK: go on */
        bool used;           /* the placeholder stands in `field`, or it is attached */
        struct account_field field; /* where it stands (used), or the field that is wrong */
        size_t header;       /* index in req->headers of that field; SIZE_MAX: none */
        bool leak;           /* without a binding: a bearer-like token that brome did not issue stands in `leak_field` */
        struct account_field leak_field;
        char leak_preview[24]; /* its class and first characters: "github ghp_…"; never more than 8 characters of it */
};

/* b: the binding of the host the request goes to, NULL when there is none. SLOT_BODY and SLOT_WEBSOCKET are the scanner's (scan.h), not looked at here. */
void account_check(const struct binding *b, const struct request *req, struct account_use *u);
/* Of `anonymous`: is there any account field? Fills reason and field. */
void account_check_anonymous(const struct request *req, struct account_use *u);
/* For attach: takes every account field out of the request (headers and query keys), in place; new bytes in the arena. 0, or -1 without memory. */
int account_strip(struct arena *a, struct request *req) __attribute__((warn_unused_result));
/* Is this header field, by its lower-case name, an account field? Is this query key? */
bool account_is_header(struct slice name);
bool account_is_query(struct slice key);
/* Are two names the same to an origin that folds names (case, "-" and "_"; of a query key `a`: "key[0]", "user[key]", "user.key", escaped more than once)?
 * For what is refused or taken out, never for what is used. */
bool account_same_header(struct slice a, struct slice b);
bool account_same_query(struct slice a, struct slice b);

#endif
