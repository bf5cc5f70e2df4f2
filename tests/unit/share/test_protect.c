/* protected.tbl, the git configuration and the list of changed files. */
#include "share/share.h"
#include "base/buf.h"
#include "tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct buf listing;

static int list(void *arg, const struct share_protected_path *p)
{
        static const char *const how[] = { "ro", "copy", "pin" };
        (void)arg;
        assert_non_null(p->reason);
        return buf_addf(&listing, "%s %s%s%s\n", how[p->how], p->path, p->directory ? "/" : "", p->missing ? " missing" : "");
}

static void git_folder(const char *folder)
{
        char path[512];
        static const char *const parts[] = { "objects/00/x", "refs/heads/x", "HEAD" };
        for (size_t i = 0; i < 3; i++) {
                snprintf(path, sizeof(path), "%s/%s", folder, parts[i]);
                tree_file(path, "x");
        }
        snprintf(path, sizeof(path), "%s/config", folder);
        tree_file(path, "[core]\n\tbare = false\n");
}

static void every_protected_path_is_found(void **state)
{
        (void)state;
        git_folder("s/.git");
        tree_file("s/.git/config", "[include]\n\tpath = ../.gitinclude\n[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ~/x\n\tpath = ../../../etc/passwd\n");
        tree_file("s/.gitinclude", "[alias]\n");
        tree_dir("s/tools/hooks");
        tree_file("s/.git/hooks/pre-commit", "x");
        git_folder("s/.git/modules/lib/deep");
        tree_file("s/.git/worktrees/w/HEAD", "x");
        tree_file("s/.git/worktrees/w/commondir", "../..");
        tree_file("s/lib/deep/.git", "gitdir: ../../.git/modules/lib/deep");
        git_folder("s/nested/repo/.git");
        git_folder("s/looks/bare");
        tree_file("s/.vscode/tasks.json", "{}");
        tree_file("s/.vscode/extensions.json", "{}");
        tree_file("s/packages/a/.envrc", "x");
        tree_dir("s/packages/b/.husky/_");
        tree_file("s/packages/b/.npmrc", "x");
        tree_file("s/node_modules/m/.npmrc", "x");
        tree_file("s/my.code-workspace", "{}");
        tree_file("s/.Cargo/config.toml", "x");
        tree_link("elsewhere", "s/link/.envrc");
        tree_dir("s/wrong/.envrc");
        int fd = tree_open("s");
        struct err err = ERR_INIT;
        buf_init(&listing, 0);
        assert_int_equal(share_protected(fd, list, NULL, &err), 0);
        assert_int_equal(buf_add(&listing, "", 1), 0);
        assert_string_equal((const char *)buf_slice(&listing).p,
                            "pin .Cargo/\nro .Cargo/config.toml\n"
                            "pin .git/\nro .git/commondir missing\ncopy .git/config\nro .git/config.worktree missing\nro .git/hooks/\n"
                            "pin .git/modules/\npin .git/modules/lib/\npin .git/modules/lib/deep/\nro .git/modules/lib/deep/commondir missing\n"
                            "copy .git/modules/lib/deep/config\nro .git/modules/lib/deep/config.worktree missing\nro .git/modules/lib/deep/hooks/ missing\n"
                            "pin .git/worktrees/\npin .git/worktrees/w/\nro .git/worktrees/w/commondir\nro .git/worktrees/w/config.worktree missing\n"
                            "ro .gitinclude\n"
                            "pin .vscode/\nro .vscode/tasks.json\n"
                            "pin lib/\npin lib/deep/\nro lib/deep/.git\n"
                            "pin looks/\npin looks/bare/\nro looks/bare/commondir missing\ncopy looks/bare/config\nro looks/bare/config.worktree missing\n"
                            "ro looks/bare/hooks/ missing\n"
                            "ro my.code-workspace\n"
                            "pin nested/\npin nested/repo/\npin nested/repo/.git/\nro nested/repo/.git/commondir missing\ncopy nested/repo/.git/config\n"
                            "ro nested/repo/.git/config.worktree missing\nro nested/repo/.git/hooks/ missing\n"
                            "pin packages/\npin packages/a/\nro packages/a/.envrc\npin packages/b/\nro packages/b/.husky/\nro packages/b/.npmrc\n"
                            "pin tools/\nro tools/hooks/\n");
        buf_fini(&listing);
        close(fd);
}

