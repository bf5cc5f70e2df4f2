/* Vetting: see vet.h. SECURITY: nothing of the request has left when this is asked. */
#include "inner/vet.h"
#include "account/check.h"
#include "inner/events.h"
#include "inner/hold.h"
#include "inner/tripwire.h"
#include "inner/ws.h"
#include "rules/profile.h"

#include <stdio.h>

/* --- accounts --- */

static const enum reason reasons[ACCOUNT_REASON_COUNT] = {
        [ACCOUNT_OK] = REASON_NONE,
        [ACCOUNT_FOREIGN] = REASON_FOREIGN_ACCOUNT,
        [ACCOUNT_WRONG_FIELD] = REASON_WRONG_FIELD,
        [ACCOUNT_TWICE] = REASON_PLACEHOLDER_TWICE,
        [ACCOUNT_CLEARTEXT] = REASON_ACCOUNT_CLEARTEXT,
        [ACCOUNT_UPGRADE] = REASON_ACCOUNT_UPGRADE,
        [ACCOUNT_UNDECODABLE] = REASON_FOREIGN_ACCOUNT,
        [ACCOUNT_OTHER_USER] = REASON_FOREIGN_ACCOUNT,
        [ACCOUNT_NOT_ANONYMOUS] = REASON_NOT_ANONYMOUS,
};

static const char *field_text(char *out, size_t size, const struct account_field *f)
{
        enum { NAME_SHOWN = 64 };
        int n = (int)(f->name.n < NAME_SHOWN ? f->name.n : NAME_SHOWN);

        switch (f->slot) {
        case SLOT_AUTHORIZATION:
        case SLOT_BASIC:
                return "header authorization";
        case SLOT_HEADER:
                snprintf(out, size, "header %.*s", n, (const char *)f->name.p);
                return out;
        case SLOT_QUERY:
                snprintf(out, size, "query %.*s", n, (const char *)f->name.p);
                return out;
        case SLOT_BODY:
                return "body";
        case SLOT_WEBSOCKET:
                return "websocket";
        case SLOT_COUNT:
                break;
        }
        return "path";
}

static enum reason wrong(struct exchange *x, const struct account_use *u)
{
        char name[96], text[256];
        bool ok = true;
        int n = snprintf(text, sizeof(text), "%s: %s", field_text(name, sizeof(name), &u->field), account_reason_sentence(u->reason));

        x->detail = arena_copy(&x->arena, slice_of(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1), &ok);
        return reasons[u->reason];
}

/* The request as it goes to a bound host: where it is re-routed to. */
static struct request as_routed(const struct exchange *x)
{
        struct request r = *x->req;

        if (x->verdict.via.found) {
                r.authority = (struct authority){ .name = x->verdict.via.name, .port = x->verdict.via.port };
                r.scheme = SCHEME_HTTPS;
        }
        return r;
}

/* Once for a host and a class. */
static bool told_before(struct door *d, const struct authority *to, const char *text)
{
        uint64_t h = 14695981039346656037u; /* FNV-1a: a collision costs one line */

        for (const char *c = text; *c; c++)
                h = (h ^ (uint8_t)*c) * 1099511628211u;
        for (size_t i = 0; i < to->name.n; i++)
                h = (h ^ to->name.p[i]) * 1099511628211u;
        for (size_t i = 0; i < LEAKS_KEPT; i++)
                if (d->leaks[i] == h)
                        return true;
        d->leaks[d->leak_count++ % LEAKS_KEPT] = h;
        return false;
}

/* Of a host without a binding: someone else's key is told, not refused. */
static void warn_of_leak(struct exchange *x, const struct account_use *u)
{
        char name[96], text[160];

        if (!u->leak)
                return;
        snprintf(text, sizeof(text), "%s: %s", field_text(name, sizeof(name), &u->leak_field), u->leak_preview);
        if (told_before(x->door, &x->to, text))
                return;
        events_account(x, NULL, NULL, "leak", slice_str(text));
}

/* The account's binding as this request uses it: a token that was minted in an answer stands in the placeholder's place. NULL: no account. */
static const struct binding *binding_of(const struct account *a, const struct request *req, struct binding *effective)
{
        const struct binding *b = a ? accounts_binding(a) : NULL;
        struct slice minted = b ? accounts_minted_in(a, req) : SLICE_EMPTY;

        if (!minted.n)
                return b;
        *effective = *b;
        effective->placeholder = minted;
        return effective;
}

static enum reason check_account(struct exchange *x)
{
        struct request routed = as_routed(x);
        struct binding effective;
        struct account *whose;
        struct account_use u;
        const struct binding *b;
        size_t own;

