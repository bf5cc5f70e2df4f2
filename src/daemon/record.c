/* Records: see record.h. */
#include "daemon/record.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/doors.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/workspace.h"
#include "journal/journal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static uint64_t session_number(const struct workspace *ws) { return ws->session ? ws->session->number : 0; }

/* A record waits: at the latest in DAEMON_FLUSH_MS it is written. No timer runs while nothing waits. */
static void arm(struct daemon *d)
{
        struct timeval soon = { .tv_usec = DAEMON_FLUSH_MS * 1000 };

        if (d->flush && !event_pending(d->flush, EV_TIMEOUT, NULL))
                event_add(d->flush, &soon);
}

/* bromed's own; a full queue is written out first, then it must fit: decisions are not lost. */
static void note(const struct workspace *ws, struct event_record *e)
{
        struct journal *j = ws->daemon->journal;
        struct journal_entry entry = { .workspace = slice_str(ws->name), .session = session_number(ws), .event = e };

        if (!j)
                return;
        arm(ws->daemon);
        if (journal_append(j, &entry) == 0)
                return;
        record_flush(ws->daemon);
        if (journal_append(j, &entry) < 0)
                log_error("workspace %s: a note could not be recorded: the journal is full or cannot be written", ws->name);
}

int record_note(struct daemon *d, const struct workspace *ws, const struct event_record *e, bool synced)
{
        struct journal_entry entry = { .workspace = ws ? slice_str(ws->name) : SLICE_EMPTY, .session = ws ? session_number(ws) : 0, .event = e };
        int rc = -1;

        if (!d->journal)
                return -1;
        rc = synced ? journal_append_sync(d->journal, &entry) : journal_append(d->journal, &entry);
        arm(d);
        if (rc < 0)
                record_flush(d); /* says so, and lets the doors refuse */
        return rc < 0 ? -1 : 0;
}

static void record_workspace(const struct workspace *ws, const char *subject, const char *detail)
{
        struct event_record e;

        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Workspace"));
        event_text(&e, EVENT_SUBJECT, slice_str(subject));
        event_text(&e, EVENT_DETAIL, slice_str(detail));
        note(ws, &e);
}

void record_state(const struct workspace *ws)
{
        if (!workspace_busy(ws) && ws->daemon->journal)
                journal_settle(ws->daemon->journal, slice_str(ws->name)); /* `brome run` lists the refusals now */
        record_workspace(ws, workspace_state_name(ws->state), ws->reason);
        server_notice(ws->daemon, ws->name,
                      json_pack("{s:s, s:s, s:s, s:s*}", "kind", "state", "workspace", ws->name, "state", workspace_state_name(ws->state), "reason", ws->reason));
}

void record_left_over(struct daemon *d, const char *name)
{
        static struct workspace gone; /* all that a note needs */

        gone.daemon = d;
        snprintf(gone.name, sizeof(gone.name), "%s", name);
        record_workspace(&gone, "stopped", "bromed ended unexpectedly, and the session with it");
}
void record_wiped(const struct workspace *ws) { record_workspace(ws, "wiped", "its home, layers, names, CA and placeholders are being deleted"); }
void record_removed(const struct workspace *ws) { record_workspace(ws, "removed", "its folder is being deleted"); }

void record_copied(const struct workspace *ws, bool out, long long files, long long bytes)
{
        struct event_record e;
        char text[96];

        snprintf(text, sizeof(text), "by hand, %s it: %lld file%s, %lld bytes", out ? "out of" : "into", files, files == 1 ? "" : "s", bytes);
        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Workspace"));
        event_text(&e, EVENT_SUBJECT, SLICE_LIT("copied"));
        event_text(&e, EVENT_DETAIL, slice_str(text));
        note(ws, &e);
}

void record_policy(const struct workspace *ws, const char *detail)
{
        struct event_record e;

        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Policy"));
        event_text(&e, EVENT_SUBJECT, SLICE_LIT("rules"));
        event_text(&e, EVENT_DETAIL, slice_str(detail));
        event_num(&e, EVENT_GENERATION, ws->generation);
        note(ws, &e);
}

/* Tells every inner door, once for each change. */
static void set_refusing(struct daemon *d, bool refusing)
{
        if (d->refusing == refusing)
                return;
        d->refusing = refusing;
        for (size_t i = d->workspace_count; i-- > 0;)
                if (d->workspaces[i]->session)
                        session_journal(d->workspaces[i], refusing);
}

static void resume_doors(struct daemon *d)
{
        for (size_t i = d->workspace_count; i-- > 0;) {
                struct session *s = d->workspaces[i]->session;

                for (size_t k = 0; s && k < SESSION_DOORS && d->workspaces[i]->session == s; k++)
                        record_door_resume(&s->events[k]);
                if (s && d->workspaces[i]->session == s)
                        doors_resume(s);
        }
}

