/* HTTP/2 towards an origin (RFC 9113): many exchanges on one connection, each with its own flow control. Windows are given back only for
 * what the link has taken. A stream that the origin refused unprocessed is sent once more elsewhere, where all of its body is still here. */
#include "outer/http.h"

#include "base/log.h"
#include "link/session.h"
#include "outer/outgoing.h"
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

struct h2_stream {
        struct http *http;
        struct exchange *ex; /* NULL: let go of; what still comes is dropped */
        int32_t id;
        struct field_list block;
        bool sent; /* its HEADERS went out */
        bool answered, raw;
        size_t held; /* received and not given back yet */
        bool deferred;
        struct h2_stream *prev, *next;
};

struct h2 {
        nghttp2_session *session;
        struct h2_stream *streams;
        bool left; /* GOAWAY, and at least one stream was taken before it */
};

/* --- upstream side of the exchange --- */

static void h2_up(struct exchange *ex)
{
        struct h2_stream *st = ex->upstream;

        if (st->deferred) {
                st->deferred = false;
                (void)!nghttp2_session_resume_data(st->http->h2->session, st->id);
        }
        conn_ask(st->http->conn);
}

static void h2_room(struct exchange *ex)
{
        struct h2_stream *st = ex->upstream;
        size_t waits = buf_len(&ex->down) + ex->down_raw_bytes, n = st->held - waits;

        if (st->held <= waits || (n < H2_STREAM_WINDOW / 4 && waits))
                return;
        st->held -= n;
        (void)!nghttp2_session_consume(st->http->h2->session, st->id, n);
        conn_ask(st->http->conn);
}

static void h2_abort(struct exchange *ex)
{
        struct h2_stream *st = ex->upstream;

        st->ex = NULL;
        if (st->http->dead)
                return;
        /* A reset ahead of its HEADERS would be a connection error (RFC 9113 §5.1): then on_frame_send resets it. */
        if (!st->sent)
                return;
        (void)!nghttp2_submit_rst_stream(st->http->h2->session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_CANCEL);
        conn_ask(st->http->conn);
}

static const struct upstream_ops exchange_ops = { h2_up, h2_room, h2_abort };

/* --- streams --- */

static void stream_free(struct h2_stream *st)
{
        struct h2 *s = st->http->h2;

        *(st->prev ? &st->prev->next : &s->streams) = st->next;
        if (st->next)
                st->next->prev = st->prev;
        free(st);
}

static struct h2_stream *stream_of(nghttp2_session *s, int32_t id) { return nghttp2_session_get_stream_user_data(s, id); }

static ssize_t read_up(nghttp2_session *s, int32_t id, uint8_t *p, size_t cap, uint32_t *flags, nghttp2_data_source *source, void *user)
{
        struct h2_stream *st = source->ptr;
        struct exchange *ex = st->ex;
        size_t n;
        int rc;

        (void)p;
        (void)user;
        if (!ex)
                return NGHTTP2_ERR_DEFERRED;
        n = buf_len(&ex->up) < cap ? buf_len(&ex->up) : cap;
        /* A WebSocket's bytes wait until the origin has agreed to it. */
        if (ex->kind == KIND_WEBSOCKET && !st->answered)
                n = 0;
        if (n == 0 && (!ex->up_ended || (ex->kind == KIND_WEBSOCKET && !st->answered))) {
                st->deferred = true;
                return NGHTTP2_ERR_DEFERRED;
        }
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (!ex->up_ended || n < buf_len(&ex->up))
                return (ssize_t)n;
        rc = fields_end(s, id, &ex->up_trailers, flags);
        return rc ? rc : (ssize_t)n;
}

static int on_frame_send(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct h2_stream *st = frame->hd.type == NGHTTP2_HEADERS ? stream_of(s, frame->hd.stream_id) : NULL;

        (void)user;
        if (!st)
                return 0;
        st->sent = true;
        if (!st->ex && !st->answered)
                (void)!nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_CANCEL);
        return 0;
}

