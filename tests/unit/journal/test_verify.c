/* Verifying: whatever a hand changes, verify names the record. */
#include "help.h"

#include "journal/chain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct place *filled(void **state, size_t n)
{
        struct place *p = *state;

        place_open(p);
        put_many(p->j, "alpha", n);
        place_close(p);
        return p;
}

static void whole(void **state)
{
        struct place *p = filled(state, 100);
        struct verdict_of_verify v = verify(p);

        assert_int_equal(v.result.findings, 0);
        assert_int_equal(v.result.records, 100);
        place_open(p);
        v = verify(p); /* while the writer has it open */
        assert_int_equal(v.result.findings, 0);
}

static const struct { const char *sql; uint64_t seq; const char *says; } hands[] = {
        { "DROP TRIGGER record_stays; UPDATE record SET body = CAST(substr(body, 1, 30) || x'41' || substr(body, 32) AS BLOB) WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET time_us = time_us + 1 WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET session = 2 WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET class = 3 WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET class = 256 WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET mac = zeroblob(32) WHERE seq = 50", 50, "changed" },
        { "DROP TRIGGER record_stays; UPDATE record SET mac = x'00' WHERE seq = 50", 50, "changed" },
        { "UPDATE workspace SET name = x'62'", 1, "changed" },
        { "DELETE FROM record WHERE seq = 50", 50, "missing" },
        { "DELETE FROM record WHERE seq BETWEEN 50 AND 60", 50, "records 50 to 60 are missing" },
        { "DELETE FROM record WHERE seq < 10", 1, "records 1 to 9 are missing" },
        { "DELETE FROM record WHERE seq > 90", 91, "tail is cut" },
        { "DELETE FROM record WHERE seq = 100", 100, "tail is cut" },
        { "DELETE FROM record", 1, "tail is cut" },
        { "DROP TRIGGER record_stays; UPDATE record SET seq = 1000 WHERE seq = 50; UPDATE record SET seq = 50 WHERE seq = 51;"
          "UPDATE record SET seq = 51 WHERE seq = 1000", 50, "changed" },
        { "DELETE FROM record WHERE seq = 50; INSERT INTO gap SELECT 50, 50, 1, 0, a.mac, b.mac, zeroblob(32) FROM record a, record b WHERE a.seq = 49"
          " AND b.seq = 51", 50, "anchor" },
        { "INSERT INTO record SELECT 101, time_us, workspace, session, class, body, mac FROM record WHERE seq = 100", 101, "changed" },
};

static void hands_are_seen(void **state)
{
        for (size_t i = 0; i < sizeof(hands) / sizeof(hands[0]); i++) {
                void *one = NULL;
                struct place *p;
                struct verdict_of_verify v;
                (void)state;
                place_setup(&one);
                p = filled(&one, 100);
                place_sql(p, hands[i].sql);
                v = verify(p);
                if (v.result.findings == 0 || v.seq != hands[i].seq || !strstr(v.text, hands[i].says))
                        fail_msg("%s: at %d: %s", hands[i].sql, (int)v.seq, v.text);
                place_teardown(&one);
        }
}

