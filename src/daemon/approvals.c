/* Approvals: see approvals.h. Three lists; an approval turns into a grant or a denial, or ends. */
#include "daemon/approvals.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request_kept {
        uint8_t digest[APPROVAL_DIGEST_BYTES];
        char *method, *path;
        size_t count;      /* uses that came with it */
        bool body, single; /* single: one use and no other, see approvals.h */
        bool gone;         /* a single one whose use waits no more: it stays in its place, as a person may have been shown it there */
};

struct use_kept {
        void *door;
        uint64_t id;
        size_t request; /* index; APPROVAL_REQUESTS: beyond what is kept */
        int64_t due_ms;
};

struct approval {
        uint64_t id;
        struct approval_key key; /* name: own */
        struct request_kept *requests;
        size_t request_count, request_cap;
        size_t shown, listed; /* of the requests: told to anybody; told in the newest listing (0: none yet) */
        struct use_kept *uses;
        size_t use_count, use_cap;
        int64_t since_us, due_ms;
        int64_t news_ms; /* when its growth may be told; 0: told */
        int64_t told_ms;
};

enum kept_kind { KEPT_ONCE, KEPT_TIMED, KEPT_SESSION, KEPT_DENIAL };

struct digest_kept {
        uint8_t digest[APPROVAL_DIGEST_BYTES];
        bool good; /* the retry was not taken yet */
};

/* A grant or a denial. */
struct kept {
        uint64_t id;
        struct approval_key key; /* name: own */
        enum kept_kind kind;
        int64_t due_ms; /* not of the session's */
        size_t used;
        struct digest_kept *digests; /* of KEPT_ONCE */
        size_t digest_count;
};

struct approvals {
        const struct approvals_calls *calls;
        void *ctx;
        uint64_t last_id;
        struct approval **waiting;
        size_t waiting_count, waiting_cap;
        struct kept **kept;
        size_t kept_count, kept_cap;
};

static const char *const answers[] = { [APPROVAL_ALLOW] = "allow", [APPROVAL_DENY] = "deny", [APPROVAL_EXPIRED] = "expired", [APPROVAL_NOBODY] = "nobody" };
static const struct {
        const char *name, *words;
        enum kept_kind kind;
        int64_t ms;
} terms[APPROVAL_TERM_COUNT] = {
        [APPROVAL_ONCE] = { "once", "once", KEPT_ONCE, APPROVAL_RETRY_MS },
        [APPROVAL_5M] = { "5m", "for 5 minutes", KEPT_TIMED, 5 * 60 * 1000 },
        [APPROVAL_1H] = { "1h", "for 1 hour", KEPT_TIMED, 60 * 60 * 1000 },
        [APPROVAL_SESSION] = { "session", "for this session", KEPT_SESSION, 0 },
};

const char *approval_answer_name(enum approval_answer a) { return answers[a]; }
const char *approval_term_name(enum approval_term t) { return terms[t].name; }

enum approval_term approval_term_by_name(const char *name)
{
        for (int i = 0; name && i < APPROVAL_TERM_COUNT; i++)
                if (strcmp(name, terms[i].name) == 0)
                        return (enum approval_term)i;
        return APPROVAL_TERM_COUNT;
}

/* --- memory: bounded by the limits; running out of it is the end of bromed --- */

static void *grown(void *list, size_t *cap, size_t count, size_t size)
{
        if (count < *cap)
                return list;
        *cap = *cap ? 2 * *cap : 8;
        list = reallocarray(list, *cap, size);
        MUST(list);
        return list;
}

static char *copied(const char *s)
{
        char *copy = strdup(s);

        MUST(copy);
        return copy;
}

static bool same_key(const struct approval_key *a, const struct approval_key *b)
{
        return a->port == b->port && a->rule == b->rule && strcmp(a->workspace, b->workspace) == 0 && strcmp(a->host, b->host) == 0 &&
               strcmp(a->name, b->name) == 0;
}

static void approval_free(struct approval *ap)
{
        for (size_t i = 0; i < ap->request_count; i++) {
                free(ap->requests[i].method);
                free(ap->requests[i].path);
        }
        free(ap->requests);
        free(ap->uses);
        free((char *)(uintptr_t)ap->key.name);
        free(ap);
}

