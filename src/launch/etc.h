/* The guest's /etc, generated into the state folder and kept there as long as what it is made from stays the same.
 *
 * An allow-list: configuration that interpreters, compilers and apt need is copied, names and addresses are written anew. No file that holds a
 * secret gets in: shadow, keys and auth.conf are not listed, and a listed file in which a URL carries a password or a private key stands is left out.
 * The workspace's CA is merged into the trust stores (trust.h).
 *
 * Two layers: what is the same in every workspace is made once, in the plan's `cache`; a workspace's own layer lies over it. Both are only read:
 * the guest writes to an overlay of its own, so that no inode is shared between neighbours. */
#ifndef BROME_LAUNCH_ETC_H
#define BROME_LAUNCH_ETC_H

#include "base/err.h"
#include "launch/ids.h"
#include "launch/plan.h"

enum {
        ETC_FILE_BYTES = 4 * 1024 * 1024, /* ld.so.cache of a large machine is 200 KB */
        ETC_FILES = 8000,                 /* /etc/alternatives has a thousand at most */
        ETC_DEPTH = 8,
};

struct etc {
        char own[PATH_MAX];    /* the workspace's layer */
        char shared[PATH_MAX]; /* the layer beneath; its files belong to who started us. "": own is complete */
        int lock;              /* while it is open nobody removes `shared`; -1 */
};

/* Makes what is missing. The plan's CA stands in `ca_cert`; etc_fini in any case. */
int etc_prepare(struct etc *e, const struct plan *plan, const struct ids *ids, struct err *err) __attribute__((warn_unused_result));
void etc_fini(struct etc *e);

#endif
