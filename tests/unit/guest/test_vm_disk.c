/* Mount points on a disk that a hostile guest had before: made where they are missing, never through a link. */
#include "guest/vm_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64], root[80];

static int set_up(void **state)
{
        (void)state;
        snprintf(top, sizeof(top), "/tmp/vm-disk-XXXXXX");
        assert_non_null(mkdtemp(top));
        snprintf(root, sizeof(root), "%s/root", top);
        return mkdir(root, 0755) < 0 || chdir(root) < 0;
}

static int tear_down(void **state)
{
        char command[128];
        (void)state;
        snprintf(command, sizeof(command), "rm -rf %s", top);
        return chdir("/") < 0 || system(command) != 0;
}

static bool is_folder(const char *path)
{
        struct stat st;
        return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void made_and_found(void **state)
{
        struct err err = ERR_INIT;
        (void)state;
        for (int i = 0; i < 2; i++)
                assert_int_equal(vm_disk_point(root, "/home/me/project", &err), 0);
        assert_true(is_folder("home/me/project"));
        assert_int_equal(vm_disk_point(root, "/home/me/project/a", &err), 0);
        assert_int_equal(vm_disk_point(root, "/home/other", &err), 0);
        assert_true(is_folder("home/other"));
}

static void nothing_is_followed(void **state)
{
        static const char *const targets[] = { "..", "/", "/tmp", "../outside", "real", "nowhere" };
        struct err err = ERR_INIT;
        (void)state;
        assert_int_equal(mkdir("../outside", 0755) | mkdir("real", 0755), 0);
        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
                assert_int_equal(symlink(targets[i], "link"), 0);
                assert_int_equal(vm_disk_point(root, "/link", &err), -1);
                assert_non_null(strstr(err.text, "stands where /link is to be mounted"));
                assert_int_equal(vm_disk_point(root, "/link/new", &err), -1);
                assert_int_equal(unlink("link"), 0);
        }
        assert_false(is_folder("real/new") || is_folder("../outside/new") || is_folder("../new") || is_folder("nowhere"));
        assert_int_equal(close(open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) | mkfifo("fifo", 0644), 0);
        assert_int_equal(vm_disk_point(root, "/file", &err), -1);
        assert_int_equal(vm_disk_point(root, "/file/x", &err), -1);
        assert_int_equal(vm_disk_point(root, "/fifo", &err), -1);
}

static void names_have_an_end(void **state)
{
        struct err err = ERR_INIT;
        char path[400] = "/";
        (void)state;
        memset(path + 1, 'a', 256);
        assert_int_equal(vm_disk_point(root, path, &err), -1);
        path[256] = 0;
        assert_int_equal(vm_disk_point(root, path, &err), 0);
        assert_int_equal(vm_disk_point("/no/such/root", "/a", &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(made_and_found, set_up, tear_down), cmocka_unit_test_setup_teardown(nothing_is_followed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(names_have_an_end, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
