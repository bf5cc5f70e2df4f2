/* Connections: see conn.h. */
#include "outer/conn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "outer/dial.h"
#include "outer/proxy.h"
#include "outer/resolve.h"
#include "outer/ruleset.h"
#include "outer/tls.h"
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void conn_fail(struct conn *c, enum reason reason, const char *detail)
{
        event_del(c->deadline);
        c->owner->failed(c->ctx, reason, detail);
}

/* --- closing --- */

static void conn_bury(void *ctx)
{
        struct conn *c = ctx;

        turn_forget(c->outer->turn, &c->flush);
        turn_forget(c->outer->turn, &c->read);
        buf_fini(&c->in);
        buf_fini(&c->out);
        free(c);
}

static void event_drop(struct event **e)
{
        if (*e)
                event_free(*e);
        *e = NULL;
}

void conn_close(struct conn *c)
{
        if (!c || c->state == CONN_DEAD)
                return;
        c->state = CONN_DEAD;
        if (c->resolve)
                resolve_cancel(c->resolve);
        if (c->dial)
                dial_cancel(c->dial);
        c->resolve = NULL;
        c->dial = NULL;
        event_drop(&c->readable);
        event_drop(&c->writable);
        event_drop(&c->deadline);
        if (c->ssl) {
                if (SSL_is_init_finished(c->ssl)) {
                        ERR_clear_error();
                        cipher_begin(&c->cipher);
                        (void)!SSL_shutdown(c->ssl);
                        (void)!cipher_end(&c->cipher);
                }
                SSL_free(c->ssl);
                cipher_fini(&c->cipher);
                ERR_clear_error();
        }
        c->ssl = NULL;
        fd_close(&c->fd);
        turn_ask(c->outer->turn, &c->grave);
}

/* --- reading --- */

/* What OpenSSL wrote by itself and the socket did not take. */
static void watch_wire(struct conn *c)
{
        if (buf_len(&c->cipher.wire)) {
                c->blocked = true;
                event_add(c->writable, NULL);
        }
}

/* One read of the socket into c->in. >0 bytes, 0 end, -1 nothing now, -2 broken (what came before it stands in c->in). */
static ssize_t read_tls(struct conn *c)
{
        uint8_t *p = buf_reserve(&c->in, CONN_READ_BYTES);
        size_t got;
        int rc;

        if (!p)
                return -2;
        rc = cipher_read(&c->cipher, c->ssl, p, CONN_READ_BYTES, &got);
        buf_commit(&c->in, got);
        c->received += got;
        c->eof = rc == 1;
        watch_wire(c);
        if (rc < 0)
                return -2;
        return got ? (ssize_t)got : rc == 1 ? 0 : -1;
}

