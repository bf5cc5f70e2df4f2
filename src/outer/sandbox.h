/* What this process may still do once it faces the world. */
#ifndef BROME_OUTER_SANDBOX_H
#define BROME_OUTER_SANDBOX_H

#include "base/err.h"

/* Everything that needs opening is open. 0 or -1. */
int sandbox_enter(struct err *err) __attribute__((warn_unused_result));

#endif
