/* The seal from inside: a child seals itself as bromed does, then tries what bromed must never do. */
#include "base/chan.h"
#include "base/fd.h"
#include "base/seal.h"
#include "daemon/sealing.h"
#include "daemon/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64];
static struct daemon d;

/* Each returns 0 when it could do it, else errno; a killed child is as good. */
static int try_exec(void) { return execl("/bin/true", "true", NULL) < 0 ? errno : 0; }
static int try_inet(void) { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int try_unix(void) { return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int try_fork(void)
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        return pid < 0 ? errno : 0;
}
static int try_passwd(void) { return open("/etc/passwd", O_RDONLY) < 0 ? errno : 0; }
static int try_write_tmp(void) { return open("/tmp/brome-escaped", O_WRONLY | O_CREAT, 0600) < 0 ? errno : 0; }
static int try_proc(void) { return open("/proc/1/environ", O_RDONLY) < 0 ? errno : 0; }
static int try_kill(void) { return kill(getppid(), 0) < 0 ? errno : 0; }
static int try_ptrace(void) { return ptrace(PTRACE_ATTACH, getppid(), 0, 0) < 0 ? errno : 0; }
static int try_mount(void) { return mount("x", "/mnt", "tmpfs", 0, NULL) < 0 ? errno : 0; }
static int try_unshare(void) { return unshare(CLONE_NEWUSER) < 0 ? errno : 0; }
static int try_code(void) { return mprotect(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, PROT_EXEC) < 0 ? errno : 0; }
static int try_setuid(void) { return setuid(1) < 0 ? errno : 0; }
static int try_chmod(void) { return chmod(d.paths.state, 0777) < 0 ? errno : 0; }

static const struct {
        const char *name;
        int (*fn)(void);
} forbidden[] = {
        { "exec", try_exec },   { "inet", try_inet },     { "unix", try_unix },   { "fork", try_fork },       { "passwd", try_passwd },
        { "tmp", try_write_tmp }, { "proc", try_proc },   { "kill", try_kill },   { "ptrace", try_ptrace },   { "mount", try_mount },
        { "unshare", try_unshare }, { "code", try_code }, { "setuid", try_setuid }, { "chmod", try_chmod },
};

/* And what it must still be able to do. */
static int try_state(void)
{
        char path[PATH_MAX];
        struct err err = ERR_INIT;
        int pair[2];

        snprintf(path, sizeof(path), "%.4000s/workspaces/x", d.paths.state);
        if (fd_mkdirs(path, 0700, &err) < 0 || fd_write_file(d.paths.config, 0600, "a", 1, &err) < 0)
                return 1;
        snprintf(path, sizeof(path), "%.4000s/workspaces/x/names", d.paths.state);
        if (fd_write_file(path, 0600, "a", 1, &err) < 0 || chan_pair(pair) < 0 || fd_memfd("x", "y", 1) < 0)
                return 2;
        return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? 3 : 0;
}

/* A CA file of a host block, in a folder of its own, without any workspace: directly, and named by an included file. */
static int try_ca(void)
{
        char path[PATH_MAX];
        struct err err = ERR_INIT;
        struct buf b;

        buf_init(&b, 0);
        snprintf(path, sizeof(path), "%s/cas/ca.pem", top);
        if (fd_read_file(path, &b, 4096, &err) < 0)
                return 1;
        snprintf(path, sizeof(path), "%s/inc/deep/ca.pem", top);
        return fd_read_file(path, &b, 4096, &err) < 0 ? 2 : 0;
}

/* The exit status of fn in a sealed child, or 256 when it was killed by the seal. */
static int sealed(int (*fn)(void))
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                struct err err = ERR_INIT;

                if (seal_early(&err) < 0 || sealing_apply(&d, &err) < 0) {
                        fprintf(stderr, "%s\n", err.text);
                        _exit(255);
                }
                _exit(fn());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? 256 : WEXITSTATUS(status);
}

static void refuses(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
                int rc = sealed(forbidden[i].fn);

                if (rc == 0 || rc == 255)
                        fail_msg("%s: %d", forbidden[i].name, rc);
        }
}

static void allows(void **state)
{
        (void)state;
        assert_int_equal(sealed(try_state), 0);
        assert_int_equal(sealed(try_ca), 0);
}

static int put(const char *name, const char *text)
{
        char path[PATH_MAX], *slash;
        struct err err = ERR_INIT;

        snprintf(path, sizeof(path), "%s/%s", top, name);
        slash = strrchr(path, '/');
        *slash = 0;
        if (fd_mkdirs(path, 0700, &err) < 0)
                return -1;
        *slash = '/';
        return fd_write_file(path, 0600, text, strlen(text), &err);
}

static int setup(void **state)
{
        static struct diags errors;
        char conf[256];

        (void)state;
        snprintf(top, sizeof(top), "/tmp/brome-seal-XXXXXX");
        if (!mkdtemp(top))
                return -1;
        snprintf(d.paths.state, sizeof(d.paths.state), "%s/state", top);
        snprintf(d.paths.runtime, sizeof(d.paths.runtime), "%s/run", top);
        snprintf(d.paths.config, sizeof(d.paths.config), "%s/conf/brome.conf", top);
        mkdir(d.paths.state, 0700);
        mkdir(d.paths.runtime, 0700);
        snprintf(d.paths.config, sizeof(d.paths.config), "%s/conf", top);
        mkdir(d.paths.config, 0700);
        snprintf(d.paths.config, sizeof(d.paths.config), "%s/conf/brome.conf", top);
        snprintf(conf, sizeof(conf), "include \"../inc/more.conf\"\nhost a.example { ca file \"%s/cas/ca.pem\" }\n", top);
        if (put("conf/brome.conf", conf) < 0 || put("inc/more.conf", "host b.example { ca file \"deep/ca.pem\" }\n") < 0 ||
            put("cas/ca.pem", "x") < 0 || put("inc/deep/ca.pem", "x") < 0)
                return -1;
        d.settings = settings_load(&d, SLICE_EMPTY, "", NULL, &errors);
        return d.settings ? 0 : -1;
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(refuses), cmocka_unit_test(allows) };
        int rc = cmocka_run_group_tests(tests, setup, NULL);
        char command[128];

        snprintf(command, sizeof(command), "%s", top);
        execlp("rm", "rm", "-rf", command, rc ? "/nonexistent" : NULL, NULL);
        return 1;
}
