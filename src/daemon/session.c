/* The life of a session: see session.h. What the programs say is in session_talk.c. */
#include "daemon/session.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/ca.h"
#include "daemon/consent.h"
#include "daemon/evidence.h"
#include "daemon/server.h"
#include "daemon/spawn.h"
#include "daemon/trip.h"
#include "daemon/workspace.h"
#include "journal/journal.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
        const char *name, *call;
        program_heard *heard;
} program_rows[SESSION_PROGRAMS] = {
        [SESSION_INNER] = { "inner", "the inner door", session_heard_inner },
        [SESSION_OUTER] = { "outer", "the outer door", session_heard_outer },
        [SESSION_LAUNCH] = { "launch", "the launcher", session_heard_launch },
};

static struct timeval ms(int n) { return (struct timeval){ .tv_sec = n / 1000, .tv_usec = n % 1000 * 1000 }; }

static int stage_ms(const struct session *s) { return s->ws->conf->isolation == ISOLATION_VM ? DAEMON_STAGE_VM_MS : DAEMON_STAGE_MS; }

void session_stage(struct session *s)
{
        struct timeval t = ms(stage_ms(s));

        if (s->ws->state == WS_OPENING)
                event_add(s->deadline, &t);
}

/* An empty file in the workspace's folder, made or removed. 0 or -1 with errno. */
static int mark(const struct workspace *ws, const char *name, bool there)
{
        char path[PATH_MAX];
        int fd;

        if (snprintf(path, sizeof(path), "%s/%s", ws->folder, name) >= (int)sizeof(path)) {
                errno = ENAMETOOLONG;
                return -1;
        }
        if (!there)
                return unlink(path) < 0 && errno != ENOENT ? -1 : 0;
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -1;
        fd_close(&fd);
        return 0;
}

/* --- ending --- */

static void session_free(struct session *s)
{
        for (size_t i = 0; i < SESSION_PROGRAMS; i++)
                program_hang_up(&s->programs[i]);
        for (size_t i = 0; i < SESSION_DOORS; i++)
                record_door_close(&s->events[i]);
        for (struct event **e = (struct event *[]){ s->deadline, s->ack, s->done, s->stats_deadline, NULL }; *e; e++)
                event_free(*e);
        doors_free(s);
        policy_free(s->policy);
        live_free(s->live);
        fd_close(&s->change_policy);
        fd_close(&s->inner_events);
        fd_close(&s->inner_link);
        json_decref(s->processes);
        json_decref(s->changed);
        json_decref(s->kept_out);
        json_decref(s->isolation);
        free(s->proxy);
        free(s->no_proxy);
        free(s->path);
        free(s);
}

static bool all_gone(const struct session *s)
{
        for (size_t i = 0; i < SESSION_PROGRAMS; i++)
                if (s->programs[i].running)
                        return false;
        for (size_t i = 0; i < SESSION_DOORS; i++)
                if (s->events[i].fd >= 0 && s->events[i].ws)
                        return false;
        return doors_all_gone(s);
}

static void check_gone(struct session *s)
{
        if (s->ws->state == WS_STOPPING && all_gone(s))
                event_active(s->done, EV_TIMEOUT, 0);
}

void session_check_gone(struct session *s) { check_gone(s); }

/* Everyone who waits for something of this session is told that it ends. */
static void refuse_waiting(struct session *s)
{
        struct daemon *d = s->ws->daemon;

        reply_error(d, &s->opener, s->failed ? s->code : REQUEST_E_STATE, s->why);
        reply_error(d, &s->change_waits, REQUEST_E_STATE, s->why);
        reply_error(d, &s->next_waits, REQUEST_E_STATE, s->why);
        reply_error(d, &s->freeze_waits, REQUEST_E_STATE, s->why);
        reply_error(d, &s->revoke_waits, REQUEST_E_STATE, s->why);
        for (size_t i = 0; i < SESSION_EXECS_WAITING; i++) {
                reply_error(d, &s->execs[i].reply, REQUEST_E_STATE, s->why);
                s->execs[i].id = 0;
        }
        for (size_t i = 0; i < SESSION_STATS_WAITING; i++)
                commands_rules(s->ws, &s->stats[i], NULL);
}

