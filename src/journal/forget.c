/* Forgetting: a machine that makes thousands of throw-away workspaces a day must not come to an end of names or of disk. Two lists hold the
 * workspaces by the age of their last record: those that have their trace, and those that were stripped of it. Beyond the limits the oldest
 * that is gone goes from the first list to the second, and from the second out of the journal.
 *
 * A workspace that exists is never touched here, only by its own quotas; it is passed over, to the young end, so that it is not asked about
 * each time. A flush does a bounded step; whoever is in the middle is simply met again. */
#include "journal/journal_priv.h"

#include "base/clock.h"
#include "journal/schema.h"

enum {
        FORGET_ROWS = 4096, /* removed in one flush, about: some 30 ms */
        FORGET_ASK = 64,    /* workspaces asked about in one flush; each costs a look into a folder */
        FORGET_WAIT_MS = 1000, /* after a look that found nobody: nothing changes that soon */
};

/* Bytes of the database in use; 0 when it cannot be told, which forgets nothing. */
static uint64_t used_bytes(struct journal *j)
{
        sqlite3_stmt *s = j->st[ST_USED];
        uint64_t bytes = sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;

        sqlite3_reset(s);
        return bytes;
}

/* The oldest of a list that is gone, or NULL. */
static struct tenant *oldest_gone(struct journal *j, struct tenant_ages *from, unsigned *asks)
{
        struct tenant *t;

        for (; *asks && (t = TAILQ_FIRST(from)); --*asks) {
                if (t->name_len && !t->active && !j->forget.exists(j->forget.ctx, slice_of(t->name, t->name_len)))
                        return t;
                tenant_age(j, t, t->bare);
        }
        return NULL;
}

/* 1 the name is gone, 0 it has to stay, -1. */
static int forget_name(struct journal *j, struct tenant *t)
{
        int gone;

        sqlite3_bind_int64(j->st[ST_FORGET_USAGE], 1, t->id);
        sqlite3_bind_int64(j->st[ST_FORGET_NAME], 1, t->id);
        if (store_begin(j, false) < 0 || store_run(j, ST_FORGET_NAME) < 0)
                goto fail;
        gone = sqlite3_changes(j->db) > 0 || !t->stored;
        if ((gone && store_run(j, ST_FORGET_USAGE) < 0) || store_commit(j) < 0)
                goto fail;
        return gone;
fail:
        store_rollback(j);
        return -1;
}

/* One workspace one step further. The rows it cost, and 1 for itself; -1. */
static int64_t step(struct journal *j, struct tenant *t, uint64_t rows)
{
        int64_t n = retain_strip(j, t, t->bare ? JOURNAL_SELF : JOURNAL_DOOR, rows);
        int gone;

        if (n < 0 || (uint64_t)n >= rows)
                return n; /* more of it next time */
        if (!t->bare) {
                tenant_age(j, t, true);
                j->stripped++;
                return n + 1;
        }
        gone = forget_name(j, t);
        if (gone < 0)
                return -1;
        if (gone) {
                tenant_drop(j, t);
                j->forgotten++;
        } else { /* the counters were wrong: the next time every class is looked at */
                for (int c = 0; c < JOURNAL_CLASS_COUNT; c++)
                        t->usage[c].rows++;
                tenant_age(j, t, true);
        }
        return n + 1;
}

int forget(struct journal *j)
{
        unsigned asks = FORGET_ASK;
        int64_t rows = FORGET_ROWS, n;

        if (!j->forget.exists || clock_mono_ms() < j->forget_ms)
                return 0;
        while (rows > 0) {
                bool full = used_bytes(j) > j->forget.bytes;
                struct tenant *t = full || j->traced_count > j->forget.traced ? oldest_gone(j, &j->traced, &asks) : NULL;

                if (!t && !full && j->tenant_count <= j->forget.names)
                        break;
                if (!t)
                        t = oldest_gone(j, &j->bare, &asks);
                if (!t) {
                        j->forget_ms = clock_mono_ms() + FORGET_WAIT_MS;
                        break;
                }
                n = step(j, t, (uint64_t)rows);
                if (n < 0)
                        return -1;
                rows -= n;
        }
        return 0;
}
