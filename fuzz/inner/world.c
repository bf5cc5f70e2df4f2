/* See world.h. SECURITY: naive_allows is written without any of the door's own code, from the text of the policy. */
#include "world.h"
#include "inner/accounts.h"
#include "inner/events.h"
#include "inner/h1.h"
#include "inner/h2.h"
#include "inner/link.h"
#include "inner/hold.h"
#include "inner/outbox.h"
#include "inner/tripwire.h"

#include <sys/socket.h>

enum { BODY_MAX = 64 };
static const char policy_text[] = "rules {\nallow web a.example path \"/pub/**\" read-only\ndeny web a.example path \"/api/private/**\"\n"
                                  "allow web a.example path \"/api/**\" GET, POST body max 64\nallow web a.example path \"/ws\"\nallow web a.example path \"/up/**\" POST\n}\n";
/* In a world with accounts: one whose placeholder is at home elsewhere, and of which nothing may leave. The stream rule has no hold. */
#define RANDOM "abcdefghijklmnopqrstuvwxyz234567"
static const char accounts_text[] = "credential far { kind bearer; for far.example; placeholder \"brm_" RANDOM "\" }\n";
static struct world *world;

/* --- the naive reading --- */

static size_t unpercent(uint8_t *out, struct slice s)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                static const char hex[] = "0123456789abcdef";
                const char *high = i + 2 < s.n && s.p[i + 1] ? strchr(hex, ascii_lower(s.p[i + 1])) : NULL;
                const char *low = high && s.p[i + 2] ? strchr(hex, ascii_lower(s.p[i + 2])) : NULL;
                if (s.p[i] == '%' && high && low) {
                        out[n++] = (uint8_t)((high - hex) * 16 + (low - hex));
                        i += 2;
                } else {
                        out[n++] = s.p[i];
                }
        }
        return n;
}

static bool starts(struct slice s, const char *prefix) { return slice_starts(s, slice_str(prefix)); }

static bool holds_text(struct slice s, const char *text) { return s.n && memmem(s.p, s.n, text, strlen(text)) != NULL; }

/* The path as the most generous origin reads it: percent-decoded up to three times. It must be under the same rule each time. */
static bool naive_path(struct slice path, const char *prefix, const char *never)
{
        uint8_t *text = malloc(path.n + 1);
        struct slice s = path;
        bool ok = true;

        HOLDS(text);
        for (int i = 0; i < 3 && ok; i++) {
                ok = starts(s, prefix) && !(never && starts(s, never)) && !holds_text(s, "/../") && !holds_text(s, "/./") && !holds_text(s, "//") &&
                     !slice_ends(s, SLICE_LIT("/..")) && !holds_text(s, "\\");
                s = slice_of(text, unpercent(text, s));
        }
        free(text);
        return ok;
}

static bool naive_allows(const struct request *r, uint64_t body_bytes)
{
        bool get = slice_is(r->method, "GET"), reads = get || slice_is(r->method, "HEAD") || slice_is(r->method, "OPTIONS");
        bool plain = r->upgrade == WIRE_UPGRADE_NONE;

        if (r->scheme != SCHEME_HTTPS || !slice_is(r->authority.name, "a.example") || r->authority.port != 443)
                return false;
        if (starts(r->target.path, "/pub/"))
                return reads && plain && r->body == BODY_NONE && body_bytes == 0 && !r->override && naive_path(r->target.path, "/pub/", NULL);
        if (slice_is(r->target.path, "/ws"))
                return true;
        if (starts(r->target.path, "/up/"))
                return slice_is(r->method, "POST") && naive_path(r->target.path, "/up/", NULL);
        return (get || slice_is(r->method, "POST")) && body_bytes <= BODY_MAX && naive_path(r->target.path, "/api/", "/api/private/");
}

/* --- the link --- */

struct link { int nothing; };
static struct link the_link;

struct link *link_open(struct door *d, int fd, struct account *account)
{
        (void)d, (void)fd, (void)account;
        return &the_link;
}
void link_close(struct link *l) { (void)l; }
bool link_is_up(const struct link *l) { return l != NULL; }
bool link_takes(const struct link *l) { return l != NULL; }
bool link_turn_end(struct link *l)
{
        (void)l;
        return false;
}

