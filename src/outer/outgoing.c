/* Requests as they are written: see outgoing.h. */
#include "outer/outgoing.h"

#include "account/swap.h"
#include "outer/account.h"
#include "outer/events.h"
#include "outer/reading.h"
#include "rules/profile.h"
#include <openssl/ssl.h>

/* ---- where to ------------------------------------------------------------------------------------------------------------------------------- */

int outgoing_aim(struct exchange *ex)
{
        const struct policy_via *via = &ex->decision.via;
        bool ok = true;

        ex->to = (struct target){ .scheme = ex->req.scheme, .authority = ex->req.authority, .body = ex->req.body, .length = ex->req.length };
        if (!via->found)
                return 0;
        ex->to.scheme = SCHEME_HTTPS;
        ex->to.authority = (struct authority){ .name = arena_copy(&ex->arena, via->name, &ok), .port = via->port };
        ex->to.base = arena_copy(&ex->arena, via->base, &ok);
        return ok ? 0 : -1;
}

bool outgoing_is_aimed(const struct exchange *ex, const struct decision *d)
{
        if (!d->via.found || !ex->to.base.n)
                return d->via.found == (ex->to.base.n > 0);
        return ex->to.authority.port == d->via.port && slice_eq(ex->to.authority.name, d->via.name) && slice_eq(ex->to.base, d->via.base);
}

/* base + path without its first slash. */
static int put_base(struct arena *a, struct slice base, struct path *target)
{
        struct slice rest = slice_starts(target->path, SLICE_LIT("/")) ? slice_skip(target->path, 1) : target->path;
        uint8_t *p = arena_alloc(a, base.n + rest.n);

        if (!p)
                return -1;
        memcpy(p, base.p, base.n);
        if (rest.n)
                memcpy(p + base.n, rest.p, rest.n);
        target->path = slice_of(p, base.n + rest.n);
        target->slashed = SLICE_EMPTY;
        target->changed = true;
        return 0;
}

/* ---- fields ----------------------------------------------------------------------------------------------------------------------------------- */

enum { OUTGOING_SPARE = 4 }; /* fields that are added here and by swap_head */

static int copy_fields(struct arena *a, const struct headers *from, struct headers *to)
{
        struct header *at = arena_alloc_array(a, from->n + OUTGOING_SPARE, sizeof(*at));

        if (!at)
                return -1;
        if (from->n)
                memcpy(at, from->at, from->n * sizeof(*at));
        *to = (struct headers){ at, from->n };
        return 0;
}

static struct profile_field get_field(void *ctx, size_t i)
{
        const struct headers *h = ctx;

        return (struct profile_field){ h->at[i].name, h->at[i].value };
}

/* What a reader of that protocol sends, and nothing of the guest's. */
static int rebuild(const struct exchange *ex, struct arena *a, struct request *out)
{
        const struct decision *d = &ex->decision;
        struct profile_field fields[PROFILE_FIELDS_MAX];
        const char *problem;
        int n = profile_fields(d->profile, out->method, out->headers.n, get_field, &out->headers, d->binding && !d->via.found, fields, &problem);
        struct header *at = n < 0 ? NULL : arena_alloc_array(a, (size_t)n + OUTGOING_SPARE, sizeof(*at));

        if (!at)
                return -1;
        for (int i = 0; i < n; i++)
                at[i] = (struct header){ fields[i].name, fields[i].value };
        out->headers = (struct headers){ at, (size_t)n };
        out->te_trailers = false;
        return 0;
}

/* Does the client take gzip (RFC 9110 §12.5.3)? Weights but 0 mean the same to us. */
static bool takes_gzip(const struct headers *h)
{
        for (size_t i = 0; i < h->n; i++) {
                struct slice rest = h->at[i].value, element;

                if (!slice_is(h->at[i].name, "accept-encoding"))
                        continue;
                while (list_next(&rest, &element)) {
                        ptrdiff_t semi = slice_find(element, ';');
                        struct slice name = field_trim(slice_first(element, semi < 0 ? element.n : (size_t)semi));
                        struct slice weight = semi < 0 ? SLICE_EMPTY : field_trim(slice_skip(element, (size_t)semi + 1));

                        if (slice_iis(name, "gzip"))
                                return !slice_is(weight, "q=0") && !slice_starts(weight, SLICE_LIT("q=0.0"));
                }
        }
        return false;
}