static void kept_free(struct kept *k)
{
        free(k->digests);
        free((char *)(uintptr_t)k->key.name);
        free(k);
}

static void waiting_remove(struct approvals *a, size_t i)
{
        approval_free(a->waiting[i]);
        a->waiting[i] = a->waiting[--a->waiting_count];
}

static void kept_remove(struct approvals *a, size_t i)
{
        kept_free(a->kept[i]);
        memmove(&a->kept[i], &a->kept[i + 1], (--a->kept_count - i) * sizeof(struct kept *)); /* the order is their age */
}

struct approvals *approvals_new(const struct approvals_calls *calls, void *ctx, uint64_t last_id)
{
        struct approvals *a = calloc(1, sizeof(*a));

        if (a)
                *a = (struct approvals){ .calls = calls, .ctx = ctx, .last_id = last_id };
        return a;
}

void approvals_free(struct approvals *a)
{
        if (!a)
                return;
        while (a->waiting_count)
                waiting_remove(a, 0);
        while (a->kept_count)
                kept_remove(a, a->kept_count - 1);
        free(a->waiting);
        free(a->kept);
        free(a);
}

/* Reads, as far as method and body say. */
static bool only_reads(const struct approval_request *r)
{
        static const char *const methods[] = { "GET", "HEAD", "OPTIONS" };

        for (size_t i = 0; !r->body && i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(r->method, methods[i]) == 0)
                        return true;
        return false;
}

static void request_remove(struct approval *ap, size_t i)
{
        free(ap->requests[i].method);
        free(ap->requests[i].path);
        memmove(&ap->requests[i], &ap->requests[i + 1], (--ap->request_count - i) * sizeof(struct request_kept));
        for (size_t n = 0; n < ap->use_count; n++)
                if (ap->uses[n].request > i && ap->uses[n].request != APPROVAL_REQUESTS)
                        ap->uses[n].request--;
}

/* It waits no more, and was not let go. A place in the list that anybody was told of stays the same request's. */
static struct use_kept use_remove(struct approval *ap, size_t n)
{
        struct use_kept u = ap->uses[n];

        ap->uses[n] = ap->uses[--ap->use_count];
        if (u.request == APPROVAL_REQUESTS || !ap->requests[u.request].single)
                return u;
        if (u.request < ap->shown)
                ap->requests[u.request].gone = true;
        else
                request_remove(ap, u.request);
        return u;
}

/* --- what is shown --- */

/* JSON takes two bytes for a quote and a backslash. */
static size_t weight(const char *s)
{
        size_t n = 0;

        for (; *s; s++)
                n += *s == '"' || *s == '\\' ? 2 : 1;
        return n;
}

static json_t *request_json(const struct request_kept *r)
{
        json_t *o = json_pack("{s:s, s:s, s:I}", "method", r->method, "path", r->path, "count", (json_int_t)r->count);

        if (r->body)
                json_object_set_new(o, "body", json_true());
        if (r->gone)
                json_object_set_new(o, "gone", json_true());
        return o;
}

static json_t *requests_json(const struct approval *ap, size_t *shown)
{
        json_t *list = json_array();
        size_t bytes = 0, i = 0;

        for (; i < ap->request_count && i < APPROVAL_SHOWN; i++) {
                const struct request_kept *r = &ap->requests[i];

                bytes += weight(r->path) + weight(r->method) + 90;
                if (i && bytes > APPROVAL_SHOWN_BYTES)
                        break;
                json_array_append_new(list, request_json(r));
        }
        *shown = i;
        return list;
}

static json_t *key_json(uint64_t id, const struct approval_key *k)
{
        return json_pack("{s:I, s:s, s:s, s:s, s:s, s:i}", "id", (json_int_t)id, "workspace", k->workspace, "what", k->rule ? "rule" : "credential", "name",
                         k->name, "host", k->host, "port", (int)k->port);
}

/* Whoever gets it was told of its requests. */
static json_t *approval_json(struct approval *ap, int64_t now_ms)
{
        json_t *o = key_json(ap->id, &ap->key);
        size_t shown = 0, left = ap->due_ms > now_ms ? (size_t)(ap->due_ms - now_ms) : 0;

        json_object_set_new(o, "requests", requests_json(ap, &shown));
        json_object_set_new(o, "more", json_integer((json_int_t)(ap->request_count - shown)));
        json_object_set_new(o, "waiting", json_integer((json_int_t)ap->use_count));
        json_object_set_new(o, "since_us", json_integer(ap->since_us));
        json_object_set_new(o, "expires_us", json_integer(clock_real_us() + (json_int_t)left * 1000));
        if (shown > ap->shown)
                ap->shown = shown;
        return o;
}

