/* Makes one system call inside another process, as whoever took it over would, and tells what came of it:  inject PID NUMBER ARG…
 * An argument is a number, or `s:TEXT` for the address of a string. Prints `killed N` (a signal), or `returned N`. x86-64 only; needs ptrace rights.
 * The process is stopped inside a system call it waits in (our programs always wait in one); its instruction is used again. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { TEXT_BELOW = 4096, TEXT_EACH = 256 }; /* below the red zone of whatever runs there */

#ifdef __x86_64__
static int put_text(pid_t pid, unsigned long at, const char *text)
{
        char padded[TEXT_EACH] = { 0 };

        snprintf(padded, sizeof(padded), "%s", text);
        for (size_t i = 0; i < sizeof(padded); i += sizeof(long)) {
                long word;
                memcpy(&word, padded + i, sizeof(word));
                if (ptrace(PTRACE_POKEDATA, pid, (void *)(at + i), (void *)word) < 0)
                        return -1;
        }
        return 0;
}

static int tell(pid_t pid)
{
        struct user_regs_struct regs;
        int status;

        if (waitpid(pid, &status, __WALL) != pid)
                return perror("wait"), 1;
        if (WIFSIGNALED(status))
                return printf("killed %d\n", WTERMSIG(status)), 0;
        if (WIFEXITED(status))
                return printf("exited %d\n", WEXITSTATUS(status)), 0;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
                return errno == ESRCH ? (printf("killed %d\n", SIGSYS), 0) : (perror("registers"), 1);
        return printf("returned %lld\n", (long long)regs.rax), 0;
}

int main(int argc, char **argv)
{
        pid_t pid = argc > 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
        struct user_regs_struct regs, now;
        unsigned long long *slots[] = { &now.rdi, &now.rsi, &now.rdx, &now.r10, &now.r8, &now.r9 };
        int status, rc;

        if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, __WALL) != pid ||
            ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
                return perror("attach"), 2;
        now = regs;
        if ((ptrace(PTRACE_PEEKTEXT, pid, (void *)(regs.rip - 2), NULL) & 0xffff) != 0x050f)
                return fputs("not in a system call\n", stderr), 2;
        now.rip -= 2;
        now.orig_rax = ~0ull; /* nothing to restart */
        now.rax = strtoull(argv[2], NULL, 0);
        for (int i = 3; i < argc && i < 9; i++) {
                unsigned long at = (unsigned long)regs.rsp - TEXT_BELOW - (unsigned long)i * TEXT_EACH;
                *slots[i - 3] = strncmp(argv[i], "s:", 2) ? (unsigned long long)strtoll(argv[i], NULL, 0) : at;
                if (strncmp(argv[i], "s:", 2) == 0 && put_text(pid, at, argv[i] + 2) < 0)
                        return perror("text"), 2;
        }
        if (ptrace(PTRACE_SETREGS, pid, NULL, &now) < 0 || ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
                return perror("step"), 2;
        rc = tell(pid);
        ptrace(PTRACE_SETREGS, pid, NULL, &regs);
        ptrace(PTRACE_DETACH, pid, NULL, NULL);
        return rc;
}
#else
int main(void) { return fputs("x86-64 only\n", stderr), 77; }
#endif