/* SECURITY: of what is looked at on its way back all must come, and in a coding that is read here: no parts (Range), no differences (A-IM). */
static void narrow(const struct exchange *ex, struct request *out)
{
        static const char *const dropped[] = { "accept-encoding", "range", "if-range", "a-im" };
        bool gzip = takes_gzip(&out->headers), websocket = ex->kind == KIND_WEBSOCKET;
        size_t n = 0;

        for (size_t i = 0; i < out->headers.n; i++) {
                struct header h = out->headers.at[i];
                bool drop = websocket && slice_is(h.name, "sec-websocket-extensions");

                for (size_t k = 0; k < sizeof(dropped) / sizeof(dropped[0]); k++)
                        drop = drop || slice_is(h.name, dropped[k]);
                if (!drop)
                        out->headers.at[n++] = h;
        }
        out->headers.at[n++] = (struct header){ SLICE_LIT("accept-encoding"), gzip ? SLICE_LIT("gzip") : SLICE_LIT("identity") };
        out->headers.n = n;
}

/* ---- the secret ------------------------------------------------------------------------------------------------------------------------------- */

/* SECURITY: was this connection's certificate verified for that very host? */
static bool is_verified(const struct conn *c, const struct authority *to)
{
        return c->tls && c->ssl && SSL_is_init_finished(c->ssl) && SSL_get0_peer_certificate(c->ssl) && SSL_get_verify_result(c->ssl) == X509_V_OK && !to->is_addr &&
               !c->to.is_addr && c->to.port == to->port && slice_eq(c->to.name, to->name);
}

static struct slice minted_of(const struct exchange *ex) { return account_minted_in(ex->outer->account, &ex->req); }

static int put_secret(struct exchange *ex, const struct conn *c, struct arena *a, struct request *out, const char **why)
{
        struct slice minted = minted_of(ex);
        struct decide_self self = { .minted = minted };
        struct binding b = decide_binding(&self, ex->decision.binding);
        struct account_use use;

        account_check(&b, out, &use);
        if (use.reason != ACCOUNT_OK) {
                *why = account_reason_sentence(use.reason);
                return -1;
        }
        if (!use.used && !ex->swap)
                return 0;
        if (!is_verified(c, &out->authority)) {
                *why = "the connection was not verified for the account's host";
                return -1;
        }
        if (use.used && swap_head(a, &b, &use, account_secret(ex->outer->account, minted), out) < 0) {
                *why = "the secret cannot be put where its placeholder stands";
                return -1;
        }
        ex->secret_field = use.used ? use.field : (struct account_field){ .slot = SLOT_COUNT };
        ex->secret_went = use.used || exchange_uses_account(ex, &ex->decision);
        if (ex->secret_went && account_used(ex->outer->account, out->authority.name))
                events_used(ex->outer->events, ex);
        return 0;
}

int outgoing_make(struct exchange *ex, const struct conn *c, struct arena *scratch, struct request *out, const char **why)
{
        const struct decision *d = &ex->decision;

        *why = "out of memory";
        reading_sent(ex);
        *out = ex->req;
        out->body = ex->to.body;
        out->length = ex->to.length;
        if (!d->binding && !d->via.found && d->profile == PROFILE_NONE)
                return 0;
        if (d->profile != PROFILE_NONE ? rebuild(ex, scratch, out) < 0 : copy_fields(scratch, &ex->req.headers, &out->headers) < 0)
                return -1;
        if (d->via.found) {
                out->scheme = ex->to.scheme;
                out->authority = ex->to.authority;
                if (put_base(scratch, ex->to.base, &out->target) < 0)
                        return -1;
        }
        if ((d->via.found || (d->binding && d->binding->attach)) && account_strip(scratch, out) < 0)
                return -1;
        if (d->via.found || d->binding)
                narrow(ex, out);
        return d->binding ? put_secret(ex, c, scratch, out, why) : 0;
}

bool outgoing_is_secret(const struct exchange *ex, const struct header *h)
{
        if (!ex->secret_went)
                return false;
        switch (ex->secret_field.slot) {
        case SLOT_AUTHORIZATION:
        case SLOT_BASIC:
                return slice_is(h->name, "authorization");
        case SLOT_HEADER:
                return slice_eq(h->name, ex->secret_field.name);
        case SLOT_QUERY:
                return slice_is(h->name, ":path");
        case SLOT_BODY:
        case SLOT_WEBSOCKET:
        case SLOT_COUNT:
                break;
        }
        return false;
}
