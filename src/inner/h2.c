/* HTTP/2 server towards the guest (RFC 9113, RFC 8441), by nghttp2.
 *
 * Each stream is one exchange. nghttp2 keeps the framing rules; what a request says is judged by the same reader as HTTP/1's. Window is
 * given back to the guest only for bytes the link took. SECURITY: the limits on resets, continuations, settings and pings below are
 * what keeps one connection from costing more than its requests. */
#include "inner/h2.h"
#include "base/clock.h"
#include "base/log.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/hold.h"
#include "inner/outbox.h"
#include "inner/tripwire.h"
#include "inner/vet.h"
#include "inner/ws.h"
#include "link/session.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

struct h2 {
        struct flow *f;
        nghttp2_session *session;
        TAILQ_HEAD(, h2_stream) streams;
        unsigned control_frames; /* since the last tick */
        unsigned faults;         /* resets that the peer made us send, since the last tick */
        bool ending;             /* GOAWAY is on its way: closed once it is sent */
        int64_t deadline_ms;     /* retired: closed when its streams are answered, at the latest then; 0: not */
};

struct h2_stream {
        TAILQ_ENTRY(h2_stream) list;
        struct h2 *h;
        int32_t id;
        struct exchange *x; /* NULL: refused, or over; what is in `down` still goes out */
        struct field_list block;
        bool judged;    /* a verdict was recorded */
        bool answered;  /* the final head was submitted */
        bool ended;     /* nothing comes after what is in `down` */
        bool tunnel;
        struct buf down;
        struct headers trailers; /* in the exchange's arena: so x is kept until they went out */
        struct ws_pair ws;
        struct buf frames; /* WebSocket: checked bytes going up */
        size_t discarded;  /* body bytes after a refusal */
        size_t unpaid;     /* body bytes whose window was not given back */
        size_t advanced;   /* of them, those for which the connection's was */
};

static void touch(struct h2 *h) { conn_touch(&h->f->conn); }

static void reset(struct h2_stream *s, uint32_t code)
{
        if (nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, code) != 0)
                log_debug("h2: no reset");
        touch(s->h);
}

/* --- answers --- */

static ssize_t read_down(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap, uint32_t *flags, nghttp2_data_source *source, void *user)
{
        struct h2_stream *s = source->ptr;
        size_t n = buf_len(&s->down) < cap ? buf_len(&s->down) : cap;
        int rc = 0;

        (void)user;
        if (n == 0 && !s->ended)
                return NGHTTP2_ERR_DEFERRED;
        if (n)
                memcpy(out, s->down.bytes + s->down.start, n);
        buf_consume(&s->down, n);
        if (s->ended && !buf_len(&s->down))
                rc = fields_end(session, id, &s->trailers, flags);
        if (rc)
                return rc;
        if (s->x)
                exchange_passed(s->x, n);
        return (ssize_t)n;
}

/* Submits a head; final ones with the body that comes through `down`. */
static int submit(struct h2_stream *s, const struct response *r, struct arena *a)
{
        nghttp2_data_provider provider = { .source.ptr = s, .read_callback = read_down };
        nghttp2_nv nv[FIELDS_MAX + 8];
        struct headers h;
        int rc;

        if (response_to_h2(a, r, &h) != WIRE_OK || h.n > sizeof(nv) / sizeof(nv[0]))
                return -1;
        h.n = fields_nv(nv, h.n, &h, NGHTTP2_NV_FLAG_NONE);
        if (response_is_interim(r))
                rc = nghttp2_submit_headers(s->h->session, NGHTTP2_FLAG_NONE, s->id, NULL, nv, h.n, NULL);
        else
                rc = nghttp2_submit_response(s->h->session, s->id, nv, h.n, r->body == BODY_NONE && !r->upgraded ? NULL : &provider);
        touch(s->h);
        return rc == 0 ? 0 : -1;
}

