/* Verifying: records and anchors are walked together in order of sequence; each must continue where the one before ended, and the walk must
 * reach what the head file promises. One fault is reported once: after it the walk goes on from what stands there. */
#include "journal/reader_priv.h"

#include "base/fd.h"
#include "journal/chain.h"
#include "journal/schema.h"

#include <fcntl.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>

struct walk {
        struct reader *r;
        struct chain *chain;
        sqlite3_stmt *records, *gaps;
        bool record_live, gap_live;
        struct chain_point at;   /* where the chain stands */
        bool unsure;             /* the MAC at that point is not known to be good: a fault was just told */
        struct chain_point promise;
        bool has_head;
        finding_fn *fn;
        void *ctx;
        struct verify_result result;
};

__attribute__((format(printf, 3, 4))) static void found(struct walk *w, uint64_t seq, const char *fmt, ...)
{
        char text[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        w->result.findings++;
        if (w->fn)
                w->fn(w->ctx, seq, text);
}

static bool take_mac(sqlite3_stmt *s, int column, struct mac *out)
{
        struct slice mac = schema_blob(s, column);

        if (mac.n != sizeof(out->b))
                return false;
        memcpy(out->b, mac.p, mac.n);
        return true;
}

/* Nothing may be missing between where the chain stands and `seq`. */
static void expect_seq(struct walk *w, uint64_t seq)
{
        uint64_t want = w->at.seq + 1;

        if (seq == want)
                return;
        if (seq < want) {
                found(w, seq, "record %" PRIu64 " stands where an anchor says it was removed", seq);
        } else {
                w->result.lost += seq - want;
                if (seq - want == 1)
                        found(w, want, "record %" PRIu64 " is missing", want);
                else
                        found(w, want, "records %" PRIu64 " to %" PRIu64 " are missing", want, seq - 1);
        }
        w->unsure = true;
}

static void arrive(struct walk *w, uint64_t seq, const struct mac *mac, bool good)
{
        w->at = (struct chain_point){ seq, *mac };
        w->unsure = !good;
        if (!w->has_head || seq != w->promise.seq)
                return;
        if (good && !mac_eq(mac, &w->promise.mac))
                found(w, seq, "record %" PRIu64 " is not the one that the head file knows", seq);
}

static void walk_record(struct walk *w)
{
        sqlite3_stmt *s = w->records;
        struct chain_record rec = { (uint64_t)sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), schema_blob(s, 6),
                                    (uint64_t)sqlite3_column_int64(s, 3), (uint8_t)sqlite3_column_int64(s, 4), schema_blob(s, 5) };
        struct mac have, want;
        bool good, told;

        expect_seq(w, rec.seq);
        told = w->unsure;
        good = take_mac(s, 7, &have) && (sqlite3_column_int64(s, 4) & ~INT64_C(0xff)) == 0 && chain_record(w->chain, &w->at.mac, &rec, &want) == 0 &&
               mac_eq(&have, &want);
        /* After a fault the predecessor's MAC is unknown or not to be trusted; the record may still be good, and the chain then goes on. */
        if (!good && !told)
                found(w, rec.seq, "record %" PRIu64 " was changed, moved, or does not follow its predecessor", rec.seq);
        w->result.records += good || told;
        if (!take_mac(s, 7, &have))
                memset(&have, 0, sizeof(have));
        /* The stored MAC is what its successor was chained to, whether or not this row still fits it. */
        arrive(w, rec.seq, &have, true);
}

static void walk_gap(struct walk *w)
{
        sqlite3_stmt *s = w->gaps;
        struct chain_gap g = { .first = (uint64_t)sqlite3_column_int64(s, 0), .last = (uint64_t)sqlite3_column_int64(s, 1),
                               .kind = sqlite3_column_int64(s, 2) == CHAIN_LOST ? CHAIN_LOST : CHAIN_PRUNED, .time_us = sqlite3_column_int64(s, 3) };
        struct mac have, want;

        expect_seq(w, g.first);
        if (!take_mac(s, 4, &g.before) || !take_mac(s, 5, &g.after) || !take_mac(s, 6, &have) || chain_gap(w->chain, &g, &want) < 0 ||
            !mac_eq(&have, &want) || g.last < g.first)
                found(w, g.first, "the anchor at %" PRIu64 " was not made by this journal", g.first);
        else if (!w->unsure && !mac_eq(&g.before, &w->at.mac))
                found(w, g.first, "the anchor at %" PRIu64 " does not follow its predecessor", g.first);
        else if (g.kind == CHAIN_LOST)
                found(w, g.first, "records %" PRIu64 " to %" PRIu64 " were missing when the journal was opened", g.first, g.last);
        *(g.kind == CHAIN_LOST ? &w->result.lost : &w->result.pruned) += g.last - g.first + 1;
        arrive(w, g.last < g.first ? g.first : g.last, &g.after, true);
}

static int next(struct walk *w, sqlite3_stmt *s, bool *live, struct err *err)
{
        int rc = sqlite3_step(s);

        *live = rc == SQLITE_ROW;
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : schema_fail(w->r->db, err, "read");
}

