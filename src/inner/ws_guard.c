/* What a guest sends through a WebSocket, looked into: see ws.h. Frames wait as they came, masked; their payload stands beside them unmasked.
 *
 * The one idea: a list of parts (heads, payload, control frames) says which waiting bytes are payload; bytes leave from the front, payload only as far as the scan calls it
 * clear. A message is one stream, whatever its fragments; its end decides what is left of it. */
#include "base/log.h"
#include "inner/guess.h"
#include "inner/tripwire.h"
#include "inner/ws.h"

#include <stdio.h>
#include <stdlib.h>

enum part_kind { PART_HEAD, PART_PAYLOAD, PART_CONTROL /* whole frame; not before its end */ };
enum { CONTROL_BYTES_MAX = 125 };
struct part {
        uint32_t n;
        uint8_t kind;
        bool open; /* of a control frame that has not ended */
};
struct ws_guard {
        struct exchange *x;
        struct buf raw;   /* waiting bytes, as they came */
        struct buf plain; /* the payload among them, unmasked */
        struct buf parts; /* struct part, of raw */
        struct scan scan; /* of plain */
        struct guess guess; /* of a binary message */
        size_t guessed;     /* bytes at the front of plain that it has seen */
        size_t control_n;
        uint8_t control[CONTROL_BYTES_MAX];
};

struct ws_guard *ws_guard_new(struct exchange *x)
{
        struct ws_guard *g = calloc(1, sizeof(*g));

        if (!g)
                return NULL;
        g->x = x;
        buf_init(&g->raw, WS_HELD_BYTES);
        buf_init(&g->plain, WS_HELD_BYTES);
        buf_init(&g->parts, 0);
        scan_begin(&g->scan, x->door->tokens);
        guess_begin(&g->guess, x->door, false);
        return g;
}

void ws_guard_free(struct ws_guard *g)
{
        if (!g)
                return;
        guess_end(&g->guess);
        buf_fini(&g->raw);
        buf_fini(&g->plain);
        buf_fini(&g->parts);
        free(g);
}

static struct part *last_part(struct ws_guard *g) { return buf_len(&g->parts) ? (struct part *)(void *)(g->parts.bytes + g->parts.end - sizeof(struct part)) : NULL; }

static struct part part_at(const struct ws_guard *g, size_t at)
{
        struct part p;

        memcpy(&p, g->parts.bytes + g->parts.start + at, sizeof(p));
        return p;
}

static int add(struct ws_guard *g, enum part_kind kind, struct slice s)
{
        struct part *last = last_part(g), p = { (uint32_t)s.n, (uint8_t)kind, kind == PART_CONTROL };

        if (buf_add_slice(&g->raw, s) < 0)
                return -1;
        if (last && last->kind == kind && (kind != PART_CONTROL || last->open)) {
                last->n += (uint32_t)s.n;
                return 0;
        }
        return buf_add(&g->parts, &p, sizeof(p));
}

/* --- looking --- */

static void refuse(struct ws_guard *g, enum reason reason, const struct scan_hit *hit)
{
        char text[64];

        snprintf(text, sizeof(text), "websocket (%s)", scan_view_name(hit->view));
        exchange_refuse(g->x, tripwire_engine(reason), reason, slice_str(text));
}

/* Where byte `at` of the payload waits. */
static size_t raw_at(const struct ws_guard *g, size_t at)
{
        size_t raw = 0;

        for (size_t i = 0; i < buf_len(&g->parts); i += sizeof(struct part)) {
                struct part p = part_at(g, i);

                if (p.kind == PART_PAYLOAD && at < p.n)
                        return raw + at;
                if (p.kind == PART_PAYLOAD)
                        at -= p.n;
                raw += p.n;
        }
        MUST(raw < buf_len(&g->raw)); /* payload waits in a part */
        return 0;
}

/* The masked byte changes as the plain one does: the key stays. */
static void redact(struct ws_guard *g, const struct scan_hit *hit)
{
        uint8_t *plain = g->plain.bytes + g->plain.start + hit->at, before[SCAN_KEEP_BYTES_MAX];

        memcpy(before, plain, hit->n);
        tripwire_redact(plain, hit->n);
        for (size_t i = 0; i < hit->n; i++)
                if (plain[i] != before[i])
                        g->raw.bytes[g->raw.start + raw_at(g, hit->at + i)] ^= plain[i] ^ before[i];
}

static int look_at_guessed(void *ctx, struct decode *dec, bool last)
{
        static const struct stream_place p = { "websocket", SLOT_WEBSOCKET, false };
        struct ws_guard *g = ctx;
        struct door *d = g->x->door;
        struct scan_hit hit;
        enum reason reason;
        bool found = false;
        size_t clear = buf_len(&dec->text);

        if (d->tokens) {
                dec->scan.set = d->tokens;
                clear = scan_step(&dec->scan, buf_slice(&dec->text), last, &found, &hit);
        }
        if (found) {
                (void)tripwire_stream(g->x, &p, &hit, &reason); /* at home as well: nobody swaps what is packed */
                refuse(g, reason, &hit);
                return -1;
        }
        buf_consume(&dec->text, clear);
        scan_drop(&dec->scan, clear);
        return 0;
}

static int look_packed(struct ws_guard *g, bool last, size_t *clear)
{
        size_t n = buf_len(&g->plain), pending;

        if (guess_feed(&g->guess, slice_skip(buf_slice(&g->plain), g->guessed), last, look_at_guessed, g) < 0)
                return -1;
        g->guessed = n;
        pending = guess_pending(&g->guess);
        if (n - (pending < n ? pending : n) < *clear)
                *clear = n - (pending < n ? pending : n);
        return 0;
}