static void tell(struct approvals *a, struct approval *ap, int64_t now_ms)
{
        ap->told_ms = now_ms;
        ap->news_ms = 0;
        a->calls->news(a->ctx, &ap->key, approval_json(ap, now_ms));
}

static json_t *kept_json(const struct kept *k, int64_t now_ms)
{
        json_t *o = key_json(k->id, &k->key);

        if (k->kind == KEPT_SESSION)
                json_object_set_new(o, "session", json_true());
        else
                json_object_set_new(o, "until_us", json_integer(clock_real_us() + (json_int_t)(k->due_ms - now_ms) * 1000));
        if (k->kind == KEPT_ONCE) {
                size_t retries = 0;

                for (size_t i = 0; i < k->digest_count; i++)
                        retries += k->digests[i].good;
                json_object_set_new(o, "once", json_true());
                json_object_set_new(o, "retries", json_integer((json_int_t)retries));
        }
        json_object_set_new(o, "used", json_integer((json_int_t)k->used));
        return o;
}

json_t *approvals_json(struct approvals *a, const char *workspace, int64_t now_ms)
{
        enum { MESSAGE_BYTES = 56 * 1024 };
        json_t *waiting = json_array(), *grants = json_array(), *denials = json_array(), *all;
        size_t bytes = 0, left_out = 0;

        for (size_t i = 0; i < a->waiting_count; i++) {
                struct approval *ap = a->waiting[i];
                size_t shown_before = ap->shown, n;
                json_t *o;
                char *text;

                if (workspace && strcmp(workspace, ap->key.workspace) != 0)
                        continue;
                o = approval_json(ap, now_ms);
                text = json_dumps(o, JSON_COMPACT);
                n = text ? strlen(text) : MESSAGE_BYTES;
                free(text);
                if (bytes + n > MESSAGE_BYTES) {
                        ap->shown = shown_before;
                        left_out++;
                        json_decref(o);
                        continue;
                }
                bytes += n;
                ap->listed = json_array_size(json_object_get(o, "requests"));
                json_array_append_new(waiting, o);
        }
        for (size_t i = a->kept_count; i-- > 0;) { /* the newest first */
                const struct kept *k = a->kept[i];
                size_t n = weight(k->key.name) + 400;

                if ((workspace && strcmp(workspace, k->key.workspace) != 0) || (k->kind != KEPT_SESSION && k->due_ms <= now_ms))
                        continue;
                if (bytes + n > MESSAGE_BYTES) {
                        left_out++;
                        continue;
                }
                bytes += n;
                json_array_append_new(k->kind == KEPT_DENIAL ? denials : grants, kept_json(k, now_ms));
        }
        all = json_pack("{s:o, s:o, s:o}", "waiting", waiting, "grants", grants, "denials", denials);
        if (left_out)
                json_object_set_new(all, "left_out", json_integer((json_int_t)left_out));
        return all;
}

size_t approvals_count(const struct approvals *a) { return a->waiting_count; }

size_t approvals_uses(const struct approvals *a)
{
        size_t n = 0;

        for (size_t i = 0; i < a->waiting_count; i++)
                n += a->waiting[i]->use_count;
        return n;
}

/* --- uses --- */

static void answer(struct approvals *a, const struct use_kept *u, enum approval_answer answer, int64_t ttl_ms)
{
        a->calls->answer(a->ctx, u->door, u->id, answer, ttl_ms);
}

/* Answers the uses of the first `below` requests; the others stay. The number of them. An answer may bring a door's end: those that stay are in the list before
 * the first one goes out, so that a door that ends takes its uses out of it. */
