/* What is wrong with a secret, for a person; NULL: nothing. In a file of its own because requests (account/swap.h) and rules (rules/config.h) both have a
 * BODY_NONE, and whoever asks here reads configurations. */
#ifndef BROME_CLI_SECRET_WRONG_H
#define BROME_CLI_SECRET_WRONG_H

#include "account/kind.h"

enum { SECRET_WRONG_BYTES_MAX = 16 * 1024 }; /* SECRET_BYTES_MAX there */
const char *secret_wrong(enum account_kind kind, struct slice secret);

#endif
