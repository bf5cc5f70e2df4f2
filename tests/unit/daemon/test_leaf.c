/* leaf_enter in a group of version 2 made for it: alone it moves into the leaf, in company it stays. */
#include "base/cgpath.h"
#include "base/fd.h"
#include "daemon/leaf.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char group[64]; /* below the mount point */

static bool enter(void)
{
        char path[128];
        int fd;
        bool done;

        snprintf(path, sizeof(path), "%s%s/cgroup.procs", cgpath_v2(), group);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        done = fd >= 0 && write(fd, "0", 1) == 1;
        fd_close(&fd);
        return done;
}

static int setup(void **state)
{
        char path[128];

        (void)state;
        snprintf(group, sizeof(group), "/brome-leaf-%d", (int)getpid());
        snprintf(path, sizeof(path), "%s%s", cgpath_v2() ? cgpath_v2() : "/", group);
        if (!cgpath_v2() || mkdir(path, 0755) < 0)
                group[0] = 0;
        return 0;
}

static int teardown(void **state)
{
        char path[128];

        (void)state;
        if (group[0] == 0)
                return 0;
        snprintf(path, sizeof(path), "%s%s/supervisor", cgpath_v2(), group);
        rmdir(path);
        *strrchr(path, '/') = 0;
        return rmdir(path);
}

/* What a child's own path ends with after leaf_enter; `company`: another process is in the group. */
static int moved(bool company)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                char own[PATH_MAX];
                int hold[2];

                if (!enter() || pipe(hold) < 0)
                        _exit(9);
                if (company && fork() == 0) {
                        close(hold[1]);
                        _exit(read(hold[0], own, 1) != 0); /* until the other ends */
                }
                leaf_enter();
                if (!cgpath_own("", own) || strncmp(own, group, strlen(group)) != 0)
                        _exit(8);
                close(hold[1]);
                while (company && wait(NULL) > 0)
                        ;
                _exit(strcmp(own + strlen(group), "/supervisor") == 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void alone(void **state)
{
        (void)state;
        if (group[0] == 0)
                skip();
        assert_int_equal(moved(false), 1);
}

static void company(void **state)
{
        (void)state;
        if (group[0] == 0)
                skip();
        assert_int_equal(moved(true), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(alone, setup, teardown), cmocka_unit_test_setup_teardown(company, setup, teardown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
