/* Raw mode and its way back: see term.h. State is static because a crash handler has nowhere else to look. */
#include "attach/term.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static volatile sig_atomic_t is_raw;

static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP };
/* What a crash leaves on is not known here: switch off whatever would make the shell unusable. */
static const char crash_reset[] = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?2026l\x1b[<8u\x1b[>4m\x1b[?7h\x1b[?25h\x1b[?1l\x1b>\x1b[0m\x1b(B\x0f\r\n";

static void restore_at_exit(void) { term_restore(true); }

static void on_crash(int number)
{
        if (is_raw) {
                ssize_t n = write(STDOUT_FILENO, crash_reset, sizeof(crash_reset) - 1);
                (void)n;
        }
        term_restore(true);
        raise(number); /* SA_RESETHAND: now with its default effect, delivered on return */
}

int term_raw(void)
{
        static bool armed;
        struct termios t;
        if (!is_raw && tcgetattr(STDIN_FILENO, &saved) < 0)
                return -1;
        if (!armed) {
                struct sigaction a = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };
                for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(fatal_signals[0]); i++)
                        sigaction(fatal_signals[i], &a, NULL);
                atexit(restore_at_exit);
                armed = true;
        }
        t = saved;
        cfmakeraw(&t);
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
        while (tcsetattr(STDIN_FILENO, TCSANOW, &t) < 0)
                if (errno != EINTR)
                        return -1;
        is_raw = 1;
        return 0;
}

void term_restore(bool flush)
{
        if (!is_raw)
                return;
        is_raw = 0;
        while (tcsetattr(STDIN_FILENO, flush ? TCSAFLUSH : TCSADRAIN, &saved) < 0 && errno == EINTR)
                ;
}

void term_drain(int quiet_ms, int at_most_ms)
{
        char drop[512];
        struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
        int64_t until = clock_mono_ms() + at_most_ms;
        while (is_raw && clock_mono_ms() < until && poll(&p, 1, quiet_ms) > 0 && (p.revents & POLLIN))
                if (read(STDIN_FILENO, drop, sizeof(drop)) <= 0)
                        return;
}
