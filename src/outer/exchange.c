/* Exchanges: see exchange.h. */
#include "outer/exchange.h"

#include "base/clock.h"
#include "base/esc.h"
#include "base/log.h"
#include "outer/account.h"
#include "outer/answer.h"
#include "outer/consent.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/outgoing.h"
#include "outer/pool.h"
#include "outer/reading.h"
#include "outer/relay.h"
#include "outer/ruleset.h"
#include "outer/swapping.h"
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
        if (ex->retries >= POOL_RETRIES_MAX || ex->refusals >= POOL_REFUSALS_MAX || clock_mono_ms() - ex->pooled_ms >= POOL_AGAIN_MS)
                return false;
        return ex->state < EXCHANGE_ANSWERED && !ex->up_lost && ex->interim == 0;
}

/* What is not in the queue any more is charged to the link's windows no longer. The queue may hold more than came, or less: a secret is put in. */
static void settle_up(struct exchange *ex)
{
        size_t n = buf_len(&ex->up), give = ex->up_charged > n ? ex->up_charged - n : 0;

        ex->up_charged -= give;
        if (give)
                link_give(ex->outer->link, ex, give);
}

/* Drops what the guest still sends. */
static void drop_up(struct exchange *ex)
{
        buf_clear(&ex->up);
        settle_up(ex);
}

/* --- what the upstream took --- */

static void forget_taken(struct exchange *ex)
{
        ex->outer->replay_bytes -= buf_len(&ex->up_taken);
        ex->up_lost = ex->up_lost || buf_len(&ex->up_taken);
        buf_fini(&ex->up_taken);
}

/* A copy of a short body stays until the answer begins. */
static void keep_taken(struct exchange *ex, struct slice bytes)
{
        bool room = buf_len(&ex->up_taken) + bytes.n <= REPLAY_BYTES && ex->outer->replay_bytes + bytes.n <= REPLAY_ALL_BYTES;
        bool keep = room && !ex->up_lost && ex->kind == KIND_HTTP && ex->state < EXCHANGE_ANSWERED;

        ex->up_taken.wipe = ex->up.wipe; /* SECURITY: the secret may stand in it */
        if (keep && buf_add_slice(&ex->up_taken, bytes) == 0) {
                ex->outer->replay_bytes += bytes.n;
                return;
        }
        ex->up_lost = true;
        forget_taken(ex);
}

int exchange_rewind(struct exchange *ex)
{
        struct buf all;

        if (!buf_len(&ex->up_taken))
                return 0;
        buf_init(&all, ex->up.limit_bytes);
        all.wipe = ex->up.wipe;
        if (buf_add_slice(&all, buf_slice(&ex->up_taken)) < 0 || buf_add_slice(&all, buf_slice(&ex->up)) < 0) {
                buf_fini(&all);
                return -1;
        }
        buf_fini(&ex->up);
        ex->up = all;
        ex->outer->replay_bytes -= buf_len(&ex->up_taken);
        buf_fini(&ex->up_taken);
        return 0;
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
        bool later = reason == REASON_CONSENT_EXPIRED || reason == REASON_CONSENT_NOBODY;
        struct headers h = { fields, 0 };
        char number[24];

        snprintf(number, sizeof(number), "%d", reason_http_status(reason));
        fields[h.n++] = (struct header){ SLICE_LIT(":status"), arena_text(ex, number) };
        fields[h.n++] = (struct header){ SLICE_LIT("brome-reason"), slice_str(reason_id(reason)) };
        fields[h.n++] = (struct header){ SLICE_LIT("brome-detail"), arena_text(ex, detail) };
        snprintf(number, sizeof(number), "%d", ex->decision.rule);
        fields[h.n++] = (struct header){ SLICE_LIT("brome-rule"), arena_text(ex, number) };
        snprintf(number, sizeof(number), "%d", CONSENT_RETRY_S);
        if (later)
                fields[h.n++] = (struct header){ SLICE_LIT("retry-after"), arena_text(ex, number) };
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
        reading_fail(ex, reason);
        drop_up(ex);
        if (ex->state < EXCHANGE_ANSWERED) {
                ex->state = EXCHANGE_DONE;
                answer_failure(ex, reason, detail);
        } else
                link_reset(ex->outer->link, ex, reason_link_code(reason));
}

