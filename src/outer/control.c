/* The channel to bromed: see control.h. */
#include "outer/control.h"

#include "base/chan.h"
#include "base/fd.h"
#include "base/log.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/pool.h"
#include "outer/ruleset.h"
#include <stdio.h>
#include <stdlib.h>

struct control {
        struct outer *outer;
        struct event *readable;
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
        chan_msg_fini(&msg);
        return out->events_fd >= 0 && out->link_fd >= 0 ? 0 : err_set(err, "start: descriptors are missing");
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

static void control_send(struct control *c, json_t *body)
{
        if (chan_send(CONTROL_FD, body, NULL, 0) < 0)
                control_end(c, "bromed does not read");
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

        if (!s->before || (http && ex->state == EXCHANGE_WAITING))
                return true;
        return ruleset_keeps_route(s->before, s->after, &ex->req.authority, http && ex->req.scheme == SCHEME_HTTPS, ex->has_address ? &ex->address : NULL);
}

static void reconsider(struct exchange *ex, void *ctx)
{
        struct swap *s = ctx;
        struct decision d;

        if (ex->state == EXCHANGE_HEAD)
                return; /* not judged yet */
        exchange_judge(ex, ex->has_address ? &ex->address : NULL, &d);
        /* SECURITY: a connection that an old pin or an old CA vouched for carries nothing on, admitted though its request is. */
        if (d.allow && keeps_route(ex, s)) {
                ex->decision = d;
                return;
        }
        if (ex->state == EXCHANGE_DONE) {
                /* The answer's rest still stands here: it is not forwarded any more. */
                if (buf_len(&ex->down))
                        link_reset(ex->outer->link, ex, reason_link_code(REASON_POLICY_CHANGED));
                return;
        }
        s->cut++;
        ex->decision = d;
        ex->decision.reason = REASON_POLICY_CHANGED;
        events_refusal(ex->outer->events, ex, ex->has_address ? &ex->address : NULL, reason_text(REASON_POLICY_CHANGED));
        exchange_fail(ex, REASON_POLICY_CHANGED, "%s", reason_text(REASON_POLICY_CHANGED));
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
        tls_forget_sessions(o->tls);
        pool_renew(o->pool);
        link_each(o->link, reconsider, &swap);
        ruleset_free(swap.before);
        control_send(c, json_pack("{s:s, s:I, s:I}", "op", "policy", "generation", (json_int_t)generation, "cut", (json_int_t)swap.cut));
        if (!c->ready) {
                c->ready = true;
                link_start(o->link);
                control_send(c, json_pack("{s:s}", "op", "ready"));
        }
}

static const struct {
        const char *op;
        void (*handle)(struct control *c, struct chan_msg *msg);
} messages[] = {
        { "policy", on_policy },
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
        c.readable = event_new(o->base, CONTROL_FD, EV_READ | EV_PERSIST, on_readable, &c);
        return c.readable && event_add(c.readable, NULL) == 0 ? event_base_dispatch(o->base) : -1;
}
