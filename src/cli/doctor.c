/* brome doctor: what this machine can do for brome, found by doing it where that is harmless, with the way to enable what is missing.
 * A row a check. "no" stops brome from working, "less" costs something that the row names. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "control/scope.h"
#include "vm/command.h"

#include <fcntl.h>
#include <jansson.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum level { LEVEL_GOOD, LEVEL_LESS, LEVEL_NO };

struct finding {
        enum level level;
        char what[256]; /* what was found */
        char fix[512];  /* how to enable it; empty when good */
};

struct check {
        const char *name;
        void (*run)(struct finding *f);
};

static void good(struct finding *f, const char *what)
{
        f->level = LEVEL_GOOD;
        snprintf(f->what, sizeof(f->what), "%.255s", what);
}
static void bad(struct finding *f, enum level level, const char *what, const char *fix)
{
        f->level = level;
        snprintf(f->what, sizeof(f->what), "%.255s", what);
        snprintf(f->fix, sizeof(f->fix), "%.511s", fix);
}

/* First line of a small file; "" when it cannot be read. */
static const char *line_of(const char *path, char *out, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;

        fd_close(&fd);
        out[n > 0 ? n : 0] = 0;
        out[strcspn(out, "\n")] = 0;
        return out;
}

/* Runs fn in a child; its exit status, -1 when it died. */
static int in_child(int (*fn)(void))
{
        int status;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(fn());
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
                return -1;
        return WEXITSTATUS(status);
}

static void check_kernel(struct finding *f)
{
        struct utsname u;
        int major = 0, minor = 0;
        char *end;

        uname(&u);
        major = (int)strtol(u.release, &end, 10);
        if (*end == '.')
                minor = (int)strtol(end + 1, NULL, 10);
        if (major < 5 || (major == 5 && minor < 13))
                bad(f, LEVEL_NO, u.release, "Linux 5.13 or later is needed (Landlock, overlay mounts in user namespaces)");
        else
                good(f, u.release);
}

static int try_userns(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID) < 0; }

/* A user namespace that AppArmor has stripped of its capabilities can be made, but not used: mounting in it fails. */
static int try_userns_use(void)
{
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return 1;
        return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? 2 : 0;
}

static void check_userns(struct finding *f)
{
        char text[64];

        if (in_child(try_userns) == 0 && in_child(try_userns_use) == 0) {
                good(f, geteuid() ? "an ordinary user may make them" : "may be made (and root needs none)");
                return;
        }
        if (*line_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", text, sizeof(text)) == '1')
                bad(f, LEVEL_NO, "AppArmor restricts unprivileged user namespaces (Ubuntu 23.10 and later)",
                    "as root: echo 'kernel.apparmor_restrict_unprivileged_userns = 0' > /etc/sysctl.d/60-brome.conf && sysctl --system; or give "
                    "brome-launch an AppArmor profile with the rule `userns,` (docs/ARCHITECTURE.md shows it); or run brome as root");
        else if (*line_of("/proc/sys/kernel/unprivileged_userns_clone", text, sizeof(text)) == '0')
                bad(f, LEVEL_NO, "kernel.unprivileged_userns_clone is 0", "as root: sysctl -w kernel.unprivileged_userns_clone=1 (and a file in /etc/sysctl.d)");
        else if (strcmp(line_of("/proc/sys/user/max_user_namespaces", text, sizeof(text)), "0") == 0)
                bad(f, LEVEL_NO, "user.max_user_namespaces is 0", "as root: sysctl -w user.max_user_namespaces=15000 (and a file in /etc/sysctl.d)");
        else
                bad(f, LEVEL_NO, "user namespaces cannot be made or used", "a container or a security module forbids them; run brome outside of it, or as root");
}

static void check_landlock(struct finding *f)
{
        int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        char text[64];

        snprintf(text, sizeof(text), "ABI %d", abi);
        if (abi < 1)
                bad(f, LEVEL_LESS, "the kernel has none or it is off", "add landlock to the kernel's lsm= parameter; without it the doors rest on seccomp alone");
        else if (abi < 6)
                bad(f, LEVEL_LESS, text, "works; Linux 6.12 adds scoping of sockets and signals");
        else
                good(f, text);
}

static void check_seccomp(struct finding *f)
{
        if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0)
                good(f, "there");
        else
                bad(f, LEVEL_NO, "the kernel has no seccomp", "use a kernel with CONFIG_SECCOMP_FILTER");
}

static void check_cgroup(struct finding *f)
{
        char text[512];
        bool v1 = access("/sys/fs/cgroup/memory", W_OK) == 0, v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;

        if (geteuid() == 0 && (v1 || v2))
                good(f, v2 ? "version 2" : access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0 ? "version 1 with a version 2 tree" : "version 1");
        else if (v2 && scope_offered())
                good(f, "version 2; the user's systemd gives the supervisor a group of its own");
        else
                bad(f, LEVEL_LESS, *line_of("/proc/self/cgroup", text, sizeof(text)) ? "no group may be made here" : "none",
                    "memory and cpu limits fall away, the number of processes is limited by rlimit, pause stops processes by signal; log in with a systemd "
                    "user session (version 2) or run as root to have them");
}

static const struct paths *doctor_paths;

