/* Records to bromed: see events.h. */
#include "inner/events.h"
#include "base/clock.h"
#include "inner/accounts.h"
#include "inner/decide.h"
#include "inner/outbox.h"
#include "journal/event.h"
#include "journal/redact.h"
#include "inner/tripwire.h"
#include "wire/dns.h"

#include <stdlib.h>
#include <string.h>


static void put(struct door *d, const struct event_record *ev)
{
        outbox_added(d->outbox, event_write(outbox_buf(d->outbox), ev) == 0);
}

static void put_place(struct event_record *ev, const struct authority *to, char text[ADDR_TEXT_BYTES])
{
        event_text(ev, EVENT_HOST, to->is_addr ? slice_str(addr_print(text, &to->addr)) : to->name);
        if (to->port)
                event_num(ev, EVENT_PORT, to->port);
}

static void begin(struct event_record *ev, const struct door *d, uint64_t id, const char *protocol, const char *reason, const char *engine)
{
        event_init(ev, EVENT_VERDICT);
        event_num(ev, EVENT_ID, id);
        event_text(ev, EVENT_ENGINE, slice_str(engine ? engine : "Firewall"));
        event_text(ev, EVENT_DOOR, SLICE_LIT("inner"));
        event_text(ev, EVENT_PROTO, slice_str(protocol));
        event_text(ev, EVENT_DECISION, reason ? SLICE_LIT("deny") : SLICE_LIT("allow"));
        if (reason)
                event_text(ev, EVENT_REASON, slice_str(reason));
        event_num(ev, EVENT_GENERATION, d->generation);
}

/* The rule's canonical text, printed once a policy. */
static struct slice rule_text(struct door *d, int rule)
{
        char **at;
        struct buf text;

        if (rule == POLICY_DEFAULT_RULE || !d->rule_text || rule >= (int)d->rule_count)
                return SLICE_LIT("default");
        at = &d->rule_text[rule];
        if (!*at) {
                buf_init(&text, 0);
                policy_rule_text(d->policy, rule, &text);
                *at = strndup((const char *)buf_slice(&text).p, buf_len(&text));
                buf_fini(&text);
        }
        return slice_str(*at);
}

static void put_rule(struct event_record *ev, struct door *d, const struct policy_verdict *v)
{
        event_text(ev, EVENT_RULE, rule_text(d, v->rule));
        if (v->log)
                event_num(ev, EVENT_FLAGS, EVENT_FLAG_LOG);
}

void events_flow(struct door *d, uint64_t id, const char *protocol, const struct authority *to, enum flow_proto proto, const struct policy_verdict *v,
                 const struct refusal *r)
{
        struct event_record ev;
        struct buf suggest;
        char text[ADDR_TEXT_BYTES];

        buf_init(&suggest, 0);
        begin(&ev, d, id, protocol, r ? r->id : NULL, tripwire_engine(v->reason));
        put_place(&ev, to, text);
        put_rule(&ev, d, v);
        if (r && refusal_is_policy(v->reason)) {
                decide_suggest_flow(to, proto, &suggest);
                event_text(&ev, EVENT_SUGGEST, buf_slice(&suggest));
        }
        put(d, &ev);
        buf_fini(&suggest);
}

static void put_dns_type(struct event_record *ev, uint16_t type, char text[DNS_TYPE_TEXT_BYTES])
{
        if (type)
                event_text(ev, EVENT_METHOD, slice_str(dns_type_text(text, type)));
}

void events_name(struct door *d, uint64_t id, uint16_t type, struct slice name, bool allowed, enum reason reason)
{
        struct authority to = { .name = name, .port = 443 };
        struct event_record ev;
        struct buf suggest;
        char text[DNS_TYPE_TEXT_BYTES];

        buf_init(&suggest, 0);
        begin(&ev, d, id, "dns", allowed ? NULL : reason_id(reason), tripwire_engine(reason));
        put_dns_type(&ev, type, text);
        event_text(&ev, EVENT_HOST, name);
        event_num(&ev, EVENT_PORT, 53);
        if (!allowed && reason == REASON_NAME_NOT_ALLOWED) {
                event_text(&ev, EVENT_RULE, SLICE_LIT("default"));
                decide_suggest_flow(&to, FLOW_TCP, &suggest);
                event_text(&ev, EVENT_SUGGEST, buf_slice(&suggest));
        }
        put(d, &ev);
        buf_fini(&suggest);
}

void events_dns_refusal(struct door *d, uint16_t type, struct slice name, const struct refusal *r)
{
        struct event_record ev;
        char text[DNS_TYPE_TEXT_BYTES];

        begin(&ev, d, door_id(d), "dns", r->id, NULL);
        put_dns_type(&ev, type, text);
        if (name.n)
                event_text(&ev, EVENT_HOST, name);
        else
                event_text(&ev, EVENT_SUBJECT, SLICE_LIT("a DNS message"));
        event_num(&ev, EVENT_PORT, 53);
        event_text(&ev, EVENT_DETAIL, slice_str(r->text));
        put(d, &ev);
}

