/* The writer's inside, shared by journal.c (queue, failure), store.c (transactions), tenant.c (names), retain.c (quotas) and forget.c.
 * A flush works on the workspaces of the list `active` only, so its work does not grow with the names the journal knows. */
#ifndef BROME_JOURNAL_PRIV_H
#define BROME_JOURNAL_PRIV_H

#include "journal/chain.h"
#include "journal/coalesce.h"
#include "journal/journal.h"
#include <sqlite3.h>
#include <sys/queue.h>

struct usage {
        uint64_t rows, bytes;
};
/* A workspace as the journal knows it. */
struct tenant {
        uint8_t name[JOURNAL_WORKSPACE_BYTES];
        size_t name_len;
        int64_t id;
        bool stored;       /* its row is on disk */
        bool touched;      /* in this transaction */
        bool active;       /* on the list of that name */
        bool bare;         /* its trace was forgotten: on the list of that name, else on `traced` */
        uint64_t sessions; /* the last number given */
        struct usage usage[JOURNAL_CLASS_COUNT], added[JOURNAL_CLASS_COUNT];
        uint64_t pruned;   /* rows that quotas removed and no note has told yet */
        struct coalesce *coalesce; /* made at the first refusal, freed when its counts are out */
        struct tenant *bucket_next;
        LIST_ENTRY(tenant) work;
        TAILQ_ENTRY(tenant) age;
};
TAILQ_HEAD(tenant_ages, tenant); /* whose last record is oldest stands first */

enum statement {
        ST_BEGIN,
        ST_COMMIT,
        ST_ROLLBACK,
        ST_SYNC_NORMAL,
        ST_SYNC_FULL,
        ST_RECORD,
        ST_WORKSPACE,
        ST_USAGE,
        ST_PROBE,
        ST_OLDEST,
        ST_DELETE,
        ST_RECORD_MAC,
        ST_GAP_BEFORE,
        ST_GAP_AT,
        ST_GAP_PUT,
        ST_GAP_DELETE,
        ST_FORGET_USAGE,
        ST_FORGET_NAME,
        ST_USED,
        ST_COUNT
};

struct journal {
        sqlite3 *db;
        sqlite3_stmt *st[ST_COUNT];
        struct chain *chain;
        int head_fd;
        unsigned head_turn;
        struct chain_head head;
        struct chain_point tail; /* the chain's end on disk */
        bool full_sync;          /* the connection's present setting */
        int64_t synced_ms;       /* when the tail was last synced */

        struct buf queue; /* struct queued, body, … */
        int64_t queued_ms; /* when the oldest came */
        uint64_t queued;

        struct tenant **buckets; /* by hash of the name */
        size_t bucket_count, tenant_count, traced_count;
        LIST_HEAD(, tenant) active; /* something of theirs is queued, counted or to be told */
        struct tenant_ages traced, bare;
        int64_t next_workspace;

        struct journal_forget forget;
        uint64_t stripped, forgotten; /* not told yet */
        int64_t forget_ms;            /* not before; after a look in vain */

        struct journal_quota quota[JOURNAL_CLASS_COUNT];
        int64_t told_ms; /* when quotas were last reported */

        bool opened; /* journal_open succeeded: closing writes */
        bool failed;
        int64_t failed_us;
        struct err why;
        char damage[256];
};
struct queued {
        struct tenant *tenant;
        size_t body_bytes;
        uint64_t session;
        int64_t time_us;
        enum journal_class class;
};

/* store.c: one transaction for everything queued. 0; -1 with j->why: nothing changed on disk or in memory. */
int store_prepare(struct journal *j, struct err *err) __attribute__((warn_unused_result));
int store_queue(struct journal *j, bool sync) __attribute__((warn_unused_result));
int store_begin(struct journal *j, bool sync) __attribute__((warn_unused_result));
int store_commit(struct journal *j) __attribute__((warn_unused_result));
void store_rollback(struct journal *j);
/* Runs a statement that gives no row. */
int store_run(struct journal *j, enum statement which) __attribute__((warn_unused_result));
int store_tenant(struct journal *j, struct tenant *t) __attribute__((warn_unused_result));
int store_usage(struct journal *j, const struct tenant *t, enum journal_class class, struct usage u) __attribute__((warn_unused_result));
int store_gap(struct journal *j, struct chain_gap *g) __attribute__((warn_unused_result));
int store_head(struct journal *j, bool synced) __attribute__((warn_unused_result));
/* Fills head, tail and j->damage from disk; marks what is lost. */
int store_load(struct journal *j, struct err *err) __attribute__((warn_unused_result));

/* retain.c: brings every touched tenant within its quotas. 0 or -1. */
int retain(struct journal *j) __attribute__((warn_unused_result));
/* Removes all rows up to a class, the oldest first, in small transactions: the rows removed, at most about `rows`; -1. */
int64_t retain_strip(struct journal *j, struct tenant *t, enum journal_class up_to, uint64_t rows) __attribute__((warn_unused_result));

/* forget.c: a step towards the limits of struct journal_forget. The queue is empty. 0 or -1. */
int forget(struct journal *j) __attribute__((warn_unused_result));

/* tenant.c */
struct tenant *tenant_find(struct journal *j, struct slice name);
/* Finds or makes; NULL when the name is too long, there are too many, or memory is out. */
struct tenant *tenant_get(struct journal *j, struct slice name);
/* It has something new: the youngest, and active. */
void tenant_use(struct journal *j, struct tenant *t);
/* Moves to the young end of `traced` or `bare`. */
void tenant_age(struct journal *j, struct tenant *t, bool bare);
/* Takes those off the active list that have nothing left to do. The queue is empty. */
void tenants_rest(struct journal *j, int64_t now_ms);
/* Frees a tenant that is not active; its rows are gone. */
void tenant_drop(struct journal *j, struct tenant *t);
int tenants_load(struct journal *j, struct err *err) __attribute__((warn_unused_result));
void tenants_free(struct journal *j);

#endif
