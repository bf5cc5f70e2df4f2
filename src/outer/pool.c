/* Pool: see pool.h. */
#include "outer/pool.h"

#include "base/clock.h"
#include "base/log.h"
#include "outer/http.h"
#include "outer/ruleset.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum origin_kind { ORIGIN_UNKNOWN, ORIGIN_H1, ORIGIN_H2 };

struct origin {
        struct pool *pool;
        struct origin *prev, *next;
        char host[HOST_BYTES_MAX + 3];
        struct authority to;
        bool tls;
        enum origin_kind kind;
        struct http *conns;
        size_t conn_count, opening;
        struct exchange *first, *last; /* waiting */
        size_t waiting;
        bool pumping;
};

struct pool {
        struct outer *outer;
        struct origin *origins;
        struct http *idle_newest, *idle_oldest;
        size_t total, total_max, host_max;
        uint64_t era; /* how often it was renewed */
        struct turn_item revisit;
        struct event *look; /* armed while anything waits */
        bool looking;
};

static void pump(struct origin *o);
static const struct upstream_ops waiting_ops;

/* --- waiting --- */

static void look_again(struct pool *p)
{
        static const struct timeval often = { POOL_LOOK_MS / 1000, POOL_LOOK_MS % 1000 * 1000 };

        if (!p->looking)
                p->looking = event_add(p->look, &often) == 0;
}

static void queue_add(struct origin *o, struct exchange *ex)
{
        look_again(o->pool);
        ex->queued_ms = clock_mono_ms();
        ex->queue_prev = o->last;
        ex->queue_next = NULL;
        *(o->last ? &o->last->queue_next : &o->first) = ex;
        o->last = ex;
        o->waiting++;
        ex->state = EXCHANGE_WAITING;
        exchange_attach(ex, &waiting_ops, o);
}

static void queue_remove(struct origin *o, struct exchange *ex)
{
        *(ex->queue_prev ? &ex->queue_prev->queue_next : &o->first) = ex->queue_next;
        *(ex->queue_next ? &ex->queue_next->queue_prev : &o->last) = ex->queue_prev;
        o->waiting--;
        exchange_detach(ex);
}

/* Ends what waits longer than it may. The first ones in the queue are spared: those for which a connection is being opened, which has a deadline
 * of its own; before the origin's kind is known, one is opened for all of them. */
static void queue_expire(struct origin *o, int64_t now_ms)
{
        struct exchange *ex = o->first, *next;
        bool host = o->conn_count >= o->pool->host_max;

        if (o->opening && o->kind == ORIGIN_UNKNOWN)
                return;
        for (size_t i = 0; ex && i < o->opening; i++)
                ex = ex->queue_next;
        for (; ex && now_ms - ex->queued_ms >= POOL_WAIT_MS; ex = next) {
                next = ex->queue_next;
                exchange_fail(ex, REASON_LIMIT, "no connection became free within %d s: all %zu %s are busy", POOL_WAIT_MS / 1000,
                              host ? o->conn_count : o->pool->total, host ? "to this server" : "of this workspace");
        }
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
        struct pool *p = arg;
        int64_t now_ms = clock_mono_ms();

        (void)fd;
        (void)what;
        p->looking = false;
        /* Ending an exchange frees no origin: that is done at the end of a turn. */
        for (struct origin *o = p->origins; o; o = o->next) {
                queue_expire(o, now_ms);
                if (o->first)
                        look_again(p);
        }
        turn_ask(p->outer->turn, &p->revisit);
}

static void waiting_nothing(struct exchange *ex) { (void)ex; }
static void waiting_abort(struct exchange *ex) { queue_remove(ex->upstream, ex); }
static const struct upstream_ops waiting_ops = { waiting_nothing, waiting_nothing, waiting_abort };

/* --- origins --- */

static struct origin *origin_get(struct pool *p, const struct target *to)
{
        bool tls = to->scheme == SCHEME_HTTPS;
        struct origin *o;

        for (o = p->origins; o; o = o->next)
                if (o->tls == tls && authority_eq(&o->to, &to->authority))
                        return o;
        o = calloc(1, sizeof(*o));
        if (!o)
                return NULL;
        o->pool = p;
        o->tls = tls;
        o->to = to->authority;
        if (!o->to.is_addr) {
                memcpy(o->host, to->authority.name.p, to->authority.name.n);
                o->to.name = slice_of(o->host, to->authority.name.n);
        }
        o->next = p->origins;
        if (o->next)
                o->next->prev = o;
        p->origins = o;
        return o;
}

