/* brome demo: the whole story on this machine alone. It runs the very commands that it prints, with a configuration, a state and a supervisor
 * of its own in a temporary folder, against a server of its own on 127.0.0.1. Nothing of the user's set-up is read or changed. */
#include "cli/cli.h"
#include "base/fd.h"
#include "cli/demo_origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const demo_names[] = { "forge.example", "mailbox.example", NULL };

struct demo {
        char folder[64];
        struct demo_origin origin;
        bool colour;
        unsigned step;
};

static int write_text(const struct demo *d, const char *name, const char *text, struct err *err)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", d->folder, name);
        return fd_write_file(path, 0600, text, strlen(text), err);
}

static int prepare(struct demo *d, struct err *err)
{
        static const char *const vars[][2] = { { "BROME_CONFIG", "brome.conf" }, { "BROME_STATE", "state" }, { "BROME_RUNTIME", "run" } };
        char text[1024], path[128];

        snprintf(d->folder, sizeof(d->folder), "/tmp/brome-demo-XXXXXX");
        if (!mkdtemp(d->folder))
                return err_sys(err, errno, "cannot make a folder in /tmp");
        snprintf(path, sizeof(path), "%s/ca.pem", d->folder);
        if (demo_origin_start(&d->origin, path, demo_names, err) < 0)
                return -1;
        snprintf(text, sizeof(text),
                 "# Stand-ins: both names lead to a server on this machine, with a certificate of its own.\n"
                 "host forge.example   { address 127.0.0.1 port %u; ca file \"ca.pem\" }\n"
                 "host mailbox.example { address 127.0.0.1 port %u; ca file \"ca.pem\" }\n\n"
                 "workspace demo {\n        rules {\n                allow web forge.example read-only\n                default deny\n        }\n}\n",
                 d->origin.port, d->origin.port);
        if (write_text(d, "brome.conf", text, err) < 0 ||
            write_text(d, "new.rules", "allow web forge.example read-only\nallow web mailbox.example read-only\ndefault deny\n", err) < 0)
                return -1;
        for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", d->folder, vars[i][1]);
                if (setenv(vars[i][0], path, 1) < 0)
                        return err_sys(err, errno, "setenv");
        }
        return chdir(d->folder) < 0 ? err_sys(err, errno, "%s", d->folder) : 0;
}

static void say(struct demo *d, const char *text)
{
        printf("\n%s%u. %s%s\n", d->colour ? "\033[1m" : "", ++d->step, text, d->colour ? "\033[0m" : "");
        fflush(stdout);
}

/* Prints and runs `brome ARGUMENTS`; its exit status. */
static int brome(struct demo *d, const char *const *arguments)
{
        const char *argv[24] = { "brome" };
        size_t n = 1;
        int status;
        pid_t pid;

        printf("%s   $ brome", d->colour ? "\033[2m" : "");
        for (; arguments[n - 1] && n < 23; n++) {
                argv[n] = arguments[n - 1];
                printf(strpbrk(argv[n], " ;|&") ? " '%s'" : " %s", argv[n]);
        }
        printf("%s\n", d->colour ? "\033[0m" : "");
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                execv("/proc/self/exe", (char *const *)argv);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
                return -1;
        return WEXITSTATUS(status);
}
#define BROME(d, ...) brome(d, (const char *const[]){ __VA_ARGS__, NULL })

/* Each step with what must come of it; the number of the first that went otherwise, or 0. */
static unsigned tell(struct demo *d)
{
        say(d, "A workspace starts. Its rules allow one host, for reading.");
        if (BROME(d, "workspace", "start", "demo") != 0 || BROME(d, "rules", "show", "demo") != 0)
                return d->step;
        say(d, "Inside, no proxy is set and there is nothing to log in with. Reading from the allowed host works.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail", "https://forge.example/readme") != 0)
                return d->step;
        say(d, "A write to the same host is refused at the gate, and the refusal says which rule would allow it.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail-with-body", "-d", "note=hello", "https://forge.example/notes") != 22)
                return d->step;
        say(d, "Another host does not even have an address.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "https://mailbox.example/") != 6)
                return d->step;
        say(d, "The rules are edited while the workspace runs; the next request goes through.");
        if (BROME(d, "rules", "set", "demo", "new.rules") != 0 ||
            BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail", "https://mailbox.example/") != 0)
                return d->step;
        say(d, "Every verdict is in the Security Timeline, and the journal's chain proves that no line is missing.");
        if (BROME(d, "workspace", "stop", "demo") != 0 || BROME(d, "timeline", "demo") != 0 || BROME(d, "trace", "verify") != 0)
                return d->step;
        return 0;
}

static void remove_folder(const char *folder)
{
        pid_t pid = fork();

        if (pid == 0) {
                execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
                _exit(127);
        }
        if (pid > 0)
                waitpid(pid, NULL, 0);
}

int cmd_demo(struct cli *cli, int argc, char **argv)
{
        bool keep = false;
        const struct cli_option options[] = { { .name = "keep", .flag = &keep } };
        struct demo d = { .colour = cli_colour() };
        struct err err = ERR_INIT;
        int at = cli_options(cli, argc, argv, options, 1);
        const char *self = getenv("BROME_TOP") ? "./brome" : "brome";
        unsigned failed;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (prepare(&d, &err) < 0) {
                demo_origin_stop(&d.origin);
                return cli_fail(EXIT_HOST, "%s", err.text);
        }
        printf("brome demo: everything happens on this machine, in %s.\n", d.folder);
        failed = tell(&d);
        if (BROME(&d, "daemon", "stop") != 0)
                cli_note("the demonstration's supervisor did not stop by itself");
        demo_origin_stop(&d.origin);
        if (chdir("/") == 0 && !keep && !failed)
                remove_folder(d.folder);
        if (failed)
                return cli_fail(EXIT_NO, "step %u did not go as told. %s doctor says what this machine lacks; the log is %s/run/bromed.log", failed, self, d.folder);
        printf("\nNow your own command:\n\n   %s run --allow 'web example.org read-only' -- curl -sS https://example.org/\n\n", self);
        return EXIT_OK;
}
