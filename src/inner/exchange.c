/* Exchange: see exchange.h. */
#include "inner/exchange.h"
#include "base/clock.h"
#include "inner/events.h"
#include "inner/accounts.h"
#include "inner/hold.h"
#include "inner/link.h"
#include "inner/tripwire.h"
#include "inner/ws.h"

#include <stdlib.h>

struct exchange *exchange_new(struct door *d, enum exchange_kind kind, const struct leg_ops *leg, void *owner)
{
        struct exchange *x;

        if (d->exchange_count >= EXCHANGES_MAX || !(x = calloc(1, sizeof(*x))))
                return NULL;
        *x = (struct exchange){ .door = d, .kind = kind, .leg = leg, .owner = owner, .id = door_id(d), .started_us = clock_mono_us() };
        x->verdict.rule = POLICY_DEFAULT_RULE;
        x->verdict.max_body = -1;
        arena_init(&x->arena, EXCHANGE_ARENA_BYTES);
        buf_init(&x->up, 0);
        buf_init(&x->kept, 0);
        TAILQ_INSERT_TAIL(&d->exchanges, x, list);
        d->exchange_count++;
        return x;
}

/* The way is free: to its door. 0, or -1 with *reason. */
static int go(struct exchange *x, enum reason *reason)
{
        if (x->account)
                return accounts_start(x, reason);
        *reason = REASON_OUTER_GONE;
        return exchange_start_on(x, x->door->link);
}

int exchange_start_on(struct exchange *x, struct link *l)
{
        if (!x->recorded)
                events_request(x, NULL);
        x->stage = STAGE_STARTED;
        x->link = l;
        return link_start(l, x);
}

int exchange_start(struct exchange *x)
{
        enum reason reason;

        if (!x->req)
                x->account = accounts_of(x->door, &x->to, NULL);
        if (!hold_keeps(x))
                return go(x, &reason);
        x->stage = STAGE_HELD;
        if (x->account)
                accounts_want(x->account);
        return 0;
}

void exchange_go(struct exchange *x)
{
        enum reason reason;

        if (x->stage == STAGE_HELD && go(x, &reason) < 0)
                exchange_cut(x, reason, SLICE_EMPTY);
}

bool exchange_has_room(const struct exchange *x)
{
        if (hold_keeps(x))
                return hold_has_room(x);
        return buf_len(&x->up) < (x->door->held_bytes < HELD_BYTES ? UP_HIGH_BYTES : UP_LEAN_BYTES);
}

/* What was looked at, or need not be. */
void exchange_queue(struct exchange *x, struct slice s)
{
        if (x->door->held_bytes + s.n > HELD_MAX_BYTES || buf_add_slice(&x->up, s) < 0) {
                exchange_cut(x, REASON_LIMIT, SLICE_EMPTY);
                return;
        }
        x->door->held_bytes += s.n;
        link_more(x->link, x);
}

int exchange_send(struct exchange *x, struct slice s)
{
        if (x->state == EXCHANGE_ENDED || x->up_ended || !s.n)
                return 0;
        /* Not by subtraction: a change of the rules may have set a limit below what came already. */
        if (x->verdict.max_body >= 0 && x->bytes_up + s.n > (uint64_t)x->verdict.max_body) {
                exchange_cut(x, REASON_BODY_TOO_LARGE, SLICE_EMPTY);
                return -1;
        }
        x->bytes_up += s.n;
        if (x->hold)
                return hold_feed(x, s);
        exchange_queue(x, s);
        return x->state == EXCHANGE_ENDED ? -1 : 0;
}

void exchange_queue_end(struct exchange *x, struct headers *trailers)
{
        x->up_ended = true;
        x->up_trailers = trailers;
        link_more(x->link, x);
}

void exchange_send_end(struct exchange *x, struct headers *trailers)
{
        if (x->state == EXCHANGE_ENDED || x->up_ended)
                return;
        if (x->drop_trailers)
                trailers = NULL;
        if (x->hold)
                (void)hold_end(x, trailers);
        else
                exchange_queue_end(x, trailers);
}

/* --- again --- */

/* The door took it, or too much went up. */
static void forget_kept(struct exchange *x)
{
        x->keep_up = false;
        x->door->held_bytes -= buf_len(&x->kept);
        buf_fini(&x->kept);
}

static void keep(struct exchange *x, struct slice s)
{
        if (!s.n)
                return;
        if (x->keep_up && x->door->held_bytes < HELD_BYTES && buf_len(&x->kept) + s.n <= HOLD_BYTES && buf_add_slice(&x->kept, s) == 0) {
                x->door->held_bytes += s.n;
                return;
        }
        x->up_gone = true;
        forget_kept(x);
}

