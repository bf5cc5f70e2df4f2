/* WebSocket frames that are framed anew: messages and control frames come out as they went in, but for what the filter did, however the bytes are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "outer/frames.h"
#include <stdlib.h>

/* Doubles every "a" of a message, and says where messages begin and end. */
static int twice(void *ctx, struct slice in, bool text, bool first, bool last, struct buf *out)
{
        (void)ctx;
        if (first && buf_add_str(out, text ? "[" : "(") < 0)
                return -1;
        for (size_t i = 0; i < in.n; i++) {
                if (in.p[i] == '!')
                        return 7;
                if (buf_add(out, in.p + i, 1) < 0 || (in.p[i] == 'a' && buf_add(out, "a", 1) < 0))
                        return -1;
        }
        return last ? buf_add_str(out, text ? "]" : ")") : 0;
}

static int control(void *ctx, struct slice in, struct buf *out)
{
        (void)ctx;
        return buf_add_slice(out, in) < 0 ? -1 : buf_add_str(out, "c");
}

static const struct frames_filter filter = { twice, control, NULL };

static void put(struct buf *b, bool fin, enum ws_opcode opcode, const char *text, const uint8_t *key)
{
        uint8_t head[WS_HEAD_BYTES_MAX], payload[4096];
        size_t n = strlen(text);

        memcpy(payload, text, n);
        if (key)
                ws_mask(payload, slice_of(payload, n), key, 0);
        assert_int_equal(buf_add(b, head, ws_head(head, fin, false, opcode, n, key)), 0);
        assert_int_equal(buf_add(b, payload, n), 0);
}

/* What a reader makes of it: "1[hello]" for a text message, "9:ping" for a control frame, in the order in which they end. */
static void read_all(struct slice in, bool from_client, struct buf *story)
{
        struct ws_reader r;
        struct buf message, ctl;
        struct slice payload;
        enum wire_reason why;
        enum ws_event e;
        uint8_t plain[4096];

        buf_init(&message, 0);
        buf_init(&ctl, 0);
        ws_reader_init(&r, from_client, false);
        while ((e = ws_read(&r, &in, &payload, &why)) != WS_MORE) {
                bool is_control = r.frame.opcode >= WS_CLOSE;

                assert_int_not_equal(e, WS_BAD);
                if (e == WS_PAYLOAD) {
                        memcpy(plain, payload.p, payload.n);
                        if (r.frame.masked)
                                ws_mask(plain, payload, r.frame.key, r.offset);
                        assert_int_equal(buf_add(is_control ? &ctl : &message, plain, payload.n), 0);
                } else if (e == WS_FRAME_END && (is_control || r.frame.fin)) {
                        struct buf *b = is_control ? &ctl : &message;

                        assert_int_equal(buf_addf(story, "%d%s%.*s ", is_control ? r.frame.opcode : r.frame.message, is_control ? ":" : "", SLICE_FMT(buf_slice(b))), 0);
                        buf_clear(b);
                }
        }
        buf_fini(&message);
        buf_fini(&ctl);
}

static void every_cut(bool from_client)
{
        static const uint8_t key[4] = { 1, 2, 3, 250 };
        const uint8_t *k = from_client ? key : NULL;
        struct buf in;
        char *first = NULL;

        buf_init(&in, 0);
        put(&in, true, WS_TEXT, "abc", k);
        put(&in, false, WS_TEXT, "one a", k);
        put(&in, true, WS_PING, "ping", k);
        put(&in, false, WS_CONTINUATION, "", k);
        put(&in, true, WS_CONTINUATION, "two a", k);
        put(&in, true, WS_BINARY, "", k);
        put(&in, true, WS_BINARY, "aaa", k);
        put(&in, true, WS_CLOSE, "..bye", k);
        for (size_t step = 1; step <= buf_len(&in); step++) {
                struct frames f;
                struct buf out, story;

                frames_init(&f, from_client, &filter);
                buf_init(&out, 0);
                buf_init(&story, 0);
                for (size_t at = 0; at < buf_len(&in); at += step)
                        assert_int_equal(frames_feed(&f, slice_first(slice_skip(buf_slice(&in), at), step), &out), 0);
                read_all(buf_slice(&out), from_client, &story);
                assert_int_equal(buf_add(&story, "", 1), 0);
                if (!first)
                        first = strdup((const char *)buf_slice(&story).p);
                assert_string_equal((const char *)buf_slice(&story).p, first);
                frames_fini(&f);
                buf_fini(&out);
                buf_fini(&story);
        }
        assert_string_equal(first, "1[aabc] 9:pingc 1[one aatwo aa] 2() 2(aaaaaa) 8:..byec ");
        free(first);
        buf_fini(&in);
}

static void messages(void **state)
{
        (void)state;
        every_cut(false);
        every_cut(true);
}

static void refusals(void **state)
{
        static const uint8_t key[4] = { 9, 9, 9, 9 };
        struct frames f;
        struct buf in, out;

        (void)state;
        for (int i = 0; i < 3; i++) {
                buf_init(&in, 0);
                buf_init(&out, 0);
                put(&in, true, i == 2 ? (enum ws_opcode)3 : WS_TEXT, i == 1 ? "x!" : "x", i == 0 ? NULL : key);
                frames_init(&f, true, &filter);
                assert_int_equal(frames_feed(&f, buf_slice(&in), &out), i == 1 ? 7 : -2);
                frames_fini(&f);
                buf_fini(&in);
                buf_fini(&out);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(messages), cmocka_unit_test(refusals) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
