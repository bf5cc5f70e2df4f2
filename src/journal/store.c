/* Transactions: everything queued becomes rows in one go, each chained to its predecessor, then the head file follows. Nothing in memory
 * moves on before the commit did; a transaction that fails leaves queue, chain and counters as they were. */
#include "journal/journal_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "journal/schema.h"

#include <errno.h>
#include <stdio.h>

static const char *const statement_text[ST_COUNT] = {
        [ST_BEGIN] = "BEGIN IMMEDIATE",
        [ST_COMMIT] = "COMMIT",
        [ST_ROLLBACK] = "ROLLBACK",
        [ST_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
        [ST_SYNC_FULL] = "PRAGMA synchronous=FULL",
        [ST_RECORD] = "INSERT INTO record(seq, time_us, workspace, session, class, body, mac) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [ST_WORKSPACE] = "INSERT INTO workspace(id, name, sessions) VALUES(?1, ?2, ?3) ON CONFLICT(id) DO UPDATE SET sessions = ?3",
        [ST_USAGE] = "INSERT OR REPLACE INTO usage(workspace, class, rows, bytes) VALUES(?1, ?2, ?3, ?4)",
        [ST_PROBE] = "INSERT OR REPLACE INTO probe(id, time_us) VALUES(1, ?1)",
        [ST_OLDEST] = "SELECT seq, length(body), mac FROM record WHERE workspace = ?1 AND class = ?2 ORDER BY seq",
        [ST_DELETE] = "DELETE FROM record WHERE seq = ?1",
        [ST_RECORD_MAC] = "SELECT mac FROM record WHERE seq = ?1",
        [ST_GAP_BEFORE] = "SELECT first, last, kind, mac_before, mac_after FROM gap WHERE first <= ?1 ORDER BY first DESC LIMIT 1",
        [ST_GAP_AT] = "SELECT first, last, kind, mac_before, mac_after FROM gap WHERE first = ?1",
        [ST_GAP_PUT] = "INSERT INTO gap(first, last, kind, time_us, mac_before, mac_after, mac) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [ST_GAP_DELETE] = "DELETE FROM gap WHERE first = ?1",
        [ST_FORGET_USAGE] = "DELETE FROM usage WHERE workspace = ?1",
        /* SECURITY: a record's MAC covers the name, so a name with records stays, whatever the counters say. */
        [ST_FORGET_NAME] = "DELETE FROM workspace WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM record WHERE workspace = ?1)",
        [ST_USED] = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
};

int store_prepare(struct journal *j, struct err *err)
{
        for (int i = 0; i < ST_COUNT; i++)
                if (schema_prepare(j->db, statement_text[i], &j->st[i], err) < 0)
                        return -1;
        return 0;
}

static int bind_blob(sqlite3_stmt *s, int at, const void *p, size_t n)
{
        return sqlite3_bind_blob(s, at, n ? p : "", (int)n, SQLITE_STATIC);
}

int store_run(struct journal *j, enum statement which)
{
        int rc = sqlite3_step(j->st[which]);

        if (rc != SQLITE_DONE && rc != SQLITE_ROW)
                schema_fail(j->db, &j->why, "write");
        sqlite3_reset(j->st[which]);
        return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : -1;
}

int store_begin(struct journal *j, bool sync)
{
        if (sync != j->full_sync) {
                if (store_run(j, sync ? ST_SYNC_FULL : ST_SYNC_NORMAL) < 0)
                        return -1;
                j->full_sync = sync;
        }
        return store_run(j, ST_BEGIN);
}

int store_commit(struct journal *j) { return store_run(j, ST_COMMIT); }

void store_rollback(struct journal *j)
{
        struct err why = j->why;

        /* A full disk may have rolled back already. */
        if (!sqlite3_get_autocommit(j->db))
                (void)!store_run(j, ST_ROLLBACK);
        j->why = why;
}

int store_tenant(struct journal *j, struct tenant *t)
{
        sqlite3_stmt *s = j->st[ST_WORKSPACE];

        sqlite3_bind_int64(s, 1, t->id);
        bind_blob(s, 2, t->name, t->name_len);
        sqlite3_bind_int64(s, 3, (int64_t)t->sessions);
        return store_run(j, ST_WORKSPACE);
}

int store_usage(struct journal *j, const struct tenant *t, enum journal_class class, struct usage u)
{
        sqlite3_stmt *s = j->st[ST_USAGE];

        sqlite3_bind_int64(s, 1, t->id);
        sqlite3_bind_int64(s, 2, class);
        sqlite3_bind_int64(s, 3, (int64_t)u.rows);
        sqlite3_bind_int64(s, 4, (int64_t)u.bytes);
        return store_run(j, ST_USAGE);
}

int store_gap(struct journal *j, struct chain_gap *g)
{
        sqlite3_stmt *s = j->st[ST_GAP_PUT];
        struct mac mac;

        if (chain_gap(j->chain, g, &mac) < 0)
                return err_set(&j->why, "journal: libcrypto failed");
        sqlite3_bind_int64(s, 1, (int64_t)g->first);
        sqlite3_bind_int64(s, 2, (int64_t)g->last);
        sqlite3_bind_int64(s, 3, g->kind);
        sqlite3_bind_int64(s, 4, g->time_us);
        bind_blob(s, 5, g->before.b, sizeof(g->before.b));
        bind_blob(s, 6, g->after.b, sizeof(g->after.b));
        bind_blob(s, 7, mac.b, sizeof(mac.b));
        return store_run(j, ST_GAP_PUT);
}

int store_head(struct journal *j, bool synced)
{
        struct chain_head head = j->head;

        head.committed = j->tail;
        if (synced)
                head.synced = j->tail;
        if (chain_head_write(j->head_fd, j->chain, &head, j->head_turn) < 0)
                return err_sys(&j->why, errno, "journal.head");
        j->head = head;
        j->head_turn++;
        return 0;
}

static int insert_record(struct journal *j, const struct queued *q, const uint8_t *body, struct chain_point *tail)
{
        struct tenant *t = q->tenant;
        struct chain_record r = { tail->seq + 1, q->time_us, slice_of(t->name, t->name_len), q->session, (uint8_t)q->class,
                                  slice_of(body, q->body_bytes) };
        sqlite3_stmt *s = j->st[ST_RECORD];
        struct mac mac;

        if (chain_record(j->chain, &tail->mac, &r, &mac) < 0)
                return err_set(&j->why, "journal: libcrypto failed");
        sqlite3_bind_int64(s, 1, (int64_t)r.seq);
        sqlite3_bind_int64(s, 2, r.time_us);
        sqlite3_bind_int64(s, 3, t->id);
        sqlite3_bind_int64(s, 4, (int64_t)r.session);
        sqlite3_bind_int64(s, 5, r.class);
        bind_blob(s, 6, body, q->body_bytes);
        bind_blob(s, 7, mac.b, sizeof(mac.b));
        if (store_run(j, ST_RECORD) < 0)
                return -1;
        t->touched = true;
        t->added[q->class].rows++;
        t->added[q->class].bytes += q->body_bytes;
        *tail = (struct chain_point){ r.seq, mac };
        return 0;
}

/* New workspaces and the counters of all that were touched. */
static int insert_tenants(struct journal *j)
{
        struct tenant *t;

        LIST_FOREACH(t, &j->active, work) {
                if (!t->touched)
                        continue;
                if (!t->stored && store_tenant(j, t) < 0)
                        return -1;
                for (int c = 0; c < JOURNAL_CLASS_COUNT; c++) {
                        struct usage u = { t->usage[c].rows + t->added[c].rows, t->usage[c].bytes + t->added[c].bytes };
                        if (t->added[c].rows && store_usage(j, t, (enum journal_class)c, u) < 0)
                                return -1;
                }
        }
        return 0;
}

static int insert_all(struct journal *j, struct chain_point *tail)
{
        struct slice in = buf_slice(&j->queue);

        while (in.n) {
                struct queued q;
                memcpy(&q, in.p, sizeof(q));
                if (insert_record(j, &q, in.p + sizeof(q), tail) < 0)
                        return -1;
                in = slice_skip(in, sizeof(q) + q.body_bytes);
        }
        return insert_tenants(j);
}

/* After the commit (done), or after it failed. `touched` stays set for retain(). */
static void settle_tenants(struct journal *j, bool done)
{
        struct tenant *t;

        LIST_FOREACH(t, &j->active, work) {
                if (!t->touched)
                        continue;
                t->stored = t->stored || done;
                t->touched = done;
                for (int c = 0; done && c < JOURNAL_CLASS_COUNT; c++) {
                        t->usage[c].rows += t->added[c].rows;
                        t->usage[c].bytes += t->added[c].bytes;
                }
                memset(t->added, 0, sizeof(t->added));
        }
}

int store_queue(struct journal *j, bool sync)
{
        struct chain_point tail = j->tail;

        if (store_begin(j, sync) < 0 || insert_all(j, &tail) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                settle_tenants(j, false);
                return -1;
        }
        settle_tenants(j, true);
        j->tail = tail;
        buf_clear(&j->queue);
        j->queued = 0;
        if (sync)
                j->synced_ms = clock_mono_ms();
        return store_head(j, sync);
}

/* ---- opening ---- */

/* The end of the chain in the database: the last record or the last gap, whichever is later. */
static int load_tail(struct journal *j, struct chain_point *tail, struct err *err)
{
        sqlite3_stmt *s;
        int rc;

        memset(tail, 0, sizeof(*tail));
        if (schema_prepare(j->db,
                           "SELECT * FROM (SELECT seq, mac FROM record ORDER BY seq DESC LIMIT 1) UNION ALL"
                           " SELECT * FROM (SELECT last, mac_after FROM gap ORDER BY first DESC LIMIT 1)",
                           &s, err) < 0)
                return -1;
        while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
                struct slice mac = schema_blob(s, 1);
                uint64_t seq = (uint64_t)sqlite3_column_int64(s, 0);
                if (seq <= tail->seq || mac.n != sizeof(tail->mac.b))
                        continue;
                tail->seq = seq;
                memcpy(tail->mac.b, mac.p, mac.n);
        }
        sqlite3_finalize(s);
        return rc == SQLITE_DONE ? 0 : schema_fail(j->db, err, "read");
}

