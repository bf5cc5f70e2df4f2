/* See world.h. */
#include "world.h"
#include "base/clock.h"
#include "outer/account.h"
#include "outer/answer.h"
#include "outer/consent.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/outgoing.h"
#include "outer/relay.h"
#include "wire/response.h"

static struct world *world;

static struct told *told_of(const struct exchange *ex)
{
        for (size_t i = 0; i < world->count; i++)
                if (world->told[i].ex == ex)
                        return &world->told[i];
        abort();
}

/* --- the link --- */

static void note(struct told *t, const char *what, const struct headers *fields)
{
        HOLDS(buf_addf(&t->log, "%s\n", what) == 0);
        for (size_t i = 0; fields && i < fields->n; i++)
                HOLDS(buf_addf(&t->log, "%.*s: %.*s\n", SLICE_FMT(fields->at[i].name), SLICE_FMT(fields->at[i].value)) == 0);
}

/* The answer as the inner door reads it: it must be readable, and our own fields must be ours. */
static void check_head(struct told *t, const struct headers *fields, bool interim, bool end)
{
        struct arena a;
        struct response r;
        struct headers copy = { NULL, 0 };
        size_t own = 0, refusal = 0;

        arena_init(&a, 4u << 20);
        copy.at = arena_alloc_array(&a, fields->n + 1, sizeof(*copy.at));
        HOLDS(copy.at);
        for (size_t i = 0; i < fields->n; i++) {
                struct slice name = fields->at[i].name;
                own += slice_is(name, "brome-address") || slice_is(name, "brome-rule");
                refusal += slice_is(name, "brome-reason");
                if (slice_starts(name, SLICE_LIT("brome-")))
                        HOLDS(!interim && (slice_is(name, "brome-address") || slice_is(name, "brome-rule") || slice_is(name, "brome-reason") || slice_is(name, "brome-detail")));
                else
                        copy.at[copy.n++] = fields->at[i];
        }
        HOLDS(interim ? own + refusal == 0 : refusal == 0 ? own == 2 : refusal == 1);
        if (!refusal) {
                enum wire_reason why = response_from_h2(&a, &copy, end, &t->ex->req, false, &r);
                /* Framing that the origin's HTTP/1 carried may become a field more. */
                HOLDS(why == WIRE_OK || why == WIRE_TOO_MANY_FIELDS || why == WIRE_HEAD_TOO_LARGE);
                if (why == WIRE_OK) {
                        HOLDS(response_is_interim(&r) == interim);
                        t->has_length = r.body == BODY_LENGTH;
                        t->length = r.length;
                }
        }
        arena_fini(&a);
}

static void ended(struct told *t)
{
        HOLDS(!t->ended);
        t->ended = true;
        if (t->answered && t->has_length)
                HOLDS(t->length == buf_len(&t->body));
        note(t, "end", &t->ex->down_trailers);
}

int link_interim(struct link *l, struct exchange *ex, const struct headers *fields)
{
        struct told *t = told_of(ex);

        (void)l;
        HOLDS(!t->answered && !t->ended);
        check_head(t, fields, true, false);
        note(t, "interim", fields);
        return 0;
}

int link_answer(struct link *l, struct exchange *ex, const struct headers *fields, bool end)
{
        struct told *t = told_of(ex);

        (void)l;
        HOLDS(!t->answered && !t->ended);
        check_head(t, fields, false, end);
        note(t, "answer", fields);
        t->answered = true;
        if (end)
                ended(t);
        return 0;
}

void link_wake(struct link *l, struct exchange *ex) { (void)l, (void)ex; }
void link_give(struct link *l, struct exchange *ex, size_t n) { (void)l, (void)ex, (void)n; }

void link_reset(struct link *l, struct exchange *ex, uint32_t h2_code)
{
        struct told *t = told_of(ex);

        (void)l, (void)h2_code;
        HOLDS(!t->ended || (ex->kind == KIND_WEBSOCKET && !t->failed)); /* which may have ended in one direction only */
        ex->state = EXCHANGE_DONE;
        world->outer.held_bytes -= buf_len(&ex->down); /* goes with the stream */
        buf_clear(&ex->down);
        t->ended = t->failed = true;
        note(t, "reset", NULL);
}

/* The link takes all there is. */
static bool link_take(struct told *t)
{
        struct exchange *ex = t->ex;
        size_t n = buf_len(&ex->down);
        bool end = ex->down_ended && !t->ended;

        if (t->failed || t->retried || (!n && !end))
                return false;
        HOLDS(n == 0 || (t->answered && !t->ended));
        HOLDS(buf_add_slice(&t->body, buf_slice(&ex->down)) == 0);
        buf_clear(&ex->down);
        world->outer.held_bytes -= n;
        if (end)
                ended(t);
        if (ex->answer)
                answer_room(ex);
        if (ex->ops)
                ex->ops->room(ex);
        return true;
}

