/* What a guest sends through a WebSocket where there is a placeholder: the same goes on however it is cut, never the random part, and towards a model letters of the same
 * length. And coded bodies: what is decided, and what a bomb costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "inner/accounts.h"
#include "inner/decode.h"
#include "inner/events.h"
#include "inner/outbox.h"
#include "inner/tripwire.h"
#include "inner/ws.h"

#include <stdlib.h>
#include <zlib.h>

#define RANDOM "abcdefghijklmnopqrstuvwxyz234567"
static const char policy_text[] = "credential far { kind bearer; for far.example; placeholder \"brm_" RANDOM "\"; field websocket }\nmodel { model.example }\nrules { allow web any }\n";
static struct door door;
static int cuts;

static void leg_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        (void)x, (void)reason, (void)detail;
        cuts++;
}
static void leg_room(struct exchange *x, size_t n) { (void)x, (void)n; }
static const struct leg_ops leg = { .cut = leg_cut, .room = leg_room };

static int begin(void **state)
{
        struct diags errors;

        (void)state;
        door = (struct door){ .base = event_base_new(), .workspace = "test", .next_id = 1, .control = -1 };
        TAILQ_INIT(&door.flows);
        TAILQ_INIT(&door.exchanges);
        TAILQ_INIT(&door.dead_exchanges);
        TAILQ_INIT(&door.accounts);
        TAILQ_INIT(&door.hold_queue);
        door.policy = policy_parse(slice_str(policy_text), "test", &errors);
        door.outbox = outbox_open(&door, -1);
        return door.policy && door.outbox && accounts_policy(&door) == 0 && door.tokens ? 0 : -1;
}

static struct exchange *websocket(const char *host)
{
        struct exchange *x = exchange_new(&door, EXCHANGE_WEBSOCKET, &leg, NULL);

        assert_non_null(x);
        x->to = (struct authority){ .name = slice_str(host), .port = 443 };
        x->req = arena_alloc(&x->arena, sizeof(*x->req));
        x->https = x->recorded = true;
        x->protocol = "websocket";
        x->account = accounts_of(&door, &x->to, NULL);
        x->guard = ws_guard_new(x);
        assert_non_null(x->guard);
        return x;
}

static void done(struct exchange *x)
{
        exchange_end(x);
        exchange_free_dead(&door);
        tripwire_turn_end(&door); /* nobody hears it; the message is freed */
        door.quit = false;
        door.refuse = REASON_NONE;
        buf_clear(outbox_buf(door.outbox));
}

static void add_frame(struct buf *b, unsigned head, const char *payload)
{
        static const uint8_t key[4] = { 1, 2, 3, 4 };
        uint8_t text[125];
        size_t n = strlen(payload);

        assert_true(n <= 125);
        ws_mask(text, slice_str(payload), key, 0);
        buf_add(b, &(uint8_t){ (uint8_t)head }, 1);
        buf_add(b, &(uint8_t){ (uint8_t)(0x80 | n) }, 1);
        buf_add(b, key, 4);
        buf_add(b, text, n);
}

/* Feeds in two parts. The result of the second, or of the first where it is refused. */
static int feed(const char *host, struct slice in, size_t cut, struct buf *out, enum reason *reason)
{
        struct exchange *x = websocket(host);
        struct ws_pair p;
        struct response none = { .status = 101, .upgraded = true };
        int rc;

        ws_pair_init(&p, &none);
        rc = ws_up(x, &p.up, slice_first(in, cut), out);
        if (rc == 0)
                rc = ws_up(x, &p.up, slice_skip(in, cut), out);
        *reason = x->reason;
        done(x);
        return rc;
}

static void test_clear(void **state)
{
        struct buf in, out;
        enum reason reason;

        (void)state;
        buf_init(&in, 0);
        add_frame(&in, 0x81, "hello brm_abcdefg");
        add_frame(&in, 0x01, "brm_" "abcdefghij");
        add_frame(&in, 0x89, "a ping");
        add_frame(&in, 0x80, "no more of it");
        add_frame(&in, 0x82, "");
        for (size_t cut = 0; cut <= buf_len(&in); cut++) {
                buf_init(&out, 0);
                assert_int_equal(feed("x.example", buf_slice(&in), cut, &out, &reason), 0);
                assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
                buf_fini(&out);
        }
        buf_fini(&in);
}

static void test_trip(void **state)
{
        struct buf in, out;
        enum reason reason;

        (void)state;
        buf_init(&in, 0);
        add_frame(&in, 0x01, "x brm_abcd");
        add_frame(&in, 0x89, "between");
        add_frame(&in, 0x80, "efghijklmnopqrstuvwxyz234567");
        for (size_t cut = 0; cut <= buf_len(&in); cut++) {
                buf_init(&out, 0);
                assert_int_equal(feed("x.example", buf_slice(&in), cut, &out, &reason), -1);
                assert_int_equal(reason, REASON_TRIPWIRE);
                assert_true(buf_len(&out) <= 6 + 6); /* the head, and what stands before the random part */
                buf_fini(&out);
        }
        buf_fini(&in);
        buf_init(&in, 0);
        add_frame(&in, 0x89, "brm_" RANDOM);
        buf_init(&out, 0);
        assert_int_equal(feed("x.example", buf_slice(&in), 20, &out, &reason), -1);
        assert_int_equal(buf_len(&out), 0);
        buf_fini(&in);
        buf_fini(&out);
}

