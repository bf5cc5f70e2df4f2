/* The probe boot: see probe.h. */
#include "vm/probe.h"
#include "base/clock.h"
#include "base/fd.h"
#include "vm/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__aarch64__)
#define QEMU "qemu-system-aarch64"
#define QEMU_PACKAGE "qemu-system-arm"
#define MACHINE "virt"
#define CONSOLE "ttyAMA0"
#else
#define QEMU "qemu-system-x86_64"
#define QEMU_PACKAGE "qemu-system-x86"
#define MACHINE "q35"
#define CONSOLE "ttyS0"
#endif

enum { PORT_FD = 3, EXIT_NOT_STARTED = 127, POLL_MS = 200 };

enum outcome { SAID_HELLO, SILENT, ENDED, STOPPED };

static void start_qemu(const char *folder, const char *accel, int port)
{
        char program[PATH_MAX];
        const char *const argv[] = { QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", MACHINE, "-accel", accel, "-cpu", "max", "-m", "512",
                                     "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-kernel", "vmlinuz", "-initrd", "initrd", "-append",
                                     "console=" CONSOLE " quiet panic=-1 tsc=reliable", "-serial", "file:console.log", "-device", "virtio-serial-pci", "-chardev",
                                     "socket,id=guest,fd=3", "-device", "virtserialport,chardev=guest,name=org.brome.guest", "-device", "virtio-rng-pci", NULL };
        const char *const env[] = { "PATH=" TOOL_PATH, "LC_ALL=C.UTF-8", NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), log;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        if (chdir(folder) < 0 || (log = open("qemu.log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0 || tool_find(program, QEMU) < 0)
                _exit(EXIT_NOT_STARTED);
        if (dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
                _exit(EXIT_NOT_STARTED);
        if (port == PORT_FD ? fd_cloexec(port, false) < 0 : dup2(port, PORT_FD) < 0)
                _exit(EXIT_NOT_STARTED);
        execve(program, (char *const *)argv, (char *const *)env);
        _exit(EXIT_NOT_STARTED);
}

/* HELLO with version 2, as guest/proto.h has it: stream 0, type 1, no flags, four bytes of payload. Nothing else can come first. */
const uint8_t probe_hello[PROBE_HELLO_BYTES] = { 0, 0, 0, 0, 1, 0, 4, 0, 2, 0, 0, 0 };

static enum outcome listen_for_hello(int port, int64_t deadline_ms, const volatile sig_atomic_t *stop)
{
        uint8_t in[PROBE_HELLO_BYTES];
        size_t got = 0;

        while (clock_mono_ms() < deadline_ms) {
                struct pollfd p = { .fd = port, .events = POLLIN };
                ssize_t n;
                if (stop && *stop)
                        return STOPPED;
                if (poll(&p, 1, POLL_MS) <= 0)
                        continue;
                n = read(port, in + got, sizeof(in) - got);
                if (n <= 0)
                        return ENDED;
                got += (size_t)n;
                if (memcmp(in, probe_hello, got) != 0)
                        return ENDED;
                if (got == sizeof(in))
                        return SAID_HELLO;
        }
        return SILENT;
}

static enum outcome boot(const char *folder, const char *accel, int64_t limit_ms, const volatile sig_atomic_t *stop)
{
        int64_t deadline = clock_mono_ms() + limit_ms;
        enum outcome found;
        int pair[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return ENDED;
        pid = fork();
        if (pid == 0)
                start_qemu(folder, accel, pair[1]);
        fd_close(&pair[1]);
        found = pid < 0 ? ENDED : listen_for_hello(pair[0], deadline, stop);
        fd_close(&pair[0]);
        if (pid > 0) {
                kill(pid, SIGKILL);
                while (waitpid(pid, &(int){ 0 }, 0) < 0 && errno == EINTR)
                        ;
        }
        return found;
}

static bool kvm_opens(void)
{
        int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
        bool opens = fd >= 0;

        fd_close(&fd);
        return opens;
}

int probe_boot(const char *folder, struct probe *p, struct err *err)
{
        bool kvm = kvm_opens();
        char program[PATH_MAX];
        enum outcome found = SILENT;
        int64_t start = clock_mono_ms();

        if (tool_find(program, QEMU) < 0) {
                snprintf(p->text, sizeof(p->text), "%s is not installed, so the image was not booted; apt-get install %s", QEMU, QEMU_PACKAGE);
                return 0;
        }
        if (kvm) {
                found = boot(folder, "kvm", PROBE_KVM_MS, p->stop);
                if (found == SAID_HELLO) {
                        memcpy(p->accel, "kvm", sizeof("kvm"));
                        snprintf(p->text, sizeof(p->text), "KVM runs it: hello after %lld ms", (long long)(clock_mono_ms() - start));
                        return 0;
                }
        }
        start = clock_mono_ms();
        if (found != STOPPED)
                found = boot(folder, "tcg", PROBE_TCG_MS, p->stop);
        if (found == STOPPED)
                return err_set(err, "interrupted; nothing was changed");
        if (found != SAID_HELLO)
                return err_set(err, "the new image does not boot, even emulated: %s", found == ENDED ? "QEMU ended before the first hello" : "no hello in time");
        memcpy(p->accel, "tcg", sizeof("tcg"));
        snprintf(p->text, sizeof(p->text), "%s; emulation (TCG) does, hello after %lld ms: some 15 times slower, and no boundary against a hostile guest",
                 kvm ? "/dev/kvm opens and does not run this kernel" : "there is no /dev/kvm that this user can open", (long long)(clock_mono_ms() - start));
        return 0;
}
