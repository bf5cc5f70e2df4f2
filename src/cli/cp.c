/* brome cp: files and folders into and out of a running workspace.
 *
 * The other end is the workspace's own tar, run as its root; between them is an archive that this side writes, or reads as strictly as what a guest sends has to be
 * read (share/tar.h, take.h). Into a workspace it is unpacked beside its place and moved there when it is whole. Signals end it at the next turn, so that nothing stays half written. */
#include "cli/cli.h"
#include "attach/stream.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/session.h"
#include "cli/take.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        CP_LINE_BYTES = 400,      /* of what tar says inside */
        CP_PROGRESS_US = 1000 * 1000,
};
#define CP_BYTES_MAX (16ULL << 30) /* out of a workspace, without --limit: a guest must not fill the disk of whoever asks for a report */

static volatile sig_atomic_t caught;
static void on_signal(int number) { caught = number; }

struct cp {
        struct cli *cli;
        struct control control;
        char workspace[64];
        struct stream stream;
        sigset_t before, held; /* what is blocked while we wait, and otherwise */
        uint64_t files, bytes, left_out, told;
        int64_t began_us, said_us;
        bool shown;
};

/* "NAME:PATH", NAME a workspace's. A file of such a name is ./NAME:PATH. */
static const char *path_in(const char *operand, char workspace[64])
{
        size_t n = strcspn(operand, ":/");

        if (operand[n] != ':' || n == 0 || n >= 64)
                return NULL;
        memcpy(workspace, operand, n);
        workspace[n] = 0;
        return cli_name_ok(workspace) ? operand + n + 1 : NULL;
}

/* The last name of a path, without slashes behind it; NULL where there is none. */
static const char *last_name(const char *path, char out[TAR_NAME_BYTES + 1])
{
        size_t n = strlen(path), from;

        while (n > 1 && path[n - 1] == '/')
                n--;
        for (from = n; from > 0 && path[from - 1] != '/'; from--)
                ;
        if (n - from > TAR_NAME_BYTES || n == from)
                return NULL;
        memcpy(out, path + from, n - from);
        out[n - from] = 0;
        return strcmp(out, ".") == 0 || strcmp(out, "..") == 0 ? NULL : out;
}

static void folder_of(const char *path, char out[PATH_MAX])
{
        char copy[PATH_MAX];

        snprintf(copy, sizeof(copy), "%s", path);
        snprintf(out, PATH_MAX, "%s", dirname(copy));
}

/* A folder of this machine that no link leads to: a workspace may have put one into a share. -1 after the error. */
static int open_folder(const char *path, int *code)
{
        struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
        char real[PATH_MAX], hint[PATH_MAX + 64];
        int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)), e = errno;

        if (fd >= 0)
                return fd;
        snprintf(hint, sizeof(hint), "name %s, if that is meant", realpath(path, real) ? esc_str(real) : "what it leads to");
        *code = e == ELOOP ? cli_fail_hint(EXIT_NO, hint, "%s leads through a link", esc_str(path)) : cli_fail(EXIT_NO, "%s: %s", esc_str(path), strerror(e));
        return -1;
}

/* ---- the stream ---- */

static void progress(struct cp *c)
{
        int64_t now = clock_mono_us();

        if (c->cli->json || !isatty(STDERR_FILENO) || now - c->began_us < CP_PROGRESS_US || now - c->said_us < CP_PROGRESS_US)
                return;
        fprintf(stderr, "\r%llu files, %llu MB", (unsigned long long)c->files, (unsigned long long)(c->bytes >> 20));
        c->said_us = now;
        c->shown = true;
}

/* What the workspace's tar says, line by line. */
static int relay_errors(struct cp *c, bool all)
{
        for (;;) {
                struct slice s = stream_output(&c->stream, STREAM_STDERR);
                ptrdiff_t end = slice_find(s, '\n');
                size_t n = end >= 0 ? (size_t)end + 1 : all || s.n > CP_LINE_BYTES ? s.n : 0;

                if (n == 0)
                        return 0;
                if (c->told++ < TAKE_TOLD)
                        cli_note("%s: %s", c->workspace, esc(slice_first(s, end >= 0 && (size_t)end < CP_LINE_BYTES ? (size_t)end : n < CP_LINE_BYTES ? n : CP_LINE_BYTES)));
                if (stream_take(&c->stream, STREAM_STDERR, n) < 0)
                        return -1;
        }
}

