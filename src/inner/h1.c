/* HTTP/1.x server towards the guest (RFC 9112).
 *
 * One exchange at a time; pipelined requests wait, unread, behind it. A request that has no single reading is answered 400 and the
 * connection ends, since nobody knows where the next one begins. Bodies stream both ways; Expect is answered here.
 *
 *   HEAD     a request head is awaited or half read (deadline HEAD_MS once begun)
 *   BODY     its body is read and sent on
 *   WAIT     the request is whole; the answer is awaited or streamed
 *   TUNNEL   a WebSocket: frames both ways
 *   CLOSING  the last answer is written; what still comes is thrown away (deadline LINGER_MS) */
#include "inner/h1.h"
#include "base/clock.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/outbox.h"
#include "inner/tripwire.h"
#include "inner/vet.h"
#include "inner/ws.h"
#include "wire/body.h"

#include <stdlib.h>

enum h1_state { H1_HEAD, H1_BODY, H1_WAIT, H1_TUNNEL, H1_CLOSING };

struct h1 {
        struct flow *f;
        enum h1_state state;
        struct exchange *x;
        struct h1_reader reader;
        struct body_reader body;
        struct framing framing;
        enum body_kind how;  /* of the answer's body */
        bool head_sent;      /* the final head of x's answer */
        bool close;          /* no further request after this one */
        int64_t deadline_ms; /* 0: none */
        struct ws_pair ws;
        struct buf frames; /* WebSocket: checked bytes on their way */
};

static void set_state(struct h1 *h, enum h1_state state)
{
        h->state = state;
        h->deadline_ms = state == H1_CLOSING ? clock_mono_ms() + LINGER_MS : 0;
}

/* --- the end of an exchange --- */

static void begin_close(struct h1 *h)
{
        set_state(h, H1_CLOSING);
        conn_finish(&h->f->conn);
}

/* The answer is complete. Goes on with the next request, or closes. */
static void finish(struct h1 *h)
{
        struct exchange *x = h->x;
        bool whole = h->state == H1_WAIT;

        h->x = NULL;
        exchange_end(x);
        if (h->close || !whole) {
                begin_close(h);
                return;
        }
        h->head_sent = false;
        set_state(h, H1_HEAD);
        conn_resume(&h->f->conn);
}

/* Writes the refusal as the answer to x. The connection goes on only when the request was read to its end. */
static void write_refusal(struct h1 *h, struct exchange *x, const struct refusal *r)
{
        struct buf *out = &h->f->conn.out, body;
        bool head_only = x->req && slice_is(x->req->method, "HEAD");
        char retry[32] = "";

        if (!x->req || h->state != H1_WAIT || !x->req->keep_alive)
                h->close = true;
        buf_init(&body, 2 * REFUSAL_BYTES);
        refuse_body(&body, x, r);
        if (r->retry_s)
                snprintf(retry, sizeof(retry), "retry-after: %u\r\n", r->retry_s);
        buf_addf(out, "HTTP/1.1 %u %s\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n%scontent-length: %zu\r\n%s\r\n", r->status,
                 status_phrase(r->status), retry, buf_len(&body), h->close ? "connection: close\r\n" : x->req->version == 10 ? "connection: keep-alive\r\n" : "");
        if (!head_only)
                buf_add_slice(out, buf_slice(&body));
        buf_fini(&body);
        x->status = r->status;
        h->head_sent = true;
        conn_touch(&h->f->conn);
}

/* Refuses the present request: records, answers, ends it. */
static void refuse(struct h1 *h, const struct refusal *r)
{
        events_request(h->x, r);
        write_refusal(h, h->x, r);
        finish(h);
}

static void refuse_reason(struct h1 *h, enum reason reason)
{
        struct refusal r = refusal_of(reason);

        h->x->reason = reason;
        refuse(h, &r);
}

/* A head of which only the bytes are there. */
static void refuse_unread(struct h1 *h, const struct refusal *r, struct slice head)
{
        h->close = true;
        if (tripwire_unread(h->x, NULL, head) != REASON_NONE)
                refuse_reason(h, REASON_TRIPWIRE);
        else
                refuse(h, r);
}

/* --- from the link --- */

