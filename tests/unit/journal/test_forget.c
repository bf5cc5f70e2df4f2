/* Forgetting: there is no end of names or of disk, a workspace that exists loses nothing, and what remains verifies at every step. */
#include "help.h"

#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* "live…" exists, everything else is gone. */
static bool is_live(void *ctx, struct slice name)
{
        if (ctx)
                ++*(size_t *)ctx;
        return name.n >= 4 && memcmp(name.p, "live", 4) == 0;
}

static void open_with(struct place *p, struct journal_forget f)
{
        struct journal_options o = { .state = p->state, .create = true, .forget = f };
        struct err err = ERR_INIT;

        o.forget.exists = is_live;
        p->j = journal_open(&o, &err);
        if (!p->j)
                fail_msg("%s", err.text);
}

static void decide(struct place *p, const char *workspace)
{
        struct event_record e = verdict("deny", "evil.example", 1);

        event_text(&e, EVENT_ENGINE, SLICE_LIT("Workspace"));
        put(p->j, workspace, NULL, &e);
}

/* A throw-away run: a session, some requests, two lines of its life. */
static void run(struct place *p, const char *workspace, size_t requests)
{
        uint64_t session;

        assert_int_equal(journal_session_begin(p->j, slice_str(workspace), &session, NULL), 0);
        decide(p, workspace);
        put_many(p->j, workspace, requests);
        decide(p, workspace);
        assert_int_equal(journal_flush(p->j), 0);
}

static void runs(struct place *p, size_t from, size_t to, size_t requests)
{
        char name[32];

        for (size_t i = from; i < to; i++) {
                snprintf(name, sizeof(name), "run-%06zu", i);
                run(p, name, requests);
        }
}

static void must_verify(struct place *p)
{
        struct verdict_of_verify v = verify(p);

        if (v.result.findings)
                fail_msg("at %d: %s", (int)v.seq, v.text);
        assert_int_equal(v.result.records + v.result.pruned, v.result.last_seq);
}

#define OF(name) "workspace = (SELECT id FROM workspace WHERE name = CAST('" name "' AS BLOB))"

/* The oldest go first; trace before decisions, and those before the name. */
static void oldest_first(void **state)
{
        struct place *p = *state;

        open_with(p, (struct journal_forget){ .traced = 4, .names = 9 });
        run(p, "live", 30); /* the oldest of all */
        for (size_t i = 0; i < 40; i += 4) {
                runs(p, i, i + 4, 20);
                must_verify(p);
        }
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("live")), 32);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace"), 9);
        assert_int_equal(place_number(p, "SELECT count(DISTINCT workspace) FROM record WHERE class = 0"), 4);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-000039")), 22);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-000036")), 2);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace WHERE name = CAST('run-000031' AS BLOB)"), 0);
        assert_int_equal(place_number(p, "SELECT count(*) FROM usage WHERE workspace NOT IN (SELECT id FROM workspace)"), 0);
        assert_int_equal(place_number(p, "SELECT sum(rows) = (SELECT count(*) FROM record) FROM usage"), 1);
}

static void goes_on_after_reopening(void **state)
{
        struct place *p = *state;

        open_with(p, (struct journal_forget){ 0 });
        run(p, "live", 5);
        runs(p, 0, 20, 5);
        place_close(p);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace"), 21);
        open_with(p, (struct journal_forget){ .traced = 4, .names = 9 });
        runs(p, 0, 1, 5); /* the oldest is used again, and so the youngest */
        must_verify(p);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-000000") " AND session = 1"), 14);
        assert_int_equal(place_number(p, "SELECT sessions FROM workspace WHERE name = CAST('run-000000' AS BLOB)"), 2);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 0 AND " OF("run-000019")), 5);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 0 AND " OF("run-000016")), 0);
        place_close(p);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace"), 9);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 4"), 2);
        must_verify(p);
}

/* A name that comes back is another workspace; nothing of the first is shown with it. */
static void a_name_comes_back(void **state)
{
        struct place *p = *state;
        uint64_t session;

        open_with(p, (struct journal_forget){ .traced = 2, .names = 4 });
        run(p, "run-again", 5);
        runs(p, 0, 10, 5);
        assert_int_equal(journal_session_begin(p->j, SLICE_LIT("run-again"), &session, NULL), 0);
        assert_int_equal(session, 1);
        put_many(p->j, "run-again", 3);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-again")), 3);
        must_verify(p);
}

