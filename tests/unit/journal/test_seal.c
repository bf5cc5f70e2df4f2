/* The writer under the very seal that bromed wears: Landlock with the state folder only, seccomp with the two tables only. */
#include "help.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEAL_CALLS = 256 };

static void seal(const struct place *p)
{
        static struct seal_call calls[SEAL_CALLS];
        struct seal_path path = { p->state, SEAL_READ_WRITE };
        struct err err = ERR_INIT;

        memcpy(calls, seal_calls_base, seal_calls_base_count * sizeof(calls[0]));
        memcpy(calls + seal_calls_base_count, journal_seal_calls, journal_seal_calls_count * sizeof(calls[0]));
        if (seal_early(&err) < 0 || seal_files(&path, 1, &err) < 0 ||
            seal_calls(calls, seal_calls_base_count + journal_seal_calls_count, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                _exit(2);
        }
}

/* Everything the writer does in a life: inserts, syncs, checkpoints, quotas, clearing, sessions, closing. */
static int life(struct place *p)
{
        struct journal_options o = { .state = p->state, .create = true };
        struct journal *j;
        uint64_t n;
        struct event_record e;
        struct journal_entry entry = { SLICE_LIT("alpha"), 1, "inner", &e };

        o.quota[JOURNAL_TRACE].rows = 5000;
        j = journal_open(&o, NULL);
        if (!j)
                return 3;
        seal(p);
        for (uint64_t i = 0; i < 20000; i++) {
                e = verdict(i % 3 ? "allow" : "deny", "registry.example", i % 900);
                if (journal_append(j, &entry) < 0 || (i % 200 == 199 && journal_flush(j) < 0))
                        return 4;
        }
        e = verdict("allow", "registry.example", 1);
        if (journal_append_sync(j, &entry) < 0 || journal_session_begin(j, SLICE_LIT("beta"), &n, NULL) < 0 || journal_retry(j) < 0 ||
            journal_clear(j, SLICE_LIT("alpha"), NULL) < 0)
                return 5;
        journal_close(j);
        return 0;
}

static void sealed(void **state)
{
        struct place *p = *state;
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
                _exit(life(p));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
                fail_msg("ended with %s %d", WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        assert_int_equal(verify(p).result.findings, 0);
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__)
        fprintf(stderr, "skipped: a sanitizer's run time makes system calls that the seal forbids\n");
        return 77;
#endif
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(sealed, place_setup, place_teardown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
