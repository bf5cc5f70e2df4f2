/* The newc writer: bytes as the kernel's document says, names that are refused, and a full buffer. And that the probe boot waits for the guest protocol's own hello. */
#include "guest/proto.h"
#include "vm/cpio.h"
#include "vm/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void whole(void **state)
{
        static const char head[] = "070701"
                                   "00000001" "000041ed" "00000000" "00000000" "00000002" "00000007" "00000000" "00000000" "00000000" "00000000" "00000000" "00000004" "00000000"
                                   "dev\0\0\0" /* 110 + 4 → 116 */
                                   "070701"
                                   "00000002" "000081ed" "00000000" "00000000" "00000001" "00000007" "00000005" "00000000" "00000000" "00000000" "00000000" "00000005" "00000000"
                                   "init\0\0" /* 115 → 116 */
                                   "hello\0\0\0"
                                   "070701"
                                   "00000000" "00000000" "00000000" "00000000" "00000001" "00000000" "00000000" "00000000" "00000000" "00000000" "00000000" "0000000b" "00000000"
                                   "TRAILER!!!\0";
        struct buf out;
        struct cpio c = { .out = &out, .mtime = 7 };
        (void)state;

        buf_init(&out, 0);
        assert_int_equal(cpio_folder(&c, "dev", 0755), 0);
        assert_int_equal(cpio_file(&c, "init", 0755, SLICE_LIT("hello")), 0);
        assert_int_equal(cpio_end(&c), 0);
        assert_int_equal(buf_len(&out) % 512, 0);
        assert_true(buf_len(&out) >= sizeof(head) - 1);
        assert_memory_equal(buf_slice(&out).p, head, sizeof(head) - 1);
        for (size_t i = sizeof(head) - 1; i < buf_len(&out); i++)
                assert_int_equal(buf_slice(&out).p[i], 0);
        buf_fini(&out);
}

static void refused(void **state)
{
        static const char *const names[] = { "", "/", "/init", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a" };
        char name[CPIO_NAME_BYTES + 2];
        struct buf out;
        struct cpio c = { .out = &out };
        (void)state;

        buf_init(&out, 0);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                assert_int_equal(cpio_folder(&c, names[i], 0755), -1);
                assert_int_equal(cpio_file(&c, names[i], 0644, SLICE_EMPTY), -1);
        }
        memset(name, 'a', sizeof(name));
        name[sizeof(name) - 1] = 0;
        assert_int_equal(cpio_file(&c, name, 0644, SLICE_EMPTY), -1);
        name[CPIO_NAME_BYTES] = 0;
        assert_int_equal(buf_len(&out), 0);
        assert_int_equal(cpio_file(&c, name, 0644, SLICE_EMPTY), 0);
        assert_int_equal(cpio_file(&c, "a", 0100644, SLICE_EMPTY), -1); /* the kind of file is ours to say */
        assert_int_equal(cpio_file(&c, "a", 0644, slice_of("", (size_t)CPIO_FILE_BYTES + 1)), -1);
        buf_fini(&out);
}

static void full(void **state)
{
        struct buf out;
        struct cpio c = { .out = &out };
        (void)state;

        for (size_t limit = 1; limit < 512; limit += 37) {
                int rc;
                buf_init(&out, limit);
                rc = cpio_file(&c, "init", 0755, SLICE_LIT("hello"));
                rc = rc == 0 ? cpio_end(&c) : rc;
                assert_int_equal(rc, -1);
                buf_fini(&out);
        }
}

static void hello(void **state)
{
        struct buf out;
        (void)state;

        buf_init(&out, 0);
        assert_int_equal(proto_write_u32(&out, 0, PROTO_HELLO, PROTO_VERSION), 0);
        assert_true(slice_eq(buf_slice(&out), slice_of(probe_hello, sizeof(probe_hello))));
        buf_fini(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(whole), cmocka_unit_test(refused), cmocka_unit_test(full), cmocka_unit_test(hello) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