/* Waits for the stream once. 0; -1: lost, or a signal (err is empty then). */
static int pump(struct cp *c, struct err *err)
{
        struct pollfd p = { .fd = c->stream.fd, .events = (short)(POLLIN | (stream_has_to_write(&c->stream) ? POLLOUT : 0)) };
        struct timespec second = { 1, 0 }, now = { 0 };
        int n = sigtimedwait(&c->held, NULL, &now); /* ppoll tells of none while the stream is busy */

        if (n > 0)
                caught = n;
        progress(c);
        if (caught)
                return -1;
        n = ppoll(&p, 1, &second, &c->before);
        if (n < 0 && errno != EINTR)
                return err_sys(err, errno, "poll");
        if (caught)
                return -1;
        if (n > 0 && (p.revents & POLLOUT))
                (void)!stream_write(&c->stream);
        if (n > 0 && (p.revents & ~POLLOUT) && stream_read(&c->stream) < 0)
                return err_set(err, "%s", c->stream.err.text);
        if (c->stream.failed)
                return err_set(err, "%s", c->stream.err.text);
        return relay_errors(c, c->stream.over);
}

static int begin(struct cp *c, const char *const *argv)
{
        static const char *const env[] = { "TAR_OPTIONS=" };
        struct session_exec e = { .workspace = c->workspace, .argv = argv, .env = env, .env_count = 1 };
        int fd, rc = session_stream(c->cli, &c->control, &e, &fd);

        if (rc == EXIT_OK)
                stream_open(&c->stream, fd);
        return rc;
}

static int exit_of(const struct stream *s) { return WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 128 + WTERMSIG(s->status); }

static int failed(const struct err *err)
{
        return caught ? 128 + (int)caught : cli_fail(EXIT_NO, "%s", err->text);
}

/* ---- out ---- */

static int take_one(struct cp *c, const char *source, int folder, const char *as, uint64_t bytes_max)
{
        static struct take t;
        char parent[PATH_MAX], from[TAR_NAME_BYTES + 1];
        struct err err = ERR_INIT;
        int rc;

        if (!last_name(source, from))
                return cli_usage(c->cli, "`%s` has no name of its own: name a file or a folder", esc_str(source));
        folder_of(source, parent);
        rc = begin(c, (const char *const[]){ "tar", "-C", parent, "--format=posix", "--hard-dereference", "-cf", "-", "--", from, NULL });
        if (rc != EXIT_OK)
                return rc;
        take_init(&t, folder, from, as ? as : from, c->workspace, bytes_max - c->bytes);
        rc = stream_send(&c->stream, SLICE_EMPTY);
        while (rc == 0) {
                struct slice got = stream_output(&c->stream, STREAM_STDOUT);

                if (got.n) {
                        rc = take_feed(&t, got, &err) < 0 ? -1 : stream_take(&c->stream, STREAM_STDOUT, got.n);
                        continue;
                }
                if (c->stream.over)
                        break;
                rc = pump(c, &err);
        }
        /* Without a whole archive its own words were said already. */
        if (rc == 0 && exit_of(&c->stream) != 0 && t.entries == 0)
                rc = EXIT_NO;
        else if (rc == 0)
                rc = take_finish(&t, &err) < 0 ? failed(&err) : exit_of(&c->stream) || t.left_out ? EXIT_NO : EXIT_OK;
        else
                rc = failed(&err);
        c->files += t.files;
        c->bytes += t.bytes;
        take_fini(&t);
        stream_close(&c->stream);
        return rc;
}

static int copy_out(struct cp *c, char **sources, int count, const char *dst, uint64_t bytes_max)
{
        char parent[PATH_MAX], name[TAR_NAME_BYTES + 1], workspace[64];
        struct stat st;
        bool into = stat(dst, &st) == 0 && S_ISDIR(st.st_mode);
        int folder, code = EXIT_NO, rc = EXIT_OK;

        if (!into && (count > 1 || dst[strlen(dst) - 1] == '/'))
                return cli_fail(EXIT_NO, "%s is no folder", esc_str(dst));
        if (!into && !last_name(dst, name))
                return cli_usage(c->cli, "`%s` is no name for a file", esc_str(dst));
        folder_of(dst, parent);
        folder = open_folder(into ? dst : parent, &code);
        if (folder < 0)
                return code;
        for (int i = 0; i < count && !caught; i++) {
                int one = take_one(c, path_in(sources[i], workspace), folder, into ? NULL : name, bytes_max);

                rc = one != EXIT_OK ? one : rc;
        }
        fd_close(&folder);
        return rc;
}

