/* URLs of a mirror's base become URLs of the registry that the guest asked: in JSON bodies and in the fields that hold URLs. Pure, streaming: the same result
 * however the bytes are cut.
 *
 * In a body "https://mirror.example/base/" is found in any case of scheme and host, with its port said or not, each of its slashes plain or `\/`; what is put in its place has its
 * slashes as the first one stood. Whatever follows stays. */
#ifndef BROME_OUTER_REWRITE_H
#define BROME_OUTER_REWRITE_H

#include "base/arena.h"
#include "base/buf.h"
#include "wire/authority.h"

enum { REWRITE_URL_BYTES_MAX = 2048 }; /* of a base with scheme and host: a configured path */

struct rewrite {
        struct slice host, base; /* of the mirror: what stands behind "https://", then "/…/" */
        uint16_t port;
        struct slice to;         /* "https://registry.example/" */
        struct buf keep;         /* a possible part of a match */
        uint64_t found;
};

/* from: where requests were sent, base: begins and ends with "/"; to: as the guest sees it. Both are copied. 0, or -1 (memory, too long). */
int rewrite_init(struct rewrite *r, struct arena *a, const struct authority *from, struct slice base, const struct authority *to, enum scheme scheme)
        __attribute__((warn_unused_result));
void rewrite_fini(struct rewrite *r);
/* Appends what may go on to out; `last` gives up everything. 0, or -1 (memory). */
int rewrite_feed(struct rewrite *r, struct slice in, bool last, struct buf *out) __attribute__((warn_unused_result));
/* A field's value, in which a URL may also be a path alone (Location: /base/x). 1: *out has it; 0: nothing to change; -1 memory. */
int rewrite_field(const struct rewrite *r, struct slice value, struct buf *out) __attribute__((warn_unused_result));

#endif
