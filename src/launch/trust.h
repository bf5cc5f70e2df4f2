/* What makes the guest's programs trust the workspace's CA: bundles, a hashed folder, a Java store, and variables for those that read no file. */
#ifndef BROME_LAUNCH_TRUST_H
#define BROME_LAUNCH_TRUST_H

#include "base/err.h"
#include "base/slice.h"
#include "guest/bundles.h"
#include <stddef.h>

enum { TRUST_BUNDLE_BYTES = 4 * 1024 * 1024 };

struct trust_variable {
        const char *name, *value;
};
extern const struct trust_variable trust_variables[];
extern const size_t trust_variable_count;

/* The host's bundle that is used; NULL: none found. Borrowed, static. */
const char *trust_host_bundle(void);
/* Writes below `etc` (a folder being generated) what holds the CA. `below`: the folder with the host's ssl/certs over which etc will lie, or etc
 * itself. `pem` may be empty: then only the host's. */
int trust_write(const char *etc, const char *below, struct slice pem, struct err *err) __attribute__((warn_unused_result));
/* The name under which OpenSSL looks for an issuer in a folder, without the number: 8 hexadecimal digits. */
int trust_hash(struct slice pem, char hash[9], struct err *err) __attribute__((warn_unused_result));
/* The other names of the bundle. */
int trust_write_links(const char *etc, struct err *err) __attribute__((warn_unused_result));

#endif