static void leg_head(struct exchange *x, const struct response *r)
{
        struct h1 *h = x->owner;
        struct conn *c = &h->f->conn;
        enum body_kind how;

        if (!response_is_interim(r) && !r->upgraded && (h->state != H1_WAIT || !x->req->keep_alive))
                h->close = true;
        if (response_to_h1(&c->out, r, x->req, !h->close, &how) < 0) {
                flow_close(h->f, true);
                return;
        }
        conn_touch(c);
        if (response_is_interim(r))
                return;
        h->head_sent = true;
        h->how = how;
        if (how == BODY_CLOSE)
                h->close = true;
        if (r->upgraded) {
                ws_pair_init(&h->ws, r);
                x->kind = EXCHANGE_WEBSOCKET;
                set_state(h, H1_TUNNEL);
                conn_resume(c);
        }
}

static void tunnel_down(struct h1 *h, struct slice s)
{
        if (ws_pass(&h->ws.down, s, &h->f->conn.out, &h->x->found) < 0)
                flow_close(h->f, true);
        else
                conn_touch(&h->f->conn);
}

static int send_chunk(struct conn *c, struct slice s)
{
        uint8_t head[CHUNK_HEAD_BYTES_MAX];

        if (!s.n)
                return 0;
        return buf_add(&c->out, head, chunk_head(head, s.n)) < 0 || conn_send(c, s) < 0 ? -1 : buf_add(&c->out, "\r\n", 2);
}

static void leg_data(struct exchange *x, struct slice s)
{
        struct h1 *h = x->owner;
        int rc = 0;

        if (h->state == H1_TUNNEL) {
                tunnel_down(h, s);
                return;
        }
        switch (h->how) {
        case BODY_LENGTH:
        case BODY_CLOSE:
                rc = conn_send(&h->f->conn, s);
                break;
        case BODY_CHUNKED:
                rc = send_chunk(&h->f->conn, s);
                break;
        case BODY_NONE:
        case BODY_KIND_COUNT:
                break;
        }
        if (rc < 0)
                flow_close(h->f, true);
        else
                conn_touch(&h->f->conn);
}

static void leg_end(struct exchange *x, const struct headers *trailers)
{
        struct h1 *h = x->owner;

        if (h->state == H1_TUNNEL) {
                h->deadline_ms = clock_mono_ms() + LINGER_MS;
                conn_finish(&h->f->conn);
                return;
        }
        if (h->how == BODY_CHUNKED && chunk_write_end(&h->f->conn.out, trailers) < 0) {
                flow_close(h->f, true);
                return;
        }
        conn_touch(&h->f->conn);
        finish(h);
}

static void leg_room(struct exchange *x, size_t n)
{
        struct h1 *h = x->owner;

        (void)n;
        if ((h->state == H1_BODY || h->state == H1_TUNNEL) && exchange_has_room(x))
                conn_resume(&h->f->conn);
}

static void leg_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        struct h1 *h = x->owner;
        struct refusal r = refusal_of(reason == REASON_NONE ? REASON_UPSTREAM_CLOSED : reason);

        (void)detail;
        if (h->head_sent || h->state == H1_TUNNEL) {
                h->x = NULL;
                flow_close(h->f, true); /* the guest must not take a half answer for a whole one */
                return;
        }
        write_refusal(h, x, &r);
        finish(h);
}

static const struct leg_ops h1_leg = { .head = leg_head, .data = leg_data, .end = leg_end, .room = leg_room, .cut = leg_cut };

/* --- from the guest --- */

static int begin(struct h1 *h)
{
        h->x = exchange_new(h->f->door, EXCHANGE_HTTP, &h1_leg, h);
        if (!h->x) {
                struct refusal r = refusal_of(REASON_TOO_MANY_STREAMS);
                flow_refuse(h->f, &r);
                return -1;
        }
        h->x->protocol = "http/1.1";
        h->x->to = h->f->to;
        h->x->https = h->f->tls;
        h1_reader_init(&h->reader, true);
        h->deadline_ms = clock_mono_ms() + HEAD_MS;
        return 0;
}