static void hang_up_doors(struct session *s)
{
        /* A trip in the last moment counts. */
        program_drain(&s->programs[SESSION_INNER]);
        for (size_t i = 0; i < SESSION_DOORS; i++)
                program_hang_up(&s->programs[i]);
        doors_hang_up(s);
}

static void begin_stop(struct session *s, bool force)
{
        struct program *launch = &s->programs[SESSION_LAUNCH];
        struct timeval t = ms(DAEMON_STOP_MS);

        workspace_state(s->ws, WS_STOPPING, s->why);
        if (s->failed)
                log_error("workspace %s: %s", s->ws->name, s->why);
        refuse_waiting(s);
        event_del(s->ack);
        event_del(s->stats_deadline);
        event_add(s->deadline, &t);
        fd_close(&s->inner_events); /* a start that never came: their other ends see the end */
        fd_close(&s->inner_link);
        /* SECURITY: the way out is closed before anything else is ended. */
        if (launch->fd >= 0 && (chan_send(launch->fd, json_pack("{s:s}", "op", "shut"), NULL, 0) < 0 ||
                                chan_send(launch->fd, json_pack("{s:s, s:i}", "op", "stop", "grace_ms", force ? 0 : DAEMON_GRACE_MS), NULL, 0) < 0))
                program_hang_up(launch);
        if (launch->fd < 0)
                hang_up_doors(s);
        check_gone(s);
}

void session_close(struct workspace *ws, const char *why, bool force, struct reply reply)
{
        struct session *s = ws->session;

        for (size_t i = 0; reply.client && i < SESSION_CLOSERS; i++)
                if (!s->closers[i].client) {
                        s->closers[i] = reply;
                        reply.client = 0;
                }
        reply_error(ws->daemon, &reply, REQUEST_E_STATE, "too many wait for the end of this session");
        if (ws->state == WS_STOPPING)
                return;
        esc_text(s->why, sizeof(s->why), slice_str(why));
        begin_stop(s, force);
}

void session_fail_code(struct workspace *ws, enum request_error code, const char *text)
{
        struct session *s = ws->session;

        if (!s || ws->state == WS_STOPPING)
                return;
        s->failed = true;
        s->code = code;
        esc_text(s->why, sizeof(s->why), slice_str(text));
        begin_stop(s, true);
}

void session_fail(struct workspace *ws, const char *fmt, ...)
{
        char text[512];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        session_fail_code(ws, REQUEST_E_INTERNAL, text);
}

void session_lost(struct workspace *ws, struct program *p, const char *why)
{
        struct session *s = ws->session;

        if (ws->state != WS_STOPPING)
                s->vague = true;
        if (ws->state != WS_STOPPING)
                session_fail(ws, "%s ended unexpectedly (%s)%s", p->call, why,
                             p == &s->programs[SESSION_LAUNCH] ? "" : "; the way out of the workspace is closed");
        if (p == &s->programs[SESSION_LAUNCH])
                hang_up_doors(s);
        check_gone(s);
}

void session_events_ended(struct workspace *ws, const char *door)
{
        /* A door without records must not go on, whether it still lives or not. */
        if (ws->session && ws->state != WS_STOPPING)
                ws->session->vague = true;
        if (ws->session && ws->state != WS_STOPPING)
                session_fail(ws, "the %s door ended, or reports its decisions no more; the way out of the workspace is closed", door);
        else if (ws->session)
                check_gone(ws->session);
}

