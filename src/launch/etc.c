/* What stands in the guest's /etc: see etc.h, and etckeep.c for where it is kept. */
#include "launch/etc_priv.h"
#include "launch/place.h"
#include "base/buf.h"
#include "base/esc.h"
#include "base/fd.h"
#include "launch/gateway.h"
#include "launch/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
/* Patterns of names in /etc, files or folders. What is not here does not exist in a workspace. */
static const char *const copied[] = {
        "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",                                           /* programs start */
        "protocols", "services", "rpc", "ethertypes", "networks", "host.conf", "gai.conf",                     /* names of the network */
        "mime.types", "magic", "magic.mime", "localtime", "timezone", "terminfo", "locale.alias", "locale.gen", "inputrc", "manpath.config", "groff",
        "os-release", "debian_version", "lsb-release", "alpine-release", "fedora-release", "redhat-release", "system-release", "issue", /* which system it is */
        "profile", "bash.bashrc", "bash_completion.d", "shells", "skel", "login.defs", "adduser.conf", "deluser.conf", "xattr.conf",
        "python3", "python3.*", "perl", "java-*", "ruby", "php", "R", "nodejs", "maven", "gprofng.rc", "gdb", "vim", "nanorc", "fonts", "xdg", "xml", "sgml", /* interpreters, tools */
        "apt", "dpkg", "debconf.conf", "ca-certificates.conf", "ca-certificates", "crypto-policies", "apk", "rpm", "yum.repos.d", "dnf",
};
/* Beneath those, never: names by fnmatch against the last component. */
static const char *const never[] = { "auth.conf*", "*.key", "*.pem.key", "*shadow*", "*credential*", "*password*", "*.netrc", ".netrc", "id_*", "*~",
        "*.gpg~", "settings*.xml", "*.save", "*.dpkg-*" };

static const char passwd_text[] =
        "root:*:0:0:root:/root:/bin/bash\ndaemon:*:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nbin:*:2:2:bin:/bin:/usr/sbin/nologin\n"
        "sys:*:3:3:sys:/dev:/usr/sbin/nologin\nsync:*:4:65534:sync:/bin:/bin/sync\ngames:*:5:60:games:/usr/games:/usr/sbin/nologin\n"
        "man:*:6:12:man:/var/cache/man:/usr/sbin/nologin\nlp:*:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\nmail:*:8:8:mail:/var/mail:/usr/sbin/nologin\n"
        "news:*:9:9:news:/var/spool/news:/usr/sbin/nologin\nuucp:*:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\nproxy:*:13:13:proxy:/bin:/usr/sbin/nologin\n"
        "www-data:*:33:33:www-data:/var/www:/usr/sbin/nologin\nbackup:*:34:34:backup:/var/backups:/usr/sbin/nologin\n"
        "list:*:38:38:list:/var/list:/usr/sbin/nologin\nirc:*:39:39:irc:/run/ircd:/usr/sbin/nologin\n_apt:*:42:65534::/nonexistent:/usr/sbin/nologin\n"
        "nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group_text[] =
        "root:*:0:\ndaemon:*:1:\nbin:*:2:\nsys:*:3:\nadm:*:4:\ntty:*:5:\ndisk:*:6:\nlp:*:7:\nmail:*:8:\nnews:*:9:\nuucp:*:10:\nman:*:12:\nproxy:*:13:\n"
        "kmem:*:15:\ndialout:*:20:\nfax:*:21:\nvoice:*:22:\ncdrom:*:24:\nfloppy:*:25:\ntape:*:26:\nsudo:*:27:\naudio:*:29:\ndip:*:30:\nwww-data:*:33:\n"
        "backup:*:34:\noperator:*:37:\nlist:*:38:\nirc:*:39:\nsrc:*:40:\nshadow:*:42:\nutmp:*:43:\nvideo:*:44:\nsasl:*:45:\nplugdev:*:46:\nstaff:*:50:\n"
        "games:*:60:\nusers:*:100:\nnogroup:*:65534:\n";