static void submit_refusal(struct h2_stream *s, struct exchange *x, const struct refusal *r)
{
        char retry[16];
        int n = snprintf(retry, sizeof(retry), "%u", r->retry_s);
        struct header fields[] = { { SLICE_LIT("content-type"), SLICE_LIT("text/plain; charset=utf-8") },
                                   { SLICE_LIT("cache-control"), SLICE_LIT("no-store") },
                                   { SLICE_LIT("retry-after"), slice_of(retry, (size_t)n) } };
        struct response answer = { .status = r->status, .headers = { fields, r->retry_s ? 3 : 2 }, .body = BODY_LENGTH, .has_length = true };

        refuse_body(&s->down, x, r);
        s->ended = true;
        s->answered = true;
        answer.length = buf_len(&s->down);
        x->status = r->status;
        if (x->req && slice_is(x->req->method, "HEAD")) {
                buf_clear(&s->down);
                answer.body = BODY_NONE;
        }
        if (submit(s, &answer, &x->arena) < 0)
                reset(s, r->h2);
}

static void let_go(struct h2_stream *s)
{
        struct exchange *x = s->x;

        s->x = NULL;
        s->trailers = (struct headers){ 0 };
        if (s->unpaid > s->advanced && nghttp2_session_consume_connection(s->h->session, s->unpaid - s->advanced) != 0)
                log_debug("h2: no window");
        s->unpaid = s->advanced = 0;
        if (x)
                exchange_end(x);
}

static void refuse(struct h2_stream *s, const struct refusal *r)
{
        s->judged = true;
        events_request(s->x, r);
        submit_refusal(s, s->x, r);
        let_go(s);
}

static void refuse_reason(struct h2_stream *s, enum reason reason)
{
        struct refusal r = refusal_of(reason);

        s->x->reason = reason;
        refuse(s, &r);
}

/* --- from the link --- */

static void leg_head(struct exchange *x, const struct response *r)
{
        struct h2_stream *s = x->owner;

        if (submit(s, r, &x->arena) < 0) {
                reset(s, NGHTTP2_INTERNAL_ERROR);
                return;
        }
        if (response_is_interim(r))
                return;
        s->answered = true;
        if (r->upgraded) {
                s->tunnel = true;
                ws_pair_init(&s->ws, r);
                x->kind = EXCHANGE_WEBSOCKET;
        }
}

static void resume(struct h2_stream *s)
{
        (void)nghttp2_session_resume_data(s->h->session, s->id); /* not deferred: it is read anyway */
        touch(s->h);
}

static void leg_data(struct exchange *x, struct slice data)
{
        struct h2_stream *s = x->owner;
        int rc = s->tunnel ? ws_pass(&s->ws.down, data, &s->down, &x->found) : buf_add_slice(&s->down, data);

        if (rc < 0)
                reset(s, NGHTTP2_INTERNAL_ERROR);
        else
                resume(s);
}

static void leg_end(struct exchange *x, const struct headers *trailers)
{
        struct h2_stream *s = x->owner;

        s->ended = true;
        s->trailers = *trailers;
        resume(s);
}

/* What waits for room in the hold must not use up the window of those that have room. */
static int advance(struct h2_stream *s, size_t n)
{
        s->advanced += n;
        return nghttp2_session_consume_connection(s->h->session, n);
}

static void pay_back(struct h2_stream *s, size_t n)
{
        size_t half;

        n = n < s->unpaid ? n : s->unpaid;
        half = n < s->advanced ? n : s->advanced;
        s->unpaid -= n;
        s->advanced -= half;
        if ((half && nghttp2_session_consume_stream(s->h->session, s->id, half) != 0) || (n - half && nghttp2_session_consume(s->h->session, s->id, n - half) != 0))
                log_debug("h2: no window");
}

static void leg_room(struct exchange *x, size_t n)
{
        struct h2_stream *s = x->owner;

        pay_back(s, n);
        touch(s->h);
}

static void leg_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        struct h2_stream *s = x->owner;
        struct refusal r = refusal_of(reason == REASON_NONE ? REASON_UPSTREAM_CLOSED : reason);

        (void)detail;
        pay_back(s, s->unpaid); /* what was not handed on never will be */
        if (s->answered)
                reset(s, reason == REASON_NONE ? NGHTTP2_INTERNAL_ERROR : r.h2);
        else
                submit_refusal(s, x, &r);
        s->x = NULL;
        s->trailers = (struct headers){ 0 };
}

static const struct leg_ops h2_leg = { .head = leg_head, .data = leg_data, .end = leg_end, .room = leg_room, .cut = leg_cut };

