/* What the journal's tests share: a state folder of their own, and short ways to make records. */
#ifndef BROME_TEST_JOURNAL_HELP_H
#define BROME_TEST_JOURNAL_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/journal.h"
#include "journal/reader.h"
#include <sqlite3.h>

struct place {
        char state[64];
        struct journal *j;
};
int place_setup(void **state);
int place_teardown(void **state);
struct journal *place_open(struct place *p);
void place_close(struct place *p);
/* Runs SQL on the database as a stranger with a shell would. */
void place_sql(struct place *p, const char *sql);
int64_t place_number(struct place *p, const char *sql);

/* A verdict by the inner door; path differs by n so that nothing is coalesced. */
struct event_record verdict(const char *decision, const char *host, uint64_t id);
void put(struct journal *j, const char *workspace, const char *door, const struct event_record *e);
void put_many(struct journal *j, const char *workspace, size_t n);
/* Verifies; keeps the first finding's text and seq. */
struct verdict_of_verify {
        struct verify_result result;
        uint64_t seq;
        char text[256];
};
struct verdict_of_verify verify(struct place *p);

#endif