/* What `isolation vm` needs. Whether KVM can really run a kernel, `brome image build` finds by a boot, and writes down. */
static void check_machines(struct finding *f)
{
        static const char *const programs[] = { COMMAND_PROGRAMS };
        char path[PATH_MAX + 64], accel[64];
        bool qemu = false;

        for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
                qemu = qemu || access(programs[i], X_OK) == 0;
        if (!qemu) {
                bad(f, LEVEL_LESS, "QEMU is not installed", "`isolation vm` does not work; apt install qemu-system-x86");
                return;
        }
        if (access("/dev/net/tun", R_OK | W_OK) < 0) {
                bad(f, LEVEL_LESS, "/dev/net/tun may not be opened", "`isolation vm` does not work; modprobe tun, and mode 0666 as distributions have it");
                return;
        }
        snprintf(path, sizeof(path), "%s/images/current/accel", doctor_paths->state);
        line_of(path, accel, sizeof(accel));
        if (access("/dev/kvm", R_OK | W_OK) < 0)
                bad(f, LEVEL_LESS, "QEMU without KVM", "machines are emulated: some fifteen times slower, and emulation is no security boundary, so `isolation vm` counts only "
                    "where it is said; where the processor has it, modprobe kvm_intel or kvm_amd, and be in the group kvm");
        else if (strcmp(accel, "tcg") == 0)
                bad(f, LEVEL_LESS, "QEMU; KVM did not run the image when that was tried last", "machines are emulated: some fifteen times slower, and emulation is no security boundary; "
                    "`brome image probe` tries again, and `brome image ls --json` says what came of it");
        else
                good(f, *accel ? "QEMU with KVM" : "QEMU with KVM; the first image will tell whether it can boot");
}

static void check_roots(struct finding *f)
{
        static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                               "/etc/ssl/cert.pem" };
        for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++)
                if (access(bundles[i], R_OK) == 0) {
                        good(f, bundles[i]);
                        return;
                }
        bad(f, LEVEL_NO, "no bundle of certificate authorities was found", "install ca-certificates");
}

static void check_ping(struct finding *f)
{
        char text[64], *end;
        long lo, hi, gid = (long)getegid();

        line_of("/proc/sys/net/ipv4/ping_group_range", text, sizeof(text));
        lo = strtol(text, &end, 10);
        hi = strtol(end, NULL, 10);
        if (lo <= gid && gid <= hi)
                good(f, "ping sockets may be opened");
        else
                bad(f, LEVEL_LESS, "ping sockets may not be opened, so `allow icmp` rules refuse", "as root: sysctl -w net.ipv4.ping_group_range='0 2147483647'");
}

static void check_runtime(struct finding *f, const struct paths *paths)
{
        struct stat st;

        if (stat(paths->runtime, &st) < 0)
                good(f, "made at the first start");
        else if (st.st_uid != geteuid() || (st.st_mode & 077))
                bad(f, LEVEL_NO, "the runtime folder is open to others", "make it yours alone: chmod 700, or remove it");
        else
                good(f, paths->runtime);
}

static void check_folders(struct finding *f) { check_runtime(f, doctor_paths); }

static void check_programs(struct finding *f)
{
        static const char *const programs[] = { "bromed", "brome-spawn", "brome-launch", "brome-inner", "brome-outer", "brome-guest", "brome-sweep" };
        struct err err = ERR_INIT;
        char path[PATH_MAX];

        for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
                if (paths_program(path, programs[i], &err) < 0) {
                        bad(f, LEVEL_NO, err.text, "install brome again (meson install), or set BROME_LIBEXEC");
                        return;
                }
        good(f, "all are there");
}

/* The proof: a workspace that runs `true`. */
static int trial(void)
{
        int null = open("/dev/null", O_RDWR);

        if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
                return 1;
        execl("/proc/self/exe", "brome", "run", "--", "/bin/true", (char *)NULL);
        return 1;
}
static void check_trial(struct finding *f)
{
        if (in_child(trial) == 0)
                good(f, "a workspace ran a command");
        else
                bad(f, LEVEL_NO, "a workspace could not be started", "`brome run -- true` says why");
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
        static const struct check checks[] = {
                { "kernel", check_kernel },          { "user namespaces", check_userns },     { "landlock", check_landlock },
                { "seccomp", check_seccomp },        { "control groups", check_cgroup },      { "virtual machines", check_machines },
                { "root certificates", check_roots }, { "icmp", check_ping },                 { "folders", check_folders },
                { "programs", check_programs },      { "trial workspace", check_trial },
        };
        static const char *const words[] = { "good", "less", "no" };
        int at = cli_options(cli, argc, argv, NULL, 0), worst = LEVEL_GOOD;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        doctor_paths = &cli->paths;
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
                struct finding f = { 0 };
                checks[i].run(&f);
                if ((int)f.level > worst)
                        worst = (int)f.level;
                if (cli->json) {
                        json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "check", checks[i].name, "level", words[f.level], "found", f.what, "fix", f.fix);
                        char *text = json_dumps(o, JSON_COMPACT);
                        puts(text ? text : "{}");
                        free(text);
                        json_decref(o);
                        continue;
                }
                printf("%-5s %-18s %s\n", words[f.level], checks[i].name, esc_str(f.what));
                if (f.fix[0])
                        printf("      %-18s → %s\n", "", f.fix);
                fflush(stdout);
        }
        return worst == LEVEL_NO ? EXIT_HOST : EXIT_OK;
}
