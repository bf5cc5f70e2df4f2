/* Consent: see consent.h. */
#include "daemon/consent.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/log.h"
#include "daemon/record.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/workspace.h"
#include "journal/event.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void on_answer(void *ctx, void *door, uint64_t id, enum approval_answer answer, int64_t ttl_ms)
{
        struct program *p = door;

        (void)ctx;
        if (p->fd >= 0)
                program_post(p, json_pack("{s:s, s:I, s:s, s:I}", "op", "answer", "id", (json_int_t)id, "answer", approval_answer_name(answer), "ttl_ms",
                                          (json_int_t)ttl_ms));
}

static void fill(struct event_record *e, const struct approval_key *key, const char *detail)
{
        event_init(e, EVENT_NOTE);
        event_text(e, EVENT_ENGINE, SLICE_LIT("Consent"));
        event_text(e, EVENT_SUBJECT, key->rule ? SLICE_LIT("rule") : SLICE_LIT("credential"));
        event_text(e, key->rule ? EVENT_RULE : EVENT_ACCOUNT, slice_str(key->name));
        event_text(e, EVENT_HOST, slice_str(key->host));
        event_num(e, EVENT_PORT, key->port);
        event_text(e, EVENT_DETAIL, slice_str(detail));
}

static bool on_record(void *ctx, const struct approval_key *key, bool allow, const char *detail, const struct approval_request *first)
{
        struct event_record e;

        fill(&e, key, detail);
        event_text(&e, EVENT_DECISION, allow ? SLICE_LIT("allow") : SLICE_LIT("deny"));
        if (first) {
                event_text(&e, EVENT_METHOD, slice_str(first->method));
                event_text(&e, EVENT_PATH, slice_str(first->path));
        }
        return record_note(ctx, workspace_find(ctx, key->workspace), &e, true) == 0;
}

static void on_note(void *ctx, const struct approval_key *key, const char *detail)
{
        struct event_record e;

        fill(&e, key, detail);
        (void)!record_note(ctx, workspace_find(ctx, key->workspace), &e, false);
}

static void on_news(void *ctx, const struct approval_key *key, json_t *approval)
{
        server_notice(ctx, key->workspace, json_pack("{s:s, s:o}", "kind", "approval", "approval", approval));
}

static void on_ended(void *ctx, const struct approval_key *key, uint64_t id, const char *answer)
{
        server_notice(ctx, key->workspace, json_pack("{s:s, s:I, s:s}", "kind", "approval-end", "approval", (json_int_t)id, "answer", answer));
}

static void on_revoked(void *ctx, const struct approval_key *key)
{
        struct workspace *ws = workspace_find(ctx, key->workspace);

        if (ws && ws->session)
                session_revoke(ws->session, key->rule, key->name, key->host, key->port);
}

static const struct approvals_calls calls = { on_answer, on_record, on_note, on_news, on_ended, on_revoked };

/* --- time --- */

void consent_arm(struct daemon *d)
{
        int64_t due = approvals_due_ms(d->approvals, clock_boot_ms());

        if (due < 0) {
                event_del(d->approvals_timer);
                return;
        }
        event_add(d->approvals_timer, &(struct timeval){ .tv_sec = due / 1000, .tv_usec = due % 1000 * 1000 + 500 });
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
        struct daemon *d = ctx;

        (void)fd;
        (void)what;
        approvals_tick(d->approvals, clock_boot_ms());
        consent_arm(d);
}

int consent_open(struct daemon *d)
{
        enum { FIRST = 1000, SPREAD = 9000 }; /* four digits to type, for long */
        uint16_t random;

        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
                return -1;
        d->approvals = approvals_new(&calls, d, FIRST + random % SPREAD);
        d->approvals_timer = event_new(d->base, -1, 0, on_timer, d);
        return d->approvals && d->approvals_timer ? 0 : -1;
}

void consent_close(struct daemon *d)
{
        if (d->approvals_timer)
                event_free(d->approvals_timer);
        d->approvals_timer = NULL;
        approvals_free(d->approvals);
        d->approvals = NULL;
}

/* --- what doors say --- */

