/* bromed and the journal: its own notes, the doors' records, the timers that bring them to disk, and what happens while they cannot. */
#ifndef BROME_DAEMON_RECORD_H
#define BROME_DAEMON_RECORD_H

#include "base/buf.h"
#include "base/slice.h"
#include "daemon/daemon.h"

/* A Workspace note: the state it came to, and why. */
void record_state(const struct workspace *ws);
void record_removed(const struct workspace *ws);
void record_wiped(const struct workspace *ws);
/* A Workspace note: what a person moved in or out by hand. */
void record_copied(const struct workspace *ws, bool out, long long files, long long bytes);
/* Of the session of `name` that ran when bromed ended without a word. */
void record_left_over(struct daemon *d, const char *name);
/* A Policy note. */
void record_policy(const struct workspace *ws, const char *detail);
/* A note of bromed's own about this workspace (may be NULL: of none). synced: on disk when it returns 0. -1: not recorded. */
struct event_record;
int record_note(struct daemon *d, const struct workspace *ws, const struct event_record *e, bool synced);

/* Timers. 0 or -1. */
int record_start(struct daemon *d);
void record_stop(struct daemon *d); /* flushes and closes the journal */
/* Writes what waits. When that fails every inner door refuses new flows until a later try succeeds. */
void record_flush(struct daemon *d);

/* The event socket of one door. */
struct record_door {
        struct workspace *ws;
        const char *name; /* "inner", "outer" */
        int fd;           /* -1: none, or at its end */
        struct event *read;
        struct buf bytes;
        void (*ended)(struct record_door *r); /* at its end; NULL: that is the session's */
        bool paused; /* the journal's queue is full: nothing is read until it was flushed */
};
/* Takes fd. 0 or -1. */
int record_door_open(struct record_door *r, struct workspace *ws, const char *name, int fd);
void record_door_close(struct record_door *r);
/* After a flush. */
void record_door_resume(struct record_door *r);

#endif
