/* See help.h. */
#include "help.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int place_setup(void **state)
{
        struct place *p = calloc(1, sizeof(*p));

        assert_non_null(p);
        snprintf(p->state, sizeof(p->state), "/tmp/brome-journal-XXXXXX");
        assert_non_null(mkdtemp(p->state));
        *state = p;
        return 0;
}

int place_teardown(void **state)
{
        struct place *p = *state;
        struct dirent *d;
        DIR *dir;

        place_close(p);
        dir = opendir(p->state);
        while (dir && (d = readdir(dir)))
                (void)unlinkat(dirfd(dir), d->d_name, 0);
        if (dir)
                closedir(dir);
        rmdir(p->state);
        free(p);
        return 0;
}

struct journal *place_open(struct place *p)
{
        struct journal_options o = { .state = p->state, .create = true };
        struct err err = ERR_INIT;

        p->j = journal_open(&o, &err);
        if (!p->j)
                fail_msg("%s", err.text);
        return p->j;
}

void place_close(struct place *p)
{
        journal_close(p->j);
        p->j = NULL;
}

static sqlite3 *open_db(struct place *p)
{
        char path[128];
        sqlite3 *db;

        snprintf(path, sizeof(path), "%s/journal.db", p->state);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        return db;
}

void place_sql(struct place *p, const char *sql)
{
        sqlite3 *db = open_db(p);
        char *why = NULL;

        if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
                fail_msg("%s: %s", sql, why);
        sqlite3_close(db);
}

int64_t place_number(struct place *p, const char *sql)
{
        sqlite3 *db = open_db(p);
        sqlite3_stmt *s;
        int64_t n = -1;

        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
        if (sqlite3_step(s) == SQLITE_ROW)
                n = sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
        sqlite3_close(db);
        return n;
}

struct event_record verdict(const char *decision, const char *host, uint64_t id)
{
        static char path[8][32];
        static unsigned next;
        char *p = path[next++ % 8];
        struct event_record e;

        snprintf(p, sizeof(path[0]), "/item/%llu", (unsigned long long)id);
        event_init(&e, EVENT_VERDICT);
        event_num(&e, EVENT_ID, id);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Firewall"));
        event_text(&e, EVENT_PROTO, SLICE_LIT("http/1.1"));
        event_text(&e, EVENT_HOST, slice_str(host));
        event_num(&e, EVENT_PORT, 443);
        event_text(&e, EVENT_METHOD, SLICE_LIT("GET"));
        event_text(&e, EVENT_PATH, slice_str(p));
        event_text(&e, EVENT_DECISION, slice_str(decision));
        event_text(&e, EVENT_RULE, SLICE_LIT("default deny"));
        return e;
}

void put(struct journal *j, const char *workspace, const char *door, const struct event_record *e)
{
        struct journal_entry entry = { .workspace = slice_str(workspace), .session = 1, .door = door, .event = e };

        assert_int_equal(journal_append(j, &entry), 0);
}

void put_many(struct journal *j, const char *workspace, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct event_record e = verdict("allow", "registry.example", i + 1);
                put(j, workspace, "inner", &e);
                if (i % 512 == 511)
                        assert_int_equal(journal_flush(j), 0);
        }
        assert_int_equal(journal_flush(j), 0);
}

static void first_finding(void *ctx, uint64_t seq, const char *text)
{
        struct verdict_of_verify *v = ctx;

        if (v->seq)
                return;
        v->seq = seq;
        snprintf(v->text, sizeof(v->text), "%s", text);
}

struct verdict_of_verify verify(struct place *p)
{
        struct verdict_of_verify v = { 0 };
        struct err err = ERR_INIT;
        struct reader *r = reader_open(p->state, &err);

        if (!r || reader_verify(r, first_finding, &v, &v.result, &err) < 0)
                fail_msg("%s", err.text);
        reader_close(r);
        return v;
}