bool exchange_again(struct exchange *x)
{
        enum reason reason;
        size_t n = buf_len(&x->kept);
        struct buf up;

        if (x->state != EXCHANGE_OPEN || x->tried || x->up_gone || buf_add_slice(&x->kept, buf_slice(&x->up)) < 0)
                return false;
        up = x->up;
        x->up = x->kept;
        x->kept = up;
        buf_clear(&x->kept);
        x->prepaid += n; /* the leg got its room when they went up */
        x->tried = true;
        x->keep_up = x->up_sent_end = false;
        x->stream = 0;
        x->link = NULL;
        return accounts_start(x, &reason) == 0;
}

void exchange_link_took(struct exchange *x, size_t n)
{
        size_t early;

        if (n) {
                keep(x, slice_first(buf_slice(&x->up), n));
                buf_consume(&x->up, n);
        }
        x->door->held_bytes -= n;
        early = n < x->prepaid ? n : x->prepaid;
        x->prepaid -= early;
        hold_taken(x);
        x->leg->room(x, n - early);
}

void exchange_passed(struct exchange *x, size_t n)
{
        n = n < x->owed ? n : x->owed;
        x->owed -= n;
        link_passed(x->link, x, n);
}

void exchange_link_head(struct exchange *x, const struct response *r)
{
        /* SECURITY: the guest offered an extension that was struck out; it must not come to believe in it. */
        if (r->upgraded && x->plain_frames && headers_find(&r->headers, "sec-websocket-extensions")) {
                exchange_cut(x, REASON_UPSTREAM_PROTOCOL, SLICE_LIT("a WebSocket extension that was not offered"));
                return;
        }
        if (!response_is_interim(r)) {
                x->state = EXCHANGE_ANSWERED;
                x->status = r->status;
                x->head_us = clock_mono_us();
                forget_kept(x);
        }
        x->leg->head(x, r);
}

void exchange_link_data(struct exchange *x, struct slice s)
{
        x->owed += s.n;
        x->bytes_down += s.n;
        x->leg->data(x, s);
}

void exchange_link_end(struct exchange *x, const struct headers *trailers)
{
        x->down_ended = true;
        x->leg->end(x, trailers);
}

void exchange_link_reset(struct exchange *x, enum reason reason, struct slice detail)
{
        if (x->state == EXCHANGE_ENDED)
                return;
        exchange_cut(x, reason, detail);
}

void exchange_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        bool ok = true;

        if (x->state == EXCHANGE_ENDED)
                return;
        x->reason = reason;
        x->detail = arena_copy(&x->arena, slice_first(detail, EXCHANGE_DETAIL_BYTES), &ok);
        if (!x->engine)
                x->engine = tripwire_engine(reason);
        if (!x->recorded && x->stage != STAGE_NEW && reason != REASON_NONE) { /* it was held, and never got its verdict */
                struct refusal r = refusal_of(reason);
                events_request(x, &r);
        }
        x->leg->cut(x, reason, detail);
        exchange_end(x);
}

void exchange_refuse(struct exchange *x, const char *engine, enum reason reason, struct slice detail)
{
        x->engine = engine;
        if (x->recorded)
                events_account(x, x->whose ? x->whose : x->account, &reason, reason_id(reason), detail);
        exchange_cut(x, reason, detail);
}

void exchange_end(struct exchange *x)
{
        struct door *d = x->door;

        if (x->state == EXCHANGE_ENDED)
                return;
        x->state = EXCHANGE_ENDED;
        events_end(x);
        if (x->owed)
                exchange_passed(x, x->owed);
        accounts_forget(x);
        link_drop(x->link, x);
        hold_stop(x);
        forget_kept(x);
        d->held_bytes -= buf_len(&x->up);
        buf_fini(&x->up);
        TAILQ_REMOVE(&d->exchanges, x, list);
        d->exchange_count--;
        TAILQ_INSERT_TAIL(&d->dead_exchanges, x, list);
}

void exchange_free_dead(struct door *d)
{
        struct exchange *x;

        while ((x = TAILQ_FIRST(&d->dead_exchanges))) {
                TAILQ_REMOVE(&d->dead_exchanges, x, list);
                hold_free(x->hold);
                ws_guard_free(x->guard);
                arena_fini(&x->arena);
                buf_fini(&x->up);
                buf_fini(&x->kept);
                free(x);
        }
}
