/* The writer's queue, its state of failure, and its life: see journal.h. */
#include "journal/journal_priv.h"

#include "base/clock.h"
#include "base/fd.h"
#include "journal/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUOTA_TOLD_MS = 60 * 1000 /* how often what quotas removed is noted, per journal */ };

static const struct journal_quota default_quota[JOURNAL_CLASS_COUNT] = {
        [JOURNAL_TRACE] = { 100000, 64 << 20 },   /* a week of a busy agent */
        [JOURNAL_LOGGED] = { 50000, 32 << 20 },   /* what a rule singles out is rarer */
        [JOURNAL_DOOR] = { 20000, 16 << 20 },     /* a door taken over can write these at will */
        [JOURNAL_DECISION] = { 50000, 32 << 20 }, /* made by people and by bromed: years */
        [JOURNAL_SELF] = { 2000, 1 << 20 },       /* at most one a minute */
};

/* ---- taking records ---- */

static int enqueue(struct journal *j, struct tenant *tenant, uint64_t session, enum journal_class class, const struct event_record *e)
{
        struct queued q = { .tenant = tenant, .session = session, .time_us = clock_real_us(), .class = class };
        size_t start = j->queue.end - j->queue.start, body;

        /* Reserve for the largest record first, so that a full queue leaves nothing half written. */
        if (!buf_reserve(&j->queue, sizeof(q) + EVENT_RECORD_BYTES)) {
                j->queue.failed = false;
                return -1;
        }
        buf_commit(&j->queue, sizeof(q));
        body = buf_len(&j->queue);
        if (event_write(&j->queue, e) < 0) {
                j->queue.failed = false;
                j->queue.end = j->queue.start + start;
                return -1;
        }
        q.body_bytes = buf_len(&j->queue) - body;
        memcpy(j->queue.bytes + j->queue.start + start, &q, sizeof(q));
        if (j->queued++ == 0)
                j->queued_ms = clock_mono_ms();
        tenant_use(j, tenant);
        return 0;
}

static enum journal_class class_of(const struct event_record *e, bool from_door)
{
        bool firewall = e->type != EVENT_NOTE && (!event_has(e, EVENT_ENGINE) || slice_iis(e->text[EVENT_ENGINE], "Firewall"));

        if (firewall)
                return event_has(e, EVENT_FLAGS) && e->num[EVENT_FLAGS] & EVENT_FLAG_LOG ? JOURNAL_LOGGED : JOURNAL_TRACE;
        return from_door ? JOURNAL_DOOR : JOURNAL_DECISION;
}

/* Where a coalesced count comes out. */
struct outlet {
        struct journal *j;
        struct tenant *tenant;
};
static int count_out(void *ctx, uint64_t session, const struct event_record *e)
{
        struct outlet *o = ctx;

        return enqueue(o->j, o->tenant, session, class_of(e, true), e);
}

/* 1: write it; 0: counted; -1: no room. */
static int coalesce(struct journal *j, struct tenant *t, uint64_t session, const struct event_record *e)
{
        struct outlet o = { j, t };

        if (e->type != EVENT_VERDICT || !slice_is(e->text[EVENT_DECISION], "deny"))
                return 1;
        if (!t->coalesce) {
                t->coalesce = malloc(sizeof(*t->coalesce));
                if (!t->coalesce)
                        return 1;
                coalesce_init(t->coalesce);
        }
        tenant_use(j, t);
        return coalesce_take(t->coalesce, session, e, clock_mono_ms(), count_out, &o);
}

static int append(struct journal *j, const struct journal_entry *entry, bool may_coalesce)
{
        struct event_record e = *entry->event;
        struct tenant *t = tenant_get(j, entry->workspace);
        int rc;

        if (!t)
                return entry->workspace.n > JOURNAL_WORKSPACE_BYTES || j->tenant_count >= JOURNAL_WORKSPACES ? JOURNAL_NEVER : -1;
        e.present &= ~(1u << EVENT_DOOR);
        e.text[EVENT_DOOR] = SLICE_EMPTY;
        event_text(&e, EVENT_DOOR, slice_str(entry->door ? entry->door : "bromed"));
        rc = may_coalesce && entry->door ? coalesce(j, t, entry->session, &e) : 1;
        return rc == 1 ? enqueue(j, t, entry->session, class_of(&e, entry->door != NULL), &e) : rc;
}

/* A note of the journal about itself. */
static int self_note(struct journal *j, struct tenant *tenant, const char *subject, const char *text, uint64_t count)
{
        struct event_record e;

        event_init(&e, EVENT_NOTE);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Journal"));
        event_text(&e, EVENT_DOOR, SLICE_LIT("bromed"));
        event_text(&e, EVENT_SUBJECT, slice_str(subject));
        event_text(&e, EVENT_DETAIL, slice_str(text));
        if (count)
                event_num(&e, EVENT_COUNT, count);
        return enqueue(j, tenant, 0, JOURNAL_SELF, &e);
}

