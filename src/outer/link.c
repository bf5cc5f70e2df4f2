/* The link: see link.h. */
#include "outer/link.h"

#include "base/fd.h"
#include "base/log.h"
#include "link/pipe.h"
#include "link/session.h"
#include "outer/answer.h"
#include "outer/reading.h"
#include "outer/swapping.h"
#include "outer/turn.h"
#include "wire/chunk.h"
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <sys/socket.h>

struct link {
        struct outer *outer;
        struct pipe pipe;
        struct window window; /* of requests */
        nghttp2_session *session;
        struct event *readable, *writable;
        struct turn_item flush;
        struct exchange *all;
        size_t count;
        bool broken;
        void (*on_broken)(void *ctx, const char *why);
        void *ctx;
        uint8_t in[LINK_READ_BYTES];
};

static void link_break(struct link *l, const char *why)
{
        if (l->broken)
                return;
        l->broken = true;
        l->on_broken(l->ctx, why);
}

/* --- exchanges --- */

static struct exchange *exchange_new(struct link *l, int32_t stream)
{
        struct exchange *ex = calloc(1, sizeof(*ex));

        if (!ex)
                return NULL;
        ex->outer = l->outer;
        ex->stream = stream;
        arena_init(&ex->arena, EXCHANGE_ARENA_BYTES);
        buf_init(&ex->up, LINK_STREAM_WINDOW + SWAP_GROWTH_BYTES + REPLAY_BYTES);
        buf_init(&ex->down, 0);
        buf_init(&ex->up_taken, 0);
        ex->decision.max_body = -1;
        ex->next = l->all;
        if (l->all)
                l->all->prev = ex;
        l->all = ex;
        l->count++;
        return ex;
}

static void exchange_free(struct link *l, struct exchange *ex)
{
        exchange_abort(ex);
        /* What nobody took must not stay charged to the connection's window. */
        (void)!window_pass(&l->window, l->session, ex->up_charged);
        l->outer->held_bytes -= buf_len(&ex->down);
        l->outer->replay_bytes -= buf_len(&ex->up_taken);
        if (ex->prev)
                ex->prev->next = ex->next;
        else
                l->all = ex->next;
        if (ex->next)
                ex->next->prev = ex->prev;
        l->count--;
        buf_fini(&ex->up);
        buf_fini(&ex->down);
        buf_fini(&ex->up_taken);
        swapping_free(ex->swap);
        reading_free(ex->reading);
        answer_free(ex->answer);
        if (l->outer->account) /* what the origin answered may repeat the secret */
                arena_wipe(&ex->arena);
        arena_fini(&ex->arena);
        free(ex);
}

/* --- nghttp2 callbacks --- */

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct link *l = user;
        struct exchange *ex;

        if (frame->hd.type != NGHTTP2_HEADERS)
                return 0;
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
                ex = exchange_new(l, frame->hd.stream_id);
                if (!ex || nghttp2_session_set_stream_user_data(s, frame->hd.stream_id, ex) < 0)
                        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        } else
                ex = nghttp2_session_get_stream_user_data(s, frame->hd.stream_id);
        if (!ex)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        fields_begin(&ex->block);
        return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n,
                     uint8_t flags, void *user)
{
        struct exchange *ex = nghttp2_session_get_stream_user_data(s, frame->hd.stream_id);

        (void)flags;
        (void)user;
        if (ex)
                fields_add(&ex->block, &ex->arena, slice_of(name, name_n), slice_of(value, value_n));
        return 0;
}

/* Takes our own fields out of the request: they say things about the flow and never reach an origin. */
static int take_own_fields(struct exchange *ex, struct slice *kind)
{
        struct headers *h = &ex->req.headers;
        size_t kept = 0;

        *kind = SLICE_EMPTY;
        for (size_t i = 0; i < h->n; i++) {
                struct header f = h->at[i];

                if (slice_is(f.name, "brome-flow")) {
                        if (!field_number(f.value, &ex->flow))
                                return -1;
                } else if (slice_is(f.name, "brome-kind"))
                        *kind = f.value;
                else if (!slice_starts(f.name, SLICE_LIT("brome-")) && !slice_is(f.name, "expect"))
                        h->at[kept++] = f;
        }
        h->n = kept;
        return 0;
}