/* One with many rows is taken in steps, whole after each. */
static void large_in_steps(void **state)
{
        struct place *p = *state;
        size_t flushes = 0;

        open_with(p, (struct journal_forget){ .traced = 2, .names = 100 });
        run(p, "run-large", 10000);
        while (place_number(p, "SELECT count(*) FROM record WHERE class = 0 AND " OF("run-large")) && flushes++ < 50) {
                runs(p, flushes, flushes + 1, 3);
                must_verify(p);
        }
        assert_in_range(flushes, 3, 20);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-large")), 2);
}

/* The size holds while something gone can pay for it; what exists only ever pays by its quota. */
static void size(void **state)
{
        static const char used[] = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        struct place *p = *state;
        int64_t now;

        open_with(p, (struct journal_forget){ .bytes = 400000 });
        run(p, "live", 500);
        runs(p, 0, 200, 50);
        now = place_number(p, used);
        assert_in_range(now, 300000, 450000);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("live")), 502);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-000199")), 52);
        assert_true(place_number(p, "SELECT count(*) FROM workspace") > 100); /* trace first: decisions and names are still there */
        must_verify(p);
        run(p, "live-2", 3000);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("live")), 502);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("live-2")), 3002);
        must_verify(p);
}

/* SECURITY: counters that a hand changed do not make a name go from under its records. */
static void wrong_counters(void **state)
{
        struct place *p = *state;

        open_with(p, (struct journal_forget){ 0 });
        runs(p, 0, 10, 5);
        place_close(p);
        place_sql(p, "UPDATE usage SET rows = 0, bytes = 0");
        open_with(p, (struct journal_forget){ .traced = 2, .names = 4 });
        for (size_t i = 10; i < 30; i++) {
                runs(p, i, i + 1, 5);
                must_verify(p);
        }
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace"), 4);
}

/* Refusals being counted keep their workspace until the count is out. */
static void counted_first(void **state)
{
        struct place *p = *state;
        struct event_record e = verdict("deny", "evil.example", 1);

        open_with(p, (struct journal_forget){ .traced = 2, .names = 4 });
        for (int i = 0; i < 100; i++)
                put(p->j, "run-loud", "inner", &e);
        runs(p, 0, 20, 2);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE " OF("run-loud")), 3);
        place_close(p);
        must_verify(p);
}

/* Hundreds in a row: the journal neither ends nor asks about more than a few at a time. */
static void many(void **state)
{
        struct place *p = *state;
        static size_t asked;

        open_with(p, (struct journal_forget){ .traced = 100, .names = 300, .ctx = &asked });
        for (size_t i = 0; i < 40; i++) {
                char name[32];
                snprintf(name, sizeof(name), "live-%zu", i);
                run(p, name, 1);
        }
        runs(p, 0, 700, 2);
        assert_in_range(place_number(p, "SELECT count(*) FROM workspace"), 300, 302);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace WHERE CAST(name AS TEXT) LIKE 'live%'"), 40);
        assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE class = 0 AND workspace IN"
                                         " (SELECT id FROM workspace WHERE CAST(name AS TEXT) LIKE 'live%')"), 40);
        assert_in_range(asked, 900, 3000);
        must_verify(p);
}

/* Kills the writer in the middle of it; the next one goes on from there. */
static void killed_anywhere(void **state)
{
        struct journal_forget tight = { .traced = 3, .names = 6 };
        struct place *p = *state;

        for (unsigned round = 0; round < 8; round++) {
                int pipes[2], status;
                char one;
                pid_t pid;

                assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        open_with(p, tight);
                        for (size_t i = 0; write(pipes[1], "", 1) == 1; i++)
                                runs(p, round * 1000 + i, round * 1000 + i + 1, 3 + round);
                        _exit(1);
                }
                close(pipes[1]);
                for (unsigned i = 0; i < 20 + round * 7; i++)
                        assert_int_equal(read(pipes[0], &one, 1), 1);
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                close(pipes[0]);
                assert_true(WIFSIGNALED(status));
                must_verify(p);
                assert_int_equal(place_number(p, "SELECT count(*) FROM record WHERE workspace NOT IN (SELECT id FROM workspace)"), 0);
        }
        open_with(p, tight);
        runs(p, 90000, 90020, 3);
        assert_int_equal(place_number(p, "SELECT count(*) FROM workspace"), 6);
        must_verify(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
                T(oldest_first), T(goes_on_after_reopening), T(a_name_comes_back), T(large_in_steps), T(size), T(wrong_counters), T(counted_first), T(many),
                T(killed_anywhere),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
