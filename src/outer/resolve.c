/* Resolver: see resolve.h. */
#include "outer/resolve.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include <ares.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { BUCKETS = 256 };

struct resolve {
        struct name *name;
        struct resolve *next;
        resolve_fn done;
        void *ctx;
};

struct name {
        struct resolver *resolver;
        char text[HOST_NAME_BYTES];
        struct name *next_in_bucket;
        struct name *newer, *older; /* by last answer; waiting ones stand there too and are not evicted */
        bool waiting;
        int64_t expires_ms;
        struct resolve *waiters;
        struct resolve_answer answer;
};

/* A c-ares channel with one reading of resolv.conf; an old one lives until its last question is answered. */
struct channel {
        struct resolver *resolver;
        ares_channel ares;
        struct event *timer;
        struct watch *watches;
        size_t asked;
        bool retired;
        struct channel *next_grave;
};

struct watch {
        struct channel *channel;
        ares_socket_t fd;
        struct event *event;
        struct watch *next;
};

struct resolver {
        struct event_base *base;
        struct channel *channel;
        struct channel *graves;
        struct event *bury;
        struct timespec conf_mtime;
        ino_t conf_ino;
        struct name *bucket[BUCKETS];
        struct name *newest, *oldest;
        size_t count;
};

static const char conf_path[] = "/etc/resolv.conf";

/* --- c-ares in the loop --- */

static void channel_arm(struct channel *c)
{
        struct timeval tv, *t = ares_timeout(c->ares, NULL, &tv);

        if (t)
                event_add(c->timer, t);
        else
                event_del(c->timer);
}

static void channel_check(struct channel *c)
{
        if (!c->retired || c->asked || c->next_grave || c->resolver->graves == c)
                return;
        c->next_grave = c->resolver->graves;
        c->resolver->graves = c;
        event_active(c->resolver->bury, EV_TIMEOUT, 0);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
        struct channel *c = ((struct watch *)arg)->channel;

        ares_process_fd(c->ares, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
        channel_arm(c);
        channel_check(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
        struct channel *c = arg;

        (void)fd;
        (void)what;
        ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        channel_arm(c);
        channel_check(c);
}

static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
        struct channel *c = arg;
        struct watch **at = &c->watches, *w;

        while (*at && (*at)->fd != fd)
                at = &(*at)->next;
        w = *at;
        if (w) {
                event_free(w->event);
                *at = w->next;
                free(w);
        }
        if (!readable && !writable)
                return;
        w = calloc(1, sizeof(*w));
        if (w)
                w->event = event_new(c->resolver->base, fd, (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0) | EV_PERSIST), on_socket, w);
        if (!w || !w->event) {
                free(w); /* the question times out */
                return;
        }
        w->channel = c;
        w->fd = fd;
        w->next = c->watches;
        c->watches = w;
        event_add(w->event, NULL);
}

static void channel_free(struct channel *c)
{
        ares_destroy(c->ares);
        event_free(c->timer);
        free(c);
}

static void on_bury(evutil_socket_t fd, short what, void *arg)
{
        struct resolver *r = arg;

        (void)fd;
        (void)what;
        while (r->graves) {
                struct channel *c = r->graves;

                r->graves = c->next_grave;
                channel_free(c);
        }
}

static struct channel *channel_new(struct resolver *r, struct err *err)
{
        static char lookups[] = "fb"; /* hosts file, then servers */
        struct channel *c = calloc(1, sizeof(*c));
        struct ares_options opt = {
                .flags = ARES_FLAG_NOALIASES | ARES_FLAG_NOSEARCH,
                .timeout = RESOLVE_TIMEOUT_MS,
                .tries = 3,
                .ndots = 1,
                .ndomains = 0,
                .lookups = lookups,
                .sock_state_cb = on_state,
                .sock_state_cb_data = c,
        };
        int rc;

        if (!c) {
                err_set(err, "out of memory");
                return NULL;
        }
        c->resolver = r;
        c->timer = event_new(r->base, -1, 0, on_timer, c);
        rc = c->timer ? ares_init_options(&c->ares, &opt, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_DOMAINS |
                                                                  ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB)
                      : ARES_ENOMEM;
        if (rc != ARES_SUCCESS) {
                err_set(err, "c-ares: %s", ares_strerror(rc));
                if (c->timer)
                        event_free(c->timer);
                free(c);
                return NULL;
        }
        return c;
}

/* Another file stands there, or it was written: a new channel reads it; cached answers of the old servers go. */
static void follow_conf(struct resolver *r)
{
        struct stat st;
        struct channel *fresh;
        struct err err = ERR_INIT;

        if (stat(conf_path, &st) < 0)
                return;
        if (st.st_ino == r->conf_ino && st.st_mtim.tv_sec == r->conf_mtime.tv_sec && st.st_mtim.tv_nsec == r->conf_mtime.tv_nsec)
                return;
        fresh = channel_new(r, &err);
        if (!fresh) {
                log_error("%s changed, and cannot be followed: %s", conf_path, err.text);
                return;
        }
        r->conf_ino = st.st_ino;
        r->conf_mtime = st.st_mtim;
        if (r->channel) {
                log_info("%s changed: following it", conf_path);
                r->channel->retired = true;
                channel_check(r->channel);
        }
        r->channel = fresh;
        for (struct name *n = r->newest; n; n = n->older)
                n->expires_ms = 0;
}

struct resolver *resolver_new(struct event_base *base, struct err *err)
{
        struct resolver *r = calloc(1, sizeof(*r));

        if (!r || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
                err_set(err, "c-ares: cannot start");
                return NULL;
        }
        r->base = base;
        r->bury = event_new(base, -1, 0, on_bury, r);
        follow_conf(r);
        if (!r->channel)
                r->channel = channel_new(r, err);
        if (!r->channel || !r->bury) {
                free(r);
                return NULL;
        }
        return r;
}

