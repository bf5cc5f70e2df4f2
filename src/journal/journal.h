/* The journal's writer: the one place from which a record reaches disk. Only bromed opens it. Single threaded.
 *
 * Records are kept in a bounded queue in memory until journal_flush() writes them in one transaction (SQLite, WAL). A record that
 * journal_append() took is never dropped: a flush that fails leaves it queued. Call journal_flush() at the end of each turn of the event
 * loop (a killed bromed then loses nothing it took), at the latest when journal_due_ms() says 0. What must be on disk before it takes
 * effect goes through journal_append_sync().
 *
 * Files in the state folder, all 0600:
 *   journal.db   records, gaps, workspaces, usage (schema.h)
 *   journal.key  32 random bytes, made once: the key of the chain
 *   journal.head how far the chain goes and its MAC there, kept apart from the records so that a cut tail shows (chain.h)
 *
 * Every record carries a MAC over the record and its predecessor's MAC. Quotas remove the oldest rows of one workspace and class and put
 * a signed anchor in their place, so a pruned journal still verifies. The key lies beside the journal: the chain shows what a crash, a
 * stray tool or anybody without the key changed; whoever has the user's own rights can read the key.
 *
 * Failure is sticky: on a full disk, an I/O error or a read-only file system journal_writable() turns false with the reason, and bromed
 * refuses new flows until journal_retry() succeeds. Never grows without bound: a full queue refuses (-1), the caller then stops reading
 * the doors' event sockets, and a door that cannot write its events admits no new flow. */
#ifndef BROME_JOURNAL_JOURNAL_H
#define BROME_JOURNAL_JOURNAL_H

#include "base/err.h"
#include "base/seal.h"
#include "journal/event.h"

enum {
        JOURNAL_QUEUE_BYTES = 16 * 1024 * 1024, /* records waiting for the disk; 20 s of a heavy load */
        JOURNAL_FLUSH_MS = 100,                 /* a record taken is on disk within this time */
        JOURNAL_SYNC_MS = 1000,                 /* and safe from a power cut within this one, while records come */
        JOURNAL_WORKSPACE_BYTES = 64,           /* a workspace's name */
        JOURNAL_TRACED = 4096,                  /* workspaces that keep their trace: a day of a platform that throws thousands away */
        JOURNAL_NAMES = 16384,                  /* that keep decisions and name: four records each, 16 MB in all */
        JOURNAL_WORKSPACES = 65536,             /* names at all; only workspaces that still exist can pass JOURNAL_NAMES. 400 bytes each in memory */
        JOURNAL_COALESCE_FIRST = 3,             /* identical refusals written one by one before counting starts */
        JOURNAL_COALESCE_MS = 1000,             /* counted for this long, then one record with COUNT */
        JOURNAL_COALESCE_SLOTS = 64,            /* different refusals watched per workspace; a further one replaces, it is never lost */
};

/* Of journal.db in use: fourteen workspaces at all their quotas; more than that is made of workspaces that are gone. Verified in some ten seconds. */
#define JOURNAL_BYTES (UINT64_C(2) << 30)

/* What a record is kept by. A quota counts rows and bytes of one class of one workspace, so nothing a guest can cause pushes out another
 * workspace's records or a decision of its own. */
enum journal_class {
        JOURNAL_TRACE = 0,    /* Firewall verdicts and ends */
        JOURNAL_LOGGED = 1,   /* the same, where the rule says log */
        JOURNAL_DOOR = 2,     /* other engines, as told by a door */
        JOURNAL_DECISION = 3, /* bromed's own: Tripwire, Consent, Policy, Workspace, … */
        JOURNAL_SELF = 4,     /* about the journal: what a quota removed, when it could not be written */
        JOURNAL_CLASS_COUNT
};

struct journal_quota {
        uint64_t rows, bytes;
};
/* Forgetting: beyond these, workspaces that are gone lose first their trace, then everything, name included; whose last record is oldest
 * comes first. Anchors stay, so the journal still verifies. The file does not shrink; its pages are used again. */
