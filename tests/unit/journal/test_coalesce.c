/* Coalescing: nothing is lost from the count, whatever comes in between. */
#include "help.h"

#include "journal/coalesce.h"

#include <stdio.h>

struct sink {
        uint64_t records, sum;
        bool refuse;
};
static int take(void *ctx, uint64_t session, const struct event_record *e)
{
        struct sink *s = ctx;

        (void)session;
        if (s->refuse)
                return -1;
        assert_false(event_has(e, EVENT_ID));
        s->records++;
        s->sum += e->num[EVENT_COUNT];
        return 0;
}

static void a_storm_is_a_handful(void **state)
{
        struct coalesce c;
        struct sink s = { 0 };
        uint64_t written = 0;

        (void)state;
        coalesce_init(&c);
        for (int i = 0; i < 10000; i++) {
                struct event_record e = verdict("deny", "evil.example", 7);
                int rc = coalesce_take(&c, 1, &e, i / 4, take, &s);
                assert_true(rc >= 0);
                written += (uint64_t)rc;
        }
        assert_int_equal(coalesce_flush(&c, INT64_MAX, take, &s), 0);
        assert_int_equal(written + s.sum, 10000);
        assert_true(written + s.records <= 16);
        assert_int_equal(coalesce_due_ms(&c), INT64_MAX);
        coalesce_fini(&c);
}

static void many_kinds_lose_nothing(void **state)
{
        struct coalesce c;
        struct sink s = { 0 };
        uint64_t written = 0;
        uint32_t seed = 5;

        (void)state;
        coalesce_init(&c);
        for (int i = 0; i < 50000; i++) {
                struct event_record e;
                seed = seed * 1664525u + 1013904223u;
                e = verdict("deny", "evil.example", seed >> 23);
                int rc = coalesce_take(&c, seed >> 31, &e, i / 40, take, &s);
                assert_true(rc >= 0);
                written += (uint64_t)rc;
        }
        assert_int_equal(coalesce_flush(&c, INT64_MAX, take, &s), 0);
        assert_int_equal(written + s.sum, 50000);
        coalesce_fini(&c);
}

static void a_refusing_sink_keeps_the_count(void **state)
{
        struct coalesce c;
        struct sink s = { .refuse = true };
        uint64_t written = 0;

        (void)state;
        coalesce_init(&c);
        for (int i = 0; i < 10; i++) {
                struct event_record e = verdict("deny", "evil.example", 7);
                written += (uint64_t)coalesce_take(&c, 1, &e, 0, take, &s);
        }
        assert_int_equal(coalesce_flush(&c, 5000, take, &s), -1);
        s.refuse = false;
        assert_int_equal(coalesce_flush(&c, 5000, take, &s), 0);
        assert_int_equal(written + s.sum, 10);
        coalesce_fini(&c);
}

static void differing_fields_differ(void **state)
{
        struct coalesce c;
        struct sink s = { 0 };

        (void)state;
        coalesce_init(&c);
        for (int i = 0; i < 100; i++) {
                struct event_record e = verdict("deny", "evil.example", 7);
                event_num(&e, EVENT_PORT, (uint64_t)i);
                assert_int_equal(coalesce_take(&c, 1, &e, 0, take, &s), 1);
        }
        coalesce_fini(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_storm_is_a_handful),
                cmocka_unit_test(many_kinds_lose_nothing),
                cmocka_unit_test(a_refusing_sink_keeps_the_count),
                cmocka_unit_test(differing_fields_differ),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
