/* The journal's tables, and how a connection to them is opened. Text in SQL is constant; values are always bound. */
#ifndef BROME_JOURNAL_SCHEMA_H
#define BROME_JOURNAL_SCHEMA_H

#include "base/err.h"
#include "base/slice.h"
#include <sqlite3.h>

enum { SCHEMA_VERSION = 1, SCHEMA_APPLICATION = 0x42524f4d /* "BROM" */ };
enum schema_mode { SCHEMA_CREATE, SCHEMA_WRITE, SCHEMA_READ };

/* A connection with the house settings; `path` is the database. Makes tables with SCHEMA_CREATE. Refuses another application's file and
 * a newer version. NULL with the reason. */
sqlite3 *schema_open(const char *path, enum schema_mode mode, struct err *err) __attribute__((warn_unused_result));
int schema_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err) __attribute__((warn_unused_result));
/* The sentence for the connection's last failure; -1. */
int schema_fail(sqlite3 *db, struct err *err, const char *what);

struct slice schema_blob(sqlite3_stmt *s, int column); /* borrowed until the next step */

#endif