/* --- from the guest --- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
        return id ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

/* Not admitted, nothing was done: the client may try again (RFC 9113 §8.7). */
static int not_admitted(struct h2 *h, int32_t id)
{
        struct refusal r = refusal_of(REASON_TOO_MANY_STREAMS);
        struct flow *f = h->f;

        events_flow(f->door, door_id(f->door), "h2", &f->to, FLOW_TCP, &f->verdict, &r);
        return nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
        struct h2 *h = user;
        struct h2_stream *s = stream_of(session, frame->hd.stream_id);

        if (frame->hd.type != NGHTTP2_HEADERS)
                return 0;
        if (h->f->state == FLOW_DEAD)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (s) { /* trailers */
                fields_begin(&s->block);
                return 0;
        }
        s = calloc(1, sizeof(*s));
        if (s)
                s->x = exchange_new(h->f->door, EXCHANGE_HTTP, &h2_leg, s);
        if (!s || !s->x || nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s) != 0) {
                if (s && s->x)
                        exchange_end(s->x);
                free(s);
                return not_admitted(h, frame->hd.stream_id);
        }
        s->h = h;
        s->id = frame->hd.stream_id;
        s->x->protocol = "h2";
        s->x->to = h->f->to;
        s->x->https = h->f->tls;
        TAILQ_INSERT_TAIL(&h->streams, s, list);
        return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n,
                     uint8_t flags, void *user)
{
        struct h2_stream *s = stream_of(session, frame->hd.stream_id);

        (void)flags, (void)user;
        if (s && s->x)
                fields_add(&s->block, &s->x->arena, slice_of(name, name_n), slice_of(value, value_n));
        return 0;
}

static void forward(struct h2_stream *s, bool end_stream)
{
        static const struct response go_on = { .status = 100 };
        struct exchange *x = s->x;

        s->judged = true;
        if (end_stream)
                exchange_send_end(x, NULL);
        if (exchange_start(x) < 0)
                exchange_cut(x, REASON_OUTER_GONE, SLICE_EMPTY);
        else if (x->req->expect_continue && submit(s, &go_on, &x->arena) < 0)
                reset(s, NGHTTP2_INTERNAL_ERROR);
}

static void got_request(struct h2_stream *s, bool end_stream)
{
        struct exchange *x = s->x;
        struct flow *f = s->h->f;
        struct request_flow flow = { .scheme = f->tls ? SCHEME_HTTPS : SCHEME_HTTP, .to = &f->to, .to_n = 1, .sni = f->has_sni ? &f->to : NULL };
        struct request *req = arena_alloc(&x->arena, sizeof(*req));
        struct headers block = fields_block(&s->block);
        enum wire_reason why = req ? s->block.bad : WIRE_MEMORY;
        enum reason reason;

        if (why == WIRE_OK)
                why = request_from_h2(&x->arena, &block, end_stream, &flow, req);
        if (why != WIRE_OK) {
                struct refusal r = refusal_of_wire(why);
                if (tripwire_unread(x, &block, SLICE_EMPTY) != REASON_NONE)
                        refuse_reason(s, REASON_TRIPWIRE);
                else
                        refuse(s, &r);
                return;
        }
        x->req = req;
        x->came = block;
        x->to = req->authority;
        decide_request(x);
        if (!x->verdict.allow)
                refuse_reason(s, tripwire_refused(x, x->verdict.reason));
        else if (req->upgrade != WIRE_UPGRADE_NONE && req->upgrade != WIRE_UPGRADE_WEBSOCKET)
                refuse_reason(s, tripwire_refused(x, REASON_UPGRADE_NOT_ALLOWED));
        else if ((reason = vet_request(x)) != REASON_NONE)
                refuse_reason(s, reason);
        else
                forward(s, end_stream);
}

