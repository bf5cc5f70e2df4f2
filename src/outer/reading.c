/* Exchanges under a profile: see reading.h. */
#include "outer/reading.h"

#include "base/clock.h"
#include "outer/budget.h"
#include "outer/named.h"
#include "rules/profile.h"
#include <stdio.h>
#include <stdlib.h>

struct reading {
        struct exchange *ex;
        enum policy_profile profile;
        struct slice registry, repository; /* in the exchange's memory */
        struct question question;
        bool sent;
        bool rewrites, is_open; /* a git body; it may go */
        struct git_body body;
        struct named_body asks; /* as it is known to named.h */
        bool learns;
        struct git_answer answer;
};

void reading_free(struct reading *r)
{
        if (!r)
                return;
        reading_fail(r->ex, REASON_NONE); /* the guest left */
        free(r);
}

bool reading_fits(const struct exchange *ex, const struct decision *d) { return d->profile == (ex->reading ? ex->reading->profile : PROFILE_NONE); }

const char *reading_problem(const struct exchange *ex) { return ex->reading ? ex->reading->body.problem : NULL; }

/* ---- the request ---------------------------------------------------------------------------------------------------------------------------------- */

/* "host:port" and, of git, the repository behind it. */
static int name_it(struct reading *r)
{
        static const struct slice refs = SLICE_LIT("/info/refs"), pack = SLICE_LIT("/git-upload-pack");
        struct exchange *ex = r->ex;
        struct slice path = ex->req.target.path, tail = slice_ends(path, pack) ? pack : refs, host;
        char literal[ADDR_TEXT_BYTES + 2], port[8];
        bool ok = true;
        struct buf name;

        host = decide_host(&ex->req, literal);
        snprintf(port, sizeof(port), ":%u", ex->req.authority.port);
        buf_init(&name, 0);
        buf_add_slice(&name, host);
        buf_add_str(&name, port);
        if (slice_ends(path, tail))
                buf_add_slice(&name, slice_first(path, path.n - tail.n));
        ok = !name.failed;
        r->repository = arena_copy(&ex->arena, buf_slice(&name), &ok);
        r->registry = slice_first(r->repository, host.n + strlen(port));
        buf_fini(&name);
        return ok ? 0 : -1;
}

static enum git_named named_of(void *ctx, enum git_use use, struct slice id)
{
        struct reading *r = ctx;
        struct outer *o = r->ex->outer;
        uint32_t misses = r->ex->decision.misses;

        switch (named_ask(o->named, r->repository, id, &r->asks, use)) {
        case NAMED_YES:
                return GIT_NAMED;
        case NAMED_AGAIN:
                return GIT_SAID;
        case NAMED_NO:
                break;
        }
        /* SECURITY: a guest could make it up. Where the rule counts misses, so many of those may go; of haves none, since without them a fetch is as good. */
        if (use == GIT_HAVE || !misses || !budget_take(o->budgets, r->registry, 1, misses, clock_mono_ms()))
                return GIT_UNNAMED;
        named_add(o->named, r->repository, id); /* said once, it says nothing new: a fetch repeats it in each round */
        (void)named_ask(o->named, r->repository, id, &r->asks, use);
        return GIT_NAMED;
}

static enum reason ask(struct reading *r)
{
        struct exchange *ex = r->ex;
        struct outer *o = ex->outer;
        uint32_t misses = ex->decision.misses ? ex->decision.misses : MISSES_HOUR;

        return budget_ask(o->budgets, r->registry, ex->req.target.path, misses, clock_mono_ms(), &r->question);
}

enum reason reading_begin(struct exchange *ex)
{
        static uint32_t number;
        struct outer *o = ex->outer;
        struct reading *r;