static int find_kind(struct exchange *ex, struct slice kind)
{
        static const struct { const char *name; enum exchange_kind kind; } kinds[] = { { "tcp", KIND_TCP }, { "tls", KIND_TLS }, { "any", KIND_ANY } };

        switch (ex->req.upgrade) {
        case WIRE_UPGRADE_NONE:
                ex->kind = KIND_HTTP;
                return 0;
        case WIRE_UPGRADE_WEBSOCKET:
                ex->kind = KIND_WEBSOCKET;
                return 0;
        case WIRE_UPGRADE_OTHER:
                ex->kind = slice_is(ex->req.protocol, "connect-udp") ? KIND_UDP : KIND_ICMP;
                return ex->kind == KIND_UDP || slice_is(ex->req.protocol, "brome-icmp") ? 0 : -1;
        case WIRE_UPGRADE_TUNNEL:
                for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                        if (slice_is(kind, kinds[i].name)) {
                                ex->kind = kinds[i].kind;
                                return 0;
                        }
                return -1;
        case WIRE_UPGRADE_COUNT:
                break;
        }
        return -1;
}

static void on_request(struct link *l, struct exchange *ex, bool end_stream)
{
        struct request_flow flow = { .link = true };
        struct headers block = fields_block(&ex->block);
        struct slice kind;
        enum wire_reason why = ex->block.bad ? ex->block.bad : request_from_h2(&ex->arena, &block, end_stream, &flow, &ex->req);

        if (why != WIRE_OK || take_own_fields(ex, &kind) < 0 || find_kind(ex, kind) < 0) {
                log_debug("link: stream %d refused: %s", ex->stream, wire_reason_sentence(why));
                link_reset(l, ex, why == WIRE_OK ? NGHTTP2_PROTOCOL_ERROR : wire_reason_h2(why));
                return;
        }
        ex->up_ended = end_stream;
        exchange_start(ex);
}

static void on_trailers(struct link *l, struct exchange *ex)
{
        struct headers block = fields_block(&ex->block);

        if (ex->block.bad || trailers_check(&block, true) != WIRE_OK) {
                exchange_abort(ex);
                link_reset(l, ex, NGHTTP2_PROTOCOL_ERROR);
                return;
        }
        /* A reader of a profile's protocol sends none. */
        if (ex->decision.profile == PROFILE_NONE)
                ex->up_trailers = block;
}

static int on_frame_recv(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct link *l = user;
        struct exchange *ex = frame->hd.stream_id ? nghttp2_session_get_stream_user_data(s, frame->hd.stream_id) : NULL;
        bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

        if (!ex || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
                return 0;
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
                on_request(l, ex, end);
                return 0;
        }
        if (frame->hd.type == NGHTTP2_HEADERS)
                on_trailers(l, ex);
        if (end && ex->state != EXCHANGE_DONE)
                exchange_up_end(ex);
        return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *p, size_t n, void *user)
{
        struct link *l = user;
        struct exchange *ex = nghttp2_session_get_stream_user_data(s, stream);

        (void)flags;
        if (!ex || ex->state == EXCHANGE_DONE) {
                (void)!nghttp2_session_consume(s, stream, n);
                return 0;
        }
        ex->up_bytes += n;
        if (ex->decision.max_body >= 0 && ex->up_bytes > (uint64_t)ex->decision.max_body) {
                (void)!nghttp2_session_consume(s, stream, n);
                exchange_fail(ex, REASON_BODY_TOO_LARGE, "%s", reason_text(REASON_BODY_TOO_LARGE));
                return 0;
        }
        (void)!window_take(&l->window, l->session, n);
        if (exchange_up_add(ex, slice_of(p, n)) == 0 && ex->ops)
                ex->ops->up(ex);
        turn_ask(l->outer->turn, &l->flush);
        return 0;
}

