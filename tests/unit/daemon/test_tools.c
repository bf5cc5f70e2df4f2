/* Where an agent lies on the host: nvm, /opt, ~/.local by its native installer and by npm, links; never a home or what holds everything of a user's. */
#include "daemon/tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <sys/stat.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char home[PATH_MAX];
static char *client;    /* the caller's PATH, or NULL */
static json_t *closed; /* or NULL */

static void shell(const char *script)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
                _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static int set_up(void **state)
{
        char template[] = "/tmp/tools-XXXXXX";

        (void)state;
        if (!mkdtemp(template) || !realpath(template, home) || setenv("HOME", home, 1) < 0)
                return -1;
        shell("cd $HOME; x() { mkdir -p $(dirname $1); printf '#!/bin/sh\\n' > $1; chmod +x $1; }\n"
              "x .nvm/v20/lib/node_modules/agent/cli.js; mkdir .nvm/v20/bin; ln -s ../lib/node_modules/agent/cli.js .nvm/v20/bin/nvmagent\n"
              "x .local/share/native/versions/2; mkdir -p .local/bin; ln -s $HOME/.local/share/native/versions/2 .local/bin/native\n"
              "x .local/lib/node_modules/@a/b/cli.js; ln -s ../lib/node_modules/@a/b/cli.js .local/bin/npmagent; x .local/bin/plain\n"
              "x bin/mine; x tools/far/run; ln -s ../tools/far/run bin/far; x opt/thing/bin/thing; mkdir -p .local/share/keyrings .local/state");
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        shell("rm -rf \"$HOME\"");
        return 0;
}

/* The folders for one program, below HOME, with blanks between them. */
static const char *folders(const char *program, const char *path)
{
        static char out[PATH_MAX * 2];
        char full[PATH_MAX * 4];
        struct slice tool = slice_str(program);
        struct config_workspace w = { .tools = &tool, .tool_count = 1 };
        json_t *list, *v;
        size_t i;

        snprintf(full, sizeof(full), "%s/%s:/usr/bin:relative", home, path);
        list = tools_folders(&w, &(struct tools_search){ .path = client, .own_path = full, .home = home, .closed = closed });
        out[0] = 0;
        json_array_foreach(list, i, v) {
                const char *s = json_string_value(v);
                assert_int_equal(strncmp(s, home, strlen(home)), 0);
                snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s", i ? " " : "", s + strlen(home));
        }
        json_decref(list);
        return out;
}

static void test_places(void **state)
{
        (void)state;
        assert_string_equal(folders("nvmagent", ".nvm/v20/bin"), "/.nvm/v20/bin /.nvm/v20/lib/node_modules");
        assert_string_equal(folders("thing", "opt/thing/bin"), "/opt/thing/bin");
        assert_string_equal(folders("native", ".local/bin"), "/.local/bin /.local/share/native/versions");
        assert_string_equal(folders("npmagent", ".local/bin"), "/.local/bin /.local/lib/node_modules");
        assert_string_equal(folders("plain", ".local/bin"), "/.local/bin");
        assert_string_equal(folders("mine", "bin"), "/bin");
        assert_string_equal(folders("far", "bin"), "/bin /tools/far");
        assert_string_equal(folders("sh", "bin"), "");
        assert_string_equal(folders("nothing-of-that-name", "bin"), "");
        assert_string_equal(folders("../bin/mine", "bin"), "");
}

