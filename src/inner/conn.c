/* The guest's byte stream: see conn.h.
 *
 * Plain or out of OpenSSL (tls/cipher.h), bytes are read into one shared block and shown to the owner from there: only what it leaves is
 * copied. An idle connection owns no buffer at all. */
#include "inner/conn.h"
#include "base/fd.h"
#include "base/log.h"
#include "inner/limits.h"

#include <errno.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

static TAILQ_HEAD(, conn) dirty = TAILQ_HEAD_INITIALIZER(dirty);

static uint8_t scratch[SCRATCH_BYTES]; /* plain bytes of the connection being read */

/* --- the socket --- */

static ssize_t sock_write(struct conn *c, const void *p, size_t n)
{
        ssize_t put;

        do
                put = send(c->fd, p, n, MSG_NOSIGNAL);
        while (put < 0 && errno == EINTR);
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return 0;
        return put;
}

static void want_read(struct conn *c)
{
        bool on = !c->dead && !c->eof && !c->paused && buf_len(&c->in) < CONN_IN_BYTES;

        if (on != c->reading) {
                if ((on ? event_add(&c->ev_read, NULL) : event_del(&c->ev_read)) < 0)
                        log_error("cannot watch a connection");
                c->reading = on;
        }
}

static void want_write(struct conn *c, bool on)
{
        if (on != c->writing) {
                if ((on ? event_add(&c->ev_write, NULL) : event_del(&c->ev_write)) < 0)
                        log_error("cannot watch a connection");
                c->writing = on;
        }
}

/* --- writing --- */

static void fail(struct conn *c, const char *why)
{
        if (!c->dead)
                c->ops->failed(c, why);
}

static int flush_tls(struct conn *c)
{
        struct slice none = SLICE_EMPTY;

        return cipher_write(&c->cipher, c->ssl, &c->out, &none);
}

int conn_send(struct conn *c, struct slice s)
{
        conn_touch(c);
        if (s.n >= SSL3_RT_MAX_PLAIN_LENGTH && c->ssl && !c->handshaking && !c->dead && !c->broken && !buf_len(&c->cipher.wire))
                c->broken = cipher_write(&c->cipher, c->ssl, &c->out, &s) < 0; /* told at the end of the turn: the caller is not to be closed under its feet */
        return buf_add_slice(&c->out, s);
}

static int flush_plain(struct conn *c)
{
        while (buf_len(&c->out)) {
                ssize_t n = sock_write(c, buf_slice(&c->out).p, buf_len(&c->out));
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                buf_consume(&c->out, (size_t)n);
        }
        return 0;
}

static void send_fin(struct conn *c)
{
        c->fin_sent = true;
        if (c->ssl) {
                cipher_begin(&c->cipher);
                SSL_shutdown(c->ssl);
                ERR_clear_error();
                if (cipher_end(&c->cipher) < 0)
                        return;
        }
        shutdown(c->fd, SHUT_WR);
}

static void flush(struct conn *c)
{
        size_t before = buf_len(&c->out) + buf_len(&c->cipher.wire), after;

        if (c->dead || c->handshaking)
                return;
        if (c->broken || (c->ssl ? flush_tls(c) : flush_plain(c)) < 0) {
                fail(c, "the guest closed the connection");
                return;
        }
        after = buf_len(&c->out) + buf_len(&c->cipher.wire);
        want_write(c, after != 0);
        if (after == 0 && c->fin_wanted && !c->fin_sent)
                send_fin(c);
        if (before != after || before == 0)
                c->ops->drained(c, after);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
        struct conn *c = arg;

        (void)fd, (void)what;
        if (c->dead)
                return;
        if (c->handshaking) {
                cipher_begin(&c->cipher);
                if (cipher_end(&c->cipher) < 0)
                        fail(c, "the guest closed the connection");
                else
                        want_write(c, buf_len(&c->cipher.wire) != 0);
                return;
        }
        flush(c);
}

void conn_touch(struct conn *c)
{
        if (c->dirty || c->dead)
                return;
        c->dirty = true;
        TAILQ_INSERT_TAIL(&dirty, c, link);
}

void conn_turn_end(void)
{
        struct conn *c;

        while ((c = TAILQ_FIRST(&dirty))) {
                TAILQ_REMOVE(&dirty, c, link);
                c->dirty = false;
                flush(c);
        }
}

/* --- reading --- */

/* Shows bytes to the owner; what it leaves is kept in c->in. */
static void show(struct conn *c, struct slice fresh)
{
        const struct conn_ops *ops;
        struct slice in = fresh;
        bool queued = buf_len(&c->in) != 0;

        if (queued) {
                if (buf_add_slice(&c->in, fresh) < 0) {
                        fail(c, "out of memory");
                        return;
                }
                in = buf_slice(&c->in);
        }
        c->in_data = true;
        do { /* a new owner sees what the old one left */
                ops = c->ops;
                ops->data(c, &in);
        } while (!c->dead && c->ops != ops && in.n);
        c->in_data = false;
        if (c->dead)
                return;
        if (queued)
                buf_consume(&c->in, buf_len(&c->in) - in.n);
        else if (in.n && buf_add_slice(&c->in, in) < 0)
                fail(c, "out of memory");
}

static void tell_eof(struct conn *c)
{
        if (c->dead || c->eof_told || !c->eof || c->paused)
                return;
        c->eof_told = true;
        c->ops->eof(c);
}