static int on_stream_close(nghttp2_session *s, int32_t stream, uint32_t code, void *user)
{
        struct exchange *ex = nghttp2_session_get_stream_user_data(s, stream);

        (void)code;
        if (ex) {
                (void)!nghttp2_session_set_stream_user_data(s, stream, NULL);
                exchange_free(user, ex);
        }
        return 0;
}

/* RFC 9113 §8.1: the answer is complete and the rest of the request of no use. */
static int on_frame_send(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct exchange *ex;

        (void)user;
        if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
                return 0;
        ex = nghttp2_session_get_stream_user_data(s, frame->hd.stream_id);
        if (ex && ex->state == EXCHANGE_DONE && !ex->up_ended)
                (void)!nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, ex->stream, NGHTTP2_NO_ERROR);
        return 0;
}

static int on_send_data(nghttp2_session *s, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source, void *user)
{
        struct link *l = user;
        struct exchange *ex = source->ptr;
        int rc;

        (void)s;
        (void)frame;
        rc = pipe_data(&l->pipe, head, slice_first(buf_slice(&ex->down), n));
        if (rc)
                return rc;
        buf_consume(&ex->down, n);
        l->outer->held_bytes -= n;
        if (ex->answer)
                answer_room(ex);
        if (ex->ops && exchange_has_room(ex))
                ex->ops->room(ex);
        return 0;
}

static ssize_t read_down(nghttp2_session *s, int32_t stream, uint8_t *p, size_t cap, uint32_t *flags, nghttp2_data_source *source, void *user)
{
        struct exchange *ex = source->ptr;
        size_t n = buf_len(&ex->down);
        int rc;

        (void)p;
        (void)user;
        if (n > cap)
                n = cap;
        if (n == 0 && !ex->down_ended) {
                ex->down_deferred = true;
                return NGHTTP2_ERR_DEFERRED;
        }
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (!ex->down_ended || n < buf_len(&ex->down))
                return (ssize_t)n;
        rc = fields_end(s, stream, &ex->down_trailers, flags);
        return rc ? rc : (ssize_t)n;
}

/* --- for exchange.c --- */

enum { ANSWER_FIELDS = FIELDS_MAX + 8 };

