/* PID 1 of a namespace: whoever started it has set up everything. See kind.h. */
#include "guest/kind.h"

int kind_begin(void) { return 0; }
const struct guest_machine *kind_machine(void) { return NULL; }
int kind_end(int status) { return status; }
