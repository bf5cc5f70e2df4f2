/* The journal's readers: a read-only connection for listings, usable while bromed writes and while it does not run. The reader takes no
 * lock that a writer waits for. What it hands out is as foreign as when it came: print it through print.h or esc().
 *
 * A request is a verdict record, perhaps a second verdict by the outer door, and later an end record, all with the same workspace, session
 * and ID. Trace rows join these: fields of a later record replace those of an earlier one, but an allow never hides a refusal. */
#ifndef BROME_JOURNAL_READER_H
#define BROME_JOURNAL_READER_H

#include "base/err.h"
#include "journal/event.h"
#include "journal/journal.h"

struct reader;
/* `state` is the state folder. NULL with the reason ("no journal yet" when there is none). */
struct reader *reader_open(const char *state, struct err *err) __attribute__((warn_unused_result));
void reader_close(struct reader *r);

struct row {
        uint64_t seq;         /* of the (first) verdict or note */
        int64_t time_us;      /* real time, since 1970 */
        struct slice workspace;
        uint64_t session;
        enum journal_class class;
        struct event_record event;   /* verdicts joined, and STATUS, BYTES_*, DURATION, LATENCY, DETAIL of the end */
        bool ended;           /* an end record is in it */
        uint64_t end_seq;
        int64_t end_us;
};
/* Everything in *row is borrowed for the call. Return 0 to go on, anything else to stop (not an error). */
typedef int row_fn(void *ctx, const struct row *row);

struct filter {
        struct slice workspace; /* empty: all */
        uint64_t session;       /* 0: all */
        int64_t since_us;       /* 0: all */
        struct slice host;      /* exact, or ".name" (and below), "*.name" (below only); empty: all */
        struct slice verdict;   /* "allow", "deny"; empty: all */
        struct slice engine;    /* empty: all; ASCII case does not matter */
        size_t limit;           /* the newest so many, oldest first; 0: all */
};

/* Requests and flows, oldest first, each joined to one row. 0 or -1. */
int reader_trace(struct reader *r, const struct filter *f, row_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));
/* The timeline: every verdict and note, as recorded, oldest first; no end records. */
int reader_timeline(struct reader *r, const struct filter *f, row_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

enum view { VIEW_TRACE, VIEW_TIMELINE };
/* What came after *seq, which moves on (start: the value reader_last_seq gave before the listing). In VIEW_TRACE a request appears at its
 * verdict, and again, joined and with `ended`, at its end. Poll every 100–250 ms; a poll without news costs some microseconds. */
int reader_follow(struct reader *r, enum view view, const struct filter *f, uint64_t *seq, row_fn *fn, void *ctx, struct err *err)
        __attribute__((warn_unused_result));
int reader_last_seq(struct reader *r, uint64_t *seq, struct err *err) __attribute__((warn_unused_result));

struct host_row {
        struct slice host;
        uint64_t allowed, denied; /* requests and flows; a coalesced record counts for all it stands for */
        uint64_t bytes_up, bytes_down;
        int64_t first_us, last_us;
};
typedef int host_fn(void *ctx, const struct host_row *row);
/* Distinct hosts by name. */
int reader_hostnames(struct reader *r, const struct filter *f, host_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

enum summary_kind { SUMMARY_TOTAL, SUMMARY_WORKSPACE, SUMMARY_HOST, SUMMARY_RULE, SUMMARY_REASON, SUMMARY_KIND_COUNT };
struct summary_row {
        enum summary_kind kind;
        struct slice key; /* empty for SUMMARY_TOTAL */
        uint64_t allowed, denied, bytes_up, bytes_down;
};
typedef int summary_fn(void *ctx, const struct summary_row *row);
/* Kind after kind; within one the busiest first. */
int reader_summary(struct reader *r, const struct filter *f, summary_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

struct refusal_row {
        struct event_record event; /* the last of its kind: HOST, PORT, METHOD, PATH, REASON, RULE, SUGGEST, … */
        uint64_t count;
        int64_t first_us, last_us;
};
typedef int refusal_fn(void *ctx, const struct refusal_row *row);
/* Distinct refused flows (protocol, host, port, method, path, reason) of the filter's session, in order of first appearance. */
int reader_refusals(struct reader *r, const struct filter *f, refusal_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

struct leak_row {
        struct slice workspace, host, field, class, preview; /* preview: the vendor's prefix or a few characters, never more */
        struct slice rule;                                   /* that let it through, the last time; empty: not recorded */
        uint64_t port, count;                                /* how often it was told: once a session for each host, field and class */
        int64_t first_us, last_us;
};
typedef int leak_fn(void *ctx, const struct leak_row *row);
/* Distinct leak warnings (workspace, host, port, field, class, preview), in order of first appearance. */
int reader_leaks(struct reader *r, const struct filter *f, leak_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

/* The record `seq`, and all that share its workspace, session and ID: verdicts, notes, the end, as recorded and in order. 0; 1: there is no such record; -1. */
int reader_show(struct reader *r, uint64_t seq, row_fn *fn, void *ctx, struct err *err) __attribute__((warn_unused_result));

struct verify_result {
        uint64_t records, pruned, lost; /* present and good; removed by a quota, with an anchor; gone without one */
        uint64_t last_seq;
        uint64_t findings;
};
/* One finding: the first sequence number it concerns and a sentence. Plain text, printable. */
typedef void finding_fn(void *ctx, uint64_t seq, const char *text);
/* Walks the chain from the first record to the head. 0 when it ran to the end (the journal is whole when findings is 0); -1 when it could
 * not be read at all. */
int reader_verify(struct reader *r, finding_fn *fn, void *ctx, struct verify_result *out, struct err *err) __attribute__((warn_unused_result));

#endif
