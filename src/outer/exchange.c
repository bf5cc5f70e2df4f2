/* Exchanges: see exchange.h. */
#include "outer/exchange.h"

#include "base/esc.h"
#include "base/log.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/pool.h"
#include "outer/relay.h"
#include "outer/ruleset.h"
#include <stdarg.h>
#include <stdio.h>

void exchange_attach(struct exchange *ex, const struct upstream_ops *ops, void *upstream)
{
        ex->ops = ops;
        ex->upstream = upstream;
}

void exchange_detach(struct exchange *ex)
{
        ex->ops = NULL;
        ex->upstream = NULL;
}

void exchange_abort(struct exchange *ex)
{
        if (ex->ops)
                ex->ops->abort(ex);
        exchange_detach(ex);
        ex->state = EXCHANGE_DONE;
}

bool exchange_is_replayable(const struct exchange *ex)
{
        return ex->state < EXCHANGE_ANSWERED && !ex->up_started && ex->interim == 0 && ex->retries < POOL_RETRIES_MAX;
}

/* Drops what the guest still sends: it is charged to the link's windows. */
static void drop_up(struct exchange *ex)
{
        size_t n = buf_len(&ex->up);

        if (n) {
                buf_clear(&ex->up);
                link_give(ex->outer->link, ex, n);
        }
}

static struct slice arena_text(struct exchange *ex, const char *text)
{
        bool ok = true;
        struct slice s = arena_copy(&ex->arena, slice_str(text), &ok);

        return ok ? s : SLICE_EMPTY;
}

/* Our own answer: status, reason and detail, no body (the inner door writes what the guest reads). */
static void answer_failure(struct exchange *ex, enum reason reason, const char *detail)
{
        struct header fields[8];
        struct headers h = { fields, 0 };
        char number[24];

        snprintf(number, sizeof(number), "%d", reason_http_status(reason));
        fields[h.n++] = (struct header){ SLICE_LIT(":status"), arena_text(ex, number) };
        fields[h.n++] = (struct header){ SLICE_LIT("brome-reason"), slice_str(reason_id(reason)) };
        fields[h.n++] = (struct header){ SLICE_LIT("brome-detail"), arena_text(ex, detail) };
        snprintf(number, sizeof(number), "%d", ex->decision.rule);
        fields[h.n++] = (struct header){ SLICE_LIT("brome-rule"), arena_text(ex, number) };
        if (ex->has_address) {
                char text[ADDR_TEXT_BYTES];
                fields[h.n++] = (struct header){ SLICE_LIT("brome-address"), arena_text(ex, addr_print(text, &ex->address)) };
        }
        ex->down_ended = true;
        if (link_answer(ex->outer->link, ex, &h, true) < 0)
                link_reset(ex->outer->link, ex, reason_link_code(reason));
}

/* brome-detail is printable ASCII: what esc leaves of UTF-8 goes too. */
static void to_ascii(char *s)
{
        for (; *s; s++)
                if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
                        *s = '?';
}

void exchange_fail(struct exchange *ex, enum reason reason, const char *fmt, ...)
{
        char raw[2 * DETAIL_BYTES], detail[DETAIL_BYTES];
        va_list ap;

        if (ex->state == EXCHANGE_DONE)
                return;
        va_start(ap, fmt);
        vsnprintf(raw, sizeof(raw), fmt, ap);
        va_end(ap);
        esc_text(detail, sizeof(detail), slice_str(raw));
        to_ascii(detail);
        log_debug("flow %llu: %s: %s", (unsigned long long)ex->flow, reason_id(reason), detail);
        if (ex->ops)
                ex->ops->abort(ex);
        exchange_detach(ex);
        drop_up(ex);
        if (ex->state < EXCHANGE_ANSWERED) {
                ex->state = EXCHANGE_DONE;
                answer_failure(ex, reason, detail);
        } else
                link_reset(ex->outer->link, ex, reason_link_code(reason));
}

void exchange_judge(const struct exchange *ex, const struct addr *resolved, struct decision *d)
{
        decide(ex->outer->rules->policy, ex->kind, &ex->req, resolved, d);
        /* A limit that comes with the address, or with other rules, holds for what came before it too. */
        if (d->allow && d->max_body >= 0 && ex->up_bytes > (uint64_t)d->max_body) {
                d->allow = false;
                d->reason = REASON_BODY_TOO_LARGE;
        }
}

bool exchange_admit(struct exchange *ex, const struct addr *resolved)
{
        struct outer *o = ex->outer;
        char detail[DETAIL_BYTES];

        exchange_judge(ex, resolved, &ex->decision);
        if (ex->decision.allow)
                return true;
        decide_explain(&ex->decision, &ex->req, resolved, detail, sizeof(detail));
        events_refusal(o->events, ex, resolved, detail);
        exchange_fail(ex, ex->decision.reason, "%s", detail);
        return false;
}

