/* The link to the outer door: see link.h.
 *
 * One nghttp2 client session. Frames are made once per turn of the loop and leave with one write; window is given back only by
 * exchange_passed. SECURITY: `brome-*` fields of an answer are ours to read and never reach the guest. */
#include "inner/link.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/chunk.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_HEAD_BYTES = 9 };

struct link {
        struct door *door;
        int fd; /* -1: the outer door is gone */
        nghttp2_session *h2;
        struct event ev_read, ev_write;
        bool writing, broken;
        bool blocked; /* the socket takes no more for now */
        bool sent;    /* a frame left at once, in this round */
        struct buf out;
        size_t held_bytes;     /* came down and were not yet passed on */
        size_t deferred_bytes; /* of the connection's window, not yet given back */
};

static uint8_t scratch[2 * SCRATCH_BYTES];

/* --- fields of our own --- */

static bool is_ours(struct slice name) { return slice_starts(name, SLICE_LIT("brome-")); }

/* Address fields are printable ASCII without space; anything else is not shown. */
static void keep_address(struct exchange *x, struct slice v)
{
        if (v.n >= sizeof(x->address))
                return;
        for (size_t i = 0; i < v.n; i++)
                if (v.p[i] <= ' ' || v.p[i] >= 127)
                        return;
        memcpy(x->address, v.p, v.n);
        x->address[v.n] = '\0';
}

/* Takes the brome-* fields out of a block; *reason and *detail when the outer door refused. */
static void take_ours(struct exchange *x, struct headers *block, enum reason *reason, struct slice *detail)
{
        size_t kept = 0;

        *reason = REASON_NONE;
        *detail = SLICE_EMPTY;
        for (size_t i = 0; i < block->n; i++) {
                struct header h = block->at[i];
                if (!is_ours(h.name)) {
                        block->at[kept++] = h;
                } else if (slice_is(h.name, "brome-address")) {
                        keep_address(x, h.value);
                } else if (slice_is(h.name, "brome-reason")) {
                        *reason = reason_by_id(h.value);
                        if (*reason == REASON_COUNT || *reason == REASON_NONE)
                                *reason = REASON_INTERNAL;
                } else if (slice_is(h.name, "brome-detail")) {
                        *detail = h.value;
                }
        }
        block->n = kept;
}

/* --- what the outer door says --- */

static struct exchange *exchange_of(nghttp2_session *h2, int32_t id)
{
        return id ? nghttp2_session_get_stream_user_data(h2, id) : NULL;
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *f, void *user)
{
        struct exchange *x = exchange_of(h2, f->hd.stream_id);

        (void)user;
        if (x)
                x->block.n = 0;
        return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n,
                     uint8_t flags, void *user)
{
        struct exchange *x = exchange_of(h2, f->hd.stream_id);
        struct header h;
        bool ok = true;

        (void)flags, (void)user;
        if (!x)
                return 0;
        if (x->block.n == x->block_cap) {
                size_t cap = x->block_cap ? x->block_cap * 2 : 16;
                struct header *at = cap <= 2 * FIELDS_MAX ? arena_alloc_array(&x->arena, cap, sizeof(*at)) : NULL;
                if (!at)
                        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                if (x->block.n)
                        memcpy(at, x->block.at, x->block.n * sizeof(*at));
                x->block.at = at;
                x->block_cap = cap;
        }
        h.name = arena_copy(&x->arena, slice_of(name, name_n), &ok);
        h.value = arena_copy(&x->arena, slice_of(value, value_n), &ok);
        if (!ok)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        x->block.at[x->block.n++] = h;
        return 0;
}

/* The answer to a CONNECT: nothing but its status matters. */
static enum wire_reason connect_answer(const struct headers *block, struct response *r)
{
        uint64_t status;

        *r = (struct response){ .upgraded = true };
        if (!block->n || !slice_is(block->at[0].name, ":status") || !field_number(block->at[0].value, &status) || status < 100 || status > 999)
                return WIRE_STATUS;
        r->status = (uint16_t)status;
        return WIRE_OK;
}