static const char nsswitch_text[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";
static const char resolv_text[] = "nameserver " GATEWAY_V4 "\nnameserver " GATEWAY_V6 "\noptions edns0 timeout:5 attempts:2\n";

static bool listed(const char *name, const char *const *patterns, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (fnmatch(patterns[i], name, 0) == 0)
                        return true;
        return false;
}

/* Does a URL in the text carry a user and password, or does a private key stand in it? Such a file is not for a guest. */
static bool tells_secret(struct slice text)
{
        static const char *const words[] = { "PRIVATE KEY-----", "<password>", "_authToken", "_password" };

        for (size_t i = 0; i < COUNT(words); i++)
                if (text.n && memmem(text.p, text.n, words[i], strlen(words[i])))
                        return true;
        for (struct slice rest = text; rest.n;) {
                const uint8_t *at = memmem(rest.p, rest.n, "://", 3);
                if (!at)
                        break;
                rest = slice_skip(rest, (size_t)(at - rest.p) + 3);
                for (size_t i = 0; i < rest.n && rest.p[i] > ' ' && rest.p[i] != '/' && rest.p[i] != '"'; i++)
                        if (rest.p[i] == '@')
                                return true;
        }
        return false;
}

static int give(const struct etc_job *j, const char *path, struct err *err)
{
        return lchown(path, j->owner, j->owner) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

static int put(const struct etc_job *j, const char *tail, mode_t mode, struct slice text, struct err *err)
{
        char path[PATH_MAX];
        int fd, e;

        place(path, sizeof(path), "%s/%s", j->etc, tail);
        unlink(path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        e = fd_write_all(fd, text.p, text.n) < 0 || fchmod(fd, mode) < 0 ? errno : 0;
        fd_close(&fd);
        return e ? err_sys(err, e, "%s", path) : give(j, path, err);
}

/* Files that cannot be read, or are too large, are left out: the guest does without. */
static int copy_file(struct etc_job *j, const char *tail, mode_t mode, struct err *err)
{
        char host[PATH_MAX];
        struct buf text;
        struct err quiet;
        int rc = 0;

        place(host, sizeof(host), "/etc/%s", tail);
        buf_init(&text, 0);
        if (fd_read_file(host, &text, ETC_FILE_BYTES, &quiet) == 0 && !tells_secret(buf_slice(&text)))
                rc = put(j, tail, mode & 0755, buf_slice(&text), err);
        buf_fini(&text);
        return rc;
}

static int copy_link(struct etc_job *j, const char *tail, struct err *err)
{
        char host[PATH_MAX], path[PATH_MAX], target[PATH_MAX];
        ssize_t n;

        place(host, sizeof(host), "/etc/%s", tail);
        place(path, sizeof(path), "%s/%s", j->etc, tail);
        n = readlink(host, target, sizeof(target) - 1);
        if (n <= 0)
                return 0;
        target[n] = 0;
        return symlink(target, path) < 0 && errno != EEXIST ? err_sys(err, errno, "%s", path) : give(j, path, err);
}

static int copy_any(struct etc_job *j, const char *tail, int depth, struct err *err);

static int copy_folder(struct etc_job *j, const char *tail, int depth, struct err *err)
{
        char host[PATH_MAX], path[PATH_MAX], part[PATH_MAX];
        const struct dirent *e;
        DIR *dir;
        int rc;

        place(host, sizeof(host), "/etc/%s", tail);
        place(path, sizeof(path), "%s/%s", j->etc, tail);
        dir = depth < ETC_DEPTH ? opendir(host) : NULL;
        if (!dir)
                return 0;
        rc = mkdir(path, 0755) < 0 && errno != EEXIST ? err_sys(err, errno, "%s", path) : give(j, path, err);
        while (rc == 0 && (e = readdir(dir))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || listed(e->d_name, never, COUNT(never)))
                        continue;
                if (snprintf(part, sizeof(part), "%s/%s", tail, e->d_name) < (int)sizeof(part))
                        rc = copy_any(j, part, depth + 1, err);
        }
        closedir(dir);
        return rc;
}

static int copy_any(struct etc_job *j, const char *tail, int depth, struct err *err)
{
        char host[PATH_MAX];
        struct stat st;

        if (snprintf(host, sizeof(host), "/etc/%s", tail) >= (int)sizeof(host) || lstat(host, &st) < 0 || ++j->files > ETC_FILES)
                return 0;
        if (S_ISLNK(st.st_mode))
                return copy_link(j, tail, err);
        if (S_ISDIR(st.st_mode))
                return copy_folder(j, tail, depth, err);
        return S_ISREG(st.st_mode) ? copy_file(j, tail, st.st_mode, err) : 0;
}

static int copy_listed(struct etc_job *j, struct err *err)
{
        DIR *dir = opendir("/etc");
        const struct dirent *e;
        int rc = 0;

        if (!dir)
                return err_sys(err, errno, "/etc");
        while (rc == 0 && (e = readdir(dir)))
                if (e->d_name[0] != '.' && listed(e->d_name, copied, COUNT(copied)))
                        rc = copy_any(j, e->d_name, 0, err);
        closedir(dir);
        return rc;
}

static int make_folder(const struct etc_job *j, const char *tail, struct err *err)
{
        char path[PATH_MAX];

        place(path, sizeof(path), "%s/%s", j->etc, tail);
        return mkdir(path, 0755) < 0 && errno != EEXIST ? err_sys(err, errno, "%s", path) : give(j, path, err);
}

static int write_machine_id(const struct etc_job *j, struct slice id, struct err *err)
{
        uint8_t r[16];
        char text[34];

        if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
                return err_sys(err, errno, "getrandom");
        for (size_t i = 0; i < sizeof(r); i++)
                snprintf(text + 2 * i, 3, "%02x", r[i]);
        if (id.n == 32)
                memcpy(text, id.p, 32);
        text[32] = '\n';
        return put(j, "machine-id", 0444, slice_of(text, 33), err);
}

static int write_generated(struct etc_job *j, struct err *err)
{
        /* One id is all an ordinary user's workspace has, so apt cannot become its own user. The host's proxy is not the workspace's. */
        const char *apt = j->ids->count == 1 ? "APT::Sandbox::User \"root\";\nAcquire::http::Proxy \"DIRECT\";\nAcquire::https::Proxy \"DIRECT\";\n"
                                             : "Acquire::http::Proxy \"DIRECT\";\nAcquire::https::Proxy \"DIRECT\";\n";

        if (put(j, "passwd", 0644, slice_str(passwd_text), err) < 0 || put(j, "group", 0644, slice_str(group_text), err) < 0 ||
            put(j, "nsswitch.conf", 0644, slice_str(nsswitch_text), err) < 0 || put(j, "resolv.conf", 0644, slice_str(resolv_text), err) < 0 ||
            put(j, "environment", 0644, SLICE_EMPTY, err) < 0 || put(j, "fstab", 0644, SLICE_EMPTY, err) < 0)
                return -1;
        if (make_folder(j, "apt", err) < 0 || make_folder(j, "apt/apt.conf.d", err) < 0 || make_folder(j, "apt/sources.list.d", err) < 0 ||
            make_folder(j, "apt/preferences.d", err) < 0 || make_folder(j, "apt/trusted.gpg.d", err) < 0 ||
            put(j, "apt/apt.conf.d/zz-brome", 0644, slice_str(apt), err) < 0)
                return -1;
        return make_folder(j, "ssl", err) < 0 || make_folder(j, "profile.d", err) < 0 || make_folder(j, "opt", err) < 0 || make_folder(j, "default", err) < 0 ||
                               copy_any(j, "ssl/openssl.cnf", 1, err) < 0 || copy_any(j, "ssl/certs", 1, err) < 0
                       ? -1
                       : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st, (void)type, (void)at;
        return remove(path);
}

int etc_remove(const char *path) { return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); }

static uid_t give_to; /* nftw has no argument */
static int give_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)type, (void)at;
        return st->st_uid == give_to && st->st_gid == give_to ? 0 : lchown(path, give_to, give_to);
}

