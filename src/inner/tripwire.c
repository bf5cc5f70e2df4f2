/* The tripwire: see tripwire.h. SECURITY: what is told of a placeholder is its preview; what is told of a request, its redacted path. */
#include "inner/tripwire.h"
#include "account/basic.h"
#include "base/esc.h"
#include "base/log.h"
#include "inner/control.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "journal/redact.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORTEST = 3 + SCAN_SURE_CHARS }; /* a marker and what is a hit */

struct tripwire {
        json_t *told; /* the message to bromed */
};

bool tripwire_at_home(struct door *d, const struct account *a, const struct sighting *s)
{
        const struct binding *b = a ? accounts_binding(a) : NULL;
        struct slice name = s->via && s->via->found ? s->via->name : s->to->name;

        (void)d;
        for (size_t i = 0; b && name.n && i < b->host_count; i++)
                if (slice_eq(b->hosts[i].name, name))
                        return true;
        return false;
}

/* Where the label at `at` ends. */
static size_t label_end(struct slice name, size_t at)
{
        while (at < name.n && name.p[at] != '.')
                at++;
        return at;
}

/* The host as it is shown and remembered: of a name in which the placeholder itself stands, what is behind those labels. The scan is sure before it is at the end, so
 * long labels behind it are taken for the rest of it; the last two never are. */
static struct slice shown_host(const struct door *d, struct slice name)
{
        enum { LONG_LABEL = 8 };
        struct scan_hit hit;
        size_t end = 0, labels = 1;

        if (!name.n || !scan_name(d->tokens, name, &hit))
                return name;
        for (size_t i = 0; i < name.n; i++)
                labels += name.p[i] == '.';
        do {
                end = label_end(name, end ? end + 1 : 0);
                labels--;
        } while (end < name.n && !scan_name(d->tokens, slice_first(name, end), &hit));
        while (labels > 2 && label_end(name, end + 1) - end > LONG_LABEL) {
                end = label_end(name, end + 1);
                labels--;
        }
        return slice_skip(name, end + 1);
}

/* --- going off --- */

/* The path without what may be a secret in it. */
static json_t *shown_path(const struct request *req)
{
        struct buf full, text;
        json_t *j = NULL;

        buf_init(&full, 0);
        buf_init(&text, 0);
        if (buf_add_slice(&full, req->target.path) == 0 && (!req->target.has_query || (buf_add_str(&full, "?") == 0 && buf_add_slice(&full, req->target.query) == 0)) &&
            redact_path(&text, buf_slice(&full)) == 0)
                j = json_string(esc(buf_slice(&text)));
        buf_fini(&full);
        buf_fini(&text);
        return j ? j : json_string("");
}

static void shown_field(char *out, size_t size, const struct sighting *s)
{
        enum { NAME_SHOWN = 40 };

        if (s->name.n)
                snprintf(out, size, "%s %s", s->field, esc(slice_first(s->name, NAME_SHOWN)));
        else
                snprintf(out, size, "%s", s->field);
}

static json_t *message(struct door *d, const struct sighting *s, const struct scan_hit *hit)
{
        const struct account *a = accounts_by_number(d, hit->number);
        char preview[PLACEHOLDER_PREVIEW_BYTES], field[128], at[ADDR_TEXT_BYTES];

        placeholder_preview(a ? slice_str(a->placeholder) : SLICE_EMPTY, preview);
        shown_field(field, sizeof(field), s);
        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:o, s:I}", "op", "trip", "account", a ? a->name : "", "placeholder", preview, "host",
                         s->to->is_addr ? addr_print(at, &s->to->addr) : esc(shown_host(d, s->to->name)), "port", (json_int_t)s->to->port, "field", field, "view",
                         scan_view_name(hit->view), "method", s->req ? esc(s->req->method) : "", "path", s->req ? shown_path(s->req) : json_string(""), "flow",
                         (json_int_t)s->flow);
}

enum reason tripwire_off(struct door *d, const struct sighting *s, const struct scan_hit *hit)
{
        const struct account *a = accounts_by_number(d, hit->number);