static void tell_forgotten(struct journal *j, const char *text, uint64_t *count)
{
        struct tenant *none = *count ? tenant_get(j, SLICE_EMPTY) : NULL;

        if (none && self_note(j, none, "forgotten", text, *count) == 0)
                *count = 0;
}

/* What was removed, once a minute and at the end: the anchors count exactly, this is for a reader of the timeline. */
static void tell_pruned(struct journal *j, bool now)
{
        struct tenant *t;

        if (!now && clock_mono_ms() - j->told_ms < QUOTA_TOLD_MS)
                return;
        j->told_ms = clock_mono_ms();
        LIST_FOREACH(t, &j->active, work)
                if (t->pruned && self_note(j, t, "quota", "the oldest records were removed to keep the workspace's quota", t->pruned) == 0)
                        t->pruned = 0;
        tell_forgotten(j, "workspaces that are gone lost their trace, the oldest first", &j->stripped);
        tell_forgotten(j, "workspaces that are gone lost their last records and their name, the oldest first", &j->forgotten);
}

int journal_append(struct journal *j, const struct journal_entry *entry) { return append(j, entry, true); }

/* ---- writing ---- */

static int fail(struct journal *j)
{
        if (!j->failed)
                j->failed_us = clock_real_us();
        j->failed = true;
        return -1;
}

static int write_out(struct journal *j, bool sync)
{
        uint64_t wrote = j->queued;

        sync = sync || clock_mono_ms() - j->synced_ms >= JOURNAL_SYNC_MS;
        if (store_queue(j, sync) < 0) {
                fail(j);
                /* Committed, only the head did not follow: the records are on disk. */
                return j->queued == 0 && wrote ? 0 : -1;
        }
        /* A prune that fails fails nothing that was recorded, but the next write would. */
        if (retain(j) < 0)
                return fail(j), 0;
        tenants_rest(j, clock_mono_ms());
        return forget(j) < 0 ? fail(j), 0 : 0;
}

static int counts_out(struct journal *j, int64_t now_ms)
{
        struct tenant *t;

        LIST_FOREACH(t, &j->active, work) {
                struct outlet o = { j, t };
                if (t->coalesce && coalesce_flush(t->coalesce, now_ms, count_out, &o) < 0)
                        return -1;
        }
        return 0;
}

void journal_settle(struct journal *j, struct slice workspace)
{
        struct tenant *t;

        LIST_FOREACH(t, &j->active, work) {
                struct outlet o = { j, t };
                /* What finds no room stays counted, and comes out with the next flush. */
                if (t->coalesce && slice_eq(slice_of(t->name, t->name_len), workspace))
                        (void)!coalesce_flush(t->coalesce, INT64_MAX, count_out, &o);
        }
}

/* When what is on disk is to be made safe from a power cut. */
static int64_t sync_due_ms(const struct journal *j)
{
        return j->head.synced.seq == j->tail.seq ? INT64_MAX : j->synced_ms + JOURNAL_SYNC_MS;
}

/* A commit that writes nothing syncs nothing, hence the probe row. */
static int sync_tail(struct journal *j)
{
        sqlite3_bind_int64(j->st[ST_PROBE], 1, clock_real_us());
        if (store_begin(j, true) < 0 || store_run(j, ST_PROBE) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                return fail(j);
        }
        j->synced_ms = clock_mono_ms();
        return store_head(j, true) < 0 ? fail(j) : 0;
}

int journal_append_sync(struct journal *j, const struct journal_entry *entry)
{
        size_t before = buf_len(&j->queue);
        uint64_t queued = j->queued;

        int rc = j->failed ? -1 : append(j, entry, false);

        if (rc < 0)
                return rc;
        if (write_out(j, true) == 0)
                return 0;
        j->queue.end = j->queue.start + before;
        j->queued = queued;
        return -1;
}

int journal_flush(struct journal *j)
{
        if (j->failed)
                return -1;
        if (counts_out(j, clock_mono_ms()) < 0 && !j->queued)
                return -1;
        tell_pruned(j, false);
        if (j->queued)
                return write_out(j, false);
        return sync_due_ms(j) <= clock_mono_ms() ? sync_tail(j) : 0;
}

