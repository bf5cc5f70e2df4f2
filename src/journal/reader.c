/* Listings of requests and of the timeline: see reader.h. A listing walks backwards from the newest record, so that `the last fifty` costs
 * fifty records; an end is met before its verdict and waits for it in a table. */
#include "journal/reader_priv.h"

#include "journal/schema.h"

#include <stdio.h>
#include <stdlib.h>

enum {
        READER_ARENA_BYTES = 1 << 30,   /* what one listing may hold; more wants a limit */
        FOLLOW_LOOK_BACK = 20000,       /* records searched for an end's verdict when following */
        FOLLOW_LOOK_ON = 64,            /* and after the first one for the other door's */
};
/* Records stand in the order they were taken; a clock set back may put an older time after a newer one by this much. */
#define SINCE_SLACK_US (3600 * INT64_C(1000000))

struct reader *reader_open(const char *state, struct err *err)
{
        struct reader *r = calloc(1, sizeof(*r));
        char path[PATH_MAX];

        if (!r || snprintf(r->state, sizeof(r->state), "%s", state) >= (int)sizeof(r->state) ||
            snprintf(path, sizeof(path), "%s/journal.db", state) >= (int)sizeof(path)) {
                err_set(err, r ? "the path of the state folder is too long" : "out of memory");
                free(r);
                return NULL;
        }
        r->db = schema_open(path, SCHEMA_READ, err);
        if (!r->db) {
                free(r);
                return NULL;
        }
        return r;
}

void reader_close(struct reader *r)
{
        if (!r)
                return;
        sqlite3_close(r->db);
        free(r);
}

/* ---- filter and join ---- */

static bool host_fits(struct slice want, struct slice host)
{
        bool below_only = slice_starts(want, SLICE_LIT("*."));
        struct slice base = slice_skip(want, below_only ? 2 : 1);

        if (!want.n)
                return true;
        if (!below_only && want.p[0] != '.')
                return slice_ieq(want, host);
        if (slice_ieq(base, host))
                return !below_only;
        return host.n > base.n + 1 && host.p[host.n - base.n - 1] == '.' && slice_ieq(slice_skip(host, host.n - base.n), base);
}

bool filter_admits(const struct filter *f, const struct row *row)
{
        const struct event_record *e = &row->event;

        return (!f->session || f->session == row->session) && row->time_us >= f->since_us && host_fits(f->host, e->text[EVENT_HOST]) &&
               (!f->verdict.n || slice_eq(f->verdict, e->text[EVENT_DECISION])) &&
               (!f->engine.n || slice_ieq(f->engine, e->text[EVENT_ENGINE]));
}

void event_lay(struct event_record *base, const struct event_record *later)
{
        bool keep_refusal = slice_is(base->text[EVENT_DECISION], "deny") && !slice_is(later->text[EVENT_DECISION], "deny");
        uint32_t skip = keep_refusal ? 1u << EVENT_DECISION | 1u << EVENT_REASON | 1u << EVENT_RULE | 1u << EVENT_SUGGEST : 0;

        if (later->type == EVENT_END)
                skip |= 1u << EVENT_ENGINE | 1u << EVENT_DOOR;
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++) {
                if (!event_has(later, (enum event_field)f) || skip >> f & 1)
                        continue;
                base->num[f] = later->num[f];
                base->text[f] = later->text[f];
                base->present |= 1u << f;
        }
}

/* One exchange on its way to a row. */
struct exchange {
        struct row row;
        struct event_record end;
        bool has_verdict;
};
struct join {
        struct arena arena;
        struct table table;
        struct exchange **list; /* by table index */
        size_t cap;
        struct exchange **shown; /* those with a verdict, newest first */
        size_t shown_count, shown_cap;
        size_t matched;
};

static int reserve(void **p, size_t *cap, size_t count, size_t size)
{
        size_t want = *cap ? *cap * 2 : 256;
        void *q;

        if (count < *cap)
                return 0;
        q = realloc(*p, want * size);
        if (!q)
                return -1;
        *p = q;
        *cap = want;
        return 0;
}

