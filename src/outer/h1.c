/* HTTP/1.1 towards an origin: writes the canonical request anew, reads the answer strictly, one exchange at a time.
 *
 * The answer may come before the request is through (then the connection is not used again). What does not parse ends the exchange
 * and the connection; nothing is repaired. After a 101 both directions are plain bytes. */
#include "outer/http.h"

#include "base/log.h"
#include "outer/outgoing.h"
#include "wire/body.h"
#include <openssl/rand.h>
#include <stdlib.h>

enum h1_expect { H1_EXPECT_NOTHING, H1_EXPECT_HEAD, H1_EXPECT_BODY, H1_EXPECT_RAW };

struct h1 {
        struct exchange *ex;
        enum h1_expect expect;
        struct h1_reader reader;
        struct body_reader body;
        struct response answer;
        uint64_t received_before; /* of the connection, when ex was taken */
        bool up_done;             /* the request is written to its end */
        bool again;               /* bytes were left unread for want of room */
};

static void h1_up(struct exchange *ex)
{
        struct http *h = ex->upstream;

        conn_ask(h->conn);
}

static void h1_room(struct exchange *ex)
{
        struct http *h = ex->upstream;

        if (h->h1->again && exchange_wants_more(ex))
                conn_ask(h->conn);
}

static void h1_abort(struct exchange *ex)
{
        struct http *h = ex->upstream;

        h->h1->ex = NULL;
        h->active = 0;
        http_drop(h);
}

static const struct upstream_ops exchange_ops = { h1_up, h1_room, h1_abort };

static int h1_start(struct http *h)
{
        h->h1 = calloc(1, sizeof(*h->h1));
        return h->h1 ? 0 : -1;
}

static void h1_fini(struct http *h)
{
        free(h->h1);
        h->h1 = NULL;
}

static bool h1_can_take(const struct http *h) { return !h->h1->ex && !h->conn->eof; }

/* Lets go of the exchange and the connection. */
static void h1_end(struct http *h, bool keep)
{
        struct h1 *s = h->h1;

        s->ex = NULL;
        s->expect = H1_EXPECT_NOTHING;
        h->active = 0;
        if (keep)
                http_idle(h);
        else
                http_drop(h);
}

/* A kept connection that the origin closed while the request was on its way: nothing came back, so it may be sent once more. */
static bool h1_retry(struct http *h)
{
        struct h1 *s = h->h1;
        struct exchange *ex = s->ex;

        if (h->served < 2 || h->conn->received != s->received_before || !request_is_idempotent(&ex->req) || !exchange_is_replayable(ex))
                return false;
        s->ex = NULL;
        h->active = 0;
        http_retry(h, ex, AGAIN_STALE);
        http_drop(h);
        return true;
}

static void h1_fail(struct http *h, enum reason reason, const char *detail)
{
        struct exchange *ex = h->h1->ex;

        if (!ex) {
                http_drop(h);
                return;
        }
        exchange_detach(ex);
        exchange_fail(ex, reason, "%s", detail);
        h1_end(h, false);
}

static void h1_broken(struct http *h, const char *detail)
{
        if (!h->h1->ex)
                http_drop(h);
        else if (!h1_retry(h))
                h1_fail(h, REASON_UPSTREAM_CLOSED, detail);
}

static int set_ws_key(struct exchange *ex)
{
        uint8_t random[16];
        char *key = arena_alloc(&ex->arena, WS_KEY_TEXT);

        if (!key || RAND_bytes(random, sizeof(random)) != 1)
                return -1;
        ws_key(key, random);
        ex->req.ws_key = slice_str(key);
        return 0;
}

