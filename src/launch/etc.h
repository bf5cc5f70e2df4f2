/* The guest's /etc, generated into the state folder and kept there as long as what it is made from stays the same.
 *
 * An allow-list: configuration that interpreters, compilers and apt need is copied, names and addresses are written anew. No file that holds a
 * secret gets in: shadow, keys and auth.conf are not listed, and a listed file in which a URL carries a password or a private key stands is left out.
 * The workspace's CA is merged into the trust stores (trust.h). */
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

/* Makes <state>/cache/etc when needed. */
int etc_prepare(const struct plan *plan, const struct ids *ids, struct err *err) __attribute__((warn_unused_result));

#endif
