/* The guest's byte stream: see conn.h.
 *
 * Under TLS the socket is read in large pieces into one shared block, from which OpenSSL takes its records through a BIO of ours;
 * what it writes is gathered in another shared block and sent with one call. An idle connection owns no buffer at all. */
#include "inner/conn.h"
#include "base/fd.h"
#include "base/log.h"
#include "inner/limits.h"

#include <errno.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CORK_BYTES = 2 * SCRATCH_BYTES + 20 * 1024, SSL_PIECE_BYTES = 16 * 1024 };

static TAILQ_HEAD(, conn) dirty = TAILQ_HEAD_INITIALIZER(dirty);

static uint8_t scratch[SCRATCH_BYTES]; /* plain bytes of the connection being read */

/* Ciphertext of the one connection that is being read. */
static struct {
        struct conn *owner;
        size_t at, n;
        bool dry; /* the socket had no more: asking again would be in vain */
        uint8_t bytes[SCRATCH_BYTES];
} ahead;
/* Ciphertext of the one connection that is being written. */
static struct {
        struct conn *owner;
        size_t n;
        uint8_t bytes[CORK_BYTES];
} cork;

static BIO_METHOD *bio_method;

/* --- the socket --- */

static ssize_t sock_read(struct conn *c, void *p, size_t n)
{
        ssize_t got;

        do
                got = recv(c->fd, p, n, 0);
        while (got < 0 && errno == EINTR);
        if (got == 0)
                c->peer_gone = true;
        return got;
}

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

/* --- the BIO between OpenSSL and the socket --- */

static int bio_read(BIO *b, char *out, int len)
{
        struct conn *c = BIO_get_data(b);
        size_t n = len > 0 ? (size_t)len : 0;

        BIO_clear_retry_flags(b);
        if (buf_len(&c->raw)) {
                n = n < buf_len(&c->raw) ? n : buf_len(&c->raw);
                memcpy(out, c->raw.bytes + c->raw.start, n);
                buf_consume(&c->raw, n);
                return (int)n;
        }
        if (ahead.owner == c && ahead.at == ahead.n && !ahead.dry && !c->peer_gone) {
                ssize_t got = sock_read(c, ahead.bytes, sizeof(ahead.bytes));
                if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
                        return -1;
                ahead.at = 0;
                ahead.n = got > 0 ? (size_t)got : 0;
                ahead.dry = got < (ssize_t)sizeof(ahead.bytes);
        }
        if (ahead.owner != c || ahead.at == ahead.n) {
                if (c->peer_gone)
                        return 0;
                BIO_set_retry_read(b);
                return -1;
        }
        n = n < ahead.n - ahead.at ? n : ahead.n - ahead.at;
        memcpy(out, ahead.bytes + ahead.at, n);
        ahead.at += n;
        return (int)n;
}

static int bio_write(BIO *b, const char *p, int len)
{
        struct conn *c = BIO_get_data(b);
        size_t n = len > 0 ? (size_t)len : 0;

        BIO_clear_retry_flags(b);
        if (cork.owner == c && !buf_len(&c->wire) && n <= sizeof(cork.bytes) - cork.n) {
                memcpy(cork.bytes + cork.n, p, n);
                cork.n += n;
                return len;
        }
        return buf_add(&c->wire, p, n) < 0 ? -1 : len;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
        (void)b, (void)num, (void)ptr;
        return cmd == BIO_CTRL_FLUSH || cmd == BIO_CTRL_DUP ? 1 : 0;
}

static int bio_create(BIO *b)
{
        BIO_set_init(b, 1);
        return 1;
}

static BIO_METHOD *guest_bio(void)
{
        if (bio_method)
                return bio_method;
        bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "guest");
        MUST(bio_method);
        BIO_meth_set_read(bio_method, bio_read);
        BIO_meth_set_write(bio_method, bio_write);
        BIO_meth_set_ctrl(bio_method, bio_ctrl);
        BIO_meth_set_create(bio_method, bio_create);
        return bio_method;
}

/* --- writing --- */

static void cork_begin(struct conn *c)
{
        cork.owner = c;
        cork.n = 0;
}