static int on_send_data(nghttp2_session *s, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source, void *user)
{
        struct http *h = user;
        struct h2_stream *st = source->ptr;

        (void)s;
        (void)frame;
        if (!conn_has_room(h->conn))
                return NGHTTP2_ERR_WOULDBLOCK;
        if (!st->ex)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        if (buf_add(&h->conn->out, head, 9) < 0 || buf_add(&h->conn->out, buf_slice(&st->ex->up).p, n) < 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        exchange_took(st->ex, n);
        return 0;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct h2_stream *st = stream_of(s, frame->hd.stream_id);

        (void)user;
        if (st)
                fields_begin(&st->block);
        return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n,
                     uint8_t flags, void *user)
{
        struct h2_stream *st = stream_of(s, frame->hd.stream_id);

        (void)flags;
        (void)user;
        if (st && st->ex)
                fields_add(&st->block, &st->ex->arena, slice_of(name, name_n), slice_of(value, value_n));
        return 0;
}

/* Ends the exchange with a reason and cancels its stream. */
static void stream_fail(struct h2_stream *st, enum reason reason, const char *detail)
{
        exchange_fail(st->ex, reason, "%s", detail); /* its abort resets the stream */
}

static void on_answer(struct h2_stream *st, bool end)
{
        struct exchange *ex = st->ex;
        struct headers block = fields_block(&st->block);
        struct response r;
        enum wire_reason why = st->block.bad ? st->block.bad : response_from_h2(&ex->arena, &block, end, &ex->req, false, &r);

        if (why != WIRE_OK) {
                stream_fail(st, REASON_UPSTREAM_PROTOCOL, wire_reason_sentence(why));
                return;
        }
        if (response_is_interim(&r)) {
                exchange_interim(ex, &r);
                if (ex->interim > INTERIM_MAX)
                        stream_fail(st, REASON_UPSTREAM_PROTOCOL, "too many interim answers");
                return;
        }
        /* nghttp2 does not hold the answer of a CONNECT to its content-length, and so nobody would: it is not passed on. */
        if (ex->kind == KIND_WEBSOCKET && !r.upgraded && r.body == BODY_LENGTH) {
                r.body = BODY_CHUNKED;
                r.has_length = false;
        }
        st->answered = true;
        st->raw = r.upgraded;
        if (exchange_answer(ex, &r, end) < 0)
                return;
        if (st->raw && st->ex)
                h2_up(ex);
}

static void on_end(struct http *h, struct h2_stream *st, const struct headers *trailers)
{
        struct exchange *ex = st->ex;

        if (st->raw) {
                exchange_half_close(ex);
                return;
        }
        st->ex = NULL;
        bool up_done = ex->up_ended && buf_len(&ex->up) == 0;
        exchange_end(ex, trailers);
        if (!up_done)
                (void)!nghttp2_submit_rst_stream(h->h2->session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_NO_ERROR);
}

static void on_trailers(struct http *h, struct h2_stream *st)
{
        struct headers block = fields_block(&st->block);

        trailers_drop_ours(&block);
        if (st->block.bad || trailers_check(&block, true) != WIRE_OK)
                stream_fail(st, REASON_UPSTREAM_PROTOCOL, "malformed trailers");
        else
                on_end(h, st, &block);
}

static int on_frame_recv(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
        struct http *h = user;
        struct h2_stream *st = frame->hd.stream_id ? stream_of(s, frame->hd.stream_id) : NULL;
        bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

        if (frame->hd.type == NGHTTP2_GOAWAY) { /* nghttp2 closes the streams that it refuses behind this callback */
                h->retired = true;
                h->h2->left = frame->goaway.last_stream_id > 0;
        }
        if (!st || !st->ex || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
                return 0;
        if (frame->hd.type == NGHTTP2_HEADERS && st->answered) {
                on_trailers(h, st);
                return 0;
        }
        if (frame->hd.type == NGHTTP2_HEADERS)
                on_answer(st, end);
        if (end && st->ex && st->answered)
                on_end(h, st, NULL);
        return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
        struct h2_stream *st = stream_of(s, id);

        (void)flags;
        (void)user;
        if (!st || !st->ex) {
                (void)!nghttp2_session_consume(s, id, n);
                return 0;
        }
        st->held += n;
        /* What was taken in without anything going on at once is given back here: nobody else would ask. */
        if (exchange_down(st->ex, slice_of(p, n)) == 0 && st->ex && st->ex->answer)
                h2_room(st->ex);
        return 0;
}

static void on_closed_early(struct http *h, struct h2_stream *st, uint32_t code)
{
        struct exchange *ex = st->ex;
        char detail[DETAIL_BYTES];

        st->ex = NULL;
        exchange_detach(ex);
        if (st->raw && code == NGHTTP2_NO_ERROR) {
                exchange_end(ex, NULL);
                return;
        }
        /* RFC 9113 §8.7: nothing was done with it, whatever its method; and nothing can have been with what never went out. */
        if ((code == NGHTTP2_REFUSED_STREAM || !st->sent) && !st->answered && exchange_is_replayable(ex)) {
                http_retry(h, ex, h->h2->left ? AGAIN_REFUSED : AGAIN_STALE);
                return;
        }
        snprintf(detail, sizeof(detail), "the server reset the stream: %s", nghttp2_http2_strerror(code));
        exchange_fail(ex, code == NGHTTP2_PROTOCOL_ERROR ? REASON_UPSTREAM_PROTOCOL : REASON_UPSTREAM_CLOSED, "%s", detail);
}

static int on_stream_close(nghttp2_session *s, int32_t id, uint32_t code, void *user)
{
        struct http *h = user;
        struct h2_stream *st = stream_of(s, id);

        if (!st)
                return 0;
        (void)!nghttp2_session_set_stream_user_data(s, id, NULL);
        if (st->held)
                (void)!nghttp2_session_consume_connection(s, st->held);
        if (st->ex)
                on_closed_early(h, st, code);
        stream_free(st);
        h->active--;
        return 0;
}

/* --- the connection --- */

static void session_limits(nghttp2_option *opt) { nghttp2_option_set_peer_max_concurrent_streams(opt, 100); }

static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MAX },
};
static const struct session_plan client = {
        .begin_headers = on_begin_headers, .header = on_header, .frame_recv = on_frame_recv, .data = on_data, .stream_close = on_stream_close,
        .frame_send = on_frame_send, .send_data = on_send_data, .limit = session_limits,
        .settings = settings, .settings_n = sizeof(settings) / sizeof(settings[0]), .window_bytes = H2_WINDOW,
};