/* The exchange a record belongs to: by workspace, session and ID; without an ID each record is one of its own. */
static struct exchange *exchange_of(struct join *j, const struct record *rec)
{
        uint64_t key[3] = { (uint64_t)rec->workspace_id, rec->session, rec->event.num[EVENT_ID] };
        bool made, own = !event_has(&rec->event, EVENT_ID);
        ptrdiff_t i;

        if (own) {
                key[1] = UINT64_MAX;
                key[2] = rec->seq;
        }
        i = table_index(&j->table, slice_of(key, sizeof(key)), &made);
        if (i < 0)
                return NULL;
        if (made) {
                if (reserve((void **)&j->list, &j->cap, (size_t)i, sizeof(struct exchange *)) < 0)
                        return NULL;
                j->list[i] = arena_alloc(&j->arena, sizeof(struct exchange));
        }
        return j->list[i];
}

/* A copy of the record's event that lives as long as the arena. */
static int keep_event(struct join *j, const struct record *rec, struct event_record *out)
{
        bool ok = true;
        struct slice body = arena_copy(&j->arena, rec->body, &ok);
        size_t used;

        return ok && event_read(body, out, &used) == 1 ? 0 : -1;
}

static int join_end(struct join *j, struct exchange *x, const struct record *rec)
{
        struct event_record e;

        if (x->row.ended || keep_event(j, rec, &e) < 0)
                return x->row.ended ? 0 : -1;
        x->end = e;
        x->row.ended = true;
        x->row.end_seq = rec->seq;
        x->row.end_us = rec->time_us;
        return 0;
}

static int join_verdict(struct join *j, struct exchange *x, const struct record *rec, const struct filter *f)
{
        struct event_record e;
        bool ok = true, fresh = !x->has_verdict;

        if (keep_event(j, rec, &e) < 0)
                return -1;
        if (x->has_verdict)
                event_lay(&e, &x->row.event);
        x->row.event = e;
        x->row.seq = rec->seq;
        x->row.time_us = rec->time_us;
        x->row.session = rec->session;
        x->row.class = rec->class;
        x->has_verdict = true;
        if (!fresh)
                return 0;
        x->row.workspace = arena_copy(&j->arena, rec->workspace, &ok);
        if (!ok || reserve((void **)&j->shown, &j->shown_cap, j->shown_count, sizeof(struct exchange *)) < 0)
                return -1;
        j->shown[j->shown_count++] = x;
        j->matched += filter_admits(f, &x->row);
        return 0;
}

static int join_record(struct join *j, const struct record *rec, const struct filter *f)
{
        struct exchange *x;

        if (rec->event.type == EVENT_NOTE)
                return 0;
        x = exchange_of(j, rec);
        if (!x)
                return -1;
        return rec->event.type == EVENT_END ? join_end(j, x, rec) : join_verdict(j, x, rec, f);
}

static void join_show(struct join *j, const struct filter *f, row_fn *fn, void *ctx)
{
        size_t skip = f->limit && j->matched > f->limit ? j->matched - f->limit : 0;

        for (size_t i = j->shown_count; i-- > 0;) {
                struct exchange *x = j->shown[i];
                if (!filter_admits(f, &x->row))
                        continue;
                if (skip) {
                        skip--;
                        continue;
                }
                if (x->row.ended)
                        event_lay(&x->row.event, &x->end);
                if (fn(ctx, &x->row))
                        return;
        }
}

static void join_init(struct join *j)
{
        *j = (struct join){ .table.arena = &j->arena };
        arena_init(&j->arena, READER_ARENA_BYTES);
}
static void join_fini(struct join *j)
{
        table_fini(&j->table);
        free(j->list);
        free(j->shown);
        arena_fini(&j->arena);
}

int reader_trace(struct reader *r, const struct filter *f, row_fn *fn, void *ctx, struct err *err)
{
        struct join j;
        struct scan s;
        struct record rec;
        int rc;

        if (scan_open(&s, r, f->workspace, INT64_MAX, true, err) < 0)
                return -1;
        join_init(&j);
        while ((rc = scan_next(&s, &rec, err)) == 1) {
                if (rec.time_us < f->since_us - SINCE_SLACK_US || (f->limit && j.matched >= f->limit))
                        break;
                if (join_record(&j, &rec, f) < 0) {
                        rc = err_set(err, "too much to list at once: use a limit");
                        break;
                }
        }
        scan_close(&s);
        if (rc >= 0)
                join_show(&j, f, fn, ctx);
        join_fini(&j);
        return rc < 0 ? -1 : 0;
}