static int walk_all(struct walk *w, struct err *err)
{
        if (next(w, w->records, &w->record_live, err) < 0 || next(w, w->gaps, &w->gap_live, err) < 0)
                return -1;
        while (w->record_live || w->gap_live) {
                bool gap = w->gap_live && (!w->record_live || sqlite3_column_int64(w->gaps, 0) <= sqlite3_column_int64(w->records, 0));
                if (gap) {
                        walk_gap(w);
                        if (next(w, w->gaps, &w->gap_live, err) < 0)
                                return -1;
                } else {
                        walk_record(w);
                        if (next(w, w->records, &w->record_live, err) < 0)
                                return -1;
                }
        }
        return 0;
}

static void walk_end(struct walk *w)
{
        w->result.last_seq = w->at.seq;
        if (!w->has_head) {
                if (w->at.seq)
                        found(w, w->at.seq, "the head file is missing or damaged: a cut tail could not be seen");
        } else if (w->at.seq < w->promise.seq) {
                w->result.lost += w->promise.seq - w->at.seq;
                found(w, w->at.seq + 1, "the tail is cut: records %" PRIu64 " to %" PRIu64 " are missing", w->at.seq + 1, w->promise.seq);
        }
}

enum { SQLITE_TOLD = 20 /* findings of SQLite's own; a damaged page brings many of one kind */ };

static int sqlite_finding(void *ctx, int columns, char **values, char **names)
{
        struct walk *w = ctx;
        char *text = columns == 1 ? values[0] : NULL;

        (void)names;
        if (!text || strcmp(text, "ok") == 0)
                return 0;
        for (char *c = text; *c; c++) /* its first words are "*** in database main ***" and a line's end */
                if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                        *c = ' ';
        found(w, 0, "journal.db is damaged: %s", text);
        return 0;
}

/* The chain is read along one path; a page beside it (an index, the list of free pages) may be damaged and stop bromed all the same. */
static void check_database(struct walk *w)
{
        char sql[48];

        snprintf(sql, sizeof(sql), "PRAGMA quick_check(%d)", SQLITE_TOLD);
        if (sqlite3_exec(w->r->db, sql, sqlite_finding, w, NULL) != SQLITE_OK)
                found(w, 0, "journal.db is damaged: %s", sqlite3_errmsg(w->r->db));
}

/* SECURITY: the head is read before the snapshot begins, so a writer at work cannot make the snapshot look cut. */
static int load_head(struct walk *w, struct err *err)
{
        char path[PATH_MAX + 16];
        uint8_t key[CHAIN_KEY_BYTES];
        struct chain_head head;
        int fd, rc;

        snprintf(path, sizeof(path), "%s/journal.key", w->r->state);
        rc = chain_key_load(path, false, key, err);
        if (rc == 1)
                w->chain = chain_new(key);
        OPENSSL_cleanse(key, sizeof(key));
        if (rc < 0)
                return -1;
        if (!w->chain)
                return err_set(err, rc ? "libcrypto has no HMAC-SHA256" : "%s is missing: nothing can be verified without it", path);
        snprintf(path, sizeof(path), "%s/journal.head", w->r->state);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        w->has_head = fd >= 0 && chain_head_read(fd, w->chain, &head) == 1;
        fd_close(&fd);
        if (w->has_head)
                w->promise = *chain_head_promise(&head);
        return 0;
}

static int open_walk(struct walk *w, struct err *err)
{
        if (sqlite3_exec(w->r->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
                return schema_fail(w->r->db, err, "read");
        return schema_prepare(w->r->db,
                              "SELECT seq, time_us, workspace, session, class, body, (SELECT name FROM workspace w WHERE w.id = r.workspace), mac"
                              " FROM record r ORDER BY seq",
                              &w->records, err) < 0 ||
                               schema_prepare(w->r->db, "SELECT first, last, kind, time_us, mac_before, mac_after, mac FROM gap ORDER BY first",
                                              &w->gaps, err) < 0
                       ? -1
                       : 0;
}

/* A file that is damaged is what verify is asked about: it ends the walk, not the report. Anything else (no memory, no right to read) says nothing of it. */
static bool is_damage(sqlite3 *db)
{
        int code = sqlite3_errcode(db) & 0xff;

        return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR; /* ERROR: a table or a column is not there */
}

static int walk(struct walk *w, struct err *err)
{
        struct err why = ERR_INIT;

        if (open_walk(w, &why) < 0) {
                if (!is_damage(w->r->db))
                        return err_set(err, "%s", why.text);
                found(w, 0, "journal.db is damaged and cannot be read: %s", why.text);
                return 0;
        }
        check_database(w);
        if (walk_all(w, &why) == 0)
                return 0;
        if (!w->result.findings && !is_damage(w->r->db))
                return err_set(err, "%s", why.text);
        found(w, w->at.seq + 1, "behind record %" PRIu64 " nothing can be read: %s", w->at.seq, why.text);
        return 0;
}

int reader_verify(struct reader *r, finding_fn *fn, void *ctx, struct verify_result *out, struct err *err)
{
        struct walk w = { .r = r, .fn = fn, .ctx = ctx };
        int rc = load_head(&w, err);

        if (rc == 0)
                rc = walk(&w, err);
        if (rc == 0) {
                walk_end(&w);
                *out = w.result;
        }
        sqlite3_finalize(w.records);
        sqlite3_finalize(w.gaps);
        if (!sqlite3_get_autocommit(r->db))
                sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
        chain_free(w.chain);
        return rc;
}
