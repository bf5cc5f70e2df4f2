/* The writer: nothing taken is lost, a full disk is told and survived, quotas keep neighbours apart. */
#include "help.h"

#include "base/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void private_files(void **state)
{
        static const char *const name[] = { "journal.db", "journal.key", "journal.head", "journal.db-wal" };
        struct place *p = *state;

        umask(0);
        place_open(p);
        put_many(p->j, "alpha", 1);
        for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
                char path[128];
                struct stat st;
                snprintf(path, sizeof(path), "%s/%s", p->state, name[i]);
                assert_int_equal(stat(path, &st), 0);
                assert_int_equal(st.st_mode & 0777, 0600);
        }
}

/* A home may lie behind a link; the database itself may not be one. */
static void links(void **state)
{
        struct place *p = *state, other = { 0 };
        struct journal_options o = { .state = other.state, .create = true };
        char db[128];

        snprintf(other.state, sizeof(other.state), "%.50s-link", p->state);
        assert_int_equal(symlink(p->state, other.state), 0);
        place_open(&other);
        put_many(other.j, "alpha", 1);
        assert_int_equal(verify(&other).result.records, 1);
        place_close(&other);
        assert_int_equal(unlink(other.state), 0);
        snprintf(db, sizeof(db), "%s/journal.db", p->state);
        assert_int_equal(unlink(db), 0);
        assert_int_equal(symlink("/tmp/elsewhere.db", db), 0);
        o.state = p->state;
        assert_null(journal_open(&o, NULL));
}

static void nothing_without_create(void **state)
{
        struct place *p = *state;
        struct journal_options o = { .state = p->state };
        struct err err = ERR_INIT;

        assert_null(journal_open(&o, &err));
        assert_non_null(strstr(err.text, "no journal yet"));
}

static void sync_is_there_at_once(void **state)
{
        struct place *p = *state;
        struct event_record e = verdict("deny", "evil.example", 1);
        struct journal_entry entry = { SLICE_LIT("alpha"), 1, NULL, &e };

        place_open(p);
        put(p->j, "alpha", "inner", &e);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record"), 0);
        assert_true(journal_due_ms(p->j) >= 0 && journal_due_ms(p->j) <= JOURNAL_FLUSH_MS);
        assert_int_equal(journal_append_sync(p->j, &entry), 0);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record"), 2);
        assert_int_equal(journal_due_ms(p->j), -1);
        assert_int_equal(verify(p).result.findings, 0);
}

/* SECURITY: who wrote a record is said by bromed, not by the record. */
static void doors_are_named_by_bromed(void **state)
{
        struct place *p = *state;
        struct event_record e = verdict("allow", "registry.example", 1);

        event_text(&e, EVENT_DOOR, SLICE_LIT("bromed"));
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Tripwire"));
        place_open(p);
        put(p->j, "alpha", "inner", &e);
        put(p->j, "alpha", NULL, &e);
        assert_int_equal(journal_flush(p->j), 0);
        assert_int_equal(place_number(p, "SELECT class FROM record WHERE seq = 1"), JOURNAL_DOOR);
        assert_int_equal(place_number(p, "SELECT class FROM record WHERE seq = 2"), JOURNAL_DECISION);
        assert_int_equal(place_number(p, "SELECT instr(body, 'inner') > 0 AND instr(body, 'bromed') = 0 FROM record WHERE seq = 1"), 1);
}

static void sessions_count_up(void **state)
{
        struct place *p = *state;
        struct err err = ERR_INIT;
        uint64_t n = 0;

        place_open(p);
        assert_int_equal(journal_session_begin(p->j, SLICE_LIT("alpha"), &n, &err), 0);
        assert_int_equal(n, 1);
        place_close(p);
        place_open(p);
        assert_int_equal(journal_session_begin(p->j, SLICE_LIT("alpha"), &n, &err), 0);
        assert_int_equal(n, 2);
        assert_int_equal(journal_session_begin(p->j, SLICE_LIT("beta"), &n, &err), 0);
        assert_int_equal(n, 1);
        assert_int_equal(journal_session_begin(p->j, slice_of("0123456789012345678901234567890123456789012345678901234567890123456789", 70), &n, &err), -1);
}

