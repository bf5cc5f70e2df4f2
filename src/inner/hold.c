/* The hold: see hold.h. SECURITY: nothing but give() moves a byte from here to the link, and it moves only what both readers, of the bytes and of what they decode
 * to, call clear; of a git body only what was written anew from that. */
#include "inner/hold.h"
#include "base/clock.h"
#include "inner/decode.h"
#include "inner/events.h"
#include "inner/guess.h"
#include "inner/tripwire.h"
#include "rules/profile.h"

#include <stdio.h>
#include <stdlib.h>

struct hold {
        TAILQ_ENTRY(hold) queue;
        struct exchange *x;
        bool waiting, released, ended;
        bool stream;        /* a spliced flow: no request, no end of a body */
        size_t reserved;    /* of HOLDS_BYTES */
        size_t decoding;    /* of DECODE_BYTES */
        struct buf bytes;   /* not given on */
        struct scan scan;
        size_t read;        /* bytes at the front that git or the decoder have read */
        struct decode *decode; /* NULL: the bytes are what they say */
        struct guess guess;    /* of a body that does not say that it is coded */
        bool guesses;
        struct git_body *git;  /* NULL: no body of git's */
        struct buf plain;      /* what goes on instead of what git read of it */
        struct headers *trailers;
        int64_t touched_ms; /* the last byte came */
};

/* --- refusing --- */

static int refuse(struct exchange *x, enum reason reason, const char *detail)
{
        exchange_refuse(x, tripwire_engine(reason), reason, slice_str(detail));
        return -1;
}

static int refuse_hit(struct exchange *x, enum reason reason, const char *field, const struct scan_hit *hit)
{
        char text[64];

        snprintf(text, sizeof(text), "%s (%s)", field, scan_view_name(hit->view));
        return refuse(x, reason, text);
}

/* --- looking --- */

static struct stream_place place_of(const struct hold *h)
{
        if (h->stream)
                return (struct stream_place){ "tcp", SLOT_COUNT, false };
        return (struct stream_place){ "body", SLOT_BODY, !h->decode };
}

/* Looks at `held` until nothing more is found. *clear bytes of it may go on. 0, or -1: refused. `bytes` is the same, to be overwritten; NULL: it cannot be. */
static int look(struct exchange *x, struct scan *scan, const struct stream_place *place, uint8_t *bytes, struct slice held, bool last, size_t *clear)
{
        struct stream_place p = *place;
        struct scan_hit hit;
        enum reason reason;
        bool found = true;
        size_t redacted = SIZE_MAX;

        *clear = held.n;
        if (!x->door->tokens)
                scan_pass(scan, held.n);
        while (x->door->tokens && found) {
                scan->set = x->door->tokens; /* it grows while streams run */
                *clear = scan_step(scan, held, last, &found, &hit);
                if (!found)
                        break;
                p.as_it_is = place->as_it_is && bytes && hit.at != redacted;
                switch (tripwire_stream(x, &p, &hit, &reason)) {
                case HIT_PASS:
                        scan_pass(scan, hit.at + hit.n);
                        break;
                case HIT_REDACT:
                        redacted = hit.at;
                        tripwire_redact(bytes + hit.at, hit.n);
                        scan_again(scan, hit.at);
                        break;
                case HIT_REFUSE:
                        return refuse_hit(x, reason, p.field, &hit);
                }
        }
        return 0;
}

/* Clear text of a git body is written anew. What it grows to when it is unpacked is held as well. */
static int read_git(struct exchange *x, struct slice s)
{
        struct hold *h = x->hold;
        size_t had = buf_len(&h->plain);
        bool ok = !h->git || git_body_feed(h->git, s, &h->plain);

        x->door->hold_bytes += buf_len(&h->plain) - had;
        if (!ok)
                return refuse(x, h->plain.failed ? REASON_LIMIT : REASON_PROFILE, h->git->problem ? h->git->problem : "not what git fetch sends");
        return x->door->hold_bytes <= HELD_MAX_BYTES ? 0 : refuse(x, REASON_LIMIT, "too much is held");
}