static void origin_check(struct origin *o)
{
        if (o->conns || o->first || o->pumping)
                return;
        *(o->prev ? &o->prev->next : &o->pool->origins) = o->next;
        if (o->next)
                o->next->prev = o->prev;
        free(o);
}

/* --- idle ones --- */

static void idle_leave(struct http *h)
{
        struct pool *p = h->pool;

        if (!h->is_idle)
                return;
        *(h->idle_prev ? &h->idle_prev->idle_next : &p->idle_newest) = h->idle_next;
        *(h->idle_next ? &h->idle_next->idle_prev : &p->idle_oldest) = h->idle_prev;
        h->is_idle = false;
}

static void on_idle_timer(evutil_socket_t fd, short what, void *arg)
{
        struct http *h = arg;

        (void)fd;
        (void)what;
        /* Armed once and looked at later: no timer call per request. */
        if (h->is_idle)
                http_drop(h);
}

void http_idle(struct http *h)
{
        static const struct timeval idle = { CONN_IDLE_S, 0 };
        struct pool *p = h->pool;

        if (h->retired || !h->origin) {
                http_drop(h);
                return;
        }
        h->is_idle = true;
        h->idle_prev = NULL;
        h->idle_next = p->idle_newest;
        *(p->idle_newest ? &p->idle_newest->idle_prev : &p->idle_oldest) = h;
        p->idle_newest = h;
        event_add(h->idle_timer, &idle);
        pump(h->origin);
}

void http_room(struct http *h)
{
        if (h->origin && h->origin->first)
                pump(h->origin);
}

void http_retire(struct http *h)
{
        h->retired = true;
        if (h->active == 0)
                http_drop(h);
}

static void revisit(void *ctx)
{
        struct pool *p = ctx;

        for (struct origin *o = p->origins, *next; o; o = next) {
                next = o->next;
                if (o->first)
                        pump(o);
                else
                        origin_check(o);
        }
}

static void http_bury(void *ctx)
{
        struct http *h = ctx;

        if (h->ops)
                h->ops->fini(h);
        free(h);
}

void http_drop(struct http *h)
{
        struct origin *o = h->origin;
        struct pool *p = h->pool;

        if (h->dead)
                return;
        h->dead = true;
        idle_leave(h);
        if (o) {
                *(h->prev ? &h->prev->next : &o->conns) = h->next;
                if (h->next)
                        h->next->prev = h->prev;
                o->conn_count--;
        }
        p->total--;
        conn_close(h->conn);
        event_free(h->idle_timer);
        h->grave = (struct turn_item){ .run = http_bury, .ctx = h };
        turn_ask(p->outer->turn, &h->grave);
        turn_ask(p->outer->turn, &p->revisit);
}

/* What was kept as long as one that turned out to be closed is no better. */
static void drop_idle(struct origin *o, const struct http *but)
{
        for (struct http *h = o ? o->conns : NULL, *next; h; h = next) {
                next = h->next;
                if (h->is_idle && h != but)
                        http_drop(h);
        }
}

void http_retry(struct http *h, struct exchange *ex, enum again why)
{
        h->retired = true;
        ex->retries += why == AGAIN_STALE;
        ex->refusals += why == AGAIN_REFUSED;
        exchange_detach(ex);
        if (why == AGAIN_STALE)
                drop_idle(h->origin, h);
        if (exchange_rewind(ex) == 0)
                pool_open(h->pool, ex);
        else
                exchange_fail(ex, REASON_LIMIT, "out of memory");
}

/* --- what the connection says --- */

static struct exchange *for_whom(const struct http *h) { return h->origin ? h->origin->first : h->alone; }

static bool on_admit(void *ctx, const struct addr *a)
{
        struct http *h = ctx;
        struct exchange *ex = for_whom(h);
        struct decision d;

        if (!ex)
                return false;
        exchange_judge(ex, a, &d);
        return d.allow;
}

/* Drops a connection that never opened. */
static void drop_unopened(struct http *h)
{
        if (h->origin && !h->ops)
                h->origin->opening--;
        h->alone = NULL;
        http_drop(h);
}