        if (a && policy_trip_known(d->policy, slice_str(a->name), shown_host(d, s->to->name)))
                return REASON_TRIPWIRE;
        d->refuse = REASON_COMPROMISED;
        d->tripped = true;
        if (d->trip)
                return REASON_TRIPWIRE; /* one alert for what happens in one turn; each refusal is recorded */
        d->trip = calloc(1, sizeof(*d->trip));
        if (d->trip)
                d->trip->told = message(d, s, hit);
        if (!d->trip || !d->trip->told) {
                log_error("the tripwire went off, and there is no memory to tell");
                d->quit = true; /* SECURITY: bromed refuses everything when the door ends */
        }
        return REASON_TRIPWIRE;
}

void tripwire_turn_end(struct door *d)
{
        struct tripwire *t = d->trip;

        if (!t)
                return;
        control_cut(d, REASON_COMPROMISED);
        d->trip = NULL;
        if (t->told)
                control_tell(d, t->told);
        free(t);
}

/* For the person who reads the refusal. */
static void detail(struct exchange *x, const struct sighting *s, const struct scan_hit *hit)
{
        char field[128], text[192];
        bool ok = true;
        int n;

        shown_field(field, sizeof(field), s);
        n = snprintf(text, sizeof(text), "%s (%s)", field, scan_view_name(hit->view));
        x->detail = arena_copy(&x->arena, slice_of(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1), &ok);
}

/* --- heads --- */

struct look {
        struct exchange *x;
        struct sighting s;
        size_t own;
        struct account *whose;
        enum reason reason;
};

/* Every placeholder in a text; how many are at home. */
static size_t look_at(struct look *l, const char *field, struct slice name, struct slice text)
{
        struct door *d = l->x->door;
        struct scan_hit hit;
        size_t own = 0;

        if (text.n < SHORTEST)
                return 0;
        l->s.field = field;
        l->s.name = name;
        while (l->reason == REASON_NONE && text.n && scan_text(d->tokens, text, &hit)) {
                struct account *a = accounts_by_number(d, hit.number);

                l->whose = a;
                l->x->whose = a;
                if (!tripwire_at_home(d, a, &l->s)) {
                        l->reason = tripwire_off(d, &l->s, &hit);
                        detail(l->x, &l->s, &hit);
                        return own;
                }
                own++;
                text = slice_skip(text, hit.at + hit.n);
        }
        return own;
}

/* Basic credentials are looked at decoded as well: a second coding may stand inside. What is seen twice counts once. */
static size_t look_at_basic(struct look *l, const struct header *h)
{
        uint8_t store[BASIC_BYTES_MAX];
        struct slice rest = h->value, user, password;
        ptrdiff_t blank = slice_find(rest, ' ');

        if (blank < 0 || !slice_iis(slice_first(rest, (size_t)blank), "basic") || !basic_decode(slice_skip(rest, (size_t)blank + 1), store, &user, &password))
                return 0;
        return look_at(l, "header", h->name, user) + look_at(l, "header", h->name, password);
}

static void look_at_headers(struct look *l, const char *field, const struct headers *headers)
{
        for (size_t i = 0; i < headers->n && l->reason == REASON_NONE; i++) {
                const struct header *h = &headers->at[i];
                size_t raw = look_at(l, field, h->name, h->value), decoded = 0;

                if (slice_is(h->name, "authorization") || slice_is(h->name, "proxy-authorization"))
                        decoded = look_at_basic(l, h);
                l->own += raw > decoded ? raw : decoded;
                l->own += look_at(l, field, SLICE_LIT("name"), h->name);
        }
}

/* What stays at this door (Proxy-Authorization above all) would not leave; who sends a placeholder in it means it to. */
static void look_at_rest(struct look *l, const struct headers *came)
{
        for (size_t i = 0; i < came->n && l->reason == REASON_NONE; i++) {
                const struct header *h = &came->at[i];
                char name[64];

                if (!h->name.n || h->name.p[0] == ':' || h->name.n >= sizeof(name))
                        continue;
                memcpy(name, h->name.p, h->name.n);
                name[h->name.n] = '\0';
                if (headers_find(&l->x->req->headers, name))
                        continue;
                l->own += look_at(l, "header", h->name, h->value);
                if (slice_is(h->name, "proxy-authorization"))
                        (void)look_at_basic(l, h);
        }
}