void exchange_judge(const struct exchange *ex, const struct addr *resolved, struct decision *d)
{
        const struct account *account = ex->outer->account;
        struct decide_self self = { .account = SLICE_EMPTY };

        if (account) {
                self.account = account_name(account);
                self.minted = account_minted_in(account, &ex->req);
        }
        decide(ex->outer->rules->policy, &self, ex->kind, &ex->req, resolved, d);
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
        /* SECURITY: on its way it stays where it was sent, and what was not agreed to goes nowhere. */
        if (ex->decision.allow && ex->state != EXCHANGE_HEAD && !exchange_fits(ex, &ex->decision)) {
                ex->decision.allow = false;
                ex->decision.reason = REASON_POLICY_CHANGED;
        }
        if (ex->decision.allow)
                return true;
        decide_explain(&ex->decision, &ex->req, resolved, detail, sizeof(detail));
        events_refusal(o->events, ex, resolved, detail);
        exchange_fail(ex, ex->decision.reason, "%s", detail);
        return false;
}

/* Refused by what is known here besides the policy. */
static void refuse_reading(struct exchange *ex, enum reason reason)
{
        const char *problem = reading_problem(ex), *why = problem ? problem : reason_text(reason);

        ex->decision.reason = reason;
        events_refusal(ex->outer->events, ex, ex->has_address ? &ex->address : NULL, why);
        exchange_fail(ex, reason, "%s", why);
}

void exchange_start(struct exchange *ex)
{
        struct outer *o = ex->outer;
        enum reason reason;

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
        ex->state = EXCHANGE_HELD;
        reason = outgoing_aim(ex) < 0 || swapping_begin(ex) < 0 ? REASON_LIMIT : reading_begin(ex);
        if (reason == REASON_LIMIT)
                exchange_fail(ex, reason, "out of memory");
        else if (reason != REASON_NONE)
                refuse_reading(ex, reason);
        else
                exchange_go(ex);
}

/* --- held --- */

static bool body_ready(struct exchange *ex) { return (!ex->swap || swapping_ready(ex)) && reading_ready(ex); }

static void body_up(struct exchange *ex)
{
        if (!body_ready(ex))
                return;
        exchange_detach(ex);
        exchange_go(ex);
}
static void body_nothing(struct exchange *ex) { (void)ex; }
static const struct upstream_ops body_ops = { body_up, body_nothing, body_nothing };