/* --- the cache --- */

static struct name **name_slot(struct resolver *r, struct slice text)
{
        uint32_t h = 2166136261u;
        struct name **at;

        for (size_t i = 0; i < text.n; i++)
                h = (h ^ text.p[i]) * 16777619u;
        at = &r->bucket[h % BUCKETS];
        while (*at && !slice_is(text, (*at)->text))
                at = &(*at)->next_in_bucket;
        return at;
}

static void order_unlink(struct resolver *r, struct name *n)
{
        *(n->newer ? &n->newer->older : &r->newest) = n->older;
        *(n->older ? &n->older->newer : &r->oldest) = n->newer;
}

static void order_front(struct resolver *r, struct name *n)
{
        n->newer = NULL;
        n->older = r->newest;
        *(r->newest ? &r->newest->newer : &r->oldest) = n;
        r->newest = n;
}

static bool name_evict(struct resolver *r)
{
        struct name *n = r->oldest, **at;

        while (n && n->waiting)
                n = n->newer;
        if (!n)
                return false;
        at = name_slot(r, slice_str(n->text));
        *at = n->next_in_bucket;
        order_unlink(r, n);
        free(n);
        r->count--;
        return true;
}

static struct name *name_get(struct resolver *r, struct slice text)
{
        struct name **at = name_slot(r, text), *n = *at;

        if (n)
                return n;
        if (text.n >= HOST_NAME_BYTES || (r->count >= RESOLVE_NAMES_MAX && !name_evict(r)))
                return NULL;
        at = name_slot(r, text);
        n = calloc(1, sizeof(*n));
        if (!n)
                return NULL;
        n->resolver = r;
        memcpy(n->text, text.p, text.n);
        *at = n;
        order_front(r, n);
        r->count++;
        return n;
}

/* --- questions --- */

struct ask {
        struct name *name;
        struct channel *channel;
};

static int fill(struct resolve_answer *a, const struct ares_addrinfo *res)
{
        int ttl = RESOLVE_TTL_MAX_S;

        for (const struct ares_addrinfo_cname *c = res->cnames; c; c = c->next)
                if (c->ttl < ttl)
                        ttl = c->ttl;
        for (const struct ares_addrinfo_node *n = res->nodes; n && a->count < RESOLVE_ADDRS_MAX; n = n->ai_next) {
                struct addr addr;
                uint16_t port;
                bool known = false;

                if (addr_from_sockaddr(&addr, &port, n->ai_addr, n->ai_addrlen) < 0)
                        continue;
                for (size_t i = 0; i < a->count; i++)
                        known = known || addr_eq(&a->addr[i], &addr);
                if (!known)
                        a->addr[a->count++] = addr;
                if (n->ai_ttl < ttl)
                        ttl = n->ai_ttl;
        }
        return ttl < RESOLVE_TTL_MIN_S ? RESOLVE_TTL_MIN_S : ttl;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
        struct ask *ask = arg;
        struct name *n = ask->name;
        struct resolve *w = n->waiters;
        int ttl = RESOLVE_NEGATIVE_S;

        (void)timeouts;
        ask->channel->asked--;
        free(ask);
        n->answer = (struct resolve_answer){ 0 };
        if (status == ARES_SUCCESS && res)
                ttl = fill(&n->answer, res);
        if (n->answer.count == 0) {
                bool none = status == ARES_SUCCESS || status == ARES_ENOTFOUND || status == ARES_ENODATA || status == ARES_ENONAME;

                n->answer.timed_out = status == ARES_ETIMEOUT;
                n->answer.why = none ? "no such name" : ares_strerror(status);
                ttl = RESOLVE_NEGATIVE_S;
        }
        if (res)
                ares_freeaddrinfo(res);
        n->waiting = false;
        n->expires_ms = clock_mono_ms() + ttl * 1000;
        order_unlink(n->resolver, n);
        order_front(n->resolver, n);
        n->waiters = NULL;
        /* The answer is copied: a callback may ask again and evict this name. */
        struct resolve_answer answer = n->answer;
        while (w) {
                struct resolve *next = w->next;

                if (w->done)
                        w->done(w->ctx, &answer);
                free(w);
                w = next;
        }
}

static int ask_world(struct name *n)
{
        struct resolver *r = n->resolver;
        struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NOSORT };
        struct ask *ask = calloc(1, sizeof(*ask));
        struct channel *c = r->channel;

        if (!ask)
                return -1;
        *ask = (struct ask){ n, c };
        c->asked++;
        n->waiting = true;
        ares_getaddrinfo(c->ares, n->text, NULL, &hints, on_answer, ask);
        channel_arm(c);
        return 0;
}

int resolve_start(struct resolver *r, struct slice text, resolve_fn done, void *ctx, struct resolve_answer *answer, struct resolve **handle)
{
        struct name *n;
        struct resolve *w;

        follow_conf(r);
        n = name_get(r, text);
        if (!n)
                return -1;
        if (!n->waiting && n->expires_ms <= clock_mono_ms() && ask_world(n) < 0)
                return -1;
        /* The hosts file is answered at once. */
        if (!n->waiting) {
                *answer = n->answer;
                return 1;
        }
        w = calloc(1, sizeof(*w));
        if (!w)
                return -1;
        *w = (struct resolve){ .name = n, .done = done, .ctx = ctx, .next = n->waiters };
        n->waiters = w;
        *handle = w;
        return 0;
}

void resolve_cancel(struct resolve *handle)
{
        handle->done = NULL; /* freed with the answer */
}