static void got_trailers(struct h2_stream *s)
{
        struct headers *trailers = arena_alloc(&s->x->arena, sizeof(*trailers));

        s->x->found = trailers ? s->block.bad : WIRE_MEMORY;
        if (s->x->found == WIRE_OK) {
                *trailers = fields_block(&s->block);
                trailers_drop_ours(trailers);
                s->x->found = trailers_check(trailers, true);
        }
        if (s->x->found != WIRE_OK) {
                reset(s, NGHTTP2_PROTOCOL_ERROR);
                return;
        }
        exchange_send_end(s->x, trailers);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
        struct h2 *h = user;
        struct h2_stream *s = stream_of(session, frame->hd.stream_id);
        bool end_stream = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
                if (s && s->x && !s->judged)
                        got_request(s, end_stream);
                else if (s && s->x && end_stream)
                        got_trailers(s);
                break;
        case NGHTTP2_DATA:
                if (s && s->x && end_stream)
                        exchange_send_end(s->x, NULL);
                else if (!end_stream && frame->hd.length == 0)
                        h->control_frames++;
                break;
        case NGHTTP2_PRIORITY:
        case NGHTTP2_PING:
        case NGHTTP2_SETTINGS:
                h->control_frames++;
                break;
        }
        return h->control_frames > H2_IDLE_FRAMES || h->faults > H2_FAULTS ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* SECURITY: a peer that spoils its streams (a window beyond its end, a body that lies) makes us reset them, past the limit on its own resets. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
        struct h2 *h = user;
        struct h2_stream *s;

        if (frame->hd.type != NGHTTP2_RST_STREAM)
                return 0;
        switch (frame->rst_stream.error_code) {
        case NGHTTP2_PROTOCOL_ERROR:
        case NGHTTP2_FLOW_CONTROL_ERROR:
        case NGHTTP2_STREAM_CLOSED:
        case NGHTTP2_FRAME_SIZE_ERROR:
                h->faults++;
                s = stream_of(session, frame->hd.stream_id);
                if (s && s->x && s->x->found == WIRE_OK && s->x->reason == REASON_NONE)
                        s->x->reason = REASON_FRAMING; /* nghttp2 found it: the record says that much */
                break;
        default:
                break;
        }
        return 0;
}

static void send_up(struct h2_stream *s, struct slice data)
{
        if (!s->tunnel) {
                /* A cut over the body limit was answered by leg_cut. */
                (void)!exchange_send(s->x, data);
                return;
        }
        if (ws_up(s->x, &s->ws.up, data, &s->frames) < 0) {
                if (s->x) /* else it was refused, and leg_cut has answered */
                        reset(s, NGHTTP2_PROTOCOL_ERROR);
                return;
        }
        if (exchange_send(s->x, buf_slice(&s->frames)) == 0)
                buf_clear(&s->frames);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
        struct h2_stream *s = stream_of(session, id);

        (void)flags, (void)user;
        if (s && s->x && exchange_takes(s->x)) {
                s->unpaid += n;
                if (!exchange_has_room(s->x) && hold_keeps(s->x) && advance(s, n) != 0)
                        return NGHTTP2_ERR_CALLBACK_FAILURE;
                send_up(s, slice_of(p, n));
                return 0;
        }
        /* Refused: read over, the window given back at once. Some clients lose an answer that a reset follows, so one comes only when the
         * body goes on and on (RFC 9113 §8.1). */
        if (s && (s->discarded += n) > H2_DISCARD_BYTES)
                reset(s, NGHTTP2_NO_ERROR);
        return nghttp2_session_consume(session, id, n) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
        struct h2_stream *s = stream_of(session, id);

        (void)code, (void)user;
        if (!s)
                return 0;
        if (s->x && !s->judged) { /* nghttp2 refused the head itself */
                struct headers block = fields_block(&s->block);
                enum reason reason = tripwire_unread(s->x, &block, SLICE_EMPTY) != REASON_NONE ? REASON_TRIPWIRE : REASON_FRAMING;
                struct refusal r = refusal_of(reason);
                events_request(s->x, &r);
        }
        let_go(s);
        TAILQ_REMOVE(&s->h->streams, s, list);
        buf_fini(&s->down);
        buf_fini(&s->frames);
        free(s);
        return 0;
}

/* --- the connection --- */

/* Makes frames while the guest takes them. */
static void pump(struct h2 *h)
{
        struct conn *c = &h->f->conn;
        bool any = false;

        while (buf_len(&c->out) < CONN_OUT_HIGH_BYTES) {
                const uint8_t *p;
                ssize_t n = nghttp2_session_mem_send(h->session, &p);
                if (n < 0 || (n > 0 && buf_add(&c->out, p, (size_t)n) < 0)) {
                        flow_close(h->f, true);
                        return;
                }
                if (n == 0)
                        break;
                any = true;
        }
        if (any)
                conn_touch(c);
        else if (h->deadline_ms && TAILQ_EMPTY(&h->streams) && !h->ending) {
                if (!c->fin_wanted)
                        conn_finish(c); /* closed when the guest does, or at the deadline: bytes of its own must not meet a reset before it has read */
        } else if (h->ending || (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session)))
                flow_close(h->f, false);
}

