/* The readers: joining, filters, limits, following beside a writer, totals. */
#include "help.h"

#include <stdio.h>
#include <stdlib.h>

struct seen {
        size_t n, ended, denied;
        uint64_t first_id, last_id, status, bytes;
        char host[64], reason[64];
};
static int see(void *ctx, const struct row *row)
{
        struct seen *s = ctx;

        if (s->n++ == 0)
                s->first_id = row->event.num[EVENT_ID];
        s->last_id = row->event.num[EVENT_ID];
        s->ended += row->ended;
        s->denied += slice_is(row->event.text[EVENT_DECISION], "deny");
        s->status = row->event.num[EVENT_STATUS];
        s->bytes += row->event.num[EVENT_BYTES_DOWN];
        snprintf(s->host, sizeof(s->host), "%.*s", SLICE_FMT(row->event.text[EVENT_HOST]));
        snprintf(s->reason, sizeof(s->reason), "%.*s", SLICE_FMT(row->event.text[EVENT_REASON]));
        return 0;
}

static void put_end(struct journal *j, const char *workspace, uint64_t id)
{
        struct event_record e;

        event_init(&e, EVENT_END);
        event_num(&e, EVENT_ID, id);
        event_num(&e, EVENT_STATUS, 200);
        event_num(&e, EVENT_BYTES_DOWN, 1000);
        put(j, workspace, "inner", &e);
}

static struct reader *reading(struct place *p)
{
        struct err err = ERR_INIT;
        struct reader *r = reader_open(p->state, &err);

        if (!r)
                fail_msg("%s", err.text);
        return r;
}

static struct seen trace(struct place *p, struct filter f)
{
        struct reader *r = reading(p);
        struct seen s = { 0 };
        struct err err = ERR_INIT;

        if (reader_trace(r, &f, see, &s, &err) < 0)
                fail_msg("%s", err.text);
        reader_close(r);
        return s;
}

static void none_yet(void **state)
{
        struct place *p = *state;
        struct err err = ERR_INIT;

        assert_null(reader_open(p->state, &err));
        assert_non_null(strstr(err.text, "no journal yet"));
}

static void fill(struct place *p)
{
        place_open(p);
        for (uint64_t i = 1; i <= 100; i++) {
                struct event_record e = verdict(i % 10 ? "allow" : "deny", i % 2 ? "a.example" : "b.a.example", i);
                put(p->j, i % 4 ? "alpha" : "beta", "inner", &e);
        }
        for (uint64_t i = 1; i <= 100; i++)
                if (i % 10)
                        put_end(p->j, i % 4 ? "alpha" : "beta", i);
        assert_int_equal(journal_flush(p->j), 0);
}

static void joins_and_filters(void **state)
{
        struct place *p = *state;
        struct seen s;

        fill(p);
        s = trace(p, (struct filter){ 0 });
        assert_int_equal(s.n, 100);
        assert_int_equal(s.ended, 90);
        assert_int_equal(s.first_id, 1);
        assert_int_equal(s.last_id, 100);
        assert_int_equal(s.bytes, 90000);
        s = trace(p, (struct filter){ .limit = 7 });
        assert_int_equal(s.n, 7);
        assert_int_equal(s.first_id, 94);
        assert_int_equal(s.ended, 6);
        s = trace(p, (struct filter){ .workspace = SLICE_LIT("beta") });
        assert_int_equal(s.n, 25);
        s = trace(p, (struct filter){ .workspace = SLICE_LIT("beta"), .limit = 3 });
        assert_int_equal(s.n, 3);
        assert_int_equal(s.last_id, 100);
        assert_int_equal(trace(p, (struct filter){ .workspace = SLICE_LIT("gamma") }).n, 0);
        assert_int_equal(trace(p, (struct filter){ .host = SLICE_LIT("A.example") }).n, 50);
        assert_int_equal(trace(p, (struct filter){ .host = SLICE_LIT(".a.example") }).n, 100);
        assert_int_equal(trace(p, (struct filter){ .host = SLICE_LIT("*.a.example") }).n, 50);
        assert_int_equal(trace(p, (struct filter){ .host = SLICE_LIT(".example.a") }).n, 0);
        s = trace(p, (struct filter){ .verdict = SLICE_LIT("deny") });
        assert_int_equal(s.n, 10);
        assert_int_equal(s.denied, 10);
        s = trace(p, (struct filter){ .verdict = SLICE_LIT("deny"), .limit = 2 });
        assert_int_equal(s.n, 2);
        assert_int_equal(s.first_id, 90);
        assert_int_equal(trace(p, (struct filter){ .session = 2 }).n, 0);
        assert_int_equal(trace(p, (struct filter){ .since_us = INT64_MAX }).n, 0);
        place_close(p);
        assert_int_equal(trace(p, (struct filter){ 0 }).n, 100); /* without the writer */
}

