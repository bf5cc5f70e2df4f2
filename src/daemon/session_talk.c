/* What a session's programs say, and what follows (docs/CONTROL.md). Each program has a table of the messages it may send; anything else,
 * and anything at the wrong time, ends the session. */
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/consent.h"
#include "daemon/record.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/trip.h"
#include "daemon/workspace.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GATEWAY_FDS = 6, INNER_FDS = 11 };

static bool running(const struct session *s)
{
        return s->ws->state == WS_RUNNING || s->ws->state == WS_FROZEN || s->ws->state == WS_COMPROMISED;
}
static struct program *inner(struct session *s) { return &s->programs[SESSION_INNER]; }
static struct program *outer(struct session *s) { return &s->programs[SESSION_OUTER]; }
static struct program *launch(struct session *s) { return &s->programs[SESSION_LAUNCH]; }

/* --- changes of the rules --- */

static void arm_ack(struct session *s)
{
        struct timeval t = { .tv_sec = DAEMON_ACK_MS / 1000, .tv_usec = DAEMON_ACK_MS % 1000 * 1000 };

        if (running(s))
                event_add(s->ack, &t);
}

/* Nothing is owed any more: the deadline goes. */
static void settle(struct session *s)
{
        if (s->change == CHANGE_NONE && s->refusals_unanswered == 0 && s->revokes_owed == 0)
                event_del(s->ack);
}

static bool send_policy(struct session *s, struct program *door)
{
        return program_send(door, json_pack("{s:s, s:I, s:[s]}", "op", "policy", "generation", (json_int_t)s->change_generation, "fds", "policy"),
                            &s->change_policy, 1);
}

void session_change_begin(struct session *s, int policy)
{
        fd_close(&s->change_policy);
        s->change_policy = policy;
        s->change_generation = s->ws->generation;
        s->change = CHANGE_OUTER;
        s->outer_due = true;
        s->change_cut = 0;
        arm_ack(s);
        send_policy(s, outer(s));
        doors_policy(s);
}

void session_change_settled(struct session *s)
{
        if (s->change != CHANGE_OUTER || s->outer_due || !doors_settled(s) || s->ws->state == WS_STOPPING)
                return;
        s->change = CHANGE_INNER;
        arm_ack(s); /* each door has its second */
        if (s->inner_started)
                send_policy(s, inner(s));
}

static void thaw(struct session *s);

static void change_done(struct session *s)
{
        struct workspace *ws = s->ws;

        s->change = CHANGE_NONE;
        fd_close(&s->change_policy);
        settle(s);
        if (s->change_waits.client)
                reply_send(ws->daemon, &s->change_waits,
                           json_pack("{s:s, s:I, s:I}", "op", "done", "generation", (json_int_t)s->change_generation, "cut", (json_int_t)s->change_cut),
                           NULL, 0);
        if (s->change_again) {
                struct reply next = s->next_waits;

                s->change_again = false;
                s->next_waits = (struct reply){ 0 };
                session_policy(ws, next, "the rules changed again meanwhile");
        } else if (s->thaw_after_change) {
                s->thaw_after_change = false;
                thaw(s);
        }
}

void session_policy(struct workspace *ws, struct reply reply, const char *what)
{
        struct session *s = ws->session;
        struct policy *compiled = NULL;
        struct err err = ERR_INIT;
        int policy;

        if (ws->state == WS_STOPPING || ws->state == WS_PREPARING || s->change != CHANGE_NONE) {
                s->change_again = ws->state != WS_STOPPING;
                if (s->change != CHANGE_NONE && s->change_again && !s->next_waits.client)
                        s->next_waits = reply;
                else
                        reply_error(ws->daemon, &reply, REQUEST_E_STATE, "the workspace is being changed or ended just now; try again");
                return;
        }
        policy = live_mint(s->live, ws->conf, ws->folder, &err) < 0 ? -1 : live_policy(ws->daemon, ws->settings, ws->conf, s->live, &compiled, &err);
        if (policy < 0) {
                /* Checked before it was kept; whatever came between, the old rules must not go on. */
                reply_error(ws->daemon, &reply, REQUEST_E_CONFIG, err.text);
                session_fail(ws, "the rules cannot be handed to the doors: %s", err.text);
                return;
        }
        log_debug("workspace %s: %s", ws->name, what);
        policy_free(s->policy);
        s->policy = compiled;
        s->change_waits = reply;
        session_change_begin(s, policy);
        consent_rules_changed(s); /* behind the new policy: the doors have judged by it when they hear of a grant's end */
}

