/* `as npm`, `as git`: what exactly a reader of that protocol asks for, and nothing else (a request that fits carries next to nothing of the guest's).
 *
 * npm: package documents, tarballs, signing keys, attestations, dist-tags. git: clone and fetch over smart HTTP, protocol version 2.
 * policy_request judges method, path, query and that there is no upgrade; the doors rebuild the fields by profile_fields, drop trailers, and
 * write a git body anew by git_body_*. Pure. */
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
 * belong. Also the lone flush by which git tries whether it may post.
 *
 * What goes on is written anew from what was read: no agent's name, no session's id, of refs' names only the folder. Both doors do it; the outer one knows besides
 * which objects the server named. */
enum {
        GIT_LINE_BYTES = 512,    /* one line: a ref prefix is a path below refs/ */
        GIT_LINES_MAX = 1 << 20, /* of one body: haves of a large repository */
        GIT_NUMBERED_MAX = 16,   /* refs of pull requests by their number, in one body: more is no person's fetch */
};
enum git_use { GIT_WANT, GIT_HAVE, GIT_SHALLOW };
enum git_named { GIT_UNNAMED, GIT_NAMED, GIT_SAID }; /* the last: named, and it stands in this body already */
typedef enum git_named git_named_fn(void *ctx, enum git_use use, struct slice id); /* id: 40 or 64 digits */

enum git_part { GIT_COMMAND, GIT_CAPABILITIES, GIT_ARGUMENTS, GIT_END };
struct git_body {
        git_named_fn *named; /* NULL: whoever reads it next decides */
        void *ctx;
        enum git_part part;
        bool fetch;          /* the command; else ls-refs */
        bool agent, format, session; /* capabilities that were given */
        bool sha256;         /* object-format=sha256: ids have 64 digits */
        bool haves, hidden;  /* a have went on; one did not */
        unsigned given;      /* arguments that may stand once, by their row */
        unsigned folders;    /* ref prefixes that went on, by their row */
        unsigned numbered;
        size_t lines;
        size_t have, need;   /* bytes in `line`: of a packet's length while need is 0, of its need bytes after that */
        const char *problem; /* set when refused: for a person */
        uint8_t line[GIT_LINE_BYTES];
};
void git_body_begin(struct git_body *g, git_named_fn *named, void *ctx);
/* May it go on? Appends to `out` what goes on instead. false: not a reader's, and never again (or out of memory, with that problem). */
bool git_body_feed(struct git_body *g, struct slice in, struct buf *out) __attribute__((warn_unused_result));
/* At the end: was it whole? */
bool git_body_end(struct git_body *g) __attribute__((warn_unused_result));

/* The answer to such a body, as it comes: which objects does the server name? Refs with what they point at, the edge of a shallow clone. From the pack on nothing is read. */
struct git_answer {
        void (*name)(void *ctx, struct slice id);
        void *ctx;
        bool done;               /* the pack began, or these are no packet lines */
        size_t have, need, skip; /* as in git_body; skip: of a line's bytes that are not kept */
        uint8_t line[GIT_LINE_BYTES];
};
void git_answer_begin(struct git_answer *a, void (*name)(void *ctx, struct slice id), void *ctx);
void git_answer_feed(struct git_answer *a, struct slice in);

#endif