/* The request is read and allowed: opens the stream. */
static void forward(struct h1 *h)
{
        struct exchange *x = h->x;
        struct framing framing = { .kind = x->req->body, .length = x->req->length, .has_length = x->req->body == BODY_LENGTH };
        bool body = x->req->body != BODY_NONE;

        if (!body && x->req->upgrade == WIRE_UPGRADE_NONE)
                exchange_send_end(x, NULL);
        else if (body)
                body_reader_init(&h->body, &framing, true, &x->arena);
        set_state(h, body ? H1_BODY : H1_WAIT);
        if (exchange_start(x) < 0) {
                exchange_cut(x, REASON_OUTER_GONE, SLICE_EMPTY);
                return;
        }
        if (x->req->expect_continue) {
                buf_add_str(&h->f->conn.out, "HTTP/1.1 100 Continue\r\n\r\n");
                conn_touch(&h->f->conn);
        }
}

/* raw: its bytes. */
static void got_head(struct h1 *h, const struct h1_head *head, struct slice raw)
{
        struct exchange *x = h->x;
        struct request_flow flow = { .scheme = h->f->tls ? SCHEME_HTTPS : SCHEME_HTTP, .to = &h->f->to, .to_n = 1,
                                     .sni = h->f->has_sni ? &h->f->to : NULL };
        struct request *req = arena_alloc(&x->arena, sizeof(*req));
        enum reason reason;
        enum wire_reason why = req ? request_from_h1(&x->arena, head, &flow, req) : WIRE_MEMORY;

        h->deadline_ms = 0;
        if (why != WIRE_OK) {
                struct refusal r = refusal_of_wire(why);
                refuse_unread(h, &r, raw);
                return;
        }
        x->req = req;
        x->came = head->headers;
        x->to = req->authority;
        /* A body still to come keeps the connection from going on after a refusal. */
        set_state(h, req->body == BODY_NONE ? H1_WAIT : H1_BODY);
        decide_request(x);
        if (!x->verdict.allow)
                refuse_reason(h, tripwire_refused(x, x->verdict.reason));
        else if (req->upgrade != WIRE_UPGRADE_NONE && req->upgrade != WIRE_UPGRADE_WEBSOCKET)
                refuse_reason(h, tripwire_refused(x, REASON_UPGRADE_NOT_ALLOWED));
        else if ((reason = vet_request(x)) != REASON_NONE)
                refuse_reason(h, reason);
        else
                forward(h);
}

/* False: no more can be done now. */
static bool step_head(struct h1 *h, struct slice *in)
{
        struct h1_head head;
        enum wire_reason why = WIRE_OK;
        struct refusal bad;
        struct slice raw;
        size_t used = 0;

        if (!h->x && (buf_len(&h->f->conn.out) >= CONN_OUT_HIGH_BYTES || outbox_stalled(h->f->door->outbox) || begin(h) < 0))
                return false;
        switch (h1_read(&h->reader, *in, &h->x->arena, &head, &used, &why)) {
        case WIRE_MORE:
                return false;
        case WIRE_BAD:
                bad = refusal_of_wire(why);
                refuse_unread(h, &bad, *in);
                return h->f->state != FLOW_DEAD;
        case WIRE_DONE:
                break;
        }
        raw = slice_first(*in, used);
        *in = slice_skip(*in, used);
        got_head(h, &head, raw);
        return h->f->state != FLOW_DEAD;
}

/* SECURITY: a body that turns out malformed ends the stream with a reset, so that the origin never sees it as whole. */
static void bad_body(struct h1 *h, enum wire_reason why)
{
        struct refusal r = refusal_of_wire(why);

        if (h->head_sent) {
                h->x->found = why;
                flow_close(h->f, true);
                return;
        }
        h->close = true;
        events_request(h->x, &r);
        write_refusal(h, h->x, &r);
        finish(h);
}

static bool step_body(struct h1 *h, struct slice *in)
{
        struct exchange *x = h->x;
        struct slice data;
        enum wire_reason why = WIRE_OK;

        if (in->n && !exchange_has_room(x)) /* the end of a body needs neither bytes nor room */
                return false;
        switch (body_read(&h->body, in, &data, &why)) {
        case BODY_MORE:
                return false;
        case BODY_DATA:
                return exchange_send(x, data) == 0 && h->f->state != FLOW_DEAD;
        case BODY_END:
                set_state(h, H1_WAIT);
                /* Trailers live in the exchange's arena, as long as it does. */
                exchange_send_end(x, &h->body.chunk.trailers);
                return h->f->state != FLOW_DEAD;
        case BODY_BAD:
                bad_body(h, why);
                break;
        }
        return h->f->state != FLOW_DEAD;
}

