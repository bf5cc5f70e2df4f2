/* Ciphertext: see cipher.h. The socket is read at most once between begin and end, so that a short read is not followed by one in vain. */
#include "outer/cipher.h"

#include "outer/limits.h"
#include "base/log.h"
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

enum { RECORD_MORE_BYTES = 1024 }; /* header, tag and padding of a record, and what goes with a key update */

static struct cipher *owner;
static struct {
        size_t at, n;
        bool read;
        uint8_t bytes[CONN_READ_BYTES];
} ahead;
static struct {
        size_t n;
        uint8_t bytes[CONN_OUT_BYTES + CONN_OUT_BYTES / 16];
} cork;

static BIO_METHOD *method;

static void read_ahead(struct cipher *c)
{
        ssize_t n;

        ahead.read = true;
        do
                n = recv(c->fd, ahead.bytes, sizeof(ahead.bytes), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        c->dry = n != (ssize_t)sizeof(ahead.bytes);
        c->eof = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
        ahead.at = 0;
        ahead.n = n > 0 ? (size_t)n : 0;
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
        if (owner == c && !ahead.read && !c->eof)
                read_ahead(c);
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

static long on_ctrl(BIO *b, int cmd, long num, void *ptr)
{
        struct cipher *c = BIO_get_data(b);

        (void)num;
        (void)ptr;
        if (cmd == BIO_CTRL_EOF)
                return c->eof && !buf_len(&c->raw);
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
                method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "origin");
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

void cipher_init(struct cipher *c, int fd)
{
        *c = (struct cipher){ .fd = fd };
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

bool cipher_has_room(const struct cipher *c)
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
        /* SECURITY: an origin that asks for key updates and reads no answer grows this with every read. */
        return n < 0 || buf_len(&c->wire) > CONN_WIRE_BYTES ? -1 : 0;
}