static void append_only(void **state)
{
        struct place *p = filled(state, 3);
        char path[128];
        sqlite3 *db;

        snprintf(path, sizeof(path), "%s/journal.db", p->state);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_not_equal(sqlite3_exec(db, "UPDATE record SET session = 9", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
}

/* The writer that finds a cut tail marks it, notes it and goes on; the mark stays. */
static void cut_tail_survives_reopening(void **state)
{
        struct place *p = filled(state, 100);
        struct verdict_of_verify v;

        place_sql(p, "DELETE FROM record WHERE seq > 90");
        place_open(p);
        assert_non_null(strstr(journal_damage(p->j), "91 to 100"));
        put_many(p->j, "alpha", 10);
        place_close(p);
        place_open(p);
        assert_string_equal(journal_damage(p->j), "");
        place_close(p);
        v = verify(p);
        assert_int_equal(v.result.findings, 1);
        assert_int_equal(v.result.lost, 10);
        assert_int_equal(v.seq, 91);
        assert_int_equal(v.result.last_seq, 111);
}

static void unlink_in(struct place *p, const char *name)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", p->state, name);
        assert_int_equal(unlink(path), 0);
}

/* A power cut takes what was not synced: after another boot only the synced part is promised, in the same boot all of it. */
static void power_cut(void **state)
{
        struct place *p = filled(state, 100);
        struct chain_head head;
        struct chain *chain;
        uint8_t key[CHAIN_KEY_BYTES];
        char path[128];
        int fd;

        snprintf(path, sizeof(path), "%s/journal.key", p->state);
        assert_int_equal(chain_key_load(path, false, key, NULL), 1);
        chain = chain_new(key);
        snprintf(path, sizeof(path), "%s/journal.head", p->state);
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_int_equal(chain_head_read(fd, chain, &head), 1);
        assert_int_equal(head.committed.seq, 100);
        head.synced.seq = 90;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(chain_head_write(fd, chain, &head, 0), 0);
        place_sql(p, "DELETE FROM record WHERE seq > 95");
        assert_int_equal(verify(p).seq, 96);
        head.boot[0] ^= 1;
        assert_int_equal(chain_head_write(fd, chain, &head, 0), 0);
        assert_null(strstr(verify(p).text, "cut"));
        place_sql(p, "DELETE FROM record WHERE seq > 80");
        assert_int_equal(verify(p).seq, 81);
        /* A slot torn in two leaves the other. */
        assert_int_equal(chain_head_write(fd, chain, &head, 1), 0);
        assert_int_equal(pwrite(fd, "torn", 4, 20), 4);
        assert_int_equal(chain_head_read(fd, chain, &head), 1);
        assert_int_equal(pwrite(fd, "torn", 4, CHAIN_HEAD_BYTES + 20), 4);
        assert_int_equal(chain_head_read(fd, chain, &head), -1);
        close(fd);
        chain_free(chain);
}

static void missing_head_is_told(void **state)
{
        struct place *p = filled(state, 10);

        unlink_in(p, "journal.head");
        assert_int_equal(verify(p).result.findings, 1);
        place_open(p);
        assert_non_null(strstr(journal_damage(p->j), "journal.head is missing"));
}

static void removed_database_is_told(void **state)
{
        struct place *p = filled(state, 10);
        struct verdict_of_verify v;

        unlink_in(p, "journal.db");
        place_open(p);
        assert_non_null(strstr(journal_damage(p->j), "1 to 10"));
        place_close(p);
        v = verify(p);
        assert_int_equal(v.result.findings, 1);
        assert_int_equal(v.result.lost, 10);
}

static void refuses(struct place *p, const char *says)
{
        struct journal_options o = { .state = p->state, .create = true };
        struct err err = ERR_INIT;

        assert_null(journal_open(&o, &err));
        if (!strstr(err.text, says))
                fail_msg("said: %s", err.text);
}

static void keys_and_versions(void **state)
{
        struct place *p = filled(state, 10);
        char path[128], other[128];

        snprintf(path, sizeof(path), "%s/journal.key", p->state);
        snprintf(other, sizeof(other), "%s/away", p->state);
        assert_int_equal(rename(path, other), 0);
        refuses(p, "journal.key is missing");
        assert_int_equal(rename(other, path), 0);
        assert_int_equal(chmod(path, 0644), 0);
        refuses(p, "not private");
        assert_int_equal(chmod(path, 0600), 0);
        place_sql(p, "PRAGMA user_version = 2");
        refuses(p, "newer brome");
        place_sql(p, "PRAGMA user_version = 1; PRAGMA application_id = 5");
        refuses(p, "not a journal");
}

/* Another key: nothing verifies, and the writer says so. */
static void foreign_key(void **state)
{
        struct place *p = filled(state, 10);
        char path[128];
        FILE *f;

        snprintf(path, sizeof(path), "%s/journal.key", p->state);
        f = fopen(path, "r+");
        assert_non_null(f);
        assert_int_equal(fputc('x', f), 'x');
        fclose(f);
        assert_true(verify(p).result.findings > 0);
        refuses(p, "does not fit");
}

/* ---- a damaged file ---- */

enum { WOUND_BYTES = 40 };

static uint8_t *read_db(const struct place *p, size_t *n)
{
        char path[128];
        FILE *f;
        struct stat st;
        uint8_t *bytes;

        snprintf(path, sizeof(path), "%s/journal.db", p->state);
        f = fopen(path, "r");
        assert_non_null(f);
        assert_int_equal(fstat(fileno(f), &st), 0);
        *n = (size_t)st.st_size;
        bytes = malloc(*n);
        assert_int_equal(fread(bytes, 1, *n, f), *n);
        fclose(f);
        return bytes;
}

static void write_db(const struct place *p, const uint8_t *bytes, size_t n)
{
        char path[128];
        FILE *f;

        snprintf(path, sizeof(path), "%s/journal.db", p->state);
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        fclose(f);
}

/* All that a record is, read without verify; NULL when it cannot be read. */
static char *contents(const struct place *p)
{
        char path[128], *all = NULL;
        sqlite3 *db;
        sqlite3_stmt *s;

        snprintf(path, sizeof(path), "%s/journal.db", p->state);
        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
            sqlite3_prepare_v2(db, "SELECT group_concat(seq || ' ' || time_us || ' ' || workspace || ' ' || session || ' ' || class || hex(body) || hex(mac), x'0a') FROM record", -1, &s,
                               NULL) == SQLITE_OK) {
                if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
                        all = strdup((const char *)sqlite3_column_text(s, 0));
                sqlite3_finalize(s);
        }
        sqlite3_close(db);
        return all;
}

