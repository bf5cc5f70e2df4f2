/* Keeping the guest's /etc: see etc.h.
 *
 * The shared layer is named by the hash of what it is made from, so it never changes once it has its name. Who makes one holds the lock of the
 * cache folder; who uses one holds a shared lock of it; what nobody uses and nobody would make again is removed by the next who makes one.
 * Nothing here is synced to the disk: the name holds the boot's id, so that what a crash left half written is never used. */
#include "launch/etc_priv.h"
#include "base/fd.h"
#include "launch/layer.h"
#include "launch/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "etc-"
enum { DIGEST_HEX = 2 * 32 + 1 };

static int digest(struct slice text, char hex[DIGEST_HEX])
{
        uint8_t d[EVP_MAX_MD_SIZE];
        unsigned n = 0;

        if (EVP_Digest(text.p, text.n, d, &n, EVP_sha256(), NULL) != 1 || n != 32)
                return -1;
        for (unsigned i = 0; i < n; i++)
                snprintf(hex + 2 * i, 3, "%02x", d[i]);
        return 0;
}

/* The hash of everything that the shared layer is made from. */
static int shared_name(const struct ids *ids, char hex[DIGEST_HEX], struct err *err)
{
        struct buf stamp;
        struct err quiet;
        int rc;

        buf_init(&stamp, 0);
        if (fd_read_file("/proc/sys/kernel/random/boot_id", &stamp, 64, &quiet) < 0)
                buf_clear(&stamp);
        etc_stamp(&stamp, ids);
        rc = stamp.failed || digest(buf_slice(&stamp), hex) < 0 ? err_set(err, "out of memory") : 0;
        buf_fini(&stamp);
        return rc;
}

/* The folder with a shared lock, or -1: it is not there, or is being removed. */
static int use(const char *path)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;

        if (fd >= 0 && (flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0))
                fd_close(&fd);
        return fd;
}

/* With the cache's lock: everything but `name`, unless somebody uses it. */
static void remove_others(const char *cache, const char *name)
{
        DIR *dir = opendir(cache);
        const struct dirent *e;
        char path[PATH_MAX];
        int fd;

        while (dir && (e = readdir(dir))) {
                if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 || strcmp(e->d_name, name) == 0)
                        continue;
                place(path, sizeof(path), "%s/%s", cache, e->d_name);
                fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        etc_remove(path);
                fd_close(&fd);
        }
        if (dir)
                closedir(dir);
}

static int make_shared(struct etc *e, struct etc_job *j, const char *cache, const char *name, struct err *err)
{
        int lock = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -1;

        if (lock < 0 || flock(lock, LOCK_EX) < 0) {
                err_sys(err, errno, "%s", cache);
                goto out;
        }
        e->lock = use(e->shared); /* somebody else made it meanwhile */
        if (e->lock < 0) {
                place(j->etc, sizeof(j->etc), "%s/" PREFIX "new", cache);
                etc_remove(j->etc);
                j->owner = geteuid();
                if (etc_write_shared(j, err) < 0)
                        goto out;
                if (rename(j->etc, e->shared) < 0 || (e->lock = use(e->shared)) < 0) {
                        err_sys(err, errno, "%s", e->shared);
                        goto out;
                }
                remove_others(cache, name);
        }
        rc = 0;
out:
        fd_close(&lock);
        return rc;
}