static size_t room_of(const struct headers *headers)
{
        size_t n = 0;

        for (size_t i = 0; i < headers->n; i++)
                n += headers->at[i].name.n + headers->at[i].value.n + 2;
        return n;
}

static uint8_t *put(uint8_t *at, struct slice s)
{
        if (s.n)
                memcpy(at, s.p, s.n);
        at[s.n] = 0;
        return at + s.n + 1;
}

/* `but`: what was put before, mostly in the same order. A value that is one of those, not merely like it, is not put again. */
static uint8_t *put_headers(uint8_t *at, const struct headers *headers, const struct headers *but)
{
        size_t next = 0;

        for (size_t i = 0; i < headers->n; i++) {
                struct slice value = headers->at[i].value;

                at = put(at, headers->at[i].name);
                if (next < but->n && value.p == but->at[next].value.p && value.n == but->at[next].value.n)
                        next++;
                else
                        at = put(at, value);
        }
        return at;
}

/* One look over the whole head, which nearly always finds nothing: its parts one behind the other, a zero byte between them, which is part of no spelling. Each part by itself is
 * looked at when there is something. Basic credentials are not decoded for it: what is coded twice within them is for the second look. */
static bool head_has_any(const struct exchange *x)
{
        static struct buf text; /* kept: one for each request costs more than the look */
        const struct request *r = x->req;
        struct slice parts[] = { r->method, r->target.path, r->target.query, r->protocol };
        size_t room = room_of(&r->headers) + room_of(&x->came);
        struct scan_hit hit;
        uint8_t *begin, *at;

        if (headers_find(&r->headers, "authorization") || headers_find(&x->came, "proxy-authorization"))
                return true;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                room += parts[i].n + 1;
        buf_clear(&text);
        begin = at = buf_reserve(&text, room);
        if (!begin)
                return true;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                at = put(at, parts[i]);
        at = put_headers(at, &r->headers, &(struct headers){ 0 });
        at = put_headers(at, &x->came, &r->headers);
        MUST((size_t)(at - begin) <= room);
        return scan_text(x->door->tokens, slice_of(begin, (size_t)(at - begin)), &hit);
}

static struct look look_begin(struct exchange *x)
{
        return (struct look){ .x = x, .s = { .to = &x->to, .via = x->req ? &x->verdict.via : NULL, .req = x->req, .flow = x->id } };
}

static void look_at_head(struct look *l)
{
        struct exchange *x = l->x;
        const struct request *r = x->req;

        if (!x->door->tokens)
                return;
        if (tripwire_name(x->door, x->to.name, x->to.port, x->id, "sni")) {
                l->reason = REASON_TRIPWIRE;
                return;
        }
        if (!head_has_any(x))
                return;
        l->own += look_at(l, "header", SLICE_LIT(":method"), r->method);
        l->own += look_at(l, "path", SLICE_EMPTY, r->target.path);
        l->own += look_at(l, "query", SLICE_EMPTY, r->target.query);
        l->own += look_at(l, "header", SLICE_LIT("upgrade"), r->protocol);
        look_at_headers(l, "header", &r->headers);
        look_at_rest(l, &x->came);
}

enum reason tripwire_head(struct exchange *x, size_t *own, struct account **whose)
{
        struct look l = look_begin(x);

        look_at_head(&l);
        *own = l.own;
        *whose = l.whose;
        return l.reason;
}

/* What is at home in a refused head has nothing to do with the refusal. */
static enum reason tripped(const struct look *l, enum reason otherwise)
{
        if (l->reason == REASON_NONE) {
                l->x->whose = NULL;
                return otherwise;
        }
        l->x->engine = tripwire_engine(l->reason);
        return l->reason;
}

enum reason tripwire_refused(struct exchange *x, enum reason otherwise)
{
        struct look l = look_begin(x);
        struct policy_via via = { .found = false };

        if (x->door->refuse != REASON_NONE) /* nothing at all goes anywhere */
                return otherwise;
        if (!x->verdict.allow) {
                decide_via(x, &via);
                l.s.via = &via;
        }
        look_at_head(&l);
        return tripped(&l, otherwise);
}