static void put_path(struct event_record *ev, const struct request *r, struct buf *text)
{
        struct buf full;

        buf_init(&full, 0);
        if (buf_add_slice(&full, r->target.path) == 0 && (!r->target.has_query || (buf_add(&full, "?", 1) == 0 && buf_add_slice(&full, r->target.query) == 0)) &&
            redact_path(text, buf_slice(&full)) == 0)
                event_text(ev, EVENT_PATH, buf_slice(text));
        buf_fini(&full);
}

/* The account that it uses; of a refusal, whose placeholder it was refused for. */
static void put_account(struct event_record *ev, const struct exchange *x, const struct refusal *r)
{
        const struct binding *b = x->account ? accounts_binding(x->account) : NULL;
        const struct account *a = r && x->whose ? x->whose : x->own_used || (b && b->attach) || r ? x->account : NULL;

        if (a)
                event_text(ev, EVENT_ACCOUNT, slice_str(a->name));
}

void events_request(struct exchange *x, const struct refusal *r)
{
        struct event_record ev;
        struct buf suggest, path;
        char text[ADDR_TEXT_BYTES];

        x->recorded = true;
        buf_init(&suggest, 0);
        buf_init(&path, 0);
        begin(&ev, x->door, x->id, x->protocol, r ? r->id : NULL, r ? x->engine : NULL);
        put_place(&ev, &x->to, text);
        put_rule(&ev, x->door, &x->verdict);
        if (x->req) {
                event_text(&ev, EVENT_METHOD, x->req->method);
                put_path(&ev, x->req, &path);
        }
        put_account(&ev, x, r);
        if (r && x->engine)
                event_text(&ev, EVENT_DETAIL, x->detail);
        if (x->req && r && refusal_is_policy(x->reason)) {
                decide_suggest_request(x, &suggest);
                event_text(&ev, EVENT_SUGGEST, buf_slice(&suggest));
        }
        put(x->door, &ev);
        buf_fini(&suggest);
        buf_fini(&path);
}

void events_account(const struct exchange *x, const struct account *a, const enum reason *denied, const char *what, struct slice detail)
{
        const char *engine = denied ? tripwire_engine(*denied) : NULL;
        struct event_record ev;
        struct buf path;
        char text[ADDR_TEXT_BYTES];

        buf_init(&path, 0);
        begin(&ev, x->door, x->id, x->protocol, denied ? what : NULL, engine ? engine : "Credential");
        ev.type = EVENT_NOTE;
        event_text(&ev, EVENT_SUBJECT, a ? SLICE_LIT("placeholder") : SLICE_LIT("account"));
        event_text(&ev, EVENT_REASON, slice_str(what));
        put_place(&ev, &x->to, text);
        if (a)
                event_text(&ev, EVENT_ACCOUNT, slice_str(a->name));
        if (x->req) {
                event_text(&ev, EVENT_METHOD, x->req->method);
                put_path(&ev, x->req, &path);
        }
        if (!a && !denied) /* of a leak: where `anonymous` would have to stand */
                event_text(&ev, EVENT_RULE, rule_text(x->door, x->verdict.rule));
        event_text(&ev, EVENT_DETAIL, detail);
        put(x->door, &ev);
        buf_fini(&path);
}

void events_end(const struct exchange *x)
{
        struct event_record ev;
        int64_t now = clock_mono_us();

        if (!x->recorded)
                return;
        event_init(&ev, EVENT_END);
        event_num(&ev, EVENT_ID, x->id);
        event_text(&ev, EVENT_DOOR, SLICE_LIT("inner"));
        if (x->status)
                event_num(&ev, EVENT_STATUS, x->status);
        event_num(&ev, EVENT_BYTES_UP, x->bytes_up);
        event_num(&ev, EVENT_BYTES_DOWN, x->bytes_down);
        event_num(&ev, EVENT_DURATION, (uint64_t)(now - x->started_us));
        if (x->head_us)
                event_num(&ev, EVENT_LATENCY, (uint64_t)(x->head_us - x->started_us));
        if (x->swapped)
                event_text(&ev, EVENT_ACCOUNT, slice_str(x->account->name));
        if (x->address[0])
                event_text(&ev, EVENT_ADDRESS, slice_str(x->address));
        if (x->found != WIRE_OK) {
                event_text(&ev, EVENT_REASON, slice_str(wire_reason_key(x->found)));
                event_text(&ev, EVENT_DETAIL, slice_str(wire_reason_sentence(x->found)));
        } else if (x->reason != REASON_NONE) {
                event_text(&ev, EVENT_REASON, slice_str(reason_id(x->reason)));
                event_text(&ev, EVENT_DETAIL, x->detail);
        }
        put(x->door, &ev);
}
