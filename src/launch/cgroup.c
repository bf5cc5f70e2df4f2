/* Control groups: see cgroup.h, cgroups(7). */
#include "launch/cgroup.h"
#include "launch/place.h"
#include "base/cgpath.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum {
        CPU_PERIOD_US = 100000,
        REMOVE_TRIES = 2500, /* 2 ms each: a loaded machine takes its time to bury a guest. What stays is swept by the next session. */
};

static const char *const v1_controllers[] = { "memory", "pids", "cpu", "freezer" };

static bool put(int dir, const char *file, const char *text)
{
        int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
        bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

        fd_close(&fd);
        return done;
}

static bool put_number(int dir, const char *file, long long v)
{
        char text[32];

        snprintf(text, sizeof(text), "%lld", v);
        return put(dir, file, text);
}

/* Removes what a session left whose launcher and keeper were both killed: its name ends with the launcher's pid. */
static void sweep(int parent)
{
        int copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        const struct dirent *e;

        if (!dir) {
                fd_close(&copy);
                return;
        }
        while ((e = readdir(dir))) {
                const char *dot = strncmp(e->d_name, "brome.", 6) == 0 ? strrchr(e->d_name, '.') : NULL;
                char *end = NULL;
                long pid = dot ? strtol(dot + 1, &end, 10) : 0;
                if (pid > 0 && *end == 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
                        unlinkat(parent, e->d_name, AT_REMOVEDIR);
        }
        closedir(dir);
}

/* A new folder of ours in `at`; true when it was made. */
static bool make_in(struct cgroup *c, const char *at, struct cgroup_folder *f)
{
        f->parent = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->parent >= 0)
                sweep(f->parent);
        if (f->parent >= 0 && mkdirat(f->parent, c->name, 0755) == 0) {
                f->dir = openat(f->parent, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (f->dir >= 0)
                        return true;
                unlinkat(f->parent, c->name, AT_REMOVEDIR);
        }
        fd_close(&f->parent);
        return false;
}

/* Our own group, then the ones around it: the first that lets us make a folder, and for which `good` (may be NULL) holds. */
static struct cgroup_folder *make_near(struct cgroup *c, const char *mount, const char *own, bool (*good)(int parent, int dir))
{
        struct cgroup_folder *f = &c->folders[c->count];
        char at[PATH_MAX * 2], path[PATH_MAX];

        place(path, sizeof(path), "%s", own);
        for (;;) {
                char *slash;
                place(at, sizeof(at), "%s%s", mount, path);
                if (make_in(c, at, f)) {
                        if (!good || good(f->parent, f->dir)) {
                                c->count++;
                                return f;
                        }
                        unlinkat(f->parent, c->name, AT_REMOVEDIR);
                        fd_close(&f->dir);
                        fd_close(&f->parent);
                }
                slash = strrchr(path, '/');
                if (!slash || path[1] == 0)
                        return NULL;
                slash[slash == path] = 0;
        }
}

/* v2: the parent must be able to hand controllers down. Already handed down is as good. Memory first: only a group without processes takes it,
 * while one with processes would take pids or cpu and turn into a threaded domain, which no process can enter the children of. One by one:
 * a user's systemd may lack cpu, and a write that names it would fail as a whole. */
static bool hands_down(int parent, int dir)
{
        if (!put(parent, "cgroup.subtree_control", "+memory"))
                return false;
        (void)!put(parent, "cgroup.subtree_control", "+pids");
        (void)!put(parent, "cgroup.subtree_control", "+cpu");
        return faccessat(dir, "pids.max", W_OK, 0) == 0;
}

static void limit_v2(struct cgroup *c, int dir, const struct plan *plan)
{
        char text[64];

        c->processes = put_number(dir, "pids.max", plan->processes);
        if (plan->memory_bytes) {
                c->memory = put_number(dir, "memory.max", plan_group_bytes(plan));
                (void)!put(dir, "memory.swap.max", "0");
                (void)!put(dir, "memory.oom.group", "0");
        }
        if (plan->cpu_percent) {
                snprintf(text, sizeof(text), "%lld %d", plan->cpu_percent * (CPU_PERIOD_US / 100), CPU_PERIOD_US);
                c->cpu = put(dir, "cpu.max", text);
        }
}

static void open_v2(struct cgroup *c, const struct plan *plan)
{
        const char *mount = cgpath_v2();
        const struct cgroup_folder *f = NULL;
        char own[PATH_MAX];

        if (!mount || !cgpath_own("", own))
                return;
        f = make_near(c, mount, own, hands_down);
        if (!f)
                f = make_near(c, mount, own, NULL);
        if (!f)
                return;
        limit_v2(c, f->dir, plan);
        c->freeze_v2 = openat(f->dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
        c->kill = openat(f->dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        c->populated = openat(f->dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
}

static void limit_v1(struct cgroup *c, const char *controller, int dir, const struct plan *plan)
{
        if (strcmp(controller, "memory") == 0 && plan->memory_bytes)
                c->memory = put_number(dir, "memory.limit_in_bytes", plan_group_bytes(plan));
        else if (strcmp(controller, "pids") == 0)
                c->processes = put_number(dir, "pids.max", plan->processes);
        else if (strcmp(controller, "cpu") == 0 && plan->cpu_percent)
                c->cpu = put_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US) && put_number(dir, "cpu.cfs_quota_us", plan->cpu_percent * (CPU_PERIOD_US / 100));
        else if (strcmp(controller, "freezer") == 0)
                c->freeze_v1 = openat(dir, "freezer.state", O_RDWR | O_CLOEXEC);
}

static void open_v1(struct cgroup *c, const struct plan *plan)
{
        for (size_t i = 0; i < COUNT(v1_controllers) && c->count < CGROUP_FOLDERS; i++) {
                char mount[64], own[PATH_MAX];
                const struct cgroup_folder *f;

                place(mount, sizeof(mount), "/sys/fs/cgroup/%s", v1_controllers[i]);
                if (access(mount, W_OK) < 0 || !cgpath_own(v1_controllers[i], own))
                        continue;
                f = make_near(c, mount, own, NULL);
                if (f)
                        limit_v1(c, v1_controllers[i], f->dir, plan);
        }
}

void cgroup_open(struct cgroup *c, const struct plan *plan)
{
        *c = (struct cgroup){ .freeze_v2 = -1, .freeze_v1 = -1, .kill = -1, .populated = -1 };
        snprintf(c->name, sizeof(c->name), "brome.%s.%d", plan->workspace, (int)getpid());
        open_v2(c, plan);
        open_v1(c, plan);
}

int cgroup_enter(const struct cgroup *c, const struct plan *plan, struct err *err)
{
        struct rlimit r;

        for (size_t i = 0; i < c->count; i++)
                if (!put(c->folders[i].dir, "cgroup.procs", "0"))
                        return err_sys(err, errno, "cannot enter the control group %s", c->name);
        if (!c->processes) {
                /* Counted per user and user namespace since Linux 5.14, so the guest's own processes only. */
                r.rlim_cur = r.rlim_max = (rlim_t)plan->processes;
                if (setrlimit(RLIMIT_NPROC, &r) < 0)
                        return err_sys(err, errno, "cannot limit processes");
        }
        return 0;
}

static void describe_one(json_t *out, json_t *warnings, const char *what, bool wanted, bool holds, const char *otherwise, const char *warning)
{
        json_object_set_new(out, what, json_string(!wanted ? "unlimited" : holds ? "cgroup" : otherwise));
        if (wanted && !holds && warning)
                json_array_append_new(warnings, json_string(warning));
}

static const char *how_frozen(const struct cgroup *c) { return c->freeze_v2 >= 0 || c->freeze_v1 >= 0 ? "cgroup" : "signals"; }

json_t *cgroup_describe(const struct cgroup *c, const struct plan *plan, json_t *warnings)
{
        json_t *out = json_object();

        if (plan->machine) { /* it has no more than it was made with, whatever the host can enforce */
                describe_one(out, warnings, "memory", true, c->memory, "machine", NULL);
                describe_one(out, warnings, "processes", true, c->processes, "rlimit", NULL);
                describe_one(out, warnings, "cpu", true, c->cpu, "machine", NULL);
                json_object_set_new(out, "freeze", json_string(how_frozen(c)));
                return out;
        }
        describe_one(out, warnings, "memory", plan->memory_bytes > 0, c->memory, "none",
                     "the memory limit does not hold: no control group is delegated to this user (start brome from a systemd user session, or as root)");
        describe_one(out, warnings, "processes", true, c->processes, "rlimit", NULL);
        describe_one(out, warnings, "cpu", plan->cpu_percent > 0, c->cpu, "none",
                     "the CPU limit does not hold: no control group is delegated to this user (start brome from a systemd user session, or as root)");
        json_object_set_new(out, "freeze", json_string(how_frozen(c)));
        return out;
}

bool cgroup_freeze(const struct cgroup *c, bool frozen)
{
        if (c->freeze_v2 >= 0)
                return write(c->freeze_v2, frozen ? "1" : "0", 1) == 1;
        if (c->freeze_v1 >= 0)
                return frozen ? write(c->freeze_v1, "FROZEN", 6) == 6 : write(c->freeze_v1, "THAWED", 6) == 6;
        return false;
}

bool cgroup_kill(const struct cgroup *c) { return c->kill >= 0 && write(c->kill, "1", 1) == 1; }

void cgroup_remove(struct cgroup *c)
{
        static const struct timespec pause = { 0, 2 * 1000 * 1000 };
        int tries = 0;

        for (size_t i = 0; i < c->count; i++) {
                while (unlinkat(c->folders[i].parent, c->name, AT_REMOVEDIR) < 0 && errno == EBUSY && tries++ < REMOVE_TRIES)
                        nanosleep(&pause, NULL);
                fd_close(&c->folders[i].dir);
                fd_close(&c->folders[i].parent);
        }
        c->count = 0;
        fd_close(&c->freeze_v2);
        fd_close(&c->freeze_v1);
        fd_close(&c->kill);
        fd_close(&c->populated);
}
