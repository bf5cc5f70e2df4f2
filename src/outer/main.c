/* brome-outer: the door that faces the world. It takes exchanges from the inner door over the link, judges each again, resolves, guards,
 * dials, verifies and sends. The plain door holds no secret; one for an account has that account's, and serves that account's hosts alone.
 * Its life: seal early, take `start`, open, seal, first policy, loop. */
#include "base/log.h"
#include "base/seal.h"
#include "outer/account.h"
#include "outer/consent.h"
#include "outer/control.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/pool.h"
#include "outer/proxy.h"
#include "outer/resolve.h"
#include "outer/sandbox.h"
#include "outer/tls.h"
#include "outer/turn.h"
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

static void on_link_broken(void *ctx, const char *why)
{
        struct outer *o = ctx;

        log_debug("the link ended: %s", why);
        event_base_loopbreak(o->base);
}

static void on_events_broken(void *ctx)
{
        struct outer *o = ctx;

        log_debug("bromed takes no more records");
        event_base_loopbreak(o->base);
}

static struct event_base *base_new(void)
{
        struct event_config *cfg = event_config_new();
        struct event_base *base;

        if (!cfg)
                return NULL;
        event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST | EVENT_BASE_FLAG_IGNORE_ENV);
        base = event_base_new_with_config(cfg);
        event_config_free(cfg);
        return base;
}

/* A connection for each stream of the link; the usual soft limit is for programs that use select(2). */
static void take_descriptors(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MAX)
                return;
        files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
                log_debug("cannot raise the limit on open files");
}

static int outer_open(struct outer *o, struct start *start, struct err *err)
{
        take_descriptors();
        if (start->account[0] && !(o->account = account_open(start->account, start->secret_fd, err)))
                return -1;
        o->base = base_new();
        if (!o->base)
                return err_set(err, "no event loop");
        o->turn = turn_new(o->base);
        o->tls = tls_new(o->account != NULL, err);
        o->resolver = o->tls ? resolver_new(o->base, err) : NULL;
        if (!o->turn || !o->tls || !o->resolver)
                return -1;
        o->proxy = proxy_new(start->proxy, start->no_proxy, err);
        if (!o->proxy && err->text[0])
                return -1;
        o->events = events_new(o->base, start->events_fd, on_events_broken, o);
        o->pool = pool_new(o);
        o->consent = consent_new(o);
        o->link = o->events && o->pool && o->consent && (!o->account || account_start(o->account, o) == 0) ? link_new(o, start->link_fd, on_link_broken, o) : NULL;
        return o->link ? 0 : err_set(err, "out of memory");
}

int main(void)
{
        struct sigaction ignore = { .sa_handler = SIG_IGN };
        struct start start = { .events_fd = -1, .link_fd = -1, .secret_fd = -1 };
        struct err err = ERR_INIT;
        static struct outer outer;
        int rc;

        log_init("brome-outer", NULL);
        (void)!mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
        (void)!mallopt(M_TRIM_THRESHOLD, MMAP_BYTES);
        sigaction(SIGPIPE, &ignore, NULL); /* OpenSSL writes with write(2) */
        if (seal_early(&err) < 0 || control_start(&start, &err) < 0) {
                log_error("%s", err.text);
                return EXIT_FAILURE;
        }
        log_init("brome-outer", start.workspace);
        if (outer_open(&outer, &start, &err) < 0) {
                log_error("%s", err.text[0] ? err.text : "cannot start");
                return EXIT_FAILURE;
        }
        control_start_fini(&start);
        if (tls_root_count(outer.tls) == 0)
                log_error("no root certificates were found on this system: https origins will be refused");
        if (sandbox_enter(&err) < 0) {
                log_error("%s", err.text);
                return EXIT_FAILURE;
        }
        rc = control_run(&outer);
        if (outer.account)
                (void)link_leave(outer.link);
        return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
