/* Shared by check.c, swap.c and leak.c: how a request's account fields are read. */
#ifndef BROME_ACCOUNT_ACCOUNT_PRIV_H
#define BROME_ACCOUNT_ACCOUNT_PRIV_H

#include "account/basic.h"
#include "account/check.h"

/* "scheme rest" of an Authorization value; scheme is empty when it is one word. */
struct authorization {
        struct slice scheme, rest;
        bool basic;
};
struct authorization authorization_split(struct slice value);

/* Where a placeholder stands as the whole content of a header that is one of the binding's fields. */
struct placed {
        struct account_field field;
        bool other_user; /* of SLOT_BASIC: but for the user name it would be; then it is not placed */
        bool user_side; /* of SLOT_BASIC: it is the user-id, "X:" or "X:x-oauth-basic" */
};
bool placed_in_header(const struct binding *b, const struct header *h, struct placed *p);
/* The same of a query pair, still encoded. */
bool placed_in_query(const struct binding *b, struct slice key, struct slice value, struct account_field *f);
/* Is s, decoded, exactly `plain` (key: case does not matter)? */
bool encoded_is(struct slice s, struct slice plain, bool fold);

/* A vendor's token by its first characters, or a long opaque one: its class, and how many characters may be shown; NULL: none. */
const char *token_class(struct slice token, size_t *show);
/* Fills leak, leak_field and leak_preview. */
void leak_find(const struct request *req, struct account_use *u);

/* A header that carries an account inside a list that is something else: keys among the WebSocket protocols. */
bool account_in_protocols(const struct header *h);

#endif
