/* Reading records in order: see reader_priv.h. */
#include "journal/reader_priv.h"

#include "journal/schema.h"

#define COLUMNS "SELECT seq, time_us, workspace, session, class, body, (SELECT name FROM workspace w WHERE w.id = r.workspace) FROM record r "

static const char *const scan_all[2] = {
        COLUMNS "WHERE seq > ?1 ORDER BY seq",
        COLUMNS "WHERE seq < ?1 ORDER BY seq DESC",
};
static const char *const scan_one[2] = {
        COLUMNS "WHERE workspace = ?2 AND class = ?3 AND seq > ?1 ORDER BY seq",
        COLUMNS "WHERE workspace = ?2 AND class = ?3 AND seq < ?1 ORDER BY seq DESC",
};

/* 1 and its id; 0 when the journal knows no such workspace. */
static int workspace_id(struct reader *r, struct slice name, int64_t *id, struct err *err)
{
        sqlite3_stmt *s;
        int rc;

        if (schema_prepare(r->db, "SELECT id FROM workspace WHERE name = ?1", &s, err) < 0)
                return -1;
        sqlite3_bind_blob(s, 1, name.n ? (const void *)name.p : "", (int)name.n, SQLITE_STATIC);
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
                *id = sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
        return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : schema_fail(r->db, err, "read");
}

static int step(struct scan *s, int i, struct err *err)
{
        int rc = sqlite3_step(s->cursor[i]);

        s->live[i] = rc == SQLITE_ROW;
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : schema_fail(s->r->db, err, "read");
}

static int open_cursors(struct scan *s, struct slice workspace, uint64_t from, struct err *err)
{
        int64_t id = 0;
        int known = workspace.n ? workspace_id(s->r, workspace, &id, err) : 1;
        int count = workspace.n ? JOURNAL_CLASS_COUNT : 1;

        if (known <= 0)
                return known;
        for (; s->cursors < count; s->cursors++) {
                sqlite3_stmt **c = &s->cursor[s->cursors];
                if (schema_prepare(s->r->db, (workspace.n ? scan_one : scan_all)[s->backwards], c, err) < 0)
                        return -1;
                sqlite3_bind_int64(*c, 1, from > INT64_MAX ? INT64_MAX : (int64_t)from);
                if (workspace.n) {
                        sqlite3_bind_int64(*c, 2, id);
                        sqlite3_bind_int64(*c, 3, s->cursors);
                }
                if (step(s, s->cursors, err) < 0) {
                        s->cursors++;
                        return -1;
                }
        }
        return 0;
}

int scan_open(struct scan *s, struct reader *r, struct slice workspace, uint64_t from, bool backwards, struct err *err)
{
        *s = (struct scan){ .r = r, .backwards = backwards, .last = -1 };
        if (sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
                return schema_fail(r->db, err, "read");
        if (open_cursors(s, workspace, from, err) == 0)
                return 0;
        scan_close(s);
        return -1;
}

void scan_close(struct scan *s)
{
        for (int i = 0; i < s->cursors; i++)
                sqlite3_finalize(s->cursor[i]);
        s->cursors = 0;
        sqlite3_exec(s->r->db, "COMMIT", NULL, NULL, NULL);
}

static void fill(sqlite3_stmt *c, struct record *out)
{
        int64_t class = sqlite3_column_int64(c, 4);

        out->seq = (uint64_t)sqlite3_column_int64(c, 0);
        out->time_us = sqlite3_column_int64(c, 1);
        out->workspace_id = sqlite3_column_int64(c, 2);
        out->session = (uint64_t)sqlite3_column_int64(c, 3);
        out->class = class >= 0 && class < JOURNAL_CLASS_COUNT ? (enum journal_class)class : JOURNAL_TRACE;
        out->body = schema_blob(c, 5);
        out->workspace = schema_blob(c, 6);
}

int scan_next(struct scan *s, struct record *out, struct err *err)
{
        for (;;) {
                size_t used;
                int best = -1;
                sqlite3_int64 best_seq = 0;

                if (s->last >= 0 && step(s, s->last, err) < 0)
                        return -1;
                for (int i = 0; i < s->cursors; i++) {
                        sqlite3_int64 seq = s->live[i] ? sqlite3_column_int64(s->cursor[i], 0) : 0;
                        if (!s->live[i] || (best >= 0 && (s->backwards ? seq < best_seq : seq > best_seq)))
                                continue;
                        best = i;
                        best_seq = seq;
                }
                s->last = best;
                if (best < 0)
                        return 0;
                fill(s->cursor[best], out);
                if (event_read(out->body, &out->event, &used) == 1 && used == out->body.n)
                        return 1;
        }
}
