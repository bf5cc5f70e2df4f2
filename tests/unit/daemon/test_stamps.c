/* An edit is noticed, whenever it was made; bromed's own write is none. */
#include "daemon/stamps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/brome-stamps-XXXXXX", file[PATH_MAX];

static void put(const char *text)
{
        FILE *f = fopen(file, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

/* As long ago as nobody writes to it any more. */
static void age(void)
{
        struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

        assert_int_equal(utimensat(AT_FDCWD, file, old, 0), 0);
}

static void test_read(void **state)
{
        struct stamps *s = stamps_new();

        (void)state;
        put("one");
        stamps_add(s, file);
        stamps_read(s, file, slice_str("one"));
        assert_false(stamps_changed(s)); /* young, and the text is the same */
        assert_false(stamps_changed(s));
        put("two"); /* the same size, perhaps the same tick */
        assert_true(stamps_changed(s));
        stamps_free(s);
}

static void test_read_before_an_edit(void **state)
{
        struct stamps *s = stamps_new();

        (void)state;
        put("two");
        stamps_add(s, file);
        stamps_read(s, file, slice_str("one")); /* what stood there when it was read; the stamp is that of the edit */
        assert_true(stamps_changed(s));
        stamps_free(s);
}

static void test_not_read(void **state)
{
        struct stamps *s = stamps_new();

        (void)state;
        put("one");
        stamps_add(s, file);
        assert_true(stamps_changed(s)); /* young, and nobody knows what was read */
        stamps_free(s);
}

static void test_wrote(void **state)
{
        struct stamps *s = stamps_new();

        (void)state;
        put("one");
        age();
        stamps_add(s, file);
        stamps_read(s, file, slice_str("one"));
        put("two");
        stamps_wrote(s, file, slice_str("two"));
        assert_false(stamps_changed(s));
        put("six");
        assert_true(stamps_changed(s));
        stamps_wrote(s, file, slice_str("two")); /* somebody else was faster than the look: their text counts */
        assert_true(stamps_changed(s));
        age(); /* whatever its time says */
        stamps_wrote(s, file, slice_str("two"));
        assert_true(stamps_changed(s));
        stamps_free(s);
}

static void test_wrote_new(void **state)
{
        struct stamps *s = stamps_new();

        (void)state;
        put("one");
        stamps_wrote(s, file, slice_str("one"));
        assert_false(stamps_changed(s));
        assert_int_equal(unlink(file), 0);
        assert_true(stamps_changed(s));
        stamps_clear(s);
        stamps_add(s, file);
        assert_false(stamps_changed(s)); /* it is not there, as before */
        put("one");
        assert_true(stamps_changed(s));
        stamps_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read), cmocka_unit_test(test_read_before_an_edit), cmocka_unit_test(test_not_read), cmocka_unit_test(test_wrote),
                cmocka_unit_test(test_wrote_new),
        };
        int rc;

        if (!mkdtemp(dir))
                return 1;
        snprintf(file, sizeof(file), "%s/f", dir);
        rc = cmocka_run_group_tests(tests, NULL, NULL);
        unlink(file);
        rmdir(dir);
        return rc;
}