/* Sends what is corked; the rest stays with the connection. 0, or -1 when the socket failed. */
static int cork_end(struct conn *c)
{
        size_t sent = 0;

        cork.owner = NULL;
        while (buf_len(&c->wire) && cork.n == 0) {
                ssize_t n = sock_write(c, buf_slice(&c->wire).p, buf_len(&c->wire));
                if (n < 0)
                        return -1;
                if (n == 0)
                        return 0;
                buf_consume(&c->wire, (size_t)n);
        }
        while (sent < cork.n) {
                ssize_t n = sock_write(c, cork.bytes + sent, cork.n - sent);
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                sent += (size_t)n;
        }
        if (sent < cork.n) {
                /* What the socket refused goes before anything OpenSSL wrote past the cork. */
                struct buf rest;
                buf_init(&rest, 0);
                if (buf_add(&rest, cork.bytes + sent, cork.n - sent) < 0 || buf_add_slice(&rest, buf_slice(&c->wire)) < 0) {
                        buf_fini(&rest);
                        return -1;
                }
                buf_fini(&c->wire);
                c->wire = rest;
        }
        cork.n = 0;
        return 0;
}

static void fail(struct conn *c, const char *why)
{
        if (!c->dead)
                c->ops->failed(c, why);
}

/* Encrypts of s what the block has room for. Bytes, or -1. */
static ssize_t encrypt(struct conn *c, struct slice s)
{
        size_t total = 0, done;

        while (total < s.n && !buf_len(&c->wire) && sizeof(cork.bytes) - cork.n >= SSL_PIECE_BYTES + 1024) {
                struct slice piece = slice_first(slice_skip(s, total), SSL_PIECE_BYTES);
                if (SSL_write_ex(c->ssl, piece.p, piece.n, &done) <= 0) {
                        ERR_clear_error();
                        cork.owner = NULL;
                        return -1;
                }
                total += done;
        }
        return (ssize_t)total;
}

/* Encrypts and sends the queue and then *s, until both or the socket's patience ends; leaves in *s what is left of it. */
static int send_tls(struct conn *c, struct slice *s)
{
        while (buf_len(&c->out) || buf_len(&c->wire) || s->n) {
                ssize_t n;
                cork_begin(c);
                if ((n = encrypt(c, buf_slice(&c->out))) < 0)
                        return -1;
                buf_consume(&c->out, (size_t)n);
                if (!buf_len(&c->out)) {
                        if ((n = encrypt(c, *s)) < 0)
                                return -1;
                        *s = slice_skip(*s, (size_t)n);
                }
                if (cork_end(c) < 0)
                        return -1;
                if (buf_len(&c->wire))
                        break;
        }
        return 0;
}

static int flush_tls(struct conn *c)
{
        struct slice none = SLICE_EMPTY;

        return send_tls(c, &none);
}

int conn_send(struct conn *c, struct slice s)
{
        conn_touch(c);
        if (s.n >= SSL_PIECE_BYTES && c->ssl && !c->handshaking && !c->dead && !c->broken && !buf_len(&c->wire))
                c->broken = send_tls(c, &s) < 0; /* told at the end of the turn: the caller is not to be closed under its feet */
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
                cork_begin(c);
                SSL_shutdown(c->ssl);
                ERR_clear_error();
                if (cork_end(c) < 0)
                        return;
        }
        shutdown(c->fd, SHUT_WR);
}

static void flush(struct conn *c)
{
        size_t before = buf_len(&c->out) + buf_len(&c->wire), after;

        if (c->dead || c->handshaking)
                return;
        if (c->broken || (c->ssl ? flush_tls(c) : flush_plain(c)) < 0) {
                fail(c, "the guest closed the connection");
                return;
        }
        after = buf_len(&c->out) + buf_len(&c->wire);
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
                cork_begin(c);
                if (cork_end(c) < 0)
                        fail(c, "the guest closed the connection");
                else
                        want_write(c, buf_len(&c->wire) != 0);
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
        size_t total = 0, n;

        *more = true;
        while (total < sizeof(scratch)) {
                if (SSL_read_ex(c->ssl, scratch + total, sizeof(scratch) - total, &n) > 0) {
                        total += n;
                        continue;
                }
                *more = false;
                switch (SSL_get_error(c->ssl, 0)) {
                case SSL_ERROR_WANT_READ:
                case SSL_ERROR_WANT_WRITE:
                        break;
                case SSL_ERROR_ZERO_RETURN:
                        c->eof = true;
                        break;
                default:
                        /* A connection cut without close_notify ends like one with it: HTTP knows by itself whether a message is whole. */
                        ERR_clear_error();
                        if (!c->peer_gone)
                                return -1;
                        c->eof = true;
                }
                break;
        }
        return (ssize_t)total;
}

