/* How much a workspace may ask a registry under a profile. A name that is not there carries whatever it spells, so what counts most are misses: questions for a place that was
 * never found before, answered with 4xx or sent elsewhere. Asking again for what was asked for before tells nothing new and is not counted twice.
 *
 * Each count is a bucket that fills up evenly: N at once, N an hour after that. Misses are known only when the answer comes; what is open by then may overdraw it, and the
 * debt has to be worked off. Pure: time comes in. */
#ifndef BROME_OUTER_BUDGET_H
#define BROME_OUTER_BUDGET_H

#include "base/slice.h"
#include "rules/reasons.h"

struct budgets;
struct budgets *budgets_new(void);
void budgets_free(struct budgets *b); /* NULL is fine; wipes */

/* One question, from when it was let through until it is settled. */
struct question {
        size_t registry; /* its number, and 1; 0: none is open */
        uint64_t place;
        uint32_t misses; /* an hour */
        bool again;      /* it was a miss before: found now, it counts no more (a client that tries without its account first) */
};

/* May it be asked? REASON_NONE: yes, and *q has to be settled. `misses`: an hour. */
enum reason budget_ask(struct budgets *b, struct slice registry, struct slice place, uint32_t misses, int64_t now_ms, struct question *q) __attribute__((warn_unused_result));
enum budget_end {
        BUDGET_FOUND,  /* it is there */
        BUDGET_MISSED, /* it is not */
        BUDGET_NOTHING /* nobody knows: it was not asked, or the server did not say */
};
void budget_settle(struct budgets *b, struct question *q, enum budget_end end, int64_t now_ms); /* not open: nothing */
/* So many misses at once (objects that no server named). False: there are not so many left, and none was taken. */
bool budget_take(struct budgets *b, struct slice registry, uint32_t count, uint32_t misses, int64_t now_ms) __attribute__((warn_unused_result));
/* Is anything counted that would be forgotten with this process? */
bool budgets_matter(const struct budgets *b, int64_t now_ms);

#endif