static ssize_t read_plain(struct conn *c)
{
        uint8_t *p = buf_reserve(&c->in, CONN_READ_BYTES);
        ssize_t n;

        do
                n = p ? recv(c->fd, p, CONN_READ_BYTES, MSG_DONTWAIT) : 0;
        while (n < 0 && errno == EINTR);
        if (!p || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
                return -2;
        if (n > 0) {
                buf_commit(&c->in, (size_t)n);
                c->received += (size_t)n;
        }
        c->eof = n == 0;
        c->dry = n != CONN_READ_BYTES;
        return n;
}

/* Reads until the socket is empty, the turn's share is used, or the owner pauses. */
static void conn_read(void *ctx)
{
        struct conn *c = ctx;
        size_t turn = 0;

        while (c->state == CONN_OPEN && !c->paused && !c->eof) {
                size_t before = buf_len(&c->in), got;
                ssize_t n = c->ssl ? read_tls(c) : read_plain(c);
                bool more = c->ssl ? c->cipher.more : !c->dry;

                got = buf_len(&c->in) - before;
                turn += got;
                if (c->eof)
                        event_del(c->readable); /* it would be reported for ever */
                if (got || c->eof)
                        c->owner->readable(c->ctx);
                if (c->state == CONN_OPEN && n == -2) {
                        c->owner->broken(c->ctx, "the connection was reset");
                        return;
                }
                if (n == -1 || !more)
                        return;
                if (turn >= CONN_TURN_BYTES) {
                        if (c->state == CONN_OPEN && c->ssl)
                                turn_ask(c->outer->turn, &c->read);
                        return;
                }
        }
}

/* --- writing --- */

static int write_tls(struct conn *c, struct slice *s)
{
        int rc = cipher_write(&c->cipher, c->ssl, &c->out, s);

        watch_wire(c);
        return rc;
}

int conn_put(struct conn *c, struct slice s)
{
        if (c->ssl && s.n >= SSL3_RT_MAX_PLAIN_LENGTH && !c->blocked && c->state == CONN_OPEN && !c->out_broken)
                c->out_broken = write_tls(c, &s) < 0; /* told by the flush: the caller is not to be closed under its feet */
        return buf_add_slice(&c->out, s);
}

static int write_plain(struct conn *c)
{
        while (buf_len(&c->out)) {
                ssize_t n = send(c->fd, buf_slice(&c->out).p, buf_len(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
                        return -1;
                if (n < 0) {
                        c->blocked = true;
                        event_add(c->writable, NULL);
                        break;
                }
                buf_consume(&c->out, (size_t)n);
        }
        return 0;
}

/* False when the connection broke (the owner was told). */
static bool conn_write(struct conn *c)
{
        struct slice none = SLICE_EMPTY;

        if (c->out_broken || (c->ssl ? write_tls(c, &none) : write_plain(c)) < 0) {
                /* What the origin said before it closed may explain it: read first. */
                conn_read(c);
                if (c->state == CONN_OPEN)
                        c->owner->broken(c->ctx, "the server closed the connection");
                return false;
        }
        if (c->shut && !c->blocked && c->state == CONN_OPEN) {
                (void)!shutdown(c->fd, SHUT_WR);
                c->shut = false;
        }
        return true;
}

static void conn_flush(void *ctx)
{
        struct conn *c = ctx;

        while (c->state == CONN_OPEN) {
                c->owner->writable(c->ctx);
                if (c->state != CONN_OPEN || c->blocked || (buf_len(&c->out) == 0 && !c->out_broken) || !conn_write(c))
                        break;
        }
        if (c->state == CONN_OPEN && !c->blocked && (buf_len(&c->cipher.wire) || (c->shut && buf_len(&c->out) == 0)))
                (void)conn_write(c);
}

void conn_ask(struct conn *c)
{
        if (c->state == CONN_OPEN)
                turn_ask(c->outer->turn, &c->flush);
}

void conn_shut(struct conn *c)
{
        c->shut = true;
        conn_ask(c);
}

void conn_pause(struct conn *c, bool pause)
{
        if (c->paused == pause || c->state != CONN_OPEN)
                return;
        c->paused = pause;
        if (pause)
                event_del(c->readable);
        else if (!c->eof) {
                event_add(c->readable, NULL);
                turn_ask(c->outer->turn, &c->read); /* what TLS read ahead makes no event */
        }
}

/* --- opening --- */

static void conn_opened(struct conn *c)
{
        c->state = CONN_OPEN;
        event_del(c->deadline);
        c->owner->opened(c->ctx);
        if (c->state == CONN_OPEN && (buf_len(&c->in) || c->ssl))
                turn_ask(c->outer->turn, &c->read);
}

static void tls_step(struct conn *c)
{
        char detail[DETAIL_BYTES * 2];
        int rc, e;

        ERR_clear_error();
        cipher_begin(&c->cipher);
        rc = SSL_do_handshake(c->ssl);
        e = SSL_get_error(c->ssl, rc);
        if (cipher_end(&c->cipher) == 0) {
                watch_wire(c);
                if (rc == 1)
                        conn_opened(c);
                if (rc == 1 || e == SSL_ERROR_WANT_READ)
                        return;
        }
        tls_why(c->ssl, c->host, detail, sizeof(detail));
        conn_fail(c, REASON_UPSTREAM_TLS, detail);
}

static void tls_begin(struct conn *c)
{
        struct policy_host host = c->to.is_addr ? (struct policy_host){ 0 } : policy_host(c->outer->rules->policy, c->to.name);
        X509_STORE *store = host.ca_path.n ? ruleset_store(c->outer->rules, host.ca_path) : NULL;
        char key[HOST_BYTES_MAX + 16];

        if (host.ca_path.n && !store) {
                conn_fail(c, REASON_UPSTREAM_TLS, "the CA file that the host block names did not come with the policy");
                return;
        }
        snprintf(key, sizeof(key), "%s:%u:%d", c->host, c->to.port, c->h2);
        cipher_init(&c->cipher, c->fd, CONN_READ_BYTES, CONN_WIRE_BYTES);
        c->ssl = tls_client(c->outer->tls, &c->cipher, c->host, c->to.is_addr, c->keep_session ? key : NULL, store, c->h2);
        if (!c->ssl) {
                conn_fail(c, REASON_INTERNAL, "TLS could not be set up");
                return;
        }
        c->state = CONN_TLS;
        tls_step(c);
}

static void proxy_step(struct conn *c)
{
        uint8_t *p = buf_reserve(&c->in, PROXY_HEAD_BYTES);
        ssize_t n = p ? recv(c->fd, p, 1, MSG_DONTWAIT) : 0; /* byte by byte: what follows the answer belongs to TLS */
        unsigned status = 0;
        size_t used;
        int rc = 0;
        char detail[DETAIL_BYTES];

        while (n > 0 && rc == 0) {
                struct slice in;

                buf_commit(&c->in, 1);
                in = buf_slice(&c->in);
                if (in.n >= 4 && memcmp(in.p + in.n - 4, "\r\n\r\n", 4) == 0)
                        rc = proxy_answer(in, &used, &status);
                else if (in.n >= PROXY_HEAD_BYTES)
                        rc = -1;
                if (rc == 0) {
                        p = buf_reserve(&c->in, 1);
                        n = p ? recv(c->fd, p, 1, MSG_DONTWAIT) : 0;
                }
        }
        if (rc == 0 && n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        buf_clear(&c->in);
        if (rc <= 0) {
                snprintf(detail, sizeof(detail), status ? "the upstream proxy answered %u" : "the upstream proxy closed the connection", status);
                conn_fail(c, REASON_UPSTREAM_PROXY, detail);
        } else if (c->tls)
                tls_begin(c);
        else
                conn_opened(c);
}

static void proxy_begin(struct conn *c)
{
        struct buf head;

        buf_init(&head, PROXY_HEAD_BYTES);
        c->state = CONN_PROXY;
        if (proxy_connect(c->outer->proxy, &c->to, &head) < 0 || fd_write_all(c->fd, buf_slice(&head).p, buf_len(&head)) < 0)
                conn_fail(c, REASON_UPSTREAM_PROXY, "the upstream proxy cannot be reached");
        if (head.bytes)
                explicit_bzero(head.bytes, head.cap);
        buf_fini(&head);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
        struct conn *c = arg;

        (void)fd;
        (void)what;
        switch (c->state) {
        case CONN_PROXY:
                proxy_step(c);
                break;
        case CONN_TLS:
                tls_step(c);
                break;
        case CONN_OPEN:
                conn_read(c);
                break;
        case CONN_NAME:
        case CONN_DIAL:
        case CONN_DEAD:
                break;
        }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
        struct conn *c = arg;

        (void)fd;
        (void)what;
        c->blocked = false;
        if (c->state == CONN_TLS)
                tls_step(c);
        else if (c->state == CONN_OPEN)
                conn_flush(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
        static const char *const at[] = { "its name was not resolved in time", "no connection in time", "the upstream proxy did not answer in time",
                                          "no TLS handshake in time", "", "" };
        struct conn *c = arg;

        (void)fd;
        (void)what;
        conn_fail(c, REASON_UPSTREAM_TIMEOUT, at[c->state]);
}

static void on_dialled(void *ctx, int fd, const struct addr *to, int errno_value)
{
        struct conn *c = ctx;
        char detail[DETAIL_BYTES + HOST_BYTES_MAX];

        c->dial = NULL;
        if (fd < 0) {
                snprintf(detail, sizeof(detail), "%s cannot be reached: %s", c->by_proxy ? "the upstream proxy" : c->host, strerror(errno_value));
                conn_fail(c, c->by_proxy ? REASON_UPSTREAM_PROXY : errno_value == ETIMEDOUT ? REASON_UPSTREAM_TIMEOUT : REASON_UPSTREAM_CONNECT, detail);
                return;
        }
        c->fd = fd;
        if (!c->by_proxy) {
                c->has_address = true;
                c->address = *to;
        }
        c->readable = event_new(c->outer->base, fd, EV_READ | EV_PERSIST, on_readable, c);
        c->writable = event_new(c->outer->base, fd, EV_WRITE, on_writable, c);
        if (!c->readable || !c->writable || event_add(c->readable, NULL) < 0) {
                conn_fail(c, REASON_LIMIT, "out of memory");
                return;
        }
        if (c->by_proxy)
                proxy_begin(c);
        else if (c->tls)
                tls_begin(c);
        else
                conn_opened(c);
}

/* SECURITY: nothing is dialled that was not admitted right here, in the same form in which it is dialled. */
static void conn_dial(struct conn *c, const struct addr *addrs, size_t count)
{
        struct addr admitted[RESOLVE_ADDRS_MAX];
        size_t n = 0;

        for (size_t i = 0; i < count && n < RESOLVE_ADDRS_MAX; i++)
                if (c->by_proxy || c->owner->admit(c->ctx, &addrs[i]))
                        admitted[n++] = addrs[i];
        if (n == 0) {
                event_del(c->deadline);
                c->owner->refused(c->ctx, &addrs[0]);
                return;
        }
        dial_interleave(admitted, n);
        c->state = CONN_DIAL;
        c->dial = dial_start(c->outer->base, admitted, n, c->dial_port, on_dialled, c);
        if (!c->dial)
                conn_fail(c, REASON_LIMIT, "out of memory");
}

static void on_resolved(void *ctx, const struct resolve_answer *a)
{
        struct conn *c = ctx;
        char detail[DETAIL_BYTES + HOST_BYTES_MAX];

        c->resolve = NULL;
        if (a->count) {
                conn_dial(c, a->addr, a->count);
                return;
        }
        snprintf(detail, sizeof(detail), "%s: %s", c->by_proxy ? "the upstream proxy" : c->host, a->why);
        conn_fail(c, c->by_proxy ? REASON_UPSTREAM_PROXY : a->timed_out ? REASON_UPSTREAM_TIMEOUT : REASON_UPSTREAM_DNS, detail);
}

/* From the turn's end, so that nothing calls back while conn_new runs. */
static void conn_start(void *ctx)
{
        struct conn *c = ctx;
        const struct authority *to = c->by_proxy ? proxy_at(c->outer->proxy) : &c->to;
        struct resolve_answer now;
        int rc;

        c->flush.run = conn_flush;
        if (c->state == CONN_DEAD)
                return;
        if (c->is_pinned || to->is_addr) {
                conn_dial(c, c->is_pinned ? &c->pinned : &to->addr, 1);
                return;
        }
        rc = resolve_start(c->outer->resolver, to->name, on_resolved, c, &now, &c->resolve);
        if (rc == 1)
                on_resolved(c, &now);
        else if (rc < 0)
                conn_fail(c, REASON_LIMIT, "too many names are being resolved");
}

/* Where it really goes: pinned by a host block, through the proxy, or as named. */
static void conn_aim(struct conn *c, const struct authority *to)
{
        struct policy_host host = to->is_addr ? (struct policy_host){ 0 } : policy_host(c->outer->rules->policy, to->name);
        char text[ADDR_TEXT_BYTES];

        snprintf(c->host, sizeof(c->host), "%.*s", SLICE_FMT(to->name));
        if (to->is_addr)
                snprintf(c->host, sizeof(c->host), "%s", addr_print(text, &to->addr));
        c->to = *to;
        c->to.name = to->is_addr ? SLICE_EMPTY : slice_str(c->host);
        c->dial_port = host.port ? host.port : to->port;
        c->is_pinned = host.pinned;
        c->pinned = host.address;
        c->by_proxy = !host.pinned && proxy_covers(c->outer->proxy, to);
        if (c->by_proxy)
                c->dial_port = proxy_at(c->outer->proxy)->port;
}

struct conn *conn_new(struct outer *o, const struct conn_plan *plan, const struct conn_owner *owner, void *ctx)
{
        static const struct timeval deadline = { CONN_DEADLINE_MS / 1000, 0 };
        struct conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        *c = (struct conn){ .outer = o, .owner = owner, .ctx = ctx, .fd = -1, .tls = plan->tls, .h2 = plan->h2, .keep_session = plan->keep_session,
                            .flush = { .run = conn_start, .ctx = c }, .read = { .run = conn_read, .ctx = c }, .grave = { .run = conn_bury, .ctx = c } };
        c->deadline = evtimer_new(o->base, on_deadline, c);
        if (!c->deadline) {
                free(c);
                return NULL;
        }
        conn_aim(c, plan->to);
        c->in.wipe = c->out.wipe = o->account != NULL;
        event_add(c->deadline, &deadline);
        turn_ask(o->turn, &c->flush);
        return c;
}

bool conn_has_news(const struct conn *c)
{
        uint8_t byte;

        return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool conn_is_h2(const struct conn *c)
{
        const unsigned char *p = NULL;
        unsigned n = 0;

        if (c->ssl)
                SSL_get0_alpn_selected(c->ssl, &p, &n);
        return n == 2 && memcmp(p, "h2", 2) == 0;
}

/* Does OpenSSL hold a record, or the beginning of one? SSL_has_pending does not count a header that waits for its record. */
static bool tls_holds(const SSL *ssl) { return SSL_has_pending(ssl) || strcmp(SSL_rstate_string(ssl), "RH") != 0; }

bool conn_is_drained(const struct conn *c)
{
        if (buf_len(&c->in))
                return false;
        return c->ssl ? !c->cipher.more && !tls_holds(c->ssl) : c->dry;
}