/* 0 with *clear, or -1: refused. */
static int look(struct ws_guard *g, bool text, bool last, size_t *clear)
{
        struct stream_place p = { "websocket", SLOT_WEBSOCKET, text };
        struct door *d = g->x->door;
        struct scan_hit hit;
        enum reason reason;
        bool found = true;
        size_t redacted = SIZE_MAX;

        *clear = buf_len(&g->plain);
        if (!d->tokens)
                scan_pass(&g->scan, *clear);
        while (d->tokens && found) {
                g->scan.set = d->tokens;
                *clear = scan_step(&g->scan, buf_slice(&g->plain), last, &found, &hit);
                if (!found)
                        break;
                p.as_it_is = text && hit.at != redacted && hit.n <= SCAN_KEEP_BYTES_MAX;
                switch (tripwire_stream(g->x, &p, &hit, &reason)) {
                case HIT_PASS:
                        scan_pass(&g->scan, hit.at + hit.n);
                        break;
                case HIT_REDACT:
                        redacted = hit.at;
                        redact(g, &hit);
                        scan_again(&g->scan, hit.at);
                        break;
                case HIT_REFUSE:
                        refuse(g, reason, &hit);
                        return -1;
                }
        }
        return text ? 0 : look_packed(g, last, clear);
}

static int look_at_control(struct ws_guard *g)
{
        struct stream_place p = { "websocket", SLOT_COUNT, false };
        struct scan_hit hit;
        enum reason reason;

        if (!g->x->door->tokens || !scan_text(g->x->door->tokens, slice_of(g->control, g->control_n), &hit))
                return 0;
        (void)tripwire_stream(g->x, &p, &hit, &reason);
        refuse(g, reason, &hit);
        return -1;
}

/* --- giving on --- */

static int give(struct ws_guard *g, size_t clear, struct buf *out)
{
        size_t gone = 0;

        while (buf_len(&g->parts)) {
                struct part p = part_at(g, 0);
                size_t n = p.kind != PART_PAYLOAD ? p.n : p.n < clear - gone ? p.n : clear - gone;

                if ((p.kind == PART_CONTROL && p.open) || (!n && p.n))
                        break;
                if (buf_add_slice(out, slice_first(buf_slice(&g->raw), n)) < 0)
                        return -1;
                buf_consume(&g->raw, n);
                gone += p.kind == PART_PAYLOAD ? n : 0;
                if (n < p.n) {
                        p.n -= (uint32_t)n;
                        memcpy(g->parts.bytes + g->parts.start, &p, sizeof(p));
                        break;
                }
                buf_consume(&g->parts, sizeof(p));
        }
        buf_consume(&g->plain, gone);
        g->guessed -= gone < g->guessed ? gone : g->guessed;
        scan_drop(&g->scan, gone);
        return 0;
}

/* --- frames --- */

static bool is_control(const struct ws_reader *r) { return r->frame.opcode >= WS_CLOSE; }

static int got_frame(struct ws_guard *g, const struct ws_reader *r)
{
        if (is_control(r))
                g->control_n = 0;
        else if (r->frame.opcode != WS_CONTINUATION) {
                scan_begin(&g->scan, g->x->door->tokens);
                guess_end(&g->guess);
                guess_begin(&g->guess, g->x->door, false);
        }
        return add(g, is_control(r) ? PART_CONTROL : PART_HEAD, r->frame.head);
}

static int got_payload(struct ws_guard *g, const struct ws_reader *r, struct slice s)
{
        uint8_t *at;

        if (is_control(r)) {
                MUST(s.n <= sizeof(g->control) - g->control_n);
                ws_mask(g->control + g->control_n, s, r->frame.key, r->offset);
                g->control_n += s.n;
                return add(g, PART_CONTROL, s);
        }
        at = buf_reserve(&g->plain, s.n);
        if (!at)
                return -1;
        ws_mask(at, s, r->frame.key, r->offset);
        buf_commit(&g->plain, s.n);
        return add(g, PART_PAYLOAD, s);
}

static int frame_end(struct ws_guard *g, const struct ws_reader *r, struct buf *out)
{
        size_t clear;

        if (is_control(r)) {
                last_part(g)->open = false;
                return look_at_control(g);
        }
        if (!r->frame.fin)
                return 0;
        return look(g, r->message == WS_TEXT, true, &clear) < 0 ? -1 : give(g, clear, out);
}

static int guarded(struct ws_guard *g, struct ws_reader *r, struct slice in, struct buf *out)
{
        struct slice payload;
        size_t clear;
        int rc = 0;

        while (rc == 0) {
                switch (ws_read(r, &in, &payload, &g->x->found)) {
                case WS_MORE:
                        return look(g, r->message == WS_TEXT, false, &clear) < 0 ? -1 : give(g, clear, out);
                case WS_FRAME:
                        rc = got_frame(g, r);
                        break;
                case WS_PAYLOAD:
                        rc = got_payload(g, r, payload);
                        break;
                case WS_FRAME_END:
                        rc = frame_end(g, r, out);
                        break;
                case WS_BAD:
                        return -1;
                }
        }
        return rc;
}

int ws_up(struct exchange *x, struct ws_reader *r, struct slice in, struct buf *out)
{
        return x->guard ? guarded(x->guard, r, in, out) : ws_pass(r, in, out, &x->found);
}