static void row_of(const struct record *rec, struct row *row)
{
        *row = (struct row){ .seq = rec->seq, .time_us = rec->time_us, .workspace = rec->workspace, .session = rec->session,
                             .class = rec->class, .event = rec->event };
}

/* ---- timeline ---- */

static bool on_timeline(const struct record *rec, const struct filter *f)
{
        struct row row;

        row_of(rec, &row);
        return rec->event.type != EVENT_END && filter_admits(f, &row);
}

/* The seq after which the newest `limit` lines begin. */
static int timeline_start(struct reader *r, const struct filter *f, uint64_t *from, struct err *err)
{
        struct scan s;
        struct record rec;
        size_t n = 0;
        int rc;

        *from = 0;
        if (!f->limit && !f->since_us)
                return 0;
        if (scan_open(&s, r, f->workspace, INT64_MAX, true, err) < 0)
                return -1;
        while ((rc = scan_next(&s, &rec, err)) == 1) {
                if (rec.time_us < f->since_us - SINCE_SLACK_US) {
                        *from = rec.seq;
                        break;
                }
                if (on_timeline(&rec, f) && ++n == f->limit) {
                        *from = rec.seq - 1;
                        break;
                }
        }
        scan_close(&s);
        return rc < 0 ? -1 : 0;
}

int reader_timeline(struct reader *r, const struct filter *f, row_fn *fn, void *ctx, struct err *err)
{
        uint64_t from;

        return timeline_start(r, f, &from, err) < 0 ? -1 : reader_follow(r, VIEW_TIMELINE, f, &from, fn, ctx, err);
}

/* ---- following ---- */

/* Lays the verdicts of this end under it. Returns whether one was found; *row then borrows from the arena. */
static bool find_verdict(struct reader *r, const struct record *end, struct join *j, struct row *row)
{
        static const struct filter all = { 0 };
        struct scan s;
        struct record rec;
        struct exchange *x = exchange_of(j, end);
        int left = FOLLOW_LOOK_BACK;

        if (!x || join_record(j, end, &all) < 0 || scan_open(&s, r, end->workspace, end->seq, true, NULL) < 0)
                return false;
        while (left-- > 0 && scan_next(&s, &rec, NULL) == 1) {
                if (rec.session != end->session || rec.event.type != EVENT_VERDICT || !event_has(&rec.event, EVENT_ID) ||
                    rec.event.num[EVENT_ID] != end->event.num[EVENT_ID])
                        continue;
                if (join_record(j, &rec, &all) < 0)
                        break;
                if (left > FOLLOW_LOOK_ON)
                        left = FOLLOW_LOOK_ON;
        }
        scan_close(&s);
        if (!x->has_verdict)
                return false;
        event_lay(&x->row.event, &x->end);
        *row = x->row;
        return true;
}

/* A batch of new records, copied so that looking back may use the connection. */
struct news {
        struct arena arena;
        struct record *list;
        size_t count, cap;
};
static int keep_record(struct news *n, const struct record *rec)
{
        bool ok = true;
        struct record *to;
        size_t used;

        if (reserve((void **)&n->list, &n->cap, n->count, sizeof(*n->list)) < 0)
                return -1;
        to = &n->list[n->count];
        *to = *rec;
        to->body = arena_copy(&n->arena, rec->body, &ok);
        to->workspace = arena_copy(&n->arena, rec->workspace, &ok);
        if (!ok || event_read(to->body, &to->event, &used) != 1)
                return -1;
        n->count++;
        return 0;
}

/* 1: the caller wants no more. */
static int show_news(struct reader *r, enum view view, const struct filter *f, const struct record *rec, row_fn *fn, void *ctx)
{
        struct join j;
        struct row row;
        int stop = 0;

        row_of(rec, &row);
        if (view == VIEW_TIMELINE)
                return rec->event.type != EVENT_END && filter_admits(f, &row) ? fn(ctx, &row) : 0;
        if (rec->event.type == EVENT_NOTE)
                return 0;
        if (rec->event.type == EVENT_VERDICT)
                return filter_admits(f, &row) ? fn(ctx, &row) : 0;
        join_init(&j);
        if (event_has(&rec->event, EVENT_ID) && find_verdict(r, rec, &j, &row) && filter_admits(f, &row))
                stop = fn(ctx, &row);
        join_fini(&j);
        return stop;
}

