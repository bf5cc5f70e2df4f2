/* Building an image, from the host's sources to the link `current`: see build.h. */
#include "vm/build_priv.h"
#include "vm/tool.h"
#include "vm/image.h"
#include "vm/probe.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
        HOST_LACKS = -2,
        STEPS = 6,
        OS_RELEASE_BYTES = 64 * 1024,
        KEY_BYTES = 1024 * 1024,      /* one keyring */
        SOURCE_FILES = 256,           /* in sources.list.d */
        PACKAGES_BYTES = 512 * 1024,  /* dpkg-query's list: 600 packages are 20 KB */
        REMOVE_TRIES = 20,            /* of what an interrupted build left: two seconds for programs that were killed */
        REMOVE_WAIT_US = 100 * 1000,
};
#define SPACE_BYTES (3ull * 1024 * 1024 * 1024) /* root folder, packages, kernel and the finished disk side by side: 2.2 GB measured */
#define FULL_BYTES (64ull * 1024 * 1024)        /* less than this left after a failure: that was it */

static const struct distribution distributions[] = {
        { "debian", "linux-image-amd64", "linux-image-arm64" },
        { "ubuntu", "linux-image-generic", "linux-image-generic" },
};

/* What is in every machine besides the distribution's essential packages and apt. */
static const struct {
        const char *name, *why;
} packages[] = {
        { "ca-certificates", "TLS: the workspace's CA goes into its store" },
        { "curl", "fetching; agents' scripts call it" },
        { "git", "sources" },
        { "openssh-client", "git over ssh, keys" },
        { "nodejs", "most agents are programs for it" },
        { "npm", "installs them" },
        { "python3", "scripts of agents and of builds" },
        { "python3-venv", "python packages without the system's" },
        { "python3-pip", "the same" },
        { "iproute2", "ip and ss: what the network is" },
        { "iputils-ping", "is it there" },
        { "procps", "ps, pkill, top" },
        { "less", "pager of git and man" },
        { "patch", "agents' edits" },
        { "jq", "JSON in scripts" },
        { "ripgrep", "how agents search" },
        { "unzip", "archives of release pages" },
        { "xz-utils", "the same; kernel modules of newer distributions" },
        { "zstd", "the same" },
        { "kmod", "modprobe: overlay, nf_tables, tun and the like load by themselves" },
        { "e2fsprogs", "the disks are ext4" },
        { "sudo", "scripts call it, though everybody is root" },
};

/* ---- small things that all steps use ---- */

void build_path(const struct build *b, char out[PATH_MAX], const char *format, ...)
{
        char tail[PATH_MAX];
        va_list ap;
        int n;

        va_start(ap, format);
        vsnprintf(tail, sizeof(tail), format, ap);
        va_end(ap);
        n = snprintf(out, PATH_MAX, "%s/%s", b->work, tail);
        if (n < 0 || n >= PATH_MAX)
                abort(); /* names below are ours or checked, the folder's length is */
}

