/* Sealing, tried from inside: each forbidden thing in a child of its own, which must not succeed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static int seal_all(void)
{
        struct err err;
        if (seal_early(&err) < 0 || seal_caps(NULL, 0, &err) < 0 || seal_files(NULL, 0, &err) < 0 || seal_calls(NULL, 0, &err) < 0)
                return -1;
        return 0;
}

/* Runs fn sealed in a child: wait status. fn's success is exit 0. */
static int sealed(int (*fn)(void))
{
        int status;
        pid_t pid = fork();
        if (pid == 0) {
                if (seal_all() < 0)
                        syscall(SYS_exit_group, 99);
                syscall(SYS_exit_group, fn());
        }
        waitpid(pid, &status, 0);
        return status;
}

static int do_nothing(void) { return write(2, "", 0) == 0 ? 0 : 1; }
static int do_socket(void) { return socket(AF_INET, SOCK_STREAM, 0) < 0; }
static int do_open(void) { return open("/etc/passwd", O_RDONLY) < 0; }
static int do_exec(void) { return execl("/bin/true", "true", (char *)NULL); }
static int do_fork(void) { return fork() < 0; }
static int do_exec_memory(void)
{
        void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return mprotect(p, 4096, PROT_READ | PROT_EXEC) < 0;
}
static int do_kill(void) { return kill(getppid(), 0) < 0; }
static int do_tgkill(void) { return syscall(SYS_tgkill, getppid(), getppid(), 0) < 0; }
static int do_abort(void) { return syscall(SYS_tgkill, getpid(), getpid(), 0) < 0; }
static int do_ptrace(void) { return syscall(SYS_ptrace, 0, 0, 0, 0) < 0; }

static void test_what_a_loop_needs_works(void **state)
{
        (void)state;
        assert_int_equal(sealed(do_nothing), 0);
        assert_int_equal(sealed(do_abort), 0);
}

static void test_everything_else_kills(void **state)
{
        int (*const tries[])(void) = { do_socket, do_open, do_exec, do_fork, do_exec_memory, do_kill, do_tgkill, do_ptrace };
        (void)state;
        for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
                int status = sealed(tries[i]);
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
        }
}

/* An option is its level and its number: the kernel reads ints, so what stands above them is not looked at. */
static void test_a_socket_option_alone(void **state)
{
        static const struct seal_call calls[] = { SEAL_SOCKOPT(SOL_SOCKET, SO_LINGER, "test"), SEAL_SOCKOPT(IPPROTO_TCP, TCP_NODELAY, "test") };
        static const struct {
                uint64_t level, option;
                bool passes;
        } tries[] = {
                { SOL_SOCKET, SO_LINGER, true },        { IPPROTO_TCP, TCP_NODELAY, true },           { (1ull << 32) | SOL_SOCKET, SO_LINGER, true },
                { IPPROTO_TCP, SO_LINGER, false },      { SOL_SOCKET, TCP_NODELAY, false },           { IPPROTO_IP, SO_LINGER, false },
                { SOL_SOCKET, SO_BINDTODEVICE, false }, { (1ull << 32) | IPPROTO_TCP, SO_LINGER, false },
        };
        (void)state;

        for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
                struct err err;
                int status;
                pid_t pid = fork();

                if (pid == 0) {
                        if (seal_early(&err) < 0 || seal_calls(calls, 2, &err) < 0)
                                syscall(SYS_exit_group, 99);
                        syscall(SYS_exit_group, syscall(SYS_setsockopt, -1L, tries[i].level, tries[i].option, 0L, 0L) < 0 ? 0 : 1);
                }
                waitpid(pid, &status, 0);
                if (tries[i].passes)
                        assert_int_equal(status, 0);
                else
                        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
        }
}

static int files_child(void)
{
        static const struct seal_path paths[] = { { "/etc", SEAL_READ }, { "/missing/entirely", SEAL_READ } };
        struct err err;
        int rc;
        if (seal_early(&err) < 0 || seal_caps(NULL, 0, &err) < 0)
                return 10;
        rc = seal_files(paths, 2, &err);
        if (rc == 1)
                return 0; /* no Landlock here */
        if (rc < 0)
                return 11;
        if (open("/etc/passwd", O_RDONLY) < 0)
                return 12;
        if (open("/etc/passwd", O_WRONLY) >= 0 || open("/usr/bin/env", O_RDONLY) >= 0 || open("/tmp/x-brome", O_CREAT | O_WRONLY, 0600) >= 0)
                return 13;
        if (execl("/bin/true", "true", (char *)NULL) == 0 || errno != EACCES)
                return 14;
        return 0;
}

/* One byte is no core file, and unlike 0 it also keeps a pipe handler from being fed (core(5)). */
static int early_child(void)
{
        struct err err;
        struct rlimit core;
        if (seal_early(&err) < 0)
                return 1;
        getrlimit(RLIMIT_CORE, &core);
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && core.rlim_cur <= 1 && core.rlim_max <= 1 ? 0 : 2;
}

static int caps_child(void)
{
        struct err err;
        char status[8192], *line;
        int fd;
        ssize_t n;
        if (seal_caps(NULL, 0, &err) < 0)
                return 1;
        fd = open("/proc/self/status", O_RDONLY);
        n = read(fd, status, sizeof(status) - 1);
        status[n > 0 ? n : 0] = 0;
        for (const char *const *name = (const char *const[]){ "CapPrm:\t", "CapEff:\t", "CapAmb:\t", NULL }; *name; name++) {
                line = strstr(status, *name);
                if (!line || strtoull(line + strlen(*name), NULL, 16) != 0)
                        return 2;
        }
        return 0;
}

static void in_child(int (*fn)(void))
{
        int status;
        pid_t pid = fork();
        if (pid == 0)
                _exit(fn());
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
}

static void test_stages(void **state)
{
        (void)state;
        in_child(early_child);
        in_child(caps_child);
        in_child(files_child);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_what_a_loop_needs_works), cmocka_unit_test(test_everything_else_kills), cmocka_unit_test(test_a_socket_option_alone), cmocka_unit_test(test_stages) };
        /* The sanitizer's own calls are not in the list; the plain build runs this. */
        if (SANITIZED)
                return 77;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