/* ← policy, of either door. */
static bool heard_policy(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        enum change_stage due = p == outer(s) ? CHANGE_OUTER : CHANGE_INNER;
        long long cut = chan_int(msg, "cut", 0);

        if (s->change != due || (due == CHANGE_OUTER && !s->outer_due) || (uint64_t)chan_int(msg, "generation", -1) != s->change_generation || cut < 0 || cut > INT_MAX)
                return false;
        s->change_cut += cut;
        session_stage(s);
        if (due == CHANGE_INNER) {
                change_done(s);
                session_advance(s);
                return true;
        }
        s->outer_due = false;
        session_change_settled(s);
        return true;
}

/* --- refusing everything --- */

/* The one reason that counts now: compromised before frozen before journal. */
static void tell_inner(struct session *s, bool frozen)
{
        const char *reason = s->ws->undecided || s->trip_us ? "compromised" : frozen ? "frozen" : s->ws->daemon->refusing ? "journal" : NULL;

        if (!s->inner_started || s->ws->state == WS_STOPPING)
                return;
        if (!program_send(inner(s), json_pack("{s:s, s:s*}", "op", reason ? "refuse" : "admit", "reason", reason), NULL, 0))
                return;
        s->refusals_unanswered++;
        arm_ack(s);
}

/* The way out first, the guest when it is open: what goes on finds nothing refused. */
static void thaw(struct session *s)
{
        s->thawing = true;
        program_send(launch(s), json_pack("{s:s}", "op", "open"), NULL, 0);
        tell_inner(s, false);
        s->thaw_after_admit = s->refusals_unanswered > 0;
        if (!s->thaw_after_admit)
                program_send(launch(s), json_pack("{s:s}", "op", "thaw"), NULL, 0);
}

static bool heard_refuse(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;

        (void)msg;
        if (s->refusals_unanswered == 0)
                return false;
        s->refusals_unanswered--;
        settle(s);
        if (s->refusals_unanswered == 0 && s->thaw_after_admit) {
                s->thaw_after_admit = false;
                program_send(launch(s), json_pack("{s:s}", "op", "thaw"), NULL, 0);
        }
        return true;
}

void session_journal(struct workspace *ws, bool refusing)
{
        (void)refusing;
        tell_inner(ws->session, ws->state == WS_FROZEN || ws->state == WS_COMPROMISED || ws->session->freezing);
}

/* --- the doors --- */

static bool heard_stats(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;

        for (size_t i = 0; i < SESSION_STATS_WAITING; i++)
                commands_rules(s->ws, &s->stats[i], msg->body);
        event_del(s->stats_deadline);
        return true;
}

static bool heard_account(struct program *p, struct chan_msg *msg)
{
        const char *account = chan_str(msg, "account", "");

        if (!p->session->inner_started || !request_name_ok(account))
                return false;
        doors_want(p->session, account);
        return true;
}

/* The door without an account stays: it costs little and is wanted soon. */
static bool heard_idle(struct program *p, struct chan_msg *msg)
{
        (void)p;
        (void)msg;
        return true;
}

static bool heard_revoke(struct program *p, struct chan_msg *msg)
{
        long long cut = chan_int(msg, "cut", 0);

        if (p->session->revokes_owed == 0 || cut < 0 || cut > INT_MAX)
                return false;
        session_revoke_answered(p->session, 1, cut);
        return true;
}

static bool heard_ready(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        bool *ready = p == outer(s) ? &s->outer_ready : &s->inner_ready;

        (void)msg;
        if (*ready || s->ws->state != WS_OPENING || (p == inner(s) && !s->inner_started))
                return false;
        *ready = true;
        session_advance(s);
        return true;
}

