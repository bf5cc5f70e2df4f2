/* The client's end: see control.h. */
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "control/control.h"
#include "control/scope.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* SECURITY: a folder that somebody else could write holds somebody else's socket. */
static int check_folder(const char *path, struct err *err)
{
        struct stat st;

        if (lstat(path, &st) < 0)
                return err_sys(err, errno, "%s", path);
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
                return err_set(err, "%s must be a folder of yours with mode 0700; remove it, or set BROME_RUNTIME to another one", path);
        return 0;
}

/* 0: connected; 1: nobody listens; -1. */
static int dial(int *out, const struct paths *paths, struct err *err)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        struct ucred peer;
        socklen_t len = sizeof(peer);
        int fd;

        if (snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/bromed.sock", paths->runtime) >= (int)sizeof(sa.sun_path))
                return err_set(err, "%s is too long a path for a socket; set BROME_RUNTIME to a shorter one", paths->runtime);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_sys(err, errno, "socket");
        if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
                int e = errno;
                fd_close(&fd);
                return e == ENOENT || e == ECONNREFUSED || e == ENOTDIR ? 1 : err_sys(err, e, "%s", sa.sun_path);
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid()) {
                fd_close(&fd);
                return err_set(err, "%s belongs to another user", sa.sun_path);
        }
        *out = fd;
        return 0;
}

/* The child of start_daemon: becomes bromed, in a session of its own so that the terminal's signals do not reach it. */
static _Noreturn void become_daemon(const char *program, const char *config, int ready, bool scope)
{
        char number[16];
        const char *argv[] = { "bromed", "--ready-fd", number, config ? "--config" : NULL, config, NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        snprintf(number, sizeof(number), "%d", ready);
        setsid();
        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || fd_cloexec(ready, false) < 0)
                _exit(127);
        /* Nothing of the caller's terminal, pipes or locks may live on in a daemon. */
        if (ready > 3 && close_range(3, (unsigned)ready - 1, 0) < 0)
                _exit(127);
        if (close_range((unsigned)ready + 1, ~0U, 0) < 0)
                _exit(127);
        if (scope)
                scope_exec(program, argv);
        execv(program, (char *const *)argv);
        dprintf(ready, "cannot run %s: %s\n", program, strerror(errno));
        _exit(127);
}

/* Reads what bromed says: "ok" (0), or one line with the reason (-1). 1: it ended without a word. */
static int await_ready(int fd, struct err *err)
{
        char text[CONTROL_READY_BYTES];
        size_t at = 0;
        int64_t deadline = clock_mono_ms() + CONTROL_START_MS;

        while (at < sizeof(text) - 1) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                int64_t left = deadline - clock_mono_ms();
                ssize_t n;

                if (left <= 0 || poll(&p, 1, (int)left) == 0)
                        return err_set(err, "bromed did not get ready within %d s; see bromed.log in the runtime folder", CONTROL_START_MS / 1000);
                n = read(fd, text + at, sizeof(text) - 1 - at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                at += (size_t)n;
                if (text[at - 1] == '\n')
                        break;
        }
        while (at && text[at - 1] == '\n')
                at--;
        if (at == 2 && memcmp(text, "ok", 2) == 0)
                return 0;
        return at ? err_set(err, "bromed does not start: %s", esc(slice_of(text, at))) : 1;
}

static int start_once(const char *program, const struct control_options *o, bool scope, struct err *err)
{
        int ready[2], rc, status;
        pid_t pid;

        if (pipe2(ready, O_CLOEXEC) < 0)
                return err_sys(err, errno, "pipe");
        pid = fork();
        if (pid == 0) {
                /* Twice, so that bromed is nobody's child to wait for. */
                pid_t again = fork();
                if (again == 0)
                        become_daemon(program, o->config, ready[1], scope);
                _exit(again < 0 ? 1 : 0);
        }
        fd_close(&ready[1]);
        if (pid < 0) {
                fd_close(&ready[0]);
                return err_sys(err, errno, "fork");
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        rc = await_ready(ready[0], err);
        fd_close(&ready[0]);
        return rc;
}

/* In a control group of its own where systemd gives one; a systemd that is there and refuses is no reason to have no bromed. */
static int start_daemon(const struct control_options *o, struct err *err)
{
        char program[PATH_MAX];
        int rc;

        if (paths_program(program, "bromed", err) < 0)
                return -1;
        rc = scope_offered() ? start_once(program, o, true, err) : 1;
        if (rc == 1)
                rc = start_once(program, o, false, err);
        return rc == 1 ? err_set(err, "bromed ended while it started; see bromed.log in the runtime folder") : rc;
}

/* One starter at a time: the second finds the daemon of the first. */
static int start_locked(int *fd, const struct control_options *o, struct err *err)
{
        char path[PATH_MAX];
        int lock, rc;

        if (fd_mkdirs(o->paths->runtime, 0700, err) < 0 || check_folder(o->paths->runtime, err) < 0)
                return -1;
        if (snprintf(path, sizeof(path), "%s/start.lock", o->paths->runtime) >= (int)sizeof(path))
                return err_set(err, "BROME_RUNTIME is too long a path");
        lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock < 0)
                return err_sys(err, errno, "%s", path);
        while ((rc = flock(lock, LOCK_EX)) < 0 && errno == EINTR)
                ;
        rc = dial(fd, o->paths, err);
        if (rc == 1 && (rc = start_daemon(o, err)) == 0)
                rc = dial(fd, o->paths, err);
        fd_close(&lock);
        return rc == 1 ? err_set(err, "bromed said that it is ready and does not listen") : rc;
}