/* Decoded text, a block at a time. */
static int got_text(void *ctx, struct slice s)
{
        struct exchange *x = ctx;
        struct decode *dec = x->hold->decode;
        struct stream_place place = place_of(x->hold);
        size_t clear;

        if (!x->door->tokens)
                return read_git(x, s);
        if (buf_add_slice(&dec->text, s) < 0)
                return refuse(x, REASON_LIMIT, "the decoded body does not fit");
        if (look(x, &dec->scan, &place, NULL, buf_slice(&dec->text), false, &clear) < 0 || read_git(x, slice_first(buf_slice(&dec->text), clear)) < 0)
                return -1;
        buf_consume(&dec->text, clear);
        scan_drop(&dec->scan, clear);
        return 0;
}

static int look_decoded(struct exchange *x, size_t *clear)
{
        struct hold *h = x->hold;
        struct decode *dec = h->decode;
        struct stream_place place = place_of(h);
        size_t left;

        switch (decode_feed(dec, slice_skip(buf_slice(&h->bytes), h->read), h->ended, got_text, x)) {
        case DECODE_OK:
                break;
        case DECODE_STOPPED: /* refused */
                return -1;
        case DECODE_BAD:
                return refuse(x, REASON_CODING_UNKNOWN, decode_problem(dec));
        }
        h->read = buf_len(&h->bytes);
        if (h->ended && (look(x, &dec->scan, &place, NULL, buf_slice(&dec->text), true, &left) < 0 || read_git(x, buf_slice(&dec->text)) < 0))
                return -1;
        left = h->ended ? buf_len(&h->bytes) : buf_len(&h->bytes) - (dec->pending < buf_len(&h->bytes) ? dec->pending : buf_len(&h->bytes));
        if (left < *clear)
                *clear = left;
        return 0;
}

static int look_at_guessed(void *ctx, struct decode *dec, bool last)
{
        struct exchange *x = ctx;
        static const struct stream_place place = { "body", SLOT_BODY, false };
        size_t clear;

        if (!x->door->tokens)
                return 0;
        if (look(x, &dec->scan, &place, NULL, buf_slice(&dec->text), last, &clear) < 0)
                return -1;
        buf_consume(&dec->text, clear);
        scan_drop(&dec->scan, clear);
        return 0;
}

static int guess_on(struct exchange *x, size_t *clear)
{
        struct hold *h = x->hold;
        size_t n = buf_len(&h->bytes), pending;

        if (guess_feed(&h->guess, slice_skip(buf_slice(&h->bytes), h->read), h->ended, look_at_guessed, x) < 0)
                return -1;
        pending = guess_pending(&h->guess);
        if (n - (pending < n ? pending : n) < *clear)
                *clear = n - (pending < n ? pending : n);
        return 0;
}

/* How many bytes from the front may go on. 0, or -1: refused. */
static int look_at_all(struct exchange *x, size_t *clear)
{
        struct hold *h = x->hold;
        struct stream_place place = place_of(h);

        if (look(x, &h->scan, &place, h->bytes.bytes ? h->bytes.bytes + h->bytes.start : NULL, buf_slice(&h->bytes), h->ended, clear) < 0)
                return -1;
        if (h->decode)
                return look_decoded(x, clear);
        if (h->git) {
                if (read_git(x, slice_skip(slice_first(buf_slice(&h->bytes), *clear), h->read)) < 0)
                        return -1;
                h->read = *clear > h->read ? *clear : h->read;
                return 0;
        }
        if (h->guesses && guess_on(x, clear) < 0)
                return -1;
        h->read = buf_len(&h->bytes);
        return 0;
}

/* The whole body was looked at: the rest of what has to hold. */
static int look_at_end(struct exchange *x)
{
        struct hold *h = x->hold;
        enum reason reason = tripwire_trailers(x, h->trailers);

        if (reason != REASON_NONE)
                return refuse(x, reason, "trailer");
        if (h->git && !git_body_end(h->git))
                return refuse(x, REASON_PROFILE, h->git->problem ? h->git->problem : "the body ends too early");
        return 0;
}

