/* What the inner door may still do once it is sealed. */
#ifndef BROME_INNER_SEALED_H
#define BROME_INNER_SEALED_H

#include "base/err.h"

/* No capability, no file, no call that makes a socket or a connection. 0 or -1 with the reason. */
int sealed(struct err *err) __attribute__((warn_unused_result));

#endif