/* Fills the scratch block from TLS. Bytes; 0 when there are none now; -1 on failure. Sets c->eof. */
static ssize_t read_tls(struct conn *c, bool *more)
{
        size_t n;
        int rc = cipher_read(&c->cipher, c->ssl, scratch, sizeof(scratch), &n);

        *more = c->cipher.more;
        /* A connection cut without close_notify ends like one with it: HTTP knows by itself whether a message is whole. */
        if (rc < 0 && !c->cipher.eof)
                return -1;
        c->eof = rc != 0;
        return (ssize_t)n;
}

static ssize_t read_plain(struct conn *c, bool *more)
{
        ssize_t n;

        do
                n = recv(c->fd, scratch, sizeof(scratch), 0);
        while (n < 0 && errno == EINTR);
        *more = n == (ssize_t)sizeof(scratch);
        if (n < 0)
                return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        c->eof = n == 0;
        return n;
}

/* True: go on reading. */
static bool handshake(struct conn *c)
{
        int rc;

        cipher_begin(&c->cipher);
        rc = SSL_do_handshake(c->ssl);
        if (rc <= 0)
                rc = SSL_get_error(c->ssl, rc) == SSL_ERROR_WANT_READ ? 0 : -1;
        if (cipher_end(&c->cipher) < 0)
                rc = -1;
        want_write(c, buf_len(&c->cipher.wire) != 0);
        if (rc < 0) {
                unsigned long e = ERR_peek_last_error();
                const char *why = e ? ERR_reason_error_string(e) : NULL;
                ERR_clear_error();
                fail(c, why ? why : "the guest closed the connection");
        } else if (rc > 0) {
                c->handshaking = false;
                c->ops->tls_ready(c);
        }
        return rc > 0 && !c->dead;
}

static void fill(struct conn *c)
{
        bool more = true;

        for (int i = 0; i < READS_PER_TURN && more && !c->dead && !c->eof && !c->paused && buf_len(&c->in) < CONN_IN_BYTES; i++) {
                ssize_t n = 0;
                if (c->handshaking)
                        more = handshake(c);
                else
                        n = c->ssl ? read_tls(c, &more) : read_plain(c, &more);
                if (c->dead)
                        return;
                if (buf_len(&c->cipher.wire))
                        conn_touch(c); /* what OpenSSL answered by itself, to key updates above all, and the socket did not take */
                if (n > 0)
                        show(c, slice_of(scratch, (size_t)n));
                if (n < 0) {
                        fail(c, buf_len(&c->cipher.wire) > CONN_WIRE_BYTES ? "the guest does not read" : "the guest closed the connection");
                        return;
                }
        }
        if (c->dead)
                return;
        tell_eof(c);
        if (c->dead)
                return;
        want_read(c);
        /* Bytes that OpenSSL or we already hold do not wake the socket. */
        if (c->reading && c->ssl && (more || buf_len(&c->cipher.raw)))
                event_active(&c->ev_read, EV_READ, 0);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
        struct conn *c = arg;

        (void)fd, (void)what;
        if (!c->dead && c->reading)
                fill(c);
}

void conn_pause(struct conn *c)
{
        c->paused = true;
        want_read(c);
}

void conn_resume(struct conn *c)
{
        if (c->dead)
                return;
        c->paused = false;
        if (!c->in_data && buf_len(&c->in))
                show(c, SLICE_EMPTY);
        if (c->dead || c->in_data)
                return;
        want_read(c);
        if (c->ssl && c->reading && (SSL_pending(c->ssl) || buf_len(&c->cipher.raw)))
                event_active(&c->ev_read, EV_READ, 0);
        tell_eof(c);
}

/* --- life --- */

int conn_open(struct conn *c, struct event_base *base, int fd, const struct conn_ops *ops, void *owner)
{
        *c = (struct conn){ .fd = fd, .ops = ops, .owner = owner };
        buf_init(&c->in, 0);
        buf_init(&c->out, 0);
        if (event_assign(&c->ev_read, base, fd, EV_READ | EV_PERSIST, on_readable, c) < 0 ||
            event_assign(&c->ev_write, base, fd, EV_WRITE | EV_PERSIST, on_writable, c) < 0) {
                close(fd);
                c->fd = -1;
                c->dead = true;
                return -1;
        }
        want_read(c);
        return 0;
}

void conn_reset_fd(int fd)
{
        struct linger none = { .l_onoff = 1, .l_linger = 0 };

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        close(fd);
}

void conn_close(struct conn *c, bool reset)
{
        if (c->dead)
                return;
        c->dead = true;
        if (c->dirty)
                TAILQ_REMOVE(&dirty, c, link);
        c->dirty = false;
        event_del(&c->ev_read);
        event_del(&c->ev_write);
        SSL_free(c->ssl);
        c->ssl = NULL;
        if (reset)
                conn_reset_fd(c->fd);
        else
                close(c->fd);
        c->fd = -1;
        buf_fini(&c->in);
        buf_fini(&c->out);
        cipher_fini(&c->cipher);
}

void conn_serve(struct conn *c, const struct conn_ops *ops, void *owner)
{
        c->ops = ops;
        c->owner = owner;
}

int conn_start_tls(struct conn *c, SSL *ssl, struct slice *in)
{
        BIO *b;

        cipher_init(&c->cipher, c->fd, SCRATCH_BYTES, CONN_WIRE_BYTES);
        b = cipher_bio(&c->cipher);
        if (!b || buf_add_slice(&c->cipher.raw, *in) < 0) {
                BIO_free(b);
                SSL_free(ssl);
                return -1;
        }
        *in = slice_skip(*in, in->n);
        SSL_set_bio(ssl, b, b);
        c->ssl = ssl;
        c->handshaking = true;
        return 0;
}

void conn_finish(struct conn *c)
{
        c->fin_wanted = true;
        conn_touch(c);
}