static uint64_t space_left(const char *path)
{
        struct statvfs v;
        return statvfs(path, &v) < 0 ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

int build_out_of_space(const struct build *b, int errno_value, struct err *err, const char *what)
{
        if (errno_value == ENOSPC || errno_value == EDQUOT)
                return err_set(err, "the disk is full (%s); an image takes 3 GB while it is built and 1 GB afterwards: make room at %s", what, esc_str(b->how->state));
        return err_sys(err, errno_value, "%s", what);
}

int build_run(struct build *b, const char *const *argv, bool inside, struct err *err)
{
        char root[PATH_MAX];
        struct tool c = { .argv = argv, .env = b->env, .folder = inside ? "/" : b->work, .root = inside ? root : NULL, .log = b->log };
        struct err why = ERR_INIT;
        struct buf tail;

        build_path(b, root, "root");
        if (tool_run(&c, &why) == 0)
                return 0;
        buf_init(&tail, 0);
        tool_tail(b->log, "    ", &tail);
        if (b->how->lines)
                b->how->lines(buf_slice(&tail));
        buf_fini(&tail);
        if (space_left(b->work) < FULL_BYTES)
                return build_out_of_space(b, ENOSPC, err, argv[0]);
        return err_set(err, "%s; its last lines stand above", why.text);
}

static void step(struct build *b, int n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void step(struct build *b, int n, const char *format, ...)
{
        char text[256], line[300];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        snprintf(line, sizeof(line), "image %d/%d: %s", n, STEPS, text);
        if (b->how->step)
                b->how->step(line);
}

/* ---- what the host is ---- */

/* The value of NAME=value or NAME="value" in os-release(5); "" when it is not there. */
static void os_release(struct slice text, const char *name, char *out, size_t size)
{
        size_t n = strlen(name);

        out[0] = 0;
        while (text.n > 0) {
                ptrdiff_t end = slice_find(text, '\n');
                struct slice line = end < 0 ? text : slice_first(text, (size_t)end), value;
                text = end < 0 ? SLICE_EMPTY : slice_skip(text, (size_t)end + 1);
                if (!slice_starts(line, slice_str(name)) || line.n <= n || line.p[n] != '=')
                        continue;
                value = slice_skip(line, n + 1);
                if (value.n >= 2 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0])
                        value = slice_of(value.p + 1, value.n - 2);
                if (value.n < size) {
                        memcpy(out, value.p, value.n);
                        out[value.n] = 0;
                }
        }
}

static int find_distribution(struct build *b, struct err *err)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
        char id[32] = "";
        struct buf text;
        struct err quiet = ERR_INIT;

        buf_init(&text, 0);
        if (fd_read_file("/etc/os-release", &text, OS_RELEASE_BYTES, &quiet) == 0) {
                os_release(buf_slice(&text), "ID", id, sizeof(id));
                os_release(buf_slice(&text), "VERSION_CODENAME", b->suite, sizeof(b->suite));
        }
        buf_fini(&text);
        for (size_t i = 0; i < sizeof(distributions) / sizeof(distributions[0]); i++)
                if (strcmp(id, distributions[i].id) == 0)
                        b->distribution = &distributions[i];
        if (!b->distribution || !b->suite[0] || strspn(b->suite, letters) != strlen(b->suite))
                return err_set(err, "images are made from the package sources of Debian and Ubuntu, and /etc/os-release says `%s`; `image \"FOLDER\"` in the configuration uses one that was made elsewhere",
                               esc_str(id));
#if defined(__x86_64__)
        memcpy(b->architecture, "amd64", sizeof("amd64"));
#elif defined(__aarch64__)
        memcpy(b->architecture, "arm64", sizeof("arm64"));
#else
        return err_set(err, "images are made on amd64 and arm64 alone");
#endif
        return 0;
}

static const struct {
        const char *program, *package;
} tools[] = {
        { "mmdebstrap", "mmdebstrap" }, { "apt-get", "apt" },         { "dpkg-deb", "dpkg" },
        { "mke2fs", "e2fsprogs" },      { "debugfs", "e2fsprogs" },
};