void exchange_go(struct exchange *ex)
{
        struct outer *o = ex->outer;

        if (!body_ready(ex)) {
                exchange_attach(ex, &body_ops, NULL);
                return;
        }
        if (!consent_pass(ex))
                return;
        ex->state = EXCHANGE_WAITING;
        switch (ex->kind) {
        case KIND_HTTP:
        case KIND_WEBSOCKET:
                ex->pooled_ms = clock_mono_ms();
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

bool exchange_uses_account(const struct exchange *ex, const struct decision *d)
{
        return d->binding && (d->use.used || (ex->swap && swapping_uses(ex)));
}

bool exchange_fits(struct exchange *ex, const struct decision *d)
{
        if (!outgoing_is_aimed(ex, d) || !reading_fits(ex, d) || (ex->swap && !swapping_fits(ex, d)))
                return false;
        return ex->state == EXCHANGE_HELD || consent_holds(ex, d);
}

bool exchange_cut(struct exchange *ex, enum reason reason, const char *why)
{
        if (ex->state == EXCHANGE_DONE) {
                /* The answer's rest still stands here: it is not forwarded any more. */
                if (!buf_len(&ex->down) && !(ex->answer && answer_waits(ex)))
                        return false;
                link_reset(ex->outer->link, ex, reason_link_code(reason));
                return true;
        }
        ex->decision.reason = reason;
        events_refusal(ex->outer->events, ex, ex->has_address ? &ex->address : NULL, why);
        exchange_fail(ex, reason, "%s", why);
        return true;
}

/* --- the request's bytes --- */

static void fail_up(struct exchange *ex, enum reason reason)
{
        if (reason == REASON_PROFILE) {
                refuse_reading(ex, reason);
                return;
        }
        if (reason == REASON_PLACEHOLDER_TWICE) {
                ex->decision.reason = reason;
                events_refusal(ex->outer->events, ex, ex->has_address ? &ex->address : NULL, reason_text(reason));
        }
        exchange_fail(ex, reason, "%s", reason == REASON_LIMIT ? "out of memory" : reason_text(reason));
}

int exchange_up_add(struct exchange *ex, struct slice bytes)
{
        enum reason why = REASON_NONE;

        if (ex->swap)
                why = swapping_feed(ex, bytes, false);
        else if (reading_rewrites(ex))
                why = reading_feed(ex, bytes, false);
        else if (buf_add_slice(&ex->up, bytes) < 0) /* cannot pass the window, so memory is out */
                why = REASON_LIMIT;
        ex->up_charged += bytes.n;
        if (why != REASON_NONE) {
                fail_up(ex, why);
                return -1;
        }
        settle_up(ex);
        return 0;
}

void exchange_up_end(struct exchange *ex)
{
        enum reason why = ex->swap ? swapping_feed(ex, SLICE_EMPTY, true) : reading_rewrites(ex) ? reading_feed(ex, SLICE_EMPTY, true) : REASON_NONE;

        ex->up_ended = true;
        if (why != REASON_NONE)
                fail_up(ex, why);
        else if (ex->ops)
                ex->ops->up(ex);
}

void exchange_took(struct exchange *ex, size_t n)
{
        if (!n)
                return;
        keep_taken(ex, slice_first(buf_slice(&ex->up), n));
        buf_consume(&ex->up, n);
        settle_up(ex);
}

void exchange_interim(struct exchange *ex, const struct response *r)
{
        struct response shown = *r;
        struct headers h;

        if (ex->state >= EXCHANGE_ANSWERED || ++ex->interim > INTERIM_MAX)
                return;
        if (answer_fields(ex, &shown.headers) == 0 && response_to_h2(&ex->arena, &shown, &h) == WIRE_OK)
                (void)!link_interim(ex->outer->link, ex, &h);
}

/* The origin's fields, what of them is ours already dropped, and our own behind them. */
static int with_own_fields(struct exchange *ex, const struct headers *h, struct headers *out)
{
        char text[ADDR_TEXT_BYTES];
        size_t n = h->n;
        struct header *at = arena_alloc_array(&ex->arena, n + ex->own.n + 3, sizeof(*at));
        const char *address = ex->has_address ? addr_print(text, &ex->address) : "unchecked";

        if (!at)
                return -1;
        memcpy(at, h->at, n * sizeof(*at));
        at[n++] = (struct header){ SLICE_LIT("brome-address"), arena_text(ex, address) };
        snprintf(text, sizeof(text), "%d", ex->decision.rule);
        at[n++] = (struct header){ SLICE_LIT("brome-rule"), arena_text(ex, text) };
        if (ex->secret_went)
                at[n++] = (struct header){ SLICE_LIT("brome-account"), account_name(ex->outer->account) };
        for (size_t i = 0; i < ex->own.n; i++)
                at[n++] = ex->own.at[i];
        *out = (struct headers){ at, n };
        return 0;
}

int exchange_send_head(struct exchange *ex, const struct response *r, bool end)
{
        struct headers h, full;

        if (response_to_h2(&ex->arena, r, &h) != WIRE_OK || with_own_fields(ex, &h, &full) < 0) {
                exchange_fail(ex, REASON_UPSTREAM_PROTOCOL, "the answer's head cannot be passed on");
                return -1;
        }
        ex->state = EXCHANGE_ANSWERED;
        forget_taken(ex);
        ex->down_ended = end;
        if (link_answer(ex->outer->link, ex, &full, end) < 0) {
                exchange_fail(ex, REASON_INTERNAL, "link");
                return -1;
        }
        return 0;
}

int exchange_answer(struct exchange *ex, const struct response *r, bool end)
{
        struct response shown = *r;
        enum reason reason;
        const char *why;
        int rc;

        if (ex->state >= EXCHANGE_ANSWERED)
                return -1;
        reading_head(ex, r);
        rc = answer_begin(ex, &shown, end, &reason, &why);
        if (rc < 0)
                exchange_fail(ex, reason, "%s", why);
        return rc < 0 ? -1 : rc == 1 ? 0 : exchange_send_head(ex, &shown, end);
}

int exchange_open(struct exchange *ex)
{
        struct response r = { .status = 200, .body = BODY_CHUNKED, .upgraded = true };

        return exchange_answer(ex, &r, false);
}

int exchange_down(struct exchange *ex, struct slice bytes)
{
        reading_down(ex, bytes);
        if (ex->answer)
                return answer_feed(ex, bytes);
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

        if (ex->answer || reading_learns(ex) || n < EXCHANGE_SWAP_BYTES || buf_len(&ex->down) || ex->down.limit_bytes != from->limit_bytes) {
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
        exchange_detach(ex);
        if (ex->answer)
                answer_end(ex, trailers);
        else {
                /* Behind an answer without a body, too. */
                if (trailers)
                        ex->down_trailers = *trailers;
                if (trailers && trailers->n && answer_fields(ex, &ex->down_trailers) < 0)
                        ex->down_trailers.n = 0;
                ex->down_ended = true;
        }
        if (ex->state == EXCHANGE_DONE) /* what came last could not be passed on */
                return;
        ex->state = EXCHANGE_DONE;
        drop_up(ex);
        link_wake(ex->outer->link, ex);
}

void exchange_half_close(struct exchange *ex)
{
        ex->down_ended = true;
        link_wake(ex->outer->link, ex);
}
