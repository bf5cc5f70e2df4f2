/* The channel to bromed: see control.h. */
#include "outer/control.h"

#include "base/chan.h"
#include "base/fd.h"
#include "base/log.h"
#include "outer/account.h"
#include "outer/consent.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/pool.h"
#include "outer/ruleset.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct waiting {
        json_t *body;
        struct waiting *next;
};

struct control {
        struct outer *outer;
        struct event *readable, *writable;
        struct waiting *first, *last; /* messages that bromed did not take yet */
        size_t waiting;
        bool ready;
};

/* The descriptor that the message's list gives this name. -1: none. */
static int named_fd(struct chan_msg *msg, const char *name)
{
        json_t *names = json_object_get(msg->body, "fds"), *entry;
        size_t i;

        json_array_foreach(names, i, entry)
                if (json_is_string(entry) && strcmp(json_string_value(entry), name) == 0)
                        return chan_take_fd(msg, i);
        return -1;
}

static char *copy_member(const struct chan_msg *msg, const char *key)
{
        const char *s = chan_str(msg, key, NULL);

        return s ? strdup(s) : NULL;
}

int control_start(struct start *out, struct err *err)
{
        struct chan_msg msg;
        int rc = chan_wait(CONTROL_FD, CONTROL_START_MS, &msg, err);

        if (rc < 0)
                return -1;
        if (rc == 0 || strcmp(msg.op, "start") != 0) {
                if (rc)
                        chan_msg_fini(&msg);
                return err_set(err, "no start message");
        }
        snprintf(out->workspace, sizeof(out->workspace), "%s", chan_str(&msg, "workspace", "?"));
        snprintf(out->account, sizeof(out->account), "%s", chan_str(&msg, "account", ""));
        out->proxy = copy_member(&msg, "proxy");
        out->no_proxy = copy_member(&msg, "no_proxy");
        out->events_fd = named_fd(&msg, "events");
        out->link_fd = named_fd(&msg, "link");
        out->secret_fd = named_fd(&msg, "secret");
        chan_msg_fini(&msg);
        if (out->events_fd < 0 || out->link_fd < 0 || (out->account[0] && out->secret_fd < 0))
                return err_set(err, "start: descriptors are missing");
        return 0;
}

void control_start_fini(struct start *s)
{
        if (s->proxy)
                explicit_bzero(s->proxy, strlen(s->proxy));
        free(s->proxy);
        free(s->no_proxy);
        s->proxy = s->no_proxy = NULL;
}

static void control_end(struct control *c, const char *why)
{
        log_debug("ending: %s", why);
        event_base_loopbreak(c->outer->base);
}

/* Sends what waits. */
static void control_flush(struct control *c)
{
        while (c->first) {
                struct waiting *w = c->first;

                if (chan_send(CONTROL_FD, json_incref(w->body), NULL, 0) < 0) {
                        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
                                event_add(c->writable, NULL);
                        else
                                control_end(c, "bromed is gone");
                        return;
                }
                c->first = w->next;
                if (!c->first)
                        c->last = NULL;
                c->waiting--;
                json_decref(w->body);
                free(w);
        }
}