static int find_tools(struct err *err)
{
        char path[PATH_MAX];

        for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
                if (tool_find(path, tools[i].program) < 0)
                        return err_set(err, "%s is missing (package %s); apt-get install mmdebstrap e2fsprogs qemu-system-x86", tools[i].program, tools[i].package);
        return 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int add_source_file(struct build *b, const char *path, struct err *err)
{
        struct buf text;
        struct err quiet = ERR_INIT;
        int rc = 0;

        buf_init(&text, 0);
        if (fd_read_file(path, &text, SOURCES_FILE_BYTES, &quiet) == 0) /* one that we may not read has a secret in it: apt as this user ignores it as well */
                rc = sources_add(&b->sources, buf_slice(&text), slice_ends(slice_str(path), SLICE_LIT(".sources")), b->suite);
        buf_fini(&text);
        return rc < 0 ? err_set(err, "%s is too long or no text", path) : 0;
}

static int add_source_folder(struct build *b, const char *folder, struct err *err)
{
        char *names[SOURCE_FILES], path[PATH_MAX];
        size_t n = 0;
        const struct dirent *e;
        DIR *d = opendir(folder);
        int rc = 0;

        if (!d)
                return 0;
        while (n < SOURCE_FILES && (e = readdir(d)) != NULL) {
                struct slice name = slice_str(e->d_name);
                if (e->d_name[0] == '.' || (!slice_ends(name, SLICE_LIT(".list")) && !slice_ends(name, SLICE_LIT(".sources"))))
                        continue;
                names[n] = strdup(e->d_name);
                if (names[n])
                        n++;
        }
        closedir(d);
        qsort(names, n, sizeof(names[0]), by_name);
        for (size_t i = 0; i < n; i++) {
                if (rc == 0 && snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < (int)sizeof(path))
                        rc = add_source_file(b, path, err);
                free(names[i]);
        }
        return rc;
}

static int find_sources(struct build *b, struct err *err)
{
        if (add_source_file(b, "/etc/apt/sources.list", err) < 0 || add_source_folder(b, "/etc/apt/sources.list.d", err) < 0)
                return -1;
        if (b->sources.count == 0)
                return err_set(err, "/etc/apt/sources.list and sources.list.d name no mirror of %s (http or https, component main); add one, then try `apt-get update`", b->suite);
        return 0;
}

/* ---- the environment of the commands ---- */

/* apt's own setting counts here too; the commands get it the way that every program understands. */
static void apt_proxy(char *out, size_t size, const char *variable, const char *setting)
{
        const char *argv[] = { "apt-config", "--format", "%v%n", "dump", setting, NULL };
        int fd = memfd_create("apt-config", MFD_CLOEXEC);
        char text[300] = "";
        ssize_t n;

        if (fd >= 0 && tool_run(&(struct tool){ .argv = argv, .log = -1, .out = fd }, NULL) == 0 && (n = pread(fd, text, sizeof(text) - 1, 0)) > 0) {
                text[n] = 0;
                text[strcspn(text, "\n")] = 0;
                if (text[0] && strcmp(text, "DIRECT") != 0)
                        snprintf(out, size, "%s=%s", variable, text);
        }
        fd_close(&fd);
}

static void environment(struct build *b)
{
        static const char *const names[] = { "http_proxy", "https_proxy", "no_proxy" };
        static const char *const settings[] = { "Acquire::http::Proxy", "Acquire::https::Proxy", NULL };
        size_t n = 0;

        snprintf(b->epoch, sizeof(b->epoch), "SOURCE_DATE_EPOCH=%lld", (long long)(clock_real_us() / 1000000));
        snprintf(b->home, sizeof(b->home), "HOME=%s", b->work);
        snprintf(b->temporary, sizeof(b->temporary), "TMPDIR=%s/tmp", b->work);
        b->env[n++] = b->epoch;
        b->env[n++] = b->home;
        b->env[n++] = b->temporary;
        b->env[n++] = "DEBIAN_FRONTEND=noninteractive";
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const char *value = getenv(names[i]);
                if (value && strlen(value) < 400)
                        snprintf(b->proxies[i], sizeof(b->proxies[i]), "%s=%s", names[i], value);
                else if (settings[i])
                        apt_proxy(b->proxies[i], sizeof(b->proxies[i]), names[i], settings[i]);
                if (b->proxies[i][0])
                        b->env[n++] = b->proxies[i];
        }
        b->env[n] = NULL;
}

/* ---- steps, in the namespaces ---- */

static int write_below(struct build *b, const char *name, struct slice text, struct err *err)
{
        char path[PATH_MAX];

        build_path(b, path, "%s", name);
        return fd_write_file_unsynced(path, 0644, text.p, text.n, err);
}

static const char *const devices[] = { "null", "zero", "full", "random", "urandom", "tty" };

