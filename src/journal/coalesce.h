/* Coalescing of identical refusals: a client that retries a refused request a thousand times a second writes a handful of records, and
 * none of the thousand is lost from the count. The first few within a window are passed; further ones are counted; at the window's end,
 * or when another refusal needs the place, one record with COUNT stands for them. Pure: time is an argument. One table per workspace. */
#ifndef BROME_JOURNAL_COALESCE_H
#define BROME_JOURNAL_COALESCE_H

#include "base/buf.h"
#include "journal/event.h"
#include "journal/journal.h"

struct coalesce_slot {
        struct buf record; /* the first of its window, event.h form; empty: the slot is free */
        uint64_t session, seen, held;
        int64_t until_ms; /* window's end, monotonic */
};
struct coalesce {
        struct coalesce_slot slot[JOURNAL_COALESCE_SLOTS];
        size_t held_slots; /* slots with something to write */
};

void coalesce_init(struct coalesce *c);
void coalesce_fini(struct coalesce *c);

/* Called with a record that stands for `held` refusals; COUNT is set in it, ID is not. */
typedef int coalesce_fn(void *ctx, uint64_t session, const struct event_record *e);

/* 1: the event is to be written as it is; 0: it was counted; -1: `out` refused, nothing changed. Calls `out` first when another's count
 * has to make room. */
int coalesce_take(struct coalesce *c, uint64_t session, const struct event_record *e, int64_t now_ms, coalesce_fn *out, void *ctx)
        __attribute__((warn_unused_result));
/* Writes out the windows that ended by now (all, with INT64_MAX). 0, or -1 when `out` refused: what it refused stays counted. */
int coalesce_flush(struct coalesce *c, int64_t now_ms, coalesce_fn *out, void *ctx) __attribute__((warn_unused_result));
/* Whether every window is over and nothing is held: the table may be freed. */
bool coalesce_over(const struct coalesce *c, int64_t now_ms);
/* The earliest end of a window that holds something; INT64_MAX when none. */
int64_t coalesce_due_ms(const struct coalesce *c);

#endif
