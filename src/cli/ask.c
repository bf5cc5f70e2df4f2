/* Questions on the terminal: see ask.h. After readpassphrase(3): signals are noted, the modes put back, and only then are we ended or stopped. */
#include "cli/ask.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGALRM };
enum { CAUGHT_COUNT = sizeof(caught) / sizeof(caught[0]) };

static volatile sig_atomic_t pending;

static void on_signal(int number) { pending = number; }

static int open_terminal(void) { return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY); }

bool ask_possible(void)
{
        int tty = open_terminal();
        bool there = tty >= 0;

        fd_close(&tty);
        return there;
}

/* One line. 0; 1: a signal came; -1. */
static int read_line(int tty, char *out, size_t size, size_t *n, struct err *err)
{
        *n = 0;
        while (!pending) {
                ssize_t got = *n < size ? read(tty, out + *n, size - *n) : 0;

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return err_sys(err, errno, "the terminal");
                if (got == 0)
                        return err_set(err, *n < size ? "nothing was typed" : "that is too long to be typed; give it on standard input or in a file");
                *n += (size_t)got;
                if (out[*n - 1] == '\n') {
                        (*n)--;
                        return 0;
                }
        }
        return 1;
}

/* With the echo off and signals noted. 0; 1: a signal; -1. */
static int quietly(int tty, const char *prompt, char *out, size_t size, size_t *n, struct err *err)
{
        struct sigaction note = { .sa_handler = on_signal }, before[CAUGHT_COUNT];
        struct termios modes, quiet;
        int rc;

        if (tcgetattr(tty, &modes) < 0)
                return err_sys(err, errno, "the terminal");
        pending = 0;
        for (size_t i = 0; i < CAUGHT_COUNT; i++)
                sigaction(caught[i], &note, &before[i]);
        quiet = modes;
        quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
        quiet.c_lflag |= ICANON | ISIG;
        while (tcsetattr(tty, TCSAFLUSH, &quiet) < 0 && errno == EINTR && !pending)
                ;
        if (!pending && fd_write_all(tty, prompt, strlen(prompt)) < 0)
                rc = err_sys(err, errno, "the terminal");
        else
                rc = read_line(tty, out, size, n, err);
        /* From the background this would stop us; the signal that says so is noted, not obeyed, and the modes are not ours to set then. */
        while (tcsetattr(tty, TCSAFLUSH, &modes) < 0 && errno == EINTR && pending != SIGTTOU)
                ;
        (void)!write(tty, "\n", 1);
        for (size_t i = 0; i < CAUGHT_COUNT; i++)
                sigaction(caught[i], &before[i], NULL);
        return pending ? 1 : rc;
}

int ask_hidden(const char *prompt, char *out, size_t size, size_t *n, struct err *err)
{
        int tty = open_terminal(), rc;

        if (tty < 0)
                return err_set(err, "there is no terminal to ask on");
        while ((rc = quietly(tty, prompt, out, size, n, err)) == 1) {
                int number = pending;

                kill(getpid(), number);
                /* Still here: it was a stop and we go on, or it is ignored. */
                if (number != SIGTSTP && number != SIGTTIN && number != SIGTTOU && number != SIGALRM) {
                        rc = err_set(err, "interrupted");
                        break;
                }
        }
        fd_close(&tty);
        return rc;
}

bool ask_yes(const char *question)
{
        int tty = open_terminal();
        char line[64];
        ssize_t n;

        if (tty < 0)
                return false;
        dprintf(tty, "brome: %s [y/N] ", question);
        n = read(tty, line, sizeof(line));
        fd_close(&tty);
        return n > 0 && (line[0] == 'y' || line[0] == 'Y');
}