/* --- giving on --- */

/* A git body goes on as it was read, in another length than it came: n bytes. The leg's room is for those that came: of what grew none is given for the rest,
 * of what shrank it is given here. What is left of that for the caller to give. */
static size_t give_git(struct exchange *x, size_t n)
{
        struct hold *h = x->hold;
        struct buf plain = h->plain; /* exchange_queue may end all of it */
        size_t made = buf_len(&plain), less = n > made ? n - made : 0, paid = less < x->prepaid ? less : x->prepaid;

        buf_init(&h->plain, GIT_PLAIN_BYTES);
        buf_consume(&h->bytes, n);
        x->door->hold_bytes -= made;
        x->prepaid -= paid;
        x->prepaid += made > n ? made - n : 0;
        exchange_queue(x, buf_slice(&plain));
        buf_fini(&plain);
        return less - paid;
}

/* Room that the leg is still owed, to be given last: the guest's next bytes may be read in it. */
static size_t give(struct exchange *x, size_t n)
{
        struct hold *h = x->hold;

        h->read -= n < h->read ? n : h->read;
        scan_drop(&h->scan, n);
        x->door->hold_bytes -= n;
        if (h->git)
                return give_git(x, n);
        if (n && n == buf_len(&h->bytes) && !buf_len(&x->up)) { /* as a whole: not copied */
                struct buf all = h->bytes;
                h->bytes = x->up;
                x->up = all;
                x->door->held_bytes += n;
                exchange_queue(x, SLICE_EMPTY);
        } else if (n) {
                struct buf all = h->bytes; /* likewise */
                buf_init(&h->bytes, 0);
                exchange_queue(x, slice_first(buf_slice(&all), n));
                buf_consume(&all, n);
                if (x->state == EXCHANGE_ENDED) {
                        x->door->hold_bytes -= buf_len(&all);
                        buf_fini(&all);
                } else {
                        h->bytes = all;
                }
        }
        return 0;
}

/* Its windows can be large, and the answer may be long in coming. */
static void stop_decoding(struct hold *h)
{
        h->x->door->decode_bytes -= h->decoding;
        h->decoding = 0;
        decode_free(h->decode);
        h->decode = NULL;
        guess_end(&h->guess);
}

static void unreserve(struct hold *h)
{
        h->x->door->hold_reserved -= h->reserved;
        h->reserved = 0;
}

static int step(struct exchange *x)
{
        struct hold *h = x->hold;
        size_t clear, owed;

        if (look_at_all(x, &clear) < 0 || (h->ended && look_at_end(x) < 0))
                return -1;
        if (!h->released && !h->ended && clear < HOLD_BYTES) {
                if (buf_len(&h->bytes) > HOLD_BYTES + HOLD_SLACK_BYTES)
                        return refuse(x, REASON_LIMIT, "the body could not be decided");
                return 0;
        }
        if (buf_len(&h->bytes) - clear > HOLD_BYTES + HOLD_SLACK_BYTES)
                return refuse(x, REASON_LIMIT, "the body could not be decided");
        if (!h->released) {
                h->released = true;
                exchange_go(x);
                if (x->state == EXCHANGE_ENDED)
                        return -1;
        }
        owed = give(x, clear);
        if (x->state == EXCHANGE_ENDED)
                return -1;
        if (h->ended)
                stop_decoding(h);
        if (h->ended)
                exchange_queue_end(x, h->trailers);
        if (x->state != EXCHANGE_ENDED && !x->prepaid)
                unreserve(h);
        if (x->state != EXCHANGE_ENDED && owed && !h->ended)
                x->leg->room(x, owed);
        return x->state == EXCHANGE_ENDED ? -1 : 0;
}

/* --- taking --- */

static void pay(struct exchange *x, size_t n)
{
        x->prepaid += n;
        x->leg->room(x, n);
}

/* Of a length that was said, at once: grown by doubling, a body is copied once more. It was counted when the hold began. */
static void make_room(struct hold *h)
{
        if (h->reserved && !h->bytes.cap && h->x->req->body == BODY_LENGTH)
                (void)buf_reserve(&h->bytes, h->reserved);
}

