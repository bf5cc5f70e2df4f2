/* Accounts: see accounts.h. SECURITY: nothing here is a secret; a link is all that is given for an account, and only to exchanges of its hosts. */
#include "inner/accounts.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "inner/control.h"
#include "inner/link.h"

#include <stdlib.h>

/* --- the set of placeholders --- */

static bool add(struct token_set *t, const char *placeholder, int number)
{
        return !*placeholder || token_set_add(t, slice_str(placeholder), number) == 0;
}

/* What the policy binds has to fit; what was minted, the newest first, and accounts that are gone take what room there is: the outer door forgets the oldest tokens as well. */
static struct token_set *tokens_of(struct door *d)
{
        struct token_set *t = token_set_new();
        struct account *a;
        bool ok = t != NULL;

        TAILQ_FOREACH(a, &d->accounts, list)
                ok = ok && (a->index < 0 || add(t, a->placeholder, a->number));
        if (!ok) {
                token_set_free(t);
                return NULL;
        }
        for (unsigned age = 0; age < ACCOUNT_MINTED; age++)
                TAILQ_FOREACH(a, &d->accounts, list)
                        if (age < a->minted_count)
                                (void)add(t, a->minted[(a->minted_count - 1 - age) % ACCOUNT_MINTED], a->number);
        TAILQ_FOREACH(a, &d->accounts, list)
                if (a->index < 0)
                        (void)add(t, a->placeholder, a->number);
        return t;
}

static int tokens_renew(struct door *d)
{
        struct token_set *t = tokens_of(d);

        if (!t)
                return -1;
        token_set_free(d->tokens);
        d->tokens = t;
        if (token_set_count(t) == 0) {
                token_set_free(t);
                d->tokens = NULL;
        }
        return 0;
}

void accounts_minted(struct account *a, struct slice placeholder)
{
        char *at = a->minted[a->minted_count % ACCOUNT_MINTED];

        if (!placeholder_ok(placeholder) || placeholder.n > PLACEHOLDER_BYTES_MAX)
                return;
        memcpy(at, placeholder.p, placeholder.n);
        at[placeholder.n] = '\0';
        a->minted_count++;
        /* SECURITY: without room or memory the guest would hold a token that nobody looks for. */
        if (tokens_renew(a->door) < 0) {
                log_error("a minted token finds no room");
                a->door->quit = true;
        }
}

static struct slice minted_find(const struct account *a, struct slice placeholder)
{
        for (unsigned i = 0; placeholder.n && i < a->minted_count && i < ACCOUNT_MINTED; i++)
                if (slice_is(placeholder, a->minted[i]))
                        return slice_str(a->minted[i]);
        return SLICE_EMPTY;
}

struct slice accounts_minted_in(const struct account *a, const struct request *req)
{
        for (size_t i = 0; a->minted_count && i < req->headers.n; i++) {
                const struct header *h = &req->headers.at[i];
                ptrdiff_t blank = slice_is(h->name, "authorization") ? slice_find(h->value, ' ') : -1;
                struct slice found = blank < 0 ? SLICE_EMPTY : minted_find(a, slice_skip(h->value, (size_t)blank + 1));

                if (found.n)
                        return found;
        }
        return SLICE_EMPTY;
}

/* --- which there are --- */

static struct account *by_name(struct door *d, struct slice name)
{
        struct account *a;

        TAILQ_FOREACH(a, &d->accounts, list)
                if (slice_is(name, a->name))
                        return a;
        return NULL;
}

struct account *accounts_by_number(struct door *d, int number)
{
        struct account *a;

        TAILQ_FOREACH(a, &d->accounts, list)
                if (a->number == number)
                        return a;
        return NULL;
}

static struct account *account_new(struct door *d, struct slice name)
{
        struct account *a = calloc(1, sizeof(*a)), *last = TAILQ_LAST(&d->accounts, account_list);

        if (!a || !(a->name = strndup((const char *)name.p, name.n))) {
                free(a);
                return NULL;
        }
        a->door = d;
        a->number = last ? last->number + 1 : 0;
        TAILQ_INIT(&a->waiting);
        TAILQ_INSERT_TAIL(&d->accounts, a, list);
        return a;
}

/* A credential that got another name: its placeholder is the new one's. */
static void forget_renamed(struct door *d)
{
        struct account *gone, *a;

        TAILQ_FOREACH(gone, &d->accounts, list)
                TAILQ_FOREACH(a, &d->accounts, list)
                        if (gone->index < 0 && a->index >= 0 && !strcmp(gone->placeholder, a->placeholder))
                                gone->placeholder[0] = '\0';
}