static bool step_tunnel(struct h1 *h, struct slice *in)
{
        if (!exchange_has_room(h->x))
                return false;
        if (ws_up(h->x, &h->ws.up, *in, &h->frames) < 0) {
                flow_close(h->f, true);
                return false;
        }
        *in = slice_skip(*in, in->n);
        if (exchange_send(h->x, buf_slice(&h->frames)) == 0)
                buf_clear(&h->frames);
        return false;
}

static void h1_data(struct conn *c, struct slice *in)
{
        struct h1 *h = ((struct flow *)c->owner)->state_of_server;
        bool more = true;

        while (more) {
                switch (h->state) {
                case H1_HEAD:
                        more = in->n && step_head(h, in);
                        break;
                case H1_BODY:
                        more = step_body(h, in);
                        break;
                case H1_TUNNEL:
                        more = in->n && step_tunnel(h, in);
                        break;
                case H1_CLOSING:
                        *in = slice_skip(*in, in->n);
                        return;
                case H1_WAIT:
                        return;
                }
        }
}

static void h1_eof(struct conn *c)
{
        struct flow *f = c->owner;
        struct h1 *h = f->state_of_server;

        switch (h->state) {
        case H1_WAIT: /* bare, a half close: the answer is still wanted. Over TLS no client does that: it has left, and nothing is to wait for it */
                h->close = true;
                if (c->ssl)
                        flow_close(f, true);
                break;
        case H1_TUNNEL:
                exchange_send_end(h->x, NULL);
                if (c->fin_sent)
                        flow_close(f, false);
                break;
        case H1_HEAD:
        case H1_BODY:
        case H1_CLOSING:
                flow_close(f, h->state == H1_BODY);
                break;
        }
}

static void h1_drained(struct conn *c, size_t unsent)
{
        struct flow *f = c->owner;
        struct h1 *h = f->state_of_server;

        if (h->x && h->x->owed > unsent)
                exchange_passed(h->x, h->x->owed - unsent);
        if (c->fin_sent && (c->eof || (h->x && h->x->up_ended)))
                flow_close(f, false);
        else if (h->state == H1_HEAD && unsent < CONN_OUT_HIGH_BYTES && buf_len(&c->in))
                conn_resume(c);
}

static void h1_failed(struct conn *c, const char *why)
{
        (void)why;
        flow_close(c->owner, true);
}

static const struct conn_ops h1_ops = { .data = h1_data, .eof = h1_eof, .drained = h1_drained, .failed = h1_failed };

/* --- life --- */

static void h1_stop(struct flow *f)
{
        struct h1 *h = f->state_of_server;
        struct exchange *x = h->x;

        h->x = NULL;
        if (x)
                exchange_end(x);
        /* h itself may be in use up the stack; flow_free_dead frees it. */
}

static void h1_tick(struct flow *f, int64_t now_ms)
{
        struct h1 *h = f->state_of_server;

        if (h->state == H1_CLOSING && flow_waits(f))
                h->deadline_ms = now_ms + LINGER_MS;
        if (!h->deadline_ms || now_ms < h->deadline_ms)
                return;
        if (h->state == H1_HEAD && h->x) {
                struct refusal late = refusal_of(REASON_CLASSIFY_TIMEOUT);
                h->x->reason = REASON_CLASSIFY_TIMEOUT;
                refuse_unread(h, &late, buf_slice(&f->conn.in));
        } else {
                flow_close(f, false);
        }
}

static void h1_retire(struct flow *f)
{
        struct h1 *h = f->state_of_server;

        if (h->x)
                flow_close(f, true);
        else if (h->state != H1_CLOSING)
                begin_close(h); /* a refusal that was just written still arrives */
}

static void h1_free(struct flow *f)
{
        struct h1 *h = f->state_of_server;

        buf_fini(&h->frames);
        free(h);
}

static const struct flow_server h1_server = { .name = "http/1.1", .stop = h1_stop, .retire = h1_retire, .tick = h1_tick, .free = h1_free };

void h1_serve(struct flow *f)
{
        struct h1 *h = calloc(1, sizeof(*h));

        if (!h) {
                flow_close(f, true);
                return;
        }
        h->f = f;
        buf_init(&h->frames, 0);
        flow_served(f, &h1_server, h);
        conn_serve(&f->conn, &h1_ops, f);
        conn_resume(&f->conn);
}
