/* The writer's inside, shared by journal.c (queue, failure), store.c (transactions) and retain.c (quotas). */
#ifndef BROME_JOURNAL_PRIV_H
#define BROME_JOURNAL_PRIV_H

#include "journal/chain.h"
#include "journal/coalesce.h"
#include "journal/journal.h"
#include <sqlite3.h>

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
        uint64_t sessions; /* the last number given */
        struct usage usage[JOURNAL_CLASS_COUNT], added[JOURNAL_CLASS_COUNT];
        uint64_t pruned;   /* rows that quotas removed and no note has told yet */
        struct coalesce *coalesce; /* made at the first refusal */
};

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

        struct tenant **tenants;
        size_t tenant_count, tenant_cap;
        size_t *buckets; /* hash of the name → index + 1 */
        size_t bucket_count;
        int64_t next_workspace;

        struct journal_quota quota[JOURNAL_CLASS_COUNT];
        int64_t told_ms; /* when quotas were last reported */

        bool opened; /* journal_open succeeded: closing writes */
        bool failed;
        int64_t failed_us;
        struct err why;
        char damage[256];
};
struct queued {
        size_t tenant, body_bytes;
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
int retain_clear(struct journal *j, struct tenant *t) __attribute__((warn_unused_result));

/* tenant.c */
struct tenant *tenant_find(struct journal *j, struct slice name, size_t *index);
/* Finds or makes; NULL when the name is too long, there are too many, or memory is out. */
struct tenant *tenant_get(struct journal *j, struct slice name, size_t *index);
int tenants_load(struct journal *j, struct err *err) __attribute__((warn_unused_result));
void tenants_free(struct journal *j);

#endif
