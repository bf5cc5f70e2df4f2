/* Which folders may be shared, and whether brome reads something in them. */
#include "share/share.h"
#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

static struct err last;

static bool ok_with(const char *path, enum share_mode mode, bool sockets_ok, const char *const *protect, size_t n, struct share_checked *out)
{
        struct share_checked mine;
        last.text[0] = 0;
        bool ok = share_check(path, mode, sockets_ok, protect, n, &mine, &last) == 0;
        if (ok && out != NULL)
                *out = mine;
        else if (ok)
                close(mine.fd);
        if (!ok)
                assert_true(last.text[0] != 0);
        return ok;
}
static bool ok(const char *path) { return ok_with(path, SHARE_READ_WRITE, false, NULL, 0, NULL); }

static void system_places_are_refused(void **state)
{
        (void)state;
        static const char *const bad[] = { "/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/run", "/var/run", "/etc", "/etc/ssl", "/usr", "/usr/share", "/bin",
                "/lib", "/var", "/var/lib", "/var/log", "/tmp", "/home", "/tmp/..", "/tmp/../etc", "relative", "", "/no/such/folder", "/etc/passwd" };
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (ok(bad[i]))
                        fail_msg("%s may be shared", bad[i]);
}

static void homes_are_refused_but_not_what_is_in_them(void **state)
{
        (void)state;
        tree_dir("home/src/project");
        tree_dir("home/.ssh/x");
        tree_dir("home/.config/nvim");
        tree_dir("home/.local/bin");
        assert_false(ok(tree_path("home")));
        assert_false(ok(tree_root));
        assert_false(ok(tree_path("home/.ssh")));
        assert_false(ok(tree_path("home/.ssh/x")));
        assert_false(ok(tree_path("home/.config")));
        assert_false(ok(tree_path("home/.config/nvim")));
        assert_false(ok(tree_path("home/.local/bin")));
        assert_true(ok(tree_path("home/src")));
        assert_true(ok(tree_path("home/src/project")));
        tree_link("../home", "elsewhere/way");
        assert_false(ok(tree_path("elsewhere/way")));
}

static void own_folders_are_refused_both_ways(void **state)
{
        (void)state;
        tree_dir("home/a/state/workspaces");
        tree_dir("home/ab");
        const char *const protect[] = { tree_path("home/a/state"), tree_path("home/not/there/yet") };
        tree_dir("home/not");
        assert_false(ok_with(tree_path("home/a"), SHARE_READ_ONLY, false, protect, 2, NULL));
        assert_false(ok_with(tree_path("home/a/state"), SHARE_READ_ONLY, false, protect, 2, NULL));
        assert_false(ok_with(tree_path("home/a/state/workspaces"), SHARE_READ_ONLY, false, protect, 2, NULL));
        assert_false(ok_with(tree_path("home/not"), SHARE_READ_ONLY, false, protect, 2, NULL));
        assert_true(ok_with(tree_path("home/ab"), SHARE_READ_ONLY, false, protect, 2, NULL));
}

static void sockets_and_fifos_are_refused_unless_said(void **state)
{
        (void)state;
        tree_dir("home/s/deep/er");
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", tree_path("home/s/deep/er/agent"));
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_false(ok(tree_path("home/s")));
        assert_non_null(strstr(last.text, "deep/er/agent"));
        assert_true(ok_with(tree_path("home/s"), SHARE_READ_WRITE, true, NULL, 0, NULL));
        close(fd);
        unlink(a.sun_path);
        assert_true(ok(tree_path("home/s")));
        assert_int_equal(mkfifo(tree_path("home/s/fifo"), 0600), 0);
        assert_false(ok(tree_path("home/s")));
}

static void the_descriptor_is_the_folder_that_was_judged(void **state)
{
        (void)state;
        struct share_checked s;
        struct stat a, b;
        tree_dir("home/real");
        tree_link("real", "home/link");
        assert_true(ok_with(tree_path("home/link"), SHARE_READ_WRITE, false, NULL, 0, &s));
        assert_string_equal(s.path, tree_path("home/real"));
        assert_int_equal(fstat(s.fd, &a), 0);
        assert_int_equal(stat(tree_path("home/real"), &b), 0);
        assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
        close(s.fd);
}

static void others_folders(void **state)
{
        (void)state;
        if (getuid() == 0)
                return;
        /* root's, world readable on every machine */
        assert_false(ok("/opt"));
        struct stat st;
        if (stat("/var/tmp", &st) == 0 && stat("/srv", &st) == 0 && st.st_uid == 0)
                assert_false(ok("/srv"));
}

static void a_parent_that_anyone_may_change_is_warned_of(void **state)
{
        (void)state;
        struct share_checked s;
        tree_dir("home/open/share");
        tree_chmod("home/open", 0777);
        assert_true(ok_with(tree_path("home/open/share"), SHARE_READ_WRITE, false, NULL, 0, &s));
        assert_non_null(strstr(s.warning, "every user"));
        close(s.fd);
        tree_chmod("home/open", 01777);
        assert_true(ok_with(tree_path("home/open/share"), SHARE_READ_WRITE, false, NULL, 0, &s));
        assert_string_equal(s.warning, "");
        close(s.fd);
}

static bool inside(const char *file, const struct share_checked *s)
{
        return share_config_inside(&file, 1, s, &last) < 0;
}

static void files_that_brome_reads(void **state)
{
        (void)state;
        struct share_checked s;
        tree_file("home/dot/brome.conf", "x");
        tree_file("home/conf/other.conf", "x");
        tree_dir("home/dotless");
        tree_link("../dot/brome.conf", "home/conf/brome.conf");
        tree_link("conf/brome.conf", "home/chain");
        tree_link(tree_path("home/conf"), "home/dot/out"); /* a link in the share that leads out: the guest may turn it */
        tree_link("loop", "home/loop");
        assert_true(ok_with(tree_path("home/dot"), SHARE_READ_WRITE, false, NULL, 0, &s));
        assert_true(inside(tree_path("home/dot/brome.conf"), &s));
        assert_true(inside(tree_path("home/dot/missing.pem"), &s));
        assert_true(inside(tree_path("home/conf/brome.conf"), &s));
        assert_true(inside(tree_path("home/chain"), &s));
        assert_true(inside(tree_path("home/dot/out/other.conf"), &s));
        assert_true(inside(tree_path("home/conf/../dot/x"), &s));
        assert_true(inside(tree_path("home/loop"), &s));
        assert_true(inside("relative", &s));
        assert_false(inside(tree_path("home/conf/other.conf"), &s));
        assert_false(inside(tree_path("home/dotless/x"), &s));
        assert_int_equal(link(tree_path("home/conf/other.conf"), tree_path("home/dot/second-name")), 0);
        assert_true(inside(tree_path("home/conf/other.conf"), &s));
        close(s.fd);
}

static int group(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(system_places_are_refused, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(homes_are_refused_but_not_what_is_in_them, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(own_folders_are_refused_both_ways, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(sockets_and_fifos_are_refused_unless_said, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(the_descriptor_is_the_folder_that_was_judged, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(others_folders, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(a_parent_that_anyone_may_change_is_warned_of, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(files_that_brome_reads, tree_setup, tree_teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return tree_run(group); }
