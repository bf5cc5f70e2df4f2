/* The account of this door: see account.h. */
#include "outer/account.h"

#include "account/swap.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/secret.h"
#include "outer/control.h"
#include "outer/budget.h"
#include "outer/link.h"
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct token {
        uint8_t *secret; /* locked; NULL: free */
        size_t secret_n;
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
        int64_t until_ms;
};

struct use {
        char host[HOST_BYTES_MAX + 1];
        uint64_t count; /* not told yet */
};

struct account {
        struct outer *outer;
        char name[128];
        uint8_t *secret; /* locked, with room for the largest */
        size_t secret_n;
        char placeholder[PLACEHOLDER_BYTES_MAX + 1]; /* what the mask puts in the secret's place */
        struct account_mask *mask;
        struct token tokens[REGISTRY_TOKENS_MAX];
        struct realms realms;
        size_t token_count; /* places that were ever taken: most accounts mint none, and are asked for each request */
        struct use uses[ACCOUNT_HOSTS_MAX];
        size_t use_count;
        struct event *tick;
        int64_t idle_since_ms;
        bool told_idle;
};

/* ---- the secret --------------------------------------------------------------------------------------------------------------------------- */

/* To the end of the pipe, into locked memory that is never moved. */
static int read_secret(struct account *a, int fd, struct err *err)
{
        ssize_t n = 1;

        a->secret = secret_alloc(SECRET_BYTES_MAX + 1);
        if (!a->secret)
                return err_set(err, "no memory can be locked for the secret: raise the limit on locked memory (ulimit -l)");
        while (n > 0 && a->secret_n <= SECRET_BYTES_MAX) {
                struct pollfd ready = { .fd = fd, .events = POLLIN };

                if (poll(&ready, 1, CONTROL_START_MS) == 0)
                        break; /* bromed wrote it before it started us */
                n = read(fd, a->secret + a->secret_n, SECRET_BYTES_MAX + 1 - a->secret_n);
                if (n > 0)
                        a->secret_n += (size_t)n;
                else if (n < 0 && errno == EINTR)
                        n = 1;
        }
        if (n == 0 && a->secret_n > 0 && a->secret_n <= SECRET_BYTES_MAX)
                return 0;
        secret_free(a->secret, SECRET_BYTES_MAX + 1);
        return err_set(err, "the secret of %s could not be read", a->name);
}

/* What jansson parsed may hold a token: it is wiped as it is given back. */
static void json_wipe_free(void *p)
{
        if (p)
                explicit_bzero(p, malloc_usable_size(p));
        free(p);
}

struct account *account_open(const char *name, int secret_fd, struct err *err)
{
        struct account *a = calloc(1, sizeof(*a));

        json_set_alloc_funcs(malloc, json_wipe_free);
        if (a) {
                snprintf(a->name, sizeof(a->name), "%s", name);
                if (read_secret(a, secret_fd, err) < 0) {
                        free(a);
                        a = NULL;
                }
        } else
                err_set(err, "out of memory");
        fd_close(&secret_fd);
        return a;
}

struct slice account_name(const struct account *a) { return slice_str(a->name); }

/* ---- the mask ------------------------------------------------------------------------------------------------------------------------------ */

void account_mask_release(struct account_mask *m)
{
        if (!m || --m->holders)
                return;
        mask_free(m->mask);
        free(m);
}

struct account_mask *account_mask_hold(struct account *a)
{
        a->mask->holders++;
        return a->mask;
}

static struct slice token_secret(const struct token *t) { return slice_of(t->secret, t->secret_n); }

static int mask_fill(const struct account *a, struct mask *m)
{
        if (mask_add(m, slice_of(a->secret, a->secret_n), slice_str(a->placeholder)) < 0)
                return -1;
        for (size_t i = 0; i < a->token_count; i++)
                if (a->tokens[i].secret && mask_add(m, token_secret(&a->tokens[i]), slice_str(a->tokens[i].placeholder)) < 0)
                        return -1;
        return 0;
}

/* A new set in the old one's place; streams that began before keep theirs. */
static int mask_renew(struct account *a)
{
        struct account_mask *m = calloc(1, sizeof(*m));

        if (m)
                m->mask = mask_new();
        if (m && m->mask && a->mask)
                mask_share(m->mask, a->mask->mask);
        if (!m || !m->mask || mask_fill(a, m->mask) < 0) {
                if (m)
                        mask_free(m->mask);
                free(m);
                return -1;
        }
        mask_share(m->mask, NULL);
        m->holders = 1;
        account_mask_release(a->mask);
        a->mask = m;
        return 0;
}