static size_t answer_uses(struct approvals *a, struct approval *ap, size_t below, enum approval_answer with, int64_t ttl_ms)
{
        struct use_kept *now = calloc(ap->use_count + 1, sizeof(*now));
        size_t stay = 0, answered = 0;

        MUST(now);
        for (size_t i = 0; i < ap->use_count; i++)
                if (ap->uses[i].request >= below)
                        ap->uses[stay++] = ap->uses[i];
                else
                        now[answered++] = ap->uses[i];
        ap->use_count = stay;
        for (size_t i = 0; i < answered; i++)
                answer(a, &now[i], with, ttl_ms);
        free(now);
        return answered;
}

static struct approval *waiting_find(const struct approvals *a, const struct approval_key *key)
{
        for (size_t i = 0; i < a->waiting_count; i++)
                if (same_key(&a->waiting[i]->key, key))
                        return a->waiting[i];
        return NULL;
}

static size_t waiting_index(const struct approvals *a, uint64_t id)
{
        size_t i = 0;

        while (i < a->waiting_count && a->waiting[i]->id != id)
                i++;
        return i;
}

static size_t waiting_of(const struct approvals *a, const char *workspace)
{
        size_t n = 0;

        for (size_t i = 0; i < a->waiting_count; i++)
                n += strcmp(a->waiting[i]->key.workspace, workspace) == 0;
        return n;
}

static struct approval *raise_new(struct approvals *a, const struct approval_key *key)
{
        struct approval *ap = calloc(1, sizeof(*ap));

        MUST(ap);
        ap->id = ++a->last_id;
        ap->key = *key;
        ap->key.name = copied(key->name);
        ap->since_us = clock_real_us();
        a->waiting = grown(a->waiting, &a->waiting_cap, a->waiting_count, sizeof(struct approval *));
        a->waiting[a->waiting_count++] = ap;
        return ap;
}

/* The request's place in the list, where it may be new; APPROVAL_REQUESTS: no room. */
static size_t request_place(struct approval *ap, const struct approval_request *r)
{
        size_t i = 0;

        bool single = !only_reads(r);

        while (i < ap->request_count && (single || ap->requests[i].single || memcmp(ap->requests[i].digest, r->digest, APPROVAL_DIGEST_BYTES) != 0))
                i++;
        if (i == APPROVAL_REQUESTS)
                return i;
        if (i == ap->request_count) {
                ap->requests = grown(ap->requests, &ap->request_cap, ap->request_count, sizeof(struct request_kept));
                ap->requests[i] = (struct request_kept){ .method = copied(r->method), .path = copied(r->path), .body = r->body, .single = single };
                memcpy(ap->requests[i].digest, r->digest, APPROVAL_DIGEST_BYTES);
                ap->request_count++;
        }
        ap->requests[i].count++;
        return i;
}

static void join(struct approvals *a, struct approval *ap, const struct approval_use *use, int64_t now_ms)
{
        bool fresh = ap->told_ms == 0;

        ap->uses = grown(ap->uses, &ap->use_cap, ap->use_count, sizeof(struct use_kept));
        ap->uses[ap->use_count++] = (struct use_kept){ use->door, use->id, request_place(ap, use->request), now_ms + APPROVAL_HOLD_MS };
        ap->due_ms = now_ms + APPROVAL_HOLD_MS;
        if (fresh) {
                a->calls->note(a->ctx, &ap->key, "asked");
                tell(a, ap, now_ms);
        } else if (ap->news_ms == 0) {
                ap->news_ms = ap->told_ms + APPROVAL_NEWS_MS;
        }
}

/* Does what was decided before answer it? */
static bool decided(struct approvals *a, const struct approval_use *use, int64_t now_ms)
{
        struct use_kept u = { .door = use->door, .id = use->id };
        struct kept *allowed = NULL;
        int64_t ttl = 0;

        for (size_t i = 0; i < a->kept_count; i++) {
                struct kept *k = a->kept[i];

                if (!same_key(&k->key, use->key) || (k->kind != KEPT_SESSION && k->due_ms <= now_ms))
                        continue;
                if (k->kind == KEPT_DENIAL) {
                        k->used++;
                        answer(a, &u, APPROVAL_DENY, 0);
                        return true;
                }
                if (k->kind == KEPT_SESSION || k->kind == KEPT_TIMED) {
                        allowed = k;
                        ttl = k->kind == KEPT_SESSION ? -1 : k->due_ms - now_ms;
                }
                for (size_t n = 0; !allowed && only_reads(use->request) && n < k->digest_count; n++)
                        if (k->digests[n].good && memcmp(k->digests[n].digest, use->request->digest, APPROVAL_DIGEST_BYTES) == 0) {
                                k->digests[n].good = false;
                                allowed = k;
                        }
        }
        if (!allowed)
                return false;
        allowed->used++;
        answer(a, &u, APPROVAL_ALLOW, ttl);
        return true;
}

