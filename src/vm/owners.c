/* Namespaces to build in: see owners.h. */
#include "vm/owners.h"
#include "base/fd.h"
#include "vm/tool.h"
#include "vm/subids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        POLL_MS = 200,         /* how late a stop is seen, at worst: the signal itself wakes poll */
        EXIT_FAILED = 70,
        TREE_DEPTH = 128,      /* of folders to remove: a package has no deeper one */
};

struct outcome {
        int rc;
        struct err err;
};

static bool range_of(const char *file, uint32_t *first)
{
        const struct passwd *pw = getpwuid(getuid());
        struct buf text;
        struct err quiet = ERR_INIT;
        bool found;

        buf_init(&text, 0);
        found = fd_read_file(file, &text, SUBIDS_FILE_BYTES, &quiet) == 0 && subids_find(buf_slice(&text), pw ? pw->pw_name : "", getuid(), first);
        buf_fini(&text);
        return found;
}

void owners_find(struct owners *o)
{
        char path[PATH_MAX];

        *o = (struct owners){ .kind = OWNERS_ONE };
        if (geteuid() == 0)
                o->kind = OWNERS_ROOT;
        else if (range_of("/etc/subuid", &o->first_uid) && range_of("/etc/subgid", &o->first_gid) && tool_find(path, "newuidmap") == 0 &&
                 tool_find(path, "newgidmap") == 0)
                o->kind = OWNERS_RANGE;
}

/* ---- outside: the maps ---- */

static int map_range(pid_t pid, const char *program, uint32_t own, uint32_t first, struct err *err)
{
        char path[PATH_MAX], who[16], own_text[16], first_text[16], count[16];
        const char *const argv[] = { program, who, "0", own_text, "1", "1", first_text, count, NULL };
        struct tool c = { .argv = argv, .log = -1 };

        if (tool_find(path, program) < 0)
                return err_set(err, "%s is missing; apt-get install uidmap", program);
        snprintf(who, sizeof(who), "%d", (int)pid);
        snprintf(own_text, sizeof(own_text), "%u", own);
        snprintf(first_text, sizeof(first_text), "%u", first);
        snprintf(count, sizeof(count), "%d", SUBIDS_NEEDED - 1);
        if (tool_run(&c, err) < 0)
                return err_set(err, "%s refused the ids of /etc/subuid and /etc/subgid; look at this user's lines there", program);
        return 0;
}

static int write_text(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC), rc;

        if (fd < 0)
                return -1;
        rc = fd_write_all(fd, text, strlen(text));
        fd_close(&fd);
        return rc;
}

static int map_one(pid_t pid, struct err *err)
{
        static const char *const files[] = { "setgroups", "uid_map", "gid_map" };
        char path[64], text[64];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
                snprintf(text, sizeof(text), "0 %u 1\n", i == 1 ? getuid() : getgid());
                if (write_text(path, i == 0 ? "deny" : text) < 0)
                        return err_sys(err, errno, "cannot map the ids of a user namespace");
        }
        return 0;
}

/* ---- inside ---- */

/* With one id there is nobody to give a file to, and nobody to become. */
static int lie_about_owners(void)
{
        static const int calls[] = { SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(setgroups), SCMP_SYS(setuid), SCMP_SYS(setgid),
                                     SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid) };
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
        int rc = ctx ? 0 : -1;

        for (size_t i = 0; rc == 0 && i < sizeof(calls) / sizeof(calls[0]); i++)
                rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), calls[i], 0);
        if (rc == 0)
                rc = seccomp_load(ctx);
        seccomp_release(ctx);
        return rc < 0 ? -1 : 0;
}

static void send_outcome(int fd, int rc, const struct err *err)
{
        struct outcome out = { .rc = rc, .err = *err };

        if (fd_write_all(fd, &out, sizeof(out)) < 0)
                _exit(EXIT_FAILED);
}

/* PID 1: its end is the end of everything below. */
static void first_process(const struct owners *o, int (*fn)(void *, struct err *), void *arg, int result)
{
        struct err err = ERR_INIT;
        int rc = -1;

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                err_sys(&err, errno, "cannot mount in a namespace of our own; `brome doctor` says what forbids it");
        else if (o->kind == OWNERS_ONE && lie_about_owners() < 0)
                err_set(&err, "the kernel takes no seccomp filter");
        else
                rc = fn(arg, &err);
        send_outcome(result, rc, &err);
        _exit(rc < 0 ? EXIT_FAILED : 0);
}

/* The process between: it makes the namespaces and waits. */
static void middle(const struct owners *o, int (*fn)(void *, struct err *), void *arg, int result, int ready, int mapped)
{
        struct err err = ERR_INIT;
        char byte;
        pid_t pid;
        int status;

        setpgid(0, 0); /* the terminal's ^C is brome's alone */
        if (o->kind != OWNERS_ROOT) {
                prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
                if (unshare(CLONE_NEWUSER) < 0) {
                        err_sys(&err, errno, "no user namespace can be made; `brome doctor` says what forbids it");
                        goto fail;
                }
                if (write(ready, "x", 1) != 1 || read(mapped, &byte, 1) != 1)
                        _exit(EXIT_FAILED); /* the parent said why */
                if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 || (o->kind == OWNERS_RANGE && setgroups(0, NULL) < 0)) {
                        err_sys(&err, errno, "cannot become root in a user namespace");
                        goto fail;
                }
        }
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) < 0 || (pid = fork()) < 0) {
                err_sys(&err, errno, "cannot make namespaces to build in");
                goto fail;
        }
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                umask(022);
                first_process(o, fn, arg, result);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        _exit(0);