/* ---- in ---- */

/* Unpacks beside the place, moves what is whole. A folder that is there already is filled, as cp does. */
static const char unpack[] =
        "d=$1\n"
        "t=$(mktemp -d -- \"$d/.brome-cp.XXXXXXXX\") || exit 1\n"
        "trap 'rm -rf -- \"$t\"' EXIT\n"
        "trap 'exit 1' HUP INT TERM\n"
        "trap '' PIPE\n" /* what the shell says of its dead tar has no reader then */
        "tar -C \"$t\" --no-same-owner --no-same-permissions -xf - || exit 1\n"
        "rc=0\n"
        "for f in \"$t\"/* \"$t\"/.[!.]* \"$t\"/..?*; do\n"
        "  [ -e \"$f\" ] || [ -L \"$f\" ] || continue\n"
        "  n=${f##*/}\n"
        "  if [ -d \"$f\" ] && [ ! -L \"$f\" ] && [ -d \"$d/$n\" ]; then cp -R -P -p -- \"$f/.\" \"$d/$n/\" || rc=1\n"
        "  else mv -fT -- \"$f\" \"$d/$n\" || rc=1; fi\n"
        "done\n"
        "exit $rc\n";
/* What is there: 0 a folder, 3 something else, 4 nothing, in a folder, 5 nothing. */
static const char look[] = "if [ -d \"$1\" ]; then exit 0; elif [ -e \"$1\" ] || [ -L \"$1\" ]; then exit 3; elif [ -d \"$2\" ]; then exit 4; fi; exit 5";
enum { THERE_FOLDER = 0, THERE_FILE = 3, THERE_FREE = 4 };

static int feed(struct cp *c, struct slice bytes, struct err *err)
{
        while (bytes.n) {
                size_t room = stream_room(&c->stream);
                struct slice piece = slice_first(bytes, room);

                if (c->stream.over)
                        return err_set(err, "the workspace's tar has ended before everything was sent");
                if (piece.n && stream_send(&c->stream, piece) < 0)
                        return err_set(err, "out of memory");
                bytes = slice_skip(bytes, piece.n);
                if ((piece.n == 0 || stream_has_to_write(&c->stream)) && pump(c, err) < 0)
                        return -1;
        }
        return 0;
}

static int feed_headers(struct cp *c, const struct tar_entry *e, struct err *err)
{
        struct buf out;
        int rc;

        buf_init(&out, 0);
        rc = tar_write_entry(&out, e) < 0 ? err_set(err, "%s: no such name can be sent", esc_str(e->path)) : feed(c, buf_slice(&out), err);
        buf_fini(&out);
        return rc;
}

/* As many bytes as the header said, whatever becomes of the file meanwhile. */
static int feed_file(struct cp *c, int fd, const struct tar_entry *e, struct err *err)
{
        static uint8_t bytes[128 * 1024];
        uint64_t left = e->size;
        struct buf padding;
        int rc = feed_headers(c, e, err);

        while (rc == 0 && left > 0) {
                size_t want = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
                ssize_t n = read(fd, bytes, want);

                if (n <= 0)
                        return err_set(err, "%s: %s", esc_str(e->path), n < 0 ? strerror(errno) : "it became shorter while it was read");
                rc = feed(c, slice_of(bytes, (size_t)n), err);
                left -= (uint64_t)n;
                c->bytes += (uint64_t)n;
        }
        buf_init(&padding, 0);
        if (rc == 0)
                rc = tar_write_padding(&padding, e->size) < 0 ? err_set(err, "out of memory") : feed(c, buf_slice(&padding), err);
        buf_fini(&padding);
        c->files += rc == 0;
        return rc;
}

static void left_out(struct cp *c, const char *path, const char *why)
{
        c->left_out++;
        cli_note("%s: left out: %s", esc_str(path), why);
}

static int feed_tree(struct cp *c, int parent, const char *name, struct tar_entry *e, struct err *err);

