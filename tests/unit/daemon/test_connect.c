/* control_connect against the real bromed: many at once start one daemon; a foreign folder is not trusted; a second configuration is told. */
#include "base/fd.h"
#include "control/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
                                            cmocka_unit_test(open_folder), cmocka_unit_test(asks_and_stops) };
        int rc = cmocka_run_group_tests(tests, setup, NULL);

        if (rc == 0)
                execlp("rm", "rm", "-rf", top, NULL);
        return 1;
}
