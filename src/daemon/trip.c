/* After a trip: see trip.h. */
#include "daemon/trip.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/alerts.h"
#include "daemon/consent.h"
#include "daemon/live.h"
#include "daemon/record.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "journal/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int mark_path(char out[PATH_MAX], const struct workspace *ws)
{
        return snprintf(out, PATH_MAX, "%s/" WORKSPACE_COMPROMISED_MARK, ws->folder) < PATH_MAX ? 0 : -1;
}

/* --- what the door says --- */

/* Texts of the message, printable and bounded; the guest chose some of them. */
struct trip {
        char account[REQUEST_NAME_BYTES], placeholder[64], host[256], field[128], view[64], method[32], path[1024], issued[512];
        long long port;
        uint64_t flow;
};

static void take(char *out, size_t size, const struct chan_msg *msg, const char *key) { esc_text(out, size, slice_str(chan_str(msg, key, ""))); }

/* Where it may go: the hosts of its binding. */
static void issued_for(const struct session *s, struct trip *t)
{
        struct buf out;

        buf_init(&out, 0);
        for (size_t i = 0; s->policy && i < policy_account_count(s->policy); i++) {
                const struct binding *b = policy_account_at(s->policy, i);

                for (size_t k = 0; slice_is(b->name, t->account) && k < b->host_count; k++)
                        buf_addf(&out, b->hosts[k].port == 443 ? "%s%s" : "%s%s:%u", buf_len(&out) ? ", " : "", esc(b->hosts[k].name), b->hosts[k].port);
        }
        snprintf(t->issued, sizeof(t->issued), "%.*s", SLICE_FMT(buf_slice(&out)));
        buf_fini(&out);
}

static bool read_trip(struct trip *t, const struct session *s, const struct chan_msg *msg)
{
        t->port = chan_int(msg, "port", -1);
        t->flow = (uint64_t)chan_int(msg, "flow", 0);
        take(t->account, sizeof(t->account), msg, "account");
        take(t->placeholder, sizeof(t->placeholder), msg, "placeholder");
        take(t->host, sizeof(t->host), msg, "host");
        take(t->field, sizeof(t->field), msg, "field");
        take(t->view, sizeof(t->view), msg, "view");
        take(t->method, sizeof(t->method), msg, "method");
        take(t->path, sizeof(t->path), msg, "path");
        issued_for(s, t);
        return t->port >= 0 && t->port <= 65535;
}

/* --- what follows --- */

static void record(const struct workspace *ws, const struct trip *t)
{
        struct event_record e;
        char detail[512];

        snprintf(detail, sizeof(detail), "placeholder %.60s of %.64s, issued for %.160s, in %.100s (%.40s)", t->placeholder, *t->account ? t->account : "another workspace",
                 *t->issued ? t->issued : "no host of this workspace", t->field, t->view);
        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Tripwire"));
        event_text(&e, EVENT_SUBJECT, SLICE_LIT("placeholder"));
        event_text(&e, EVENT_DECISION, SLICE_LIT("deny"));
        event_text(&e, EVENT_REASON, SLICE_LIT("tripwire"));
        event_text(&e, EVENT_ACCOUNT, slice_str(t->account));
        event_text(&e, EVENT_HOST, slice_str(t->host));
        event_num(&e, EVENT_PORT, (uint64_t)t->port);
        event_text(&e, EVENT_METHOD, slice_str(t->method));
        event_text(&e, EVENT_PATH, slice_str(t->path));
        event_text(&e, EVENT_DETAIL, slice_str(detail));
        event_num(&e, EVENT_ID, t->flow);
        if (record_note(ws->daemon, ws, &e, true) < 0)
                log_error("workspace %s: the tripwire went off, and the journal could not take it: %s", ws->name, detail);
}

static void set_mark(struct workspace *ws)
{
        char path[PATH_MAX];
        struct err err = ERR_INIT;
        static const char text[] = "The tripwire went off in this workspace. 'brome alerts' says what happened and how to decide.\n";

        int fd;

        ws->undecided = true;
        if (mark_path(path, ws) < 0 || fd_write_file(path, 0600, text, sizeof(text) - 1, &err) == 0)
                return;
        /* SECURITY: that it is there is what counts, and a disk that the guest filled still takes a name. */
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || fsync(fd) < 0)
                log_error("workspace %s: it is compromised, and the mark for the next start cannot be written: %s", ws->name, err.text);
        fd_close(&fd);
}

/* One JSON string that is never refused. */
static json_t *text(const char *s)
{
        json_t *t = json_string(s);

        return t ? t : json_string(esc_str(s));
}

static void alert(const struct workspace *ws, const struct trip *t)
{
        struct err err = ERR_INIT;
        json_t *a = json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "workspace", ws->name, "session",
                              (json_int_t)(ws->session ? ws->session->number : 0), "engine", "Tripwire", "credential", text(t->account), "placeholder",
                              text(t->placeholder), "issued_for", text(t->issued), "going_to", text(t->host), "port", (json_int_t)t->port, "field", text(t->field),
                              "view", text(t->view), "method", text(t->method), "path", text(t->path));

        if (!a)
                return;
        a = alerts_add(ws->daemon->alerts, a, &err);
        if (err.text[0])
                log_error("workspace %s: the alert is not on disk: %s", ws->name, err.text);
        server_notice(ws->daemon, ws->name, json_pack("{s:s, s:O}", "kind", "alert", "alert", a));
        log_error("workspace %s: ALERT: a placeholder of %s was going to %s; everything of it stands still ('brome alerts')", ws->name,
                  *t->account ? t->account : "another workspace", t->host);
}