static void got_head(struct exchange *x, bool end_stream)
{
        enum reason reason;
        struct slice detail;
        struct response r;
        enum wire_reason why;

        take_ours(x, &x->block, &reason, &detail);
        if (reason != REASON_NONE) {
                exchange_link_reset(x, reason, detail);
                return;
        }
        why = x->req ? response_from_h2(&x->arena, &x->block, end_stream, x->req, false, &r) : connect_answer(&x->block, &r);
        if (why != WIRE_OK) {
                exchange_link_reset(x, REASON_UPSTREAM_PROTOCOL, slice_str(wire_reason_sentence(why)));
                return;
        }
        if (!x->req && r.status < 200)
                return;
        if (!x->req && r.status != 200) {
                exchange_link_reset(x, REASON_UPSTREAM_CONNECT, SLICE_EMPTY);
                return;
        }
        exchange_link_head(x, &r);
}

static void got_headers(struct exchange *x, bool end_stream)
{
        static const struct headers none;

        if (x->state == EXCHANGE_OPEN) {
                got_head(x, end_stream);
                if (x->state == EXCHANGE_ANSWERED && end_stream)
                        exchange_link_end(x, &none);
        } else if (x->state == EXCHANGE_ANSWERED) {
                enum reason reason;
                struct slice detail;
                take_ours(x, &x->block, &reason, &detail);
                if (reason != REASON_NONE || !end_stream || trailers_check(&x->block, true) != WIRE_OK)
                        exchange_link_reset(x, reason != REASON_NONE ? reason : REASON_UPSTREAM_PROTOCOL, detail);
                else
                        exchange_link_end(x, &x->block);
        }
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *user)
{
        static const struct headers none;
        struct exchange *x = exchange_of(h2, f->hd.stream_id);
        bool end_stream = f->hd.flags & NGHTTP2_FLAG_END_STREAM;

        (void)user;
        if (!x)
                return 0;
        if (f->hd.type == NGHTTP2_HEADERS)
                got_headers(x, end_stream);
        else if (f->hd.type == NGHTTP2_DATA && end_stream && x->state == EXCHANGE_ANSWERED)
                exchange_link_end(x, &none);
        return 0;
}

/* The connection's window is given back at once while little is held, so that guests that read slowly do not stop everyone's
 * streams; beyond LINK_HELD_BYTES only for what was passed on, which bounds the memory. */
static void settle(struct link *l)
{
        size_t keep = l->held_bytes > LINK_HELD_BYTES ? l->held_bytes - LINK_HELD_BYTES : 0, give;

        if (l->deferred_bytes <= keep)
                return;
        give = l->deferred_bytes - keep;
        l->deferred_bytes = keep;
        if (nghttp2_session_consume_connection(l->h2, give) != 0)
                l->broken = true;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
        struct exchange *x = exchange_of(h2, id);
        struct link *l = user;

        (void)flags;
        if (x && x->state == EXCHANGE_ANSWERED) {
                l->held_bytes += n;
                l->deferred_bytes += n;
                settle(l);
                exchange_link_data(x, slice_of(p, n));
        } else if (nghttp2_session_consume_connection(h2, n) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        return 0;
}

/* Why the outer door reset a stream. */
static enum reason reason_of_reset(const struct exchange *x, uint32_t code)
{
        enum reason reason = reason_of_link_code(code);

        if (reason == REASON_NONE && code == NGHTTP2_REFUSED_STREAM)
                return REASON_TOO_MANY_STREAMS;
        return reason == REASON_NONE && x->state == EXCHANGE_OPEN ? REASON_UPSTREAM_CLOSED : reason;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user)
{
        struct exchange *x = exchange_of(h2, id);

        (void)user;
        if (!x)
                return 0;
        x->stream = 0;
        if (!x->down_ended || code != NGHTTP2_NO_ERROR)
                exchange_link_reset(x, reason_of_reset(x, code), SLICE_EMPTY);
        return 0;
}

/* --- what we send --- */

static ssize_t read_up(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags, nghttp2_data_source *source, void *user)
{
        struct exchange *x = exchange_of(h2, id);
        size_t n;

        (void)source, (void)user, (void)out;
        if (!x)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        n = buf_len(&x->up) < cap ? buf_len(&x->up) : cap;
        if (n == 0 && !x->up_ended)
                return NGHTTP2_ERR_DEFERRED;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (n == buf_len(&x->up) && x->up_ended) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                x->up_sent_end = true;
                if (x->up_trailers && x->up_trailers->n) {
                        nghttp2_nv nv[TRAILER_FIELDS_MAX];
                        size_t count = 0;
                        for (; count < x->up_trailers->n && count < TRAILER_FIELDS_MAX; count++) {
                                const struct header *t = &x->up_trailers->at[count];
                                nv[count] = (nghttp2_nv){ (uint8_t *)(uintptr_t)t->name.p, (uint8_t *)(uintptr_t)t->value.p, t->name.n, t->value.n, NGHTTP2_NV_FLAG_NONE };
                        }
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        if (nghttp2_submit_trailer(h2, id, nv, count) != 0)
                                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                }
        }
        return (ssize_t)n;
}

