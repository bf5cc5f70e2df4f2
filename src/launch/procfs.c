/* /proc: see procfs.h. */
#include "launch/procfs.h"
#include "launch/layer.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum cover { COVER_READ_ONLY, COVER_EMPTY };
struct covered {
        const char *path;
        enum cover how;
};

/* SECURITY: removing a line gives the guest's root that file. Missing ones are skipped. */
static const struct covered covered[] = {
        { "proc/sys", COVER_READ_ONLY },
        { "proc/irq", COVER_READ_ONLY },
        { "proc/bus", COVER_READ_ONLY },
        { "proc/fs", COVER_READ_ONLY },
        { "proc/sysrq-trigger", COVER_READ_ONLY },
        { "proc/mtrr", COVER_READ_ONLY },
        { "proc/kcore", COVER_EMPTY },
        { "proc/kmsg", COVER_EMPTY },
        { "proc/keys", COVER_EMPTY },
        { "proc/key-users", COVER_EMPTY },
        { "proc/timer_list", COVER_EMPTY },
        { "proc/timer_stats", COVER_EMPTY },
        { "proc/sched_debug", COVER_EMPTY },
        { "proc/latency_stats", COVER_EMPTY },
        { "proc/kallsyms", COVER_EMPTY },
        { "proc/modules", COVER_EMPTY },
        { "proc/vmallocinfo", COVER_EMPTY },
        { "proc/slabinfo", COVER_EMPTY },
        { "proc/pagetypeinfo", COVER_EMPTY },
        { "proc/kpagecount", COVER_EMPTY },
        { "proc/kpageflags", COVER_EMPTY },
        { "proc/kpagecgroup", COVER_EMPTY },
        { "proc/iomem", COVER_EMPTY },
        { "proc/ioports", COVER_EMPTY },
        { "proc/interrupts", COVER_EMPTY },
        { "proc/softirqs", COVER_EMPTY },
        { "proc/diskstats", COVER_EMPTY },
        { "proc/partitions", COVER_EMPTY },
        { "proc/mdstat", COVER_EMPTY },
        { "proc/locks", COVER_EMPTY },
        { "proc/cmdline", COVER_EMPTY },
        { "proc/scsi", COVER_EMPTY },
        { "proc/acpi", COVER_EMPTY },
        { "proc/asound", COVER_EMPTY },
        { "proc/driver", COVER_EMPTY },
        { "proc/dynamic_debug", COVER_EMPTY },
        { "proc/sysvipc", COVER_READ_ONLY },
        /* Counters that every namespace sees and anybody can move: a channel between neighbours.
         * /proc/stat, meminfo, loadavg and uptime stay: runtimes size themselves by them. */
        { "proc/pressure", COVER_EMPTY },
        { "proc/schedstat", COVER_EMPTY },
        { "proc/zoneinfo", COVER_EMPTY },
        { "proc/buddyinfo", COVER_EMPTY },
        { "proc/cgroups", COVER_EMPTY },
        { "proc/swaps", COVER_EMPTY },
        { "proc/sys/fs/file-nr", COVER_EMPTY },
        { "proc/sys/fs/inode-nr", COVER_EMPTY },
        { "proc/sys/fs/inode-state", COVER_EMPTY },
        { "proc/sys/fs/dentry-state", COVER_EMPTY },
        { "proc/sys/fs/aio-nr", COVER_EMPTY },
        { "proc/sys/fs/binfmt_misc", COVER_EMPTY },
        { "proc/sys/kernel/pty/nr", COVER_EMPTY },
        { "proc/sys/kernel/keys", COVER_EMPTY },
};

static int cover(const struct ids *ids, const struct covered *c, struct err *err)
{
        struct stat st;

        if (lstat(c->path, &st) < 0)
                return 0;
        if (c->how == COVER_READ_ONLY)
                return layer_bind(NULL, c->path, LAYER_READ_ONLY, err);
        if (S_ISDIR(st.st_mode))
                return layer_tmpfs(ids, c->path, MS_RDONLY | MS_NODEV | MS_NOEXEC, "mode=555,size=4k,nr_inodes=2", err);
        /* The device, not an empty file: whoever opens it for writing gets no trace of it either. */
        return layer_bind("dev/null", c->path, LAYER_READ_ONLY | LAYER_DEVICE, err);
}

int procfs_mount(const struct ids *ids, struct err *err)
{
        if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return errno == EPERM ? err_set(err, "may not mount /proc for the guest: /proc of this machine is itself partly covered (inside a container, give it "
                                                     "an unmasked /proc)")
                                      : err_sys(err, errno, "cannot mount /proc for the guest");
        for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++)
                if (cover(ids, &covered[i], err) < 0)
                        return -1;
        return 0;
}