/* Both doors speak of one exchange: one row, and a refusal by either stands. */
static void two_doors_one_row(void **state)
{
        struct place *p = *state;
        struct event_record in = verdict("allow", "a.example", 1), out = verdict("deny", "a.example", 1);
        struct seen s;

        event_text(&out, EVENT_REASON, SLICE_LIT("address-guard"));
        place_open(p);
        put(p->j, "alpha", "inner", &in);
        put(p->j, "alpha", "outer", &out);
        put_end(p->j, "alpha", 1);
        in = verdict("deny", "a.example", 2);
        out = verdict("allow", "a.example", 2);
        event_text(&in, EVENT_REASON, SLICE_LIT("body"));
        put(p->j, "alpha", "outer", &out);
        put(p->j, "alpha", "inner", &in);
        put(p->j, "alpha", "outer", &out);
        assert_int_equal(journal_flush(p->j), 0);
        s = trace(p, (struct filter){ 0 });
        assert_int_equal(s.n, 2);
        assert_int_equal(s.denied, 2);
        assert_int_equal(s.ended, 1);
        assert_string_equal(s.reason, "body");
}

static void following(void **state)
{
        struct place *p = *state;
        struct filter f = { .workspace = SLICE_LIT("alpha") };
        struct event_record e = verdict("allow", "a.example", 1000);
        struct err err = ERR_INIT;
        struct seen s = { 0 };
        struct reader *r;
        uint64_t seq = 0;

        fill(p);
        r = reading(p);
        assert_int_equal(reader_last_seq(r, &seq, &err), 0);
        assert_int_equal(seq, 190);
        assert_int_equal(reader_follow(r, VIEW_TRACE, &f, &seq, see, &s, &err), 0);
        assert_int_equal(s.n, 0);
        put(p->j, "alpha", "inner", &e);
        put(p->j, "beta", "inner", &e);
        assert_int_equal(journal_flush(p->j), 0);
        assert_int_equal(reader_follow(r, VIEW_TRACE, &f, &seq, see, &s, &err), 0);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.ended, 0);
        put_end(p->j, "alpha", 1000);
        assert_int_equal(journal_flush(p->j), 0);
        assert_int_equal(reader_follow(r, VIEW_TRACE, &f, &seq, see, &s, &err), 0);
        assert_int_equal(s.n, 2);
        assert_int_equal(s.ended, 1);
        assert_int_equal(s.last_id, 1000);
        assert_int_equal(s.status, 200);
        assert_string_equal(s.host, "a.example");
        s = (struct seen){ 0 };
        seq = 0;
        f.workspace = SLICE_EMPTY;
        put_many(p->j, "alpha", 5000);
        assert_int_equal(reader_follow(r, VIEW_TIMELINE, &f, &seq, see, &s, &err), 0);
        assert_int_equal(s.n, 5102);
        reader_close(r);
}

static void timeline(void **state)
{
        struct place *p = *state;
        struct filter f = { .limit = 5 };
        struct err err = ERR_INIT;
        struct seen s = { 0 };
        struct event_record note;
        struct reader *r;

        fill(p);
        event_init(&note, EVENT_NOTE);
        event_text(&note, EVENT_ENGINE, SLICE_LIT("Workspace"));
        event_text(&note, EVENT_SUBJECT, SLICE_LIT("started"));
        put(p->j, "alpha", NULL, &note);
        assert_int_equal(journal_flush(p->j), 0);
        r = reading(p);
        assert_int_equal(reader_timeline(r, &f, see, &s, &err), 0);
        assert_int_equal(s.n, 5);
        assert_int_equal(s.first_id, 97);
        s = (struct seen){ 0 };
        f = (struct filter){ .engine = SLICE_LIT("workspace") };
        assert_int_equal(reader_timeline(r, &f, see, &s, &err), 0);
        assert_int_equal(s.n, 1);
        reader_close(r);
}

