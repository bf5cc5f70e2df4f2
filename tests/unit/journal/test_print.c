/* Printing: JSON that parses whatever the bytes, text without a control byte, and the shape of the lines. */
#include "help.h"

#include "journal/print.h"

#include <jansson.h>
#include <stdlib.h>

static void any_bytes(void **state)
{
        uint32_t seed = 3;

        (void)state;
        for (int round = 0; round < 3000; round++) {
                uint8_t bytes[200];
                struct buf json, text;
                struct row row = { .seq = 1, .time_us = 1, .workspace = SLICE_LIT("a"), .session = 1, .ended = round & 1 };
                json_error_t why;
                json_t *parsed;

                for (size_t i = 0; i < sizeof(bytes); i++) {
                        seed = seed * 1664525u + 1013904223u;
                        bytes[i] = (uint8_t)(seed >> (round % 3 ? 24 : 25));
                }
                row.event = verdict("deny", "x", 1);
                row.workspace = slice_of(bytes, 30);
                event_text(&row.event, EVENT_HOST, slice_of(bytes, 40));
                event_text(&row.event, EVENT_PATH, slice_of(bytes, (size_t)(round % 200) + 1));
                event_text(&row.event, EVENT_DETAIL, slice_of(bytes, 200));
                buf_init(&json, 0);
                buf_init(&text, 0);
                assert_int_equal(print_trace(&json, PRINT_JSON, &row), 0);
                parsed = json_loadb((const char *)buf_slice(&json).p, buf_len(&json), JSON_ALLOW_NUL, &why);
                if (!parsed)
                        fail_msg("%s", why.text);
                json_decref(parsed);
                assert_int_equal(print_trace(&text, PRINT_TEXT, &row), 0);
                assert_int_equal(print_timeline(&text, PRINT_TEXT, &row), 0);
                for (size_t i = 0, lines = 0; i < buf_len(&text); i++) {
                        uint8_t c = buf_slice(&text).p[i];
                        lines += c == '\n';
                        assert_true(c >= 0x20 || c == '\n');
                        assert_true(c != 0x7f && lines <= 2);
                }
                buf_fini(&json);
                buf_fini(&text);
        }
}

static void expect(struct buf *out, const char *text)
{
        if (!slice_is(buf_slice(out), text))
                fail_msg("\n got %.*s\nwant %s", SLICE_FMT(buf_slice(out)), text);
        buf_clear(out);
}

static void strings(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        assert_int_equal(print_json_string(&b, slice_of("a\"\\\n\0\x7f", 6)), 0);
        expect(&b, "\"a\\\"\\\\\\u000a\\u0000\\u007f\"");
        assert_int_equal(print_json_string(&b, slice_str("\xc3\xa4\xff\xe2\x80\xae\xed\xa0\x80\xf0\x9f\x98\x80\xf3\xa0\x81\x81\xc3")), 0);
        expect(&b, "\"\xc3\xa4\xef\xbf\xbd\\u202e\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\\udb40\\udc41\xef\xbf\xbd\"");
        assert_int_equal(print_time_utc(&b, 1767225600123456), 0);
        expect(&b, "2026-01-01T00:00:00.123Z");
        assert_int_equal(print_time_utc(&b, -1), 0);
        expect(&b, "1970-01-01T00:00:00.000Z");
        assert_int_equal(print_time_utc(&b, INT64_MAX), 0);
        buf_clear(&b);
        buf_fini(&b);
}

static void lines(void **state)
{
        struct row row = { .seq = 9, .time_us = 1767225600123456, .workspace = SLICE_LIT("api"), .session = 2, .ended = true, .end_us = 1767225601000000 };
        struct refusal_row x = { .count = 3 };
        struct buf b;

        (void)state;
        setenv("TZ", "UTC", 1);
        buf_init(&b, 0);
        row.event = verdict("deny", "registry.example", 4);
        event_num(&row.event, EVENT_STATUS, 403);
        event_num(&row.event, EVENT_BYTES_DOWN, 123456);
        event_num(&row.event, EVENT_DURATION, 1500);
        event_text(&row.event, EVENT_PATH, SLICE_LIT("/x"));
        event_text(&row.event, EVENT_REASON, SLICE_LIT("method"));
        assert_int_equal(print_trace(&b, PRINT_TEXT, &row), 0);
        expect(&b, "2026-01-01 00:00:00.123  api               deny     http/1.1   GET         403      - 120.6K      1.5        9  "
                   "registry.example:443/x  method  [default deny]\n");
        assert_int_equal(print_timeline(&b, PRINT_TEXT, &row), 0);
        expect(&b, "2026-01-01 00:00:00.123  api               Firewall    deny     GET registry.example:443/x  method  [default deny]\n");
        assert_int_equal(print_timeline(&b, PRINT_JSON, &row), 0);
        expect(&b, "{\"seq\":9,\"time\":\"2026-01-01T00:00:00.123Z\",\"type\":\"verdict\",\"workspace\":\"api\",\"session\":2,\"class\":\"trace\",\"id\":4,"
                   "\"engine\":\"Firewall\",\"protocol\":\"http/1.1\",\"host\":\"registry.example\",\"port\":443,\"method\":\"GET\",\"path\":\"/x\","
                   "\"verdict\":\"deny\",\"reason\":\"method\",\"rule\":\"default deny\",\"status\":403,\"bytes_down\":123456,\"duration_us\":1500}\n");
        x.event = row.event;
        event_text(&x.event, EVENT_SUGGEST, SLICE_LIT("allow web registry.example"));
        assert_int_equal(print_refusal(&b, PRINT_TEXT, &x), 0);
        expect(&b, "refused  GET registry.example:443/x  (3 times): method\n  to allow it:  allow web registry.example\n");
        event_text(&x.event, EVENT_RULE, SLICE_LIT("deny web registry.example"));
        assert_int_equal(print_refusal(&b, PRINT_TEXT, &x), 0);
        expect(&b, "refused  GET registry.example:443/x  (3 times): method\n  refused by:   deny web registry.example\n"
                   "  to allow it, above that rule:  allow web registry.example\n");
        buf_fini(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(any_bytes), cmocka_unit_test(strings), cmocka_unit_test(lines) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