/* A small frame is gathered with others; a large one goes out from where it stands, behind what was gathered. 1, 0 (not now) or -1. */
static int put_frame(struct link *l, struct slice head, struct slice body)
{
        int rc;

        if (l->blocked || buf_len(&l->out) >= LINK_OUT_BYTES)
                return 0;
        if (body.n < LINK_GATHER_BYTES)
                return buf_add_slice(&l->out, head) < 0 || buf_add_slice(&l->out, body) < 0 ? -1 : 1;
        rc = fd_send_after(l->fd, &l->out, head, body);
        l->blocked = rc == 0 || (rc > 0 && buf_len(&l->out));
        l->sent = l->sent || rc > 0;
        return rc;
}

static int on_send_data(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source, void *user)
{
        struct exchange *x = exchange_of(h2, frame->hd.stream_id);

        (void)source;
        if (!x)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        switch (put_frame(user, slice_of(head, FRAME_HEAD_BYTES), slice_first(buf_slice(&x->up), n))) {
        case 0:
                return NGHTTP2_ERR_WOULDBLOCK;
        case -1:
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        exchange_link_took(x, n);
        return 0;
}

static ssize_t frame_bytes(nghttp2_session *h2, uint8_t type, int32_t id, int32_t connection_window, int32_t stream_window, uint32_t frame_max, void *user)
{
        (void)h2, (void)type, (void)id, (void)connection_window, (void)stream_window, (void)user;
        return frame_max < LINK_FRAME_BYTES ? frame_max : LINK_FRAME_BYTES;
}

static nghttp2_nv nv_of(struct slice name, struct slice value)
{
        /* nghttp2 copies both: no flag says otherwise. */
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name.p, (uint8_t *)(uintptr_t)value.p, name.n, value.n, NGHTTP2_NV_FLAG_NONE };
}

/* host:port with the port always there, for flows that are no request. */
static struct slice link_authority(struct exchange *x)
{
        char text[AUTHORITY_TEXT_BYTES], full[AUTHORITY_TEXT_BYTES + 8];
        struct authority a = x->to;
        struct slice host;
        bool ok = true;
        int n;

        a.port = 443; /* left out by the printer */
        host = authority_print(text, &a, SCHEME_HTTPS);
        /* An echo has no port, and 0 is none: the outer door reads every authority with one reader. */
        n = snprintf(full, sizeof(full), "%.*s:%u", SLICE_FMT(host), x->kind == EXCHANGE_ICMP ? 1 : x->to.port);
        MUST(n > 0 && (size_t)n < sizeof(full));
        host = arena_copy(&x->arena, slice_of(full, (size_t)n), &ok);
        return ok ? host : SLICE_EMPTY;
}

enum { OWN_FIELDS = 8 };

static int connect_fields(struct exchange *x, nghttp2_nv *nv, size_t *n)
{
        struct slice authority = link_authority(x);
        static const struct { const char *protocol, *path; } extended[] = {
                [EXCHANGE_UDP] = { "connect-udp", "/" }, [EXCHANGE_ICMP] = { "brome-icmp", "/" },
        };

        if (!authority.n)
                return -1;
        nv[(*n)++] = nv_of(SLICE_LIT(":method"), SLICE_LIT("CONNECT"));
        if (x->kind != EXCHANGE_TCP) {
                nv[(*n)++] = nv_of(SLICE_LIT(":protocol"), slice_str(extended[x->kind].protocol));
                nv[(*n)++] = nv_of(SLICE_LIT(":scheme"), SLICE_LIT("https"));
                nv[(*n)++] = nv_of(SLICE_LIT(":path"), slice_str(extended[x->kind].path));
        }
        nv[(*n)++] = nv_of(SLICE_LIT(":authority"), authority);
        if (x->kind == EXCHANGE_TCP)
                nv[(*n)++] = nv_of(SLICE_LIT("brome-kind"), slice_str(x->splice_kind));
        return 0;
}

