/* Exchange: see exchange.h. */
#include "inner/exchange.h"
#include "base/clock.h"
#include "inner/events.h"
#include "inner/link.h"

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
        TAILQ_INSERT_TAIL(&d->exchanges, x, list);
        d->exchange_count++;
        return x;
}

int exchange_start(struct exchange *x)
{
        return link_start(x->door->link, x);
}

bool exchange_has_room(const struct exchange *x)
{
        return buf_len(&x->up) < (x->door->held_bytes < HELD_BYTES ? UP_HIGH_BYTES : UP_LEAN_BYTES);
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
        if (x->door->held_bytes + s.n > HELD_MAX_BYTES) {
                exchange_cut(x, REASON_LIMIT, SLICE_EMPTY);
                return -1;
        }
        if (buf_add_slice(&x->up, s) < 0) {
                exchange_cut(x, REASON_LIMIT, SLICE_EMPTY);
                return -1;
        }
        x->door->held_bytes += s.n;
        x->bytes_up += s.n;
        link_more(x->door->link, x);
        return 0;
}

void exchange_send_end(struct exchange *x, struct headers *trailers)
{
        if (x->state == EXCHANGE_ENDED || x->up_ended)
                return;
        x->up_ended = true;
        x->up_trailers = trailers;
        link_more(x->door->link, x);
}

void exchange_link_took(struct exchange *x, size_t n)
{
        if (n)
                buf_consume(&x->up, n);
        x->door->held_bytes -= n;
        x->leg->room(x, n);
}

void exchange_passed(struct exchange *x, size_t n)
{
        n = n < x->owed ? n : x->owed;
        x->owed -= n;
        link_passed(x->door->link, x, n);
}

void exchange_link_head(struct exchange *x, const struct response *r)
{
        if (!response_is_interim(r)) {
                x->state = EXCHANGE_ANSWERED;
                x->status = r->status;
                x->head_us = clock_mono_us();
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
        x->leg->cut(x, reason, detail);
        exchange_end(x);
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
        link_drop(d->link, x);
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
                arena_fini(&x->arena);
                buf_fini(&x->up);
                free(x);
        }
}