/* One program's death makes the others fall silent, and their silence may be heard first. */
static void explain(struct session *s, const struct program *p, int number)
{
        if (!s->vague || s->killed)
                return;
        s->vague = false;
        snprintf(s->why, sizeof(s->why), "%s was killed by signal %d; the way out of the workspace is closed", p->call, number);
        log_error("workspace %s: %s", s->ws->name, s->why);
}

bool session_exited(struct workspace *ws, uint64_t id, int status, const char *never_ran)
{
        struct session *s = ws->session;

        if (s && doors_exited(s, id, status, never_ran)) {
                check_gone(s);
                return true;
        }
        for (size_t i = 0; s && i < SESSION_PROGRAMS; i++) {
                struct program *p = &s->programs[i];

                if (p->id != id || !p->running)
                        continue;
                p->running = false;
                /* Its own words come first, also when its end was heard of before them. */
                if (p == &s->programs[SESSION_LAUNCH] && ws->state != WS_STOPPING)
                        program_drain(p);
                if (never_ran)
                        session_fail_code(ws, REQUEST_E_HOST, never_ran);
                else if (WIFSIGNALED(status) && ws->state == WS_STOPPING)
                        explain(s, p, WTERMSIG(status));
                else if (WIFSIGNALED(status))
                        session_fail(ws, "%s was killed by signal %d; the way out of the workspace is closed", p->call, WTERMSIG(status));
                else if (WEXITSTATUS(status) && ws->state != WS_STOPPING)
                        session_fail(ws, "%s ended with status %d; bromed.log may say why", p->call, WEXITSTATUS(status));
                check_gone(s);
                return true;
        }
        return false;
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
        struct session *s = ctx;
        struct timeval t = ms(DAEMON_STOP_MS);

        (void)fd;
        (void)what;
        if (s->ws->state == WS_OPENING) {
                const char *whom = !s->inner_started ? "the launcher made no gateway"
                                   : !s->outer_ready ? "the outer door was not ready"
                                   : !s->inner_ready ? "the inner door was not ready"
                                                     : "the guest did not start";
                session_fail(s->ws, "%s within %d s", whom, stage_ms(s) / 1000);
                return;
        }
        for (size_t i = 0; !s->killed && i < SESSION_PROGRAMS; i++)
                if (s->programs[i].running) {
                        log_error("workspace %s: %s did not end within %d s and is killed", s->ws->name, s->programs[i].call,
                                  DAEMON_STOP_MS / 1000);
                        spawn_kill(s->ws->daemon->spawn, s->programs[i].id);
                }
        if (s->killed) {
                log_error("workspace %s: not all of its programs or records could be waited for", s->ws->name);
                event_active(s->done, EV_TIMEOUT, 0);
                return;
        }
        s->killed = true;
        doors_kill(s);
        event_add(s->deadline, &t);
}

/* What a person (or, of a workspace that vanishes, nobody) decided, and the evidence. *folder empty: none was made. */
static void keep_evidence(struct session *s, char folder[PATH_MAX])
{
        struct workspace *ws = s->ws;
        bool vanishes = ws->origin == WS_THROW_AWAY, owed = ws->undecided;
        struct err err = ERR_INIT;

        folder[0] = 0;
        if (!s->evidence && !(owed && vanishes && !ws->wipe))
                return;
        record_flush(ws->daemon);
        if (evidence_save(ws, s->number, s->processes, ws->remove_folder, folder, &err) < 0) {
                log_error("workspace %s: the evidence could not be saved: %s", ws->name, err.text);
                ws->remove_folder = false; /* it is all there is; with its mark, so that nothing starts from it or sweeps it */
                folder[0] = 0;
                return;
        }
        /* Only now: until the evidence is there, the decision is not carried out. */
        if (owed && trip_decide(ws, "stopped", &err) < 0)
                log_error("workspace %s: %s", ws->name, err.text);
        log_info("workspace %s: the evidence is in %s", ws->name, folder);
}