void control_say(struct control *c, json_t *body)
{
        struct waiting *w = body ? calloc(1, sizeof(*w)) : NULL;

        if (!w || c->waiting >= CONTROL_QUEUE_MAX) {
                json_decref(body);
                free(w);
                control_end(c, w ? "bromed does not read" : "out of memory");
                return;
        }
        w->body = body;
        *(c->last ? &c->last->next : &c->first) = w;
        c->last = w;
        c->waiting++;
        control_flush(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
        (void)fd;
        (void)what;
        control_flush(arg);
}

/* --- policy --- */

struct swap {
        struct ruleset *before, *after;
        size_t cut;
};

/* Does it go, or is it on its way, to where the new rules would send it? What waits in the pool goes nowhere yet: connections that were being opened were
 * dropped, and it is given one that is opened under the new rules. */
static bool keeps_route(const struct exchange *ex, const struct swap *s)
{
        bool http = ex->kind == KIND_HTTP || ex->kind == KIND_WEBSOCKET;

        if (!s->before || ex->state == EXCHANGE_HELD || (http && ex->state == EXCHANGE_WAITING))
                return true;
        return ruleset_keeps_route(s->before, s->after, &ex->to.authority, http && ex->to.scheme == SCHEME_HTTPS, ex->has_address ? &ex->address : NULL);
}

static void reconsider(struct exchange *ex, void *ctx)
{
        struct swap *s = ctx;
        struct decision d;

        if (ex->state == EXCHANGE_HEAD)
                return; /* not judged yet */
        exchange_judge(ex, ex->has_address ? &ex->address : NULL, &d);
        /* SECURITY: a connection that an old pin or an old CA vouched for carries nothing on, admitted though its request is. */
        if (d.allow && keeps_route(ex, s) && exchange_fits(ex, &d)) {
                ex->decision = d;
                if (ex->state == EXCHANGE_HELD)
                        consent_renew(ex);
                return;
        }
        if (ex->state != EXCHANGE_DONE) {
                s->cut++;
                ex->decision = d;
        }
        (void)exchange_cut(ex, REASON_POLICY_CHANGED, reason_text(REASON_POLICY_CHANGED));
}

/* In this order: new rules in force, then what they forbid cut, then said so. */
static void on_policy(struct control *c, struct chan_msg *msg)
{
        struct outer *o = c->outer;
        struct err err = ERR_INIT;
        long long generation = chan_int(msg, "generation", 0);
        int fd = named_fd(msg, "policy");
        struct ruleset *fresh = fd < 0 ? NULL : ruleset_load(fd, generation, o->tls, &err);
        struct swap swap = { o->rules, fresh, 0 };

        fd_close(&fd);
        if (!fresh) {
                log_error("policy generation %lld: %s", generation, err.text[0] ? err.text : "no descriptor");
                control_end(c, "a policy that cannot be used"); /* no acknowledgement: bromed closes the workspace */
                return;
        }
        o->rules = fresh;
        if (o->account && account_policy(o->account, fresh->policy, &err) < 0) {
                log_error("%s", err.text);
                control_end(c, "an account that cannot be used");
                return;
        }
        tls_forget_sessions(o->tls);
        pool_renew(o->pool);
        link_each(o->link, reconsider, &swap);
        ruleset_free(swap.before);
        control_say(c, json_pack("{s:s, s:I, s:I}", "op", "policy", "generation", (json_int_t)generation, "cut", (json_int_t)swap.cut));
        if (!c->ready) {
                c->ready = true;
                link_start(o->link);
                control_say(c, json_pack("{s:s}", "op", "ready"));
        }
}

/* --- consent --- */

static void on_consent(struct control *c, struct chan_msg *msg)
{
        long long id = chan_int(msg, "id", 0);

        if (id <= 0 || !consent_answer(c->outer->consent, (uint64_t)id, chan_str(msg, "answer", ""), chan_int(msg, "ttl_ms", 0)))
                control_end(c, "an answer to nothing");
}

static void on_revoke(struct control *c, struct chan_msg *msg)
{
        const char *what = chan_str(msg, "what", "");
        long long port = chan_int(msg, "port", 0);
        size_t cut;

        if ((strcmp(what, "rule") != 0 && strcmp(what, "credential") != 0) || port < 0 || port > UINT16_MAX) {
                control_end(c, "a revocation of nothing");
                return;
        }
        cut = consent_revoke(c->outer->consent, what[0] == 'r', chan_str(msg, "name", ""), chan_str(msg, "host", ""), (uint16_t)port);
        control_say(c, json_pack("{s:s, s:I}", "op", "revoke", "cut", (json_int_t)cut));
}

static const struct {
        const char *op;
        void (*handle)(struct control *c, struct chan_msg *msg);
} messages[] = {
        { "policy", on_policy },
        { "answer", on_consent },
        { "revoke", on_revoke },
};

static bool dispatch(struct control *c, struct chan_msg *msg)
{
        for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
                if (strcmp(msg->op, messages[i].op) == 0) {
                        messages[i].handle(c, msg);
                        return true;
                }
        return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
        struct control *c = arg;
        struct chan_msg msg;
        struct err err = ERR_INIT;
        int rc = chan_recv(fd, &msg, &err);

        (void)what;
        if (rc == 0)
                return;
        if (rc < 0) {
                control_end(c, err.text);
                return;
        }
        if (!dispatch(c, &msg))
                control_end(c, "an unknown message from bromed");
        chan_msg_fini(&msg);
}

int control_run(struct outer *o)
{
        static struct control c;

        c.outer = o;
        o->control = &c;
        c.writable = event_new(o->base, CONTROL_FD, EV_WRITE, on_writable, &c);
        c.readable = event_new(o->base, CONTROL_FD, EV_READ | EV_PERSIST, on_readable, &c);
        return c.readable && c.writable && event_add(c.readable, NULL) == 0 ? event_base_dispatch(o->base) : -1;
}