static void on_refused(void *ctx, const struct addr *a)
{
        struct http *h = ctx;
        struct exchange *ex = for_whom(h), *alone = h->alone;

        if (alone) /* not to be left hanging on a connection that goes, whatever is found below */
                exchange_detach(alone);
        drop_unopened(h);
        /* Judged once more, this time aloud; an address that became admissible in between is tried again, of what waits in the queue by the pump. */
        if (ex && exchange_admit(ex, a) && alone)
                pool_open(h->pool, alone);
}

/* Is there another connection that may yet take what waits? */
static bool may_serve(const struct origin *o, const struct http *failed)
{
        for (const struct http *h = o->conns; h; h = h->next)
                if (h != failed && !h->retired)
                        return true;
        return false;
}

static void on_failed(void *ctx, enum reason reason, const char *detail)
{
        struct http *h = ctx;
        struct origin *o = h->origin;
        struct exchange *ex = h->alone, *last = o ? o->last : NULL;
        char text[DETAIL_BYTES * 2];
        bool others = o && may_serve(o, h);

        /* The text may stand in the connection that goes. */
        snprintf(text, sizeof(text), "%s", detail);
        drop_unopened(h);
        if (ex)
                exchange_fail(ex, reason, "%s", text);
        while (last && o->first) {
                ex = o->first;
                bool done = others || ex == last;
                exchange_fail(ex, reason, "%s", text);
                if (done)
                        break;
        }
}

/* SECURITY: the rules changed while it was opened. Its address was admitted, its certificate perhaps verified, by what counts no more. */
static void open_again(struct http *h)
{
        struct exchange *ex = h->alone;

        h->alone = NULL;
        exchange_detach(ex);
        http_drop(h);
        pool_open(h->pool, ex);
}

static void on_opened(void *ctx)
{
        struct http *h = ctx;
        struct origin *o = h->origin;
        struct exchange *ex = h->alone;

        if (ex && h->era != h->pool->era) {
                open_again(h);
                return;
        }
        h->ops = conn_is_h2(h->conn) ? &h2_ops : &h1_ops;
        if (o) {
                o->opening--;
                o->kind = h->ops == &h2_ops ? ORIGIN_H2 : ORIGIN_H1;
        }
        if (h->ops->start(h) < 0) {
                on_failed(h, REASON_LIMIT, "out of memory");
                return;
        }
        if (ex) {
                ex->has_address = h->conn->has_address;
                ex->address = h->conn->address;
                if (!exchange_admit(ex, ex->has_address ? &ex->address : NULL))
                        return;
                h->alone = NULL;
                exchange_detach(ex);
                h->active++;
                h->ops->take(h, ex);
                return;
        }
        http_idle(h);
}

static void on_readable(void *ctx)
{
        struct http *h = ctx;

        h->ops->readable(h);
}

static void on_writable(void *ctx)
{
        struct http *h = ctx;

        h->ops->writable(h);
}

static void on_broken(void *ctx, const char *detail)
{
        struct http *h = ctx;

        h->ops->broken(h, detail);
}

static const struct conn_owner owner = { on_admit, on_refused, on_opened, on_failed, on_readable, on_writable, on_broken };

static struct http *http_new(struct pool *p, const struct target *to, bool h2)
{
        struct http *h = calloc(1, sizeof(*h));
        struct conn_plan plan = { .to = &to->authority, .tls = to->scheme == SCHEME_HTTPS, .h2 = h2, .keep_session = true };

        if (!h)
                return NULL;
        h->pool = p;
        h->era = p->era;
        h->idle_timer = evtimer_new(p->outer->base, on_idle_timer, h);
        h->conn = h->idle_timer ? conn_new(p->outer, &plan, &owner, h) : NULL;
        if (!h->conn) {
                if (h->idle_timer)
                        event_free(h->idle_timer);
                free(h);
                return NULL;
        }
        p->total++;
        return h;
}

/* --- pump --- */

/* SECURITY: what is not idempotent is never sent twice (RFC 9112 §9.3.1), so a kept connection whose end stands in the socket unread is none for it. */
static bool is_good_for(const struct http *h, const struct exchange *ex)
{
        return h->ops != &h1_ops || !h->served || request_is_idempotent(&ex->req) || !conn_has_news(h->conn);
}

static struct http *find_conn(const struct origin *o, const struct exchange *ex)
{
        for (struct http *h = o->conns; h; h = h->next)
                if (h->ops && !h->retired && h->ops->can_take(h) && is_good_for(h, ex))
                        return h;
        return NULL;
}