/* The last of it. Frees the session, perhaps the workspace. */
static void on_done(evutil_socket_t fd, short what, void *ctx)
{
        struct session *s = ctx;
        struct workspace *ws = s->ws;
        struct daemon *d = ws->daemon;
        struct err err = ERR_INIT;
        char evidence[PATH_MAX];

        (void)fd;
        (void)what;
        consent_session_gone(ws);
        keep_evidence(s, evidence);
        workspace_state(ws, ws->undecided ? WS_COMPROMISED_REST : s->failed ? WS_FAILED : WS_STOPPED, s->why);
        record_flush(d);
        mark(ws, SESSION_RUNNING_MARK, false);
        if (ws->remove_folder && registry_discard(d, ws->name, &err) < 0)
                log_error("workspace %s: its folder stays: %s", ws->name, err.text);
        for (size_t i = 0; i < SESSION_CLOSERS; i++)
                if (s->closers[i].client)
                        reply_send(d, &s->closers[i],
                                   json_pack("{s:s, s:s, s:O*, s:I, s:O*, s:s*}", "op", "done", "reason", s->why, "changed", s->changed, "changed_more",
                                             (json_int_t)s->changed_more, "kept_out", s->kept_out, "evidence", evidence[0] ? evidence : NULL), NULL, 0);
        ws->session = NULL;
        session_free(s);
        if (ws->wipe)
                commands_wiped(ws);
        if (ws->gone || ws->origin == WS_THROW_AWAY)
                workspace_remove(ws);
        daemon_session_ended(d);
}

/* --- opening --- */

static void on_ack(evutil_socket_t fd, short what, void *ctx)
{
        struct session *s = ctx;

        (void)fd;
        (void)what;
        session_fail(s->ws, "%s did not confirm a change within %d ms; the workspace is closed",
                     s->change == CHANGE_OUTER ? s->outer_due ? "the outer door" : "an account's outer door" : "the inner door", DAEMON_ACK_MS);
}

static void on_stats(evutil_socket_t fd, short what, void *ctx)
{
        struct session *s = ctx;

        (void)fd;
        (void)what;
        for (size_t i = 0; i < SESSION_STATS_WAITING; i++)
                commands_rules(s->ws, &s->stats[i], NULL);
}

static struct session *session_new(struct workspace *ws)
{
        struct event_base *base = ws->daemon->base;
        struct session *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->ws = ws;
        s->change_policy = s->inner_events = s->inner_link = -1;
        for (size_t i = 0; i < SESSION_PROGRAMS; i++)
                s->programs[i] = (struct program){ .session = s, .name = program_rows[i].name, .call = program_rows[i].call,
                                                   .heard = program_rows[i].heard, .fd = -1 };
        for (size_t i = 0; i < SESSION_DOORS; i++)
                s->events[i].fd = -1;
        s->deadline = event_new(base, -1, 0, on_deadline, s);
        s->ack = event_new(base, -1, 0, on_ack, s);
        s->done = event_new(base, -1, 0, on_done, s);
        s->stats_deadline = event_new(base, -1, 0, on_stats, s);
        MUST(s->deadline && s->ack && s->done && s->stats_deadline); /* some hundred bytes each */
        return s;
}

/* Folder, marks, CA. */
static int prepare_folder(struct workspace *ws, struct err *err)
{
        if (fd_mkdirs(ws->folder, 0700, err) < 0)
                return -1;
        if (mark(ws, SESSION_RUNNING_MARK, true) < 0 || (ws->remove_folder && mark(ws, SESSION_THROW_AWAY_MARK, true) < 0))
                return err_sys(err, errno, "%s", ws->folder);
        return ca_ensure(ws->folder, ws->name, !ws->remove_folder, err);
}

