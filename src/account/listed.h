/* A credential as a plan or a machine's set-up message lists it (docs/CONTROL.md, `accounts`): with its placeholder, never with its secret. Who sent the list
 * may have been taken over, so that every member is checked: what passes is fit to stand in files that tools parse. Pure. */
#ifndef BROME_ACCOUNT_LISTED_H
#define BROME_ACCOUNT_LISTED_H

#include "account/binding.h"

#include <jansson.h>

enum {
        LISTED_MAX = 64,         /* of one workspace, as its configuration */
        LISTED_USER_BYTES = 256,
};

/* One of the list. False: it is none. *b borrows from v and hosts; its fields are left empty: nothing there reads a request. as_env: one more variable; empty: none. */
bool listed_read(const json_t *v, struct binding *b, struct binding_host hosts[ACCOUNT_HOSTS_MAX], struct slice *as_env) __attribute__((warn_unused_result));

#endif