int hold_feed(struct exchange *x, struct slice s)
{
        struct hold *h = x->hold;

        if (h->ended)
                return 0;
        make_room(h);
        if (x->door->hold_bytes + s.n > HELD_MAX_BYTES || buf_add_slice(&h->bytes, s) < 0)
                return refuse(x, REASON_LIMIT, "too much is held");
        x->door->hold_bytes += s.n;
        h->touched_ms = clock_mono_ms();
        if (h->waiting)
                return 0;
        if (!h->released) {
                pay(x, s.n);
                if (x->state == EXCHANGE_ENDED)
                        return -1;
        }
        return step(x);
}

int hold_end(struct exchange *x, struct headers *trailers)
{
        struct hold *h = x->hold;

        if (h->ended)
                return 0;
        h->ended = true;
        h->trailers = trailers;
        return h->waiting ? 0 : step(x);
}

bool hold_keeps(const struct exchange *x) { return x->hold && !x->hold->released; }

/* While it is held the bound is HOLD_BYTES and what step() adds to it. */
bool hold_has_room(const struct exchange *x) { return !x->hold->waiting; }

void hold_taken(struct exchange *x)
{
        if (x->hold && x->hold->released && !x->prepaid)
                unreserve(x->hold);
}

/* --- beginning --- */

static struct hold *hold_new(struct exchange *x)
{
        struct hold *h = calloc(1, sizeof(*h));

        if (!h)
                return NULL;
        h->x = x;
        h->touched_ms = clock_mono_ms();
        buf_init(&h->bytes, 0);
        buf_init(&h->plain, GIT_PLAIN_BYTES);
        scan_begin(&h->scan, x->door->tokens);
        x->hold = h;
        return h;
}

static size_t room_wanted(const struct hold *h)
{
        const struct request *r = h->x->req;

        return h->released ? 0 : r->body == BODY_LENGTH && r->length < HOLD_BYTES ? (size_t)r->length : HOLD_BYTES;
}

static bool admit(struct hold *h)
{
        struct door *d = h->x->door;
        size_t bytes = room_wanted(h), decoding = h->decode ? h->decode->cost : 0;

        if (d->hold_reserved + bytes > HOLDS_BYTES || d->decode_bytes + decoding > DECODE_BYTES)
                return false;
        d->hold_reserved += bytes;
        d->decode_bytes += decoding;
        h->reserved = bytes;
        h->decoding = decoding;
        h->waiting = false;
        return true;
}

/* Both sides speak at once: held, they would wait for each other. */
static bool is_duplex(const struct exchange *x)
{
        struct slice type = headers_value(&x->req->headers, "content-type"), grpc = SLICE_LIT("application/grpc");

        return x->verdict.stream_ok || (slice_starts(type, grpc) && (type.n == grpc.n || strchr("+; -", type.p[grpc.n]))); /* -web is not, but its bodies are short */
}

/* The body's codings, of all fields. Their number, or -1. */
static int codings_of(const struct request *r, enum coding list[CODINGS_MAX])
{
        int n = 0;

        for (size_t i = 0; i < r->headers.n; i++) {
                enum coding some[CODINGS_MAX];
                int more = slice_is(r->headers.at[i].name, "content-encoding") ? codings_parse(r->headers.at[i].value, some) : 0;

                if (more < 0 || n + more > CODINGS_MAX)
                        return -1;
                for (int k = 0; k < more; k++)
                        list[n++] = some[k];
        }
        return n;
}

static bool is_multipart(const struct request *r)
{
        struct slice type = headers_value(&r->headers, "content-type");

        return slice_iis(slice_first(type, 10), "multipart/");
}

/* It goes on decoded. */
static void strike_coding(struct request *r)
{
        size_t n = 0;

        for (size_t i = 0; i < r->headers.n; i++)
                if (!slice_is(r->headers.at[i].name, "content-encoding"))
                        r->headers.at[n++] = r->headers.at[i];
        r->headers.n = n;
}