static int nibble(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool read_digest(const char *hex, uint8_t out[APPROVAL_DIGEST_BYTES])
{
        if (strlen(hex) != 2 * APPROVAL_DIGEST_BYTES)
                return false;
        for (size_t i = 0; i < APPROVAL_DIGEST_BYTES; i++) {
                int hi = nibble(hex[2 * i]), lo = nibble(hex[2 * i + 1]);

                if (hi < 0 || lo < 0)
                        return false;
                out[i] = (uint8_t)(hi << 4 | lo);
        }
        return true;
}

/* The binding of that name, where it has that host. */
static const struct binding *bound(const struct session *s, const char *name, const char *host, uint16_t port)
{
        for (size_t i = 0; s->policy && i < policy_account_count(s->policy); i++) {
                const struct binding *b = policy_account_at(s->policy, i);

                if (slice_is(b->name, name))
                        return binding_covers(b, slice_str(host), port) ? b : NULL;
        }
        return NULL;
}

/* Names and hosts come from our own policy: not empty, shorter than that, nothing that a terminal obeys. As they are: a revocation names them again. */
static bool printable(const char *s, size_t below)
{
        size_t n = strlen(s);

        for (size_t i = 0; i < n; i++)
                if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
                        return false;
        return n && n < below;
}

/* Only the door of an account asks for that account. */
static bool may_ask(const struct program *p, bool rule, const char *name)
{
        if (rule)
                return true;
        return p != &p->session->programs[SESSION_OUTER] && strcmp(((const struct account_door *)(const void *)p)->account, name) == 0;
}

bool consent_heard_ask(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        struct daemon *d = s->ws->daemon;
        const char *what = chan_str(msg, "what", ""), *name = chan_str(msg, "name", ""), *host = chan_str(msg, "host", "");
        long long id = chan_int(msg, "id", -1), port = chan_int(msg, "port", -1);
        char path[APPROVAL_PATH_BYTES], method[64];
        struct approval_key key = { .rule = strcmp(what, "rule") == 0, .name = name, .port = (uint16_t)port };
        struct approval_request r = { .method = method, .path = path, .body = chan_bool(msg, "body", true) };
        const struct binding *b = NULL;

        if (id < 0 || port < 0 || port > 65535 || (!key.rule && strcmp(what, "credential") != 0) || !printable(name, APPROVAL_NAME_BYTES) ||
            !printable(host, sizeof(key.host)) || !may_ask(p, key.rule, name) || !read_digest(chan_str(msg, "digest", ""), r.digest))
                return false;
        if (!key.rule && !(b = bound(s, name, host, key.port))) { /* the rules changed while it asked */
                on_answer(d, p, (uint64_t)id, APPROVAL_DENY, 0);
                return true;
        }
        snprintf(key.workspace, sizeof(key.workspace), "%s", s->ws->name);
        snprintf(key.host, sizeof(key.host), "%s", host);
        esc_text(method, sizeof(method), slice_str(chan_str(msg, "method", "")));
        esc_text(path, sizeof(path), slice_str(chan_str(msg, "path", "")));
        approvals_ask(d->approvals, &(struct approval_use){ .key = &key, .request = &r, .door = p, .id = (uint64_t)id, .wait = b && b->ask_wait },
                      server_watched(d, s->ws->name), clock_boot_ms());
        consent_arm(d);
        return true;
}

bool consent_heard_end(struct program *p, struct chan_msg *msg)
{
        long long id = chan_int(msg, "id", -1);

        if (id < 0)
                return false;
        approvals_withdraw(p->session->ws->daemon->approvals, p, (uint64_t)id);
        return true;
}

void consent_door_gone(struct program *p) { approvals_door_gone(p->session->ws->daemon->approvals, p); }

void consent_session_gone(struct workspace *ws)
{
        struct session *s = ws->session;

        if (s)
                consent_door_gone(&s->programs[SESSION_OUTER]);
        approvals_workspace_gone(ws->daemon->approvals, ws->name);
        consent_arm(ws->daemon);
}

/* --- the rules change --- */

/* What the policy asks for: the texts of the rules that ask, each with a NUL behind it, read when the first is looked for. */
struct asked_for {
        const struct session *session;
        struct buf rules;
        bool read;
};

static void read_rules(struct asked_for *f)
{
        const struct policy *p = f->session->policy;
        struct buf text;

        buf_init(&text, 0);
        for (size_t i = 0; p && i < policy_rule_count(p); i++) {
                buf_clear(&text);
                policy_rule_text(p, (int)i, &text);
                if (!text.failed && slice_starts(buf_slice(&text), SLICE_LIT("ask ")) && buf_add_slice(&f->rules, buf_slice(&text)) == 0)
                        (void)!buf_add(&f->rules, "", 1);
        }
        buf_fini(&text);
        f->read = true;
}

/* A door cuts a long text and puts its digest behind it: then the beginning must do. Whether it is the same rule is the door's to say, by all of it. */
static bool same_rule(struct slice name, struct slice text)
{
        enum { WHOLE_BYTES = 8 * 1024, TAIL_BYTES = 4 + 64 };

        return slice_eq(name, text) || (name.n > WHOLE_BYTES && slice_starts(text, slice_first(name, name.n - TAIL_BYTES)));
}

static bool still_asked(void *ctx, const struct approval_key *key)
{
        struct asked_for *f = ctx;
        const struct binding *b;
        struct slice left;

        if (!key->rule) {
                b = bound(f->session, key->name, key->host, key->port);
                return b && b->ask;
        }
        if (!f->read)
                read_rules(f);
        /* Memory out: the text is not found, and the question is asked again. */
        for (left = buf_slice(&f->rules); left.n;) {
                size_t n = strnlen((const char *)left.p, left.n);

                if (same_rule(slice_str(key->name), slice_first(left, n)))
                        return true;
                left = slice_skip(left, n < left.n ? n + 1 : n);
        }
        return false;
}

void consent_rules_changed(struct session *s)
{
        struct asked_for f = { .session = s };

        buf_init(&f.rules, 0);
        approvals_keep_only(s->ws->daemon->approvals, s->ws->name, still_asked, &f, "the rules do not ask for it any more");
        buf_fini(&f.rules);
        consent_arm(s->ws->daemon);
}

static bool never(void *ctx, const struct approval_key *key)
{
        (void)ctx, (void)key;
        return false;
}

void consent_tripped(struct session *s)
{
        approvals_keep_only(s->ws->daemon->approvals, s->ws->name, never, NULL, "the tripwire went off");
        consent_arm(s->ws->daemon);
}
