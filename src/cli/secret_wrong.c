/* See secret_wrong.h. */
#include "cli/secret_wrong.h"
#include "account/swap.h"

_Static_assert((int)SECRET_WRONG_BYTES_MAX == (int)SECRET_BYTES_MAX, "one limit");

const char *secret_wrong(enum account_kind kind, struct slice secret) { return secret_problem(kind, secret); }
