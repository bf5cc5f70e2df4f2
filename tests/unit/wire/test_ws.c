/* WebSocket frames and capsules: forwarded bytes are the sender's bytes, however they were cut; bad frames are refused by name. */
#include "wire/capsule.h"
#include "wire/ws.h"
#include "wire_test.h"

struct outcome {
        struct buf forwarded, shape; /* shape: one letter an event */
        enum wire_reason why;
        bool bad;
};

static void run(struct slice text, bool client, bool deflate, size_t step, struct outcome *o)
{
        struct ws_reader r;

        *o = (struct outcome){ .why = WIRE_OK };
        buf_init(&o->forwarded, 0);
        buf_init(&o->shape, 0);
        ws_reader_init(&r, client, deflate);
        for (size_t at = 0; at < text.n && !o->bad;) {
                struct slice in = slice_first(slice_skip(text, at), step), payload;
                enum ws_event e;

                at += in.n;
                while ((e = ws_read(&r, &in, &payload, &o->why)) != WS_MORE && e != WS_BAD) {
                        if (e == WS_FRAME) {
                                assert_int_equal(buf_add_slice(&o->forwarded, r.frame.head), 0);
                                assert_int_equal(buf_addf(&o->shape, "[%x/%x%s", r.frame.opcode, r.frame.message, r.frame.fin ? "." : ""), 0);
                        } else if (e == WS_PAYLOAD) {
                                assert_int_equal(buf_add_slice(&o->forwarded, payload), 0);
                        } else {
                                assert_int_equal(buf_add_str(&o->shape, "]"), 0);
                        }
                }
                o->bad = e == WS_BAD;
        }
}

static void outcome_fini(struct outcome *o)
{
        buf_fini(&o->forwarded);
        buf_fini(&o->shape);
}

struct row {
        const char *what;
        struct slice text;
        bool client, deflate;
        enum wire_reason why;
        const char *shape;
};
#define M(text) { (const uint8_t *)(text), sizeof(text) - 1 }
static const struct row rows[] = {
        { "text", M("\x81\5hello"), false, false, WIRE_OK, "[1/1.]" },
        { "masked", M("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), true, false, WIRE_OK, "[1/1.]" },
        { "fragments", M("\1\3Hel\x80\2lo"), false, false, WIRE_OK, "[1/1][0/1.]" },
        { "ping between", M("\2\1a\x89\1p\0\1b\x80\1c"), false, false, WIRE_OK, "[2/2][9/0.][0/2][0/2.]" },
        { "close", M("\x88\2\3\xe8"), false, false, WIRE_OK, "[8/0.]" },
        { "empty", M("\x81\0\x88\0"), false, false, WIRE_OK, "[1/1.][8/0.]" },
        { "deflated", M("\xc1\1a"), false, true, WIRE_OK, "[1/1.]" },
        { "unmasked client", M("\x81\1a"), true, false, WIRE_WS_MASK, "" },
        { "masked server", M("\x81\x81" "1234a"), false, false, WIRE_WS_MASK, "" },
        { "rsv1", M("\xc1\1a"), false, false, WIRE_WS_RSV, "" },
        { "rsv2", M("\xa1\1a"), false, true, WIRE_WS_RSV, "" },
        { "rsv3", M("\x91\1a"), false, true, WIRE_WS_RSV, "" },
        { "rsv1 on continuation", M("\1\1a\xc0\1b"), false, true, WIRE_WS_RSV, "[1/1]" },
        { "rsv1 on ping", M("\xc9\0"), false, true, WIRE_WS_RSV, "" },
        { "opcode 3", M("\x83\0"), false, false, WIRE_WS_OPCODE, "" },
        { "opcode b", M("\x8b\0"), false, false, WIRE_WS_OPCODE, "" },
        { "fragmented ping", M("\x09\0"), false, false, WIRE_WS_CONTROL, "" },
        { "long ping", M("\x89\x7e\0\x7e"), false, false, WIRE_WS_CONTROL, "" },
        { "close of one byte", M("\x88\1\3"), false, false, WIRE_WS_CONTROL, "" },
        { "continuation of nothing", M("\x80\0"), false, false, WIRE_WS_SEQUENCE, "" },
        { "text in a message", M("\1\0\x81\0"), false, false, WIRE_WS_SEQUENCE, "[1/1]" },
        { "long 16", M("\x81\x7e\0\x7d"), false, false, WIRE_WS_LENGTH, "" },
        { "long 64", M("\x81\x7f\0\0\0\0\0\0\xff\xff"), false, false, WIRE_WS_LENGTH, "" },
        { "negative", M("\x81\x7f\x80\0\0\0\0\1\0\0"), false, false, WIRE_WS_LENGTH, "" },
        { "after close", M("\x88\0\x81\0"), false, false, WIRE_WS_AFTER_CLOSE, "[8/0.]" },
};

static void frames_at_every_cut(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++)
                for (size_t step = 1; step <= rows[i].text.n; step++) {
                        struct outcome o;

                        run(rows[i].text, rows[i].client, rows[i].deflate, step, &o);
                        assert_reason(o.bad ? o.why : WIRE_OK, rows[i].why, rows[i].what);
                        assert_slice(buf_slice(&o.shape), rows[i].shape);
                        if (!o.bad)
                                assert_true(slice_eq(buf_slice(&o.forwarded), rows[i].text));
                        outcome_fini(&o);
                }
}

static void written_frames_read_back(void **state)
{
        static const uint64_t lengths[] = { 0, 1, 125, 126, 127, 65535, 65536, 100000 };
        static const uint8_t key[4] = { 1, 0x80, 0xff, 7 };
        (void)state;

        for (size_t i = 0; i < 2 * COUNT(lengths); i++) {
                uint64_t length = lengths[i / 2];
                uint8_t head[WS_HEAD_BYTES_MAX], *bytes = calloc(1, (size_t)length + 1);
                struct outcome o;
                struct buf b;
                size_t n = ws_head(head, true, false, WS_BINARY, length, i % 2 ? key : NULL);

                assert_non_null(bytes);
                buf_init(&b, 0);
                assert_int_equal(buf_add(&b, head, n), 0);
                assert_int_equal(buf_add(&b, bytes, (size_t)length), 0);
                run(buf_slice(&b), i % 2, false, 1000, &o);
                assert_false(o.bad);
                assert_true(slice_eq(buf_slice(&o.forwarded), buf_slice(&b)));
                assert_slice(buf_slice(&o.shape), "[2/2.]");
                outcome_fini(&o);
                buf_fini(&b);
                free(bytes);
        }
}

static void masking_at_any_offset(void **state)
{
        static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };
        uint8_t plain[40], masked[40], back[40];
        (void)state;

        for (size_t i = 0; i < sizeof(plain); i++)
                plain[i] = (uint8_t)i;
        ws_mask(masked, slice_of(plain, sizeof(plain)), key, 0);
        for (size_t i = 0; i < sizeof(plain); i++)
                assert_int_equal(masked[i], plain[i] ^ key[i % 4]);
        for (size_t cut = 0; cut <= sizeof(plain); cut++) {
                ws_mask(back, slice_of(masked, cut), key, 0);
                ws_mask(back + cut, slice_of(masked + cut, sizeof(plain) - cut), key, cut);
                assert_memory_equal(back, plain, sizeof(plain));
        }
}