/* Opens what the inner door gets of the workspace's folder. */
static int open_in(const struct workspace *ws, const char *name, int flags)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/%s", ws->folder, name) >= (int)sizeof(path))
                return -1;
        return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static bool start_inner(struct session *s, const struct chan_msg *gateway)
{
        static const char *const names[INNER_FDS] = { "events", "tcp",    "udp",    "raw4", "raw6", "icmp4",
                                                      "icmp6",  "names",  "ca_key", "ca_cert", "link" };
        const struct config_workspace *c = s->ws->conf;
        int fds[INNER_FDS] = { s->inner_events };
        json_t *list = json_array();
        bool ok = true;

        for (size_t i = 0; i < INNER_FDS; i++)
                json_array_append_new(list, json_string(names[i]));
        memcpy(fds + 1, gateway->fds, GATEWAY_FDS * sizeof(int));
        fds[7] = open_in(s->ws, "names", O_RDWR | O_APPEND | O_CREAT);
        fds[8] = open_in(s->ws, "ca.key", O_RDONLY);
        fds[9] = open_in(s->ws, "ca.pem", O_RDONLY);
        fds[10] = s->inner_link;
        for (size_t i = 0; i < INNER_FDS; i++)
                ok = ok && fds[i] >= 0;
        if (!ok)
                session_fail(s->ws, "the files in %s cannot be opened", s->ws->folder);
        ok = ok && program_send(inner(s),
                                json_pack("{s:s, s:s, s:I, s:s, s:b, s:s, s:O}", "op", "start", "workspace", s->ws->name, "session",
                                          (json_int_t)s->number, "dns", c->dns == DNS_REAL ? "real" : "synthetic", "trace", c->trace_activity,
                                          "detect", c->detect_off ? "off" : "log", "fds", list),
                                fds, INNER_FDS);
        json_decref(list);
        for (size_t i = 7; i < 10; i++)
                fd_close(&fds[i]);
        fd_close(&s->inner_events);
        fd_close(&s->inner_link);
        return ok;
}

/* --- the launcher --- */

static bool heard_gateway(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;

        if (s->ws->state != WS_OPENING || s->inner_started || msg->fd_count != GATEWAY_FDS)
                return false;
        if (!start_inner(s, msg))
                return true; /* failed already */
        s->inner_started = true;
        session_stage(s);
        if (s->ws->daemon->refusing)
                tell_inner(s, false);
        if (s->change == CHANGE_INNER)
                send_policy(s, inner(s));
        return true;
}

static bool heard_launch_ready(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;

        if (s->launch_ready || s->ws->state != WS_OPENING || !s->inner_started)
                return false;
        s->launch_ready = true;
        s->isolation = json_incref(json_object_get(msg->body, "isolation"));
        session_advance(s);
        return true;
}

/* The next step, when everything that it needs is there. */
void session_advance(struct session *s)
{
        struct workspace *ws = s->ws;

        session_stage(s);
        if (!s->opened && s->inner_ready && s->outer_ready && s->change == CHANGE_NONE) {
                s->opened = program_send(launch(s), json_pack("{s:s}", "op", "open"), NULL, 0);
                reply_progress(ws->daemon, &s->opener, "the gate is ready");
        }
        if (ws->state != WS_OPENING || !s->opened || !s->launch_ready)
                return;
        event_del(s->deadline);
        workspace_state(ws, WS_RUNNING, NULL);
        record_flush(ws->daemon);
        reply_send(ws->daemon, &s->opener,
                   json_pack("{s:s, s:s, s:I, s:O*, s:O*}", "op", "session", "workspace", ws->name, "session", (json_int_t)s->number, "limits",
                             json_object_get(s->isolation, "limits"), "warnings", json_object_get(s->isolation, "warnings")), NULL, 0);
}

static bool heard_progress(struct program *p, struct chan_msg *msg)
{
        /* No new deadline: a launcher that only talks does not get on. */
        reply_progress(p->session->ws->daemon, &p->session->opener, chan_str(msg, "step", ""));
        return true;
}

static bool heard_exec(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        struct daemon *d = s->ws->daemon;
        uint64_t id = (uint64_t)chan_int(msg, "id", 0);

        for (size_t i = 0; id && i < SESSION_EXECS_WAITING; i++) {
                if (s->execs[i].id != id)
                        continue;
                s->execs[i].id = 0;
                if (msg->fd_count == 1)
                        reply_send(d, &s->execs[i].reply, json_pack("{s:s, s:[s]}", "op", s->execs[i].op, "fds", "stream"), msg->fds, 1);
                else
                        reply_error(d, &s->execs[i].reply, REQUEST_E_HOST, chan_str(msg, "error", "the launcher gave no stream"));
                return true;
        }
        return false;
}

