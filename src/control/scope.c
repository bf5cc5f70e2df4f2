/* Scopes: see scope.h, systemd-run(1). */
#include "control/scope.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCOPE_WORDS = 24 };

bool scope_offered(void)
{
        const char *runtime = geteuid() ? getenv("XDG_RUNTIME_DIR") : "/run";
        char path[PATH_MAX];

        /* Where systemctl and systemd-run reach a manager without a bus in between. */
        return runtime && snprintf(path, sizeof(path), "%s/systemd/private", runtime) < (int)sizeof(path) && access(path, F_OK) == 0;
}

void scope_exec(const char *program, const char *const *argv)
{
        char unit[64];
        const char *words[SCOPE_WORDS] = { "systemd-run", geteuid() ? "--user" : "--system", "--scope", "--quiet", "--collect", "--property=Delegate=yes",
                "--description=brome: supervisor and workspaces", unit, "--", program };
        size_t n = 10;

        snprintf(unit, sizeof(unit), "--unit=brome-%d", (int)getpid());
        for (size_t i = 1; argv[i] && n < SCOPE_WORDS - 1; i++)
                words[n++] = argv[i];
        execvp(words[0], (char *const *)words);
}