static void give(struct http *h, struct exchange *ex)
{
        queue_remove(h->origin, ex);
        ex->has_address = h->conn->has_address;
        ex->address = h->conn->address;
        /* SECURITY: judged with the address that this connection goes to. */
        if (!exchange_admit(ex, ex->has_address ? &ex->address : NULL))
                return;
        idle_leave(h);
        h->active++;
        h->ops->take(h, ex);
}

static bool may_open(struct origin *o)
{
        struct pool *p = o->pool;
        size_t wanted = o->kind == ORIGIN_H1 ? o->waiting : 1; /* until it is known, one connection tells */

        if (o->opening >= wanted || o->conn_count >= p->host_max)
                return false;
        if (p->total >= p->total_max && p->idle_oldest)
                http_drop(p->idle_oldest);
        return p->total < p->total_max;
}

static bool open_one(struct origin *o)
{
        struct http *h = http_new(o->pool, &o->first->to, true);

        if (!h) {
                exchange_fail(o->first, REASON_LIMIT, "out of memory");
                return false;
        }
        h->origin = o;
        h->next = o->conns;
        if (h->next)
                h->next->prev = h;
        o->conns = h;
        o->conn_count++;
        o->opening++;
        return true;
}

static void pump(struct origin *o)
{
        if (o->pumping)
                return;
        o->pumping = true;
        while (o->first) {
                struct http *h = find_conn(o, o->first);

                if (h)
                        give(h, o->first);
                else if (!may_open(o) || !open_one(o))
                        break;
        }
        o->pumping = false;
        origin_check(o);
}

/* --- WebSocket: over HTTP/2 where the origin offers it, else on a connection of its own --- */

static void alone_abort(struct exchange *ex)
{
        struct http *h = ex->upstream;

        h->alone = NULL;
        http_drop(h);
}
static const struct upstream_ops alone_ops = { waiting_nothing, waiting_nothing, alone_abort };

static void open_websocket(struct pool *p, struct origin *o, struct exchange *ex)
{
        struct http *h;

        for (h = o->conns; h; h = h->next)
                if (h->ops == &h2_ops && !h->retired && h->ops->can_take(h) && h2_can_connect(h)) {
                        queue_add(o, ex);
                        give(h, ex);
                        return;
                }
        if (p->total >= p->total_max && p->idle_oldest)
                http_drop(p->idle_oldest);
        h = p->total < p->total_max ? http_new(p, &ex->to, false) : NULL;
        if (!h) {
                exchange_fail(ex, REASON_LIMIT, "%zu connections of this workspace are busy", p->total);
                return;
        }
        h->alone = ex;
        exchange_attach(ex, &alone_ops, h);
}

void pool_open(struct pool *p, struct exchange *ex)
{
        struct origin *o = origin_get(p, &ex->to);

        if (!o) {
                exchange_fail(ex, REASON_LIMIT, "out of memory");
                return;
        }
        if (ex->kind == KIND_WEBSOCKET) {
                open_websocket(p, o, ex);
                origin_check(o);
                return;
        }
        queue_add(o, ex);
        pump(o);
}

static void renew_origin(struct origin *o)
{
        for (struct http *h = o->conns, *next; h; h = next) {
                next = h->next;
                h->retired = true;
                if (!h->ops)
                        drop_unopened(h);
                else if (h->active == 0)
                        http_drop(h);
        }
        o->kind = ORIGIN_UNKNOWN;
}

void pool_renew(struct pool *p)
{
        p->era++;
        for (struct origin *o = p->origins; o; o = o->next)
                renew_origin(o);
        turn_ask(p->outer->turn, &p->revisit);
}

size_t pool_connections(const struct pool *p) { return p->total; }

struct pool *pool_new(struct outer *o)
{
        struct pool *p = calloc(1, sizeof(*p));
        struct rlimit files;
        bool few = getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < FILES_FEW;

        if (!p)
                return NULL;
        p->outer = o;
        p->host_max = few ? POOL_HOST_FEW_MAX : POOL_HOST_MAX;
        p->total_max = few ? POOL_TOTAL_FEW_MAX : POOL_TOTAL_MAX;
        p->revisit = (struct turn_item){ .run = revisit, .ctx = p };
        p->look = evtimer_new(o->base, on_look, p);
        if (!p->look) {
                free(p);
                return NULL;
        }
        return p;
}
