/* Editing a text: see edit.h. */
#include "cli/edit.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs argv and waits; its wait status, or -1. */
static int run_tool(const char *const *argv)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                execvp(argv[0], (char *const *)argv);
                _exit(127);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -1;
        return pid > 0 ? status : -1;
}

int edit_open(const char *path)
{
        const char *editor = getenv("VISUAL") && *getenv("VISUAL") ? getenv("VISUAL") : getenv("EDITOR") && *getenv("EDITOR") ? getenv("EDITOR") : "vi";
        /* The variable may hold options; the shell splits them, the file name goes in as a parameter. */
        char script[1024];
        const char *argv[] = { "sh", "-c", script, "brome-edit", path, NULL };

        if (snprintf(script, sizeof(script), "exec %s \"$1\"", editor) >= (int)sizeof(script))
                return -1;
        return run_tool(argv) == 0 ? 0 : -1;
}

bool edit_show_difference(const char *before, const char *after)
{
        const char *diff[] = { "diff", "-u", "--label", "in force", "--label", "edited", before, after, NULL };

        return run_tool(diff) != 0;
}

int edit_spill(char *out, size_t size, const char *what, struct slice text)
{
        const char *tmp = getenv("TMPDIR") && *getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
        int fd, rc;

        if (snprintf(out, size, "%s/brome-%s-XXXXXX", tmp, what) >= (int)size)
                return -1;
        fd = mkostemp(out, O_CLOEXEC);
        if (fd < 0)
                return -1;
        rc = fd_write_all(fd, text.p, text.n);
        if (rc < 0)
                unlink(out); /* half of it is not what to edit */
        fd_close(&fd);
        return rc < 0 ? -1 : 0;
}

enum edit_answer edit_confirm(const char *question)
{
        char line[16];

        fprintf(stderr, "brome: %s ", question);
        if (!fgets(line, sizeof(line), stdin))
                return EDIT_NO;
        if (line[0] == 'y' || line[0] == 'Y')
                return EDIT_YES;
        return line[0] == 'e' || line[0] == 'E' ? EDIT_AGAIN : EDIT_NO;
}