enum reason tripwire_unread(struct exchange *x, const struct headers *fields, struct slice bytes)
{
        struct look l = look_begin(x);

        if (!x->door->tokens || x->door->refuse != REASON_NONE)
                return REASON_NONE;
        if (fields)
                look_at_headers(&l, "header", fields);
        if (l.reason == REASON_NONE)
                (void)look_at(&l, "header", SLICE_EMPTY, bytes);
        return tripped(&l, REASON_NONE);
}

enum reason tripwire_trailers(struct exchange *x, const struct headers *h)
{
        struct look l = look_begin(x);

        if (!x->door->tokens || !h)
                return REASON_NONE;
        look_at_headers(&l, "trailer", h);
        return l.reason == REASON_NONE && l.own ? REASON_WRONG_FIELD : l.reason;
}

bool tripwire_name(struct door *d, struct slice name, uint16_t port, uint64_t flow, const char *field)
{
        struct authority to = { .name = name, .port = port };
        struct sighting s = { .to = &to, .flow = flow, .field = field };
        struct scan_hit hit;

        if (!d->tokens || name.n < SHORTEST || !scan_name(d->tokens, name, &hit))
                return false;
        (void)tripwire_off(d, &s, &hit);
        return true;
}

/* --- streams --- */

enum reason tripwire_datagram(struct exchange *x, struct slice s)
{
        struct look l = look_begin(x);

        if (!x->door->tokens)
                return REASON_NONE;
        l.own = look_at(&l, x->kind == EXCHANGE_ICMP ? "icmp" : "udp", SLICE_EMPTY, s);
        return l.reason == REASON_NONE && l.own ? REASON_WRONG_FIELD : l.reason;
}

static bool declares(const struct binding *b, enum account_slot slot)
{
        for (size_t i = 0; b && i < b->field_count; i++)
                if (b->fields[i].slot == slot)
                        return true;
        return false;
}

/* At home, in a stream: only where it is declared, as it is, once. */
static enum reason judge_own(struct exchange *x, const struct account *a, const struct stream_place *p, const struct scan_hit *hit)
{
        if (a != x->account || !p->as_it_is || hit->view != VIEW_PLAIN || !declares(accounts_binding(a), p->slot))
                return REASON_WRONG_FIELD;
        if (!x->https)
                return REASON_ACCOUNT_CLEARTEXT;
        return x->own_used ? REASON_PLACEHOLDER_TWICE : REASON_NONE;
}

enum hit_answer tripwire_stream(struct exchange *x, const struct stream_place *p, const struct scan_hit *hit, enum reason *reason)
{
        struct door *d = x->door;
        struct account *a = accounts_by_number(d, hit->number);
        struct look l = look_begin(x);
        bool home = tripwire_at_home(d, a, &l.s);

        l.s.field = p->field;
        x->whose = a;
        *reason = home ? judge_own(x, a, p, hit) : REASON_TRIPWIRE;
        if (*reason == REASON_NONE) {
                x->own_used = true;
                return HIT_PASS;
        }
        if (p->as_it_is && hit->in_json_string && x->req && policy_is_model_host(d->policy, x->to.name)) {
                events_account(x, a, NULL, "redacted", slice_str(p->field));
                return HIT_REDACT;
        }
        if (!home)
                *reason = tripwire_off(d, &l.s, hit);
        return HIT_REFUSE;
}

void tripwire_redact(uint8_t *hit, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint8_t c = ascii_lower(hit[i]);

                if (c == '\\') /* a line break may stand in it, as JSON spells it: it stays */
                        i++;
                else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
                        hit[i] = 'x';
        }
}

const char *tripwire_engine(enum reason r)
{
        switch ((int)r) {
        case REASON_TRIPWIRE:
                return "Tripwire";
        case REASON_FOREIGN_ACCOUNT:
        case REASON_WRONG_FIELD:
        case REASON_PLACEHOLDER_TWICE:
        case REASON_ACCOUNT_CLEARTEXT:
        case REASON_ACCOUNT_UPGRADE:
        case REASON_NOT_ANONYMOUS:
        case REASON_VAULT_LOCKED:
        case REASON_NO_SECRET:
                return "Credential";
        default:
                return NULL;
        }
}
