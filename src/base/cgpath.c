/* Control group paths: see cgpath.h. */
#include "base/cgpath.h"
#include "base/buf.h"
#include "base/fd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CGPATH_BYTES = 65536 }; /* of /proc/self/cgroup: a line a hierarchy */

const char *cgpath_v2(void)
{
        static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
        char probe[64];

        for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
                snprintf(probe, sizeof(probe), "%s/cgroup.controllers", mounts[i]);
                if (access(probe, F_OK) == 0)
                        return mounts[i];
        }
        return NULL;
}

/* `names`: of one hierarchy, separated by commas; empty for version 2. */
static bool names_it(char *names, const char *controller)
{
        char *save = NULL;

        if (*controller == 0)
                return *names == 0;
        for (const char *n = strtok_r(names, ",", &save); n; n = strtok_r(NULL, ",", &save))
                if (strcmp(n, controller) == 0)
                        return true;
        return false;
}

bool cgpath_own(const char *controller, char out[PATH_MAX])
{
        struct buf text;
        struct err quiet;
        char *line, *save = NULL;
        bool found = false;

        buf_init(&text, 0);
        if (fd_read_file("/proc/self/cgroup", &text, CGPATH_BYTES, &quiet) == 0 && buf_add(&text, "", 1) == 0)
                for (line = strtok_r((char *)text.bytes + text.start, "\n", &save); line && !found; line = strtok_r(NULL, "\n", &save)) {
                        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

                        if (!path)
                                continue;
                        *path++ = 0;
                        found = names_it(names + 1, controller) && snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
                }
        buf_fini(&text);
        return found;
}
