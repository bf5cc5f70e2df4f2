/* Approvals: what waits for a person's yes, what was granted, what was denied. A state machine that does no I/O: events and the time come in, answers,
 * records and news go out through calls. It lives in bromed's memory: clients may come and go, and a session's own things end with it.
 *
 *  use       one exchange that an outer door holds. It is answered once: allow, deny, expired or nobody
 *  approval  the question: one for each key (workspace, credential or rule, host:port), however many uses wait for it. It lives until it is answered, or
 *            APPROVAL_HOLD_MS after its last use came; a client that gave up may come again and finds it, or its answer
 *  grant     `once`: exactly the requests that were shown; or everything of the key, for a time from the answer on, or for the session
 *  denial    everything of the key, for APPROVAL_DENIAL_MS
 *
 * Requests that only read and have no body (GET, HEAD, OPTIONS) are one request where their canonical heads are one: `once` lets all of them go that wait, and one
 * retry within APPROVAL_RETRY_MS. SECURITY: any other request is a request by itself, whatever its head: its body is not looked at here, so another one with the
 * same head may do something else. `once` lets it go where it waits, and nowhere else.
 *
 * SECURITY: a yes or no is recorded before it takes effect; what cannot be recorded is not granted. Texts are made printable where they come in. */
#ifndef BROME_DAEMON_APPROVALS_H
#define BROME_DAEMON_APPROVALS_H

#include "base/err.h"
#include "control/request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        APPROVAL_HOLD_MS = 10 * 60 * 1000,  /* a use is held so long, then expired: longer than any client waits */
        APPROVAL_RETRY_MS = 5 * 60 * 1000,  /* a `once` for who comes again */
        APPROVAL_DENIAL_MS = 5 * 60 * 1000, /* so that a program that tries again and again does not ask again and again */
        APPROVAL_NEWS_MS = 250,             /* between two notices of one approval that grows */
        APPROVAL_DIGEST_BYTES = 32,
        APPROVAL_REQUESTS = 256,            /* distinct requests that are kept; what is beyond waits too, and `once` does not reach it */
        APPROVAL_SHOWN = 32,                /* of them shown at a time: nobody reads more before a yes */
        APPROVAL_SHOWN_BYTES = 32 * 1024,   /* half of a message */
        APPROVAL_PATH_BYTES = 1024,
        APPROVAL_NAME_BYTES = 16 * 1024,    /* a rule's text */
        APPROVAL_HOST_BYTES = 256,
        APPROVAL_USES = 8192,               /* held exchanges of one approval: two links full of streams */
        APPROVALS_WAITING = 64,             /* of one workspace: an `ask` rule for any host must not flood the person */
        APPROVALS_KEPT = 256,               /* grants and denials, each, of one workspace */
};

enum approval_answer { APPROVAL_ALLOW, APPROVAL_DENY, APPROVAL_EXPIRED, APPROVAL_NOBODY };
const char *approval_answer_name(enum approval_answer a); /* as in docs/CONTROL.md */

enum approval_term { APPROVAL_ONCE, APPROVAL_5M, APPROVAL_1H, APPROVAL_SESSION, APPROVAL_TERM_COUNT };
const char *approval_term_name(enum approval_term t);
enum approval_term approval_term_by_name(const char *name); /* APPROVAL_TERM_COUNT when unknown or NULL */

struct approval_key {
        char workspace[REQUEST_NAME_BYTES];
        bool rule;        /* else a credential */
        const char *name; /* printable; borrowed for the call, copied by who keeps it */
        char host[APPROVAL_HOST_BYTES];
        uint16_t port;
};
struct approval_request {
        const char *method, *path; /* printable; borrowed for the call */
        bool body;                 /* bytes of the guest's follow the head */
        uint8_t digest[APPROVAL_DIGEST_BYTES];
};

struct approvals_calls {
        /* ttl_ms: as in docs/CONTROL.md; of an allow. */
        void (*answer)(void *ctx, void *door, uint64_t id, enum approval_answer answer, int64_t ttl_ms);
        /* On disk when it returns true. first: one of the requests, or NULL. */
        bool (*record)(void *ctx, const struct approval_key *key, bool allow, const char *detail, const struct approval_request *first);
        /* Need not be on disk. */
        void (*note)(void *ctx, const struct approval_key *key, const char *detail);
        /* Raised or grown: takes approval. */
        void (*news)(void *ctx, const struct approval_key *key, json_t *approval);
        void (*ended)(void *ctx, const struct approval_key *key, uint64_t id, const char *answer);
        /* A grant is gone before its time. */
        void (*revoked)(void *ctx, const struct approval_key *key);
};

struct approvals;
/* last_id: the numbers go on behind it. One that starts elsewhere each time keeps a number that was read before a restart from naming another question. */
struct approvals *approvals_new(const struct approvals_calls *calls, void *ctx, uint64_t last_id) __attribute__((warn_unused_result));
void approvals_free(struct approvals *a); /* answers nobody */

struct approval_use {
        const struct approval_key *key;
        const struct approval_request *request;
        void *door; /* opaque; with id the use's name */
        uint64_t id;
        bool wait; /* held even where there is nobody to ask */
};
/* `somebody`: is there anybody to ask just now? Answers at once or later. */
void approvals_ask(struct approvals *a, const struct approval_use *use, bool somebody, int64_t now_ms);
/* The client went away, or the exchange was cut. Unknown ones are ignored: the answer may have been on its way. */
void approvals_withdraw(struct approvals *a, void *door, uint64_t id);
void approvals_door_gone(struct approvals *a, void *door);
/* Its session ended: approvals, grants and denials go. */
void approvals_workspace_gone(struct approvals *a, const char *workspace);

/* 0; 1: there is none of this id; -1: not recorded, nothing changed. seen: how many of the requests the person saw; -1: as many as the newest listing had, or the
 * first alone where there was none: a notice that it has grown went to somebody, perhaps not to who answers. */
int approvals_allow(struct approvals *a, uint64_t id, enum approval_term term, long long seen, int64_t now_ms, size_t *released)
        __attribute__((warn_unused_result));
/* A denial that cannot be recorded holds all the same (-1 says so). */
int approvals_deny(struct approvals *a, uint64_t id, int64_t now_ms) __attribute__((warn_unused_result));
/* A grant or a denial. A revocation that cannot be recorded holds all the same. */
int approvals_revoke(struct approvals *a, uint64_t id) __attribute__((warn_unused_result));

/* Milliseconds until approvals_tick is due; -1: never. */
int64_t approvals_due_ms(const struct approvals *a, int64_t now_ms);
void approvals_tick(struct approvals *a, int64_t now_ms);

/* What `still` says no to is asked for no longer, and its grants are gone. why: half a sentence for the record. */
void approvals_keep_only(struct approvals *a, const char *workspace, bool (*still)(void *ctx, const struct approval_key *key), void *ctx, const char *why);

/* Members `waiting`, `grants`, `denials`; of all workspaces when NULL. */
json_t *approvals_json(struct approvals *a, const char *workspace, int64_t now_ms);
/* How many approvals wait; how many uses. */
size_t approvals_count(const struct approvals *a);
size_t approvals_uses(const struct approvals *a);

#endif