/* A machine has a /usr of its own: of the host's it gets what is one program's. */
static void test_machine(void **state)
{
        static const struct { const char *target, *folder; } rows[] = {
                { "lib/node_modules/@a/brome-test/cli.js", "lib/node_modules/@a/brome-test" }, { "lib/node_modules/brome-test/bin/cli.js", "lib/node_modules/brome-test" },
                { "lib/brome-test/run", "lib/brome-test" },                                     { "bin/brome-test-agent", NULL },
        };
        struct slice tool = SLICE_LIT("brome-test-agent");
        struct config_workspace w = { .tools = &tool, .tool_count = 1 };
        char script[PATH_MAX], made[PATH_MAX];
        json_t *list;

        (void)state;
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", "/usr/local", "tmpfs", 0, "mode=755") < 0)
                skip(); /* only root may show itself another /usr/local */
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct tools_search where = { .own_path = "/usr/local/bin:/usr/bin", .home = home, .links = json_object() };

                snprintf(script, sizeof(script), "cd /usr/local; rm -rf *; mkdir -p bin $(dirname %s); echo > %s; chmod +x %s; [ %s = bin/brome-test-agent ] || ln -s ../%s bin/brome-test-agent",
                         rows[i].target, rows[i].target, rows[i].target, rows[i].target, rows[i].target);
                shell(script);
                list = tools_folders(&w, &where);
                snprintf(made, sizeof(made), "/usr/local/%s", rows[i].target);
                assert_string_equal(json_string_value(json_object_get(where.links, "brome-test-agent")), made);
                assert_int_equal(json_array_size(list), rows[i].folder ? 1 : 0);
                snprintf(made, sizeof(made), "/usr/local/%s", rows[i].folder ? rows[i].folder : "");
                if (rows[i].folder)
                        assert_string_equal(json_string_value(json_array_get(list, 0)), made);
                json_decref(list);
                json_decref(where.links);
        }
        /* What the distribution installed is the machine's own as well. */
        tool = slice_str("sh");
        struct tools_search where = { .own_path = "/usr/bin:/bin", .home = home, .links = json_object() };
        list = tools_folders(&w, &where);
        assert_int_equal(json_array_size(list) + json_object_size(where.links), 0);
        json_decref(list);
        json_decref(where.links);
}

/* The caller's PATH counts before bromed's, which was started before the tool was installed. */
static void test_callers_path(void **state)
{
        char path[PATH_MAX * 3];

        (void)state;
        assert_string_equal(folders("thing", "bin"), "");
        snprintf(path, sizeof(path), "relative:%s/nowhere:%s/opt/thing/bin::.", home, home);
        client = path;
        assert_string_equal(folders("thing", "bin"), "/opt/thing/bin");
        assert_string_equal(folders("mine", "bin"), "/bin");
        shell("mkdir -p $HOME/newer/bin; cp $HOME/bin/mine $HOME/newer/bin/mine");
        snprintf(path, sizeof(path), "%s/newer/bin", home);
        assert_string_equal(folders("mine", "bin"), "/newer/bin");
        snprintf(path, sizeof(path), "newer/bin:./newer/bin:../newer/bin"); /* relative to nobody knows what */
        assert_int_equal(chdir(home), 0);
        assert_string_equal(folders("mine", "bin"), "/bin");
        client = NULL;
}

/* What a guest can write chooses nothing: not the program, not a link on the way to it, wherever that leads. */
static void test_closed_folders(void **state)
{
        char share[PATH_MAX * 2];

        (void)state;
        shell("cd $HOME; mkdir -p src/api/bin src/api/dir secret/bin; cp bin/mine src/api/bin/agent; cp bin/mine secret/bin/key; chmod 700 secret\n"
              "ln -s $HOME/secret/bin/key src/api/bin/key; ln -s $HOME/src/api/bin/key .local/bin/viashare; ln -s $HOME/secret/bin src/api/dir/out\n"
              "ln -s ../../src/api/dir/out/key .local/bin/viafolder; ln -s $HOME/secret/bin/key .local/bin/own; ln -s loop .local/bin/loop\n"
              "mkdir everybody; cp bin/mine everybody/agent; chmod 1777 everybody");
        assert_string_equal(folders("agent", "src/api/bin"), "/src/api/bin"); /* control: no share */
        assert_string_equal(folders("viashare", ".local/bin"), "/.local/bin /secret/bin");
        assert_string_equal(folders("viafolder", ".local/bin"), "/.local/bin /secret/bin");
        snprintf(share, sizeof(share), "%s/src/api", home);
        closed = json_pack("[s]", share);
        assert_string_equal(folders("agent", "src/api/bin"), "");
        assert_string_equal(folders("key", "src/api/bin"), "");
        assert_string_equal(folders("viashare", ".local/bin"), "");
        assert_string_equal(folders("viafolder", ".local/bin"), "");
        assert_string_equal(folders("own", ".local/bin"), "/.local/bin /secret/bin"); /* the user's own link */
        assert_string_equal(folders("native", ".local/bin"), "/.local/bin /.local/share/native/versions");
        assert_string_equal(folders("loop", ".local/bin"), "");
        assert_string_equal(folders("agent", "everybody"), "");
        json_decref(closed);
        closed = NULL;
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_places), cmocka_unit_test(test_machine), cmocka_unit_test(test_callers_path), cmocka_unit_test(test_closed_folders) };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