/* --- events, pool, connection --- */

void events_refusal(struct events *e, const struct exchange *ex, const struct addr *resolved, const char *detail) { (void)e, (void)ex, (void)resolved, (void)detail; }
void events_used(struct events *e, const struct exchange *ex) { (void)e, (void)ex; }
bool events_can_write(const struct events *e)
{
        (void)e;
        return true;
}

bool consent_pass(struct exchange *ex) { return ex != NULL; }
bool consent_holds(struct exchange *ex, const struct decision *d) { return ex != NULL && d != NULL; }

/* ---- the account ---- */

static struct account_mask masked = { .holders = 1 };

struct slice account_name(const struct account *a) { return slice_of(a, 0); }
struct slice account_minted_in(const struct account *a, const struct request *req) { return (void)a, (void)req, SLICE_EMPTY; }
struct slice account_secret(const struct account *a, struct slice minted) { return (void)a, (void)minted, SLICE_EMPTY; }
int account_keep(struct account *a, const struct minted *minted, size_t count) { return (void)a, (void)minted, (void)count, -1; }
static struct realms realms;
const struct realms *account_realms(const struct account *a) { return (void)a, &realms; }
void account_challenged(struct account *a, struct slice www_authenticate) { (void)a, realms_learn(&realms, www_authenticate); }
bool account_used(struct account *a, struct slice host) { return (void)a, (void)host, false; }
struct account_mask *account_mask_hold(struct account *a)
{
        (void)a;
        masked.holders++;
        return &masked;
}
void account_mask_release(struct account_mask *m)
{
        if (m)
                m->holders--;
}

/* ---- pool, connection ---- */

void pool_open(struct pool *p, struct exchange *ex) { (void)p, (void)ex; }
void relay_open(struct outer *o, struct exchange *ex) { (void)o, (void)ex; }
void datagram_open(struct outer *o, struct exchange *ex) { (void)o, (void)ex; }

void http_idle(struct http *h)
{
        HOLDS(h->active == 0);
        h->is_idle = true;
}
void http_room(struct http *h) { (void)h; }
void http_retire(struct http *h) { h->retired = true; }
void http_drop(struct http *h)
{
        h->dead = true;
        h->active = 0;
}

void http_retry(struct http *h, struct exchange *ex, enum again why)
{
        struct told *t = told_of(ex);

        (void)h;
        (void)why;
        HOLDS(exchange_is_replayable(ex) && !t->answered && !t->ended);
        t->retried = true;
        exchange_detach(ex);
        note(t, "retry", NULL);
}

struct conn *conn_new(struct outer *o, const struct conn_plan *plan, const struct conn_owner *owner, void *ctx)
{
        (void)o, (void)plan, (void)owner, (void)ctx;
        return NULL;
}
void conn_close(struct conn *c) { (void)c; }
void conn_ask(struct conn *c)
{
        (void)c;
        world->asked = true;
}
int conn_put(struct conn *c, struct slice s)
{
        conn_ask(c);
        return buf_add_slice(&c->out, s);
}
void conn_pause(struct conn *c, bool pause) { c->paused = pause; }
void conn_shut(struct conn *c) { c->shut = true; }
bool conn_is_h2(const struct conn *c) { return c->h2; }
bool conn_is_drained(const struct conn *c) { return buf_len(&c->in) == 0; }

/* --- turns --- */

static void turn(struct world *w)
{
        bool any = true;

        for (int i = 0; i < 1000 && any; i++) {
                any = w->asked;
                w->asked = false;
                if (any && !w->http.dead)
                        w->http.ops->writable(&w->http);
                buf_clear(&w->conn.out); /* the origin reads all */
                for (size_t k = 0; k < w->count; k++)
                        any = link_take(&w->told[k]) || any;
        }
        HOLDS(!any && w->outer.held_bytes == 0);
}

void world_origin(struct world *w, struct slice s, bool eof)
{
        if (w->http.dead || w->conn.eof)
                return;
        HOLDS(buf_add_slice(&w->conn.in, s) == 0);
        w->conn.received += s.n;
        w->conn.eof = eof;
        w->http.ops->readable(&w->http);
        turn(w);
        for (int i = 0; i < 3 && eof && !w->http.dead && w->http.active; i++) { /* conn.c tells the end again while bytes are left */
                w->http.ops->readable(&w->http);
                turn(w);
        }
}