int link_start(struct link *l, struct exchange *x)
{
        struct headers h;

        (void)l;
        HOLDS(x->kind == EXCHANGE_HTTP && x->req && x->state == EXCHANGE_OPEN && x->verdict.allow);
        HOLDS(naive_allows(x->req, x->req->body == BODY_LENGTH ? x->req->length : 0));
        HOLDS(request_to_h2(&x->arena, x->req, true, &h) == WIRE_OK);
        if (world->stream_count == WORLD_STREAMS)
                return -1;
        for (size_t i = 0; i < h.n; i++)
                HOLDS(buf_addf(&world->up, "%.*s: %.*s\n", SLICE_FMT(h.at[i].name), SLICE_FMT(h.at[i].value)) == 0);
        world->up_head = buf_len(&world->up);
        world->streams[world->stream_count++] = x;
        x->stream = 1;
        return 0;
}

void link_more(struct link *l, struct exchange *x) { (void)l, (void)x; }

void link_passed(struct link *l, struct exchange *x, size_t n) { (void)l, (void)x, (void)n; }

void link_drop(struct link *l, struct exchange *x)
{
        size_t at = 0;

        (void)l;
        while (at < world->stream_count && world->streams[at] != x)
                at++;
        if (at == world->stream_count)
                return;
        memmove(&world->streams[at], &world->streams[at + 1], (world->stream_count - at - 1) * sizeof(world->streams[0]));
        world->stream_count--;
        x->stream = 0;
}

static bool is_live(const struct exchange *x)
{
        for (size_t i = 0; i < world->stream_count; i++)
                if (world->streams[i] == x)
                        return true;
        return false;
}

/* Takes what waits; says whether there was anything. */
static bool link_take(struct exchange *x)
{
        size_t n = buf_len(&x->up);

        HOLDS(!x->req || naive_allows(x->req, x->bytes_up));
        if (n == 0 && (!x->up_ended || x->up_sent_end))
                return false;
        /* Whole or not at all: how much of a body went on before it was found to be too large depends on the cuts. */
        if (world->answers && !x->up_ended && x->state == EXCHANGE_OPEN && x->req->upgrade == WIRE_UPGRADE_NONE)
                return false;
        HOLDS(buf_add_slice(&world->up, buf_slice(&x->up)) == 0);
        x->up_sent_end = x->up_ended;
        if (x->up_ended)
                HOLDS(buf_add_str(&world->up, "<end>\n") == 0);
        exchange_link_took(x, n);
        return true;
}

/* --- the guest's connection --- */

int conn_open(struct conn *c, struct event_base *base, int fd, const struct conn_ops *ops, void *owner)
{
        (void)base;
        *c = (struct conn){ .fd = fd, .ops = ops, .owner = owner };
        buf_init(&c->in, 0);
        buf_init(&c->out, 0);
        return 0;
}

void conn_close(struct conn *c, bool reset)
{
        (void)reset;
        c->dead = true;
        HOLDS(buf_add_slice(&world->down, buf_slice(&c->out)) == 0);
        buf_fini(&c->in);
        buf_fini(&c->out);
}

void conn_serve(struct conn *c, const struct conn_ops *ops, void *owner)
{
        c->ops = ops;
        c->owner = owner;
}

int conn_start_tls(struct conn *c, SSL *ssl, struct slice *in)
{
        (void)c, (void)ssl, (void)in;
        return -1;
}

/* As conn.c: bytes stay with the connection until they are used; who resumes from within `data` is shown them by the loop. */
static void show(struct conn *c)
{
        struct slice in = buf_slice(&c->in);

        if (c->dead || c->in_data || !in.n)
                return;
        c->in_data = true;
        c->ops->data(c, &in);
        c->in_data = false;
        if (!c->dead)
                buf_consume(&c->in, buf_len(&c->in) - in.n);
}

static void tell_eof(struct conn *c)
{
        if (c->dead || c->eof_told || !c->eof || c->paused)
                return;
        c->eof_told = true;
        c->ops->eof(c);
}

void conn_pause(struct conn *c) { c->paused = true; }

void conn_resume(struct conn *c)
{
        if (c->dead)
                return;
        c->paused = false;
        show(c);
        if (!c->dead && !c->in_data)
                tell_eof(c);
}

void conn_touch(struct conn *c) { c->dirty = true; }
int conn_send(struct conn *c, struct slice s)
{
        c->dirty = true;
        return buf_add_slice(&c->out, s);
}
void conn_finish(struct conn *c)
{
        c->fin_wanted = true;
        c->dirty = true;
}
void conn_turn_end(void) {}
void conn_reset_fd(int fd) { (void)fd; }

static void conn_drain(struct conn *c)
{
        if (c->dead || !c->dirty)
                return;
        c->dirty = false;
        HOLDS(buf_add_slice(&world->down, buf_slice(&c->out)) == 0);
        buf_clear(&c->out);
        c->fin_sent = c->fin_wanted;
        c->ops->drained(c, 0);
}