/* SECURITY: what was made for the writing, the secret in it, is wiped here; the connection's queue wipes itself. */
static int write_head(struct http *h, struct exchange *ex, const char **why)
{
        struct arena scratch;
        struct request out;
        int rc;

        arena_init(&scratch, EXCHANGE_ARENA_BYTES);
        if (ex->kind == KIND_WEBSOCKET && set_ws_key(ex) < 0) {
                *why = "no random numbers";
                return -1;
        }
        rc = outgoing_make(ex, h->conn, &scratch, &out, why);
        if (rc == 0 && request_to_h1(&h->conn->out, &out, true) < 0) {
                *why = "the request cannot be written as HTTP/1.1";
                rc = -1;
        }
        arena_wipe(&scratch);
        arena_fini(&scratch);
        return rc;
}

static void h1_take(struct http *h, struct exchange *ex)
{
        struct h1 *s = h->h1;
        const char *why;

        s->ex = ex;
        s->expect = H1_EXPECT_HEAD;
        s->up_done = s->again = false;
        s->received_before = h->conn->received;
        h1_reader_init(&s->reader, false);
        h->served++;
        exchange_attach(ex, &exchange_ops, h);
        ex->state = EXCHANGE_SENT;
        if (write_head(h, ex, &why) < 0)
                h1_fail(h, REASON_INTERNAL, why);
        else
                conn_ask(h->conn);
}

/* --- request bytes --- */

static int put_up(struct http *h, struct slice s)
{
        uint8_t head[CHUNK_HEAD_BYTES_MAX];

        if (h->h1->ex->to.body != BODY_CHUNKED || h->h1->expect == H1_EXPECT_RAW)
                return conn_put(h->conn, s);
        return buf_add(&h->conn->out, head, chunk_head(head, s.n)) < 0 || conn_put(h->conn, s) < 0 ? -1 : buf_add(&h->conn->out, "\r\n", 2);
}

static void h1_send(struct http *h)
{
        struct h1 *s = h->h1;
        struct exchange *ex = s->ex;
        /* A WebSocket's bytes wait until the origin has agreed to it. */
        bool may = ex->kind != KIND_WEBSOCKET || s->expect == H1_EXPECT_RAW;
        int rc = 0;

        while (rc == 0 && may && buf_len(&ex->up) && conn_has_room(h->conn)) {
                struct slice part = slice_first(buf_slice(&ex->up), CONN_OUT_BYTES - buf_len(&h->conn->out));

                rc = put_up(h, part);
                if (rc == 0)
                        exchange_took(ex, part.n);
        }
        if (rc == 0 && may && ex->up_ended && !s->up_done && buf_len(&ex->up) == 0) {
                s->up_done = true;
                if (s->expect == H1_EXPECT_RAW)
                        conn_shut(h->conn);
                else if (ex->to.body == BODY_CHUNKED)
                        rc = chunk_write_end(&h->conn->out, &ex->up_trailers);
        }
        if (rc < 0)
                h1_fail(h, REASON_LIMIT, "out of memory");
}

/* --- answer bytes --- */

static void h1_finish(struct http *h, const struct headers *trailers)
{
        struct h1 *s = h->h1;
        /* SECURITY: bytes after the answer's end belong to nothing that was asked; kept, they would answer the next request. */
        bool keep = s->answer.keep_alive && s->up_done && !h->conn->eof && conn_is_drained(h->conn);

        exchange_end(s->ex, trailers);
        conn_pause(h->conn, false);
        h1_end(h, keep);
}

