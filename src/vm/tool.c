/* Running programs: see tool.h. */
#include "vm/tool.h"
#include "base/esc.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 127, ENVIRONMENT_MAX = 32 };

int tool_find(char out[PATH_MAX], const char *name)
{
        static const char *const folders[] = { "/usr/sbin", "/usr/bin", "/sbin", "/bin" };

        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
                if (snprintf(out, PATH_MAX, "%s/%s", folders[i], name) < PATH_MAX && access(out, X_OK) == 0)
                        return 0;
        out[0] = 0;
        return -1;
}

static void start(const struct tool *c)
{
        const char *env[ENVIRONMENT_MAX + 1] = { "PATH=" TOOL_PATH, "LC_ALL=C.UTF-8" };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = c->log >= 0 ? c->log : null;
        char path[PATH_MAX];
        size_t n = 2;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; c->env && c->env[i] && n < ENVIRONMENT_MAX; i++)
                env[n++] = c->env[i];
        if (dup2(null, STDIN_FILENO) < 0 || dup2(c->out > 0 ? c->out : out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
                _exit(EXIT_NOT_STARTED);
        if ((c->root && chroot(c->root) < 0) || chdir(c->folder ? c->folder : "/") < 0 || tool_find(path, c->argv[0]) < 0) {
                dprintf(STDERR_FILENO, "%s cannot be started\n", c->argv[0]);
                _exit(EXIT_NOT_STARTED);
        }
        execve(path, (char *const *)c->argv, (char *const *)env);
        dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
        _exit(EXIT_NOT_STARTED);
}

int tool_run(const struct tool *c, struct err *err)
{
        pid_t pid = fork();
        int status;

        if (pid == 0)
                start(c);
        if (pid < 0)
                return err_sys(err, errno, "%s cannot be started", c->argv[0]);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return err_sys(err, errno, "%s", c->argv[0]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_STARTED)
                return err_set(err, "%s could not be started", c->argv[0]);
        if (WIFEXITED(status))
                return err_set(err, "%s ended with %d", c->argv[0], WEXITSTATUS(status));
        return err_set(err, "%s was killed by signal %d", c->argv[0], WTERMSIG(status));
}

void tool_tail(int log, const char *indent, struct buf *out)
{
        char text[TOOL_TAIL_BYTES];
        struct stat st;
        ssize_t n = 0;
        size_t at, lines = 0;

        if (log < 0 || fstat(log, &st) < 0)
                return;
        n = pread(log, text, sizeof(text), st.st_size > (off_t)sizeof(text) ? st.st_size - (off_t)sizeof(text) : 0);
        while (n > 0 && text[n - 1] == '\n')
                n--;
        for (at = n > 0 ? (size_t)n : 0; at > 0; at--)
                if (text[at - 1] == '\n' && ++lines == TOOL_TAIL_LINES)
                        break;
        for (struct slice rest = slice_of(text + at, (size_t)(n > 0 ? n : 0) - at); rest.n > 0;) {
                ptrdiff_t end = slice_find(rest, '\n');
                buf_addf(out, "%s%s\n", indent, esc(end < 0 ? rest : slice_first(rest, (size_t)end)));
                rest = end < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)end + 1);
        }
}
