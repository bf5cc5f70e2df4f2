/* Sealing: see seal.h. SECURITY: this file and the tables that call it are what holds a process that was taken over. */
#include "base/seal.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#define LL_TRUNCATE (1ULL << 14)
#define LL_IOCTL_DEV (1ULL << 15)
#define LL_SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define LL_SCOPE_SIGNAL (1ULL << 1)

int seal_early(struct err *err)
{
        struct rlimit core;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_sys(err, errno, "cannot give up new privileges");
        /* SECURITY: not dumpable also keeps a process of the same user from attaching or reading /proc/PID/mem. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || getrlimit(RLIMIT_CORE, &core) < 0)
                return err_sys(err, errno, "cannot forbid core dumps");
        /* 1 byte: no file is that short, and it is the one value at which the kernel starts no core handler (core(5)). A workspace inherits it. */
        core.rlim_cur = core.rlim_max = core.rlim_max > 1 ? 1 : core.rlim_max;
        if (setrlimit(RLIMIT_CORE, &core) < 0)
                return err_sys(err, errno, "cannot forbid core dumps");
        return 0;
}

int seal_caps(const int *keep, size_t count, struct err *err)
{
        struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
                return err_sys(err, errno, "cannot clear ambient capabilities");
        for (int cap = 0; cap <= 63; cap++) {
                bool kept = false;
                for (size_t i = 0; i < count; i++)
                        kept = kept || keep[i] == cap;
                if (kept) {
                        data[cap / 32].effective |= 1u << (cap % 32);
                        data[cap / 32].permitted |= 1u << (cap % 32);
                } else if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) {
                        /* Needs CAP_SETPCAP; an ordinary user has nothing to lose here. */
                        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
                                return err_sys(err, errno, "cannot drop capability %d", cap);
                }
        }
        if (syscall(SYS_capset, &head, data) < 0)
                return err_sys(err, errno, "cannot drop capabilities");
        return 0;
}

/* What each Landlock ABI can restrict; asking for more than the kernel knows is an error there. */
static uint64_t landlock_all(int abi)
{
        uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

        if (abi >= 2)
                all |= LANDLOCK_ACCESS_FS_REFER;
        if (abi >= 3)
                all |= LL_TRUNCATE;
        if (abi >= 5)
                all |= LL_IOCTL_DEV;
        return all;
}

static int landlock_add(int ruleset, const struct seal_path *p, uint64_t all, struct err *err)
{
        static const uint64_t file_only = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
                                          LL_TRUNCATE | LL_IOCTL_DEV;
        struct landlock_path_beneath_attr attr = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR };
        struct stat st;
        int rc, fd = open(p->path, O_PATH | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : err_sys(err, errno, "%s", p->path);
        attr.parent_fd = fd;
        if (p->access == SEAL_READ_WRITE)
                attr.allowed_access = all & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE;
        else if (p->access == SEAL_EXECUTE)
                attr.allowed_access |= LANDLOCK_ACCESS_FS_EXECUTE;
        attr.allowed_access &= all;
        if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
                attr.allowed_access &= file_only;
        rc = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
        if (rc < 0)
                err_sys(err, errno, "landlock: %s", p->path);
        fd_close(&fd);
        return rc;
}

int seal_files(const struct seal_path *paths, size_t count, struct err *err)
{
        struct { uint64_t fs, net, scoped; } attr = { 0 };
        size_t attr_size = sizeof(attr.fs);
        int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), ruleset, rc = 0;

        if (abi < 1)
                return 1;
        attr.fs = landlock_all(abi);
        if (abi >= 6) {
                attr.scoped = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL;
                attr_size = sizeof(attr);
        }
        ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_size, 0);
        if (ruleset < 0)
                return err_sys(err, errno, "landlock");
        for (size_t i = 0; i < count && rc == 0; i++)
                rc = landlock_add(ruleset, &paths[i], attr.fs, err);
        if (rc == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                rc = err_sys(err, errno, "landlock");
        fd_close(&ruleset);
        return rc;
}

