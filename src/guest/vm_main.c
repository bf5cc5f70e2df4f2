/* PID 1 of a virtual machine, /init of its initramfs (docs/VM.md): what it does before it speaks to brome-launch, on SETUP, and at the end. In between it is the same
 * program as in a namespace (main.c). It does nothing unless it is process 1: anywhere else it would mount over, and turn off, the host. */
#include "base/clock.h"
#include "base/fd.h"
#include "guest/kind.h"
#include "guest/vm_disk.h"
#include "guest/vm_etc.h"
#include "guest/vm_net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
        CHANNEL_FD = 3,         /* as main.c has it */
        MODULES = 256,          /* of one initramfs; a dozen are needed */
        PORT_WAIT_MS = 10000,   /* under emulation, on a busy host */
        PORT_POLL_MS = 1,
        END_WAIT_MS = 2000,     /* for killed programs to be gone, before their disks are unmounted */
        OPEN_FILES = 65536,     /* of one process, as in a namespace */
};
#define PORT_NAME "org.brome.guest\n"
#define PORTS "/sys/class/virtio-ports"

static void say(const char *what, const char *why) { dprintf(STDERR_FILENO, "brome-guest: %s%s%s\n", what, *why ? ": " : "", why); }

static void rest_ms(long ms)
{
        struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&t, NULL);
}

/* ---- begin ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void load(int dir, const char *name)
{
        int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
                say(name, strerror(errno));
        fd_close(&fd);
        (void)!unlinkat(dir, name, 0); /* its bytes are memory */
}

/* In the order of their names. One that is missing or does not fit is told, and what needs it says so later. */
static void load_modules(void)
{
        static char *names[MODULES];
        size_t n = 0;
        DIR *dir = opendir("/modules");
        const struct dirent *e;
        while (dir != NULL && n < MODULES && (e = readdir(dir)) != NULL) {
                size_t length = strlen(e->d_name);
                if (length > 3 && strcmp(e->d_name + length - 3, ".ko") == 0 && (names[n] = strdup(e->d_name)) != NULL)
                        n++;
        }
        qsort(names, n, sizeof(names[0]), by_name);
        for (size_t i = 0; i < n; i++) {
                load(dirfd(dir), names[i]);
                free(names[i]);
        }
        if (dir != NULL)
                closedir(dir);
        else
                say("/modules", strerror(errno));
}

static bool port_is_ours(const char *name)
{
        char path[NAME_MAX + sizeof(PORTS "//name")];
        struct buf text;
        struct err quiet;
        snprintf(path, sizeof(path), PORTS "/%s/name", name);
        buf_init(&text, 0);
        bool same = fd_read_file(path, &text, 128, &quiet) == 0 && slice_is(buf_slice(&text), PORT_NAME);
        buf_fini(&text);
        return same;
}

static int open_port_now(void)
{
        char path[NAME_MAX + sizeof("/dev/")];
        DIR *dir = opendir(PORTS);
        const struct dirent *e;
        int fd = -1;
        while (dir != NULL && fd < 0 && (e = readdir(dir)) != NULL) {
                if (e->d_name[0] == '.' || !port_is_ours(e->d_name))
                        continue;
                snprintf(path, sizeof(path), "/dev/%s", e->d_name);
                fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        }
        if (dir != NULL)
                closedir(dir);
        return fd;
}

/* The host tells ports and their names behind the driver's start. */
static int open_port(void)
{
        int64_t until_ms = clock_mono_ms() + PORT_WAIT_MS;
        int fd;
        while ((fd = open_port_now()) < 0) {
                if (clock_mono_ms() > until_ms) {
                        errno = ENODEV;
                        return -1;
                }
                rest_ms(PORT_POLL_MS);
        }
        if (fd != CHANNEL_FD && dup3(fd, CHANNEL_FD, O_CLOEXEC) < 0)
                return -1;
        if (fd != CHANNEL_FD)
                close(fd);
        return 0;
}

static void open_console(void)
{
        int null = open("/dev/null", O_RDWR), console = open("/dev/console", O_WRONLY | O_NOCTTY);
        for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
                if (fd != null && fd != console)
                        dup2(fd == 0 || console < 0 ? null : console, fd);
        if (null > STDERR_FILENO)
                close(null);
        if (console > STDERR_FILENO)
                close(console);
}

static void limits(void)
{
        struct rlimit files = { OPEN_FILES, OPEN_FILES }, core = { 0, RLIM_INFINITY };
        if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
                say("limits", strerror(errno));
}

int kind_begin(void)
{
        struct err err = ERR_INIT;
        if (getpid() != 1) {
                errno = EPERM;
                return -1;
        }
        umask(022);
        if (vm_disk_begin(&err) < 0) {
                say(err.text, "");
                return -1;
        }
        open_console();
        limits();
        load_modules();
        return open_port();
}

/* ---- on SETUP ---- */

static void set_clock(uint64_t us, const uint8_t *seed)
{
        struct timespec t = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };
        struct {
                struct rand_pool_info info;
                uint32_t bytes[PROTO_SEED_BYTES / 4];
        } pool = { .info = { .entropy_count = 8 * PROTO_SEED_BYTES, .buf_size = PROTO_SEED_BYTES } };
        if (us != 0 && clock_settime(CLOCK_REALTIME, &t) < 0)
                say("clock", strerror(errno));
        if (seed == NULL)
                return;
        memcpy(pool.bytes, seed, PROTO_SEED_BYTES);
        int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
        if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
                say("random pool", strerror(errno));
        fd_close(&fd);
        explicit_bzero(&pool, sizeof(pool));
}

static int set_up_all(struct slice payload, char notes[HOMEFILES_NOTES_BYTES], struct err *err)
{
        static bool done; /* disks and files, once; the rest again for whoever comes to the port later */
        static struct setup s;
        const char *why;
        if (setup_read(payload, &s, &why) < 0)
                return err_set(err, "%s", why);
        set_clock(s.clock_us, s.seed);
        if (s.hostname.n > 0 && sethostname((const char *)s.hostname.p, s.hostname.n) < 0)
                return err_sys(err, errno, "cannot set the machine's name");
        if (vm_net_up(&s, err) < 0)
                return -1;
        if (done)
                return 0;
        done = true;
        if (vm_disk_root(&s, err) < 0 || vm_disk_home(&s, err) < 0 || vm_etc_write(&s, err) < 0 || vm_etc_home(&s, notes, err) < 0)
                return -1;
        return vm_disk_shares(&s, err);
}

static int set_up(struct slice payload, const char **text)
{
        static char notes[HOMEFILES_NOTES_BYTES];
        static struct err err;
        notes[0] = 0;
        int r = set_up_all(payload, notes, &err);
        *text = r < 0 ? err.text : notes;
        if (r < 0)
                say("cannot be set up", err.text);
        return r;
}

const struct guest_machine *kind_machine(void)
{
        static const struct guest_machine machine = { set_up, set_clock };
        return &machine;
}

/* ---- the end ---- */

int kind_end(int status)
{
        if (getpid() != 1)
                return status;
        int64_t until_ms = clock_mono_ms() + END_WAIT_MS;
        pid_t r;
        while ((r = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_mono_ms() < until_ms)
                if (r == 0)
                        rest_ms(PORT_POLL_MS);
        vm_disk_end();
        reboot(RB_POWER_OFF);
        return status; /* the kernel panics, which ends the machine as well */
}