static int h2_start(struct http *h)
{
        struct session_plan plan = client;

        plan.wipe = h->conn->outer->account != NULL;
        h->h2 = calloc(1, sizeof(*h->h2));
        if (!h->h2)
                return -1;
        h->h2->session = session_new(&plan, h);
        if (!h->h2->session)
                return -1;
        conn_ask(h->conn);
        return 0;
}

static void h2_fini(struct http *h)
{
        if (!h->h2)
                return;
        while (h->h2->streams)
                stream_free(h->h2->streams);
        if (h->h2->session) /* without callbacks: no stream has a user any more */
                nghttp2_session_del(h->h2->session);
        free(h->h2);
        h->h2 = NULL;
}

static bool h2_can_take(const struct http *h)
{
        uint32_t most = nghttp2_session_get_remote_settings(h->h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

        return h->active < H2_STREAMS_MAX && h->active < most && !h->conn->eof && nghttp2_session_check_request_allowed(h->h2->session);
}

bool h2_can_connect(const struct http *h)
{
        return nghttp2_session_get_remote_settings(h->h2->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

/* SECURITY: a field with a secret is never indexed (RFC 7541 §7.1.3): the table would remember it as long as the connection lives. nghttp2's own copies are
 * wiped as they are freed (session_plan.wipe). */
static size_t to_nv(const struct exchange *ex, nghttp2_nv *nv, const struct headers *fields)
{
        size_t n = fields_nv(nv, BLOCK_FIELDS_MAX, fields, NGHTTP2_NV_FLAG_NONE);

        for (size_t i = 0; i < n; i++)
                if (outgoing_is_secret(ex, &fields->at[i]))
                        nv[i].flags = NGHTTP2_NV_FLAG_NO_INDEX;
        return n;
}

static int32_t submit(struct http *h, struct h2_stream *st, const char **why)
{
        struct exchange *ex = st->ex;
        nghttp2_data_provider body = { .source = { .ptr = st }, .read_callback = read_up };
        nghttp2_nv nv[BLOCK_FIELDS_MAX];
        bool has_body = ex->kind == KIND_WEBSOCKET || ex->to.body != BODY_NONE;
        struct headers fields;
        struct arena scratch;
        struct request out;
        int32_t id = -1;

        arena_init(&scratch, EXCHANGE_ARENA_BYTES);
        if (outgoing_make(ex, h->conn, &scratch, &out, why) == 0) {
                *why = "the request cannot be written as HTTP/2";
                if (request_to_h2(&scratch, &out, false, &fields) == WIRE_OK && fields.n <= BLOCK_FIELDS_MAX)
                        id = nghttp2_submit_request(h->h2->session, NULL, nv, to_nv(ex, nv, &fields), has_body ? &body : NULL, st);
        }
        arena_wipe(&scratch);
        arena_fini(&scratch);
        return id;
}

static void h2_take(struct http *h, struct exchange *ex)
{
        struct h2_stream *st = calloc(1, sizeof(*st));
        const char *why = "out of memory";

        h->served++;
        if (st) {
                st->http = h;
                st->ex = ex;
                st->id = submit(h, st, &why);
        }
        if (!st || st->id < 0) {
                free(st);
                h->active--;
                exchange_fail(ex, REASON_INTERNAL, "%s", why);
                return;
        }
        st->next = h->h2->streams;
        if (st->next)
                st->next->prev = st;
        h->h2->streams = st;
        ex->state = EXCHANGE_SENT;
        exchange_attach(ex, &exchange_ops, st);
        conn_ask(h->conn);
}

static void h2_broken(struct http *h, const char *detail)
{
        h->retired = true;
        for (struct h2_stream *st = h->h2->streams; st; st = st->next) {
                struct exchange *ex = st->ex;
                bool retry;

                if (!ex)
                        continue;
                st->ex = NULL;
                exchange_detach(ex);
                retry = !st->sent || (h->served > 1 && request_is_read_only(&ex->req));
                if (retry && !st->answered && exchange_is_replayable(ex))
                        http_retry(h, ex, AGAIN_STALE);
                else
                        exchange_fail(ex, REASON_UPSTREAM_CLOSED, "%s", detail);
        }
        http_drop(h);
}

/* After any work: is anything left to carry? */
static void h2_settle(struct http *h)
{
        nghttp2_session *s = h->h2->session;

        if (h->dead)
                return;
        if (h->active == 0 && (h->retired || (!nghttp2_session_want_read(s) && !nghttp2_session_want_write(s))))
                http_drop(h);
        else if (h->active == 0 && !h->is_idle && !nghttp2_session_want_write(s))
                http_idle(h);
        else
                http_room(h);
}

static void h2_readable(struct http *h)
{
        struct slice in = buf_slice(&h->conn->in);
        ssize_t n = in.n ? nghttp2_session_mem_recv(h->h2->session, in.p, in.n) : 0;

        if (n < 0) {
                h2_broken(h, "the server broke the rules of HTTP/2");
                return;
        }
        buf_consume(&h->conn->in, (size_t)n);
        if (h->conn->eof) {
                h2_broken(h, "the server closed the connection");
                return;
        }
        conn_ask(h->conn);
        h2_settle(h);
}

static void h2_writable(struct http *h)
{
        const uint8_t *p;
        ssize_t n = 0;

        while (conn_has_room(h->conn) && (n = nghttp2_session_mem_send(h->h2->session, &p)) > 0)
                if (buf_add(&h->conn->out, p, (size_t)n) < 0)
                        n = -1;
        if (n < 0)
                h2_broken(h, "HTTP/2 towards the server failed");
        else
                h2_settle(h);
}

const struct http_ops h2_ops = { h2_start, h2_can_take, h2_take, h2_readable, h2_writable, h2_broken, h2_fini };