int journal_due_ms(const struct journal *j)
{
        const struct tenant *t;
        int64_t now = clock_mono_ms(), due = j->queued ? j->queued_ms + JOURNAL_FLUSH_MS : INT64_MAX;

        if (j->failed)
                return -1;
        if (sync_due_ms(j) < due)
                due = sync_due_ms(j);
        LIST_FOREACH(t, &j->active, work) {
                int64_t d = t->coalesce ? coalesce_due_ms(t->coalesce) : INT64_MAX;
                due = d < due ? d : due;
        }
        if (due == INT64_MAX)
                return -1;
        return due <= now ? 0 : due - now > INT_MAX ? INT_MAX : (int)(due - now);
}

bool journal_writable(const struct journal *j, struct err *why)
{
        if (j->failed && why)
                *why = j->why;
        return !j->failed;
}

/* Noted when everything that waited is on disk. */
static void tell_outage(struct journal *j)
{
        struct tenant *none = tenant_get(j, SLICE_EMPTY);
        char text[160];

        snprintf(text, sizeof(text), "records could not be written for %lld s: %.100s", (long long)((clock_real_us() - j->failed_us) / 1000000),
                 j->why.text);
        if (none)
                (void)!self_note(j, none, "outage", text, 0);
}

int journal_retry(struct journal *j)
{
        if (!j->failed)
                return 0;
        sqlite3_bind_int64(j->st[ST_PROBE], 1, clock_real_us());
        if (store_begin(j, true) < 0 || store_run(j, ST_PROBE) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                return -1;
        }
        if (store_queue(j, true) < 0)
                return -1;
        j->failed = false;
        tell_outage(j);
        return write_out(j, true);
}

/* ---- sessions, clearing ---- */

int journal_session_begin(struct journal *j, struct slice workspace, uint64_t *session, struct err *err)
{
        struct tenant *t = j->failed ? NULL : tenant_get(j, workspace);

        if (!t)
                return err_set(err, "%s", j->failed ? j->why.text : "journal: no room for another workspace, or its name is too long");
        t->sessions++;
        if (store_begin(j, true) < 0 || store_tenant(j, t) < 0 || store_commit(j) < 0) {
                store_rollback(j);
                t->sessions--;
                fail(j);
                return err_set(err, "%s", j->why.text);
        }
        t->stored = true;
        tenant_age(j, t, t->bare);
        *session = t->sessions;
        return 0;
}

int journal_clear(struct journal *j, struct slice workspace, struct err *err)
{
        struct tenant *t = tenant_find(j, workspace);
        int64_t gone;

        if (!t)
                return err_set(err, "the journal knows no such workspace");
        if (j->failed || (j->queued && write_out(j, false) < 0))
                return err_set(err, "%s", j->why.text);
        gone = retain_strip(j, t, JOURNAL_DOOR, UINT64_MAX);
        if (gone < 0 || self_note(j, t, "clear", "the trace was cleared by hand", (uint64_t)gone) < 0 || write_out(j, true) < 0) {
                fail(j);
                return err_set(err, "%s", j->why.text);
        }
        return 0;
}

const char *journal_damage(const struct journal *j) { return j->damage; }
uint64_t journal_last_seq(const struct journal *j) { return j->tail.seq; }

/* ---- opening and closing ---- */

static int path_of(char out[PATH_MAX], const char *state, const char *name, struct err *err)
{
        int n = snprintf(out, PATH_MAX, "%s/%s", state, name);

        return n > 0 && n < PATH_MAX ? 0 : err_set(err, "the path of the state folder is too long");
}

static int open_chain(struct journal *j, const char *state, bool make, struct err *err)
{
        char path[PATH_MAX];
        uint8_t key[CHAIN_KEY_BYTES];
        int have;

        if (path_of(path, state, "journal.key", err) < 0)
                return -1;
        have = chain_key_load(path, make, key, err);
        if (have == 1)
                j->chain = chain_new(key);
        OPENSSL_cleanse(key, sizeof(key));
        if (have == 0)
                return err_set(err, "%s is missing: put it back from a backup, or move journal.* away to begin a new journal", path);
        if (have == 1 && !j->chain)
                return err_set(err, "journal: libcrypto has no HMAC-SHA256");
        if (have < 0 || path_of(path, state, "journal.head", err) < 0)
                return -1;
        j->head_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        return j->head_fd < 0 ? err_sys(err, errno, "%s", path) : 0;
}

static bool has_records(struct journal *j)
{
        sqlite3_stmt *s;
        bool some = true; /* unreadable: never make a new key */

        if (sqlite3_prepare_v2(j->db, "SELECT 1 FROM record UNION ALL SELECT 1 FROM gap LIMIT 1", -1, &s, NULL) != SQLITE_OK)
                return true;
        some = sqlite3_step(s) != SQLITE_DONE;
        sqlite3_finalize(s);
        return some;
}