void record_flush(struct daemon *d)
{
        struct timeval again = { .tv_sec = DAEMON_RETRY_MS / 1000, .tv_usec = DAEMON_RETRY_MS % 1000 * 1000 };
        struct err why = ERR_INIT;

        if (!d->journal)
                return;
        if (journal_due_ms(d->journal) >= 0 && journal_writable(d->journal, NULL))
                (void)journal_flush(d->journal);
        if (journal_writable(d->journal, &why)) {
                set_refusing(d, false);
                return;
        }
        if (!d->refusing)
                log_error("the journal cannot be written, so every new flow is refused: %s", why.text);
        set_refusing(d, true);
        if (!event_pending(d->retry, EV_TIMEOUT, NULL))
                event_add(d->retry, &again);
}

static void on_flush(evutil_socket_t fd, short what, void *ctx)
{
        struct daemon *d = ctx;

        (void)fd;
        (void)what;
        record_flush(d);
        if (!d->refusing)
                resume_doors(d);
        if (journal_due_ms(d->journal) >= 0 && !d->refusing)
                arm(d); /* what is being counted, or waits for the disk */
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
        struct daemon *d = ctx;

        (void)fd;
        (void)what;
        if (journal_retry(d->journal) == 0)
                log_info("the journal can be written again");
        record_flush(d);
        if (!d->refusing)
                resume_doors(d);
}

int record_start(struct daemon *d)
{
        d->flush = event_new(d->base, -1, 0, on_flush, d);
        d->retry = event_new(d->base, -1, 0, on_retry, d);
        return d->flush && d->retry ? 0 : -1;
}

void record_stop(struct daemon *d)
{
        if (d->flush)
                event_free(d->flush);
        if (d->retry)
                event_free(d->retry);
        d->flush = d->retry = NULL;
        journal_close(d->journal);
        d->journal = NULL;
}

enum taken { TAKEN, NEEDS_MORE, QUEUE_FULL, MALFORMED };

/* One record from the front of the buffer into the journal. SECURITY: workspace, session and door are what bromed knows. */
static enum taken take(struct record_door *r)
{
        struct event_record e;
        size_t used;
        int rc = event_read(buf_slice(&r->bytes), &e, &used);
        struct journal_entry entry = { .workspace = slice_str(r->ws->name), .session = session_number(r->ws), .door = r->name, .event = &e };

        if (rc <= 0)
                return rc == 0 ? NEEDS_MORE : MALFORMED;
        rc = journal_append(r->ws->daemon->journal, &entry);
        if (rc < 0)
                return rc == JOURNAL_NEVER ? MALFORMED : QUEUE_FULL;
        buf_consume(&r->bytes, used);
        arm(r->ws->daemon);
        return TAKEN;
}

/* False when the session was closed by it. */
static bool take_all(struct record_door *r)
{
        enum taken t;

        while ((t = take(r)) == TAKEN)
                ;
        if (t == MALFORMED) {
                struct workspace *ws = r->ws;
                const char *name = r->name;

                record_door_close(r);
                session_fail(ws, "the %s door sent a malformed record; it may have been taken over", name);
                return false;
        }
        if (t == QUEUE_FULL && !r->paused) {
                r->paused = true;
                if (r->read)
                        event_del(r->read);
        }
        return true;
}

/* One read a turn, so that no door keeps the others waiting. */
static void on_events(evutil_socket_t fd, short what, void *ctx)
{
        struct record_door *r = ctx;
        struct workspace *ws = r->ws;
        const char *name = r->name;
        size_t room = DAEMON_EVENT_BYTES - buf_len(&r->bytes);
        uint8_t *to = buf_reserve(&r->bytes, room);
        ssize_t n;

        (void)what;
        if (!to)
                return;
        n = recv(fd, to, room, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n > 0) {
                buf_commit(&r->bytes, (size_t)n);
                take_all(r);
                return;
        }
        record_door_close(r);
        if (r->ended)
                r->ended(r);
        else
                session_events_ended(ws, name);
}

int record_door_open(struct record_door *r, struct workspace *ws, const char *name, int fd)
{
        *r = (struct record_door){ .ws = ws, .name = name, .fd = fd };
        buf_init(&r->bytes, DAEMON_EVENT_BYTES);
        r->read = event_new(ws->daemon->base, fd, EV_READ | EV_PERSIST, on_events, r);
        /* After the channels: a door that ended says so there. */
        if (r->read && event_priority_set(r->read, 2) == 0 && event_add(r->read, NULL) == 0)
                return 0;
        record_door_close(r);
        return -1;
}

void record_door_close(struct record_door *r)
{
        if (!r->ws)
                return;
        if (r->read)
                event_free(r->read);
        r->read = NULL;
        fd_close(&r->fd);
        buf_fini(&r->bytes);
}

void record_door_resume(struct record_door *r)
{
        if (!r->paused || !r->read)
                return;
        r->paused = false;
        if (!take_all(r) || r->paused)
                return;
        event_add(r->read, NULL);
}