static int prepare(struct session *s, int *policy, enum request_error *code, struct err *err)
{
        struct workspace *ws = s->ws;

        *code = REQUEST_E_CONFIG;
        if (settings_guard(ws->daemon, ws->settings, ws->conf, err) < 0)
                return -1;
        /* Before anything is made for it. */
        *policy = settings_policy(ws->daemon, ws->settings, ws->conf, NULL, NULL, err);
        if (*policy < 0)
                return -1;
        fd_close(policy);
        *code = REQUEST_E_HOST;
        if (prepare_folder(ws, err) < 0 || !(s->live = live_read(ws->folder, err)) || live_mint(s->live, ws->conf, ws->folder, err) < 0)
                return -1;
        *policy = live_policy(ws->daemon, ws->settings, ws->conf, s->live, &s->policy, err);
        if (*policy < 0)
                return -1;
        *code = REQUEST_E_JOURNAL;
        return journal_session_begin(ws->daemon->journal, slice_str(ws->name), &s->number, err);
}

static int open_in(const struct workspace *ws, const char *name, int flags)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/%s", ws->folder, name) >= (int)sizeof(path))
                return -1;
        return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* What the guest holds of its accounts: placeholders. */
static int add_accounts(struct session *s, json_t *plan)
{
        json_t *list = json_array();

        for (size_t i = 0; i < s->ws->conf->credential_count; i++) {
                const struct config_credential *c = s->ws->conf->credentials[i];
                const char *placeholder = placeholders_get(&s->live->placeholders, c->b.name);
                json_t *hosts;

                if (!placeholder || c->b.attach) /* the guest holds nothing of it */
                        continue;
                hosts = json_array();
                for (size_t k = 0; k < c->b.host_count; k++)
                        json_array_append_new(hosts, json_pack("{s:s%, s:i}", "name", c->b.hosts[k].name.p, c->b.hosts[k].name.n, "port", (int)c->b.hosts[k].port));
                json_array_append_new(list, json_pack("{s:s%, s:s, s:o, s:s, s:s%, s:s*}", "name", c->b.name.p, c->b.name.n, "kind", kind_row(c->b.kind)->name, "hosts",
                                                      hosts, "placeholder", placeholder, "user", c->b.user.n ? (const char *)c->b.user.p : "",
                                                      c->b.user.n, "env", c->as_env.n ? c->as_env.p : NULL));
        }
        return json_object_set_new(plan, "accounts", list);
}

/* Launch's first message. */
static bool send_plan(struct session *s, struct err *err)
{
        struct workspace *ws = s->ws;
        const struct config_workspace *c = ws->conf;
        char home[PATH_MAX], cache[PATH_MAX];
        json_t *plan;
        int ca = open_in(ws, "ca.pem", O_RDONLY);
        bool ok;

        snprintf(home, sizeof(home), "%.*s/home", (int)(sizeof(home) - 16), ws->folder);
        snprintf(cache, sizeof(cache), "%.*s/cache", (int)(sizeof(cache) - 16), ws->daemon->paths.state);
        plan = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:[s]}", "op", "plan", "workspace", ws->name, "session",
                         (json_int_t)s->number, "hostname", ws->name, "state", ws->folder, "home", home, "cache", cache, "nested", c->nested, "memory_bytes",
                         (json_int_t)c->memory_bytes, "processes", (json_int_t)c->processes, "cpu_percent", (json_int_t)c->cpu_percent, "fds",
                         "ca_cert");
        if (ca < 0 || !plan || settings_plan(ws->daemon, ws->settings, c, s->path, plan, err) < 0 || add_accounts(s, plan) < 0) {
                if (!err->text[0])
                        err_set(err, "%s cannot be read, or its path is no UTF-8", esc_str(ws->folder));
                json_decref(plan);
                fd_close(&ca);
                return false;
        }
        ok = program_send(&s->programs[SESSION_LAUNCH], plan, &ca, 1);
        fd_close(&ca);
        return ok;
}