static int hello(struct control *c, const struct control_options *o, struct err *err)
{
        struct chan_msg msg;
        struct err why = ERR_INIT;
        int rc = -1;

        if (chan_send(c->fd, json_pack("{s:s, s:i, s:s}", "op", "hello", "version", CONTROL_VERSION, "build", BROME_VERSION), NULL, 0) < 0 &&
            errno != EPIPE) /* refused already: the reason waits to be read */
                return err_sys(err, errno, "bromed does not answer");
        if (chan_wait(c->fd, CONTROL_HELLO_MS, &msg, &why) != 1)
                return err_set(err, "bromed does not answer: %s", *why.text ? why.text : "timed out; 'brome daemon restart' helps");
        if (strcmp(msg.op, "hello") == 0 && chan_int(&msg, "version", 0) == CONTROL_VERSION) {
                c->pid = chan_int(&msg, "pid", 0);
                snprintf(c->build, sizeof(c->build), "%s", chan_str(&msg, "build", "?"));
                snprintf(c->config, sizeof(c->config), "%s", chan_str(&msg, "config", ""));
                rc = 0;
                if (o->config && *c->config && strcmp(o->config, c->config) != 0)
                        rc = err_set(err, "the running bromed reads %s; stop it first ('brome daemon stop'), or set BROME_RUNTIME and BROME_STATE for a second one",
                                     esc_str(c->config));
        } else if (strcmp(msg.op, "error") == 0) {
                err_set(err, "%s", esc_str(chan_str(&msg, "text", "bromed refused the connection")));
        } else {
                err_set(err, "another version of bromed runs; restart it with 'brome daemon restart'");
        }
        chan_msg_fini(&msg);
        return rc;
}

int control_connect(struct control *c, const struct control_options *o, struct err *err)
{
        struct stat st;
        int rc;

        *c = (struct control){ .fd = -1 };
        if (lstat(o->paths->runtime, &st) == 0 && check_folder(o->paths->runtime, err) < 0)
                return -1;
        rc = dial(&c->fd, o->paths, err);
        if (rc == 1 && o->start)
                rc = start_locked(&c->fd, o, err);
        if (rc != 0)
                return rc;
        if (hello(c, o, err) < 0) {
                control_close(c);
                return -1;
        }
        return 0;
}

void control_close(struct control *c) { fd_close(&c->fd); }

static int send_request(struct control *c, const char *op, json_t *body, const int *fds, const char *const *names, size_t count, struct err *err)
{
        json_t *list;

        if (!body)
                body = json_object();
        if (json_object_set_new(body, "op", json_string(op)) < 0 || json_object_set_new(body, "id", json_integer(++c->last_id)) < 0)
                goto memory;
        if (count) {
                list = json_array();
                for (size_t i = 0; i < count; i++)
                        if (json_array_append_new(list, json_string(names[i])) < 0) {
                                json_decref(list);
                                goto memory;
                        }
                if (json_object_set_new(body, "fds", list) < 0)
                        goto memory;
        }
        if (chan_send(c->fd, body, fds, count) == 0)
                return 0;
        return errno == EMSGSIZE ? err_set(err, "the command line or environment is too long (%d bytes at most)", CHAN_MESSAGE_BYTES)
                                 : err_sys(err, errno, "the connection to bromed is lost");
memory:
        json_decref(body);
        return err_set(err, "out of memory");
}

int control_call(struct control *c, const char *op, json_t *body, const int *fds, const char *const *fd_names, size_t fd_count,
                 control_progress_fn *progress, void *ctx, struct chan_msg *answer, struct err *err)
{
        int64_t deadline;

        *answer = (struct chan_msg){ 0 };
        if (send_request(c, op, body, fds, fd_names, fd_count, err) < 0)
                return -1;
        deadline = clock_mono_ms() + CONTROL_ANSWER_MS;
        for (;;) {
                struct err why = ERR_INIT;
                int64_t left = deadline - clock_mono_ms();
                int rc = chan_wait(c->fd, left > 0 ? (int)left : 0, answer, &why);

                if (rc == 0 && left > 0)
                        continue; /* a signal */
                if (rc == 0)
                        return err_set(err, "bromed did not answer within %d s", CONTROL_ANSWER_MS / 1000);
                if (rc < 0)
                        return err_set(err, "the connection to bromed is lost (%s); see bromed.log in the runtime folder", why.text);
                deadline = clock_mono_ms() + CONTROL_ANSWER_MS;
                if (strcmp(answer->op, "progress") == 0) {
                        if (progress)
                                progress(ctx, esc_str(chan_str(answer, "step", "")));
                } else if (chan_int(answer, "id", 0) == c->last_id) {
                        if (strcmp(answer->op, "error") != 0)
                                return 0;
                        err_set(err, "%s", esc_str(chan_str(answer, "text", "bromed refused the request without a reason")));
                        return CONTROL_REFUSED;
                }
                chan_msg_fini(answer);
        }
}

int control_ask(struct control *c, const char *op, json_t *body, struct chan_msg *answer, struct err *err)
{
        return control_call(c, op, body, NULL, NULL, 0, NULL, NULL, answer, err);
}
