/* The record codec: round trip, and everything that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/event.h"

static void round_trip(void **state)
{
        struct event_record e, back;
        struct buf b;
        size_t used = 0;

        (void)state;
        buf_init(&b, 0);
        event_init(&e, EVENT_VERDICT);
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++) {
                event_num(&e, (enum event_field)f, f * 0x0102030405060708u);
                event_text(&e, (enum event_field)f, slice_of("a\0\xff\nz", 5));
        }
        assert_int_equal(e.present, (1u << EVENT_FIELD_COUNT) - 2);
        assert_int_equal(event_write(&b, &e), 0);
        assert_int_equal(event_write(&b, &e), 0);
        assert_int_equal(event_read(buf_slice(&b), &back, &used), 1);
        assert_int_equal(used * 2, buf_len(&b));
        assert_int_equal(back.type, EVENT_VERDICT);
        assert_int_equal(back.present, e.present);
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++) {
                assert_int_equal(back.num[f], e.num[f]);
                assert_true(slice_eq(back.text[f], e.text[f]));
        }
        buf_fini(&b);
}

static void every_prefix_waits(void **state)
{
        struct event_record e, back;
        struct buf b;
        size_t used;

        (void)state;
        buf_init(&b, 0);
        event_init(&e, EVENT_END);
        event_num(&e, EVENT_STATUS, 200);
        event_text(&e, EVENT_HOST, SLICE_LIT("registry.example"));
        assert_int_equal(event_write(&b, &e), 0);
        for (size_t n = 0; n < buf_len(&b); n++)
                assert_int_equal(event_read(slice_first(buf_slice(&b), n), &back, &used), 0);
        buf_fini(&b);
}

static void long_texts_are_cut(void **state)
{
        static uint8_t big[100000];
        struct event_record e, back;
        struct buf b;
        size_t used;

        (void)state;
        memset(big, 'x', sizeof(big));
        buf_init(&b, 0);
        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_DETAIL, slice_of(big, sizeof(big)));
        event_text(&e, EVENT_HOST, SLICE_EMPTY);
        assert_false(event_has(&e, EVENT_HOST));
        assert_int_equal(event_write(&b, &e), 0);
        assert_int_equal(event_read(buf_slice(&b), &back, &used), 1);
        assert_int_equal(back.text[EVENT_DETAIL].n, EVENT_TEXT_BYTES);
        buf_clear(&b);
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++)
                event_text(&e, (enum event_field)f, slice_of(big, sizeof(big)));
        assert_int_equal(event_write(&b, &e), 0);
        assert_true(buf_len(&b) <= EVENT_RECORD_BYTES);
        assert_int_equal(event_read(buf_slice(&b), &back, &used), 1);
        assert_true(back.text[EVENT_SUGGEST].n > 0);
        buf_fini(&b);
}

static void malformed_is_refused(void **state)
{
#define REC(len, ...) { { len, 0, 0, 0, __VA_ARGS__ }, 4 + (len) }
        static const struct { uint8_t bytes[64]; size_t n; } bad[] = {
                REC(3, 1, 1, 0),                                          /* shorter than a head */
                REC(4, 2, 1, 0, 0),                                       /* version */
                REC(4, 1, 0, 0, 0),                                       /* type */
                REC(4, 1, 4, 0, 0),                                       /* type */
                REC(4, 1, 1, 1, 0),                                       /* reserved */
                REC(4, 1, 1, 0, 1),                                       /* a field that is not there */
                REC(9, 1, 1, 0, 1, 99, 0, 0, 0, 0),                       /* tag */
                REC(9, 1, 1, 0, 1, 0, 0, 0, 0, 0),                        /* tag */
                REC(10, 1, 1, 0, 1, 6, 1, 0, 0, 0, 7),                    /* NUM of one byte */
                REC(9, 1, 1, 0, 1, 5, 0, 0, 0, 0),                        /* empty text */
                REC(10, 1, 1, 0, 1, 5, 2, 0, 0, 0, 'a'),                  /* text longer than the record */
                REC(10, 1, 1, 0, 1, 5, 255, 255, 255, 255, 'a'),          /* far longer */
                REC(16, 1, 1, 0, 2, 5, 1, 0, 0, 0, 'a', 5, 1, 0, 0, 0, 'b'), /* twice */
                REC(5, 1, 1, 0, 0, 0),                                    /* left over */
                { { 0xff, 0xff, 0xff, 0xff }, 4 },                        /* no such record */
        };
        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct event_record e;
                size_t used;
                assert_int_equal(event_read(slice_of(bad[i].bytes, bad[i].n), &e, &used), -1);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(round_trip),
                cmocka_unit_test(every_prefix_waits),
                cmocka_unit_test(long_texts_are_cut),
                cmocka_unit_test(malformed_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
