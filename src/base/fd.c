/* Descriptor helpers: see fd.h. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void fd_close(int *fd)
{
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        *fd = -1;
        errno = saved;
}

int fd_nonblock(int fd)
{
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int fd_cloexec(int fd, bool on) { return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0); }

int fd_memfd(const char *name, const void *p, size_t n)
{
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return -1;
        if (fd_write_all(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
                fd_close(&fd);
        return fd;
}

int fd_read_all(int fd, struct buf *out, size_t limit_bytes, struct err *err)
{
        off_t at = lseek(fd, 0, SEEK_CUR) < 0 ? -1 : 0;

        for (;;) {
                uint8_t *to = buf_reserve(out, 16384);
                ssize_t n;

                if (!to)
                        return err_set(err, "out of memory");
                n = at < 0 ? read(fd, to, 16384) : pread(fd, to, 16384, at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_sys(err, errno, "cannot read");
                if (n == 0)
                        return 0;
                buf_commit(out, (size_t)n);
                if (at >= 0)
                        at += n;
                if (buf_len(out) > limit_bytes)
                        return err_set(err, "larger than the %zu bytes allowed", limit_bytes);
        }
}

static int read_file(const char *path, struct buf *out, size_t limit_bytes, bool own, struct err *err)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
        struct stat st;
        struct err why = ERR_INIT;

        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                fd_close(&fd);
                return err_set(err, "%s: not a regular file", path);
        }
        if (own && ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & S_IWOTH))) {
                fd_close(&fd);
                return err_set(err, "%s: others could have written it: it must belong to you or root and not be writable by everyone (chmod o-w)", path);
        }
        rc = fd_read_all(fd, out, limit_bytes, &why);
        fd_close(&fd);
        return rc < 0 ? err_set(err, "%s: %s", path, why.text) : 0;
}

int fd_read_file(const char *path, struct buf *out, size_t limit_bytes, struct err *err) { return read_file(path, out, limit_bytes, false, err); }
int fd_read_own_file(const char *path, struct buf *out, size_t limit_bytes, struct err *err) { return read_file(path, out, limit_bytes, true, err); }

int fd_write_all(int fd, const void *p, size_t n)
{
        const uint8_t *at = p;

        while (n) {
                ssize_t w = write(fd, at, n);

                if (w < 0 && errno == EINTR)
                        continue;
                if (w < 0 && errno == EAGAIN) {
                        struct pollfd pfd = { .fd = fd, .events = POLLOUT };
                        if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
                                return -1;
                        continue;
                }
                if (w < 0)
                        return -1;
                at += w;
                n -= (size_t)w;
        }
        return 0;
}

/* fsync of the folder that holds path, so that a rename survives a power cut. */
static int sync_folder(const char *path)
{
        char dir[PATH_MAX];
        const char *slash = strrchr(path, '/');
        int fd, rc;

        if (!slash)
                snprintf(dir, sizeof(dir), ".");
        else
                snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        rc = fsync(fd);
        fd_close(&fd);
        return rc;
}

static int replace(const char *path, mode_t mode, const void *p, size_t n, bool sync, struct err *err)
{
        char tmp[PATH_MAX];
        int fd;

        if (snprintf(tmp, sizeof(tmp), "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof(tmp))
                return err_set(err, "%s: path too long", path);
        fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0)
                return err_sys(err, errno, "%s", tmp);
        if (fd_write_all(fd, p, n) < 0 || (sync && fsync(fd) < 0)) {
                int e = errno;
                fd_close(&fd);
                unlink(tmp);
                return err_sys(err, e, "%s", tmp);
        }
        fd_close(&fd);
        if (rename(tmp, path) < 0 || (sync && sync_folder(path) < 0)) {
                int e = errno;
                unlink(tmp);
                return err_sys(err, e, "%s", path);
        }
        return 0;
}

int fd_send_after(int fd, struct buf *queued, struct slice head, struct slice body)
{
        struct slice q = buf_slice(queued);
        struct iovec v[] = { { (void *)(uintptr_t)q.p, q.n }, { (void *)(uintptr_t)head.p, head.n }, { (void *)(uintptr_t)body.p, body.n } };
        struct msghdr msg = { .msg_iov = v, .msg_iovlen = 3 };
        ssize_t n;
        size_t sent;

        do
                n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        sent = (size_t)n;
        buf_consume(queued, sent < q.n ? sent : q.n);
        if (sent <= q.n)
                return 0;
        sent -= q.n;
        if (sent < head.n && buf_add_slice(queued, slice_skip(head, sent)) < 0)
                goto no_memory;
        if (buf_add_slice(queued, slice_skip(body, sent < head.n ? 0 : sent - head.n)) == 0)
                return 1;
no_memory:
        errno = ENOMEM;
        return -1;
}

int fd_write_file(const char *path, mode_t mode, const void *p, size_t n, struct err *err) { return replace(path, mode, p, n, true, err); }

int fd_write_file_unsynced(const char *path, mode_t mode, const void *p, size_t n, struct err *err) { return replace(path, mode, p, n, false, err); }

int fd_mkdirs(const char *path, mode_t mode, struct err *err)
{
        char part[PATH_MAX];
        size_t n = strlen(path);

        if (n == 0 || n >= sizeof(part))
                return err_set(err, "%s: path empty or too long", path);
        for (size_t i = 1; i <= n; i++) {
                if (path[i] != '/' && path[i] != 0)
                        continue;
                memcpy(part, path, i);
                part[i] = 0;
                if (mkdir(part, mode) < 0 && errno != EEXIST)
                        return err_sys(err, errno, "cannot make %s", part);
        }
        return 0;
}