static ssize_t read_plain(struct conn *c, bool *more)
{
        ssize_t n = sock_read(c, scratch, sizeof(scratch));

        *more = n == (ssize_t)sizeof(scratch);
        if (n < 0)
                return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        c->eof = n == 0;
        return n;
}

static void handshake(struct conn *c)
{
        int rc;

        cork_begin(c);
        rc = SSL_do_handshake(c->ssl);
        if (rc <= 0)
                rc = SSL_get_error(c->ssl, rc) == SSL_ERROR_WANT_READ ? 0 : -1;
        if (cork_end(c) < 0)
                rc = -1;
        want_write(c, buf_len(&c->wire) != 0);
        if (rc < 0) {
                unsigned long e = ERR_peek_last_error();
                const char *why = e ? ERR_reason_error_string(e) : NULL;
                ERR_clear_error();
                fail(c, why ? why : "the guest closed the connection");
        } else if (rc > 0) {
                c->handshaking = false;
                c->ops->tls_ready(c);
        }
}

/* Bytes read from the socket beyond what OpenSSL took stay with the connection. */
static void ahead_end(struct conn *c)
{
        ahead.owner = NULL;
        if (ahead.at < ahead.n && !c->dead && buf_add(&c->raw, ahead.bytes + ahead.at, ahead.n - ahead.at) < 0)
                fail(c, "out of memory");
        ahead.at = ahead.n = 0;
}

/* What OpenSSL answers by itself while we read, to key updates above all, goes out with the turn. SECURITY: such answers cost the guest nothing and us
 * memory; one that asks for them and reads none is cut. False: it was. */
static bool answers_fit(struct conn *c)
{
        if (!buf_len(&c->wire))
                return true;
        conn_touch(c);
        if (buf_len(&c->wire) <= CONN_WIRE_BYTES)
                return true;
        fail(c, "the guest does not read");
        return false;
}

static void fill(struct conn *c)
{
        bool more = true;

        for (int i = 0; i < READS_PER_TURN && more && !c->dead && !c->eof && !c->paused && buf_len(&c->in) < CONN_IN_BYTES; i++) {
                ssize_t n;
                ahead.owner = c;
                ahead.at = ahead.n = 0;
                ahead.dry = false;
                if (c->handshaking) {
                        handshake(c);
                        n = 0;
                        more = !c->dead && !c->handshaking;
                } else {
                        n = c->ssl ? read_tls(c, &more) : read_plain(c, &more);
                }
                ahead_end(c);
                if (c->dead || !answers_fit(c))
                        return;
                if (n > 0)
                        show(c, slice_of(scratch, (size_t)n));
                if (n < 0) {
                        fail(c, "the guest closed the connection");
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
        if (c->reading && c->ssl && (more || buf_len(&c->raw)))
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
        if (c->ssl && c->reading && (SSL_pending(c->ssl) || buf_len(&c->raw)))
                event_active(&c->ev_read, EV_READ, 0);
        tell_eof(c);
}

/* --- life --- */

int conn_open(struct conn *c, struct event_base *base, int fd, const struct conn_ops *ops, void *owner)
{
        *c = (struct conn){ .fd = fd, .ops = ops, .owner = owner };
        buf_init(&c->in, 0);
        buf_init(&c->raw, 0);
        buf_init(&c->out, 0);
        buf_init(&c->wire, 0);
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
        buf_fini(&c->raw);
        buf_fini(&c->out);
        buf_fini(&c->wire);
}

void conn_serve(struct conn *c, const struct conn_ops *ops, void *owner)
{
        c->ops = ops;
        c->owner = owner;
}

int conn_start_tls(struct conn *c, SSL *ssl, struct slice *in)
{
        BIO *b = BIO_new(guest_bio());

        if (!b || buf_add_slice(&c->raw, *in) < 0) {
                BIO_free(b);
                SSL_free(ssl);
                return -1;
        }
        *in = slice_skip(*in, in->n);
        BIO_set_data(b, c);
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