static void fill_request(struct exchange *ex, unsigned which)
{
        static const char *const methods[] = { "GET", "HEAD", "POST", "GET" };
        struct request *r = &ex->req;

        r->method = slice_str(methods[which & 3]);
        r->scheme = SCHEME_HTTPS;
        r->authority = (struct authority){ .name = SLICE_LIT("a.example"), .port = 443 };
        r->target.path = SLICE_LIT("/x");
        r->version = 20;
        r->keep_alive = true;
        ex->kind = KIND_HTTP;
        ex->up_ended = true;
        if ((which & 3) == 2) {
                r->body = BODY_CHUNKED;
                HOLDS(buf_add_str(&ex->up, "hello") == 0);
        }
        if ((which & 3) == 3) {
                r->upgrade = WIRE_UPGRADE_WEBSOCKET;
                ex->kind = KIND_WEBSOCKET;
                ex->up_ended = false;
        }
}

bool world_request(struct world *w, unsigned which)
{
        struct told *t = &w->told[w->count];
        struct exchange *ex;

        if (w->count == WORLD_EXCHANGES || w->http.dead || !w->http.ops->can_take(&w->http))
                return false;
        ex = calloc(1, sizeof(*ex));
        HOLDS(ex);
        *t = (struct told){ .ex = ex };
        w->count++;
        ex->outer = &w->outer;
        ex->stream = (int32_t)(2 * w->count - 1);
        ex->state = EXCHANGE_WAITING;
        ex->pooled_ms = clock_mono_ms();
        ex->decision.max_body = -1;
        arena_init(&ex->arena, EXCHANGE_ARENA_BYTES);
        buf_init(&ex->up, 0);
        buf_init(&ex->down, 0);
        fill_request(ex, which);
        if (w->via)
                ex->decision.via = (struct policy_via){ true, SLICE_LIT("mirror.example"), 443, SLICE_LIT("/base/") };
        ex->decision.binding = w->outer.account ? &w->binding : NULL;
        HOLDS(outgoing_aim(ex) == 0);
        w->http.is_idle = false;
        w->http.active++;
        w->http.ops->take(&w->http, ex);
        turn(w);
        return true;
}

void world_account(struct world *w, enum account_kind kind, bool via)
{
        realms = (struct realms){ 0 };
        w->outer.account = (struct account *)(void *)w; /* only told apart from NULL */
        w->binding = (struct binding){ .name = SLICE_LIT("one"), .kind = kind, .placeholder = SLICE_LIT(WORLD_HOLDER) };
        w->via = via;
        masked.mask = mask_new();
        HOLDS(masked.mask && mask_add(masked.mask, SLICE_LIT(WORLD_SECRET), SLICE_LIT(WORLD_HOLDER)) == 0);
}

void world_abort(struct world *w, size_t i)
{
        struct told *t = w->count ? &w->told[i % w->count] : NULL;

        if (!t || t->ended || t->retried)
                return;
        exchange_fail(t->ex, REASON_POLICY_CHANGED, "x");
        turn(w);
}

struct world *world_open(const struct http_ops *ops)
{
        struct world *w = calloc(1, sizeof(*w));

        HOLDS(w);
        world = w;
        w->conn = (struct conn){ .outer = &w->outer, .state = CONN_OPEN, .fd = -1, .h2 = ops == &h2_ops };
        buf_init(&w->conn.in, 0);
        buf_init(&w->conn.out, 0);
        w->http = (struct http){ .ops = ops, .conn = &w->conn };
        HOLDS(ops->start(&w->http) == 0);
        turn(w);
        return w;
}

void world_close(struct world *w)
{
        if (!w->http.dead)
                w->http.ops->broken(&w->http, "closing");
        turn(w);
        for (size_t i = 0; i < w->count; i++) {
                struct told *t = &w->told[i];

                /* Each has come to an end that the guest will see. */
                HOLDS(t->ended || t->retried);
                HOLDS(!t->ex->ops);
                buf_fini(&t->ex->up);
                buf_fini(&t->ex->up_taken);
                buf_fini(&t->ex->down);
                answer_free(t->ex->answer);
                arena_fini(&t->ex->arena);
                free(t->ex);
                buf_fini(&t->log);
                buf_fini(&t->body);
        }
        w->http.ops->fini(&w->http);
        buf_fini(&w->conn.in);
        buf_fini(&w->conn.out);
        HOLDS(masked.holders == 1);
        mask_free(masked.mask);
        masked.mask = NULL;
        free(w);
        world = NULL;
}