/* What verify makes of the file as it is: 1 told as findings, -1 as an error with a reason, 0 nothing is said. */
static int judged(const struct place *p)
{
        struct err err = ERR_INIT;
        struct verify_result result = { 0 };
        struct reader *r = reader_open(p->state, &err);
        int rc = r ? reader_verify(r, NULL, NULL, &result, &err) : -1;

        reader_close(r);
        assert_true(rc == 0 || strlen(err.text) > 10);
        if (rc < 0 && r) /* the file opened: what is wrong with it is a finding, and the report goes to its end */
                fail_msg("verify gave up: %s", err.text);
        return rc < 0 ? -1 : result.findings > 0;
}

/* Forty zero bytes anywhere: told, or nothing of any record is other than it was (free room, statistics). */
static void zeros_anywhere(void **state)
{
        struct place *p = filled(state, 300);
        size_t n, told = 0, harmless = 0;
        uint8_t *good = read_db(p, &n), *bad = malloc(n);
        char *was = contents(p);

        assert_non_null(was);
        for (size_t at = 0; at + WOUND_BYTES <= n; at += at < 400 ? 20 : 331) {
                static const uint8_t zero[WOUND_BYTES];
                char *now;

                if (memcmp(good + at, zero, WOUND_BYTES) == 0)
                        continue;
                memcpy(bad, good, n);
                memset(bad + at, 0, WOUND_BYTES);
                write_db(p, bad, n);
                if (judged(p) != 0) {
                        told++;
                        continue;
                }
                now = contents(p);
                if (!now || strcmp(now, was) != 0)
                        fail_msg("40 zero bytes at %zu of %zu change a record and nothing is said", at, n);
                harmless++;
                free(now);
        }
        assert_true(told > 100);
        assert_true(harmless < told);
        free(was);
        free(bad);
        free(good);
}

static void cut_anywhere(void **state)
{
        struct place *p = filled(state, 300);
        size_t n;
        uint8_t *good = read_db(p, &n);

        for (size_t keep = 0; keep < n; keep += keep < 200 ? 10 : keep % 4096 == 0 ? 100 : keep % 4096 == 100 ? 1900 : 4096 - keep % 4096) {
                write_db(p, good, keep);
                if (judged(p) == 0)
                        fail_msg("%zu of %zu bytes are left and nothing is said", keep, n);
        }
        free(good);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
                T(whole), T(hands_are_seen), T(append_only), T(cut_tail_survives_reopening), T(power_cut), T(missing_head_is_told), T(removed_database_is_told),
                T(keys_and_versions), T(foreign_key), T(zeros_anywhere), T(cut_anywhere),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