/* Names and values live in the exchange's arena until the stream closed. */
static size_t to_nv(nghttp2_nv *nv, const struct headers *h)
{
        return fields_nv(nv, ANSWER_FIELDS, h, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

int link_interim(struct link *l, struct exchange *ex, const struct headers *fields)
{
        nghttp2_nv nv[ANSWER_FIELDS];

        turn_ask(l->outer->turn, &l->flush);
        return nghttp2_submit_headers(l->session, NGHTTP2_FLAG_NONE, ex->stream, NULL, nv, to_nv(nv, fields), NULL) < 0 ? -1 : 0;
}

int link_answer(struct link *l, struct exchange *ex, const struct headers *fields, bool end)
{
        nghttp2_nv nv[ANSWER_FIELDS];
        nghttp2_data_provider body = { .source = { .ptr = ex }, .read_callback = read_down };

        turn_ask(l->outer->turn, &l->flush);
        return nghttp2_submit_response(l->session, ex->stream, nv, to_nv(nv, fields), end ? NULL : &body) < 0 ? -1 : 0;
}

void link_wake(struct link *l, struct exchange *ex)
{
        if (ex->down_deferred) {
                ex->down_deferred = false;
                (void)!nghttp2_session_resume_data(l->session, ex->stream);
        }
        turn_ask(l->outer->turn, &l->flush);
}

void link_give(struct link *l, struct exchange *ex, size_t n)
{
        (void)!window_pass(&l->window, l->session, n);
        (void)!nghttp2_session_consume_stream(l->session, ex->stream, n);
        turn_ask(l->outer->turn, &l->flush);
}

void link_reset(struct link *l, struct exchange *ex, uint32_t h2_code)
{
        ex->state = EXCHANGE_DONE;
        (void)!nghttp2_submit_rst_stream(l->session, NGHTTP2_FLAG_NONE, ex->stream, h2_code);
        turn_ask(l->outer->turn, &l->flush);
}

/* --- the socket --- */

/* True: all is sent. */
static bool link_send(struct link *l)
{
        if (pipe_send(&l->pipe) < 0) {
                link_break(l, "write failed");
                return false;
        }
        if (l->pipe.blocked)
                event_add(l->writable, NULL);
        return !l->pipe.blocked;
}

static void link_flush(void *ctx)
{
        struct link *l = ctx;

        while (!l->broken && !l->pipe.blocked) {
                int rc = pipe_fill(&l->pipe, l->session);

                if (rc < 0) {
                        link_break(l, nghttp2_strerror(rc));
                        return;
                }
                if ((buf_len(&l->pipe.out) == 0 && !l->pipe.blocked) || !link_send(l))
                        return;
        }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
        struct link *l = arg;

        (void)fd;
        (void)what;
        l->pipe.blocked = false;
        if (link_send(l))
                turn_ask(l->outer->turn, &l->flush);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
        struct link *l = arg;
        ssize_t n = recv(fd, l->in, sizeof(l->in), MSG_DONTWAIT), used;

        (void)what;
        if (l->broken || (n < 0 && (errno == EAGAIN || errno == EINTR)))
                return;
        if (n <= 0) {
                link_break(l, n ? "read failed" : "closed");
                return;
        }
        used = nghttp2_session_mem_recv(l->session, l->in, (size_t)n);
        if (used < 0)
                link_break(l, nghttp2_strerror((int)used));
        else
                turn_ask(l->outer->turn, &l->flush);
}

/* The default ends the session after a thousand quick resets, and with it every flow; whoever floods is the inner door's to stop. */
static void session_limits(nghttp2_option *opt) { nghttp2_option_set_stream_reset_rate_limit(opt, LINK_RESETS_BURST, LINK_RESETS_RATE); }

static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LINK_STREAMS_MAX },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LINK_STREAM_WINDOW },
        { NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 },
        { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, LINK_FRAME_BYTES },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MAX + FIELDS_MAX * 32 },
};
static const struct session_plan server = {
        .server = true, .begin_headers = on_begin_headers, .header = on_header, .frame_recv = on_frame_recv, .data = on_data,
        .stream_close = on_stream_close, .frame_send = on_frame_send, .send_data = on_send_data, .frame_length = pipe_frame_length,
        .limit = session_limits, .settings = settings, .settings_n = sizeof(settings) / sizeof(settings[0]), .window_bytes = LINK_WINDOW,
};

struct link *link_new(struct outer *o, int fd, void (*broken)(void *ctx, const char *why), void *ctx)
{
        struct link *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        l->outer = o;
        pipe_init(&l->pipe, fd, LINK_OUT_BYTES);
        l->on_broken = broken;
        l->ctx = ctx;
        l->flush = (struct turn_item){ .run = link_flush, .ctx = l };
        l->session = session_new(&server, l);
        l->readable = event_new(o->base, fd, EV_READ | EV_PERSIST, on_readable, l);
        l->writable = event_new(o->base, fd, EV_WRITE, on_writable, l);
        if (!l->session || !l->readable || !l->writable || fd_nonblock(fd) < 0)
                return NULL; /* the process ends */
        return l;
}

void link_start(struct link *l)
{
        event_add(l->readable, NULL);
        turn_ask(l->outer->turn, &l->flush);
}

void link_each(struct link *l, void (*each)(struct exchange *ex, void *ctx), void *ctx)
{
        for (struct exchange *ex = l->all, *next; ex; ex = next) {
                next = ex->next;
                each(ex, ctx);
        }
}

size_t link_streams(const struct link *l) { return l->count; }

bool link_leave(struct link *l)
{
        /* At once: a stream that came between the number and its frame would be taken here and sent again there. */
        if (l->broken || l->pipe.blocked ||
            nghttp2_submit_goaway(l->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(l->session), NGHTTP2_NO_ERROR, NULL, 0) != 0)
                return false;
        link_flush(l);
        return true;
}