static void varints_and_capsules(void **state)
{
        static const uint64_t values[] = { 0, 63, 64, 16383, 16384, 1073741823, 1073741824, 4611686018427387903u };
        uint8_t bytes[CAPSULE_HEAD_BYTES_MAX + 64];
        struct capsule c;
        enum wire_reason why;
        size_t used, n;
        (void)state;

        for (size_t i = 0; i < COUNT(values); i++) {
                uint64_t v;

                n = varint_write(bytes, values[i]);
                assert_int_equal(n, (size_t)1 << i / 2);
                assert_int_equal(varint_read(slice_of(bytes, n), &v), n);
                assert_true(v == values[i]);
                assert_int_equal(varint_read(slice_of(bytes, n - 1), &v), 0);
        }
        n = capsule_udp_head(bytes, 5);
        memcpy(bytes + n, "hello", 5);
        for (size_t cut = 0; cut < n + 5; cut++)
                assert_int_equal(capsule_read(slice_of(bytes, cut), &c, &used, &why), WIRE_MORE);
        assert_int_equal(capsule_read(slice_of(bytes, n + 5), &c, &used, &why), WIRE_DONE);
        assert_int_equal(used, n + 5);
        assert_true(c.is_udp);
        assert_slice(c.payload, "hello");
        assert_int_equal(capsule_read(SLICE_LIT("\x29\1x"), &c, &used, &why), WIRE_DONE);
        assert_true(c.type == 0x29 && !c.is_udp);
        assert_int_equal(capsule_read(SLICE_LIT("\0\2\1x"), &c, &used, &why), WIRE_DONE);
        assert_false(c.is_udp);
        assert_int_equal(capsule_read(SLICE_LIT("\0\0"), &c, &used, &why), WIRE_BAD);
        assert_int_equal(capsule_read(SLICE_LIT("\0\1\x40"), &c, &used, &why), WIRE_BAD);
        assert_int_equal(capsule_read(SLICE_LIT("\0\xc0\0\0\1\0\0\0\0"), &c, &used, &why), WIRE_BAD);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(frames_at_every_cut), cmocka_unit_test(written_frames_read_back), cmocka_unit_test(masking_at_any_offset),
                cmocka_unit_test(varints_and_capsules),
        };
        return cmocka_run_group_tests_name("wire/ws", tests, NULL, NULL);
}