const struct seal_call seal_calls_base[] = {
        SEAL_CALL(read, "descriptors it was handed"),
        SEAL_CALL(readv, "the same"),
        SEAL_CALL(write, "descriptors it was handed, log lines"),
        SEAL_CALL(writev, "the same"),
        SEAL_CALL(pread64, "memory files"),
        SEAL_CALL(lseek, "memory files"),
        SEAL_CALL(recvmsg, "channels"),
        SEAL_CALL(sendmsg, "channels"),
        SEAL_CALL(recvfrom, "sockets"),
        SEAL_CALL(sendto, "sockets"),
        SEAL_CALL(shutdown, "half close"),
        SEAL_CALL(close, "descriptors"),
        SEAL_CALL(fstat, "stdio, memory files"),
        SEAL_CALL(newfstatat, "fstat of newer C libraries"),
        SEAL_CALL_ARG(mmap, 2, 4 /* PROT_EXEC */, 0, "memory, never executable"),
        SEAL_CALL(munmap, "memory"),
        SEAL_CALL(mremap, "memory"),
        SEAL_CALL(madvise, "memory given back"),
        SEAL_CALL(brk, "memory"),
        SEAL_CALL_ARG(mprotect, 2, 4 /* PROT_EXEC */, 0, "memory, never executable"),
        SEAL_CALL(futex, "C library locks"),
        SEAL_CALL(epoll_wait, "event loop"),
        SEAL_CALL(epoll_pwait, "event loop"),
        SEAL_CALL(epoll_pwait2, "event loop"),
        SEAL_CALL(epoll_ctl, "event loop"),
        SEAL_CALL(poll, "waiting on a channel"),
        SEAL_CALL(ppoll, "waiting on a channel"),
        SEAL_CALL(timerfd_settime, "event loop"),
        SEAL_CALL(clock_gettime, "clocks"),
        SEAL_CALL(clock_getres, "clocks"),
        SEAL_CALL(gettimeofday, "clocks"),
        SEAL_CALL(getrandom, "TLS, hash keys"),
        SEAL_CALL(getpid, "OpenSSL's fork check, logging"),
        SEAL_CALL(gettid, "abort()"),
        SEAL_CALL(rt_sigprocmask, "event loop, abort()"),
        SEAL_CALL(rt_sigaction, "event loop, abort()"),
        SEAL_CALL(rt_sigreturn, "signals"),
        SEAL_CALL(restart_syscall, "interrupted waits"),
        SEAL_CALL(exit, "ending"),
        SEAL_CALL(exit_group, "ending"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_GETFL, "non-blocking"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_SETFL, "non-blocking"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_GETFD, "close-on-exec"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_SETFD, "close-on-exec"),
};
const size_t seal_calls_base_count = sizeof(seal_calls_base) / sizeof(seal_calls_base[0]);

static int add_calls(scmp_filter_ctx ctx, const struct seal_call *calls, size_t count, struct err *err)
{
        for (size_t i = 0; i < count; i++) {
                int nr = seccomp_syscall_resolve_name(calls[i].name), rc;

                if (nr == __NR_SCMP_ERROR)
                        continue;
                const struct scmp_arg_cmp args[] = { SCMP_CMP64(calls[i].arg, SCMP_CMP_MASKED_EQ, calls[i].mask, calls[i].value),
                                                     SCMP_CMP64(calls[i].arg + 1u, SCMP_CMP_MASKED_EQ, calls[i].mask, calls[i].next) };

                rc = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nr, calls[i].arg_count, args);
                if (rc < 0 && rc != -EEXIST && rc != -EDOM)
                        return err_sys(err, -rc, "seccomp: %s", calls[i].name);
        }
        return 0;
}

int seal_calls(const struct seal_call *calls, size_t count, struct err *err)
{
        /* SECURITY: to itself. To others it would be kill() for every process of the user, and of the host when started by root. */
        const struct seal_call own = SEAL_CALL_ARG(tgkill, 0, 0xffffffffu, (uint64_t)getpid(), "abort()");
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
        int rc;

        if (!ctx)
                return err_set(err, "seccomp: out of memory");
        rc = add_calls(ctx, seal_calls_base, seal_calls_base_count, err);
        if (rc == 0)
                rc = add_calls(ctx, &own, 1, err);
        if (rc == 0)
                rc = add_calls(ctx, calls, count, err);
        if (rc == 0 && (rc = seccomp_load(ctx)) < 0)
                rc = err_sys(err, -rc, "seccomp");
        seccomp_release(ctx);
        return rc;
}