void approvals_ask(struct approvals *a, const struct approval_use *use, bool somebody, int64_t now_ms)
{
        struct use_kept u = { .door = use->door, .id = use->id };
        struct approval *ap;

        if (decided(a, use, now_ms))
                return;
        ap = waiting_find(a, use->key);
        if (!ap && !somebody && !use->wait) {
                answer(a, &u, APPROVAL_NOBODY, 0); /* no note: the door's refusal says so, and the guest could fill the journal with them */
                return;
        }
        if ((!ap && waiting_of(a, use->key->workspace) >= APPROVALS_WAITING) || (ap && ap->use_count >= APPROVAL_USES)) {
                answer(a, &u, APPROVAL_EXPIRED, 0);
                return;
        }
        join(a, ap ? ap : raise_new(a, use->key), use, now_ms);
}

void approvals_withdraw(struct approvals *a, void *door, uint64_t id)
{
        for (size_t i = 0; i < a->waiting_count; i++) {
                struct approval *ap = a->waiting[i];

                for (size_t n = 0; n < ap->use_count; n++)
                        if (ap->uses[n].door == door && ap->uses[n].id == id) {
                                use_remove(ap, n);
                                return;
                        }
        }
}

void approvals_door_gone(struct approvals *a, void *door)
{
        for (size_t i = 0; i < a->waiting_count; i++) {
                struct approval *ap = a->waiting[i];

                for (size_t n = ap->use_count; n-- > 0;)
                        if (ap->uses[n].door == door)
                                use_remove(ap, n);
        }
}

void approvals_workspace_gone(struct approvals *a, const char *workspace)
{
        for (size_t i = a->waiting_count; i-- > 0;)
                if (strcmp(a->waiting[i]->key.workspace, workspace) == 0) {
                        a->calls->ended(a->ctx, &a->waiting[i]->key, a->waiting[i]->id, "ended");
                        waiting_remove(a, i);
                }
        for (size_t i = a->kept_count; i-- > 0;)
                if (strcmp(a->kept[i]->key.workspace, workspace) == 0)
                        kept_remove(a, i);
}

/* --- a person's word --- */

/* Room is made by letting go of the workspace's oldest of the same sort: a lost grant asks again, a lost denial asks again. */
static void make_room(struct approvals *a, const char *workspace, bool denial)
{
        size_t n = 0, oldest = a->kept_count;

        for (size_t i = a->kept_count; i-- > 0;)
                if ((a->kept[i]->kind == KEPT_DENIAL) == denial && strcmp(a->kept[i]->key.workspace, workspace) == 0) {
                        n++;
                        oldest = i;
                }
        if (n >= APPROVALS_KEPT) {
                a->calls->revoked(a->ctx, &a->kept[oldest]->key);
                kept_remove(a, oldest);
        }
}

static struct kept *keep(struct approvals *a, const struct approval *ap, enum kept_kind kind, int64_t due_ms)
{
        struct kept *k = calloc(1, sizeof(*k));

        MUST(k);
        make_room(a, ap->key.workspace, kind == KEPT_DENIAL);
        *k = (struct kept){ .id = ++a->last_id, .key = ap->key, .kind = kind, .due_ms = due_ms };
        k->key.name = copied(ap->key.name);
        a->kept = grown(a->kept, &a->kept_cap, a->kept_count, sizeof(struct kept *));
        a->kept[a->kept_count++] = k;
        return k;
}

/* What was not shown goes on waiting, as a new question; requests for which nobody waits any more are gone. */
static void raise_rest(struct approvals *a, struct approval *ap, size_t seen, int64_t now_ms)
{
        while (seen--)
                request_remove(ap, 0);
        for (size_t i = ap->request_count; i-- > 0;)
                if (ap->requests[i].gone)
                        request_remove(ap, i);
        ap->id = ++a->last_id;
        ap->shown = ap->listed = 0;
        ap->since_us = clock_real_us();
        a->calls->note(a->ctx, &ap->key, "asked");
        tell(a, ap, now_ms);
}

