/* Quotas: the oldest rows of one workspace and class go, a signed anchor takes their place. Anchors of neighbouring rows are merged, so
 * there are never more anchors than rows that remain, plus one. A little is removed at a time, with each flush, so that nobody waits. */
#include "journal/journal_priv.h"

#include "base/clock.h"
#include "journal/schema.h"

enum {
        RETAIN_SLACK_ROWS = 256,          /* a quota may be passed by this much, so that not each flush prunes */
        RETAIN_SLACK_BYTES = 256 * 1024,  /* the same */
        RETAIN_STEP_ROWS = 4096,          /* at most this many in one transaction: some 30 ms */
};

static int take_mac(sqlite3_stmt *s, int column, struct mac *out)
{
        struct slice mac = schema_blob(s, column);

        if (mac.n != sizeof(out->b))
                return -1;
        memcpy(out->b, mac.p, mac.n);
        return 0;
}

/* The gap that a lookup for `seq` finds: 1, 0 none, -1. */
static int find_gap(struct journal *j, enum statement which, uint64_t seq, struct chain_gap *g)
{
        sqlite3_stmt *s = j->st[which];
        int rc, result = 0;

        sqlite3_bind_int64(s, 1, (int64_t)seq);
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) {
                *g = (struct chain_gap){ .first = (uint64_t)sqlite3_column_int64(s, 0), .last = (uint64_t)sqlite3_column_int64(s, 1),
                                         .kind = sqlite3_column_int(s, 2) == CHAIN_PRUNED ? CHAIN_PRUNED : CHAIN_LOST };
                result = take_mac(s, 3, &g->before) < 0 || take_mac(s, 4, &g->after) < 0 ? -1 : 1;
        } else if (rc != SQLITE_DONE) {
                result = -1;
        }
        if (result < 0)
                schema_fail(j->db, &j->why, "anchor");
        sqlite3_reset(s);
        return result;
}

/* The chain's MAC before g->first; an anchor that ends there is taken in. */
static int join_before(struct journal *j, struct chain_gap *g)
{
        sqlite3_stmt *s = j->st[ST_RECORD_MAC];
        struct chain_gap left;
        int rc;

        memset(&g->before, 0, sizeof(g->before));
        if (g->first == 1)
                return 0;
        sqlite3_bind_int64(s, 1, (int64_t)(g->first - 1));
        rc = sqlite3_step(s) == SQLITE_ROW ? take_mac(s, 0, &g->before) + 1 : 0;
        sqlite3_reset(s);
        if (rc)
                return 0;
        rc = find_gap(j, ST_GAP_BEFORE, g->first - 1, &left);
        if (rc < 0)
                return -1;
        if (rc == 0 || left.last != g->first - 1)
                return err_set(&j->why, "journal: nothing stands before record %llu: see brome trace verify", (unsigned long long)g->first);
        if (left.kind != CHAIN_PRUNED) {
                g->before = left.after;
                return 0;
        }
        g->before = left.before;
        g->first = left.first;
        sqlite3_bind_int64(j->st[ST_GAP_DELETE], 1, (int64_t)left.first);
        return store_run(j, ST_GAP_DELETE);
}

static int join_after(struct journal *j, struct chain_gap *g)
{
        struct chain_gap right;
        int rc = find_gap(j, ST_GAP_AT, g->last + 1, &right);

        if (rc <= 0 || right.kind != CHAIN_PRUNED)
                return rc;
        g->last = right.last;
        g->after = right.after;
        sqlite3_bind_int64(j->st[ST_GAP_DELETE], 1, (int64_t)right.first);
        return store_run(j, ST_GAP_DELETE);
}

/* g: a run of rows, the MAC of its last in g->after. */
static int put_anchor(struct journal *j, struct chain_gap *g)
{
        if (join_before(j, g) < 0 || join_after(j, g) < 0)
                return -1;
        g->kind = CHAIN_PRUNED;
        g->time_us = clock_real_us();
        return store_gap(j, g);
}

static int delete_row(struct journal *j, uint64_t seq)
{
        sqlite3_bind_int64(j->st[ST_DELETE], 1, (int64_t)seq);
        return store_run(j, ST_DELETE);
}