static bool with_readers(struct hold *h, const enum coding *list, int n)
{
        if (n && !(h->decode = decode_new(list, (size_t)n, h->x->door->tokens)))
                return false;
        h->guesses = !n && h->x->verdict.profile != PROFILE_GIT;
        guess_begin(&h->guess, h->x->door, is_multipart(h->x->req));
        if (h->x->verdict.profile == PROFILE_GIT) {
                h->git = malloc(sizeof(*h->git));
                if (!h->git)
                        return false;
                git_body_begin(h->git, NULL, NULL);
                strike_coding(h->x->req);
        }
        return true;
}

enum reason hold_begin(struct exchange *x)
{
        struct door *d = x->door;
        enum coding list[CODINGS_MAX];
        struct hold *h;
        int n;

        if (x->req->body == BODY_NONE || (!d->tokens && x->verdict.profile != PROFILE_GIT))
                return REASON_NONE;
        n = codings_of(x->req, list);
        if (n < 0)
                return REASON_CODING_UNKNOWN;
        h = hold_new(x);
        if (!h || !with_readers(h, list, n))
                return REASON_LIMIT;
        h->released = !d->tokens || is_duplex(x);
        if ((h->released || TAILQ_EMPTY(&d->hold_queue)) && admit(h))
                return REASON_NONE;
        if (h->released) /* a stream that must not wait, and there is no room for its decoder */
                return REASON_LIMIT;
        h->waiting = true;
        TAILQ_INSERT_TAIL(&d->hold_queue, h, queue);
        return REASON_NONE;
}

int hold_begin_stream(struct exchange *x)
{
        struct hold *h = x->door->tokens ? hold_new(x) : NULL;

        if (!h)
                return x->door->tokens ? -1 : 0;
        h->stream = h->released = true;
        return 0;
}

/* --- life --- */

void hold_stop(struct exchange *x)
{
        struct hold *h = x->hold;

        if (!h)
                return;
        unreserve(h);
        x->door->decode_bytes -= h->decoding; /* the decoder itself may be at work up the stack */
        h->decoding = 0;
        guess_stop(&h->guess);
        h->guesses = false;
        if (h->waiting)
                TAILQ_REMOVE(&x->door->hold_queue, h, queue);
        h->waiting = false;
        h->ended = true;
        x->door->hold_bytes -= buf_len(&h->bytes) + buf_len(&h->plain);
        buf_fini(&h->bytes);
        buf_fini(&h->plain);
}

bool hold_rewrites(const struct exchange *x) { return x->hold && x->hold->git; }

void hold_free(struct hold *h)
{
        if (!h)
                return;
        decode_free(h->decode);
        decode_free(h->guess.decode);
        free(h->git);
        free(h);
}

void hold_turn(struct door *d)
{
        struct hold *h;

        while ((h = TAILQ_FIRST(&d->hold_queue)) && admit(h)) {
                struct exchange *x = h->x;
                size_t n = buf_len(&h->bytes);

                TAILQ_REMOVE(&d->hold_queue, h, queue);
                h->touched_ms = clock_mono_ms();
                if ((n || h->ended) && step(x) < 0)
                        continue;
                pay(x, n); /* last: the guest's next bytes may be read in it */
        }
}

/* A body of known length may come as slowly as it likes; one of unknown length that stands still may wait for an answer. */
static bool stalled(const struct exchange *x, int64_t now_ms)
{
        const struct hold *h = x->hold;

        return h && !h->released && !h->waiting && !h->ended && x->req->body == BODY_CHUNKED && now_ms - h->touched_ms >= HOLD_STALL_MS;
}

void hold_tick(struct door *d, int64_t now_ms)
{
        struct exchange *x, *next;

        for (x = TAILQ_FIRST(&d->exchanges); x; x = next) {
                next = TAILQ_NEXT(x, list);
                if (!stalled(x, now_ms))
                        continue;
                (void)refuse(x, REASON_BODY_STALLED, "");
                next = next && next->state == EXCHANGE_ENDED ? TAILQ_FIRST(&d->exchanges) : next;
        }
}