/* The canonical request's fields; SECURITY: what the guest called brome-* stays here. */
static int request_fields(struct exchange *x, nghttp2_nv *nv, size_t cap, size_t *n)
{
        struct headers h;

        if (request_to_h2(&x->arena, x->req, true, &h) != WIRE_OK || h.n > cap - OWN_FIELDS)
                return -1;
        for (size_t i = 0; i < h.n; i++) {
                if (!is_ours(h.at[i].name))
                        nv[(*n)++] = nv_of(h.at[i].name, h.at[i].value);
        }
        return 0;
}

int link_start(struct link *l, struct exchange *x)
{
        nghttp2_data_provider provider = { .read_callback = read_up };
        nghttp2_nv nv[FIELDS_MAX + 2 * OWN_FIELDS];
        size_t n = 0;
        char flow[24];
        int len = snprintf(flow, sizeof(flow), "%llu", (unsigned long long)x->id), rc;

        if (!link_is_up(l))
                return -1;
        rc = x->req ? request_fields(x, nv, sizeof(nv) / sizeof(nv[0]), &n) : connect_fields(x, nv, &n);
        if (rc < 0)
                return -1;
        nv[n] = nv_of(SLICE_LIT("brome-flow"), slice_of(flow, (size_t)len));
        nv[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX; /* never twice the same: it would only fill the table that every field is looked up in */
        x->up_sent_end = x->up_ended && !buf_len(&x->up) && !(x->up_trailers && x->up_trailers->n);
        x->stream = nghttp2_submit_request(l->h2, NULL, nv, n, x->up_sent_end ? NULL : &provider, x);
        if (x->stream < 0) {
                x->stream = 0;
                return -1;
        }
        return 0;
}

void link_more(struct link *l, struct exchange *x)
{
        if (l->h2 && x->stream)
                (void)nghttp2_session_resume_data(l->h2, x->stream); /* fails when it is not deferred: then it is read anyway */
}

void link_passed(struct link *l, struct exchange *x, size_t n)
{
        if (!l->h2 || !n)
                return;
        l->held_bytes -= n;
        settle(l);
        if (x->stream && nghttp2_session_consume_stream(l->h2, x->stream, n) != 0)
                l->broken = true;
}

void link_drop(struct link *l, struct exchange *x)
{
        if (!l->h2 || !x->stream)
                return;
        (void)nghttp2_session_set_stream_user_data(l->h2, x->stream, NULL);
        if (!(x->down_ended && x->up_sent_end) && nghttp2_submit_rst_stream(l->h2, NGHTTP2_FLAG_NONE, x->stream, NGHTTP2_CANCEL) != 0)
                l->broken = true;
        x->stream = 0;
}

/* --- the socket --- */

static void link_down(struct link *l, const char *why)
{
        struct exchange *x;

        if (l->fd < 0)
                return;
        log_error("the outer door is gone: %s", why);
        event_del(&l->ev_read);
        event_del(&l->ev_write);
        fd_close(&l->fd);
        nghttp2_session_del(l->h2);
        l->h2 = NULL;
        buf_fini(&l->out);
        while ((x = TAILQ_FIRST(&l->door->exchanges))) {
                x->stream = 0;
                exchange_link_reset(x, REASON_OUTER_GONE, SLICE_EMPTY);
                if (x->state != EXCHANGE_ENDED)
                        exchange_end(x);
        }
}

static int link_write(struct link *l)
{
        while (buf_len(&l->out) && !l->blocked) {
                ssize_t n = send(l->fd, buf_slice(&l->out).p, buf_len(&l->out), MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                l->blocked = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
                if (n < 0 && !l->blocked)
                        return -1;
                if (n > 0)
                        buf_consume(&l->out, (size_t)n);
        }
        if (l->blocked != l->writing) {
                l->writing = !l->writing;
                if ((l->writing ? event_add(&l->ev_write, NULL) : event_del(&l->ev_write)) < 0)
                        return -1;
        }
        return 0;
}

bool link_turn_end(struct link *l)
{
        bool any;

        if (!link_is_up(l))
                return false;
        l->sent = false;
        /* Appending to what the socket does not take would only move bytes about. */
        while (!l->broken && !l->blocked && buf_len(&l->out) < LINK_OUT_BYTES) {
                const uint8_t *p;
                ssize_t n = nghttp2_session_mem_send(l->h2, &p);
                if (n < 0 || (n > 0 && buf_add(&l->out, p, (size_t)n) < 0))
                        l->broken = true;
                if (n <= 0)
                        break;
        }
        any = !l->blocked && (l->sent || buf_len(&l->out));
        if (l->broken || link_write(l) < 0)
                link_down(l, l->broken ? "protocol error" : strerror(errno));
        return any;
}

static void on_link_readable(evutil_socket_t fd, short what, void *arg)
{
        struct link *l = arg;
        ssize_t n, used;

        (void)fd, (void)what;
        do
                n = recv(l->fd, scratch, sizeof(scratch), 0);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return;
        if (n <= 0) {
                link_down(l, n == 0 ? "closed" : strerror(errno));
                return;
        }
        used = nghttp2_session_mem_recv(l->h2, scratch, (size_t)n);
        if (used != n)
                link_down(l, used < 0 ? nghttp2_strerror((int)used) : "protocol error");
}

static void on_link_writable(evutil_socket_t fd, short what, void *arg)
{
        struct link *l = arg;

        (void)fd, (void)what;
        l->blocked = false;
        if (link_write(l) < 0)
                link_down(l, strerror(errno));
}

/* --- life --- */

static nghttp2_session *client_session(struct link *l)
{
        nghttp2_session_callbacks *cb = NULL;
        nghttp2_option *opt = NULL;
        nghttp2_session *h2 = NULL;

        if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&opt) != 0)
                goto out;
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
        nghttp2_session_callbacks_set_data_source_read_length_callback(cb, frame_bytes);
        nghttp2_option_set_no_auto_window_update(opt, 1);
        nghttp2_option_set_peer_max_concurrent_streams(opt, EXCHANGES_MAX);
        nghttp2_option_set_no_closed_streams(opt, 1);
        nghttp2_option_set_max_send_header_block_length(opt, 2 * HEAD_BYTES_MAX);
        if (nghttp2_session_client_new2(&h2, cb, l, opt) != 0)
                h2 = NULL;
out:
        nghttp2_session_callbacks_del(cb);
        nghttp2_option_del(opt);
        return h2;
}

