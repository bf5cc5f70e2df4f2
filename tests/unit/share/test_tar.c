/* Archives: what is written is read, cut at every byte, and what a hostile one may not hold. */
#include "share/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static struct tar_reader r;

static void add(struct buf *b, enum tar_kind kind, const char *path, const char *target, const char *data)
{
        static struct tar_entry e;

        e = (struct tar_entry){ .kind = kind, .mode = 0640, .size = strlen(data) };
        snprintf(e.path, sizeof(e.path), "%s", path);
        snprintf(e.target, sizeof(e.target), "%s", target);
        assert_int_equal(tar_write_entry(b, &e), 0);
        assert_int_equal(buf_add_str(b, data), 0);
        assert_int_equal(tar_write_padding(b, strlen(data)), 0);
}

/* One line an entry, and its bytes. */
static enum tar_event told(struct slice in, struct buf *out)
{
        struct slice data;
        enum tar_event e;

        while ((e = tar_read(&r, &in, &data)) == TAR_ENTRY || e == TAR_DATA)
                if (e == TAR_DATA)
                        buf_add_slice(out, data);
                else
                        buf_addf(out, "\n%d %o %s>%s:", r.entry.kind, r.entry.mode, r.entry.path, r.entry.kind == TAR_LINK ? r.entry.target : "");
        return e;
}

static void at_every_byte(void **state)
{
        char deep[1000], far[300];
        struct buf b, whole, cut;

        (void)state;
        memset(deep, 'p', sizeof(deep));
        for (size_t i = 200; i < sizeof(deep); i += 200)
                deep[i] = '/';
        deep[sizeof(deep) - 1] = 0;
        memset(far, 't', sizeof(far));
        far[sizeof(far) - 1] = 0;
        buf_init(&b, 0);
        buf_init(&whole, 0);
        buf_init(&cut, 0);
        add(&b, TAR_FOLDER, "a", "", "");
        add(&b, TAR_FILE, "a/f", "", "hello");
        add(&b, TAR_FILE, deep, "", "deep");
        add(&b, TAR_LINK, "a/l", far, "");
        add(&b, TAR_FILE, "a/after", "", "");
        assert_int_equal(tar_write_end(&b), 0);
        tar_reader_init(&r);
        assert_int_equal(told(buf_slice(&b), &whole), TAR_END);
        assert_non_null(memmem(buf_slice(&whole).p, buf_len(&whole), "0 640 a/f>:hello", 16));
        assert_non_null(memmem(buf_slice(&whole).p, buf_len(&whole), deep, sizeof(deep) - 1));
        assert_non_null(memmem(buf_slice(&whole).p, buf_len(&whole), "0 640 a/after>:", 15));
        for (size_t at = 0; at < buf_len(&b); at++) {
                buf_clear(&cut);
                tar_reader_init(&r);
                assert_int_equal(told(slice_first(buf_slice(&b), at), &cut), at < buf_len(&b) - 512 ? TAR_MORE : TAR_END);
                assert_int_equal(told(slice_skip(buf_slice(&b), at), &cut), TAR_END);
                assert_true(slice_eq(buf_slice(&cut), buf_slice(&whole)));
        }
        buf_fini(&b);
        buf_fini(&whole);
        buf_fini(&cut);
}

static void paths(void **state)
{
        static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../b" };
        char deep[2 * TAR_DEPTH + 2] = "a", long_name[TAR_NAME_BYTES + 2];

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(tar_path_ok(slice_str(bad[i])));
        assert_true(tar_path_ok(SLICE_LIT("a/..b/.c/d..")));
        memset(long_name, 'n', sizeof(long_name));
        assert_true(tar_path_ok(slice_of(long_name, TAR_NAME_BYTES)));
        assert_false(tar_path_ok(slice_of(long_name, TAR_NAME_BYTES + 1)));
        for (int i = 1; i < TAR_DEPTH; i++)
                memcpy(deep + 2 * i - 1, "/a", 3);
        assert_true(tar_path_ok(slice_str(deep)));
        memcpy(deep + 2 * TAR_DEPTH - 1, "/a", 3);
        assert_false(tar_path_ok(slice_str(deep)));
}

static void a_byte_of_a_header(void **state)
{
        struct buf b, out;

        (void)state;
        buf_init(&b, 0);
        buf_init(&out, 0);
        add(&b, TAR_FILE, "f", "", "");
        for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) { /* its sum tells */
                struct slice s = buf_slice(&b);

                if (i >= 148 && i < 156)
                        continue;
                ((uint8_t *)(uintptr_t)s.p)[i] ^= 1;
                tar_reader_init(&r);
                assert_int_equal(told(s, &out), TAR_BAD);
                ((uint8_t *)(uintptr_t)s.p)[i] ^= 1;
        }
        buf_fini(&b);
        buf_fini(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(at_every_byte), cmocka_unit_test(paths), cmocka_unit_test(a_byte_of_a_header) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
