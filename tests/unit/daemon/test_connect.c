/* control_connect against the real bromed: many at once start one daemon; a foreign folder is not trusted; a second configuration is told;
 * where a systemd offers a scope it is asked for one, and a refusal of it is no obstacle (a stand-in for systemd-run tells). */
#include "base/fd.h"
#include "control/control.h"

#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { STARTERS = 12 };

static char top[64];
static struct paths paths;

static int try_connect(long long *pid)
{
        struct control_options o = { .paths = &paths, .start = true };
        struct control c;
        struct err err = ERR_INIT;
        int rc = control_connect(&c, &o, &err);

        if (rc < 0)
                fprintf(stderr, "%s\n", err.text);
        *pid = c.pid;
        control_close(&c);
        return rc;
}

static void not_running(void **state)
{
        struct control_options o = { .paths = &paths };
        struct control c;
        struct err err = ERR_INIT;

        (void)state;
        assert_int_equal(control_connect(&c, &o, &err), 1);
}

static void one_daemon(void **state)
{
        int report[2];
        long long first = 0, pid;

        (void)state;
        assert_int_equal(pipe(report), 0);
        for (int i = 0; i < STARTERS; i++)
                if (fork() == 0) {
                        if (try_connect(&pid) < 0 || write(report[1], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
                                _exit(1);
                        _exit(0);
                }
        close(report[1]);
        for (int i = 0; i < STARTERS; i++) {
                assert_int_equal(read(report[0], &pid, sizeof(pid)), sizeof(pid));
                assert_true(pid > 0);
                assert_true(first == 0 || first == pid);
                first = pid;
        }
        close(report[0]);
        while (wait(NULL) > 0)
                ;
}

static void other_config(void **state)
{
        struct control_options o = { .paths = &paths, .config = "/elsewhere/brome.conf" };
        struct control c;
        struct err err = ERR_INIT;

        (void)state;
        assert_int_equal(control_connect(&c, &o, &err), -1);
        assert_non_null(strstr(err.text, "the running bromed reads"));
}

static void open_folder(void **state)
{
        struct control_options o = { .paths = &paths };
        struct control c;
        struct err err = ERR_INIT;

        (void)state;
        chmod(paths.runtime, 0755);
        assert_int_equal(control_connect(&c, &o, &err), -1);
        chmod(paths.runtime, 0700);
}

static void asks_and_stops(void **state)
{
        struct control_options o = { .paths = &paths };
        struct control c;
        struct chan_msg answer;
        struct err err = ERR_INIT;

        (void)state;
        assert_int_equal(control_connect(&c, &o, &err), 0);
        assert_int_equal(control_ask(&c, "status", NULL, &answer, &err), 0);
        assert_string_equal(answer.op, "status");
        chan_msg_fini(&answer);
        assert_int_equal(control_ask(&c, "session.close", json_pack("{s:s}", "workspace", "nobody"), &answer, &err), CONTROL_REFUSED);
        assert_string_equal(chan_str(&answer, "code", ""), "no-such-workspace");
        chan_msg_fini(&answer);
        assert_int_equal(control_ask(&c, "stop", NULL, &answer, &err), 0);
        chan_msg_fini(&answer);
        /* Its end of the connection closes when it has ended. */
        assert_int_equal(chan_wait(c.fd, 10000, &answer, &err), -1);
        control_close(&c);
}

/* --- scopes: as an ordinary user, with a systemd-run of our own --- */

enum { NOBODY = 65534 };

static int write_file(const char *path, mode_t mode, const char *text)
{
        struct err err;

        return fd_write_file(path, mode, text, strlen(text), &err) < 0 ? -1 : chmod(path, mode);
}

/* In a child: a fresh set-up of that user; starts and stops bromed. `last`: what the stand-in does after it noted its words. 0: as it should. */
static int start_in_scope(const char *folder, const char *last)
{
        struct control_options o = { .paths = &paths, .start = true };
        struct control c;
        struct chan_msg answer;
        struct err err = ERR_INIT;
        char text[512], path[160];

        /* Changing the user takes dumpable away, and with it bromed's look at our namespaces; a program that is run gets it back. */
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
                return 1;
        snprintf(text, sizeof(text), "#!/bin/sh\necho \"$@\" >%s/words\n%s\n", folder, last);
        snprintf(path, sizeof(path), "%s/systemd-run", folder);
        if (write_file(path, 0755, text) < 0)
                return 2;
        snprintf(path, sizeof(path), "%s/systemd", folder);
        if (mkdir(path, 0700) < 0)
                return 3;
        snprintf(path, sizeof(path), "%s/systemd/private", folder);
        if (write_file(path, 0600, "") < 0)
                return 4;
        snprintf(text, sizeof(text), "%s:/usr/bin:/bin", folder);
        setenv("PATH", text, 1);
        setenv("XDG_RUNTIME_DIR", folder, 1);
        setenv("HOME", folder, 1);
        snprintf(path, sizeof(path), "%s/state", folder);
        setenv("BROME_STATE", path, 1);
        snprintf(path, sizeof(path), "%s/run", folder);
        setenv("BROME_RUNTIME", path, 1);
        snprintf(path, sizeof(path), "%s/brome.conf", folder);
        setenv("BROME_CONFIG", path, 1);
        if (paths_find(&paths, NULL, &err) < 0 || control_connect(&c, &o, &err) != 0 || control_ask(&c, "stop", NULL, &answer, &err) != 0) {
                fprintf(stderr, "%s\n", err.text);
                return 5;
        }
        chan_msg_fini(&answer);
        return chan_wait(c.fd, 10000, &answer, &err) == -1 ? 0 : 6;
}

static void scoped(const char *last)
{
        char folder[64] = "/tmp/brome-scope-XXXXXX", path[96], text[512] = "";
        int status, fd;
        pid_t pid;

        assert_non_null(mkdtemp(folder));
        if (geteuid() == 0)
                assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
        pid = fork();
        if (pid == 0)
                _exit(start_in_scope(folder, last));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        snprintf(path, sizeof(path), "%s/words", folder);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(read(fd, text, sizeof(text) - 1) > 0);
        close(fd);
        assert_non_null(strstr(text, "--user --scope "));
        assert_non_null(strstr(text, "Delegate=yes"));
        assert_non_null(strstr(text, "/bromed --ready-fd "));
        pid = fork();
        if (pid == 0) {
                execlp("rm", "rm", "-rf", folder, NULL);
                _exit(127);
        }
        waitpid(pid, NULL, 0);
}

static void in_a_scope(void **state)
{
        (void)state;
        scoped("while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
}

static void scope_refused(void **state)
{
        (void)state;
        scoped("echo 'Failed to start transient scope unit' >&2; exit 1");
}

static int setup(void **state)
{
        struct err err = ERR_INIT;
        char path[128];

        (void)state;
        snprintf(top, sizeof(top), "/tmp/brome-connect-XXXXXX");
        if (!mkdtemp(top))
                return -1;
        snprintf(path, sizeof(path), "%s/state", top);
        setenv("BROME_STATE", path, 1);
        snprintf(path, sizeof(path), "%s/run", top);
        setenv("BROME_RUNTIME", path, 1);
        snprintf(path, sizeof(path), "%s/brome.conf", top);
        setenv("BROME_CONFIG", path, 1);
        return paths_find(&paths, NULL, &err);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(not_running), cmocka_unit_test(one_daemon), cmocka_unit_test(other_config),
                                            cmocka_unit_test(open_folder), cmocka_unit_test(asks_and_stops),
                                            cmocka_unit_test(in_a_scope),  cmocka_unit_test(scope_refused) };
        int rc = cmocka_run_group_tests(tests, setup, NULL);

        if (rc == 0)
                execlp("rm", "rm", "-rf", top, NULL);
        return 1;
}
