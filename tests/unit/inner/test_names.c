/* Names and their addresses: stable, persisted, never shared; a damaged file gives no name a second address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "inner/limits.h"
#include "inner/names.h"

#include <stdio.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_with(const char *text)
{
        int fd = memfd_create("names", 0);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        return fd;
}

static struct names *open_names(int fd)
{
        struct err err = ERR_INIT;
        struct names *n = names_open(dup(fd), &err);

        assert_non_null(n);
        return n;
}

static void test_stable(void **state)
{
        int fd = file_with(""), a, b;
        struct names *n = open_names(fd);
        struct addr v4, v6;
        char text[ADDR_TEXT_BYTES];

        (void)state;
        a = names_number(n, SLICE_LIT("a.example"));
        b = names_number(n, SLICE_LIT("b.example"));
        assert_int_equal(a, 0);
        assert_int_equal(b, 1);
        assert_int_equal(names_number(n, SLICE_LIT("a.example")), 0);
        v4 = names_v4(b);
        v6 = names_v6(b);
        assert_string_equal(addr_print(text, &v4), "198.18.1.1");
        assert_string_equal(addr_print(text, &v6), "fd62:726f:6d65:1::101");
        assert_true(slice_is(names_owner(n, &v4), "b.example"));
        assert_true(slice_is(names_owner(n, &v6), "b.example"));
        names_close(n);
        n = open_names(fd);
        assert_int_equal(names_number(n, SLICE_LIT("b.example")), 1);
        assert_int_equal(names_count(n), 2);
        names_close(n);
        close(fd);
}

static void test_no_owner(void **state)
{
        static const char *const others[] = { "198.18.0.0", "198.18.0.255", "198.18.1.1", "198.19.255.255", "fd62:726f:6d65:1::1", "fd62:726f:6d65:1::101",
                                              "fd62:726f:6d65:1:1::100", "fd62:726f:6d65:1:0:1:0:100" };
        int fd = file_with("a.example\n");
        struct names *n = open_names(fd);
        struct addr a;

        (void)state;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                assert_int_equal(addr_parse(&a, slice_str(others[i])), 0);
                assert_true(names_is_synthetic(&a));
                assert_int_equal(names_owner(n, &a).n, 0);
        }
        assert_int_equal(addr_parse(&a, slice_str("198.20.1.0")), 0);
        assert_false(names_is_synthetic(&a));
        assert_int_equal(addr_parse(&a, slice_str("198.18.1.0")), 0);
        assert_true(slice_is(names_owner(n, &a), "a.example"));
        names_close(n);
        close(fd);
}

static void test_damaged_file(void **state)
{
        int fd = file_with("a.example\nNOT Canonical\n\na.example\ncut.exam");
        struct names *n = open_names(fd);
        struct addr v4 = names_v4(1);

        (void)state;
        assert_int_equal(names_count(n), 5);
        assert_int_equal(names_owner(n, &v4).n, 0);
        assert_int_equal(names_number(n, SLICE_LIT("a.example")), 0);
        assert_int_equal(names_number(n, SLICE_LIT("new.example")), 5);
        names_close(n);
        n = open_names(fd);
        assert_int_equal(names_number(n, SLICE_LIT("new.example")), 5);
        names_close(n);
        close(fd);
}

static void test_refused(void **state)
{
        int fd = file_with(""), ro;
        struct names *n;
        char path[64];

        (void)state;
        n = open_names(fd);
        assert_int_equal(names_number(n, SLICE_LIT("Upper.example")), -1);
        assert_int_equal(names_number(n, SLICE_LIT("new\nline.example")), -1);
        assert_int_equal(names_number(n, SLICE_LIT("")), -1);
        names_close(n);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ro = open(path, O_RDONLY);
        n = open_names(ro);
        assert_int_equal(names_number(n, SLICE_LIT("a.example")), -1); /* not in the file: no address */
        assert_int_equal(names_count(n), 0);
        names_close(n);
        close(ro);
        close(fd);
}

static void test_full(void **state)
{
        int fd = file_with("");
        struct names *n = open_names(fd);
        char name[32];

        (void)state;
        for (int i = 0; i < NAMES_MAX; i++) {
                snprintf(name, sizeof(name), "n%d.example", i);
                assert_int_equal(names_number(n, slice_str(name)), i);
        }
        assert_int_equal(names_number(n, SLICE_LIT("more.example")), -1);
        assert_int_equal(names_number(n, SLICE_LIT("n65535.example")), 65535);
        names_close(n);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_stable), cmocka_unit_test(test_no_owner), cmocka_unit_test(test_damaged_file),
                                            cmocka_unit_test(test_refused), cmocka_unit_test(test_full) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
