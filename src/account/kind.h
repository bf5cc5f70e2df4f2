/* Kinds of credential: what a secret of that kind looks like, in which fields its clients carry it, and where they look for it.
 *
 * One table (kind.c). A kind is a row; one that speaks a protocol (registry) has a file besides. Pure. */
#ifndef BROME_ACCOUNT_KIND_H
#define BROME_ACCOUNT_KIND_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

enum account_kind {
        ACCOUNT_BEARER,
        ACCOUNT_BASIC,
        ACCOUNT_HEADER,
        ACCOUNT_ANTHROPIC,
        ACCOUNT_OPENAI,
        ACCOUNT_GEMINI,
        ACCOUNT_XAI,
        ACCOUNT_GITHUB,
        ACCOUNT_GITLAB,
        ACCOUNT_MCP,
        ACCOUNT_REGISTRY, /* OCI distribution: the token flow, see registry.h */
        ACCOUNT_NPM,
        ACCOUNT_PYPI,
        ACCOUNT_CARGO,
        ACCOUNT_KIND_COUNT
};

/* A place in a request in which a placeholder may stand, as its whole content, and is swapped. */
enum account_slot {
        SLOT_AUTHORIZATION, /* Authorization: the credential behind the scheme word, or a bare one (cargo): "Bearer X", "token X", "X" */
        SLOT_BASIC,         /* Authorization: Basic base64(user:X) or base64(X:) or base64(X:x-oauth-basic): one side is it */
        SLOT_HEADER,        /* the whole value of the header `name` */
        SLOT_QUERY,         /* the whole value of the query key `name` */
        SLOT_BODY,          /* anywhere in a request body, once (declared only) */
        SLOT_WEBSOCKET,     /* anywhere in a text message, once a connection (declared only) */
        SLOT_COUNT
};
struct account_field {
        enum account_slot slot;
        struct slice name; /* lower case; of SLOT_HEADER and SLOT_QUERY, else empty */
};
enum { ACCOUNT_FIELDS_MAX = 8 }; /* of one credential, its kind's and its own together */

struct kind_row {
        const char *name;   /* as in brome.conf */
        const char *help;   /* one sentence */
        const char *shape_prefix; /* of the placeholder, the marker in it: "ghp_brm", "sk-ant-api03-brm-" */
        size_t shape_bytes;       /* of the whole placeholder */
        bool crc;                 /* GitHub's: the last six characters are the CRC-32, in base 62, of what stands between the first "_" and them */
        struct account_field fields[4]; /* default ones; unused slots have slot SLOT_COUNT */
        const char *env[4];       /* variables of the guest that hold the placeholder; NULL behind the last */
        const char *instead[4];   /* variables that, asked for with `as env`, take the place of `env`: a client that finds both sends both, or the wrong one */
        const char *user;         /* of SLOT_BASIC, where the client or attach needs one: "x-access-token", "__token__", "oauth2"; NULL: none */
        const char *test_method, *test_path; /* one harmless authenticated request; NULL: none is known */
        const char *default_host; /* "api.anthropic.com" …, used when `for` is absent (import); NULL */
};

const struct kind_row *kind_row(enum account_kind k);
/* By name; ACCOUNT_KIND_COUNT when unknown. */
enum account_kind kind_by_name(struct slice name);
/* The kind whose clients read this variable (ANTHROPIC_API_KEY, GITHUB_TOKEN, NPM_TOKEN …); ACCOUNT_KIND_COUNT when unknown. */
enum account_kind kind_by_env(struct slice variable);
/* Is it one of the kind's `instead`? */
bool kind_env_instead(enum account_kind k, struct slice variable);

#endif