/* mmdebstrap's own way wants a terminal of another user, which a namespace with one id does not have: what it would mount is there before it starts. */
static int devices_mount(struct build *b, struct err *err)
{
        char from[64], to[PATH_MAX];

        build_path(b, to, "root/dev/pts");
        if (fd_mkdirs(to, 0755, err) < 0)
                return -1;
        if (mount("devpts", to, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,mode=620,ptmxmode=666") < 0)
                return err_sys(err, errno, "cannot mount devpts in a user namespace");
        for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
                int fd;
                build_path(b, to, "root/dev/%s", devices[i]);
                snprintf(from, sizeof(from), "/dev/%s", devices[i]);
                fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                fd_close(&fd);
                if (mount(from, to, NULL, MS_BIND, NULL) < 0)
                        return err_sys(err, errno, "cannot show %s in a user namespace", from);
        }
        build_path(b, to, "root/dev/ptmx");
        return symlink("pts/ptmx", to) < 0 ? err_sys(err, errno, "%s", to) : 0;
}

static void devices_unmount(struct build *b)
{
        char path[PATH_MAX];

        for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
                build_path(b, path, "root/dev/%s", devices[i]);
                umount2(path, MNT_DETACH);
        }
        build_path(b, path, "root/dev/pts");
        umount2(path, MNT_DETACH);
}

static int make_root(struct build *b, struct err *err)
{
        bool one = b->owners.kind == OWNERS_ONE;
        int rc;
        static const char *const excluded[] = { "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
                                                "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=force-unsafe-io" };
        char root[PATH_MAX], sources[PATH_MAX], include[1024] = "--include=";
        size_t at = strlen(include);

        for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
                at += (size_t)snprintf(include + at, sizeof(include) - at, "%s%s", i ? "," : "", packages[i].name);
        build_path(b, root, "root");
        build_path(b, sources, "host.sources");
        if (write_below(b, "host.sources", buf_slice(&b->sources.with_logins), err) < 0)
                return -1;
        if (one && devices_mount(b, err) < 0)
                return -1;
        rc = BUILD_RUN(b, false, err, "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
                       one ? "--skip=check/empty,chroot/mount/dev,chroot/mount/sys,cleanup/apt,output/dev" : "--skip=chroot/mount/sys,cleanup/apt,output/dev", include, excluded[0],
                       excluded[1], excluded[2], excluded[3], excluded[4], b->suite, root, sources);
        devices_unmount(b);
        return rc;
}

/* Keys that the sources name and that no package of the image brought. */
static int copy_keys(struct build *b, struct err *err)
{
        for (size_t i = 0; i < b->sources.key_count; i++) {
                char to[PATH_MAX], folder[PATH_MAX];
                struct buf key;
                int rc;
                build_path(b, to, "root%s", b->sources.keys[i]);
                if (access(to, F_OK) == 0 || strstr(to, "/../"))
                        continue;
                buf_init(&key, 0);
                rc = fd_read_file(b->sources.keys[i], &key, KEY_BYTES, err);
                memcpy(folder, to, sizeof(folder));
                *strrchr(folder, '/') = 0;
                if (rc == 0)
                        rc = fd_mkdirs(folder, 0755, err);
                if (rc == 0)
                        rc = fd_write_file_unsynced(to, 0644, buf_slice(&key).p, buf_len(&key), err);
                buf_fini(&key);
                if (rc < 0)
                        return -1;
        }
        return 0;
}