/* An answer for the first `below` requests. */
static void describe(char *out, size_t size, const struct approval *ap, const char *words, size_t below)
{
        size_t waiting = 0, distinct = below < ap->request_count ? below : ap->request_count;

        for (size_t i = 0; i < ap->use_count; i++)
                waiting += ap->uses[i].request < below;
        snprintf(out, size, "%s; %zu distinct request%s, %zu waiting", words, distinct, distinct == 1 ? "" : "s", waiting);
}

static const struct approval_request *first_of(const struct approval *ap, struct approval_request *r)
{
        if (!ap->request_count)
                return NULL;
        r->method = ap->requests[0].method;
        r->path = ap->requests[0].path;
        memcpy(r->digest, ap->requests[0].digest, sizeof(r->digest));
        return r;
}

static size_t allow_once(struct approvals *a, struct approval *ap, size_t seen, int64_t now_ms)
{
        struct kept *k = NULL;
        size_t released, live = 0;

        for (size_t i = 0; i < seen; i++)
                live += !ap->requests[i].gone;
        if (live) {
                k = keep(a, ap, KEPT_ONCE, now_ms + APPROVAL_RETRY_MS);
                k->digests = calloc(live, sizeof(*k->digests));
                MUST(k->digests);
        }
        for (size_t i = 0; i < seen; i++)
                if (!ap->requests[i].single) {
                        memcpy(k->digests[k->digest_count].digest, ap->requests[i].digest, APPROVAL_DIGEST_BYTES);
                        k->digests[k->digest_count++].good = true;
                }
        released = answer_uses(a, ap, seen, APPROVAL_ALLOW, 0);
        if (k)
                k->used += released;
        /* Beyond what is kept: never shown, so never said yes to. */
        for (size_t i = ap->use_count; i-- > 0;)
                if (i < ap->use_count && ap->uses[i].request == APPROVAL_REQUESTS) {
                        struct use_kept u = ap->uses[i];

                        ap->uses[i] = ap->uses[--ap->use_count];
                        answer(a, &u, APPROVAL_EXPIRED, 0);
                }
        return released;
}

int approvals_allow(struct approvals *a, uint64_t id, enum approval_term term, long long seen, int64_t now_ms, size_t *released)
{
        size_t i = waiting_index(a, id), shown;
        struct approval_request first;
        struct approval *ap;
        struct kept *k;
        char text[160];

        if (i == a->waiting_count)
                return 1;
        ap = a->waiting[i];
        shown = seen >= 0 ? (size_t)seen : ap->listed ? ap->listed : 1;
        if (shown > ap->shown)
                shown = ap->shown;
        describe(text, sizeof(text), ap, terms[term].words, term == APPROVAL_ONCE ? shown : APPROVAL_REQUESTS + 1);
        if (!a->calls->record(a->ctx, &ap->key, true, text, first_of(ap, &first)))
                return -1;
        a->calls->ended(a->ctx, &ap->key, id, terms[term].name);
        if (term == APPROVAL_ONCE) {
                *released = allow_once(a, ap, shown, now_ms);
                if (ap->use_count) {
                        raise_rest(a, ap, shown, now_ms);
                        return 0;
                }
        } else {
                k = keep(a, ap, terms[term].kind, now_ms + terms[term].ms);
                *released = answer_uses(a, ap, APPROVAL_REQUESTS + 1, APPROVAL_ALLOW, terms[term].kind == KEPT_SESSION ? -1 : terms[term].ms);
                k->used += *released;
        }
        waiting_remove(a, waiting_index(a, id));
        return 0;
}

int approvals_deny(struct approvals *a, uint64_t id, int64_t now_ms)
{
        size_t i = waiting_index(a, id);
        struct approval_request first;
        struct approval *ap;
        char text[160];
        bool recorded;

        if (i == a->waiting_count)
                return 1;
        ap = a->waiting[i];
        describe(text, sizeof(text), ap, "denied", APPROVAL_REQUESTS + 1);
        recorded = a->calls->record(a->ctx, &ap->key, false, text, first_of(ap, &first));
        keep(a, ap, KEPT_DENIAL, now_ms + APPROVAL_DENIAL_MS);
        a->calls->ended(a->ctx, &ap->key, id, "deny");
        answer_uses(a, ap, APPROVAL_REQUESTS + 1, APPROVAL_DENY, 0);
        waiting_remove(a, waiting_index(a, id));
        return recorded ? 0 : -1;
}