enum { NEWS_BATCH = 1024 /* records copied at once */ };

/* Copies up to a batch of what follows *seq and moves it on. */
static int read_news(struct reader *r, const struct filter *f, uint64_t *seq, struct news *n, struct err *err)
{
        struct scan s;
        struct record rec;
        int rc = 0;

        if (scan_open(&s, r, f->workspace, *seq, false, err) < 0)
                return -1;
        while (n->count < NEWS_BATCH && (rc = scan_next(&s, &rec, err)) == 1) {
                if (keep_record(n, &rec) < 0) {
                        rc = err_set(err, "out of memory");
                        break;
                }
                *seq = rec.seq;
        }
        scan_close(&s);
        return rc < 0 ? -1 : 0;
}

int reader_follow(struct reader *r, enum view view, const struct filter *f, uint64_t *seq, row_fn *fn, void *ctx, struct err *err)
{
        size_t count;
        int stop = 0;

        do {
                struct news n = { 0 };
                arena_init(&n.arena, 0);
                if (read_news(r, f, seq, &n, err) < 0)
                        stop = -1;
                for (size_t i = 0; i < n.count && !stop; i++)
                        if (show_news(r, view, f, &n.list[i], fn, ctx))
                                stop = 1;
                count = n.count;
                free(n.list);
                arena_fini(&n.arena);
        } while (count == NEWS_BATCH && !stop);
        return stop < 0 ? -1 : 0;
}

/* ---- one exchange ---- */

/* 1, 0: there is none; -1. The record lives in the arena of *n. */
static int record_at(struct reader *r, uint64_t seq, struct news *n, struct err *err)
{
        struct scan s;
        struct record rec;
        int rc;

        if (!seq)
                return 0;
        if (scan_open(&s, r, SLICE_EMPTY, seq - 1, false, err) < 0)
                return -1;
        rc = scan_next(&s, &rec, err);
        if (rc == 1 && rec.seq != seq)
                rc = 0;
        if (rc == 1 && keep_record(n, &rec) < 0)
                rc = err_set(err, "out of memory");
        scan_close(&s);
        return rc;
}

static int show_exchange(struct reader *r, const struct record *of, row_fn *fn, void *ctx, struct err *err)
{
        struct scan s;
        struct record rec;
        struct row row;
        int rc = 0;

        if (scan_open(&s, r, of->workspace, 0, false, err) < 0)
                return -1;
        while ((rc = scan_next(&s, &rec, err)) == 1) {
                bool same = event_has(&of->event, EVENT_ID) && event_has(&rec.event, EVENT_ID) && rec.session == of->session &&
                            rec.event.num[EVENT_ID] == of->event.num[EVENT_ID];

                if (!same && rec.seq != of->seq)
                        continue;
                row_of(&rec, &row);
                if (fn(ctx, &row))
                        break;
        }
        scan_close(&s);
        return rc < 0 ? -1 : 0;
}

int reader_show(struct reader *r, uint64_t seq, row_fn *fn, void *ctx, struct err *err)
{
        struct news n = { 0 };
        int rc;

        arena_init(&n.arena, 0);
        rc = record_at(r, seq, &n, err);
        rc = rc < 0 ? -1 : rc == 0 ? 1 : show_exchange(r, &n.list[0], fn, ctx, err);
        free(n.list);
        arena_fini(&n.arena);
        return rc;
}

int reader_last_seq(struct reader *r, uint64_t *seq, struct err *err)
{
        sqlite3_stmt *s;
        int rc;

        if (schema_prepare(r->db, "SELECT max((SELECT coalesce(max(seq), 0) FROM record), (SELECT coalesce(max(last), 0) FROM gap))", &s, err) < 0)
                return -1;
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
                *seq = (uint64_t)sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
        return rc == SQLITE_ROW ? 0 : schema_fail(r->db, err, "read");
}