static bool heard_exec_end(struct program *p, struct chan_msg *msg)
{
        log_debug("workspace %s: stream %lld ended with %lld", p->session->ws->name, chan_int(msg, "id", 0), chan_int(msg, "status", 0));
        return running(p->session);
}

/* Stopped, for whatever reason. */
static void frozen(struct session *s, bool ok, int64_t at_us)
{
        struct workspace *ws = s->ws;

        trip_frozen(s, ok, at_us);
        if (!ok) /* half frozen is frozen: flows stay refused */
                reply_error(ws->daemon, &s->freeze_waits, REQUEST_E_HOST,
                            "the guest's processes could not be stopped; its flows stay refused until thaw");
        if (ws->state == WS_RUNNING)
                workspace_state(ws, WS_FROZEN, ok ? "frozen by request" : "its flows are refused, its processes could not be stopped");
        reply_done(ws->daemon, &s->freeze_waits);
}

static void thawed(struct session *s, bool ok)
{
        struct workspace *ws = s->ws;

        if (s->refreeze) { /* it tripped again meanwhile */
                s->refreeze = false;
                reply_error(ws->daemon, &s->freeze_waits, REQUEST_E_STATE, "the tripwire went off again; 'brome alerts' says more");
                session_stand_still(s);
                return;
        }
        if (!ok) {
                program_send(launch(s), json_pack("{s:s}", "op", "shut"), NULL, 0);
                tell_inner(s, true);
                reply_error(ws->daemon, &s->freeze_waits, REQUEST_E_HOST, "the guest could not be continued");
                return;
        }
        workspace_state(ws, WS_RUNNING, "thawed by request");
        reply_done(ws->daemon, &s->freeze_waits);
}

static bool heard_freeze(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        bool freeze = strcmp(msg->op, "freeze") == 0, ok = chan_bool(msg, "ok", false), *flag = freeze ? &s->freezing : &s->thawing;

        if (!*flag)
                return false;
        *flag = false;
        if (freeze)
                frozen(s, ok, chan_int(msg, "at_us", 0));
        else
                thawed(s, ok);
        return true;
}

static bool heard_exit(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        struct workspace *ws = s->ws;
        json_t *changed = json_object_get(msg->body, "changed"), *kept_out = json_object_get(msg->body, "kept_out");
        char why[256];

        s->exit_heard = true;
        if (json_is_array(changed) && !s->changed)
                s->changed = json_incref(changed);
        if (json_is_array(kept_out) && !s->kept_out)
                s->kept_out = json_incref(kept_out);
        s->changed_more = chan_int(msg, "changed_more", 0);
        if (ws->state == WS_OPENING) {
                session_fail(ws, "the guest ended while it started: %s", chan_str(msg, "reason", "no reason given"));
        } else if (ws->state != WS_STOPPING) {
                snprintf(why, sizeof(why), "the guest ended: %s", chan_str(msg, "reason", "no reason given"));
                session_close(ws, why, true, (struct reply){ 0 });
        }
        return true;
}

static bool heard_failed(struct program *p, struct chan_msg *msg)
{
        session_fail_code(p->session->ws, chan_bool(msg, "again", false) ? REQUEST_E_AGAIN : REQUEST_E_HOST, chan_str(msg, "text", "the launcher failed without a reason"));
        return true;
}

/* --- tables --- */

struct talk {
        const char *op;
        program_heard *heard;
        bool stopping; /* still listened to then; the rest is dropped, it may have been on its way */
};

