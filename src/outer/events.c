/* Refusal records: see events.h. */
#include "outer/events.h"

#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "journal/event.h"
#include "journal/redact.h"
#include "outer/account.h"
#include "outer/ruleset.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct events {
        int fd;
        struct buf out;
        struct event *writable;
        void (*broken)(void *ctx);
        void *ctx;
};

static void events_flush(evutil_socket_t fd, short what, void *arg)
{
        struct events *e = arg;

        (void)fd;
        (void)what;
        while (buf_len(&e->out)) {
                struct slice s = buf_slice(&e->out);
                ssize_t n = send(e->fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                        event_add(e->writable, NULL);
                        return;
                }
                if (n < 0) {
                        e->broken(e->ctx);
                        return;
                }
                buf_consume(&e->out, (size_t)n);
        }
}

struct events *events_new(struct event_base *base, int fd, void (*broken)(void *ctx), void *ctx)
{
        struct events *e = calloc(1, sizeof(*e));

        if (!e)
                return NULL;
        *e = (struct events){ .fd = fd, .broken = broken, .ctx = ctx };
        buf_init(&e->out, EVENTS_BYTES);
        e->writable = event_new(base, fd, EV_WRITE, events_flush, e);
        if (!e->writable) {
                free(e);
                return NULL;
        }
        return e;
}

bool events_can_write(const struct events *e) { return buf_len(&e->out) < EVENTS_BYTES / 2; }

static void put_head(struct event_record *ev, const struct exchange *ex, struct buf *path)
{
        const struct request *req = &ex->req;
        bool http = ex->kind == KIND_HTTP || ex->kind == KIND_WEBSOCKET;

        event_text(ev, EVENT_PROTO, slice_str(http && ex->kind == KIND_HTTP ? (req->scheme == SCHEME_HTTPS ? "https" : "http") : kind_name(ex->kind)));
        if (ex->kind != KIND_ICMP)
                event_num(ev, EVENT_PORT, req->authority.port);
        if (!http)
                return;
        event_text(ev, EVENT_METHOD, req->method);
        if (buf_add_slice(path, req->target.path) == 0 && req->target.has_query && buf_add_str(path, "?") == 0)
                (void)!buf_add_slice(path, req->target.query);
}

/* Whose business a refusal is. */
static struct slice engine_of(enum reason r)
{
        switch ((int)r) {
        case REASON_FOREIGN_ACCOUNT:
        case REASON_WRONG_FIELD:
        case REASON_PLACEHOLDER_TWICE:
        case REASON_ACCOUNT_CLEARTEXT:
        case REASON_ACCOUNT_UPGRADE:
        case REASON_NOT_ANONYMOUS:
                return SLICE_LIT("Credential");
        case REASON_CONSENT_DENIED:
        case REASON_CONSENT_EXPIRED:
        case REASON_CONSENT_NOBODY:
                return SLICE_LIT("Consent");
        default:
                return SLICE_LIT("Firewall");
        }
}

static void send_record(struct events *e, const struct event_record *ev)
{
        if (event_write(&e->out, ev) < 0)
                log_error("a record could not be written: the journal is behind");
        events_flush(e->fd, 0, e);
}

void events_used(struct events *e, const struct exchange *ex)
{
        struct event_record ev;
        char detail[DETAIL_BYTES];

        event_init(&ev, EVENT_NOTE);
        event_num(&ev, EVENT_ID, ex->flow);
        event_text(&ev, EVENT_ENGINE, SLICE_LIT("Credential"));
        event_text(&ev, EVENT_DOOR, SLICE_LIT("outer"));
        event_text(&ev, EVENT_SUBJECT, SLICE_LIT("used"));
        event_text(&ev, EVENT_DECISION, SLICE_LIT("allow"));
        event_text(&ev, EVENT_ACCOUNT, account_name(ex->outer->account));
        event_text(&ev, EVENT_HOST, ex->to.authority.name);
        event_num(&ev, EVENT_PORT, ex->to.authority.port);
        event_text(&ev, EVENT_METHOD, ex->req.method);
        snprintf(detail, sizeof(detail), "the account %s is used", esc(account_name(ex->outer->account)));
        event_text(&ev, EVENT_DETAIL, slice_str(detail));
        send_record(e, &ev);
}

void events_refusal(struct events *e, const struct exchange *ex, const struct addr *resolved, const char *detail)
{
        char literal[ADDR_TEXT_BYTES + 2], address[ADDR_TEXT_BYTES];
        struct buf path, redacted, rule;
        struct event_record ev;

        buf_init(&path, 2 * HEAD_BYTES_MAX);
        buf_init(&redacted, 2 * HEAD_BYTES_MAX);
        buf_init(&rule, EVENT_RECORD_BYTES);
        event_init(&ev, EVENT_VERDICT);
        event_num(&ev, EVENT_ID, ex->flow);
        event_text(&ev, EVENT_ENGINE, engine_of(ex->decision.reason));
        if (ex->outer->account)
                event_text(&ev, EVENT_ACCOUNT, account_name(ex->outer->account));
        event_text(&ev, EVENT_DOOR, SLICE_LIT("outer"));
        event_text(&ev, EVENT_HOST, decide_host(&ex->req, literal));
        put_head(&ev, ex, &path);
        if (buf_len(&path) && redact_path(&redacted, buf_slice(&path)) == 0)
                event_text(&ev, EVENT_PATH, buf_slice(&redacted));
        event_text(&ev, EVENT_DECISION, SLICE_LIT("deny"));
        event_text(&ev, EVENT_REASON, slice_str(reason_id(ex->decision.reason)));
        if (ex->outer->rules) {
                policy_rule_text(ex->outer->rules->policy, ex->decision.rule, &rule);
                event_text(&ev, EVENT_RULE, buf_slice(&rule));
                event_num(&ev, EVENT_GENERATION, (uint64_t)ex->outer->rules->generation);
        }
        if (resolved)
                event_text(&ev, EVENT_ADDRESS, slice_str(addr_print(address, resolved)));
        event_text(&ev, EVENT_DETAIL, slice_str(detail));
        event_num(&ev, EVENT_FLAGS, ex->decision.log ? EVENT_FLAG_LOG : 0);
        send_record(e, &ev);
        buf_fini(&path);
        buf_fini(&redacted);
        buf_fini(&rule);
}
