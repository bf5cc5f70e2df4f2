/* modules.dep: the order in which modules are loaded, what is refused, every cut. */
#include "vm/modules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char text[] = "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko\n"
                           "kernel/fs/jbd2/jbd2.ko:\n"
                           "kernel/lib/crc16.ko:\n"
                           "kernel/fs/mbcache.ko:\n"
                           "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.zst kernel/fs/fscache/fscache.ko\n"
                           "kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.zst\n"
                           "kernel/fs/netfs/netfs.ko.zst: kernel/fs/fscache/fscache.ko\n"
                           "kernel/fs/fscache/fscache.ko:\n"
                           "kernel/drivers/virtio/virtio-blk.ko.gz:\n";

static void order_is(const struct modules *m, const char *const *names)
{
        size_t n = 0;

        for (; names[n]; n++) {
                assert_true(n < m->order_count);
                assert_true(slice_is(modules_name(m->all[m->order[n]].path), names[n]));
        }
        assert_int_equal(m->order_count, n);
}
#define ORDER(m, ...) order_is(m, (const char *const[]){ __VA_ARGS__, NULL })

static void need(struct modules *m, const char *name)
{
        struct err err = ERR_INIT;
        ptrdiff_t i = modules_find(m, name);

        assert_true(i >= 0);
        assert_int_equal(modules_need(m, (size_t)i, &err), 0);
}

static void ordered(void **state)
{
        struct modules m;
        struct err err = ERR_INIT;
        (void)state;

        assert_int_equal(modules_parse(&m, slice_str(text), &err), 0);
        assert_int_equal(m.count, 9);
        need(&m, "9p");
        ORDER(&m, "fscache", "netfs", "9pnet", "9p");
        need(&m, "9pnet"); /* there already */
        need(&m, "ext4");
        ORDER(&m, "fscache", "netfs", "9pnet", "9p", "mbcache", "crc16", "jbd2", "ext4");
        modules_forget(&m);
        need(&m, "virtio_blk");
        ORDER(&m, "virtio-blk");
        assert_int_equal(modules_find(&m, "9"), -1);
        assert_int_equal(modules_find(&m, "9p.ko"), -1);
        assert_int_equal(modules_find(&m, ""), -1);
        assert_int_equal(modules_coding(m.all[(size_t)modules_find(&m, "9p")].path), MODULES_XZ);
        assert_int_equal(modules_coding(m.all[(size_t)modules_find(&m, "netfs")].path), MODULES_ZSTD);
        assert_int_equal(modules_coding(m.all[(size_t)modules_find(&m, "virtio-blk")].path), MODULES_GZIP);
        assert_int_equal(modules_coding(m.all[(size_t)modules_find(&m, "ext4")].path), MODULES_PLAIN);
        modules_free(&m);
}

static void refused(void **state)
{
        static const char *const texts[] = { "a.ko", "\n", ":", "a.ko b.ko:", "a.ko:b.ko", "a.ko: b.ko ", "a.ko:  b.ko", "/a.ko:", "a//b.ko:", "../a.ko:", "a/../b.ko:", "a/.ko:", ".ko:", "a.txt:",
                                             "a.ko: /etc/passwd", "a.ko: ../b.ko", "a\tb.ko:", "a.ko:\na.ko:\n", "a.ko:\n\nb.ko:\n" };
        struct modules m;
        (void)state;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct err err = ERR_INIT;
                assert_int_equal(modules_parse(&m, slice_str(texts[i]), &err), -1);
                assert_true(err.text[0]);
        }
}

static void circles(void **state)
{
        struct modules m;
        struct err err = ERR_INIT;
        char chain[64 * (MODULES_DEPTH + 3)];
        size_t n = 0;
        (void)state;

        assert_int_equal(modules_parse(&m, SLICE_LIT("a.ko: b.ko\nb.ko: c.ko\nc.ko: a.ko\n"), &err), 0);
        assert_int_equal(modules_need(&m, 0, &err), -1);
        assert_non_null(strstr(err.text, "needs itself"));
        modules_free(&m);
        assert_int_equal(modules_parse(&m, SLICE_LIT("a.ko: b.ko\n"), &err), 0);
        assert_int_equal(modules_need(&m, 0, &err), -1);
        assert_non_null(strstr(err.text, "not there"));
        modules_free(&m);
        for (int i = 0; i < MODULES_DEPTH + 2; i++)
                n += (size_t)snprintf(chain + n, sizeof(chain) - n, "m%03d.ko: m%03d.ko\n", i, i + 1);
        n += (size_t)snprintf(chain + n, sizeof(chain) - n, "m%03d.ko:\n", MODULES_DEPTH + 2);
        assert_int_equal(modules_parse(&m, slice_of(chain, n), &err), 0);
        assert_int_equal(modules_need(&m, 0, &err), -1);
        modules_free(&m);
}

static void built_in(void **state)
{
        struct slice list = SLICE_LIT("kernel/fs/ext4/ext4.ko\nkernel/drivers/virtio/virtio-pci.ko\n");
        (void)state;

        assert_true(modules_built_in(list, "ext4"));
        assert_true(modules_built_in(list, "virtio_pci"));
        assert_false(modules_built_in(list, "virtio"));
        assert_false(modules_built_in(SLICE_EMPTY, "ext4"));
}

/* Cut anywhere: refused, or a list whose modules are all prefixes' lines. */
static void cuts(void **state)
{
        (void)state;
        for (size_t n = 0; n < sizeof(text); n++) {
                char *copy = malloc(n ? n : 1); /* so that a sanitizer sees a read behind it */
                struct modules m;
                struct err err = ERR_INIT;
                assert_non_null(copy);
                memcpy(copy, text, n);
                if (modules_parse(&m, slice_of(copy, n), &err) == 0) {
                        for (size_t i = 0; i < m.count; i++)
                                if (modules_need(&m, i, &err) < 0)
                                        assert_true(err.text[0]);
                        assert_true(m.order_count <= m.count);
                        modules_free(&m);
                } else {
                        assert_true(err.text[0]);
                }
                free(copy);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(ordered), cmocka_unit_test(refused), cmocka_unit_test(circles), cmocka_unit_test(built_in), cmocka_unit_test(cuts) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