/* SECURITY: the cut is marked under the key before anything is appended, so going on does not hide it. */
static int mark_lost(struct journal *j, const struct chain_point *promise, struct err *err)
{
        struct chain_gap g = { j->tail.seq + 1, promise->seq, CHAIN_LOST, clock_real_us(), j->tail.mac, promise->mac };

        snprintf(j->damage, sizeof(j->damage), "records %llu to %llu are missing at the journal's end", (unsigned long long)g.first,
                 (unsigned long long)g.last);
        if (store_begin(j, true) < 0 || store_gap(j, &g) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                return err_set(err, "%s", j->why.text);
        }
        j->tail = *promise;
        return 0;
}

/* Whether the database's record at the promised place has the promised MAC; a pruned one cannot be asked. */
static bool fits(struct journal *j, const struct chain_point *promise)
{
        sqlite3_stmt *s = j->st[ST_RECORD_MAC];
        bool ok = true;

        sqlite3_bind_int64(s, 1, (int64_t)promise->seq);
        if (sqlite3_step(s) == SQLITE_ROW)
                ok = slice_eq(schema_blob(s, 0), slice_of(promise->mac.b, sizeof(promise->mac.b)));
        sqlite3_reset(s);
        return ok;
}

/* Whether the last record was made with this key. A journal without records fits any. */
static bool key_fits(struct journal *j)
{
        static const char last[] =
                "SELECT seq, time_us, (SELECT name FROM workspace w WHERE w.id = r.workspace), session, class, body, mac,"
                " coalesce((SELECT mac FROM record p WHERE p.seq = r.seq - 1), (SELECT mac_after FROM gap WHERE last = r.seq - 1), zeroblob(32))"
                " FROM record r ORDER BY seq DESC LIMIT 1";
        sqlite3_stmt *s;
        struct mac before, mac;
        bool ok = true;

        if (schema_prepare(j->db, last, &s, NULL) < 0)
                return false;
        if (sqlite3_step(s) == SQLITE_ROW) {
                struct chain_record r = { (uint64_t)sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), schema_blob(s, 2),
                                          (uint64_t)sqlite3_column_int64(s, 3), (uint8_t)sqlite3_column_int64(s, 4), schema_blob(s, 5) };
                struct slice have = schema_blob(s, 6), prev = schema_blob(s, 7);
                ok = have.n == sizeof(mac.b) && prev.n == sizeof(before.b);
                if (ok) {
                        memcpy(before.b, prev.p, prev.n);
                        ok = chain_record(j->chain, &before, &r, &mac) == 0 && slice_eq(have, slice_of(mac.b, sizeof(mac.b)));
                }
        }
        sqlite3_finalize(s);
        return ok;
}

int store_load(struct journal *j, struct err *err)
{
        int have = chain_head_read(j->head_fd, j->chain, &j->head);
        const struct chain_point *promise = chain_head_promise(&j->head);

        if (load_tail(j, &j->tail, err) < 0)
                return -1;
        if (have < 1) {
                /* Neither head nor records were made with this key: going on would chain to nothing. */
                if (have < 0 && !key_fits(j))
                        return err_set(err, "journal.key does not fit journal.db: put the right one back, or move journal.* away to begin a new journal");
                if (j->tail.seq || have < 0)
                        snprintf(j->damage, sizeof(j->damage), "journal.head %s: a cut tail could not be seen", have ? "is damaged" : "is missing");
        } else if (j->tail.seq < promise->seq) {
                if (mark_lost(j, promise, err) < 0)
                        return -1;
        } else if (!fits(j, promise)) {
                snprintf(j->damage, sizeof(j->damage), "record %llu is not the one that was written", (unsigned long long)promise->seq);
        }
        chain_boot_id(j->head.boot);
        return 0;
}
