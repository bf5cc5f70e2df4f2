/* The workspace's own files: see vm_etc.h. */
#include "guest/vm_etc.h"
#include "account/listed.h"
#include "base/fd.h"
#include "guest/bundles.h"
#include "guest/vm_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- texts ---- */

/* Empty when it is no regular file, or too large: then it is replaced. */
static void read_text(const char *path, struct buf *out)
{
        struct err quiet;
        buf_init(out, 0);
        if (fd_read_file(path, out, VM_ETC_FILE_BYTES, &quiet) < 0)
                buf_clear(out);
}

static int parents(const char *path, struct err *err)
{
        char dir[PATH_MAX];
        snprintf(dir, sizeof(dir), "%s", path);
        char *slash = strrchr(dir, '/');
        if (slash == dir)
                return 0;
        *slash = 0;
        return fd_mkdirs(dir, 0755, err);
}

/* By renaming, so that a link in its place is replaced and not followed. */
static int put(const char *path, struct slice text, struct err *err)
{
        return parents(path, err) < 0 ? -1 : fd_write_file_unsynced(path, 0644, text.p, text.n, err);
}

static int put_if_other(const char *path, struct slice text, struct err *err)
{
        struct buf present;
        read_text(path, &present);
        int r = slice_eq(buf_slice(&present), text) ? 0 : put(path, text, err);
        buf_fini(&present);
        return r;
}

