/* Channel: see chan.h. */
#include "base/chan.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int chan_pair(int fds[2])
{
        int size = 4 * CHAN_MESSAGE_BYTES;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -1;
        for (int i = 0; i < 2; i++)
                if (setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0) {
                        fd_close(&fds[0]);
                        fd_close(&fds[1]);
                        return -1;
                }
        return 0;
}

int chan_send(int fd, json_t *body, const int *fds, size_t fd_count)
{
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * CHAN_FDS)]; } control;
        struct iovec iov;
        struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t n;
        int e;

        json_decref(body);
        if (!text) {
                errno = ENOMEM;
                return -1;
        }
        iov = (struct iovec){ text, strlen(text) };
        if (iov.iov_len > CHAN_MESSAGE_BYTES || fd_count > CHAN_FDS) {
                free(text);
                errno = EMSGSIZE;
                return -1;
        }
        if (fd_count) {
                struct cmsghdr *c;
                memset(&control, 0, sizeof(control));
                mh.msg_control = control.bytes;
                mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
                c = CMSG_FIRSTHDR(&mh);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
        }
        do
                n = sendmsg(fd, &mh, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        e = errno;
        free(text);
        errno = e;
        return n < 0 ? -1 : 0;
}

/* Collects the descriptors of one received message into msg. */
static void take_fds(struct msghdr *mh, struct chan_msg *msg)
{
        for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
                size_t n;
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (msg->fd_count < CHAN_FDS)
                                msg->fds[msg->fd_count++] = fd;
                        else
                                close(fd);
                }
        }
}

int chan_recv(int fd, struct chan_msg *msg, struct err *err)
{
        static _Thread_local char text[CHAN_MESSAGE_BYTES + 1];
        union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * CHAN_FDS)]; } control;
        struct iovec iov = { text, sizeof(text) };
        struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control) };
        json_error_t je;
        ssize_t n;

        *msg = (struct chan_msg){ 0 };
        do
                n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return 0;
        if (n < 0)
                return err_sys(err, errno, "channel");
        take_fds(&mh, msg);
        if (n == 0) {
                chan_msg_fini(msg);
                return err_set(err, "closed");
        }
        if (!(mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && n <= CHAN_MESSAGE_BYTES)
                msg->body = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &je);
        msg->op = json_string_value(json_object_get(msg->body, "op"));
        if (!msg->op) {
                chan_msg_fini(msg);
                return err_set(err, "channel: a message that is no JSON object with an op, or is too long");
        }
        return 1;
}

int chan_wait(int fd, int timeout_ms, struct chan_msg *msg, struct err *err)
{
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        int n = poll(&pfd, 1, timeout_ms);

        if (n == 0 || (n < 0 && errno == EINTR)) {
                *msg = (struct chan_msg){ 0 };
                return 0;
        }
        return n < 0 ? err_sys(err, errno, "poll") : chan_recv(fd, msg, err);
}

void chan_msg_fini(struct chan_msg *msg)
{
        for (size_t i = 0; i < msg->fd_count; i++)
                fd_close(&msg->fds[i]);
        json_decref(msg->body);
        *msg = (struct chan_msg){ 0 };
}

const char *chan_str(const struct chan_msg *msg, const char *key, const char *otherwise)
{
        const char *s = json_string_value(json_object_get(msg->body, key));
        return s ? s : otherwise;
}

long long chan_int(const struct chan_msg *msg, const char *key, long long otherwise)
{
        json_t *v = json_object_get(msg->body, key);
        return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

bool chan_bool(const struct chan_msg *msg, const char *key, bool otherwise)
{
        json_t *v = json_object_get(msg->body, key);
        return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

int chan_take_fd(struct chan_msg *msg, size_t i)
{
        int fd;

        if (i >= msg->fd_count)
                return -1;
        fd = msg->fds[i];
        msg->fds[i] = -1;
        return fd;
}