/* Kills the writer wherever it is; what was flushed is there, and the chain holds. */
static void killed_anywhere(void **state)
{
        struct place *p = *state;

        for (int round = 0; round < 8; round++) {
                int pipes[2], status;
                uint64_t flushed = 0;
                pid_t pid;
                assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        struct journal_options o = { .state = p->state, .create = true };
                        struct journal *j = journal_open(&o, NULL);
                        if (!j)
                                _exit(1);
                        for (uint64_t i = 0;; i++) {
                                struct event_record e = verdict("allow", "registry.example", i);
                                struct journal_entry entry = { SLICE_LIT("alpha"), 1, "inner", &e };
                                if (journal_append(j, &entry) < 0)
                                        _exit(1);
                                if (i % 7 == 6) {
                                        uint64_t seq;
                                        if (journal_flush(j) < 0)
                                                _exit(1);
                                        seq = journal_last_seq(j);
                                        if (write(pipes[1], &seq, sizeof(seq)) != sizeof(seq))
                                                _exit(1);
                                }
                        }
                }
                close(pipes[1]);
                for (int i = 0; i < 50 + round * 13; i++)
                        assert_int_equal(read(pipes[0], &flushed, sizeof(flushed)), sizeof(flushed));
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                for (uint64_t more; read(pipes[0], &more, sizeof(more)) == sizeof(more);)
                        flushed = more;
                close(pipes[0]);
                assert_true(WIFSIGNALED(status));
                struct verdict_of_verify v = verify(p);
                if (v.result.findings)
                        fail_msg("%s", v.text);
                assert_true(v.result.last_seq >= flushed);
        }
        place_open(p);
        assert_string_equal(journal_damage(p->j), "");
}