        if (tripwire_head(x, &own, &whose) != REASON_NONE)
                return REASON_TRIPWIRE;
        if (x->verdict.anonymous) {
                account_check_anonymous(x->req, &u);
                if (u.reason != ACCOUNT_OK)
                        return wrong(x, &u);
        }
        /* Its own host on another port is no host of the account, but its placeholder is refused there by the same rules. */
        b = binding_of(x->account ? x->account : own ? whose : NULL, x->req, &effective);
        account_check(b, &routed, &u);
        if (u.reason != ACCOUNT_OK)
                return wrong(x, &u);
        if (!b)
                warn_of_leak(x, &u);
        if (own > 1 || (own && !(u.used && !b->attach))) { /* seen in a spelling that nobody swaps, or in two places */
                u.reason = own > 1 ? ACCOUNT_TWICE : ACCOUNT_WRONG_FIELD;
                return wrong(x, &u);
        }
        x->own_used = own != 0;
        return REASON_NONE;
}

/* --- profiles --- */

static struct profile_field field_at(void *ctx, size_t i)
{
        const struct header *h = &((const struct request *)ctx)->headers.at[i];

        return (struct profile_field){ h->name, h->value };
}

static enum reason rebuild(struct exchange *x)
{
        struct profile_field out[PROFILE_FIELDS_MAX];
        const char *problem = NULL;
        struct request *r = x->req;
        int n = profile_fields(x->verdict.profile, r->method, r->headers.n, field_at, r, x->account != NULL, out, &problem);
        struct header *at = n < 0 ? NULL : arena_alloc_array(&x->arena, PROFILE_FIELDS_MAX + HEADERS_SPARE, sizeof(*at));

        if (!at) {
                x->detail = slice_str(problem ? problem : "out of memory");
                return REASON_PROFILE;
        }
        for (int i = 0; i < n; i++)
                at[i] = (struct header){ out[i].name, out[i].value };
        r->headers = (struct headers){ at, (size_t)n };
        r->te_trailers = false;
        x->drop_trailers = true;
        return REASON_NONE;
}

/* SECURITY: packed frames are not looked into, so packing is not offered; the server then has nothing to agree to. */
static void strike_extensions(struct exchange *x)
{
        struct headers *h = &x->req->headers;
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++)
                if (!slice_is(h->at[i].name, "sec-websocket-extensions"))
                        h->at[n++] = h->at[i];
        h->n = n;
        x->plain_frames = true;
}

static enum reason vet(struct exchange *x)
{
        enum reason reason;

        x->account = accounts_of(x->door, &x->to, &x->verdict.via);
        reason = check_account(x);
        if (reason == REASON_NONE && x->verdict.profile != PROFILE_NONE)
                reason = rebuild(x);
        if (reason == REASON_NONE && x->req->upgrade == WIRE_UPGRADE_WEBSOCKET && x->door->tokens) {
                strike_extensions(x);
                if (!(x->guard = ws_guard_new(x)))
                        reason = REASON_LIMIT;
        }
        return reason == REASON_NONE ? hold_begin(x) : reason;
}

enum reason vet_request(struct exchange *x)
{
        enum reason reason = vet(x);

        x->engine = tripwire_engine(reason);
        return reason;
}

/* --- after a change --- */

static bool same_via(const struct policy_via *a, const struct policy_via *b)
{
        return a->found == b->found && (!a->found || (a->port == b->port && slice_eq(a->name, b->name) && slice_eq(a->base, b->base)));
}

/* Is it looked at as it must be where there are placeholders now? Bytes that went before could not have been known. */
static bool still_looked_at(const struct exchange *x)
{
        if (!x->door->tokens || x->up_ended || x->kind == EXCHANGE_UDP || x->kind == EXCHANGE_ICMP)
                return true;
        return x->hold || x->guard || (x->kind == EXCHANGE_HTTP && x->req->body == BODY_NONE && x->req->upgrade == WIRE_UPGRADE_NONE);
}

bool vet_again(struct exchange *x, const struct policy_verdict *v)
{
        const struct policy_verdict *old = &x->verdict;
        struct account_use u = { .reason = ACCOUNT_OK };

        if (accounts_of(x->door, &x->to, x->req ? &v->via : NULL) != x->account || !still_looked_at(x))
                return false;
        if (v->ask && !old->ask)
                return false; /* a person was not asked for it */
        if (!x->req)
                return true;
        if (!same_via(&v->via, &old->via) || v->profile != old->profile)
                return false;
        if (v->anonymous && !old->anonymous)
                account_check_anonymous(x->req, &u);
        return u.reason == ACCOUNT_OK;
}