/* --- turns --- */

static void answer(struct exchange *x)
{
        struct header at[] = { { SLICE_LIT(":status"), SLICE_LIT("200") }, { SLICE_LIT("content-type"), SLICE_LIT("text/plain") } };
        struct headers block = { at, 2 }, none = { 0 };
        struct response r;

        HOLDS(response_from_h2(&x->arena, &block, false, x->req, false, &r) == WIRE_OK);
        exchange_link_head(x, &r);
        if (is_live(x))
                exchange_link_data(x, SLICE_LIT("hello"));
        if (is_live(x) && !r.upgraded)
                exchange_link_end(x, &none);
}

static bool turn_streams(struct world *w)
{
        bool any = false;

        for (size_t i = 0; i < w->stream_count; i++) {
                struct exchange *x = w->streams[i];
                any = link_take(x) || any;
                if (w->answers && is_live(x) && x->state == EXCHANGE_OPEN && (x->up_sent_end || x->req->upgrade != WIRE_UPGRADE_NONE)) {
                        answer(x);
                        any = true;
                }
        }
        return any;
}

/* SECURITY: when it goes off, everything has ended and bromed was told, before anything is sent. */
static void hear_trip(struct world *w)
{
        char told[4096];
        struct exchange *x;

        if (!w->door.trip)
                return;
        tripwire_turn_end(&w->door);
        HOLDS(recv(w->heard, told, sizeof(told), MSG_DONTWAIT) > 0 && w->door.refuse == REASON_COMPROMISED);
        TAILQ_FOREACH(x, &w->door.exchanges, list)
                HOLDS(!x->req);
}

/* What is enough to be a placeholder never stands in it. */
static void nothing_left(const struct world *w)
{
        struct slice up = buf_slice(&w->up);

        if (w->door.tokens && up.n)
                HOLDS(!memmem(up.p, up.n, "brm_" RANDOM, 4 + 12));
}

void world_turn(struct world *w)
{
        bool any = true;
        size_t held = 0;

        for (int i = 0; i < 1000 && any; i++) {
                bool dirty = w->flow && w->flow->conn.dirty;

                hold_turn(&w->door);
                if (w->flow)
                        conn_drain(&w->flow->conn);
                hear_trip(w);
                any = turn_streams(w) || dirty;
                if (w->flow && w->flow->state == FLOW_DEAD)
                        w->flow = NULL;
                exchange_free_dead(&w->door);
                flow_free_dead(&w->door);
                buf_clear(outbox_buf(w->door.outbox));
        }
        nothing_left(w);
        HOLDS(!any && !w->door.quit);
        for (size_t i = 0; i < w->stream_count; i++)
                held += buf_len(&w->streams[i]->up);
        HOLDS(w->door.held_bytes == held && (w->answers || held == 0));
}

void world_guest(struct world *w, struct slice s)
{
        struct conn *c = w->flow ? &w->flow->conn : NULL;

        /* conn.c stops reading for a paused connection, and for one whose bytes nobody takes. */
        if (!c || c->eof || c->paused || buf_len(&c->in) >= CONN_IN_BYTES)
                return;
        HOLDS(buf_add_slice(&c->in, s) == 0);
        show(c);
        world_turn(w);
}

void world_guest_eof(struct world *w)
{
        if (!w->flow || w->flow->conn.eof)
                return;
        w->flow->conn.eof = true;
        tell_eof(&w->flow->conn);
        world_turn(w);
}

static struct exchange *stream(struct world *w, size_t i) { return w->stream_count ? w->streams[i % w->stream_count] : NULL; }

/* As link.c got_head does it. */
void world_head(struct world *w, size_t i, struct slice lines, bool end)
{
        struct exchange *x = stream(w, i);
        struct header at[FIELDS_MAX];
        struct headers block = { at, 0 }, none = { 0 };
        struct response r;
        enum wire_reason why;

        if (!x || x->state != EXCHANGE_OPEN)
                return;
        while (lines.n && block.n < 16) {
                ptrdiff_t nl = slice_find(lines, '\n');
                struct slice line = nl < 0 ? lines : slice_first(lines, (size_t)nl);
                ptrdiff_t colon = line.n > 1 ? slice_find(slice_skip(line, 1), ':') : -1;
                bool ok = true;

                lines = slice_skip(lines, line.n + 1);
                at[block.n].name = arena_copy(&x->arena, slice_first(line, colon < 0 ? line.n : (size_t)colon + 1), &ok);
                at[block.n++].value = arena_copy(&x->arena, colon < 0 ? SLICE_EMPTY : slice_skip(line, (size_t)colon + 2), &ok);
                if (!ok)
                        return;
        }
        why = response_from_h2(&x->arena, &block, end, x->req, false, &r);
        if (why != WIRE_OK)
                exchange_link_reset(x, REASON_UPSTREAM_PROTOCOL, slice_str(wire_reason_sentence(why)));
        else
                exchange_link_head(x, &r);
        if (is_live(x) && x->state == EXCHANGE_ANSWERED && end)
                exchange_link_end(x, &none);
        world_turn(w);
}