static void too_many_are_refused(void **state)
{
        (void)state;
        char path[64];
        for (int i = 0; i <= SHARE_PROTECTED; i++) {
                snprintf(path, sizeof(path), "s/%d/.envrc", i);
                tree_file(path, "");
        }
        int fd = tree_open("s");
        struct err err = ERR_INIT;
        buf_init(&listing, 0);
        assert_int_equal(share_protected(fd, list, NULL, &err), -1);
        assert_non_null(strstr(err.text, "overlay"));
        buf_fini(&listing);
        close(fd);
}

static void names(void **state)
{
        (void)state;
        static const char *const yes[] = { ".envrc", "a/b/.envrc", ".git/hooks", ".git/hooks/pre-commit", "x/.git/config", ".git", "a/.git", ".GIT/Hooks/x", ".husky/_/h",
                ".idea/x/y", "foo.code-workspace", ".vscode/tasks.json", "a/.cargo/config" };
        static const char *const no[] = { ".envrc.example", "envrc", ".git/HEAD", ".git/objects/aa", ".git/info/attributes", ".vscode/extensions.json", "config", "hooks/x",
                "a.code-workspace.bak", ".envrc/x", "xgit/hooks", "" };
        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
                if (share_protected_reason(yes[i]) == NULL)
                        fail_msg("%s", yes[i]);
        for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
                if (share_protected_reason(no[i]) != NULL)
                        fail_msg("%s", no[i]);
}

static const char host[] = "# mine\n[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://git.example/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
                           "\tpushurl = ssh://git.example/a.git\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main ; tail\n[alias]\n\tx = !echo\n";

static struct share_git_dropped dropped; /* of the last merge */
static const char *merge(const char *original, const char *edited, unsigned *refused)
{
        static char text[8192];
        struct buf out;
        struct err err = ERR_INIT;
        buf_init(&out, 0);
        if (share_git_config_merge(slice_str(original), slice_str(edited), &out, &dropped, &err) < 0) {
                assert_int_equal(buf_len(&out), 0);
                assert_true(err.text[0] != 0);
                buf_fini(&out);
                return NULL;
        }
        *refused = dropped.count;
        snprintf(text, sizeof(text), "%.*s", (int)buf_len(&out), (const char *)buf_slice(&out).p);
        buf_fini(&out);
        return text;
}

static void harmless_changes_are_carried(void **state)
{
        (void)state;
        unsigned refused;
        char edited[4096];
        assert_string_equal(merge(host, host, &refused), host);
        assert_int_equal(refused, 0);
        snprintf(edited, sizeof(edited), "%s%s", host, "[branch \"topic\"]\n\tremote = origin\n\tmerge = refs/heads/topic\n[remote \"fork\"]\n\turl = git@git.example:me/a.git\n"
                 "\tfetch = +refs/heads/*:refs/remotes/fork/*\n");
        const char *got = merge(host, edited, &refused);
        assert_int_equal(refused, 0);
        assert_non_null(strstr(got, "# mine\n[core]\n\tbare = false\n"));
        assert_non_null(strstr(got, "[alias]\n\tx = !echo\n"));
        assert_non_null(strstr(got, "\tpushurl = ssh://git.example/a.git\n"));
        assert_non_null(strstr(got, "[branch \"topic\"]\n\tremote = \"origin\"\n\tmerge = \"refs/heads/topic\"\n"));
        assert_non_null(strstr(got, "\turl = \"git@git.example:me/a.git\"\n"));
        char again[8192];
        snprintf(again, sizeof(again), "%s", got);
        assert_string_equal(merge(again, again, &refused), again);
        /* a branch that is gone */
        got = merge(host, "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://git.example/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
                          "\tpushurl = ssh://git.example/a.git\n[alias]\n\tx = !echo\n", &refused);
        assert_null(strstr(got, "branch"));
        assert_non_null(strstr(got, "pushurl"));
}