int approvals_revoke(struct approvals *a, uint64_t id)
{
        for (size_t i = 0; i < a->kept_count; i++) {
                struct kept *k = a->kept[i];
                bool denial = k->kind == KEPT_DENIAL, recorded;

                if (k->id != id)
                        continue;
                recorded = a->calls->record(a->ctx, &k->key, false, denial ? "a denial was taken back" : "a grant was revoked", NULL);
                if (!denial)
                        a->calls->revoked(a->ctx, &k->key);
                kept_remove(a, i);
                return recorded ? 0 : -1;
        }
        return 1;
}

/* --- time --- */

static int64_t sooner(int64_t a, int64_t b) { return a < 0 || b < a ? b : a; }

int64_t approvals_due_ms(const struct approvals *a, int64_t now_ms)
{
        int64_t due = -1;

        for (size_t i = 0; i < a->waiting_count; i++) {
                const struct approval *ap = a->waiting[i];

                due = sooner(due, ap->due_ms);
                if (ap->news_ms)
                        due = sooner(due, ap->news_ms);
                for (size_t n = 0; n < ap->use_count; n++)
                        due = sooner(due, ap->uses[n].due_ms);
        }
        for (size_t i = 0; i < a->kept_count; i++)
                if (a->kept[i]->kind != KEPT_SESSION)
                        due = sooner(due, a->kept[i]->due_ms);
        return due < 0 ? -1 : due > now_ms ? due - now_ms : 0;
}

static void tick_approval(struct approvals *a, struct approval *ap, int64_t now_ms)
{
        /* An answer may bring a door's end, and with it fewer uses. */
        for (size_t n = ap->use_count; n-- > 0;)
                if (n < ap->use_count && ap->uses[n].due_ms <= now_ms) {
                        struct use_kept u = use_remove(ap, n);

                        answer(a, &u, APPROVAL_EXPIRED, 0);
                }
        if (ap->news_ms && ap->news_ms <= now_ms)
                tell(a, ap, now_ms);
}

void approvals_tick(struct approvals *a, int64_t now_ms)
{
        for (size_t i = a->waiting_count; i-- > 0;) {
                struct approval *ap = a->waiting[i];

                tick_approval(a, ap, now_ms);
                if (ap->due_ms > now_ms)
                        continue;
                a->calls->note(a->ctx, &ap->key, "expired: nobody answered");
                a->calls->ended(a->ctx, &ap->key, ap->id, "expired");
                waiting_remove(a, i);
        }
        for (size_t i = a->kept_count; i-- > 0;)
                if (a->kept[i]->kind != KEPT_SESSION && a->kept[i]->due_ms <= now_ms)
                        kept_remove(a, i);
}

/* --- the rules --- */

void approvals_keep_only(struct approvals *a, const char *workspace, bool (*still)(void *ctx, const struct approval_key *key), void *ctx, const char *why)
{
        char note[128];

        for (size_t i = a->waiting_count; i-- > 0;) {
                struct approval *ap = i < a->waiting_count ? a->waiting[i] : NULL; /* an answer may bring a door's end */

                if (!ap || strcmp(ap->key.workspace, workspace) != 0 || still(ctx, &ap->key))
                        continue;
                snprintf(note, sizeof(note), "over: %s", why);
                a->calls->note(a->ctx, &ap->key, note);
                a->calls->ended(a->ctx, &ap->key, ap->id, "ended");
                answer_uses(a, ap, APPROVAL_REQUESTS + 1, APPROVAL_EXPIRED, 0); /* its door judged them anew by then: they are asked for no more */
                waiting_remove(a, i);
        }
        for (size_t i = a->kept_count; i-- > 0;) {
                struct kept *k = a->kept[i];

                if (k->kind == KEPT_DENIAL || strcmp(k->key.workspace, workspace) != 0 || still(ctx, &k->key))
                        continue;
                snprintf(note, sizeof(note), "a grant is over: %s", why);
                a->calls->note(a->ctx, &k->key, note);
                a->calls->revoked(a->ctx, &k->key);
                kept_remove(a, i);
        }
}