struct link *link_open(struct door *d, int fd)
{
        static const nghttp2_settings_entry settings[] = {
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LINK_STREAM_WINDOW },
                { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
                { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, LINK_FRAME_BYTES },
                { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2 * HEAD_BYTES_MAX },
        };
        struct link *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        l->door = d;
        l->fd = fd;
        buf_init(&l->out, 0);
        if (fd_nonblock(fd) < 0 || !(l->h2 = client_session(l)) ||
            nghttp2_submit_settings(l->h2, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0])) != 0 ||
            nghttp2_session_set_local_window_size(l->h2, NGHTTP2_FLAG_NONE, 0, LINK_WINDOW) != 0 ||
            event_assign(&l->ev_read, d->base, fd, EV_READ | EV_PERSIST, on_link_readable, l) < 0 ||
            event_assign(&l->ev_write, d->base, fd, EV_WRITE | EV_PERSIST, on_link_writable, l) < 0 || event_add(&l->ev_read, NULL) < 0) {
                nghttp2_session_del(l->h2);
                free(l);
                return NULL;
        }
        return l;
}

void link_close(struct link *l)
{
        if (!l)
                return;
        link_down(l, "ending");
        free(l);
}

bool link_is_up(const struct link *l) { return l && l->fd >= 0 && l->h2; }
