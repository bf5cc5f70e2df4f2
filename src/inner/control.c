/* Control: see control.h. */
#include "inner/control.h"
#include "base/fd.h"
#include "inner/accounts.h"
#include "base/log.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/link.h"
#include "inner/outbox.h"
#include "inner/vet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const fd_names[INNER_FD_COUNT] = {
        [INNER_EVENTS] = "events", [INNER_TCP] = "tcp", [INNER_UDP] = "udp", [INNER_RAW4] = "raw4", [INNER_RAW6] = "raw6", [INNER_ICMP4] = "icmp4",
        [INNER_ICMP6] = "icmp6", [INNER_NAMES] = "names", [INNER_CA_KEY] = "ca_key", [INNER_CA_CERT] = "ca_cert", [INNER_LINK] = "link",
};

int control_take_fds(struct chan_msg *msg, int fds[INNER_FD_COUNT], struct err *err)
{
        json_t *names = json_object_get(msg->body, "fds");

        for (int i = 0; i < INNER_FD_COUNT; i++)
                fds[i] = -1;
        for (size_t i = 0; i < json_array_size(names); i++) {
                const char *name = json_string_value(json_array_get(names, i));
                for (int k = 0; name && k < INNER_FD_COUNT; k++)
                        if (!strcmp(name, fd_names[k]) && fds[k] < 0)
                                fds[k] = chan_take_fd(msg, i);
        }
        for (int i = 0; i < INNER_FD_COUNT; i++)
                if (fds[i] < 0)
                        return err_set(err, "start: descriptor %s is missing", fd_names[i]);
        return 0;
}

void control_tell(struct door *d, json_t *body)
{
        if (d->outbox)
                outbox_flush(d->outbox);
        if (chan_send(d->control, body, NULL, 0) < 0) {
                log_error("bromed does not take a message: %s", strerror(errno));
                d->quit = true;
        }
}

/* --- policy --- */

static struct policy *load_policy(int fd, struct err *err)
{
        struct buf text;
        struct diags *diags = calloc(1, sizeof(*diags));
        struct policy *p = NULL;
        json_t *body = NULL;
        json_error_t je;
        const char *rules = NULL;

        buf_init(&text, 0);
        if (!diags)
                err_set(err, "policy: out of memory");
        else if (fd_read_all(fd, &text, POLICY_BYTES, err) == 0) {
                body = json_loadb((const char *)buf_slice(&text).p, buf_len(&text), JSON_REJECT_DUPLICATES, &je);
                rules = json_string_value(json_object_get(body, "rules"));
                if (!rules)
                        err_set(err, "policy: no rules in it");
                else if (!(p = policy_parse(slice_str(rules), "policy", diags))) {
                        char first[400];
                        diags_first(diags, first, sizeof(first));
                        err_set(err, "policy: %s", first);
                }
        }
        json_decref(body);
        buf_fini(&text);
        free(diags);
        return p;
}

unsigned control_cut(struct door *d, enum reason reason)
{
        struct policy_verdict v;
        struct exchange *x, *next_x;
        struct flow *f, *next_f;
        unsigned cut = 0;

        for (x = TAILQ_FIRST(&d->exchanges); x; x = next_x) {
                next_x = TAILQ_NEXT(x, list);
                if ((x->kind == EXCHANGE_HTTP || x->kind == EXCHANGE_WEBSOCKET) && !x->req)
                        continue; /* not yet read: judged when it is */
                if (decide_again_exchange(x, &v) && vet_again(x, &v) && (v.max_body < 0 || x->bytes_up <= (uint64_t)v.max_body)) {
                        x->verdict = v;
                        continue;
                }
                x->verdict = v;
                exchange_cut(x, reason, SLICE_EMPTY);
                cut++;
                next_x = next_x && next_x->state == EXCHANGE_ENDED ? TAILQ_FIRST(&d->exchanges) : next_x;
        }
        for (f = TAILQ_FIRST(&d->flows); f; f = next_f) {
                next_f = TAILQ_NEXT(f, list);
                if (f->to.port == 53)
                        continue;
                if (!flow_fits(f)) {
                        flow_retire(f);
                        cut++;
                }
        }
        return cut;
}

static void forget_counts(struct door *d)
{
        for (size_t i = 0; d->rule_text && i <= d->rule_count; i++)
                free(d->rule_text[i]);
        free(d->rule_text);
        free(d->hits);
        d->rule_text = NULL;
        d->hits = NULL;
}