int account_policy(struct account *a, const struct policy *p, struct err *err)
{
        struct slice placeholder = SLICE_EMPTY;
        const char *problem = NULL;

        for (size_t i = 0; i < policy_account_count(p); i++) {
                const struct binding *b = policy_account_at(p, i);

                if (!slice_eq(b->name, account_name(a)))
                        continue;
                placeholder = b->placeholder;
                problem = secret_problem(b->kind, slice_of(a->secret, a->secret_n));
        }
        if (problem)
                return err_set(err, "the secret of %s cannot be used: %s", a->name, problem);
        /* attach: there is none; what an origin echoes becomes a word that says so */
        if (placeholder.n == 0 || placeholder.n > PLACEHOLDER_BYTES_MAX)
                placeholder = SLICE_LIT("(secret)");
        if (a->mask && slice_is(placeholder, a->placeholder))
                return 0;
        snprintf(a->placeholder, sizeof(a->placeholder), "%.*s", SLICE_FMT(placeholder));
        return mask_renew(a) < 0 ? err_set(err, "out of memory") : 0;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------------------------------- */

const struct realms *account_realms(const struct account *a) { return &a->realms; }
void account_challenged(struct account *a, struct slice www_authenticate) { realms_learn(&a->realms, www_authenticate); }

static void token_drop(struct token *t)
{
        secret_free(t->secret, t->secret_n);
        *t = (struct token){ 0 };
}

/* A free place, or that of the token which ends first. */
static struct token *token_place(struct account *a)
{
        struct token *first = &a->tokens[0];

        for (size_t i = 0; i < a->token_count; i++) {
                if (!a->tokens[i].secret)
                        return &a->tokens[i];
                if (a->tokens[i].until_ms < first->until_ms)
                        first = &a->tokens[i];
        }
        if (a->token_count < REGISTRY_TOKENS_MAX)
                return &a->tokens[a->token_count++];
        token_drop(first);
        return first;
}

static int token_keep(struct account *a, const struct minted *m, int64_t now_ms)
{
        struct token *t = token_place(a);
        uint8_t *secret = secret_alloc(m->secret.n);

        if (!secret)
                return -1;
        memcpy(secret, m->secret.p, m->secret.n);
        *t = (struct token){ .secret = secret, .secret_n = m->secret.n, .until_ms = now_ms + (int64_t)m->expires_s * 1000 };
        memcpy(t->placeholder, m->placeholder, sizeof(t->placeholder));
        return 0;
}

int account_keep(struct account *a, const struct minted *minted, size_t count)
{
        int64_t now_ms = clock_mono_ms();

        for (size_t i = 0; i < count; i++)
                if (token_keep(a, &minted[i], now_ms) < 0)
                        return -1;
        return count ? mask_renew(a) : 0;
}

static const struct token *token_find(const struct account *a, struct slice placeholder)
{
        for (size_t i = 0; placeholder.n && i < a->token_count; i++)
                if (a->tokens[i].secret && slice_is(placeholder, a->tokens[i].placeholder))
                        return &a->tokens[i];
        return NULL;
}

struct slice account_minted_in(const struct account *a, const struct request *req)
{
        for (size_t i = 0; a->token_count && i < req->headers.n; i++) {
                const struct header *h = &req->headers.at[i];
                ptrdiff_t blank = slice_is(h->name, "authorization") ? slice_find(h->value, ' ') : -1;
                const struct token *t = blank < 0 ? NULL : token_find(a, slice_skip(h->value, (size_t)blank + 1));

                /* One that is past its time is sent too: the registry says so better than we could, and the client asks for another. */
                if (t)
                        return slice_str(t->placeholder);
        }
        return SLICE_EMPTY;
}

struct slice account_secret(const struct account *a, struct slice minted)
{
        const struct token *t = token_find(a, minted);

        return t ? token_secret(t) : slice_of(a->secret, a->secret_n);
}

/* ---- what bromed is told ---------------------------------------------------------------------------------------------------------------------- */

bool account_used(struct account *a, struct slice host)
{
        struct use *u = a->uses;

        while (u < a->uses + a->use_count && !slice_is(host, u->host))
                u++;
        if (u == a->uses + ACCOUNT_HOSTS_MAX)
                u = a->uses; /* hosts came and went with the rules: it is counted, if not by its name */
        if (u == a->uses + a->use_count) {
                a->use_count++;
                snprintf(u->host, sizeof(u->host), "%.*s", SLICE_FMT(host));
                u->count = 1;
                return true;
        }
        u->count++;
        return false;
}

static void tell_uses(struct account *a)
{
        for (size_t i = 0; i < a->use_count; i++) {
                struct use *u = &a->uses[i];

                if (!u->count)
                        continue;
                control_say(a->outer->control, json_pack("{s:s, s:I, s:s}", "op", "used", "count", (json_int_t)u->count, "host", u->host));
                u->count = 0;
        }
}

static bool token_is_good(const struct account *a, int64_t now_ms)
{
        for (size_t i = 0; i < a->token_count; i++)
                if (a->tokens[i].secret && a->tokens[i].until_ms > now_ms)
                        return true;
        return false;
}

/* Past their time, and past that of a client whose clock is late. */
static void tokens_expire(struct account *a, int64_t now_ms)
{
        bool any = false;

        for (size_t i = 0; i < a->token_count; i++)
                if (a->tokens[i].secret && now_ms - a->tokens[i].until_ms > ACCOUNT_TOKEN_GRACE_MS) {
                        token_drop(&a->tokens[i]);
                        any = true;
                }
        while (a->token_count && !a->tokens[a->token_count - 1].secret)
                a->token_count--;
        if (any)
                (void)!mask_renew(a); /* without memory the old one masks more than it need */
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
        struct account *a = arg;
        int64_t now_ms = clock_mono_ms();

        (void)fd;
        (void)what;
        tell_uses(a);
        tokens_expire(a, now_ms);
        /* SECURITY: what was asked in vain stays counted as long as it counts. */
        if (link_streams(a->outer->link) || token_is_good(a, now_ms) || (a->outer->budgets && budgets_matter(a->outer->budgets, now_ms)))
                a->idle_since_ms = now_ms;
        else if (now_ms - a->idle_since_ms >= ACCOUNT_IDLE_MS && !a->told_idle && link_leave(a->outer->link)) {
                a->told_idle = true; /* it is ended then: a stream that comes yet goes to the next door */
                control_say(a->outer->control, json_pack("{s:s}", "op", "idle"));
        }
}

int account_start(struct account *a, struct outer *o)
{
        static const struct timeval often = { ACCOUNT_TICK_MS / 1000, ACCOUNT_TICK_MS % 1000 * 1000 };

        a->outer = o;
        a->idle_since_ms = clock_mono_ms();
        a->tick = event_new(o->base, -1, EV_PERSIST, on_tick, a);
        return a->tick && event_add(a->tick, &often) == 0 ? 0 : -1;
}
