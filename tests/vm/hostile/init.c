/* A machine's first process that is nobody's friend: in place of brome-guest it loads the modules, opens the port and says what ATTACK stands for. It answers
 * no SHUTDOWN. Made and started by tests/attack/test_vm_channel.py.  x86-64, static. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELLO = 1, SETUP, READY, EXEC, STARTED, FAILED, STDIN, STDOUT, STDERR, WINDOW, RESIZE, SIGNAL, EXIT, CLOSE, SHUTDOWN, CLOCK };
#define EVIL "\x1b]0;owned\x07\x1b[2J\x1b[31m\nbrome: all is well\r\x9b" "31m\xe2\x80\xae\xff"

static int port = -1;

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void modules(void)
{
        struct dirent **list;
        int n = scandir("/modules", &list, NULL, by_name);

        for (int i = 0; i < n; i++) {
                char path[512];
                snprintf(path, sizeof(path), "/modules/%s", list[i]->d_name);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd >= 0)
                        syscall(SYS_finit_module, fd, "", 0);
                close(fd);
        }
}

static void open_port(void)
{
        while (port < 0) {
                DIR *d = opendir("/sys/class/virtio-ports");
                struct dirent *e;
                while (d && (e = readdir(d))) {
                        char path[600];
                        if (e->d_name[0] == '.')
                                continue;
                        snprintf(path, sizeof(path), "/dev/%s", e->d_name);
                        port = open(path, O_RDWR);
                        if (port >= 0)
                                break;
                }
                if (d)
                        closedir(d);
                usleep(20000);
        }
}

static void raw(const void *p, size_t n)
{
        while (n) {
                ssize_t w = write(port, p, n);
                if (w <= 0)
                        return;
                p = (const char *)p + w;
                n -= (size_t)w;
        }
}

static void frame(uint32_t stream, uint8_t type, uint8_t flags, const void *payload, size_t n)
{
        static uint8_t b[8 + 65535];
        uint16_t len = (uint16_t)n;

        memcpy(b, &stream, 4);
        b[4] = type;
        b[5] = flags;
        memcpy(b + 6, &len, 2);
        memcpy(b + 8, payload, n);
        raw(b, 8 + n);
}

static void number(uint32_t stream, uint8_t type, uint32_t v) { frame(stream, type, 0, &v, 4); }

static void failed(uint32_t stream)
{
        char text[4 + sizeof(EVIL)] = { 2 };

        memcpy(text + 4, EVIL, sizeof(EVIL) - 1);
        frame(stream, FAILED, 0, text, 4 + sizeof(EVIL) - 1);
}

static void window(uint32_t stream, uint32_t bytes, uint8_t which)
{
        uint8_t p[5];

        memcpy(p, &bytes, 4);
        p[4] = which;
        frame(stream, WINDOW, 0, p, 5);
}

/* Until a frame of that type; its stream. */
static uint32_t until(uint8_t type)
{
        uint8_t head[8];
        static uint8_t body[65536];

        for (;;) {
                size_t n = 0;
                while (n < 8) {
                        ssize_t r = read(port, head + n, 8 - n);
                        if (r <= 0) { usleep(10000); continue; }
                        n += (size_t)r;
                }
                size_t len = head[6] | (size_t)head[7] << 8;
                for (n = 0; n < len;) {
                        ssize_t r = read(port, body + n, len - n);
                        if (r <= 0) { usleep(10000); continue; }
                        n += (size_t)r;
                }
                if (head[4] == type && (head[5] & 1 || (type != EXEC && type != SETUP))) {
                        uint32_t s;
                        memcpy(&s, head, 4);
                        return s;
                }
        }
}

static uint32_t opened(void)
{
        number(0, HELLO, VERSION);
        until(SETUP);
        frame(0, READY, 0, EVIL, sizeof(EVIL) - 1);
        return until(EXEC);
}

static void attack(void)
{
        static char block[32768];
        uint32_t s = 0;

#if ATTACK == 0 /* no frames at all */
        memset(block, 0xff, sizeof(block));
        for (int i = 0; i < 4096; i++)
                raw(block, sizeof(block));
#elif ATTACK == 1 /* a version nobody speaks */
        number(0, HELLO, 0xffffffff);
#elif ATTACK == 2 /* cannot be set up, in many colours */
        number(0, HELLO, VERSION);
        until(SETUP);
        failed(0);
#elif ATTACK == 3 /* a program that could not be started, in many colours; then one that ends for another */
        s = opened();
        failed(s);
        number(s, EXIT, 0);
        s = until(EXEC);
        number(s - 1, EXIT, 7);
        window(s - 1, 0xffffffff, STDIN);
        frame(s - 1, STDOUT, 0, EVIL, sizeof(EVIL) - 1);
        number(s, STARTED, 1);
        frame(s, STDOUT, 0, "here\n", 5);
        frame(s, STDOUT, 0, "", 0);
        frame(s, STDERR, 0, "", 0);
        number(s, EXIT, 3 << 8);
        s = until(EXEC);
        number(s + 1, EXIT, 0); /* of nobody yet */
#elif ATTACK == 4 /* bytes given back that nobody sent */
        s = opened();
        number(s, STARTED, 1);
        window(s, 0xffffffff, STDIN);
#elif ATTACK == 5 /* told a million times that it has started */
        s = opened();
        for (;;)
                number(s, STARTED, 1);
#elif ATTACK == 6 /* nothing given back, a million times */
        s = opened();
        number(s, STARTED, 1);
        for (;;)
                window(s, 0, STDIN);
#elif ATTACK == 7 /* more output than the window holds, and for ever */
        s = opened();
        number(s, STARTED, 1);
        memset(block, 'x', sizeof(block));
        for (;;)
                frame(s, STDERR, 0, block, sizeof(block));
#elif ATTACK == 8 /* hears nothing, prints for ever on the console */
        s = opened();
        number(s, STARTED, 1);
        for (;;)
                (void)!write(1, EVIL "\n", sizeof(EVIL));
#elif ATTACK == 9 /* hello again */
        s = opened();
        number(0, HELLO, VERSION);
#elif ATTACK == 10 /* not a word */
#endif
        (void)s, (void)block, (void)failed, (void)opened, (void)window;
}

int main(void)
{
        mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/dev", 0755);
        mount("devtmpfs", "/dev", "devtmpfs", 0, "");
        mount("proc", "/proc", "proc", 0, "");
        mount("sysfs", "/sys", "sysfs", 0, "");
        int console = open("/dev/ttyS0", O_RDWR);
        if (console >= 0)
                dup2(console, 1), dup2(console, 2);
        modules();
        open_port();
        attack();
        for (;;)
                pause();
}