bool trip_heard(struct program *p, struct chan_msg *msg)
{
        struct session *s = p->session;
        struct workspace *ws = s->ws;
        struct trip t;
        bool opening = ws->state == WS_OPENING;

        if (!s->inner_started || !read_trip(&t, s, msg))
                return false;
        if (s->trips >= TRIPS_RECORDED)
                return true;
        /* SECURITY: first the guest stands still, then everything that takes time. A session that ends has its gateway shut already. */
        if (ws->state != WS_STOPPING) {
                if (s->trips == 0)
                        s->trip_us = clock_mono_us();
                session_stand_still(s);
        }
        s->trips++;
        record(ws, &t);
        set_mark(ws);
        alert(ws, &t);
        consent_tripped(s);
        if (opening)
                session_fail(ws, "a placeholder was going to %s while the workspace started; it is compromised ('brome alerts')", t.host);
        else if (ws->state == WS_RUNNING || ws->state == WS_FROZEN)
                workspace_state(ws, WS_COMPROMISED, "a placeholder was on its way to where it does not belong; 'brome alerts' says more");
        record_flush(ws->daemon);
        return true;
}

void trip_frozen(struct session *s, bool ok, int64_t at_us)
{
        struct event_record e;
        char detail[160];
        int64_t now_us = clock_mono_us();

        if (!s->trip_us)
                return;
        if (at_us < s->trip_us || at_us > now_us) /* it answered while we wrote; its own clock says when */
                at_us = now_us;
        snprintf(detail, sizeof(detail), ok ? "the guest stands still, %" PRId64 " µs after the door's word" : "the guest's processes could not be stopped (%" PRId64
                 " µs); its flows are refused", at_us - s->trip_us);
        s->trip_us = 0;
        (ok ? log_info : log_error)("workspace %s: %s", s->ws->name, detail);
        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Tripwire"));
        event_text(&e, EVENT_SUBJECT, SLICE_LIT("frozen"));
        event_text(&e, EVENT_DETAIL, slice_str(detail));
        (void)!record_note(s->ws->daemon, s->ws, &e, false);
}

/* A person may decide when the session is long over. */
static void keep_processes(const struct workspace *ws, json_t *list)
{
        char path[PATH_MAX], *json = json_dumps(list, JSON_COMPACT);
        struct err err = ERR_INIT;

        if (!json || snprintf(path, sizeof(path), "%s/" WORKSPACE_PROCESSES, ws->folder) >= (int)sizeof(path) || fd_write_file(path, 0600, json, strlen(json), &err) < 0)
                log_error("workspace %s: the list of what ran is not kept: %s", ws->name, err.text);
        free(json);
}

bool trip_heard_processes(struct program *p, struct chan_msg *msg)
{
        json_t *list = json_object_get(msg->body, "list");

        if (!json_is_array(list))
                return false;
        json_decref(p->session->processes);
        p->session->processes = json_incref(list);
        if (p->session->ws->undecided)
                keep_processes(p->session->ws, list);
        return true;
}

/* --- a person's decision --- */

int trip_decide(struct workspace *ws, const char *decision, struct err *err)
{
        struct event_record e;
        char path[PATH_MAX];

        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Tripwire"));
        event_text(&e, EVENT_SUBJECT, SLICE_LIT("decision"));
        event_text(&e, EVENT_DETAIL, slice_str(decision));
        if (record_note(ws->daemon, ws, &e, true) < 0)
                return err_set(err, "the decision cannot be recorded: the journal cannot be written");
        if (mark_path(path, ws) < 0 || (unlink(path) < 0 && errno != ENOENT))
                return err_sys(err, errno, "the mark in %s cannot be removed", ws->folder);
        if (snprintf(path, sizeof(path), "%s/" WORKSPACE_PROCESSES, ws->folder) < (int)sizeof(path))
                unlink(path);
        ws->undecided = false;
        alerts_decide(ws->daemon->alerts, ws->name, decision);
        return 0;
}

int trip_continue(struct workspace *ws, struct err *err)
{
        struct live *own = ws->session ? NULL : live_read(ws->folder, err), *live = ws->session ? ws->session->live : own;
        json_t *list = alerts_list(ws->daemon->alerts, ws->name, false), *a;
        int rc = live ? 0 : -1;
        size_t i;

        json_array_foreach(list, i, a)
                if (rc == 0)
                        rc = live_remember(live, ws->folder, json_string_value(json_object_get(a, "credential")), json_string_value(json_object_get(a, "going_to")),
                                           err);
        json_decref(list);
        live_free(own);
        return rc == 0 ? trip_decide(ws, "continued", err) : -1;
}