/* A file size limit stands in for a full disk: EFBIG instead of ENOSPC, the same way through SQLite. */
static void full_disk(void **state)
{
        struct place *p = *state;
        struct rlimit old, tight = { 200 * 1024, 0 };
        struct event_record e = verdict("deny", "evil.example", 1);
        struct journal_entry entry = { SLICE_LIT("alpha"), 1, NULL, &e };
        struct err why = ERR_INIT;
        uint64_t taken = 0, on_disk, n;
        struct verdict_of_verify v;

        signal(SIGXFSZ, SIG_IGN);
        place_open(p);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        tight.rlim_max = old.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        while (journal_writable(p->j, NULL)) {
                struct event_record a = verdict("allow", "registry.example", taken);
                put(p->j, "alpha", "inner", &a);
                taken++;
                if (taken % 50 == 0)
                        (void)journal_flush(p->j);
                assert_true(taken < 100000);
        }
        assert_false(journal_writable(p->j, &why));
        assert_true(strlen(why.text) > 0);
        on_disk = journal_last_seq(p->j);
        assert_true(on_disk < taken);
        /* Further records wait; a decision is not made; retrying does not help yet. */
        put(p->j, "alpha", "inner", &e);
        taken++;
        assert_int_equal(journal_append_sync(p->j, &entry), -1);
        assert_int_equal(journal_session_begin(p->j, SLICE_LIT("alpha"), &n, &why), -1);
        assert_int_equal(journal_retry(p->j), -1);
        assert_int_equal(journal_flush(p->j), -1);
        assert_int_equal(verify(p).result.findings, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(journal_retry(p->j), 0);
        assert_true(journal_writable(p->j, NULL));
        assert_int_equal(journal_append_sync(p->j, &entry), 0);
        v = verify(p);
        assert_int_equal(v.result.findings, 0);
        assert_int_equal(v.result.records, taken + 2); /* the outage note, the decision */
        assert_int_equal(place_number(p, "SELECT instr(body, 'could not be written') > 0 FROM record WHERE class = 4"), 1);
}

/* A real full disk: a tmpfs of half a megabyte, in a mount namespace of its own. 77: this machine lets nobody make one. */
static int fill_tmpfs(struct place *p)
{
        struct journal_options o = { .state = p->state, .create = true };
        char filler[128];
        struct journal *j;
        struct event_record e;
        struct journal_entry entry = { SLICE_LIT("alpha"), 1, "inner", &e };
        uint64_t taken = 0;
        int fd;
        static const uint8_t block[4096];

        if ((unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", p->state, "tmpfs", 0, "size=512k,mode=700") < 0)
                return 77;
        snprintf(filler, sizeof(filler), "%s/filler", p->state);
        fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        j = journal_open(&o, NULL);
        if (fd < 0 || !j)
                return 1;
        for (int i = 0; i < 60; i++)
                if (write(fd, block, sizeof(block)) < 0)
                        break;
        for (; journal_writable(j, NULL); taken++) {
                e = verdict("allow", "registry.example", taken);
                if (journal_append(j, &entry) < 0 || taken > 100000)
                        return 2;
                if (taken % 10 == 9)
                        (void)journal_flush(j);
        }
        if (journal_retry(j) == 0 || verify(p).result.findings)
                return 3;
        if (ftruncate(fd, 0) < 0 || journal_retry(j) < 0 || !journal_writable(j, NULL))
                return 4;
        journal_close(j);
        return verify(p).result.findings == 0 && verify(p).result.records == taken + 1 ? 0 : 5;
}

static void full_tmpfs(void **state)
{
        struct place *p = *state;
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
                _exit(fill_tmpfs(p));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* A reader beside a busy writer with quotas: never blocked for long, and never a false alarm. */
static void verified_while_written(void **state)
{
        struct place *p = *state;
        int status, rounds = 0;
        pid_t pid, done;

        place_open(p);
        place_close(p);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct journal_options o = { .state = p->state };
                struct journal *j;
                o.quota[JOURNAL_TRACE].rows = 500;
                j = journal_open(&o, NULL);
                for (uint64_t i = 0; i < 8000; i++) {
                        struct event_record e = verdict("allow", "registry.example", i);
                        struct journal_entry entry = { i % 3 ? SLICE_LIT("alpha") : SLICE_LIT("beta"), 1, "inner", &e };
                        if (!j || journal_append(j, &entry) < 0 || (i % 20 == 19 && journal_flush(j) < 0))
                                _exit(1);
                }
                journal_close(j);
                _exit(0);
        }
        do {
                struct verdict_of_verify v = verify(p);
                done = waitpid(pid, &status, WNOHANG);
                if (v.result.findings)
                        fail_msg("%s", v.text);
                rounds++;
        } while (done == 0);
        assert_int_equal(done, pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_true(rounds > 1);
        assert_int_equal(verify(p).result.findings, 0);
}

static void full_queue_refuses(void **state)
{
        struct place *p = *state;
        uint64_t taken = 0;

        place_open(p);
        for (;; taken++) {
                struct event_record e = verdict("allow", "registry.example", taken);
                struct journal_entry entry = { SLICE_LIT("alpha"), 1, "inner", &e };
                if (journal_append(p->j, &entry) < 0)
                        break;
        }
        assert_true(taken > 10000);
        assert_int_equal(journal_flush(p->j), 0);
        assert_int_equal(journal_last_seq(p->j), taken);
        assert_int_equal(verify(p).result.findings, 0);
}

static void storm_is_counted(void **state)
{
        struct place *p = *state;

        place_open(p);
        for (int i = 0; i < 5000; i++) {
                struct event_record e = verdict("deny", "evil.example", 3);
                put(p->j, "alpha", "inner", &e);
        }
        assert_int_equal(journal_flush(p->j), 0);
        assert_true(journal_due_ms(p->j) > 0);
        place_close(p);
        assert_true(place_number(p, "SELECT count(*) FROM record") < 50);
        assert_int_equal(verify(p).result.findings, 0);
}

static struct journal *open_small(struct place *p)
{
        struct journal_options o = { .state = p->state, .create = true };

        o.quota[JOURNAL_TRACE].rows = 1000;
        p->j = journal_open(&o, NULL);
        assert_non_null(p->j);
        return p->j;
}

/* A flood from one workspace takes nothing from the other, nor its own decisions; the chain still verifies. */
static void quota(void **state)
{
        struct place *p = *state;
        struct verdict_of_verify v;

        open_small(p);
        for (uint64_t i = 0; i < 20000; i++) {
                struct event_record e = verdict("allow", "registry.example", i), d = verdict("deny", "evil.example", i);
                put(p->j, "flood", "inner", &e);
                if (i % 40 == 0)
                        put(p->j, "quiet", "inner", &e);
                if (i % 400 == 0) {
                        event_text(&d, EVENT_ENGINE, SLICE_LIT("Consent"));
                        put(p->j, "flood", NULL, &d);
                }
                if (i % 100 == 99)
                        assert_int_equal(journal_flush(p->j), 0);
        }
        place_close(p);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record r JOIN workspace w ON w.id = r.workspace WHERE name = x'7175696574'"), 500);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 3"), 50);
        assert_true(place_number(p, "SELECT count(*) FROM record WHERE class = 0") <= 1500 + 256 + 1);
        assert_true(place_number(p, "SELECT count(*) FROM gap") <= 560);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 4"), 1);
        v = verify(p);
        if (v.result.findings)
                fail_msg("%s", v.text);
        assert_true(v.result.pruned >= 18000);
        assert_int_equal(v.result.pruned + v.result.records, v.result.last_seq);
        assert_int_equal(place_number(p, "SELECT sum(rows) = (SELECT count(*) FROM record) FROM usage"), 1);
        open_small(p);
        assert_string_equal(journal_damage(p->j), "");
        put_many(p->j, "quiet", 5000);
        place_close(p);
        assert_int_equal(verify(p).result.findings, 0);
        place_sql(p, "DELETE FROM gap WHERE first = (SELECT first FROM gap LIMIT 1 OFFSET 3)");
        assert_true(verify(p).result.findings > 0);
}

static void clearing(void **state)
{
        struct place *p = *state;
        struct err err = ERR_INIT;
        struct event_record e = verdict("deny", "evil.example", 1);

        place_open(p);
        put_many(p->j, "alpha", 6000);
        event_text(&e, EVENT_ENGINE, SLICE_LIT("Policy"));
        put(p->j, "alpha", NULL, &e);
        put_many(p->j, "beta", 10);
        assert_int_equal(journal_clear(p->j, SLICE_LIT("alpha"), &err), 0);
        assert_int_equal(journal_clear(p->j, SLICE_LIT("gamma"), &err), -1);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record"), 12);
        assert_int_equal(verify(p).result.findings, 0);
}

static void hostile_bytes(void **state)
{
        struct place *p = *state;
        struct event_record e = verdict("deny", "evil.example", 1);
        uint8_t all[256], *huge = calloc(1, 1 << 20);

        for (int i = 0; i < 256; i++)
                all[i] = (uint8_t)i;
        assert_non_null(huge);
        event_text(&e, EVENT_HOST, slice_of(all, sizeof(all)));
        event_text(&e, EVENT_PATH, slice_of(huge, 1 << 20));
        event_text(&e, EVENT_ENGINE, SLICE_LIT("'; DROP TABLE record; --"));
        place_open(p);
        put(p->j, "al\"pha'; --", "inner", &e);
        put(p->j, "", "inner", &e);
        assert_int_equal(journal_flush(p->j), 0);
        assert_int_equal(verify(p).result.findings, 0);
        assert_int_equal(verify(p).result.records, 2);
        free(huge);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
                T(private_files), T(links), T(nothing_without_create), T(sync_is_there_at_once), T(doors_are_named_by_bromed), T(sessions_count_up),
                T(killed_anywhere), T(full_disk), T(full_tmpfs), T(verified_while_written), T(full_queue_refuses), T(storm_is_counted), T(quota), T(clearing), T(hostile_bytes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