void world_data(struct world *w, size_t i, struct slice s)
{
        struct exchange *x = stream(w, i);

        if (x && x->state == EXCHANGE_ANSWERED && !x->down_ended)
                exchange_link_data(x, s);
        world_turn(w);
}

void world_end(struct world *w, size_t i)
{
        struct exchange *x = stream(w, i);
        struct headers none = { 0 };

        if (x && x->state == EXCHANGE_ANSWERED && !x->down_ended)
                exchange_link_end(x, &none);
        world_turn(w);
}

void world_reset(struct world *w, size_t i, enum reason reason)
{
        struct exchange *x = stream(w, i);

        if (x)
                exchange_link_reset(x, reason, SLICE_LIT("detail\x1b[31m"));
        world_turn(w);
}

static struct policy *the_policy(bool accounts)
{
        static struct policy *made[2];
        static struct diags errors;
        struct buf text;

        if (!made[accounts]) {
                buf_init(&text, 0);
                HOLDS(buf_addf(&text, "%s%s", accounts ? accounts_text : "", policy_text) == 0);
                made[accounts] = policy_parse(buf_slice(&text), "fuzz", &errors);
                buf_fini(&text);
        }
        HOLDS(made[accounts]);
        return made[accounts];
}

struct world *world_open(bool h2, bool accounts)
{
        static int channel[2] = { -1, -1 };
        static struct event_base *base;
        static uint64_t hits[8];
        struct world *w = calloc(1, sizeof(*w));
        struct flow *f = calloc(1, sizeof(*f));
        struct door *d = &w->door;

        if (!base)
                base = event_base_new();
        HOLDS(w && f && base);
        world = w;
        buf_init(&w->up, 0);
        buf_init(&w->down, 0);
        *d = (struct door){ .base = base, .workspace = "fuzz", .policy = the_policy(accounts), .hits = hits, .next_id = 1, .link = &the_link };
        if (channel[0] < 0)
                HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) == 0);
        d->control = channel[0];
        w->heard = channel[1];
        d->rule_count = policy_rule_count(d->policy);
        TAILQ_INIT(&d->accounts);
        TAILQ_INIT(&d->hold_queue);
        TAILQ_INIT(&d->flows);
        TAILQ_INIT(&d->dead_flows);
        TAILQ_INIT(&d->exchanges);
        TAILQ_INIT(&d->dead_exchanges);
        HOLDS(accounts_policy(d) == 0);
        d->outbox = outbox_open(d, -1);
        HOLDS(d->outbox);
        f->door = d;
        f->id = door_id(d);
        f->to = (struct authority){ .name = SLICE_LIT("a.example"), .port = 443 };
        f->tls = f->has_sni = true;
        f->verdict = (struct policy_verdict){ .allow = true, .action = FLOW_INSPECT, .rule = 0, .max_body = -1 };
        arena_init(&f->arena, 4096);
        HOLDS(conn_open(&f->conn, base, -1, NULL, f) == 0);
        TAILQ_INSERT_TAIL(&d->flows, f, list);
        d->flow_count = 1;
        w->flow = f;
        if (h2)
                h2_serve(f);
        else
                h1_serve(f);
        world_turn(w);
        return w;
}

void world_close(struct world *w)
{
        if (w->flow)
                flow_close(w->flow, true);
        world_turn(w);
        HOLDS(w->door.held_bytes == 0 && w->door.hold_bytes == 0 && w->door.hold_reserved == 0 && w->door.decode_bytes == 0 && w->stream_count == 0 && w->door.exchange_count == 0 && w->door.flow_count == 0 && TAILQ_EMPTY(&w->door.exchanges));
        while (TAILQ_FIRST(&w->door.accounts)) {
                struct account *a = TAILQ_FIRST(&w->door.accounts);
                TAILQ_REMOVE(&w->door.accounts, a, list);
                free(a->name);
                free(a);
        }
        token_set_free(w->door.tokens);
        outbox_close(w->door.outbox);
        buf_fini(&w->up);
        buf_fini(&w->down);
        free(w);
        world = NULL;
}