/* What is this host's, of the moment, or can be fetched again does not belong into an image. */
static int clean_root(struct build *b, struct err *err)
{
        static const char *const emptied[] = { "var/lib/apt/lists", "var/cache/apt", "var/log", "var/tmp", "dev", "tmp", "run", "etc/apt/sources.list.d" };
        static const char *const removed[] = { ".kernel", "etc/apt/sources.list", "etc/resolv.conf", "etc/hostname", "etc/hosts", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-",
                                               "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "var/lib/dpkg/status-old", "var/lib/dpkg/diversions-old",
                                               "var/cache/debconf/templates.dat-old", "var/cache/debconf/config.dat-old", "var/cache/ldconfig/aux-cache" };
        static const char dpkg[] = "# As this image was made: none of these for what is installed later, either.\n"
                                   "path-exclude=/usr/share/doc/*\npath-include=/usr/share/doc/*/copyright\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\n";
        char path[PATH_MAX];

        for (size_t i = 0; i < sizeof(emptied) / sizeof(emptied[0]); i++) {
                build_path(b, path, "root/%s", emptied[i]);
                if (owners_empty_folder(AT_FDCWD, path) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
                build_path(b, path, "root/%s", removed[i]);
                if (owners_remove_tree(AT_FDCWD, path) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        build_path(b, path, "root/var/log/apt");
        if (fd_mkdirs(path, 0755, err) < 0)
                return -1;
        if (write_below(b, "root/etc/apt/sources.list.d/host.sources", buf_slice(&b->sources.text), err) < 0 ||
            write_below(b, "root/etc/dpkg/dpkg.cfg.d/brome", slice_str(dpkg), err) < 0 || write_below(b, "root/etc/machine-id", SLICE_EMPTY, err) < 0)
                return -1;
        return copy_keys(b, err);
}

static int list_packages(struct build *b, struct err *err)
{
        char root[PATH_MAX], out[PATH_MAX];
        const char *const argv[] = { "dpkg-query", "-W", "-f", "${Package} ${Version}\n", NULL };
        struct tool c = { .argv = argv, .root = root, .log = b->log };
        int rc;

        build_path(b, root, "root");
        build_path(b, out, "packages");
        c.out = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (c.out < 0)
                return err_sys(err, errno, "%s", out);
        rc = tool_run(&c, err);
        fd_close(&c.out);
        return rc;
}

static int build_inside(void *arg, struct err *err)
{
        struct build *b = arg;
        char path[PATH_MAX];

        step(b, 1, "%s with %zu packages and what they need (mmdebstrap; the longest step)", b->suite, sizeof(packages) / sizeof(packages[0]));
        if (make_root(b, err) < 0)
                return -1;
        step(b, 2, "its kernel");
        if (build_kernel_fetch(b, err) < 0)
                return -1;
        step(b, 3, "kernel modules and the first file system");
        if (build_kernel_install(b, err) < 0 || list_packages(b, err) < 0 || clean_root(b, err) < 0)
                return -1;
        step(b, 4, "the disks");
        if (build_disks(b, err) < 0)
                return -1;
        build_path(b, path, "root");
        return owners_remove_tree(AT_FDCWD, path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

/* ---- around the namespaces ---- */

static int remove_inside(void *arg, struct err *err)
{
        return owners_remove_tree(AT_FDCWD, arg) < 0 ? err_sys(err, errno, "%s cannot be removed", (const char *)arg) : 0;
}

/* A build folder, with files of other owners in it. */
static int remove_work(const struct build *b, char *path, struct err *err)
{
        struct owners o = b->owners;
        int rc;

        o.stop = NULL; /* an interrupt is a reason to clean up, not to leave it */
        /* What was killed may be writing its last. */
        for (int tries = 0; (rc = access(path, F_OK) < 0 ? 0 : owners_run(&o, remove_inside, path, err)) < 0 && tries < REMOVE_TRIES; tries++)
                usleep(REMOVE_WAIT_US);
        return rc;
}

/* What an earlier build left that was killed: we hold the lock, so nobody works there. */
static void remove_stale(const struct build *b)
{
        char folder[PATH_MAX], path[PATH_MAX];
        struct err quiet = ERR_INIT;
        const struct dirent *e;
        DIR *d;

        snprintf(folder, sizeof(folder), "%s/images", b->how->state);
        d = opendir(folder);
        while (d && (e = readdir(d)) != NULL)
                if (strncmp(e->d_name, ".new-", 5) == 0 && snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) < (int)sizeof(path) &&
                    remove_work(b, path, &quiet) < 0 && b->how->step)
                        b->how->step(quiet.text);
        if (d)
                closedir(d);
}

static int read_packages(const struct build *b, struct manifest *m, struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        struct slice rest;
        int rc;

        build_path(b, path, "packages");
        buf_init(&text, 0);
        rc = fd_read_file(path, &text, PACKAGES_BYTES, err);
        m->packages = json_object();
        for (rest = buf_slice(&text); rc == 0 && rest.n > 0;) {
                ptrdiff_t end = slice_find(rest, '\n'), space;
                struct slice line = end < 0 ? rest : slice_first(rest, (size_t)end);
                char name[MANIFEST_TEXT_BYTES];
                rest = end < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)end + 1);
                space = slice_find(line, ' ');
                if (space <= 0 || space >= (ptrdiff_t)sizeof(name)) {
                        rc = err_set(err, "dpkg-query named no package in `%s`", esc(line));
                        break;
                }
                memcpy(name, line.p, (size_t)space);
                name[space] = 0;
                if (json_object_set_new(m->packages, name, json_stringn((const char *)line.p + space + 1, line.n - (size_t)space - 1)) < 0)
                        rc = err_set(err, "dpkg-query's list cannot be read");
        }
        buf_fini(&text);
        unlink(path);
        return rc;
}

static int write_manifest(struct build *b, char id[IMAGE_ID_CHARS + 1], struct err *err)
{
        struct manifest m = { .made_us = clock_real_us(), .all_owners = b->owners.kind != OWNERS_ONE };
        const char *init = strrchr(b->how->init, '/');
        char path[PATH_MAX];
        struct buf text;
        int rc = -1;

        buf_init(&text, MANIFEST_BYTES);
        snprintf(m.suite, sizeof(m.suite), "%s", b->suite);
        snprintf(m.architecture, sizeof(m.architecture), "%s", b->architecture);
        snprintf(m.init, sizeof(m.init), "%.31s", init ? init + 1 : b->how->init);
        build_path(b, path, "kernel-version");
        if (build_kernel_version(b, m.kernel, err) < 0 || read_packages(b, &m, err) < 0)
                goto out;
        unlink(path);
        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++)
                if (build_digest(b, i, &m, err) < 0)
                        goto out;
        if (manifest_write(&m, &text) < 0 || manifest_id(buf_slice(&text), id) < 0) {
                err_set(err, "the image's manifest cannot be written: a name or version in it is none");
                goto out;
        }
        build_path(b, path, "manifest.json");
        rc = fd_write_file(path, 0600, buf_slice(&text).p, buf_len(&text), err);
out:
        buf_fini(&text);
        manifest_fini(&m);
        return rc;
}

static void show_tail(const struct build *b, const char *name)
{
        char path[PATH_MAX];
        struct buf tail;
        int fd;

        build_path(b, path, "%s", name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        buf_init(&tail, 0);
        tool_tail(fd, "    ", &tail);
        if (b->how->lines)
                b->how->lines(buf_slice(&tail));
        buf_fini(&tail);
        fd_close(&fd);
}

/* Boots it once, and writes what came of it. */
static int probe(struct build *b, struct err *err)
{
        char path[PATH_MAX], line[PROBE_TEXT_BYTES + 16];
        struct probe p = { .stop = b->how->stop };

        step(b, 6, "a probe boot");
        if (probe_boot(b->work, &p, err) < 0) {
                if (!b->how->stop || !*b->how->stop)
                        show_tail(b, "console.log");
                return -1;
        }
        if (b->how->step)
                b->how->step(p.text);
        if (!p.accel[0])
                return 0;
        snprintf(line, sizeof(line), "%s\n%s\n", p.accel, p.text);
        build_path(b, path, "accel");
        return fd_write_file(path, 0600, line, strlen(line), err);
}

/* Written by nobody from here on; and read by QEMUs that, started by root, run as ids of the workspaces' own. What is in it is no secret. */
static int make_readable(struct build *b, struct err *err)
{
        char path[PATH_MAX];

        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++) {
                build_path(b, path, "%s", image_file_names[i]);
                if (chmod(path, 0444) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        return 0;
}

static int finish(struct build *b, char id[IMAGE_ID_CHARS + 1], struct err *err)
{
        static const char *const leftovers[] = { "log", "host.sources", "apt.conf", "tmp", "console.log", "qemu.log" };
        char path[PATH_MAX], to[PATH_MAX];

        step(b, 5, "sizes and digests");
        if (write_manifest(b, id, err) < 0 || probe(b, err) < 0 || make_readable(b, err) < 0)
                return -1;
        for (size_t i = 0; i < sizeof(leftovers) / sizeof(leftovers[0]); i++) {
                build_path(b, path, "%s", leftovers[i]);
                if (owners_remove_tree(AT_FDCWD, path) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        snprintf(to, sizeof(to), "%.*s/%s", (int)(strrchr(b->work, '/') - b->work), b->work, id);
        if (rename(b->work, to) < 0)
                return err_sys(err, errno, "%s", to);
        return images_make_current(b->how->state, id, err);
}

static int start_work(struct build *b, struct err *err)
{
        char path[PATH_MAX];

        if (strlen(b->work) + 256 > sizeof(b->work) || strpbrk(b->work, "\"\\\n;,"))
                return err_set(err, "the state folder's path is too long or has a character that apt cannot read; set BROME_STATE to another folder");
        if (mkdir(b->work, 0700) < 0)
                return build_out_of_space(b, errno, err, b->work);
        build_path(b, path, "tmp");
        if (mkdir(path, 01777) < 0 || chmod(path, 01777) < 0)
                return build_out_of_space(b, errno, err, path);
        build_path(b, path, "log");
        b->log = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        return b->log < 0 ? build_out_of_space(b, errno, err, path) : 0;
}

static int build_locked(struct build *b, char id[IMAGE_ID_CHARS + 1], struct err *err)
{
        struct err quiet = ERR_INIT;
        int rc;

        remove_stale(b);
        if (space_left(b->how->state) < SPACE_BYTES) {
                err_set(err, "%s has %llu MB left, and building an image takes 3 GB (1 GB stays); make room, or set BROME_STATE to another disk", esc_str(b->how->state),
                        (unsigned long long)(space_left(b->how->state) >> 20));
                return HOST_LACKS;
        }
        rc = start_work(b, err);
        if (rc == 0) {
                environment(b);
                rc = owners_run(&b->owners, build_inside, b, err);
        }
        if (rc == 0)
                rc = finish(b, id, err);
        fd_close(&b->log);
        if (rc < 0 && remove_work(b, b->work, &quiet) < 0 && b->how->step)
                b->how->step(quiet.text);
        return rc;
}

int image_build(const struct image_build *how, char id[IMAGE_ID_CHARS + 1], struct err *err)
{
        static struct build build; /* large */
        struct build *b = &build;
        int lock, rc = HOST_LACKS;

        *b = (struct build){ .how = how, .log = -1 };
        sources_init(&b->sources);
        snprintf(b->work, sizeof(b->work), "%s/images/.new-%d", how->state, (int)getpid());
        owners_find(&b->owners);
        b->owners.stop = how->stop;
        if (find_distribution(b, err) == 0 && find_tools(err) == 0 && find_sources(b, err) == 0) {
                if (b->owners.kind == OWNERS_ONE && how->step)
                        how->step("no 65536 subordinate ids for this user (or no newuidmap), so every file of the image will belong to root; "
                                  "`apt-get install uidmap` and lines in /etc/subuid and /etc/subgid change that");
                lock = images_lock(how->state, err);
                rc = lock < 0 ? -1 : build_locked(b, id, err);
                fd_close(&lock);
        }
        sources_fini(&b->sources);
        return rc;
}