static const struct talk inner_talk[] = {
        { "policy", heard_policy, false }, { "ready", heard_ready, false }, { "refuse", heard_refuse, false },
        { "admit", heard_refuse, false },  { "stats", heard_stats, false }, { "account", heard_account, false },
        { "trip", trip_heard, true },      { NULL, NULL, false },
};
static const struct talk outer_talk[] = {
        { "policy", heard_policy, false },  { "ready", heard_ready, false },       { "ask", consent_heard_ask, false },
        { "ask-end", consent_heard_end, false }, { "revoke", heard_revoke, false }, { "idle", heard_idle, false },
        { NULL, NULL, false },
};
static const struct talk launch_talk[] = {
        { "progress", heard_progress, true }, { "gateway", heard_gateway, false }, { "ready", heard_launch_ready, false },
        { "exec", heard_exec, false },        { "connect", heard_exec, false },     { "exec-end", heard_exec_end, false }, { "freeze", heard_freeze, false },
        { "thaw", heard_freeze, false },      { "exit", heard_exit, true },         { "failed", heard_failed, true },
        { "processes", trip_heard_processes, true },
        { NULL, NULL, false },
};

static bool dispatch(const struct talk *talk, struct program *p, struct chan_msg *msg)
{
        for (; talk->op; talk++)
                if (strcmp(talk->op, msg->op) == 0)
                        return p->session->ws->state == WS_STOPPING && !talk->stopping ? true : talk->heard(p, msg);
        return false;
}

bool session_heard_inner(struct program *p, struct chan_msg *msg) { return dispatch(inner_talk, p, msg); }
bool session_heard_outer(struct program *p, struct chan_msg *msg) { return dispatch(outer_talk, p, msg); }
bool session_heard_launch(struct program *p, struct chan_msg *msg) { return dispatch(launch_talk, p, msg); }

/* --- requests --- */

static json_t *exec_message(const struct request *r, uint64_t id)
{
        return json_pack("{s:s, s:I, s:O, s:O*, s:s*, s:b, s:i, s:i}", "op", "exec", "id", (json_int_t)id, "argv", r->argv, "env", r->env, "cwd", r->cwd,
                         "pty", r->pty, "rows", r->rows, "cols", r->cols);
}

static void exec_refused(struct workspace *ws, int e, struct reply *reply)
{
        if (e == EMSGSIZE)
                reply_error(ws->daemon, reply, REQUEST_E_USAGE, "the command line or environment is too long");
        else if (e == EAGAIN)
                reply_error(ws->daemon, reply, REQUEST_E_STATE, "too many commands are starting in this workspace; try again");
        else
                reply_error(ws->daemon, reply, REQUEST_E_INTERNAL, "the launcher takes no messages");
}

static const char *not_now(enum workspace_state state)
{
        switch ((int)state) {
        case WS_FROZEN: return "the workspace is frozen; 'brome workspace resume' continues it";
        case WS_COMPROMISED: case WS_COMPROMISED_REST: return "the workspace is compromised; 'brome alerts' says what happened and how to decide";
        case WS_OPENING: case WS_PREPARING: return "the workspace is just starting; try again";
        default: return "the workspace does not run; 'brome workspace start' starts it";
        }
}

/* Asks the launcher for a stream, and keeps who waits for it. `order` is taken; it has the number s->last_exec + 1. */
static void ask_stream(struct workspace *ws, json_t *order, const char *op, struct reply *reply)
{
        struct session *s = ws->session;

        for (size_t i = 0; i < SESSION_EXECS_WAITING; i++) {
                if (s->execs[i].id)
                        continue;
                /* Not program_send: a command line that does not fit, or comes too fast, is the client's trouble and not the session's. */
                if (chan_send(launch(s)->fd, order, NULL, 0) < 0) {
                        exec_refused(ws, errno, reply);
                        return;
                }
                s->execs[i].id = ++s->last_exec;
                s->execs[i].reply = *reply;
                s->execs[i].op = op;
                return;
        }
        json_decref(order);
        exec_refused(ws, EAGAIN, reply);
}

void session_exec(struct workspace *ws, const struct request *r, struct reply reply)
{
        if (ws->session && ws->state == WS_RUNNING)
                ask_stream(ws, exec_message(r, ws->session->last_exec + 1), "exec", &reply);
        else
                reply_error(ws->daemon, &reply, REQUEST_E_STATE, not_now(ws->state));
}

