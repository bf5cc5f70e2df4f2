/* What the guest may ask of the kernel: a short list of capabilities in a user namespace that owns nothing outside, and a filter of system calls.
 * Both stick: bounding set, locked secure bits, no new privileges. */
#ifndef BROME_LAUNCH_GUESTSEAL_H
#define BROME_LAUNCH_GUESTSEAL_H

#include "base/err.h"
#include <stdbool.h>

/* In the guest's process, in its user namespace as its root; exec follows. With `nested`, namespaces and mounts inside stay possible. */
int guestseal(bool nested, struct err *err) __attribute__((warn_unused_result));

#endif