/* As root the layer has to be shown under the guest's ids. Where that cannot be had, each workspace has a complete /etc. */
static bool can_share(const struct plan *plan, const struct ids *ids)
{
        int fd = plan->cache[0] ? open(plan->cache, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        bool can = fd >= 0 && (!ids->root || layer_can_map(fd, ids->userns));

        fd_close(&fd);
        return can;
}

static int prepare_shared(struct etc *e, struct etc_job *j, const char *hex, struct err *err)
{
        char name[DIGEST_HEX + sizeof(PREFIX)];

        snprintf(name, sizeof(name), PREFIX "%s", hex);
        place(e->shared, sizeof(e->shared), "%s/%s", j->plan->cache, name);
        e->lock = use(e->shared);
        return e->lock < 0 ? make_shared(e, j, j->plan->cache, name, err) : 0;
}

/* The machine id of the copy that is replaced, so that a workspace keeps its own. */
static struct slice kept_id(const char *own, struct buf *out)
{
        char path[PATH_MAX];
        struct err quiet;

        place(path, sizeof(path), "%s/machine-id", own);
        return fd_read_file(path, out, 64, &quiet) == 0 && buf_len(out) == 33 ? slice_first(buf_slice(out), 32) : SLICE_EMPTY;
}

static int make_own(const struct etc *e, struct etc_job *j, struct slice ca, struct err *err)
{
        char old[PATH_MAX];
        struct buf id;
        int rc;

        buf_init(&id, 64);
        place(j->etc, sizeof(j->etc), "%s.new", e->own);
        place(old, sizeof(old), "%s.old", e->own);
        etc_remove(j->etc);
        etc_remove(old);
        j->owner = j->ids->base;
        rc = e->shared[0] ? 0 : etc_write_shared(j, err);
        if (rc == 0)
                rc = etc_write_own(j, e->shared[0] ? e->shared : j->etc, ca, kept_id(e->own, &id), err);
        if (rc == 0 && ((rename(e->own, old) < 0 && errno != ENOENT) || rename(j->etc, e->own) < 0))
                rc = err_sys(err, errno, "%s", e->own);
        etc_remove(old);
        buf_fini(&id);
        return rc;
}

static int write_stamp(const char *path, struct slice text, struct err *err)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), rc;

        rc = fd < 0 || fd_write_all(fd, text.p, text.n) < 0 ? err_sys(err, errno, "%s", path) : 0;
        fd_close(&fd);
        return rc;
}

static int prepare_own(struct etc *e, struct etc_job *j, const char *hex, struct slice ca, struct err *err)
{
        char path[PATH_MAX], mine[DIGEST_HEX], text[512];
        struct buf kept;
        struct err quiet;
        int rc = 0;

        place(path, sizeof(path), "%s/cache", j->plan->state);
        place(e->own, sizeof(e->own), "%s/cache/etc", j->plan->state);
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        place(path, sizeof(path), "%s/cache/etc.stamp", j->plan->state);
        if (digest(ca, mine) < 0)
                return err_set(err, "out of memory");
        snprintf(text, sizeof(text), "%s %s %u %s %s\n", e->shared[0] ? "over" : "complete", hex, j->ids->base, j->plan->hostname, mine);
        buf_init(&kept, 0);
        if (fd_read_file(path, &kept, 65536, &quiet) < 0 || !slice_eq(slice_str(text), buf_slice(&kept)) || access(e->own, F_OK) < 0)
                rc = make_own(e, j, ca, err) < 0 ? -1 : write_stamp(path, slice_str(text), err);
        buf_fini(&kept);
        return rc;
}

int etc_prepare(struct etc *e, const struct plan *plan, const struct ids *ids, struct err *err)
{
        static struct etc_job j;
        char hex[DIGEST_HEX];
        struct buf ca;
        mode_t mask = umask(022);
        int rc;

        *e = (struct etc){ .lock = -1 };
        j = (struct etc_job){ .ids = ids, .plan = plan };
        buf_init(&ca, 0);
        rc = plan->ca_cert >= 0 ? fd_read_all(plan->ca_cert, &ca, 65536, err) : 0;
        if (rc == 0)
                rc = shared_name(ids, hex, err);
        if (rc == 0 && can_share(plan, ids))
                rc = prepare_shared(e, &j, hex, err);
        if (rc == 0)
                rc = prepare_own(e, &j, hex, buf_slice(&ca), err);
        buf_fini(&ca);
        umask(mask);
        return rc;
}

void etc_fini(struct etc *e) { fd_close(&e->lock); }