/* True: go on reading. */
static bool read_head(struct http *h)
{
        struct h1 *s = h->h1;
        struct h1_head head;
        size_t used = 0;
        enum wire_reason why = WIRE_OK;
        enum wire_step step = h1_read(&s->reader, buf_slice(&h->conn->in), &s->ex->arena, &head, &used, &why);

        if (step == WIRE_MORE) {
                if (h->conn->eof && !h1_retry(h))
                        h1_fail(h, REASON_UPSTREAM_CLOSED, "the server closed the connection before it answered");
                return false;
        }
        if (step == WIRE_DONE)
                why = response_from_h1(&s->ex->arena, &head, &s->ex->req, &s->answer);
        if (why != WIRE_OK || step == WIRE_BAD) {
                h1_fail(h, REASON_UPSTREAM_PROTOCOL, wire_reason_sentence(why));
                return false;
        }
        buf_consume(&h->conn->in, used);
        if (response_is_interim(&s->answer)) {
                exchange_interim(s->ex, &s->answer);
                if (s->ex->interim <= INTERIM_MAX)
                        return true;
                h1_fail(h, REASON_UPSTREAM_PROTOCOL, "too many interim answers");
                return false;
        }
        /* On the link a 2xx says that the WebSocket is open. */
        if (s->ex->kind == KIND_WEBSOCKET && !s->answer.upgraded && s->answer.status < 300) {
                h1_fail(h, REASON_UPSTREAM_PROTOCOL, "the server answered the opening of a WebSocket without opening it");
                return false;
        }
        s->expect = s->answer.upgraded ? H1_EXPECT_RAW : H1_EXPECT_BODY;
        struct framing f = { s->answer.body, s->answer.length, s->answer.has_length };
        body_reader_init(&s->body, &f, false, &s->ex->arena);
        bool end = !s->answer.upgraded && s->answer.body == BODY_NONE;
        if (exchange_answer(s->ex, &s->answer, end) < 0)
                return false; /* failed: its abort let the connection go */
        if (s->answer.upgraded)
                conn_ask(h->conn);
        if (end)
                h1_finish(h, NULL);
        return !end;
}

static bool read_body(struct http *h)
{
        struct h1 *s = h->h1;
        struct slice in = buf_slice(&h->conn->in), data;
        size_t had = in.n;
        enum wire_reason why = WIRE_OK;
        enum body_event e = in.n || !h->conn->eof ? body_read(&s->body, &in, &data, &why) : body_eof(&s->body, &why);

        if (e == BODY_DATA && data.n == had)
                return exchange_down_all(s->ex, &h->conn->in) == 0;
        if (e == BODY_DATA && exchange_down(s->ex, data) < 0)
                return false;
        buf_consume(&h->conn->in, had - in.n);
        switch (e) {
        case BODY_DATA:
                return true;
        case BODY_MORE:
                return h->conn->eof && had; /* once more, for the end of file */
        case BODY_END:
                h1_finish(h, body_trailers(&s->body));
                return false;
        case BODY_BAD:
                h1_fail(h, why == WIRE_BODY_SHORT ? REASON_UPSTREAM_CLOSED : REASON_UPSTREAM_PROTOCOL, wire_reason_sentence(why));
                return false;
        }
        return false;
}

static bool read_raw(struct http *h)
{
        struct h1 *s = h->h1;

        if (buf_len(&h->conn->in) && exchange_down_all(s->ex, &h->conn->in) < 0)
                return false;
        if (h->conn->eof) {
                struct headers none = { 0 };

                s->answer.keep_alive = false;
                h1_finish(h, &none);
        }
        return false;
}

/* The expected unit decides who reads; each says whether to go on. */
static void h1_readable(struct http *h)
{
        struct h1 *s = h->h1;

        for (;;) {
                bool more = false;

                if (!s->ex) {
                        http_drop(h); /* closed, or speaks unasked */
                        return;
                }
                if (s->expect != H1_EXPECT_HEAD && !exchange_has_room(s->ex)) {
                        s->again = true;
                        conn_pause(h->conn, true);
                        return;
                }
                if (s->expect == H1_EXPECT_HEAD)
                        more = read_head(h);
                else if (s->expect == H1_EXPECT_BODY)
                        more = read_body(h);
                else
                        more = read_raw(h);
                if (!more)
                        return;
        }
}

static void h1_writable(struct http *h)
{
        struct h1 *s = h->h1;

        if (s->ex && s->again && exchange_wants_more(s->ex)) {
                s->again = false;
                conn_pause(h->conn, false);
                h1_readable(h);
        }
        if (s->ex && !h->dead)
                h1_send(h);
}

const struct http_ops h1_ops = { h1_start, h1_can_take, h1_take, h1_readable, h1_writable, h1_broken, h1_fini };
