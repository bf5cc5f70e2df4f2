/* The leaf: see leaf.h. */
#include "daemon/leaf.h"
#include "base/cgpath.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAF "supervisor"

/* A number a line, and ours is the only one. */
static bool alone(int group)
{
        char text[64], own[32];
        int fd = openat(group, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        fd_close(&fd);
        if (n <= 0)
                return false;
        text[n] = 0;
        snprintf(own, sizeof(own), "%d\n", (int)getpid());
        return strcmp(text, own) == 0;
}

static bool move(int group)
{
        int fd;
        bool done;

        if (mkdirat(group, LEAF, 0755) < 0 && errno != EEXIST)
                return false;
        fd = openat(group, LEAF "/cgroup.procs", O_WRONLY | O_CLOEXEC);
        done = fd >= 0 && write(fd, "0", 1) == 1;
        fd_close(&fd);
        if (!done)
                unlinkat(group, LEAF, AT_REMOVEDIR);
        return done;
}

void leaf_enter(void)
{
        const char *mount = cgpath_v2();
        char own[PATH_MAX], path[PATH_MAX];
        int group;

        if (!mount || !cgpath_own("", own) || strcmp(own, "/") == 0 || snprintf(path, sizeof(path), "%s%s", mount, own) >= (int)sizeof(path))
                return;
        group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (group >= 0 && alone(group) && !move(group))
                log_debug("the control group %s is not ours to divide", own);
        fd_close(&group);
}