fail:
        send_outcome(result, -1, &err);
        _exit(EXIT_FAILED);
}

/* ---- the whole ---- */

struct pipes {
        int ready[2], mapped[2], result[2];
};

static void pipes_close(struct pipes *p)
{
        int *const fds[] = { &p->ready[0], &p->ready[1], &p->mapped[0], &p->mapped[1], &p->result[0], &p->result[1] };

        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
                fd_close(fds[i]);
}

static int pipes_open(struct pipes *p, struct err *err)
{
        *p = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
        if (pipe2(p->ready, O_CLOEXEC) == 0 && pipe2(p->mapped, O_CLOEXEC) == 0 && pipe2(p->result, O_CLOEXEC) == 0)
                return 0;
        err_sys(err, errno, "no pipe");
        pipes_close(p);
        return -1;
}

/* Maps the ids when the other side has its namespace. 0 also when it could not make one: it says so itself. */
static int map(const struct owners *o, pid_t pid, struct pipes *p, struct err *err)
{
        char byte;

        if (read(p->ready[0], &byte, 1) != 1)
                return 0;
        if (o->kind == OWNERS_ONE) {
                if (map_one(pid, err) < 0)
                        return -1;
        } else if (map_range(pid, "newuidmap", geteuid(), o->first_uid, err) < 0 || map_range(pid, "newgidmap", getegid(), o->first_gid, err) < 0) {
                return -1;
        }
        return write(p->mapped[1], "x", 1) == 1 ? 0 : err_sys(err, errno, "the builder is gone");
}

/* Reads the result, or its absence. */
static int wait_for_result(const struct owners *o, int fd, struct err *err)
{
        struct outcome out;
        size_t got = 0;

        while (got < sizeof(out)) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                ssize_t n;
                if (o->stop && *o->stop)
                        return err_set(err, "interrupted; nothing was changed");
                if (poll(&p, 1, POLL_MS) <= 0)
                        continue;
                n = read(fd, (char *)&out + got, sizeof(out) - got);
                if (n == 0)
                        return err_set(err, "the builder was killed; memory may have run out");
                if (n > 0)
                        got += (size_t)n;
        }
        if (out.rc < 0)
                *err = out.err;
        return out.rc;
}

int owners_run(const struct owners *o, int (*fn)(void *arg, struct err *err), void *arg, struct err *err)
{
        struct pipes p;
        pid_t pid;
        int rc;

        if (pipes_open(&p, err) < 0)
                return -1;
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                struct sigaction plain = { .sa_handler = SIG_DFL };
                static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
                for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                        sigaction(numbers[i], &plain, NULL);
                fd_close(&p.ready[0]);
                fd_close(&p.mapped[1]);
                fd_close(&p.result[0]);
                middle(o, fn, arg, p.result[1], p.ready[1], p.mapped[0]);
        }
        fd_close(&p.ready[1]);
        fd_close(&p.mapped[0]);
        fd_close(&p.result[1]);
        if (pid < 0)
                rc = err_sys(err, errno, "no process");
        else
                rc = o->kind == OWNERS_ROOT ? 0 : map(o, pid, &p, err);
        if (rc == 0)
                rc = wait_for_result(o, p.result[0], err);
        if (pid > 0) {
                if (rc < 0)
                        kill(pid, SIGKILL);
                while (waitpid(pid, &(int){ 0 }, 0) < 0 && errno == EINTR)
                        ;
        }
        pipes_close(&p);
        return rc;
}

/* ---- trees ---- */

static int empty_folder(int folder, unsigned depth);

static int remove_one(int at, const char *name, unsigned depth)
{
        int fd, rc;

        if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -1;
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -1;
        rc = empty_folder(fd, depth + 1);
        fd_close(&fd);
        return rc < 0 ? rc : unlinkat(at, name, AT_REMOVEDIR);
}

static int empty_folder(int folder, unsigned depth)
{
        int copy = depth > TREE_DEPTH ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
        DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
        const struct dirent *e;

        if (!d) {
                fd_close(&copy);
                return -1;
        }
        while (rc == 0 && (e = readdir(d)) != NULL)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        rc = remove_one(folder, e->d_name, depth);
        closedir(d);
        return rc;
}

int owners_remove_tree(int at, const char *name) { return remove_one(at, name, 0); }

int owners_empty_folder(int at, const char *name)
{
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

        if (fd < 0)
                return errno == ENOENT ? 0 : -1;
        rc = empty_folder(fd, 0);
        fd_close(&fd);
        return rc;
}
