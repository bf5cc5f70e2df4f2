/* Files and places. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_write_file_replaces_whole(void **state)
{
        char dir[] = "/tmp/brome-fd-XXXXXX", path[128];
        struct err err = ERR_INIT;
        struct buf b;
        struct stat st;
        (void)state;
        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/a/b/c", dir);
        assert_int_equal(fd_mkdirs(path, 0700, &err), 0);
        snprintf(path, sizeof(path), "%s/a/b/c/file", dir);
        assert_int_equal(fd_write_file(path, 0600, "one", 3, &err), 0);
        assert_int_equal(fd_write_file(path, 0600, "two!", 4, &err), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        buf_init(&b, 0);
        assert_int_equal(fd_read_file(path, &b, 100, &err), 0);
        assert_true(slice_is(buf_slice(&b), "two!"));
        buf_clear(&b);
        assert_int_equal(fd_read_file(path, &b, 3, &err), -1);
        buf_clear(&b);
        assert_int_equal(fd_read_file(dir, &b, 100, &err), -1);
        assert_non_null(strstr(err.text, "not a regular file"));
        /* What everyone may write is read, but not as one's own. */
        buf_clear(&b);
        assert_int_equal(fd_read_own_file(path, &b, 100, &err), 0);
        assert_int_equal(chmod(path, 0666), 0);
        assert_int_equal(fd_read_own_file(path, &b, 100, &err), -1);
        assert_non_null(strstr(err.text, "others could have written it"));
        assert_int_equal(fd_read_file(path, &b, 100, &err), 0);
        buf_fini(&b);
        assert_int_equal(fd_write_file("/nonexistent/x", 0600, "", 0, &err), -1);
        unlink(path);
}

static void test_memfd_is_sealed(void **state)
{
        int fd = fd_memfd("t", "abc", 3);
        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x", 1), -1);
        assert_int_equal(ftruncate(fd, 0), -1);
        close(fd);
}

static void test_places(void **state)
{
        struct paths p;
        struct err err = ERR_INIT;
        char long_path[PATH_MAX];
        (void)state;
        setenv("BROME_CONFIG", "/x/brome.conf", 1);
        setenv("BROME_STATE", "/x/state", 1);
        setenv("BROME_RUNTIME", "/x/run", 1);
        assert_int_equal(paths_find(&p, NULL, &err), 0);
        assert_string_equal(p.state, "/x/state");
        assert_int_equal(paths_find(&p, "other.conf", &err), 0);
        assert_string_equal(p.config, "other.conf");
        memset(long_path, 'a', 150);
        long_path[0] = '/';
        long_path[150] = 0;
        setenv("BROME_RUNTIME", long_path, 1);
        assert_int_equal(paths_find(&p, NULL, &err), -1);
        assert_non_null(strstr(err.text, "BROME_RUNTIME"));
        setenv("BROME_RUNTIME", "/x/run", 1);
        unsetenv("BROME_STATE");
        unsetenv("XDG_STATE_HOME");
        setenv("HOME", "relative", 1);
        assert_int_equal(paths_find(&p, NULL, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_write_file_replaces_whole), cmocka_unit_test(test_memfd_is_sealed), cmocka_unit_test(test_places) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