static void test_own(void **state)
{
        struct buf in, out;
        enum reason reason;

        (void)state;
        buf_init(&in, 0);
        add_frame(&in, 0x81, "token brm_" RANDOM " here");
        for (size_t cut = 0; cut <= buf_len(&in); cut++) {
                buf_init(&out, 0);
                assert_int_equal(feed("far.example", buf_slice(&in), cut, &out, &reason), 0);
                assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
                buf_fini(&out);
        }
        add_frame(&in, 0x81, "and brm_" RANDOM " again");
        buf_init(&out, 0);
        assert_int_equal(feed("far.example", buf_slice(&in), 30, &out, &reason), -1);
        assert_int_equal(reason, REASON_PLACEHOLDER_TWICE);
        buf_fini(&out);
        buf_fini(&in);
}

static void test_letters(void **state)
{
        struct buf in, want, out;
        enum reason reason;

        (void)state;
        buf_init(&in, 0);
        buf_init(&want, 0);
        add_frame(&in, 0x01, "{\"a\": \"brm_abcdefghijkl");
        add_frame(&in, 0x00, "mnopqrstuvwx");
        add_frame(&in, 0x80, "yz234567\", \"b\": \"brm_" RANDOM "\"}");
        add_frame(&want, 0x01, "{\"a\": \"brm_xxxxxxxxxxxx");
        add_frame(&want, 0x00, "xxxxxxxxxxxx");
        add_frame(&want, 0x80, "xxxxxxxx\", \"b\": \"brm_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}");
        for (size_t cut = 0; cut <= buf_len(&in); cut++) {
                buf_init(&out, 0);
                assert_int_equal(feed("model.example", buf_slice(&in), cut, &out, &reason), 0);
                assert_true(slice_eq(buf_slice(&want), buf_slice(&out)));
                buf_fini(&out);
        }
        assert_int_equal(door.refuse, REASON_NONE);
        buf_fini(&in);
        buf_fini(&want);
}

static void test_redact(void **state)
{
        char text[] = "ab\\nc3\r\n7z";

        (void)state;
        tripwire_redact((uint8_t *)text, strlen(text));
        assert_string_equal(text, "xx\\nxx\r\nxx");
}

/* --- decode --- */

static size_t gzip_of(uint8_t *out, size_t cap, size_t zeros)
{
        static uint8_t block[65536];
        z_stream z = { .next_out = out, .avail_out = (uInt)cap };

        assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
        while (zeros) {
                size_t n = zeros < sizeof(block) ? zeros : sizeof(block);
                z.next_in = block;
                z.avail_in = (uInt)n;
                assert_int_equal(deflate(&z, Z_NO_FLUSH), Z_OK);
                zeros -= n;
        }
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        deflateEnd(&z);
        return z.total_out;
}

static uint64_t got;
static int count(void *ctx, struct slice s)
{
        got += s.n;
        return ctx ? -1 : 0;
}

static void test_decode(void **state)
{
        enum coding list[] = { CODING_GZIP };
        static uint8_t coded[512 * 1024];
        struct decode *dec = decode_new(list, 1, door.tokens);
        size_t n = gzip_of(coded, sizeof(coded), 1000000);

        (void)state;
        got = 0;
        for (size_t at = 0; at < n; at++)
                assert_int_equal(decode_feed(dec, slice_of(coded + at, 1), at + 1 == n, count, NULL), DECODE_OK);
        assert_int_equal(got, 1000000);
        assert_int_equal(dec->pending, 0);
        decode_free(dec);
        dec = decode_new(list, 1, door.tokens); /* who refuses is not given more */
        assert_int_equal(decode_feed(dec, slice_of(coded, n), true, count, dec), DECODE_STOPPED);
        decode_free(dec);
        dec = decode_new(list, 1, door.tokens); /* cut short */
        assert_int_equal(decode_feed(dec, slice_of(coded, n - 1), true, count, NULL), DECODE_BAD);
        decode_free(dec);
        n = gzip_of(coded, sizeof(coded), 300u << 20);
        got = 0;
        dec = decode_new(list, 1, door.tokens);
        assert_int_equal(decode_feed(dec, slice_of(coded, n), true, count, NULL), DECODE_BAD);
        assert_true(got < DECODED_FREE_BYTES + n * DECODED_RATIO + SCRATCH_BYTES);
        assert_non_null(decode_problem(dec));
        decode_free(dec);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_clear), cmocka_unit_test(test_trip),   cmocka_unit_test(test_own),
                cmocka_unit_test(test_letters), cmocka_unit_test(test_redact), cmocka_unit_test(test_decode),
        };

        return cmocka_run_group_tests(tests, begin, NULL);
}
