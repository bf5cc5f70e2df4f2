/* What differs between the two programs that are PID 1 of a workspace: brome-guest links kind_namespace.c, brome-guest-vm links vm_main.c. */
#ifndef BROME_GUEST_KIND_H
#define BROME_GUEST_KIND_H

#include "guest/guest.h"

/* Before everything else: afterwards descriptor 3 is the channel. 0; -1 with errno. */
int kind_begin(void) __attribute__((warn_unused_result));
const struct guest_machine *kind_machine(void);
/* After everything else, all processes killed. Returns the exit status, if it returns. */
int kind_end(int status);

#endif
