/* Where an image is built: in namespaces of its own, in which files may have the owners that the packages give them.
 *
 *   root                 mounts and processes apart; ids as they are
 *   user with a range    a user namespace with 65,536 ids of /etc/subuid, mapped by newuidmap and newgidmap
 *   user without         a user namespace with one id; calls that would change an owner say yes and do nothing, so that every file belongs to root
 *
 * Whatever runs in them dies with the function, with brome, or when somebody interrupts. */
#ifndef BROME_VM_OWNERS_H
#define BROME_VM_OWNERS_H

#include "base/err.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum owners_kind { OWNERS_ROOT, OWNERS_RANGE, OWNERS_ONE };

struct owners {
        enum owners_kind kind;
        uint32_t first_uid, first_gid; /* OWNERS_RANGE */
        const volatile sig_atomic_t *stop; /* set by the caller's signal handler: end at once; or NULL */
};

/* Which of them this user has. Never fails: what is missing shows in kind. */
void owners_find(struct owners *o);
/* Runs fn there, as root and PID 1, and waits. fn's own result; -1 with err also when it died or was stopped. What fn changes in memory is lost. */
int owners_run(const struct owners *o, int (*fn)(void *arg, struct err *err), void *arg, struct err *err) __attribute__((warn_unused_result));

/* Removes a folder and all that is in it, following no link. A missing one is fine. */
int owners_remove_tree(int at, const char *name) __attribute__((warn_unused_result));
/* The same for what is in it. */
int owners_empty_folder(int at, const char *name) __attribute__((warn_unused_result));

#endif
