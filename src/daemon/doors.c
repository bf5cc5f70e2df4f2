/* Account doors: see doors.h. */
#include "daemon/doors.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/consent.h"
#include "daemon/live.h"
#include "daemon/secrets.h"
#include "daemon/session.h"
#include "daemon/spawn.h"
#include "daemon/workspace.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct account_door *door_of(struct program *p) { return (struct account_door *)p; }

static void arm(struct event *e, int ms)
{
        event_add(e, &(struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 });
}

static void no_link(struct session *s, const char *account, const char *reason)
{
        program_send(&s->programs[SESSION_INNER], json_pack("{s:s, s:s, s:s}", "op", "no-link", "account", account, "reason", reason), NULL, 0);
}

/* --- ending --- */

static bool gone(const struct account_door *d) { return d->ending && !d->program.running && d->events.fd < 0; }

static void door_free(struct account_door *d)
{
        program_hang_up(&d->program);
        record_door_close(&d->events);
        fd_close(&d->link);
        if (d->deadline)
                event_free(d->deadline);
        if (d->done)
                event_free(d->done);
        free(d);
}

static void check_gone(struct account_door *d)
{
        if (gone(d))
                event_active(d->done, EV_TIMEOUT, 0);
}

/* From the loop: nobody is in the middle of something with it. */
static void on_done(evutil_socket_t fd, short what, void *ctx)
{
        struct account_door *d = ctx, **at;
        struct session *s = d->program.session;

        (void)fd;
        (void)what;
        for (at = &s->account_doors; *at != d; at = &(*at)->next)
                ;
        *at = d->next;
        door_free(d);
        session_check_gone(s);
}

/* why_not: for the inner door, where it still waits for the link. */
static void end(struct account_door *d, const char *why_not)
{
        struct session *s = d->program.session;

        if (d->ending)
                return;
        d->ending = true;
        program_hang_up(&d->program);
        fd_close(&d->link);
        consent_door_gone(&d->program);
        if (!d->serving && s->ws->state != WS_STOPPING)
                no_link(s, d->account, why_not);
        d->serving = false;
        session_revoke_answered(s, d->revokes_due, 0);
        d->revokes_due = 0;
        arm(d->deadline, DAEMON_STOP_MS);
        check_gone(d);
        session_change_settled(s);
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
        struct account_door *d = ctx;

        (void)fd;
        (void)what;
        if (!d->ending) {
                log_error("workspace %s: the outer door of %s was not ready within %d s", d->program.session->ws->name, d->account, DAEMON_STAGE_MS / 1000);
                end(d, "internal");
                return;
        }
        spawn_kill(d->program.session->ws->daemon->spawn, d->program.id);
        record_door_close(&d->events);
        check_gone(d);
}

static void on_lost(struct program *p, const char *why)
{
        struct account_door *d = door_of(p);

        if (!d->ending && p->session->ws->state != WS_STOPPING)
                log_error("workspace %s: the outer door of %s ended unexpectedly (%s)", p->session->ws->name, d->account, why);
        end(d, "internal");
}

static void on_events_ended(struct record_door *r)
{
        struct account_door *d = (struct account_door *)(void *)((char *)r - offsetof(struct account_door, events));

        /* A door without records must not go on. */
        end(d, "internal");
        check_gone(d);
}

bool doors_exited(struct session *s, uint64_t id, int status, const char *never_ran)
{
        for (struct account_door *d = s->account_doors; d; d = d->next) {
                if (d->program.id != id || !d->program.running)
                        continue;
                d->program.running = false;
                if (never_ran)
                        log_error("workspace %s: the outer door of %s never ran: %s", s->ws->name, d->account, never_ran);
                else if (WIFSIGNALED(status))
                        log_error("workspace %s: the outer door of %s was killed by signal %d", s->ws->name, d->account, WTERMSIG(status));
                end(d, "internal");
                check_gone(d);
                return true;
        }
        return false;
}

void doors_end(struct session *s, const char *account)
{
        for (struct account_door *d = s->account_doors; d; d = d->next) {
                const struct config_credential *c = config_credential(s->ws->settings->config, slice_str(d->account));

                if (account ? strcmp(account, d->account) == 0 : !c || c->source == SECRET_VAULT)
                        end(d, "no-secret");
        }
}

void doors_hang_up(struct session *s)
{
        for (struct account_door *d = s->account_doors; d; d = d->next)
                end(d, "internal");
}

bool doors_all_gone(const struct session *s)
{
        for (const struct account_door *d = s->account_doors; d; d = d->next)
                if (!gone(d))
                        return false;
        return true;
}

void doors_kill(struct session *s)
{
        for (struct account_door *d = s->account_doors; d; d = d->next)
                if (d->program.running)
                        spawn_kill(s->ws->daemon->spawn, d->program.id);
}

void doors_resume(struct session *s)
{
        struct workspace *ws = s->ws;

        for (struct account_door *d = s->account_doors; d && ws->session == s; d = d->next)
                record_door_resume(&d->events);
}