        if (ex->decision.profile == PROFILE_NONE)
                return REASON_NONE;
        o->named = o->named ? o->named : named_new();
        o->budgets = o->budgets ? o->budgets : budgets_new();
        r = o->named && o->budgets ? calloc(1, sizeof(*r)) : NULL;
        if (!r)
                return REASON_LIMIT;
        r->ex = ex;
        r->profile = ex->decision.profile;
        ex->reading = r;
        if (name_it(r) < 0)
                return REASON_LIMIT;
        r->rewrites = r->profile == PROFILE_GIT && ex->req.body != BODY_NONE;
        r->asks.number = ++number ? number : ++number;
        git_body_begin(&r->body, named_of, r);
        if (r->profile == PROFILE_GIT && slice_is(ex->req.method, "POST") && !r->rewrites) {
                r->body.problem = "git-upload-pack is asked with a body";
                return REASON_PROFILE;
        }
        return ask(r);
}

bool reading_rewrites(const struct exchange *ex) { return ex->reading && ex->reading->rewrites; }

enum reason reading_feed(struct exchange *ex, struct slice in, bool last)
{
        struct git_body *g = &ex->reading->body;

        if (git_body_feed(g, in, &ex->up) && (!last || git_body_end(g)))
                return REASON_NONE;
        return ex->up.failed ? REASON_LIMIT : REASON_PROFILE;
}

/* SECURITY: a body that is refused in the middle was not sent at all, if it is one of a usual length. */
bool reading_ready(struct exchange *ex)
{
        struct reading *r = ex->reading;

        if (!reading_rewrites(ex) || r->is_open)
                return true;
        if (!ex->up_ended && buf_len(&ex->up) < GIT_HOLD_BYTES)
                return false;
        r->is_open = true;
        ex->to.body = ex->up_ended ? BODY_LENGTH : BODY_CHUNKED;
        ex->to.length = buf_len(&ex->up);
        return true;
}

void reading_sent(struct exchange *ex)
{
        if (ex->reading)
                ex->reading->sent = true;
}

/* ---- the answer ----------------------------------------------------------------------------------------------------------------------------------- */

static void settle(struct reading *r, enum budget_end end) { budget_settle(r->ex->outer->budgets, &r->question, end, clock_mono_ms()); }

/* A redirect says that it is there where it leads to a package's file that lies elsewhere. A server that sends all of HTTP to HTTPS, or to its login, does so for
 * any name. */
static bool leads_to_file(const struct exchange *ex, const struct response *r)
{
        struct slice path = ex->req.target.path, to = headers_value(&r->headers, "location");

        return r->status >= 300 && r->status < 400 && slice_ends(path, SLICE_LIT(".tgz")) && to.n && !memmem(to.p, to.n, path.p, path.n);
}

/* A server says so of what is not there in many ways (401, 403, 404, 410): each says that the name arrived. One that is out of order or busy says nothing. */
static enum budget_end end_of(const struct exchange *ex, const struct response *r)
{
        int status = r->status;

        if ((status >= 200 && status < 300) || status == 304 || leads_to_file(ex, r))
                return BUDGET_FOUND;
        if (status >= 300 && status < 400)
                return BUDGET_MISSED;
        return status >= 400 && status < 500 && status != 408 && status != 429 ? BUDGET_MISSED : BUDGET_NOTHING;
}

static void learn(void *ctx, struct slice id)
{
        struct reading *r = ctx;

        named_add(r->ex->outer->named, r->repository, id);
}

void reading_head(struct exchange *ex, const struct response *r)
{
        struct reading *reading = ex->reading;

        if (!reading)
                return;
        settle(reading, end_of(ex, r));
        reading->learns = reading->rewrites && r->status == 200 && !headers_find(&r->headers, "content-encoding") &&
                          slice_is(headers_value(&r->headers, "content-type"), "application/x-git-upload-pack-result");
        git_answer_begin(&reading->answer, learn, reading);
}

bool reading_learns(const struct exchange *ex) { return ex->reading && ex->reading->learns && !ex->reading->answer.done; }

void reading_down(struct exchange *ex, struct slice in)
{
        if (reading_learns(ex))
                git_answer_feed(&ex->reading->answer, in);
}

/* What was sent and not answered did arrive, unless the world failed. */
void reading_fail(struct exchange *ex, enum reason reason)
{
        struct reading *r = ex->reading;
        bool world = reason >= REASON_UPSTREAM_DNS && reason <= REASON_UPSTREAM_PROXY;

        if (r && r->question.registry)
                settle(r, r->sent && !world ? BUDGET_MISSED : BUDGET_NOTHING);
}