struct journal_forget {
        size_t traced, names;                      /* 0: JOURNAL_TRACED, JOURNAL_NAMES */
        uint64_t bytes;                            /* 0: JOURNAL_BYTES */
        bool (*exists)(void *ctx, struct slice name); /* a workspace that exists is never forgotten. NULL: all exist. Called in a flush */
        void *ctx;
};
struct journal_options {
        const char *state;                               /* the state folder; must exist */
        bool create;                                     /* make what is missing (never the key of a journal that has records) */
        struct journal_quota quota[JOURNAL_CLASS_COUNT]; /* 0: the default */
        struct journal_forget forget;
};

struct journal;

/* Takes the journal for writing; the caller holds bromed's lock. Refuses a schema newer than this program, a key others may read, and a
 * missing key where there are records. A tail that was cut since the last time is no refusal: the loss is marked in the journal for ever
 * (verify reports it), noted, and the chain goes on. NULL with the reason. */
struct journal *journal_open(const struct journal_options *options, struct err *err) __attribute__((warn_unused_result));
/* Flushes to disk (trying once more when it could not be written) and closes. NULL is fine. */
void journal_close(struct journal *j);

struct journal_entry {
        struct slice workspace;    /* ≤ JOURNAL_WORKSPACE_BYTES; empty: of no workspace */
        uint64_t session;          /* 0: of no session */
        const char *door;          /* SECURITY: who wrote it; replaces whatever DOOR says. NULL: bromed itself */
        const struct event_record *event; /* borrowed for the call */
};

enum { JOURNAL_NEVER = -2 };

/* Takes a record. From a door, identical refusals are coalesced. 0; -1: the queue is full (or memory is), nothing taken, try again after a
 * flush; JOURNAL_NEVER: can never be taken (the workspace's name is too long, there are too many). */
int journal_append(struct journal *j, const struct journal_entry *entry) __attribute__((warn_unused_result));
/* Writes everything queued and this record, and returns 0 once it would survive a power cut. -1: it is *not* recorded (what was queued
 * before stays queued); do not let the decision take effect. Never coalesced. */
int journal_append_sync(struct journal *j, const struct journal_entry *entry) __attribute__((warn_unused_result));
/* Writes what is queued. 0; -1: see journal_writable. While not writable it does nothing and returns -1; see journal_retry. */
int journal_flush(struct journal *j);
/* Queues what was counted of a workspace's refusals and not written yet: its session ended, and they are about to be listed. */
void journal_settle(struct journal *j, struct slice workspace);
/* Milliseconds until journal_flush is due; -1: nothing waits. */
int journal_due_ms(const struct journal *j);

/* Whether records reach the disk; when not, `why` (may be NULL) says why in one line. */
bool journal_writable(const struct journal *j, struct err *why);
/* Tries again, with a real write. 0: writable now, everything queued is on disk, and the outage is noted. */
int journal_retry(struct journal *j);

/* The number of a new session of this workspace: 1, 2, … never used again while the journal knows the name. On disk when it returns 0. */
int journal_session_begin(struct journal *j, struct slice workspace, uint64_t *session, struct err *err)
        __attribute__((warn_unused_result));
/* Removes TRACE, LOGGED and DOOR rows of a workspace (`brome trace clear`); decisions stay. An anchor and a note are left. */
int journal_clear(struct journal *j, struct slice workspace, struct err *err) __attribute__((warn_unused_result));

/* What was found wrong on opening, for the log; empty when nothing. Borrowed. */
const char *journal_damage(const struct journal *j);
uint64_t journal_last_seq(const struct journal *j);

/* System calls of the writer after journal_open, on top of seal_calls_base; for Landlock the state folder read-write (SQLite opens
 * journal.db-wal and -shm again after a reset, and removes them on close). */
extern const struct seal_call journal_seal_calls[];
extern const size_t journal_seal_calls_count;

#endif