void doors_free(struct session *s)
{
        while (s->account_doors) {
                struct account_door *d = s->account_doors;

                s->account_doors = d->next;
                door_free(d);
        }
}

/* --- policy --- */

static bool policy_binds(const struct session *s, const char *account)
{
        for (size_t i = 0; s->policy && i < policy_account_count(s->policy); i++)
                if (slice_is(policy_account_at(s->policy, i)->name, account))
                        return true;
        return false;
}

static bool send_policy(struct account_door *d, int policy, uint64_t generation)
{
        d->sent = generation;
        d->acks_due++;
        return program_send(&d->program, json_pack("{s:s, s:I, s:[s]}", "op", "policy", "generation", (json_int_t)generation, "fds", "policy"), &policy, 1);
}

void doors_policy(struct session *s)
{
        for (struct account_door *d = s->account_doors; d; d = d->next) {
                if (d->ending)
                        continue;
                if (policy_binds(s, d->account))
                        send_policy(d, s->change_policy, s->change_generation);
                else
                        end(d, "no-secret");
        }
}

static const struct account_door *unsettled(const struct session *s)
{
        /* One that starts is handed over with the newest policy only: it holds nobody up. */
        for (const struct account_door *d = s->account_doors; d; d = d->next)
                if (!d->ending && d->serving && d->acks_due)
                        return d;
        return NULL;
}

bool doors_settled(const struct session *s) { return !unsettled(s); }
const char *doors_unsettled(const struct session *s) { return unsettled(s) ? unsettled(s)->account : ""; }

/* SECURITY: until a person decides, no secret leaves this process and no new link to one is handed out, whatever the inner door asks for: who took it over could
 * have tripped on purpose, or be silent about the rest. */
static bool compromised(const struct session *s) { return s->ws->undecided || s->trip_us || s->ws->state == WS_COMPROMISED; }

/* Ready, and nothing newer on its way to it: the inner door gets the link. */
static void advance(struct account_door *d)
{
        struct session *s = d->program.session;

        if (d->serving || d->ending || !d->said_ready || d->acks_due)
                return;
        if (compromised(s)) {
                end(d, "internal");
                return;
        }
        event_del(d->deadline);
        d->serving = true;
        program_send(&s->programs[SESSION_INNER], json_pack("{s:s, s:s, s:[s]}", "op", "link", "account", d->account, "fds", "link"), &d->link, 1);
        fd_close(&d->link);
}

static bool heard_policy(struct program *p, struct chan_msg *msg)
{
        struct account_door *d = door_of(p);
        long long cut = chan_int(msg, "cut", 0), generation = chan_int(msg, "generation", -1);

        /* In order, each once. The same rules are sent again when only a CA file that they name is another one. */
        if (!d->acks_due || generation <= 0 || (uint64_t)generation < d->acked || (uint64_t)generation > d->sent || cut < 0 || cut > INT_MAX ||
            (d->acks_due == 1 && (uint64_t)generation != d->sent))
                return false;
        d->acked = (uint64_t)generation;
        d->acks_due--;
        if (p->session->change == CHANGE_OUTER)
                p->session->change_cut += cut;
        advance(d);
        session_change_settled(p->session);
        return true;
}

static bool heard_ready(struct program *p, struct chan_msg *msg)
{
        struct account_door *d = door_of(p);

        (void)msg;
        if (d->said_ready)
                return false;
        d->said_ready = true;
        advance(d);
        return true;
}

static bool heard_idle(struct program *p, struct chan_msg *msg)
{
        (void)msg;
        end(door_of(p), "internal");
        return true;
}

static bool heard_used(struct program *p, struct chan_msg *msg)
{
        long long count = chan_int(msg, "count", 0);
        char host[256];

        if (count < 0 || count > INT_MAX)
                return false;
        esc_text(host, sizeof(host), slice_str(chan_str(msg, "host", "")));
        workspace_used(p->session->ws, door_of(p)->account, host, (uint64_t)count);
        return true;
}

static bool heard_revoke(struct program *p, struct chan_msg *msg)
{
        struct account_door *d = door_of(p);
        long long cut = chan_int(msg, "cut", 0);

        if (!d->revokes_due || cut < 0 || cut > INT_MAX)
                return false;
        d->revokes_due--;
        session_revoke_answered(p->session, 1, cut);
        return true;
}

unsigned doors_revoke(struct session *s, bool rule, const char *name, const char *host, uint16_t port)
{
        unsigned n = 0;

        for (struct account_door *d = s->account_doors; d; d = d->next) {
                if (d->ending || (!rule && strcmp(d->account, name) != 0))
                        continue;
                d->revokes_due++;
                n++;
                program_send(&d->program, json_pack("{s:s, s:s, s:s, s:s, s:i}", "op", "revoke", "what", rule ? "rule" : "credential", "name", name, "host", host,
                                                    "port", (int)port), NULL, 0);
        }
        return n;
}

