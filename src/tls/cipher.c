/* Ciphertext: see cipher.h. The socket is read at most once between begin and end, so that a short read is not followed by one in vain. */
#include "tls/cipher.h"

#include "base/log.h"
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

enum { RECORD_MORE_BYTES = 1024 }; /* header, tag and padding of a record, and what goes with a key update */

static struct cipher *owner;
static struct {
        size_t at, n;
        bool read;
        uint8_t bytes[CIPHER_READ_BYTES];
} ahead;
static struct {
        size_t n;
        uint8_t bytes[CIPHER_SEND_BYTES];
} cork;

static BIO_METHOD *method;

/* False: the socket is broken. */
static bool read_ahead(struct cipher *c)
{
        ssize_t n;

        ahead.read = true;
        do
                n = recv(c->fd, ahead.bytes, c->read_bytes, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        c->dry = n != (ssize_t)c->read_bytes;
        c->eof = n == 0;
        ahead.at = 0;
        ahead.n = n > 0 ? (size_t)n : 0;
        return n >= 0 || errno == EAGAIN || errno == EWOULDBLOCK;
}

static int on_read(BIO *b, char *out, int len)
{
        struct cipher *c = BIO_get_data(b);
        size_t n = len > 0 ? (size_t)len : 0;

        BIO_clear_retry_flags(b);
        if (buf_len(&c->raw)) {
                struct slice s = slice_first(buf_slice(&c->raw), n);

                memcpy(out, s.p, s.n);
                buf_consume(&c->raw, s.n);
                return (int)s.n;
        }
        if (owner == c && !ahead.read && !c->eof && !read_ahead(c))
                return -1;
        if (owner != c || ahead.at == ahead.n) {
                if (c->eof)
                        return 0;
                BIO_set_retry_read(b);
                return -1;
        }
        n = n < ahead.n - ahead.at ? n : ahead.n - ahead.at;
        memcpy(out, ahead.bytes + ahead.at, n);
        ahead.at += n;
        return (int)n;
}

static int on_write(BIO *b, const char *p, int len)
{
        struct cipher *c = BIO_get_data(b);
        size_t n = len > 0 ? (size_t)len : 0;

        BIO_clear_retry_flags(b);
        if (owner == c && !buf_len(&c->wire) && n <= sizeof(cork.bytes) - cork.n) {
                memcpy(cork.bytes + cork.n, p, n);
                cork.n += n;
                return len;
        }
        return buf_add(&c->wire, p, n) < 0 ? -1 : len;
}

/* SECURITY: not even at the end does BIO_CTRL_EOF say yes. OpenSSL would fail for good where the peer left out close_notify, and a client that
 * has only sent its last byte still waits for the answer. Whoever reads sees the cut by the error that cipher_read gives. */
static long on_ctrl(BIO *b, int cmd, long num, void *ptr)
{
        (void)b, (void)num, (void)ptr;
        return cmd == BIO_CTRL_FLUSH || cmd == BIO_CTRL_DUP ? 1 : 0;
}

static int on_create(BIO *b)
{
        BIO_set_init(b, 1);
        return 1;
}

BIO *cipher_bio(struct cipher *c)
{
        BIO *b;

        if (!method) {
                method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cipher");
                if (!method)
                        return NULL;
                BIO_meth_set_read(method, on_read);
                BIO_meth_set_write(method, on_write);
                BIO_meth_set_ctrl(method, on_ctrl);
                BIO_meth_set_create(method, on_create);
        }
        b = BIO_new(method);
        if (b)
                BIO_set_data(b, c);
        return b;
}

void cipher_init(struct cipher *c, int fd, size_t read_bytes, size_t wire_bytes)
{
        MUST(read_bytes <= sizeof(ahead.bytes));
        *c = (struct cipher){ .fd = fd, .read_bytes = read_bytes, .wire_bytes = wire_bytes };
        buf_init(&c->raw, 0);
        buf_init(&c->wire, 0);
}

void cipher_fini(struct cipher *c)
{
        buf_fini(&c->raw);
        buf_fini(&c->wire);
}

void cipher_begin(struct cipher *c)
{
        MUST(!owner);
        owner = c;
        ahead.at = ahead.n = 0;
        ahead.read = false;
        cork.n = 0;
}

/* Is there room for one more record in the block? */
static bool has_room(const struct cipher *c)
{
        return !buf_len(&c->wire) && sizeof(cork.bytes) - cork.n >= SSL3_RT_MAX_PLAIN_LENGTH + RECORD_MORE_BYTES;
}

/* Bytes taken, 0 when there is no room, -1 when broken. */
static ssize_t put(const struct cipher *c, const void *p, size_t n)
{
        ssize_t sent;

        do
                sent = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
}

/* The block goes before what OpenSSL wrote when it was full. */
static int keep_rest(struct cipher *c, size_t sent)
{
        struct buf rest;

        buf_init(&rest, 0);
        if (buf_add(&rest, cork.bytes + sent, cork.n - sent) < 0 || buf_add_slice(&rest, buf_slice(&c->wire)) < 0) {
                buf_fini(&rest);
                return -1;
        }
        buf_fini(&c->wire);
        c->wire = rest;
        return 0;
}

int cipher_end(struct cipher *c)
{
        ssize_t n = 0;
        size_t sent = 0;

        MUST(owner == c);
        owner = NULL;
        if (ahead.at < ahead.n && buf_add(&c->raw, ahead.bytes + ahead.at, ahead.n - ahead.at) < 0)
                return -1;
        while (sent < cork.n && (n = put(c, cork.bytes + sent, cork.n - sent)) > 0)
                sent += (size_t)n;
        if (sent < cork.n)
                return n < 0 ? -1 : keep_rest(c, sent);
        while (buf_len(&c->wire) && (n = put(c, buf_slice(&c->wire).p, buf_len(&c->wire))) > 0)
                buf_consume(&c->wire, (size_t)n);
        /* SECURITY: a peer that asks for key updates and reads no answer grows this with every read: it costs the peer nothing and us memory. */
        return n < 0 || buf_len(&c->wire) > c->wire_bytes ? -1 : 0;
}

int cipher_read(struct cipher *c, SSL *ssl, uint8_t *p, size_t cap, size_t *n)
{
        int rc = 0;

        *n = 0;
        ERR_clear_error();
        cipher_begin(c);
        for (size_t got; *n < cap; *n += got) {
                int e;

                if (SSL_read_ex(ssl, p + *n, cap - *n, &got))
                        continue;
                e = SSL_get_error(ssl, 0);
                if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
                        rc = e == SSL_ERROR_ZERO_RETURN ? 1 : -1;
                break;
        }
        if (cipher_end(c) < 0)
                rc = -1;
        ERR_clear_error();
        c->more = rc == 0 && (*n == cap || !c->dry || buf_len(&c->raw));
        return rc;
}

/* Encrypts of s what there is room for. Bytes, or -1. */
static ssize_t encrypt(struct cipher *c, SSL *ssl, struct slice s)
{
        size_t total = 0, n;

        while (total < s.n && has_room(c)) {
                struct slice part = slice_first(slice_skip(s, total), SSL3_RT_MAX_PLAIN_LENGTH);

                if (!SSL_write_ex(ssl, part.p, part.n, &n))
                        return -1;
                total += n;
        }
        return (ssize_t)total;
}

int cipher_write(struct cipher *c, SSL *ssl, struct buf *queue, struct slice *s)
{
        ERR_clear_error();
        while (buf_len(queue) || buf_len(&c->wire) || s->n) {
                ssize_t queued, direct = 0;

                cipher_begin(c);
                queued = encrypt(c, ssl, buf_slice(queue));
                if (queued > 0)
                        buf_consume(queue, (size_t)queued);
                if (queued >= 0 && buf_len(queue) == 0)
                        direct = encrypt(c, ssl, *s);
                if (direct > 0)
                        *s = slice_skip(*s, (size_t)direct);
                if (cipher_end(c) < 0 || queued < 0 || direct < 0) {
                        ERR_clear_error();
                        return -1;
                }
                if (buf_len(&c->wire))
                        break;
        }
        return 0;
}
