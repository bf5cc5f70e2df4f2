/* What a workspace is given of its credentials: variables, and the files that the kind's tools read. Placeholders only. Pure.
 *
 * Files are relative to the guest's home. A file that other things may stand in as well is given as lines between two marks or as members of a JSON
 * object, so that what the guest wrote there stays. */
#ifndef BROME_ACCOUNT_GUEST_H
#define BROME_ACCOUNT_GUEST_H

#include "account/binding.h"
#include "base/buf.h"

enum { GUEST_FILE_BYTES_MAX = 256 * 1024 }; /* a file of the guest that is larger is left alone */

/* Calls `each` for every variable: the kind's, then `as_env` when not empty. */
void guest_env(const struct binding *b, struct slice as_env, void (*each)(void *ctx, const char *name, struct slice value), void *ctx);

/* Every file that any of the bindings wants: ".git-credentials", ".gitconfig", ".config/gh/hosts.yml", ".npmrc", ".config/pip/pip.conf", ".netrc",
 * ".cargo/credentials.toml", ".docker/config.json", … NULL behind the last. */
const char *guest_file_name(size_t i);
/* The new content of file i, given the present one (empty: there is none): what the bindings want is in it, what was ours and is no more is gone, all else
 * stays byte for byte. 1: *out has it; 0: nothing to write; -1: the present content cannot be read as that format: leave it alone, `why` says so. */
int guest_file(size_t i, const struct binding *bindings, size_t count, struct slice present, struct buf *out, const char **why)
        __attribute__((warn_unused_result));

#endif