static int put_link(const char *path, const char *target, struct err *err)
{
        char now[PATH_MAX];
        ssize_t n = readlink(path, now, sizeof(now));
        if (n == (ssize_t)strlen(target) && memcmp(now, target, (size_t)n) == 0)
                return 0;
        if (parents(path, err) < 0)
                return -1;
        if (unlink(path) < 0 && errno != ENOENT)
                return err_sys(err, errno, "%s", path);
        return symlink(target, path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

/* ---- names ---- */

static int write_names(const struct setup *s, struct err *err)
{
        struct buf present, text;
        if (s->hostname.n == 0)
                return 0;
        read_text("/etc/hosts", &present);
        buf_init(&text, 0);
        int r = vm_text_hosts(buf_slice(&present), s->hostname, &text);
        r = r == 1 ? put("/etc/hosts", buf_slice(&text), err) : r;
        buf_clear(&text);
        r = r < 0 || buf_add_slice(&text, s->hostname) < 0 || buf_add_str(&text, "\n") < 0 ? -1 : put_if_other("/etc/hostname", buf_slice(&text), err);
        buf_fini(&present);
        buf_fini(&text);
        return r;
}

static int write_resolver(const struct setup *s, struct err *err)
{
        char v4[INET_ADDRSTRLEN], v6[INET6_ADDRSTRLEN], text[256];
        int n = 0;
        if (s->has_v4 && inet_ntop(AF_INET, s->gate_v4, v4, sizeof(v4)) != NULL)
                n += snprintf(text + n, sizeof(text) - (size_t)n, "nameserver %s\n", v4);
        if (s->has_v6 && inet_ntop(AF_INET6, s->gate_v6, v6, sizeof(v6)) != NULL)
                n += snprintf(text + n, sizeof(text) - (size_t)n, "nameserver %s\n", v6);
        if (n == 0)
                return 0;
        n += snprintf(text + n, sizeof(text) - (size_t)n, "options edns0 timeout:5 attempts:2\n");
        return put_if_other("/etc/resolv.conf", slice_of(text, (size_t)n), err);
}

/* Of its own for each system disk: the image has none. */
static int write_machine_id(struct err *err)
{
        struct buf present;
        uint8_t r[16];
        char text[34];
        read_text("/etc/machine-id", &present);
        bool has = buf_len(&present) == 33;
        buf_fini(&present);
        if (has)
                return 0;
        if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
                return err_sys(err, errno, "getrandom");
        for (size_t i = 0; i < sizeof(r); i++)
                snprintf(text + 2 * i, 3, "%02x", r[i]);
        text[32] = '\n';
        return put("/etc/machine-id", slice_of(text, 33), err);
}

/* ---- trust ---- */

/* The bundle that is there under that name, through links, with our CA; or a link to Debian's name of it. */
static int write_bundle(const char *path, struct slice old, struct slice fresh, struct err *err)
{
        char real[PATH_MAX];
        struct buf present, text;
        bool there = realpath(path, real) != NULL;
        if (!there && strcmp(path, TRUST_BUNDLE) != 0)
                return put_link(path, TRUST_BUNDLE, err);
        if (!there)
                snprintf(real, sizeof(real), "%s", path);
        read_text(real, &present);
        buf_init(&text, 0);
        int r = vm_text_bundle(buf_slice(&present), old, fresh, &text);
        r = r == 1 ? put(real, buf_slice(&text), err) : r < 0 ? err_set(err, "out of memory") : 0;
        buf_fini(&present);
        buf_fini(&text);
        return r;
}

/* OpenSSL looks for an issuer by the hash of its name; the first number that is free, or ours. */
static int link_hash(struct slice hash, struct err *err)
{
        char path[sizeof("/etc/ssl/certs/") + SETUP_HASH_BYTES + 4], now[PATH_MAX];
        for (int i = 0; hash.n > 0 && i < 16; i++) {
                snprintf(path, sizeof(path), "/etc/ssl/certs/%.*s.%d", SLICE_FMT(hash), i);
                ssize_t n = readlink(path, now, sizeof(now));
                if ((n < 0 && errno == ENOENT) || slice_is(slice_of(now, n < 0 ? 0 : (size_t)n), "brome.pem"))
                        return put_link(path, "brome.pem", err);
        }
        return 0;
}

/* As update-ca-certificates would have it, so that it changes nothing when it is run: the source in its folder, a link to that, a copy in the bundle. */
static int write_trust(const struct setup *s, struct err *err)
{
        static const char *const names[] = { TRUST_BUNDLE, TRUST_OTHER_BUNDLES };
        struct buf old, fresh;
        int r = 0;
        if (s->ca.n == 0)
                return 0;
        buf_init(&fresh, 0);
        read_text(TRUST_ADDED, &old);
        if (buf_add_slice(&fresh, s->ca) < 0 || (s->ca.p[s->ca.n - 1] != '\n' && buf_add_str(&fresh, "\n") < 0))
                r = err_set(err, "out of memory");
        for (size_t i = 0; i < COUNT(names) && r == 0; i++)
                r = write_bundle(names[i], buf_slice(&old), buf_slice(&fresh), err);
        if (r == 0)
                r = put_if_other(TRUST_ADDED, buf_slice(&fresh), err);
        if (r == 0)
                r = put_link(TRUST_OWN, TRUST_ADDED, err);
        buf_fini(&old);
        buf_fini(&fresh);
        return r < 0 ? -1 : link_hash(s->ca_hash, err);
}

int vm_etc_write(const struct setup *s, struct err *err)
{
        return write_names(s, err) < 0 || write_resolver(s, err) < 0 || write_machine_id(err) < 0 || write_trust(s, err) < 0 ? -1 : 0;
}

/* ---- the home ---- */

struct accounts {
        struct binding list[LISTED_MAX];
        struct binding_host hosts[LISTED_MAX][ACCOUNT_HOSTS_MAX];
        size_t count;
};

static int read_accounts(const json_t *array, struct accounts *out, struct err *err)
{
        struct slice as_env; /* a variable: brome-launch sets it */
        size_t i;
        const json_t *v;
        if (!json_is_array(array) || json_array_size(array) > LISTED_MAX)
                return err_set(err, "the list of accounts in the set-up message is none");
        json_array_foreach((json_t *)(uintptr_t)array, i, v) {
                if (!listed_read(v, &out->list[i], out->hosts[i], &as_env))
                        return err_set(err, "account %zu of the set-up message is none", i);
                out->count++;
        }
        return 0;
}

int vm_etc_home(const struct setup *s, char notes[HOMEFILES_NOTES_BYTES], struct err *err)
{
        static struct accounts accounts;
        json_t *array = s->accounts.n > 0 ? json_loadb((const char *)s->accounts.p, s->accounts.n, JSON_REJECT_DUPLICATES, NULL) : json_array();
        int home, r = read_accounts(array, &accounts, err);
        if (r == 0 && (home = open("/root", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0) {
                homefiles_write(home, accounts.list, accounts.count, notes);
                fd_close(&home);
        }
        json_decref(array);
        return r;
}