struct doomed {
        uint64_t seq;
        struct mac mac;
};

/* The oldest rows of a class, until `rows` and `bytes` are reached. */
static size_t choose(struct journal *j, const struct tenant *t, enum journal_class class, struct usage goal, struct doomed *out, struct usage *gone)
{
        sqlite3_stmt *s = j->st[ST_OLDEST];
        size_t n = 0;

        sqlite3_bind_int64(s, 1, t->id);
        sqlite3_bind_int64(s, 2, class);
        while (n < RETAIN_STEP_ROWS && (gone->rows < goal.rows || gone->bytes < goal.bytes) && sqlite3_step(s) == SQLITE_ROW) {
                out[n].seq = (uint64_t)sqlite3_column_int64(s, 0);
                if (take_mac(s, 2, &out[n].mac) < 0)
                        break;
                n++;
                gone->rows++;
                gone->bytes += (uint64_t)sqlite3_column_int64(s, 1);
        }
        sqlite3_reset(s);
        return n;
}

static int remove_rows(struct journal *j, const struct doomed *d, size_t n)
{
        for (size_t i = 0; i < n;) {
                struct chain_gap g = { .first = d[i].seq, .last = d[i].seq, .after = d[i].mac };
                if (delete_row(j, d[i].seq) < 0)
                        return -1;
                for (i++; i < n && d[i].seq == g.last + 1; i++) {
                        if (delete_row(j, d[i].seq) < 0)
                                return -1;
                        g.last = d[i].seq;
                        g.after = d[i].mac;
                }
                if (put_anchor(j, &g) < 0)
                        return -1;
        }
        return 0;
}

/* Removes the oldest `goal` of a class in one transaction. Returns the rows removed, or -1. */
static int64_t prune(struct journal *j, struct tenant *t, enum journal_class class, struct usage goal)
{
        static struct doomed doomed[RETAIN_STEP_ROWS]; /* 160 KB; one writer, one thread */
        struct usage gone = { 0 }, left;
        size_t n;

        if (store_begin(j, false) < 0)
                return -1;
        n = choose(j, t, class, goal, doomed, &gone);
        left = (struct usage){ t->usage[class].rows > gone.rows ? t->usage[class].rows - gone.rows : 0,
                               t->usage[class].bytes > gone.bytes ? t->usage[class].bytes - gone.bytes : 0 };
        if (n == 0)
                left = (struct usage){ 0 }; /* the counters were wrong: nothing is there */
        if (remove_rows(j, doomed, n) < 0 || store_usage(j, t, class, left) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                return -1;
        }
        t->usage[class] = left;
        return (int64_t)n;
}

static struct usage over(const struct usage *have, const struct journal_quota *quota)
{
        struct usage o = { 0 };

        if (have->rows > quota->rows + RETAIN_SLACK_ROWS || have->bytes > quota->bytes + RETAIN_SLACK_BYTES) {
                o.rows = have->rows > quota->rows ? have->rows - quota->rows : 0;
                o.bytes = have->bytes > quota->bytes ? have->bytes - quota->bytes : 0;
        }
        return o;
}

int retain(struct journal *j)
{
        struct tenant *t;

        LIST_FOREACH(t, &j->active, work) {
                if (!t->touched)
                        continue;
                t->touched = false;
                for (int c = 0; c < JOURNAL_CLASS_COUNT; c++) {
                        struct usage o = over(&t->usage[c], &j->quota[c]);
                        int64_t n = o.rows || o.bytes ? prune(j, t, (enum journal_class)c, o) : 0;

                        if (n < 0)
                                return -1;
                        t->pruned += (uint64_t)n;
                }
        }
        return 0;
}

int64_t retain_strip(struct journal *j, struct tenant *t, enum journal_class up_to, uint64_t rows)
{
        uint64_t gone = 0;

        for (int c = JOURNAL_TRACE; c <= (int)up_to; c++) {
                int64_t n;
                do {
                        n = gone < rows && t->usage[c].rows ? prune(j, t, (enum journal_class)c, (struct usage){ .rows = rows - gone }) : 0;
                        if (n < 0)
                                return -1;
                        gone += (uint64_t)n;
                } while (n == RETAIN_STEP_ROWS);
        }
        return (int64_t)gone;
}