static void harmful_changes_are_not(void **state)
{
        (void)state;
        static const char *const bad[] = {
                "[core]\n\tfsmonitor = evil\n", "[core]\n\thooksPath = /tmp\n", "[alias]\n\tstatus = !evil\n", "[include]\n\tpath = evil\n", "[filter \"x\"]\n\tclean = evil\n",
                "[remote \"r\"]\n\turl = ext::sh -c evil\n", "[remote \"r\"]\n\turl = \"ext::sh\"\n", "[remote \"r\"]\n\turl = --upload-pack=evil\n", "[remote \"r\"]\n\turl = /tmp/evil\n",
                "[remote \"r\"]\n\turl = ../evil\n", "[remote \"r\"]\n\turl = file:///tmp/evil\n", "[remote \"r\"]\n\turl = ssh://-oProxyCommand=evil/x\n",
                "[remote \"r\"]\n\turl = -oProxyCommand=evil:x\n", "[remote \"r\"]\n\turl = a@-oProxyCommand=evil:x\n", "[remote \"r\"]\n\turl = fd::7\n",
                "[remote \"r\"]\n\turl = foo://evil\n", "[remote \"r\"]\n\turl = \"https://x\\n[core]\"\n", "[remote \"ext::sh\"]\n\turl = https://git.example/\n",
                "[remote \"origin\"]\n\tuploadpack = evil\n", "[remote \"origin\"]\n\treceivepack = evil\n", "[remote \"origin\"]\n\tvcs = evil\n", "[remote \"origin\"]\n\tproxy = evil\n",
                "[remote \"origin\"]\n\tpushurl = ext::evil\n", "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/heads/*\n", "[remote \"origin\"]\n\tfetch = a:refs/remotes/../../evil\n",
                "[branch \"b\"]\n\tremote = ext::evil\n", "[branch \"b\"]\n\tremote = /tmp/evil\n", "[branch \"b\"]\n\tremote = evil\n", "[branch \"b\"]\n\tmerge = --evil\n",
                "[branch \"b\"]\n\tdescription = x\n", "[branch \"b\"]\n\trebase = evil\n", "[url \"ext::evil\"]\n\tinsteadOf = https://\n", "[branch \"b\"]\n\tremote\n",
                "[REMOTE \"r\"]\n\tURL = ext::evil\n", "[remote.r]\n\turl = ext::evil\n", "[remote \"r\"] url = ext::evil\n", "[remote \"r\"]\n\turl = ex\\\nt::evil\n",
        };
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char edited[4096];
                unsigned refused = 0;
                snprintf(edited, sizeof(edited), "%s%s", host, bad[i]);
                const char *got = merge(host, edited, &refused);
                if (got == NULL || strcmp(got, host) != 0 || refused != 1)
                        fail_msg("%s: %u refused, got %s", bad[i], refused, got ? got : "nothing");
        }
}

static void what_is_no_configuration_changes_nothing(void **state)
{
        (void)state;
        static const char *const bad[] = { "[", "[core", "x = 1\n", "[core]\n\tx = \"open\n", "[core]\n\tx = \\q\n", "[core \"a]\n", "garbage", "[]\n", "[core]\n= 1\n" };
        unsigned refused;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_null(merge(host, bad[i], &refused));
        assert_null(merge("[broken", host, &refused));
        assert_string_equal(merge("", "", &refused), "");
}

static void what_is_dropped_is_named(void **state)
{
        static char many[16384];
        char longest[300];
        size_t n = 0;
        unsigned refused;
        (void)state;

        assert_non_null(merge(host, host, &refused));
        assert_string_equal(dropped.names, "");
        /* changed (once, though old and new differ), new twice, new with a subsection, gone */
        assert_non_null(merge(host, "[core]\n\tbare = true\n\tpager = x\n\tpager = y\n[Filter \"a b\"]\n\tCLEAN = x\n[remote \"origin\"]\n\turl = https://git.example/a.git\n"
                                    "\tfetch = +refs/heads/*:refs/remotes/origin/*\n\tpushurl = ssh://git.example/a.git\n", &refused));
        assert_string_equal(dropped.names, "core.bare, core.pager, filter.a b.clean, alias.x");
        assert_int_equal(refused, 4);
        /* A name that is too long is cut and hides none behind it. */
        memset(longest, 'k', sizeof(longest));
        n = (size_t)snprintf(many, sizeof(many), "%s[x \"%.*s\"]\n\ty = 1\n[core]\n\thooksPath = /x\n", host, (int)sizeof(longest), longest);
        assert_non_null(merge(host, many, &refused));
        assert_int_equal(refused, 2);
        assert_non_null(strstr(dropped.names, "…, core.hookspath"));
        /* Very many: counted all, named as far as there is room, which is said. */
        n = (size_t)snprintf(many, sizeof(many), "%s[many]\n", host);
        for (int i = 0; i < 500; i++)
                n += (size_t)snprintf(many + n, sizeof(many) - n, "\tkey-%d = 1\n", i);
        assert_non_null(merge(host, many, &refused));
        assert_int_equal(refused, 500);
        assert_true(strlen(dropped.names) < sizeof(dropped.names) && strlen(dropped.names) > 300);
        assert_string_equal(dropped.names + strlen(dropped.names) - strlen(", …"), ", …");
        /* A broken copy names nothing of an earlier one. */
        assert_null(merge(host, "[", &refused));
}