struct hosts {
        size_t n;
        struct host_row last;
        char name[64];
};
static int see_host(void *ctx, const struct host_row *h)
{
        struct hosts *s = ctx;

        s->n++;
        s->last = *h;
        snprintf(s->name, sizeof(s->name), "%.*s", SLICE_FMT(h->host));
        return 0;
}
struct totals {
        size_t n[SUMMARY_KIND_COUNT];
        uint64_t allowed, denied;
};
static int see_total(void *ctx, const struct summary_row *s)
{
        struct totals *t = ctx;

        t->n[s->kind]++;
        if (s->kind == SUMMARY_TOTAL) {
                t->allowed = s->allowed;
                t->denied = s->denied;
        }
        return 0;
}
struct refusals {
        size_t n;
        uint64_t sum;
        char suggest[64];
};
static int see_refusal(void *ctx, const struct refusal_row *x)
{
        struct refusals *s = ctx;

        s->n++;
        s->sum += x->count;
        snprintf(s->suggest, sizeof(s->suggest), "%.*s", SLICE_FMT(x->event.text[EVENT_SUGGEST]));
        return 0;
}

static void totals(void **state)
{
        struct place *p = *state;
        struct filter f = { 0 };
        struct err err = ERR_INIT;
        struct hosts h = { 0 };
        struct totals t = { 0 };
        struct refusals x = { 0 };
        struct reader *r;

        fill(p);
        for (int i = 0; i < 1000; i++) {
                struct event_record e = verdict("deny", "evil.example", 5000 + (uint64_t)i % 2);
                event_num(&e, EVENT_ID, 5000 + (uint64_t)i);
                event_text(&e, EVENT_SUGGEST, SLICE_LIT("allow web evil.example"));
                put(p->j, "alpha", "inner", &e);
        }
        for (int i = 0; i < 2; i++) {
                struct event_record e = verdict("deny", "evil.example", 7000);
                event_num(&e, EVENT_ID, 7000 + (uint64_t)i);
                event_text(&e, EVENT_PROTO, SLICE_LIT("dns"));
                event_text(&e, EVENT_METHOD, i ? SLICE_LIT("AAAA") : SLICE_LIT("A"));
                event_text(&e, EVENT_SUGGEST, SLICE_LIT("allow web evil.example"));
                put(p->j, "alpha", "inner", &e);
        }
        place_close(p);
        r = reading(p);
        assert_int_equal(reader_hostnames(r, &f, see_host, &h, &err), 0);
        assert_int_equal(h.n, 3);
        assert_string_equal(h.name, "evil.example");
        assert_int_equal(h.last.denied, 1002);
        assert_int_equal(reader_summary(r, &f, see_total, &t, &err), 0);
        assert_int_equal(t.allowed, 90);
        assert_int_equal(t.denied, 1012);
        assert_int_equal(t.n[SUMMARY_WORKSPACE], 2);
        assert_int_equal(t.n[SUMMARY_HOST], 3);
        f = (struct filter){ .workspace = SLICE_LIT("alpha"), .session = 1 };
        assert_int_equal(reader_refusals(r, &f, see_refusal, &x, &err), 0);
        assert_int_equal(x.n, 8); /* five single ones, two of the storm, one for the two questions of a name */
        assert_int_equal(x.sum, 1007);
        assert_string_equal(x.suggest, "allow web evil.example");
        reader_close(r);
}

/* A tampered body is passed over, never read out of bounds. */
static void broken_bodies(void **state)
{
        struct place *p = *state;

        fill(p);
        place_close(p);
        place_sql(p, "DROP TRIGGER record_stays; UPDATE record SET body = substr(body, 1, seq) WHERE seq < 60; UPDATE record SET class = -7 WHERE seq = 61;"
                     "UPDATE record SET body = zeroblob(0) WHERE seq = 62; DELETE FROM workspace WHERE id = 2");
        assert_true(trace(p, (struct filter){ 0 }).n >= 39);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
                T(none_yet), T(joins_and_filters), T(two_doors_one_row), T(following), T(timeline), T(totals), T(broken_bodies),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
