/* Reading and applying an overlay's upper layer, hostile ones included. */
#include "share/overlay.h"
#include "tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct buf listing;
static int lower, upper;

static int setup(void **state)
{
        tree_setup(state);
        tree_dir("lower");
        tree_dir("upper");
        lower = tree_open("lower");
        upper = tree_open("upper");
        return 0;
}
static int teardown(void **state)
{
        close(lower);
        close(upper);
        return tree_teardown(state);
}

static int list(void *arg, const struct overlay_change *c)
{
        (void)arg;
        return buf_addf(&listing, "%c %s%s\n", "ACDM"[c->kind], c->path, c->refused ? " refused" : "");
}

static const char *text_of(struct buf *b)
{
        static char text[16384];
        snprintf(text, sizeof(text), "%.*s", (int)buf_len(b), (const char *)buf_slice(b).p);
        buf_fini(b);
        return text;
}
static int by_line(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lines sorted: a folder is read in no particular order. */
static const char *sorted(const char *text)
{
        static char out[16384], copy[16384];
        char *lines[256];
        size_t n = 0;
        snprintf(copy, sizeof(copy), "%s", text);
        for (char *save, *l = strtok_r(copy, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save))
                lines[n++] = l;
        qsort(lines, n, sizeof(lines[0]), by_line);
        out[0] = 0;
        for (size_t i = 0; i < n; i++)
                snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s\n", lines[i]);
        return out;
}

static const char *diff(void)
{
        struct err err = ERR_INIT;
        buf_init(&listing, 0);
        if (overlay_diff(lower, upper, list, NULL, &err) != 0)
                fail_msg("%s", err.text);
        return sorted(text_of(&listing));
}
static const char *apply(const char *const *paths, size_t n, struct overlay_apply_result *r)
{
        struct err err = ERR_INIT;
        buf_init(&listing, 0);
        if (overlay_apply(lower, upper, paths, n, list, NULL, r, &err) != 0 && r->failed == 0)
                fail_msg("%s", err.text);
        return sorted(text_of(&listing));
}

static void ordinary_changes(void)
{
        tree_file("lower/same", "1");
        tree_file("upper/same", "1");
        tree_file("lower/changed", "1");
        tree_file("upper/changed", "2");
        tree_file("lower/gone", "1");
        tree_whiteout("upper/gone");
        tree_whiteout("upper/was-never-there");
        tree_file("upper/new/deep/file", "x");
        tree_file("lower/mode", "1");
        tree_file("upper/mode", "1");
        tree_chmod("upper/mode", 0755);
        tree_file("lower/opaque/old", "1");
        tree_file("lower/opaque/kept", "1");
        tree_file("lower/opaque/sub/hidden", "1");
        tree_opaque("upper/opaque");
        tree_file("upper/opaque/kept", "1");
        tree_file("upper/opaque/fresh", "1");
        tree_dir("upper/opaque/sub");
        tree_link("same", "upper/link");
        tree_file("lower/file-to-dir", "1");
        tree_file("upper/file-to-dir/x", "1");
        tree_file("lower/dir-to-file/x/y", "1");
        tree_file("upper/dir-to-file", "1");
        tree_file("lower/gone-dir/a/b", "1");
        tree_whiteout("upper/gone-dir");
}

static void everything_is_told_and_applied(void **state)
{
        (void)state;
        struct overlay_apply_result r;
        ordinary_changes();
        assert_string_equal(diff(), "A file-to-dir/x\nA link\nA new\nA new/deep\nA new/deep/file\nA opaque/fresh\nC changed\nC dir-to-file\nC file-to-dir\n"
                                    "D gone\nD gone-dir\nD opaque/old\nD opaque/sub/hidden\nM mode\n");
        apply(NULL, 0, &r);
        assert_int_equal(r.applied, 14);
        assert_int_equal(r.failed + r.refused, 0);
        assert_true(tree_has("lower/changed", "2") && tree_has("lower/new/deep/file", "x") && tree_has("lower/file-to-dir/x", "1") && tree_has("lower/dir-to-file", "1"));
        assert_false(tree_has("lower/gone", NULL) || tree_has("lower/gone-dir", NULL) || tree_has("lower/opaque/old", NULL) || tree_has("lower/opaque/sub/hidden", NULL));
        struct stat st;
        assert_int_equal(stat(tree_path("lower/mode"), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0755);
        assert_string_equal(diff(), "");
}

static void only_what_is_named_is_applied(void **state)
{
        (void)state;
        struct overlay_apply_result r;
        ordinary_changes();
        const char *const paths[] = { "new/", "gone" };
        assert_string_equal(apply(paths, 2, &r), "A new\nA new/deep\nA new/deep/file\nD gone\n");
        assert_true(tree_has("lower/changed", "1") && tree_has("lower/gone-dir/a/b", NULL));
}

static void dangerous_changes_are_refused(void **state)
{
        (void)state;
        struct overlay_apply_result r;
        tree_file("upper/suid", "1");
        tree_chmod("upper/suid", 04755);
        tree_file("upper/sgid", "1");
        tree_chmod("upper/sgid", 02755);
        assert_int_equal(mkfifo(tree_path("upper/fifo"), 0600), 0);
        tree_file("upper/.envrc", "evil");
        tree_file("upper/.git/hooks/pre-commit", "evil");
        tree_file("upper/.git/config", "evil");
        tree_file("upper/.git/HEAD", "fine");
        tree_file("upper/sub/.git", "gitdir: evil");
        tree_link("/etc/passwd", "upper/absolute");
        tree_link("../../out", "upper/d/up");
        tree_link("../fine", "upper/d/inside");
        const char *all = "A .envrc refused\nA .git\nA .git/HEAD\nA .git/config refused\nA .git/hooks refused\nA .git/hooks/pre-commit refused\nA absolute refused\n"
                          "A d\nA d/inside\nA d/up refused\nA fifo refused\nA sgid refused\nA sub\nA sub/.git refused\nA suid refused\n";
        assert_string_equal(apply(NULL, 0, &r), all);
        assert_int_equal(r.refused, 10);
        assert_false(tree_has("lower/.envrc", NULL) || tree_has("lower/.git/hooks", NULL) || tree_has("lower/absolute", NULL) || tree_has("lower/suid", NULL));
        const char *const paths[] = { ".envrc", "absolute", "suid", "fifo" };
        assert_string_equal(apply(paths, 4, &r), "A .envrc\nA absolute\nA fifo refused\nA suid refused\n");
        assert_true(tree_has("lower/.envrc", "evil") && tree_has("lower/absolute", NULL));
        assert_false(tree_has("lower/suid", NULL) || tree_has("lower/fifo", NULL));
        /* world-writable does not cross */
        struct stat st;
        tree_file("upper/open", "1");
        tree_chmod("upper/open", 0666);
        apply(NULL, 0, &r);
        assert_int_equal(stat(tree_path("lower/open"), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0664);
}

static void links_are_never_followed(void **state)
{
        (void)state;
        struct overlay_apply_result r;
        tree_file("victim/file", "untouched");
        tree_link("../victim", "lower/way");
        tree_file("upper/way/file", "evil");
        tree_file("upper/way/new", "evil");
        tree_link("../victim/file", "lower/target");
        tree_file("upper/target", "evil");
        apply(NULL, 0, &r);
        /* the link itself has been replaced by the folder and the file that the guest saw in its place */
        assert_true(tree_has("victim/file", "untouched"));
        assert_false(tree_has("victim/new", NULL));
        assert_true(tree_has("lower/target", "evil"));
        struct stat st;
        assert_int_equal(lstat(tree_path("lower/target"), &st), 0);
        assert_true(S_ISREG(st.st_mode));
        tree_whiteout("upper/way2");
        tree_link("../victim", "lower/way2");
        apply(NULL, 0, &r);
        assert_true(tree_has("victim/file", "untouched"));
        assert_false(tree_has("lower/way2", NULL));
}

static void put(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || write(fd, text, strlen(text)) < 0 || write(fd, text, strlen(text)) < 0)
                _exit(3);
        close(fd);
}

static bool write_map(const char *path, bool is_map, unsigned id)
{
        char text[64];
        int fd = open(path, O_WRONLY);
        if (is_map)
                snprintf(text, sizeof(text), "0 %u 1", id);
        else
                snprintf(text, sizeof(text), "deny");
        bool ok = fd >= 0 && write(fd, text, strlen(text)) >= 0;
        close(fd);
        return ok;
}

/* What the kernel itself leaves in an upper layer, mounted as the launcher does for an ordinary user. Exits 77 where it cannot. */
static _Noreturn void in_a_real_overlay(void)
{
        char options[1024], merged[512];
        uid_t uid = getuid();
        gid_t gid = getgid();
        snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s,userxattr", tree_path("lower"), tree_path("upper"), tree_path("work"));
        snprintf(merged, sizeof(merged), "%s", tree_path("merged"));
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                _exit(77);
        if (!write_map("/proc/self/setgroups", false, 0) || !write_map("/proc/self/uid_map", true, uid) || !write_map("/proc/self/gid_map", true, gid) ||
            mount("overlay", merged, "overlay", 0, options) < 0 || chdir(merged) < 0)
                _exit(77);
        put("changed", "2");
        put("new", "3");
        bool ok = unlink("gone") == 0 && unlink("dir/a") == 0 && unlink("dir/sub/b") == 0 && rmdir("dir/sub") == 0 && rmdir("dir") == 0 && mkdir("dir", 0755) == 0 &&
                  mkdir("dir/sub", 0755) == 0 && chmod("mode", 0700) == 0 && rename("moved", "moved2") == 0;
        put("dir/sub/c", "4");
        _exit(ok ? 0 : 3);
}

static void a_layer_made_by_the_kernel(void **state)
{
        (void)state;
        struct overlay_apply_result r;
        int status;
        tree_dir("work");
        tree_dir("merged");
        tree_file("lower/changed", "1");
        tree_file("lower/gone", "1");
        tree_file("lower/dir/a", "1");
        tree_file("lower/dir/sub/b", "1");
        tree_file("lower/mode", "1");
        tree_file("lower/moved", "1");
        tree_file("lower/untouched", "1");
        pid_t pid = fork();
        if (pid == 0)
                in_a_real_overlay();
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(status, 0);
        chmod(tree_path("work/work"), 0700);
        assert_string_equal(diff(), "A dir/sub/c\nA moved2\nA new\nC changed\nD dir/a\nD dir/sub/b\nD gone\nD moved\nM mode\n");
        apply(NULL, 0, &r);
        assert_true(r.applied == 9 && r.failed == 0 && tree_has("lower/dir/sub/c", "44") && tree_has("lower/untouched", "1"));
        assert_string_equal(diff(), "");
}

static const char *text_diff(const char *path)
{
        struct buf out;
        struct err err = ERR_INIT;
        buf_init(&out, 0);
        assert_int_equal(overlay_diff_text(lower, upper, path, &out, &err), 0);
        return text_of(&out);
}

static void differences_in_text(void **state)
{
        (void)state;
        tree_file("lower/f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n");
        tree_file("upper/f", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n18\nlast");
        assert_string_equal(text_diff("f"), "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -14,5 +14,5 @@\n 14\n 15\n 16\n-17\n 18\n+last\n"
                                            "\\ No newline at end of file\n");
        tree_file("upper/new", "a\n\tb\\n\x1b[31m\n");
        assert_string_equal(text_diff("new"), "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+\tb\\n\\x1b[31m\n");
        tree_file("lower/gone", "a\n");
        tree_whiteout("upper/gone");
        assert_string_equal(text_diff("gone"), "--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n");
        tree_file("lower/nl", "a\nb\n");
        tree_file("upper/nl", "a\nb");
        assert_string_equal(text_diff("nl"), "--- a/nl\n+++ b/nl\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n");
        tree_file("lower/same", "a\n");
        tree_file("upper/same", "a\n");
        assert_string_equal(text_diff("same"), "--- a/same\n+++ b/same\n");
        FILE *f = fopen(tree_path("upper/bin"), "w");
        fwrite("a\0b", 1, 3, f);
        fclose(f);
        assert_non_null(strstr(text_diff("bin"), "differs"));
        /* far more edits than are searched for: still whole */
        FILE *x = fopen(tree_path("lower/big"), "w"), *y = fopen(tree_path("upper/big"), "w");
        for (int i = 0; i < 1500; i++) {
                fprintf(x, "a%d\n", i);
                fprintf(y, "b%d\n", i);
        }
        fclose(x);
        fclose(y);
        assert_non_null(strstr(text_diff("big"), "@@ -1,1500 +1,1500 @@\n-a0\n"));
}

static int group(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(everything_is_told_and_applied, setup, teardown),
                cmocka_unit_test_setup_teardown(only_what_is_named_is_applied, setup, teardown),
                cmocka_unit_test_setup_teardown(dangerous_changes_are_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(links_are_never_followed, setup, teardown),
                cmocka_unit_test_setup_teardown(a_layer_made_by_the_kernel, setup, teardown),
                cmocka_unit_test_setup_teardown(differences_in_text, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return tree_run(group); }
