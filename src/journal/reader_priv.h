/* The readers' inside: records in order, and a table of keys. */
#ifndef BROME_JOURNAL_READER_PRIV_H
#define BROME_JOURNAL_READER_PRIV_H

#include "base/arena.h"
#include "journal/reader.h"
#include <limits.h>
#include <sqlite3.h>

struct reader {
        sqlite3 *db;
        char state[PATH_MAX];
};

/* One record; slices borrow from the statement until the next step. */
struct record {
        uint64_t seq;
        int64_t time_us;
        int64_t workspace_id;
        struct slice workspace;
        uint64_t session;
        enum journal_class class;
        struct slice body;
        struct event_record event;
};

/* Records in order of seq, of all workspaces (one cursor) or of one (a cursor a class, merged). Within one snapshot. */
struct scan {
        struct reader *r;
        sqlite3_stmt *cursor[JOURNAL_CLASS_COUNT];
        bool live[JOURNAL_CLASS_COUNT]; /* stands on a row */
        int cursors, last;
        bool backwards;
};
/* Records after (backwards: before) `from`. An unknown workspace gives none. */
int scan_open(struct scan *s, struct reader *r, struct slice workspace, uint64_t from, bool backwards, struct err *err)
        __attribute__((warn_unused_result));
/* 1; 0 at the end; -1. Records that do not parse are passed over: verify is who tells of them. */
int scan_next(struct scan *s, struct record *out, struct err *err) __attribute__((warn_unused_result));
void scan_close(struct scan *s);

/* Keys to 0, 1, 2, … in order of first appearance. Keys are copied into the arena. */
struct table {
        struct arena *arena;
        struct slice *keys;
        uint64_t *hashes;
        size_t *slots; /* index + 1 */
        size_t count, cap;
};
/* The key's index; *made tells whether it is new. -1: no memory. */
ptrdiff_t table_index(struct table *t, struct slice key, bool *made);
void table_fini(struct table *t);

/* Lays a later record of the same exchange over an earlier one. */
void event_lay(struct event_record *base, const struct event_record *later);
bool filter_admits(const struct filter *f, const struct row *row);

#endif
