/* What the guest may ask of the kernel: a short list of capabilities in a user namespace that owns nothing outside, and a filter of system calls.
 * Both stick: bounding set, locked secure bits, no new privileges. */
#ifndef BROME_LAUNCH_GUESTSEAL_H
#define BROME_LAUNCH_GUESTSEAL_H

#include "base/err.h"
enum guestseal_kind {
        GUESTSEAL_PLAIN,
        GUESTSEAL_NESTED,  /* namespaces and mounts inside stay possible */
        GUESTSEAL_MACHINE, /* QEMU: no capability at all */
};

/* In the guest's process, in its user namespace as its root; exec follows. */
int guestseal(enum guestseal_kind kind, struct err *err) __attribute__((warn_unused_result));

#endif