bool doors_heard(struct program *p, struct chan_msg *msg)
{
        static const struct {
                const char *op;
                program_heard *heard;
        } talk[] = {
                { "policy", heard_policy }, { "ready", heard_ready },         { "ask", consent_heard_ask }, { "ask-end", consent_heard_end },
                { "idle", heard_idle },     { "used", heard_used },           { "revoke", heard_revoke },
        };

        for (size_t i = 0; i < sizeof(talk) / sizeof(talk[0]); i++)
                if (strcmp(msg->op, talk[i].op) == 0)
                        return p->session->ws->state == WS_STOPPING || talk[i].heard(p, msg);
        return false;
}

/* --- starting --- */

/* Of the channel's three messages the first: what it is, where it reports, its link, its secret. */
static bool send_start(struct account_door *d, int events, int link, int secret)
{
        struct session *s = d->program.session;
        int fds[3] = { events, link, secret };
        json_t *start = session_outer_start(s, d->account);

        json_object_set_new(start, "fds", json_pack("[s, s, s]", "events", "link", "secret"));
        return program_send(&d->program, start, fds, 3);
}

static struct account_door *door_new(struct session *s, const char *account)
{
        struct account_door *d = calloc(1, sizeof(*d));
        struct event_base *base = s->ws->daemon->base;

        if (!d)
                return NULL;
        d->program = (struct program){ .session = s, .name = "outer", .call = "an account's outer door", .heard = doors_heard, .lost = on_lost, .fd = -1 };
        d->events.fd = d->link = -1;
        snprintf(d->account, sizeof(d->account), "%s", account);
        d->deadline = event_new(base, -1, 0, on_deadline, d);
        d->done = event_new(base, -1, 0, on_done, d);
        MUST(d->deadline && d->done); /* some hundred bytes each */
        d->next = s->account_doors;
        s->account_doors = d;
        return d;
}

/* Program, event socket, link, first messages. 0 or -1: the door then ends. */
static int start(struct account_door *d, struct slice secret, int policy)
{
        struct session *s = d->program.session;
        int events[2] = { -1, -1 }, link[2] = { -1, -1 }, pipe = secrets_pipe(secret), rc = -1, kept;

        if (pipe >= 0 && session_stream_pair(events) == 0 && session_stream_pair(link) == 0 && program_start(s->ws->daemon, &d->program, s->ws->name) == 0) {
                kept = events[0];
                events[0] = -1;
                d->link = link[0];
                link[0] = -1;
                if (record_door_open(&d->events, s->ws, "outer", kept) == 0 && send_start(d, events[1], link[1], pipe) &&
                    send_policy(d, policy, s->ws->generation))
                        rc = 0;
                d->events.ended = on_events_ended;
        }
        fd_close(&events[0]);
        fd_close(&events[1]);
        fd_close(&link[0]);
        fd_close(&link[1]);
        fd_close(&pipe);
        return rc;
}

static struct account_door *find(const struct session *s, const char *account)
{
        for (struct account_door *d = s->account_doors; d; d = d->next)
                if (!d->ending && strcmp(d->account, account) == 0)
                        return d;
        return NULL;
}

/* A door more would be too many. */
static bool crowded(const struct session *s, const char *account)
{
        size_t all = 0, ending = 0;

        for (const struct account_door *d = s->account_doors; d; d = d->next) {
                all++;
                ending += strcmp(d->account, account) == 0;
        }
        return all >= DAEMON_DOORS || ending > DAEMON_DOORS_ENDING;
}

void doors_want(struct session *s, const char *account)
{
        const struct config_credential *c = config_credential(s->ws->settings->config, slice_str(account));
        struct account_door *d = find(s, account);
        struct err err = ERR_INIT;
        struct slice secret;
        enum secret_have have;
        int policy;

        if (compromised(s)) {
                no_link(s, account, "internal");
                return;
        }
        if (d && !d->serving)
                return; /* it is coming */
        if (d) /* the inner door has lost it */
                end(d, "internal");
        have = c && policy_binds(s, account) ? secrets_find(s->ws->daemon->secrets, c, &secret) : SECRET_NONE;
        if (have != SECRET_HERE) {
                no_link(s, account, have == SECRET_LOCKED ? "locked" : "no-secret");
                return;
        }
        if (crowded(s, account)) {
                no_link(s, account, "internal");
                return;
        }
        policy = live_policy(s->ws->daemon, s->ws->settings, s->ws->conf, s->live, NULL, &err);
        d = policy >= 0 ? door_new(s, account) : NULL;
        if (!d) {
                log_error("workspace %s: the outer door of %s cannot be started: %s", s->ws->name, account, err.text[0] ? err.text : "out of memory");
                no_link(s, account, "internal");
        } else {
                arm(d->deadline, DAEMON_STAGE_MS);
                if (start(d, secret, policy) < 0)
                        end(d, "internal");
        }
        fd_close(&policy);
}