static int feed_folder(struct cp *c, int fd, struct tar_entry *e, struct err *err)
{
        size_t n = strlen(e->path);
        DIR *dir = NULL;
        struct dirent *d;
        int rc = feed_headers(c, e, err);

        if (rc == 0 && !(dir = fdopendir(fd))) {
                left_out(c, e->path, strerror(errno));
                close(fd);
                return 0;
        }
        while (rc == 0 && (d = readdir(dir))) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                        continue;
                snprintf(e->path + n, sizeof(e->path) - n, "/%s", d->d_name);
                if (tar_path_ok(slice_str(e->path)))
                        rc = feed_tree(c, dirfd(dir), d->d_name, e, err);
                else
                        left_out(c, e->path, "its path is too long");
                e->path[n] = 0;
        }
        if (dir)
                closedir(dir);
        else
                close(fd);
        return rc;
}

/* No link is followed: not the one that is named, either; a workspace may have put it into a share. */
static int feed_tree(struct cp *c, int parent, const char *name, struct tar_entry *e, struct err *err)
{
        struct stat st;
        ssize_t n;
        int fd, rc;

        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                left_out(c, e->path, strerror(errno));
                return 0;
        }
        e->mode = st.st_mode & 0777;
        e->size = 0;
        if (S_ISLNK(st.st_mode)) {
                e->kind = TAR_LINK;
                n = readlinkat(parent, name, e->target, sizeof(e->target) - 1);
                e->target[n < 0 ? 0 : n] = 0;
                c->files++;
                return feed_headers(c, e, err);
        }
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
                left_out(c, e->path, "it is no file, no folder and no link");
                return 0;
        }
        fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (S_ISDIR(st.st_mode) ? O_DIRECTORY : 0));
        if (fd < 0 || fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
                left_out(c, e->path, strerror(errno));
                fd_close(&fd);
                return 0;
        }
        e->kind = S_ISDIR(st.st_mode) ? TAR_FOLDER : TAR_FILE;
        if (e->kind == TAR_FOLDER)
                return feed_folder(c, fd, e, err);
        e->size = (uint64_t)st.st_size;
        rc = feed_file(c, fd, e, err);
        fd_close(&fd);
        return rc;
}

static int feed_source(struct cp *c, const char *source, const char *as, struct err *err)
{
        static struct tar_entry e;
        char parent[PATH_MAX], name[TAR_NAME_BYTES + 1];
        int code, folder, rc;

        folder_of(source, parent);
        if (!last_name(source, name))
                return err_set(err, "`%s` has no name of its own: name a file or a folder", esc_str(source));
        folder = open_folder(parent, &code);
        if (folder < 0) {
                c->left_out++; /* said already */
                return 0;
        }
        snprintf(e.path, sizeof(e.path), "%s", as ? as : name);
        rc = feed_tree(c, folder, name, &e, err);
        fd_close(&folder);
        return rc;
}

/* Runs it to its end. */
static int settle(struct cp *c, struct err *err)
{
        int rc = 0;

        while (rc == 0 && !c->stream.over) {
                rc = pump(c, err);
                if (rc == 0 && stream_output(&c->stream, STREAM_STDOUT).n)
                        rc = stream_take(&c->stream, STREAM_STDOUT, stream_output(&c->stream, STREAM_STDOUT).n);
        }
        return rc;
}

static int look_at(struct cp *c, const char *path, const char *parent, int *there)
{
        struct err err = ERR_INIT;
        int rc = begin(c, (const char *const[]){ "sh", "-c", look, "sh", path, parent, NULL });

        if (rc != EXIT_OK)
                return rc;
        rc = stream_send(&c->stream, SLICE_EMPTY) < 0 || settle(c, &err) < 0 ? failed(&err) : EXIT_OK;
        *there = exit_of(&c->stream);
        stream_close(&c->stream);
        return rc;
}

static int send_end(struct cp *c, struct err *err)
{
        struct buf out;
        int rc;

        buf_init(&out, 0);
        rc = tar_write_end(&out) < 0 ? err_set(err, "out of memory") : feed(c, buf_slice(&out), err);
        buf_fini(&out);
        return rc < 0 || stream_send(&c->stream, SLICE_EMPTY) < 0 ? -1 : settle(c, err);
}

