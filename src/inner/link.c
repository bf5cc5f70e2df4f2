/* The link to the outer door: see link.h.
 *
 * One nghttp2 client session. Frames are made once per turn of the loop and leave with one write; window is given back only by
 * exchange_passed. SECURITY: `brome-*` fields of an answer are ours to read and never reach the guest. */
#include "inner/link.h"
#include "inner/accounts.h"
#include "inner/hold.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "link/pipe.h"
#include "link/session.h"
#include "wire/chunk.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct link {
        struct door *door;
        struct account *account; /* NULL: the plain one */
        int fd; /* -1: the outer door is gone */
        nghttp2_session *h2;
        struct event ev_read, ev_write;
        bool writing, broken;
        struct pipe pipe;
        struct window window; /* of what came down */
        int64_t heard_ms;     /* the door's last word about a stream */
        bool leaving;         /* GOAWAY: streams beyond `last` were not taken, and no more are */
        int32_t last;
        int32_t made;         /* the newest stream of whose request there is a frame */
        int32_t unsent;       /* the first of them of which no byte can have left; 0: none */
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
static void take_ours(const struct link *l, struct exchange *x, struct headers *block, enum reason *reason, struct slice *detail)
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
                } else if (l->account && slice_is(h.name, "brome-account")) {
                        x->swapped = true;
                } else if (l->account && slice_is(h.name, "brome-minted")) {
                        accounts_minted(l->account, h.value);
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
                fields_begin(&x->block);
        return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n,
                     uint8_t flags, void *user)
{
        struct exchange *x = exchange_of(h2, f->hd.stream_id);

        (void)flags, (void)user;
        if (x)
                fields_add(&x->block, &x->arena, slice_of(name, name_n), slice_of(value, value_n));
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

static void got_head(const struct link *l, struct exchange *x, bool end_stream)
{
        enum reason reason;
        struct slice detail;
        struct response r;
        struct headers block = fields_block(&x->block);
        enum wire_reason why = x->block.bad;

        take_ours(l, x, &block, &reason, &detail);
        if (reason != REASON_NONE) {
                exchange_link_reset(x, reason, detail);
                return;
        }
        if (why == WIRE_OK)
                why = x->req ? response_from_h2(&x->arena, &block, end_stream, x->req, false, &r) : connect_answer(&block, &r);
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

static void got_trailers(const struct link *l, struct exchange *x, bool end_stream)
{
        struct headers block = fields_block(&x->block);
        enum reason reason;
        struct slice detail;

        take_ours(l, x, &block, &reason, &detail);
        if (reason != REASON_NONE || x->block.bad || !end_stream || trailers_check(&block, true) != WIRE_OK)
                exchange_link_reset(x, reason != REASON_NONE ? reason : REASON_UPSTREAM_PROTOCOL, detail);
        else
                exchange_link_end(x, &block);
}

static void got_headers(const struct link *l, struct exchange *x, bool end_stream)
{
        static const struct headers none;

        if (x->state == EXCHANGE_OPEN) {
                got_head(l, x, end_stream);
                if (x->state == EXCHANGE_ANSWERED && end_stream)
                        exchange_link_end(x, &none);
        } else if (x->state == EXCHANGE_ANSWERED) {
                got_trailers(l, x, end_stream);
        }
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *user)
{
        static const struct headers none;
        struct exchange *x = exchange_of(h2, f->hd.stream_id);
        bool end_stream = f->hd.flags & NGHTTP2_FLAG_END_STREAM;
        struct link *l = user;

        if (f->hd.type == NGHTTP2_GOAWAY) {
                l->leaving = true;
                l->last = f->goaway.last_stream_id;
        }
        if (!x)
                return 0;
        l->heard_ms = clock_mono_ms();
        if (f->hd.type == NGHTTP2_HEADERS)
                got_headers(l, x, end_stream);
        else if (f->hd.type == NGHTTP2_DATA && end_stream && x->state == EXCHANGE_ANSWERED)
                exchange_link_end(x, &none);
        return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
        struct exchange *x = exchange_of(h2, id);
        struct link *l = user;

        (void)flags;
        if (x && x->state == EXCHANGE_ANSWERED) {
                if (window_take(&l->window, h2, n) != 0)
                        l->broken = true;
                exchange_link_data(x, slice_of(p, n));
        } else if (nghttp2_session_consume_connection(h2, n) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        return 0;
}

/* Why the outer door reset a stream. */
static enum reason reason_of_reset(const struct link *l, const struct exchange *x, uint32_t code)
{
        enum reason reason = reason_of_link_code(code);

        if (l->leaving && code == NGHTTP2_REFUSED_STREAM)
                return REASON_OUTER_GONE;
        if (reason == REASON_NONE && code == NGHTTP2_REFUSED_STREAM)
                return REASON_TOO_MANY_STREAMS;
        return reason == REASON_NONE && x->state == EXCHANGE_OPEN ? REASON_UPSTREAM_CLOSED : reason;
}

/* Its door never took it: it goes to the next one. */
static bool goes_again(const struct link *l, struct exchange *x, int32_t id)
{
        bool unsent = (l->unsent && id >= l->unsent) || id > l->made;

        return l->account && id && (unsent || (l->leaving && id > l->last)) && exchange_again(x);
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user)
{
        struct exchange *x = exchange_of(h2, id);
        struct link *l = user;

        if (!x)
                return 0;
        x->stream = 0;
        if (l->leaving && goes_again(l, x, id))
                return 0;
        if (!x->down_ended || code != NGHTTP2_NO_ERROR)
                exchange_link_reset(x, reason_of_reset(l, x, code), SLICE_EMPTY);
        return 0;
}

/* --- what we send --- */

static ssize_t read_up(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags, nghttp2_data_source *source, void *user)
{
        struct exchange *x = exchange_of(h2, id);
        size_t n;
        int rc = 0;

        (void)source, (void)user, (void)out;
        if (!x)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        n = buf_len(&x->up) < cap ? buf_len(&x->up) : cap;
        if (n == 0 && !x->up_ended)
                return NGHTTP2_ERR_DEFERRED;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (n == buf_len(&x->up) && x->up_ended) {
                x->up_sent_end = true;
                rc = fields_end(h2, id, x->up_trailers, flags);
        }
        return rc ? rc : (ssize_t)n;
}

static int on_send_data(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source, void *user)
{
        struct exchange *x = exchange_of(h2, frame->hd.stream_id);
        struct link *l = user;
        int rc;

        (void)source;
        if (!x)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        rc = pipe_data(&l->pipe, head, slice_first(buf_slice(&x->up), n));
        if (rc == 0)
                exchange_link_took(x, n);
        return rc;
}

static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
        struct link *l = user;

        (void)h2;
        if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;
        l->made = frame->hd.stream_id;
        if (!l->unsent)
                l->unsent = l->made;
        return 0;
}

static nghttp2_nv nv_of(struct slice name, struct slice value)
{
        return field_nv(name, value, NGHTTP2_NV_FLAG_NONE); /* nghttp2 copies both */
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
        struct request r = *x->req;
        struct headers h;

        if (hold_rewrites(x) && r.body == BODY_LENGTH)
                r.body = BODY_CHUNKED;
        if (request_to_h2(&x->arena, &r, true, &h) != WIRE_OK || h.n > cap - OWN_FIELDS)
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
        x->keep_up = l->account && !x->tried && clock_mono_ms() - l->heard_ms >= LINK_QUIET_MS;
        x->stream = nghttp2_submit_request(l->h2, NULL, nv, n, x->up_sent_end ? NULL : &provider, x);
        if (x->stream < 0) {
                x->stream = 0;
                return -1;
        }
        return 0;
}

void link_more(struct link *l, struct exchange *x)
{
        if (l && l->h2 && x->stream)
                (void)nghttp2_session_resume_data(l->h2, x->stream); /* fails when it is not deferred: then it is read anyway */
}

void link_passed(struct link *l, struct exchange *x, size_t n)
{
        if (!l || !l->h2 || !n)
                return;
        if (window_pass(&l->window, l->h2, n) != 0)
                l->broken = true;
        if (x->stream && nghttp2_session_consume_stream(l->h2, x->stream, n) != 0)
                l->broken = true;
}

void link_drop(struct link *l, struct exchange *x)
{
        if (!l || !l->h2 || !x->stream)
                return;
        (void)nghttp2_session_set_stream_user_data(l->h2, x->stream, NULL);
        if (!(x->down_ended && x->up_sent_end) && nghttp2_submit_rst_stream(l->h2, NGHTTP2_FLAG_NONE, x->stream, NGHTTP2_CANCEL) != 0)
                l->broken = true;
        x->stream = 0;
}

/* --- the socket --- */

/* An exchange that ends with the link. */
static struct exchange *next_of(const struct link *l)
{
        struct exchange *x;

        if (!l->account)
                return TAILQ_FIRST(&l->door->exchanges);
        TAILQ_FOREACH(x, &l->door->exchanges, list)
                if (x->link == l)
                        return x;
        return NULL;
}

static void link_down(struct link *l, const char *why)
{
        struct exchange *x;

        if (l->fd < 0)
                return;
        if (l->account)
                log_info("the outer door of %s is gone: %s", l->account->name, why);
        else
                log_error("the outer door is gone: %s", why);
        event_del(&l->ev_read);
        event_del(&l->ev_write);
        fd_close(&l->fd);
        nghttp2_session_del(l->h2);
        l->h2 = NULL;
        pipe_fini(&l->pipe);
        while ((x = next_of(l))) {
                int32_t id = x->stream;

                x->stream = 0;
                if (goes_again(l, x, id))
                        continue;
                exchange_link_reset(x, REASON_OUTER_GONE, SLICE_EMPTY);
                if (x->state != EXCHANGE_ENDED)
                        exchange_end(x);
        }
}

static int link_write(struct link *l)
{
        size_t before = buf_len(&l->pipe.out);
        int rc = pipe_send(&l->pipe);

        if (buf_len(&l->pipe.out) < before)
                l->unsent = 0;
        if (rc < 0)
                return -1;
        if (l->pipe.blocked != l->writing) {
                l->writing = !l->writing;
                if ((l->writing ? event_add(&l->ev_write, NULL) : event_del(&l->ev_write)) < 0)
                        return -1;
        }
        return 0;
}

/* It takes nothing any more: what it said before that is heard yet, above all which streams it took. */
static void hear_last(struct link *l)
{
        enum { READS = 16 };
        ssize_t n;

        for (int i = 0; l->account && i < READS && (n = recv(l->fd, scratch, sizeof(scratch), 0)) > 0; i++)
                if (nghttp2_session_mem_recv(l->h2, scratch, (size_t)n) != n)
                        return;
}

bool link_turn_end(struct link *l)
{
        bool any;

        if (!link_is_up(l))
                return false;
        l->pipe.sent = false;
        if (!l->broken && pipe_fill(&l->pipe, l->h2) < 0)
                l->broken = true;
        if (l->pipe.sent)
                l->unsent = 0;
        any = !l->pipe.blocked && (l->pipe.sent || buf_len(&l->pipe.out));
        if (l->broken || link_write(l) < 0) {
                const char *why = l->broken ? "protocol error" : strerror(errno);
                hear_last(l);
                link_down(l, why);
        }
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
        l->pipe.blocked = false;
        if (link_write(l) < 0) {
                const char *why = strerror(errno);
                hear_last(l);
                link_down(l, why);
        }
}

/* --- life --- */

static void session_limits(nghttp2_option *opt)
{
        nghttp2_option_set_peer_max_concurrent_streams(opt, EXCHANGES_MAX);
        nghttp2_option_set_max_send_header_block_length(opt, 2 * HEAD_BYTES_MAX);
}

static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LINK_STREAM_WINDOW },
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, LINK_FRAME_BYTES },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2 * HEAD_BYTES_MAX },
};
static const struct session_plan client = {
        .begin_headers = on_begin_headers, .header = on_header, .frame_recv = on_frame, .data = on_data, .stream_close = on_close,
        .send_data = on_send_data, .frame_send = on_sent, .frame_length = pipe_frame_length, .limit = session_limits,
        .settings = settings, .settings_n = sizeof(settings) / sizeof(settings[0]), .window_bytes = LINK_WINDOW,
};

struct link *link_open(struct door *d, int fd, struct account *account)
{
        struct link *l = calloc(1, sizeof(*l));

        if (!l) {
                fd_close(&fd);
                return NULL;
        }
        l->door = d;
        l->account = account;
        l->fd = fd;
        l->heard_ms = clock_mono_ms();
        pipe_init(&l->pipe, fd, LINK_OUT_BYTES);
        if (fd_nonblock(fd) < 0 || !(l->h2 = session_new(&client, l)) ||
            event_assign(&l->ev_read, d->base, fd, EV_READ | EV_PERSIST, on_link_readable, l) < 0 ||
            event_assign(&l->ev_write, d->base, fd, EV_WRITE | EV_PERSIST, on_link_writable, l) < 0 || event_add(&l->ev_read, NULL) < 0) {
                nghttp2_session_del(l->h2);
                fd_close(&l->fd);
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

bool link_takes(const struct link *l) { return link_is_up(l) && !l->leaving; }