static void carry_on_files(void **state)
{
        (void)state;
        struct err err = ERR_INIT;
        tree_file("s/.git/config", "[core]\n\tbare = false\n");
        tree_file("copy", "[core]\n\tbare = true\n[remote \"o\"]\n\turl = https://git.example/x\n");
        int dir = tree_open("s"), copy = open(tree_path("copy"), O_RDONLY | O_CLOEXEC);
        assert_int_equal(share_git_config_carry(dir, ".git/config", copy, &dropped, &err), 1);
        assert_true(tree_has("s/.git/config", "[core]\n\tbare = false\n[remote \"o\"]\n\turl = \"https://git.example/x\"\n"));
        assert_int_equal(dropped.count, 1);
        assert_string_equal(dropped.names, "core.bare");
        assert_int_equal(share_git_config_carry(dir, ".git/config", copy, &dropped, &err), 0);
        /* the guest has put a link in its place */
        rename(tree_path("s/.git"), tree_path("s/was"));
        tree_file("victim/config", "[core]\n");
        tree_link("../victim", "s/.git");
        assert_int_equal(share_git_config_carry(dir, ".git/config", copy, &dropped, &err), -1);
        assert_true(tree_has("victim/config", "[core]\n"));
        close(copy);
        close(dir);
}

static void note_change(void *arg, const struct share_changed *c)
{
        (void)arg;
        assert_int_equal(buf_addf(&listing, "%c %s\n", c->added ? '+' : '~', c->path), 0);
}

static void changed_files_are_listed(void **state)
{
        (void)state;
        tree_file("s/package.json", "{}");
        tree_file("s/Makefile", "all:");
        tree_file("s/readme.txt", "x");
        tree_file("s/tool", "x");
        tree_chmod("s/tool", 0755);
        tree_file("s/untouched.sh", "x");
        git_folder("s/.git");
        int fd = tree_open("s");
        struct err err = ERR_INIT;
        struct share_snapshot *s = share_snapshot_take(fd, &err);
        assert_non_null(s);
        buf_init(&listing, 0);
        assert_int_equal(share_snapshot_compare(s, fd, 100, note_change, NULL, &err), 0);
        tree_file("s/package.json", "{}2");
        tree_file("s/readme.txt", "xy");
        tree_file("s/tool", "y");
        tree_file("s/new.txt", "x");
        tree_file("s/new.sh", "x");
        tree_file("s/.git/hooks/post-checkout", "x");
        tree_file("s/.git/HEAD", "y");
        tree_file("s/.git/objects/00/y", "y");
        tree_file("s/x/HEAD", "y");
        tree_link("tool", "s/.envrc");
        tree_chmod("s/readme.txt", 0755);
        unlink(tree_path("s/Makefile"));
        assert_int_equal(share_snapshot_compare(s, fd, 100, note_change, NULL, &err), 7);
        assert_int_equal(buf_add(&listing, "", 1), 0);
        assert_string_equal((const char *)buf_slice(&listing).p, "+ .envrc\n+ .git/hooks/post-checkout\n+ new.sh\n~ package.json\n+ readme.txt\n~ tool\n+ x/HEAD\n");
        buf_fini(&listing);
        share_snapshot_free(s);
        close(fd);
}

static int group(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(every_protected_path_is_found, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(too_many_are_refused, tree_setup, tree_teardown),
                cmocka_unit_test(names),
                cmocka_unit_test(harmless_changes_are_carried),
                cmocka_unit_test(harmful_changes_are_not),
                cmocka_unit_test(what_is_no_configuration_changes_nothing),
                cmocka_unit_test(what_is_dropped_is_named),
                cmocka_unit_test_setup_teardown(carry_on_files, tree_setup, tree_teardown),
                cmocka_unit_test_setup_teardown(changed_files_are_listed, tree_setup, tree_teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return tree_run(group); }
