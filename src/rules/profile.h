/* `as npm`, `as git`: what exactly a reader of that protocol asks for, and nothing else (a request that fits carries next to nothing of the guest's).
 *
 * npm: package documents, tarballs, signing keys, attestations, dist-tags. git: clone and fetch over smart HTTP, protocol version 2.
 * policy_request judges method, path, query and that there is no upgrade; the doors rebuild the fields by profile_fields, drop trailers, and
 * the inner door reads a git body, inflated, by git_body_*. Pure. */
#ifndef BROME_RULES_PROFILE_H
#define BROME_RULES_PROFILE_H

#include "rules/policy.h"

const char *profile_name(enum policy_profile p); /* "npm", "git" */

/* Is it a request of a reader? `path` is what stands behind the rule's prefix, with its leading slash. May it have a body: *body_ok. */
bool profile_request(enum policy_profile p, struct slice path, const struct policy_request_query *q, bool *body_ok);

struct profile_field {
        struct slice name, value; /* name in lower case */
};
enum { PROFILE_FIELDS_MAX = 8 };

/* The fields that go on instead of the guest's, in a fixed order, out of constants and typed values. Framing (host, content-length, connection) is not
 * among them. `get` gives field i of the request; `account`: the host has a credential and account_check found the request in order, so an
 * Authorization goes on as it is; without it none does. Slices borrow from the request or are constant.
 * Returns their number, or -1 with *problem (for a person) when the request is no reader's: a git client that does not speak version 2, a body of another type. */
int profile_fields(enum policy_profile p, struct slice method, size_t count, struct profile_field (*get)(void *ctx, size_t i), void *ctx, bool account,
                   struct profile_field out[PROFILE_FIELDS_MAX], const char **problem) __attribute__((warn_unused_result));

/* A body to git-upload-pack, inflated, as it comes (gitprotocol-v2): one `ls-refs` or `fetch` command, capabilities and arguments of a list, object ids where ids
 * belong. Also the lone flush by which git tries whether it may post. */
enum {
        GIT_LINE_BYTES = 512,    /* one line: a ref prefix is a path below refs/ */
        GIT_LINES_MAX = 1 << 20, /* of one body: haves of a large repository */
};
enum git_part { GIT_COMMAND, GIT_CAPABILITIES, GIT_ARGUMENTS, GIT_END };
struct git_body {
        enum git_part part;
        bool fetch;          /* the command; else ls-refs */
        bool agent, format;  /* capabilities that were given */
        bool sha256;         /* object-format=sha256: ids have 64 digits */
        size_t lines;
        size_t have, need;   /* bytes in `line`: of a packet's length while need is 0, of its need bytes after that */
        const char *problem; /* set when refused: for a person */
        uint8_t line[GIT_LINE_BYTES];
};
void git_body_begin(struct git_body *g);
/* May these bytes go on? false: not a reader's, and never again. */
bool git_body_feed(struct git_body *g, struct slice in) __attribute__((warn_unused_result));
/* At the end: was it whole? */
bool git_body_end(struct git_body *g) __attribute__((warn_unused_result));

#endif