static int open_all(struct journal *j, const struct journal_options *o, struct err *err)
{
        struct tenant *none = NULL;
        char path[PATH_MAX];

        if (path_of(path, o->state, "journal.db", err) < 0)
                return -1;
        j->db = schema_open(path, o->create ? SCHEMA_CREATE : SCHEMA_WRITE, err);
        if (!j->db || open_chain(j, o->state, o->create && !has_records(j), err) < 0 || store_prepare(j, err) < 0 || tenants_load(j, err) < 0 ||
            store_load(j, err) < 0)
                return -1;
        if (j->damage[0] && (!(none = tenant_get(j, SLICE_EMPTY)) || self_note(j, none, "damage", j->damage, 0) < 0))
                return err_set(err, "out of memory");
        /* A real write, on disk: a journal that cannot be written is found before anything is admitted. */
        sqlite3_bind_int64(j->st[ST_PROBE], 1, clock_real_us());
        if (store_begin(j, true) < 0 || store_run(j, ST_PROBE) < 0 || store_commit(j) < 0 || store_queue(j, true) < 0)
                return err_set(err, "%s", j->why.text);
        /* Both slots speak of this boot from now on. */
        return store_head(j, true) < 0 ? err_set(err, "%s", j->why.text) : 0;
}

struct journal *journal_open(const struct journal_options *options, struct err *err)
{
        struct journal *j = calloc(1, sizeof(*j));

        if (!j) {
                err_set(err, "out of memory");
                return NULL;
        }
        j->head_fd = -1;
        buf_init(&j->queue, JOURNAL_QUEUE_BYTES);
        j->told_ms = clock_mono_ms();
        LIST_INIT(&j->active);
        TAILQ_INIT(&j->traced);
        TAILQ_INIT(&j->bare);
        j->forget = options->forget;
        j->forget.traced = j->forget.traced ? j->forget.traced : JOURNAL_TRACED;
        j->forget.names = j->forget.names ? j->forget.names : JOURNAL_NAMES;
        j->forget.bytes = j->forget.bytes ? j->forget.bytes : JOURNAL_BYTES;
        for (int c = 0; c < JOURNAL_CLASS_COUNT; c++) {
                j->quota[c].rows = options->quota[c].rows ? options->quota[c].rows : default_quota[c].rows;
                j->quota[c].bytes = options->quota[c].bytes ? options->quota[c].bytes : default_quota[c].bytes;
        }
        if (open_all(j, options, err) < 0) {
                journal_close(j);
                return NULL;
        }
        j->opened = true;
        return j;
}

void journal_close(struct journal *j)
{
        if (!j)
                return;
        if (j->opened && journal_retry(j) == 0) {
                (void)!counts_out(j, INT64_MAX);
                tell_pruned(j, true);
                (void)!write_out(j, true);
        }
        for (int i = 0; i < ST_COUNT; i++)
                sqlite3_finalize(j->st[i]);
        sqlite3_close(j->db);
        chain_free(j->chain);
        fd_close(&j->head_fd);
        tenants_free(j);
        buf_fini(&j->queue);
        free(j);
}

/* ---- sealing ---- */

const struct seal_call journal_seal_calls[] = {
        SEAL_CALL(pwrite64, "pages of the database, its log and index; the head file"),
        SEAL_CALL(pread64, "pages"),
        SEAL_CALL(fdatasync, "a synced commit, a checkpoint"),
        SEAL_CALL(fsync, "the same, after a file grew; the folder of a new log"),
        SEAL_CALL(ftruncate, "the log after a checkpoint, the index when made"),
        SEAL_CALL(openat, "log and index are opened again after a reset; the folder, to sync it; Landlock bounds the paths"),
        SEAL_CALL(unlink, "log and index on close"),
        SEAL_CALL(unlinkat, "the same, newer C libraries"),
        SEAL_CALL(access, "is there a log"),
        SEAL_CALL(faccessat, "the same"),
        SEAL_CALL(faccessat2, "the same"),
        SEAL_CALL(stat, "was the database moved away"),
        SEAL_CALL(lstat, "the same"),
        SEAL_CALL(statx, "the same"),
        SEAL_CALL(readlink, "the database's real path"),
        SEAL_CALL(geteuid, "owner of a new log when root"),
        SEAL_CALL(fchown, "the same"),
        SEAL_CALL(fchmod, "mode of a new log"),
        SEAL_CALL(clock_nanosleep, "waiting for a reader's lock"),
        SEAL_CALL(nanosleep, "the same"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_SETLK, "SQLite's locks"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, F_GETLK, "SQLite's locks"),
};
const size_t journal_seal_calls_count = sizeof(journal_seal_calls) / sizeof(journal_seal_calls[0]);
