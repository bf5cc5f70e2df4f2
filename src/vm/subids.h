/* /etc/subuid and /etc/subgid (subuid(5)): which ids an ordinary user may map into a namespace of his own. Pure: no I/O. */
#ifndef BROME_VM_SUBIDS_H
#define BROME_VM_SUBIDS_H

#include "base/slice.h"
#include <stdint.h>

enum { SUBIDS_FILE_BYTES = 1024 * 1024, SUBIDS_NEEDED = 65536 }; /* a distribution's ids: nobody is 65534 */

/* Finds the first range of at least SUBIDS_NEEDED ids of the user, by name or by number. Lines that are none are passed over. */
bool subids_find(struct slice text, const char *name, uint32_t uid, uint32_t *start) __attribute__((warn_unused_result));

#endif