void exchange_start(struct exchange *ex)
{
        struct outer *o = ex->outer;

        if (!o->rules) {
                exchange_fail(ex, REASON_NO_POLICY, "%s", reason_text(REASON_NO_POLICY));
                return;
        }
        if (!events_can_write(o->events)) {
                exchange_fail(ex, REASON_JOURNAL, "%s", reason_text(REASON_JOURNAL));
                return;
        }
        if (!exchange_admit(ex, NULL))
                return;
        ex->state = EXCHANGE_WAITING;
        switch (ex->kind) {
        case KIND_HTTP:
        case KIND_WEBSOCKET:
                pool_open(o->pool, ex);
                break;
        case KIND_TCP:
        case KIND_TLS:
        case KIND_ANY:
                relay_open(o, ex);
                break;
        case KIND_UDP:
        case KIND_ICMP:
                datagram_open(o, ex);
                break;
        case KIND_COUNT:
                break;
        }
}

void exchange_took(struct exchange *ex, size_t n)
{
        if (!n)
                return;
        ex->up_started = true;
        buf_consume(&ex->up, n);
        link_give(ex->outer->link, ex, n);
}

void exchange_interim(struct exchange *ex, const struct response *r)
{
        struct headers h;

        if (ex->state >= EXCHANGE_ANSWERED || ++ex->interim > INTERIM_MAX)
                return;
        if (response_to_h2(&ex->arena, r, &h) == WIRE_OK)
                (void)!link_interim(ex->outer->link, ex, &h);
}

/* The origin's fields, what of them is ours already dropped, and our own behind them. */
static int with_own_fields(struct exchange *ex, const struct headers *h, struct headers *out)
{
        char text[ADDR_TEXT_BYTES];
        struct header *at = arena_alloc_array(&ex->arena, h->n + 2, sizeof(*at));
        const char *address = ex->has_address ? addr_print(text, &ex->address) : "unchecked";

        if (!at)
                return -1;
        memcpy(at, h->at, h->n * sizeof(*at));
        at[h->n] = (struct header){ SLICE_LIT("brome-address"), arena_text(ex, address) };
        snprintf(text, sizeof(text), "%d", ex->decision.rule);
        at[h->n + 1] = (struct header){ SLICE_LIT("brome-rule"), arena_text(ex, text) };
        *out = (struct headers){ at, h->n + 2 };
        return 0;
}

int exchange_answer(struct exchange *ex, const struct response *r, bool end)
{
        struct headers h, full;

        if (ex->state >= EXCHANGE_ANSWERED)
                return -1;
        if (response_to_h2(&ex->arena, r, &h) != WIRE_OK || with_own_fields(ex, &h, &full) < 0) {
                exchange_fail(ex, REASON_UPSTREAM_PROTOCOL, "the answer's head cannot be passed on");
                return -1;
        }
        ex->state = EXCHANGE_ANSWERED;
        ex->down_ended = end;
        if (link_answer(ex->outer->link, ex, &full, end) < 0) {
                exchange_fail(ex, REASON_INTERNAL, "link");
                return -1;
        }
        return 0;
}

int exchange_open(struct exchange *ex)
{
        struct response r = { .status = 200, .body = BODY_CHUNKED, .upgraded = true };

        return exchange_answer(ex, &r, false);
}

int exchange_down(struct exchange *ex, struct slice bytes)
{
        if (buf_add_slice(&ex->down, bytes) < 0) {
                exchange_fail(ex, REASON_LIMIT, "out of memory");
                return -1;
        }
        ex->outer->held_bytes += bytes.n;
        link_wake(ex->outer->link, ex);
        return 0;
}

int exchange_down_all(struct exchange *ex, struct buf *from)
{
        struct buf empty = ex->down;
        size_t n = buf_len(from);

        if (n < EXCHANGE_SWAP_BYTES || buf_len(&ex->down) || ex->down.limit_bytes != from->limit_bytes) {
                int rc = exchange_down(ex, buf_slice(from));

                buf_clear(from);
                return rc;
        }
        ex->down = *from;
        *from = empty;
        ex->outer->held_bytes += n;
        link_wake(ex->outer->link, ex);
        return 0;
}

void exchange_end(struct exchange *ex, const struct headers *trailers)
{
        if (ex->state == EXCHANGE_DONE)
                return;
        if (trailers)
                ex->down_trailers = *trailers;
        ex->down_ended = true;
        exchange_detach(ex);
        ex->state = EXCHANGE_DONE;
        drop_up(ex);
        link_wake(ex->outer->link, ex);
}

void exchange_half_close(struct exchange *ex)
{
        ex->down_ended = true;
        link_wake(ex->outer->link, ex);
}