json_t *session_outer_start(const struct session *s, const char *account)
{
        struct slice fixed = config_proxy(s->ws->settings->config);
        char proxy[2048];

        /* The configuration's proxy counts before the environment's. */
        snprintf(proxy, sizeof(proxy), "%.*s", SLICE_FMT(fixed));
        return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "op", "start", "workspace", s->ws->name, "session", (json_int_t)s->number, "account", account, "proxy",
                         fixed.n ? proxy : s->proxy ? s->proxy : "", "no_proxy", !fixed.n && s->no_proxy ? s->no_proxy : "");
}

static bool send_outer_start(struct session *s, int events, int link)
{
        int fds[2] = { events, link };
        json_t *start = session_outer_start(s, "");

        json_object_set_new(start, "fds", json_pack("[s, s]", "events", "link"));
        return program_send(&s->programs[SESSION_OUTER], start, fds, 2);
}

/* A socket pair whose first end bromed keeps non-blocking (or hands on). */
int session_stream_pair(int pair[2])
{
        return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

/* Event sockets, the link, all three programs, the first messages. The inner door's start waits in `held` for the gateway. */
static int start_programs(struct session *s, struct err *err)
{
        static const char *const names[SESSION_DOORS] = { "inner", "outer" };
        struct daemon *d = s->ws->daemon;
        int events[SESSION_DOORS][2] = { { -1, -1 }, { -1, -1 } }, link[2] = { -1, -1 }, rc = -1;

        if (session_stream_pair(events[SESSION_INNER]) < 0 || session_stream_pair(events[SESSION_OUTER]) < 0 || session_stream_pair(link) < 0) {
                err_sys(err, errno, "cannot make sockets for the doors");
                goto out;
        }
        /* The launcher first: it has the most to do. */
        for (size_t i = SESSION_PROGRAMS; i-- > 0;)
                if (program_start(d, &s->programs[i], s->ws->name) < 0) {
                        err_set(err, "%s cannot be started", s->programs[i].call);
                        goto out;
                }
        for (size_t i = 0; i < SESSION_DOORS; i++) {
                int fd = events[i][0];

                events[i][0] = -1;
                if (record_door_open(&s->events[i], s->ws, names[i], fd) < 0) {
                        err_set(err, "out of memory");
                        goto out;
                }
        }
        if (!send_plan(s, err) || !send_outer_start(s, events[SESSION_OUTER][1], link[1]))
                goto out;
        s->inner_events = events[SESSION_INNER][1];
        s->inner_link = link[0];
        events[SESSION_INNER][1] = link[0] = -1;
        rc = 0;
out:
        for (size_t i = 0; i < SESSION_DOORS; i++) {
                fd_close(&events[i][0]);
                fd_close(&events[i][1]);
        }
        fd_close(&link[0]);
        fd_close(&link[1]);
        return rc;
}

int session_open(struct workspace *ws, const struct session_options *o, enum request_error *code, struct err *err)
{
        struct session *s = session_new(ws);
        int policy = -1;

        *code = REQUEST_E_INTERNAL;
        if (!s)
                return err_set(err, "out of memory");
        ws->session = s;
        workspace_state(ws, WS_PREPARING, NULL);
        if (prepare(s, &policy, code, err) < 0) {
                fd_close(&policy);
                mark(ws, SESSION_RUNNING_MARK, false);
                workspace_state(ws, WS_FAILED, err->text);
                ws->session = NULL;
                session_free(s);
                return -1;
        }
        s->opener = o->reply;
        s->owner = o->owner;
        s->proxy = o->proxy ? strdup(o->proxy) : NULL;
        s->no_proxy = o->no_proxy ? strdup(o->no_proxy) : NULL;
        s->path = o->path ? strdup(o->path) : NULL;
        workspace_state(ws, WS_OPENING, NULL);
        session_stage(s);
        reply_progress(ws->daemon, &s->opener, "starting the gate and the guest");
        if (start_programs(s, err) == 0) {
                session_change_begin(s, policy);
        } else {
                fd_close(&policy);
                session_fail_code(ws, REQUEST_E_HOST, err->text[0] ? err->text : "its programs do not take messages");
        }
        return 0;
}
