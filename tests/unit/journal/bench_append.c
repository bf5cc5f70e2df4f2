/* What a record costs, all in: taken, chained, inserted, committed; and what reading and verifying cost. Prints; asserts nothing. */
#include "help.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { RECORDS = 200000, NAMES = 20000 };

static void run(struct place *p, size_t batch)
{
        int64_t start = clock_mono_us(), us;
        clock_t cpu = clock();

        place_open(p);
        for (uint64_t i = 0; i < RECORDS; i++) {
                struct event_record e = verdict("allow", "registry.example", i);
                put(p->j, i % 2 ? "alpha" : "beta", "inner", &e);
                if (i % batch == batch - 1)
                        assert_int_equal(journal_flush(p->j), 0);
        }
        place_close(p);
        us = clock_mono_us() - start;
        cpu = clock() - cpu;
        printf("append, %4zu a flush: %6.2f us a record, %6.2f us of CPU\n", batch, (double)us / RECORDS, (double)cpu / RECORDS);
}

static int nothing(void *ctx, const struct row *row)
{
        (void)row;
        ++*(size_t *)ctx;
        return 0;
}

static void syncs(struct place *p)
{
        struct event_record e = verdict("deny", "evil.example", 1);
        struct journal_entry entry = { SLICE_LIT("alpha"), 1, NULL, &e };
        int64_t start;

        place_open(p);
        start = clock_mono_us();
        for (int i = 0; i < 200; i++)
                assert_int_equal(journal_append_sync(p->j, &entry), 0);
        printf("append_sync:          %6.0f us\n", (double)(clock_mono_us() - start) / 200);
        place_close(p);
}

static bool is_live(void *ctx, struct slice name)
{
        (void)ctx;
        return name.n >= 4 && memcmp(name.p, "live", 4) == 0;
}

/* Throw-away workspaces in a row, ten requests each; then what a flush costs among those that are known. */
static void names(size_t traced, size_t known)
{
        struct journal_options o = { .create = true, .forget = { .traced = traced, .names = known, .exists = is_live } };
        void *state = NULL;
        struct place *p;
        int64_t start;

        place_setup(&state);
        p = state;
        o.state = p->state;
        p->j = journal_open(&o, NULL);
        assert_non_null(p->j);
        start = clock_mono_us();
        for (unsigned i = 0; i < NAMES; i++) {
                char name[32];
                snprintf(name, sizeof(name), "run-%06u", i);
                put_many(p->j, name, 10);
        }
        printf("names, %5zu known:   %6.0f us a workspace", known, (double)(clock_mono_us() - start) / NAMES);
        start = clock_mono_us();
        for (int i = 0; i < 5000; i++)
                put_many(p->j, "live", 1);
        printf(", then %4.1f us a flush of one record", (double)(clock_mono_us() - start) / 5000);
        place_close(p);
        start = clock_mono_us();
        place_open(p);
        printf(", %3.0f ms to open, %lld KB\n", (double)(clock_mono_us() - start) / 1000, (long long)place_number(p, "SELECT page_count * 4 FROM pragma_page_count"));
        place_teardown(&state);
}

int main(void)
{
        static const size_t batch[] = { 1, 10, 100, 1000 };
        void *state = NULL;
        struct filter last = { .limit = 50 }, all = { 0 };
        struct reader *r;
        size_t n = 0;
        int64_t start;

        names(10, 20);
        names(4096, 16384);
        names(65535, 65535);
        for (size_t i = 0; i < sizeof(batch) / sizeof(batch[0]); i++) {
                place_setup(&state);
                run(state, batch[i]);
                if (i + 1 < sizeof(batch) / sizeof(batch[0]))
                        place_teardown(&state);
        }
        syncs(state);
        r = reader_open(((struct place *)state)->state, NULL);
        assert_non_null(r);
        start = clock_mono_us();
        assert_int_equal(reader_trace(r, &last, nothing, &n, NULL), 0);
        printf("trace, last 50:       %6.0f us\n", (double)(clock_mono_us() - start));
        start = clock_mono_us();
        n = 0;
        assert_int_equal(reader_trace(r, &all, nothing, &n, NULL), 0);
        printf("trace, all:           %6.2f us a record (%zu)\n", (double)(clock_mono_us() - start) / (double)n, n);
        reader_close(r);
        start = clock_mono_us();
        assert_int_equal(verify(state).result.findings, 0);
        printf("verify:               %6.2f us a record\n", (double)(clock_mono_us() - start) / RECORDS);
        place_teardown(&state);
        return 0;
}
