/* Tables and settings: see schema.h.
 *
 * A record's columns beside `body` are what the MAC covers and queries need; everything else stays in the one canonical body, so there is
 * no second copy of a field to disagree with it. */
#include "journal/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char schema_tables[] =
        "CREATE TABLE workspace(id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, sessions INTEGER NOT NULL) STRICT;"
        "CREATE TABLE record(seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, workspace INTEGER NOT NULL, session INTEGER NOT NULL,"
        " class INTEGER NOT NULL, body BLOB NOT NULL, mac BLOB NOT NULL) STRICT;"
        "CREATE INDEX record_class ON record(workspace, class);"
        "CREATE TABLE gap(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, kind INTEGER NOT NULL, time_us INTEGER NOT NULL,"
        " mac_before BLOB NOT NULL, mac_after BLOB NOT NULL, mac BLOB NOT NULL) STRICT;"
        "CREATE TABLE usage(workspace INTEGER NOT NULL, class INTEGER NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,"
        " PRIMARY KEY(workspace, class)) STRICT, WITHOUT ROWID;"
        "CREATE TABLE probe(id INTEGER PRIMARY KEY, time_us INTEGER NOT NULL) STRICT;"
        /* No program of ours changes a record; this is for a hand with a shell. */
        "CREATE TRIGGER record_stays BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;";

int schema_fail(sqlite3 *db, struct err *err, const char *what)
{
        return err_set(err, "journal: %s: %s", what, db ? sqlite3_errmsg(db) : "out of memory");
}

int schema_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err)
{
        return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK ? 0 : schema_fail(db, err, "prepare");
}

struct slice schema_blob(sqlite3_stmt *s, int column)
{
        const void *p = sqlite3_column_blob(s, column);
        int n = sqlite3_column_bytes(s, column);

        return slice_of(p, p && n > 0 ? (size_t)n : 0);
}

static int schema_unreadable(sqlite3 *db, struct err *err)
{
        int code = sqlite3_errcode(db) & 0xff;

        if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB)
                return schema_fail(db, err, "cannot read journal.db");
        return err_set(err, "journal.db is damaged (%s): put it back from a backup, or move journal.* away to begin a new journal", sqlite3_errmsg(db));
}

/* One number from a PRAGMA; -1 on failure. */
static int64_t pragma_number(sqlite3 *db, const char *sql)
{
        sqlite3_stmt *s;
        int64_t v = -1;

        if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
                return -1;
        if (sqlite3_step(s) == SQLITE_ROW)
                v = sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
        return v;
}

static int check_version(sqlite3 *db, enum schema_mode mode, struct err *err)
{
        int64_t app = pragma_number(db, "PRAGMA application_id"), version = pragma_number(db, "PRAGMA user_version");

        if (app < 0 || version < 0)
                return schema_unreadable(db, err);
        if (app == 0 && version == 0 && pragma_number(db, "SELECT count(*) FROM sqlite_schema") == 0) {
                if (mode != SCHEMA_CREATE)
                        return err_set(err, "no journal yet");
                if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK && sqlite3_exec(db, schema_tables, NULL, NULL, NULL) == SQLITE_OK &&
                    sqlite3_exec(db, "PRAGMA application_id=1112690509; PRAGMA user_version=1; COMMIT", NULL, NULL, NULL) == SQLITE_OK)
                        return 0;
                return schema_fail(db, err, "cannot make tables");
        }
        if (app != SCHEMA_APPLICATION)
                return err_set(err, "journal.db is not a journal of brome: move it away");
        if (version > SCHEMA_VERSION)
                return err_set(err, "journal.db was written by a newer brome (schema %lld, this one knows %d): install that version, or move journal.* away",
                               (long long)version, SCHEMA_VERSION);
        return 0;
}

static int settings(sqlite3 *db, enum schema_mode mode)
{
        static const char common[] = "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;";
        static const char writer[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=OFF; PRAGMA secure_delete=OFF;"
                                     "PRAGMA wal_autocheckpoint=1000; PRAGMA journal_size_limit=16777216;";

        sqlite3_extended_result_codes(db, 1);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
        sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
        sqlite3_busy_timeout(db, mode == SCHEMA_READ ? 2000 : 250);
        if (sqlite3_exec(db, common, NULL, NULL, NULL) != SQLITE_OK)
                return -1;
        return mode != SCHEMA_READ && sqlite3_exec(db, writer, NULL, NULL, NULL) != SQLITE_OK ? -1 : 0;
}

/* SQLite would make it with the umask's mode; -wal and -shm take the database's. */
static int make_private(const char *path, struct err *err)
{
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0 && errno != EEXIST)
                return err_sys(err, errno, "%s", path);
        if (fd >= 0)
                close(fd);
        return 0;
}

/* SQLITE_OPEN_NOFOLLOW refuses a link anywhere in the path, but a home may well lie behind one: the folder is resolved first. */
static int resolve(char out[PATH_MAX], const char *path, struct err *err)
{
        char folder[PATH_MAX], real[PATH_MAX];
        const char *name = strrchr(path, '/');
        int n = name ? snprintf(folder, sizeof(folder), "%.*s", (int)(name - path) + 1, path) : snprintf(folder, sizeof(folder), "./");

        name = name ? name + 1 : path;
        if (n < 0 || n >= (int)sizeof(folder))
                return err_set(err, "the path of the state folder is too long");
        if (!realpath(folder, real))
                return errno == ENOENT ? err_set(err, "no journal yet (%s)", path) : err_sys(err, errno, "%s", folder);
        n = snprintf(out, PATH_MAX, "%s/%s", real, name);
        return n > 0 && n < PATH_MAX ? 0 : err_set(err, "the path of the state folder is too long");
}

sqlite3 *schema_open(const char *given, enum schema_mode mode, struct err *err)
{
        int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | (mode == SCHEMA_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
        char path[PATH_MAX];
        sqlite3 *db = NULL;

        if (resolve(path, given, err) < 0)
                return NULL;
        if (mode == SCHEMA_CREATE && make_private(path, err) < 0)
                return NULL;
        if (access(path, F_OK) < 0) {
                err_set(err, "no journal yet (%s)", path);
                return NULL;
        }
        if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK || settings(db, mode) < 0) {
                schema_fail(db, err, "cannot open journal.db");
                sqlite3_close(db);
                return NULL;
        }
        if (check_version(db, mode, err) < 0) {
                sqlite3_close(db);
                return NULL;
        }
        return db;
}