static void h2_data(struct conn *c, struct slice *in)
{
        struct flow *f = c->owner;
        struct h2 *h = f->state_of_server;
        ssize_t n;

        if (outbox_stalled(f->door->outbox))
                return; /* what cannot be recorded is not begun: flow_admit goes on here */
        n = h->ending ? (ssize_t)in->n : nghttp2_session_mem_recv(h->session, in->p, in->n);
        if (f->state == FLOW_DEAD)
                return;
        *in = slice_skip(*in, in->n);
        if (n < 0) {
                h->ending = true;
                if (nghttp2_session_terminate_session(h->session, n == NGHTTP2_ERR_FLOODED || n == NGHTTP2_ERR_CALLBACK_FAILURE ? NGHTTP2_ENHANCE_YOUR_CALM
                                                                                                                           : NGHTTP2_PROTOCOL_ERROR) != 0) {
                        flow_close(f, true);
                        return;
                }
        }
        conn_touch(c);
}

static void h2_eof(struct conn *c) { flow_close(c->owner, false); }

static void h2_drained(struct conn *c, size_t unsent)
{
        if (unsent < CONN_OUT_HIGH_BYTES)
                pump(((struct flow *)c->owner)->state_of_server);
}

static void h2_failed(struct conn *c, const char *why)
{
        (void)why;
        flow_close(c->owner, true);
}

static const struct conn_ops h2_ops = { .data = h2_data, .eof = h2_eof, .drained = h2_drained, .failed = h2_failed };

static void h2_stop(struct flow *f)
{
        struct h2 *h = f->state_of_server;
        struct h2_stream *s;

        /* The session may be in use up the stack: only the exchanges end now. */
        TAILQ_FOREACH(s, &h->streams, list)
                let_go(s);
}

static void h2_free(struct flow *f)
{
        struct h2 *h = f->state_of_server;
        struct h2_stream *s;

        nghttp2_session_del(h->session);
        while ((s = TAILQ_FIRST(&h->streams))) {
                TAILQ_REMOVE(&h->streams, s, list);
                buf_fini(&s->down);
                buf_fini(&s->frames);
                free(s);
        }
        free(h);
}

static void h2_retire(struct flow *f)
{
        struct h2 *h = f->state_of_server;

        if (h->deadline_ms)
                return;
        h->deadline_ms = clock_mono_ms() + LINGER_MS;
        if (nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session), NGHTTP2_NO_ERROR, NULL, 0) != 0)
                flow_close(f, true);
        else
                touch(h);
}

static void h2_tick(struct flow *f, int64_t now_ms)
{
        struct h2 *h = f->state_of_server;

        h->control_frames = h->faults = 0;
        if (h->deadline_ms && flow_waits(f))
                h->deadline_ms = now_ms + LINGER_MS;
        if (h->deadline_ms && now_ms >= h->deadline_ms)
                flow_close(f, true);
}

static const struct flow_server h2_server = { .name = "h2", .stop = h2_stop, .retire = h2_retire, .tick = h2_tick, .free = h2_free };

static void session_limits(nghttp2_option *opt)
{
        nghttp2_option_set_stream_reset_rate_limit(opt, H2_RESET_BURST, H2_RESET_RATE);
        nghttp2_option_set_max_continuations(opt, H2_CONTINUATIONS);
        nghttp2_option_set_max_outbound_ack(opt, H2_OUTBOUND_ACKS);
        nghttp2_option_set_max_settings(opt, H2_SETTINGS);
}

static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MAX },
        { NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 },
};
static const struct session_plan server = {
        .server = true, .begin_headers = on_begin_headers, .header = on_header, .frame_recv = on_frame, .data = on_data,
        .stream_close = on_stream_close, .frame_send = on_sent, .limit = session_limits,
        .settings = settings, .settings_n = sizeof(settings) / sizeof(settings[0]), .window_bytes = H2_WINDOW,
};

void h2_serve(struct flow *f)
{
        struct h2 *h = calloc(1, sizeof(*h));

        if (h) {
                h->f = f;
                TAILQ_INIT(&h->streams);
                h->session = session_new(&server, h);
        }
        if (!h || !h->session) {
                free(h);
                flow_close(f, true);
                return;
        }
        flow_served(f, &h2_server, h);
        conn_serve(&f->conn, &h2_ops, f);
        conn_resume(&f->conn);
        conn_touch(&f->conn);
}