static int set_policy(struct door *d, struct chan_msg *msg, struct err *err)
{
        int fd = chan_take_fd(msg, 0);
        struct policy *p = fd < 0 ? NULL : load_policy(fd, err), *old = d->policy;
        bool first = !old;
        unsigned cut;

        if (fd < 0)
                err_set(err, "policy: no descriptor");
        fd_close(&fd);
        if (!p)
                return -1;
        forget_counts(d);
        d->rule_count = policy_rule_count(p);
        d->hits = calloc(d->rule_count + 1, sizeof(*d->hits));
        d->rule_text = calloc(d->rule_count + 1, sizeof(*d->rule_text));
        if (!d->hits || !d->rule_text) {
                policy_free(p);
                return err_set(err, "policy: out of memory");
        }
        d->policy = p;
        d->generation = (uint64_t)chan_int(msg, "generation", 0);
        if (accounts_policy(d) < 0)
                return err_set(err, "policy: the accounts do not fit");
        cut = control_cut(d, REASON_POLICY_CHANGED);
        policy_free(old);
        control_tell(d, json_pack("{s:s, s:I, s:I}", "op", "policy", "generation", (json_int_t)d->generation, "cut", (json_int_t)cut));
        if (first)
                control_tell(d, json_pack("{s:s}", "op", "ready"));
        return 0;
}

/* --- the rest --- */

static int set_refuse(struct door *d, struct chan_msg *msg, struct err *err)
{
        enum reason r = reason_by_id(slice_str(chan_str(msg, "reason", "")));

        if (r != REASON_FROZEN && r != REASON_JOURNAL && r != REASON_COMPROMISED)
                return err_set(err, "refuse: unknown reason");
        if (r == REASON_COMPROMISED)
                d->tripped = false;
        if (!d->tripped)
                d->refuse = r;
        control_cut(d, r);
        control_tell(d, json_pack("{s:s}", "op", "refuse"));
        return 0;
}

static int set_admit(struct door *d, struct chan_msg *msg, struct err *err)
{
        (void)msg, (void)err;
        if (!d->tripped) /* said before bromed heard of the trip */
                d->refuse = REASON_NONE;
        control_tell(d, json_pack("{s:s}", "op", "admit"));
        return 0;
}

/* Rules that were hit, up to what one message holds. */
static json_t *hits_json(const struct door *d)
{
        enum { HITS_MAX = 2048 };
        json_t *hits = json_array();

        for (size_t i = 0; i <= d->rule_count && json_array_size(hits) < HITS_MAX; i++)
                if (d->hits && d->hits[i])
                        json_array_append_new(hits, json_pack("[I, I]", i == d->rule_count ? (json_int_t)POLICY_DEFAULT_RULE : (json_int_t)i, (json_int_t)d->hits[i]));
        return hits;
}

static int tell_stats(struct door *d, struct chan_msg *msg, struct err *err)
{
        (void)msg, (void)err;
        control_tell(d, json_pack("{s:s, s:I, s:o, s:I, s:I, s:I}", "op", "stats", "generation", (json_int_t)d->generation, "hits", hits_json(d), "flows",
                           (json_int_t)d->flow_count, "exchanges", (json_int_t)d->exchange_count, "held_bytes", (json_int_t)(d->held_bytes + d->hold_bytes)));
        return 0;
}

static int add_link(struct door *d, struct chan_msg *msg, struct err *err)
{
        int fd = chan_take_fd(msg, 0);

        if (fd < 0)
                return err_set(err, "link: no descriptor");
        if (accounts_link(d, chan_str(msg, "account", ""), fd) < 0)
                return err_set(err, "link: of an account that is not known, or out of memory");
        return 0;
}

static int no_link(struct door *d, struct chan_msg *msg, struct err *err)
{
        (void)err;
        accounts_no_link(d, chan_str(msg, "account", ""), chan_str(msg, "reason", ""));
        return 0;
}

static const struct {
        const char *op;
        int (*fn)(struct door *d, struct chan_msg *msg, struct err *err);
} ops[] = {
        { "policy", set_policy }, { "refuse", set_refuse }, { "admit", set_admit }, { "stats", tell_stats }, { "link", add_link }, { "no-link", no_link },
};

static int handle(struct door *d, struct chan_msg *msg, struct err *err)
{
        for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
                if (!strcmp(msg->op, ops[i].op))
                        return ops[i].fn(d, msg, err);
        return err_set(err, "an op that is not known");
}

static void on_control(evutil_socket_t fd, short what, void *arg)
{
        struct door *d = arg;
        struct chan_msg msg;
        struct err err = ERR_INIT;
        int rc;

        (void)what;
        while (!d->quit && (rc = chan_recv(fd, &msg, &err)) != 0) {
                if (rc > 0 && handle(d, &msg, &err) < 0)
                        rc = -1;
                chan_msg_fini(&msg);
                if (rc < 0) {
                        /* SECURITY: without bromed nobody records and nobody can change the rules: the end. */
                        log_info("ending: %s", err.text);
                        d->quit = true;
                }
        }
}

int control_open(struct door *d)
{
        struct event *e = event_new(d->base, d->control, EV_READ | EV_PERSIST, on_control, d);

        if (!e || event_add(e, NULL) < 0)
                return -1;
        d->control_event = e;
        return 0;
}