int accounts_policy(struct door *d)
{
        struct account *a;

        TAILQ_FOREACH(a, &d->accounts, list)
                a->index = -1;
        for (size_t i = 0; i < policy_account_count(d->policy); i++) {
                const struct binding *b = policy_account_at(d->policy, i);

                a = by_name(d, b->name);
                if (!a && !(a = account_new(d, b->name)))
                        return -1;
                a->index = (int)i;
                MUST(b->placeholder.n < sizeof(a->placeholder));
                if (b->placeholder.n)
                        memcpy(a->placeholder, b->placeholder.p, b->placeholder.n);
                a->placeholder[b->placeholder.n] = '\0';
        }
        forget_renamed(d);
        return tokens_renew(d);
}

struct account *accounts_of(struct door *d, const struct authority *to, const struct policy_via *via)
{
        struct slice name = via && via->found ? via->name : to->name;
        int i = !name.n ? -1 : policy_account_of(d->policy, name, via && via->found ? via->port : to->port);
        struct account *a;

        if (i < 0)
                return NULL;
        a = TAILQ_FIRST(&d->accounts);
        while (a && a->index != i)
                a = TAILQ_NEXT(a, list);
        MUST(a); /* SECURITY: NULL would mean the plain door */
        return a;
}

const struct binding *accounts_binding(const struct account *a)
{
        return a->index < 0 ? NULL : policy_account_at(a->door->policy, (size_t)a->index);
}

/* --- their doors --- */

void accounts_want(struct account *a)
{
        if (link_takes(a->link) || a->asked)
                return;
        a->asked = true;
        a->asked_ms = clock_mono_ms();
        control_tell(a->door, json_pack("{s:s, s:s}", "op", "account", "account", a->name));
}

int accounts_start(struct exchange *x, enum reason *reason)
{
        struct account *a = x->account;

        *reason = REASON_OUTER_GONE;
        if (link_takes(a->link))
                return exchange_start_on(x, a->link);
        if (a->waiting_count >= ACCOUNT_WAITING) {
                *reason = REASON_LIMIT;
                return -1;
        }
        x->stage = STAGE_WAITING;
        TAILQ_INSERT_TAIL(&a->waiting, x, waiting);
        a->waiting_count++;
        accounts_want(a);
        return 0;
}

void accounts_forget(struct exchange *x)
{
        if (x->stage != STAGE_WAITING)
                return;
        x->stage = STAGE_HELD; /* as one that waits: its verdict is still to be recorded */
        TAILQ_REMOVE(&x->account->waiting, x, waiting);
        x->account->waiting_count--;
}

static void refuse_waiting(struct account *a, enum reason reason)
{
        struct exchange *x;

        a->asked = false;
        while ((x = TAILQ_FIRST(&a->waiting))) {
                accounts_forget(x);
                exchange_cut(x, reason, SLICE_EMPTY);
        }
}

int accounts_link(struct door *d, const char *name, int fd)
{
        struct account *a = by_name(d, slice_str(name));
        struct link *l;
        struct exchange *x;

        if (!a) {
                fd_close(&fd);
                return -1;
        }
        l = link_open(d, fd, a);
        if (!l)
                return -1;
        link_close(a->link); /* one that ended, or that ends as its successor comes */
        a->link = l;
        a->asked = false;
        while ((x = TAILQ_FIRST(&a->waiting))) {
                accounts_forget(x);
                if (exchange_start_on(x, a->link) < 0)
                        exchange_cut(x, REASON_OUTER_GONE, SLICE_EMPTY);
        }
        return 0;
}

void accounts_no_link(struct door *d, const char *name, const char *reason)
{
        struct account *a = by_name(d, slice_str(name));

        if (a)
                refuse_waiting(a, !strcmp(reason, "locked") ? REASON_VAULT_LOCKED : !strcmp(reason, "no-secret") ? REASON_NO_SECRET : REASON_OUTER_GONE);
}

void accounts_tick(struct door *d, int64_t now_ms)
{
        struct account *a;

        TAILQ_FOREACH(a, &d->accounts, list)
                if (a->asked && now_ms - a->asked_ms >= ACCOUNT_WAIT_MS)
                        refuse_waiting(a, REASON_OUTER_GONE);
}

bool accounts_turn_end(struct door *d)
{
        struct account *a;
        bool any = false;

        TAILQ_FOREACH(a, &d->accounts, list)
                any = link_turn_end(a->link) || any;
        return any;
}