/* What trust.c made is still ours. */
static int give_all(const struct etc_job *j, struct err *err)
{
        give_to = j->owner;
        return nftw(j->etc, give_one, 16, FTW_PHYS | FTW_MOUNT) < 0 ? err_sys(err, errno, "%s", j->etc) : 0;
}

int etc_write_shared(struct etc_job *j, struct err *err)
{
        if (fd_mkdirs(j->etc, 0755, err) < 0 || copy_listed(j, err) < 0 || write_generated(j, err) < 0 || trust_write_links(j->etc, err) < 0)
                return -1;
        return give_all(j, err);
}

int etc_write_own(struct etc_job *j, const char *below, struct slice ca, struct slice id, struct err *err)
{
        char hosts[512], name[80];

        snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost ip6-loopback\n", j->plan->hostname);
        snprintf(name, sizeof(name), "%s\n", j->plan->hostname);
        if (fd_mkdirs(j->etc, 0755, err) < 0 || put(j, "hosts", 0644, slice_str(hosts), err) < 0 || put(j, "hostname", 0644, slice_str(name), err) < 0 ||
            write_machine_id(j, id, err) < 0 || trust_write(j->etc, below, ca, err) < 0)
                return -1;
        return give_all(j, err);
}

static void stamp_path(struct buf *b, const char *path)
{
        struct stat st;

        if (stat(path, &st) == 0)
                buf_addf(b, "%s %lld.%ld %lld\n", path, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_size);
}

void etc_stamp(struct buf *b, const struct ids *ids)
{
        static const char *const beneath[] = { "/etc", "/etc/ssl/certs", "/etc/apt/sources.list.d", "/etc/apt/apt.conf.d", "/etc/apt/trusted.gpg.d",
                "/etc/apt/sources.list" };
        const char *bundle = trust_host_bundle();
        char path[PATH_MAX];

        /* Times of the host's files, as far as one look a name tells. */
        buf_addf(b, "%s %u\n", ETC_GENERATION, ids->count);
        for (size_t i = 0; i < COUNT(beneath); i++)
                stamp_path(b, beneath[i]);
        if (bundle)
                stamp_path(b, bundle);
        for (size_t i = 0; i < COUNT(copied); i++) {
                place(path, sizeof(path), "/etc/%s", copied[i]);
                stamp_path(b, path);
        }
}