void session_forward(struct workspace *ws, uint16_t port, struct reply reply)
{
        if (ws->session && ws->state == WS_RUNNING)
                ask_stream(ws, json_pack("{s:s, s:I, s:i}", "op", "connect", "id", (json_int_t)ws->session->last_exec + 1, "port", (int)port), "forward", &reply);
        else
                reply_error(ws->daemon, &reply, REQUEST_E_STATE, not_now(ws->state));
}

void session_freeze(struct workspace *ws, bool freeze, struct reply reply)
{
        struct session *s = ws->session;

        if (s && ws->state == WS_COMPROMISED) {
                reply_error(ws->daemon, &reply, REQUEST_E_STATE, "the workspace is compromised and stands still already; 'brome alerts' says how to decide");
                return;
        }
        if (!s || s->freezing || s->thawing || ws->state != (freeze ? WS_RUNNING : WS_FROZEN)) {
                reply_error(ws->daemon, &reply, REQUEST_E_STATE, freeze ? "the workspace does not run" : "the workspace is not frozen");
                return;
        }
        s->freeze_waits = reply;
        if (!freeze) {
                thaw(s);
                return;
        }
        s->freezing = true;
        tell_inner(s, true); /* flows first: a stopped guest holds nothing open */
        /* SECURITY: closed at the gateway too; that does not rest on the inner door. */
        program_send(launch(s), json_pack("{s:s}", "op", "shut"), NULL, 0);
        program_send(launch(s), json_pack("{s:s}", "op", "freeze"), NULL, 0);
}

void session_stand_still(struct session *s)
{
        /* SECURITY: the guest first; the inner door refuses already. */
        program_send(launch(s), json_pack("{s:s}", "op", "shut"), NULL, 0);
        if (s->thawing) {
                s->refreeze = true;
        } else if (!s->freezing) {
                s->freezing = true;
                program_send(launch(s), json_pack("{s:s}", "op", "freeze"), NULL, 0);
        }
        s->thaw_after_change = false;
        tell_inner(s, true);
}

void session_continue(struct session *s, struct reply reply)
{
        s->freeze_waits = reply;
        s->thaw_after_change = true;
        s->trips = 0; /* from here on a trip is one that nobody has decided about */
        s->ws->generation++;
        session_policy(s->ws, (struct reply){ 0 }, "a person decided to continue");
}

/* --- revoking --- */

void session_revoke(struct session *s, bool rule, const char *name, const char *host, uint16_t port)
{
        if (!running(s) && s->ws->state != WS_OPENING)
                return;
        s->revokes_owed += doors_revoke(s, rule, name, host, port);
        if (rule && program_send(outer(s), json_pack("{s:s, s:s, s:s, s:s, s:i}", "op", "revoke", "what", "rule", "name", name, "host", host, "port", (int)port), NULL, 0))
                s->revokes_owed++;
        if (s->revokes_owed)
                arm_ack(s);
}

void session_revoke_reply(struct session *s, struct reply reply)
{
        reply_error(s->ws->daemon, &s->revoke_waits, REQUEST_E_STATE, "another one was revoked meanwhile");
        s->revoke_waits = reply;
        session_revoke_answered(s, 0, 0);
}

void session_revoke_answered(struct session *s, unsigned count, long long cut)
{
        s->revokes_owed -= count < s->revokes_owed ? count : s->revokes_owed;
        s->revoke_cut += cut;
        if (s->revokes_owed)
                return;
        if (s->revoke_waits.client)
                reply_send(s->ws->daemon, &s->revoke_waits, json_pack("{s:s, s:I}", "op", "done", "cut", (json_int_t)s->revoke_cut), NULL, 0);
        s->revoke_cut = 0;
        settle(s);
}

void session_stats(struct workspace *ws, struct reply reply)
{
        struct session *s = ws->session;
        struct timeval t = { .tv_sec = DAEMON_ACK_MS / 1000 };

        for (size_t i = 0; s && running(s) && i < SESSION_STATS_WAITING; i++) {
                if (s->stats[i].client)
                        continue;
                s->stats[i] = reply;
                if (!event_pending(s->stats_deadline, EV_TIMEOUT, NULL)) {
                        event_add(s->stats_deadline, &t);
                        program_send(inner(s), json_pack("{s:s}", "op", "stats"), NULL, 0);
                }
                return;
        }
        commands_rules(ws, &reply, NULL);
}