static int copy_in(struct cp *c, char **sources, int count, const char *dst)
{
        char parent[PATH_MAX], name[TAR_NAME_BYTES + 1];
        const char *folder = *dst ? dst : ".";
        struct err err = ERR_INIT;
        bool into;
        int there, rc;

        folder_of(folder, parent);
        rc = look_at(c, folder, parent, &there);
        if (rc != EXIT_OK)
                return rc;
        into = there == THERE_FOLDER;
        if (!into && (count > 1 || folder[strlen(folder) - 1] == '/' || !last_name(folder, name) || (there != THERE_FILE && there != THERE_FREE)))
                return cli_fail(EXIT_NO, "there is no folder %s in %s", esc_str(there == THERE_FREE || there == THERE_FILE ? folder : parent), c->workspace);
        rc = begin(c, (const char *const[]){ "sh", "-c", unpack, "sh", into ? folder : parent, NULL });
        if (rc != EXIT_OK)
                return rc;
        rc = 0;
        for (int i = 0; i < count && rc == 0; i++)
                rc = feed_source(c, sources[i], into ? NULL : name, &err);
        if (rc == 0)
                rc = send_end(c, &err);
        rc = rc < 0 ? failed(&err) : exit_of(&c->stream) || c->left_out ? EXIT_NO : EXIT_OK;
        stream_close(&c->stream);
        return rc;
}

/* ---- the command ---- */

/* Which side is the workspace: 1 the destination, 0 the sources; -1 after the usage error. */
static int direction(struct cli *cli, struct cp *c, char **operands, int count)
{
        char other[64];
        int in = path_in(operands[count - 1], c->workspace) != NULL;

        for (int i = 0; i < count - 1; i++) {
                bool inside = path_in(operands[i], other) != NULL;

                if (in && inside)
                        return cli_usage(cli, "from one workspace into another: copy by way of a folder of this machine"), -1;
                if (!in && !inside)
                        return cli_usage(cli, "neither side is WORKSPACE:PATH"), -1;
                if (!in && i > 0 && strcmp(other, c->workspace) != 0)
                        return cli_usage(cli, "from one workspace at a time"), -1;
                if (!in)
                        snprintf(c->workspace, sizeof(c->workspace), "%s", other);
        }
        return in;
}

static bool size_of(const char *text, uint64_t *out)
{
        static const char units[] = "KMGT";
        char *rest;
        unsigned long long v = *text >= '0' && *text <= '9' ? strtoull(text, &rest, 10) : 0;
        const char *unit = v && *rest ? strchr(units, *rest) : NULL;
        unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

        if (v == 0 || (*rest && (!unit || rest[1])) || v > (UINT64_MAX >> shift))
                return false;
        *out = v << shift;
        return true;
}

/* Signals are heard only while we wait: nothing is cut in half. */
static void hear_signals(struct cp *c)
{
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
        struct sigaction act = { .sa_handler = on_signal };
        sigemptyset(&c->held);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                sigaddset(&c->held, numbers[i]);
                sigaction(numbers[i], &act, NULL);
        }
        sigprocmask(SIG_BLOCK, &c->held, &c->before);
}

static void record(struct cp *c, bool out)
{
        struct chan_msg answer;
        struct err quiet = ERR_INIT;

        if (c->files == 0)
                return;
        (void)!control_ask(&c->control, "copied", json_pack("{s:s, s:I, s:I, s:b}", "workspace", c->workspace, "files", (json_int_t)c->files, "bytes", (json_int_t)c->bytes, "out", out),
                           &answer, &quiet);
        chan_msg_fini(&answer);
}

int cmd_cp(struct cli *cli, int argc, char **argv)
{
        static struct cp c;
        const char *limit = NULL, *dst;
        const struct cli_option options[] = { { .name = "limit", .text = &limit } };
        int at = cli_options(cli, argc, argv, options, 1), in, rc;
        uint64_t bytes_max = CP_BYTES_MAX;
        char workspace[64];

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at < 2)
                return cli_usage(cli, "what, and where to?");
        c = (struct cp){ .cli = cli, .control = { .fd = -1 }, .began_us = clock_mono_us() };
        in = direction(cli, &c, argv + at, argc - at);
        if (in < 0)
                return EXIT_USAGE_;
        if (limit && !size_of(limit, &bytes_max))
                return cli_usage(cli, "--limit takes a size, for example 100G");
        dst = argv[argc - 1];
        if (!*dst)
                return cli_usage(cli, "where to?");
        rc = session_connect(cli, &c.control, false);
        if (rc != EXIT_OK)
                return rc;
        hear_signals(&c);
        rc = in ? copy_in(&c, argv + at, argc - at - 1, path_in(dst, workspace)) : copy_out(&c, argv + at, argc - at - 1, dst, bytes_max);
        if (c.shown)
                fputc('\n', stderr);
        record(&c, !in);
        control_close(&c.control);
        return rc;
}
