/* Approvals as tables: one event a row, and exactly what it makes happen. Words of the log:
 *   +N(method path …)W  news of approval N, W uses wait     -N word  it ended      use:answer[ttl]  a use was answered
 *   R+ R-               recorded yes, no                    n:text   noted          V  a grant was taken back */
#include "daemon/approvals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char out[65536];
static bool journal_full;
static struct approvals *ends_in; /* the door ends as it is told of an answer */

static void put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *fmt, ...)
{
        size_t n = strlen(out);
        va_list ap;

        va_start(ap, fmt);
        if (n)
                out[n++] = ' ';
        vsnprintf(out + n, sizeof(out) - n, fmt, ap);
        va_end(ap);
}

static void on_answer(void *ctx, void *door, uint64_t id, enum approval_answer a, int64_t ttl)
{
        (void)ctx;
        if (ends_in)
                approvals_door_gone(ends_in, door);
        if (a == APPROVAL_ALLOW)
                put("%llu:allow[%lld]", (unsigned long long)id, (long long)ttl);
        else
                put("%llu:%s", (unsigned long long)id, approval_answer_name(a));
}
static bool on_record(void *ctx, const struct approval_key *k, bool allow, const char *detail, const struct approval_request *first)
{
        (void)ctx;
        (void)k;
        (void)detail;
        (void)first;
        put(journal_full ? "R!" : allow ? "R+" : "R-");
        return !journal_full;
}
static void on_note(void *ctx, const struct approval_key *k, const char *detail)
{
        (void)ctx;
        (void)k;
        put("n:%.6s", detail);
}
static void on_news(void *ctx, const struct approval_key *k, json_t *o)
{
        char text[4096] = "";
        json_t *r;
        size_t i;

        (void)ctx;
        (void)k;
        json_array_foreach(json_object_get(o, "requests"), i, r)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s", i ? "," : "", json_string_value(json_object_get(r, "method")),
                         json_string_value(json_object_get(r, "path")));
        put("+%lld(%s)%lld", (long long)json_integer_value(json_object_get(o, "id")), text, (long long)json_integer_value(json_object_get(o, "waiting")));
        json_decref(o);
}
static void on_ended(void *ctx, const struct approval_key *k, uint64_t id, const char *word)
{
        (void)ctx;
        (void)k;
        put("-%llu %s", (unsigned long long)id, word);
}
static void on_revoked(void *ctx, const struct approval_key *k)
{
        (void)ctx;
        (void)k;
        put("V");
}
static const struct approvals_calls calls = { on_answer, on_record, on_note, on_news, on_ended, on_revoked };

enum op { ASK, POST_ASK, DELETE_ASK, BODY_ASK, LIST, RULES, WAIT_ASK, LONELY_ASK, OTHER_HOST, RULE_ASK, GONE, DOOR_GONE, SESSION_GONE, ALLOW, DENY, REVOKE, PASS, FULL, NOT_FULL, END };
struct row {
        enum op op;
        long long n;      /* use, approval or grant; PASS: milliseconds */
        const char *text; /* request or term */
        const char *log;  /* expected */
        long long seen;   /* of ALLOW, one more than it; 0: absent */
};

static int64_t now;
static int door;

static void ask(struct approvals *a, const struct row *r)
{
        struct approval_key key = { .workspace = "w", .rule = r->op == RULE_ASK, .name = "forge", .port = 443 };
        const char *method = r->op == POST_ASK ? "POST" : r->op == DELETE_ASK ? "DELETE" : "GET";
        struct approval_request q = { .method = method, .path = r->text, .body = r->op == POST_ASK || r->op == BODY_ASK };
        struct approval_use use = { .key = &key, .request = &q, .door = &door, .id = (uint64_t)r->n, .wait = r->op == WAIT_ASK };

        snprintf(key.host, sizeof(key.host), "%s", r->op == OTHER_HOST ? "b.example" : "a.example");
        snprintf((char *)q.digest, sizeof(q.digest), "%s %s", method, r->text); /* as the door makes it: nothing of a body */
        approvals_ask(a, &use, r->op != WAIT_ASK && r->op != LONELY_ASK, now);
}

static bool no_rules(void *ctx, const struct approval_key *k)
{
        (void)ctx;
        return k->rule; /* the credential is gone, the rule is not */
}

/* "id(method path flags …)waiting" of each that waits. */
static void put_listing(struct approvals *a)
{
        json_t *all = approvals_json(a, NULL, now), *o, *r;
        size_t i, n;

        json_array_foreach(json_object_get(all, "waiting"), i, o) {
                char text[1024] = "";

                json_array_foreach(json_object_get(o, "requests"), n, r)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s%s%s%s", n ? "," : "", json_string_value(json_object_get(r, "method")),
                                 json_string_value(json_object_get(r, "path")), json_integer_value(json_object_get(r, "count")) > 1 ? " many" : "",
                                 json_is_true(json_object_get(r, "body")) ? " body" : "", json_is_true(json_object_get(r, "gone")) ? " gone" : "");
                put("%lld(%s)%lld", (long long)json_integer_value(json_object_get(o, "id")), text, (long long)json_integer_value(json_object_get(o, "waiting")));
        }
        json_array_foreach(json_object_get(all, "grants"), i, o)
                put("g%lld[%lld]", (long long)json_integer_value(json_object_get(o, "id")), (long long)json_integer_value(json_object_get(o, "retries")));
        json_decref(all);
}

static void step(struct approvals *a, const struct row *r)
{
        size_t released;
        int rc = 0;

        switch (r->op) {
        case LIST: put_listing(a); break;
        case RULES: approvals_keep_only(a, "w", no_rules, NULL, "the rules changed"); break;
        case ASK: case POST_ASK: case DELETE_ASK: case BODY_ASK: case WAIT_ASK: case LONELY_ASK: case OTHER_HOST: case RULE_ASK: ask(a, r); break;
        case GONE: approvals_withdraw(a, &door, (uint64_t)r->n); break;
        case DOOR_GONE: approvals_door_gone(a, &door); break;
        case SESSION_GONE: approvals_workspace_gone(a, "w"); break;
        case ALLOW: rc = approvals_allow(a, (uint64_t)r->n, approval_term_by_name(r->text), r->seen - 1, now, &released); break;
        case DENY: rc = approvals_deny(a, (uint64_t)r->n, now); break;
        case REVOKE: rc = approvals_revoke(a, (uint64_t)r->n); break;
        case PASS: now += r->n; approvals_tick(a, now); break;
        case FULL: journal_full = true; break;
        case NOT_FULL: journal_full = false; break;
        case END: break;
        }
        if (rc)
                put("=%d", rc);
}

static void run(const struct row *rows)
{
        struct approvals *a = approvals_new(&calls, NULL, 0);

        now = 1000;
        journal_full = false;
        for (size_t i = 0; rows[i].op != END; i++) {
                out[0] = 0;
                step(a, &rows[i]);
                if (strcmp(out, rows[i].log) != 0)
                        fail_msg("row %zu: '%s' instead of '%s'", i, out, rows[i].log);
        }
        approvals_free(a);
}

#define MIN (60 * 1000)

static void once(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { ASK, 2, "/a", "", 0 },
                { ALLOW, 9, "once", "=1", 0 },
                { ALLOW, 1, "once", "R+ -1 once 1:allow[0] 2:allow[0]", 0 },
                { ASK, 3, "/a", "3:allow[0]", 0 },             /* the retry */
                { ASK, 4, "/a", "n:asked +3(GET /a)1", 0 },    /* a second one is asked for again */
                { ASK, 5, "/b", "", 0 },
                { PASS, 250, "", "+3(GET /a,GET /b)2", 0 },
                { ALLOW, 3, "once", "R+ -3 once 4:allow[0] 5:allow[0]", 2 + 1 },
                { PASS, 5 * MIN, "", "", 0 },
                { ASK, 6, "/a", "n:asked +5(GET /a)1", 0 },    /* the retry came too late */
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* Exactly what was shown: a request that came after the person looked is not let through by the yes. */
static void shown(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { ASK, 2, "/evil", "", 0 },                     /* not told yet */
                { ALLOW, 1, "once", "R+ -1 once 1:allow[0] n:asked +3(GET /evil)1", 0 },
                { ASK, 3, "/c", "", 0 },
                { PASS, 250, "", "+3(GET /evil,GET /c)2", 0 },
                { ALLOW, 3, "once", "R+ -3 once 2:allow[0] n:asked +5(GET /c)1", 1 + 1 }, /* told of two, but the person saw one */
                { ALLOW, 5, "once", "R+ -5 once n:asked +6(GET /c)1", 0 + 1 },
                { ALLOW, 6, "once", "R+ -6 once 3:allow[0]", 99 + 1 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* Without a word about how much was seen: what the newest listing had; where there was none the first alone, which is what a notice is read for. */
static void seen_by_whom(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { ASK, 2, "/evil", "", 0 },
                { PASS, 250, "", "+1(GET /a,GET /evil)2", 0 }, /* told to whoever watches */
                { ALLOW, 1, "once", "R+ -1 once 1:allow[0] n:asked +3(GET /evil)1", 0 },
                { LIST, 0, "", "3(GET /evil)1 g2[1]", 0 },
                { ASK, 3, "/c", "", 0 },
                { PASS, 250, "", "+3(GET /evil,GET /c)2", 0 },
                { ALLOW, 3, "once", "R+ -3 once 2:allow[0] n:asked +5(GET /c)1", 0 },
                { ASK, 4, "/d", "", 0 },
                { LIST, 0, "", "5(GET /c,GET /d)2 g4[1] g2[1]", 0 },
                { ALLOW, 5, "once", "R+ -5 once 3:allow[0] 4:allow[0]", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* A request with a body, or that does more than read, is let go where it waits and nowhere else: the next with the same head is another request. */
static void bodies(void **state)
{
        static const struct row rows[] = {
                { POST_ASK, 1, "/a", "n:asked +1(POST /a)1", 0 },
                { POST_ASK, 2, "/a", "", 0 },                        /* another body, for all that is known */
                { LIST, 0, "", "1(POST /a body,POST /a body)2", 0 },
                { POST_ASK, 3, "/a", "", 0 },
                { ALLOW, 1, "once", "R+ -1 once 1:allow[0] n:asked +3(POST /a,POST /a)2", 1 + 1 },
                { LIST, 0, "", "3(POST /a body,POST /a body)2 g2[0]", 0 },
                { ALLOW, 3, "once", "R+ -3 once 2:allow[0] 3:allow[0]", 0 }, /* both were listed */
                { POST_ASK, 4, "/a", "n:asked +5(POST /a)1", 0 },    /* no retry */
                { ALLOW, 5, "once", "R+ -5 once 4:allow[0]", 0 },
                { DELETE_ASK, 5, "/a", "n:asked +7(DELETE /a)1", 0 },
                { DELETE_ASK, 6, "/a", "", 0 },
                { ALLOW, 7, "once", "R+ -7 once 5:allow[0] n:asked +9(DELETE /a)1", 0 },
                { ALLOW, 9, "once", "R+ -9 once 6:allow[0]", 0 },
                { ASK, 7, "/a", "n:asked +11(GET /a)1", 0 },         /* none of these was a GET */
                { BODY_ASK, 8, "/a", "", 0 },
                { ALLOW, 11, "once", "R+ -11 once 7:allow[0] n:asked +13(GET /a)1", 0 },
                { LIST, 0, "", "13(GET /a body)1 g12[1] g10[0] g8[0] g6[0] g4[0] g2[0]", 0 },
                { BODY_ASK, 9, "/a", "", 0 },                        /* the retry of 7 has no body */
                { ASK, 10, "/a", "10:allow[0]", 0 },
                { ALLOW, 13, "5m", "R+ -13 5m 8:allow[300000] 9:allow[300000]", 0 },
                { POST_ASK, 11, "/a", "11:allow[300000]", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* A client that gives up leaves nothing that a yes could let go, and what a person saw stays in its place: another request never slips under the answer. */
static void body_gave_up(void **state)
{
        static const struct row rows[] = {
                { POST_ASK, 1, "/a", "n:asked +1(POST /a)1", 0 },
                { POST_ASK, 2, "/b", "", 0 },
                { POST_ASK, 3, "/c", "", 0 },
                { GONE, 2, "", "", 0 },                              /* nobody was told of it */
                { LIST, 0, "", "1(POST /a body,POST /c body)2", 0 },
                { GONE, 1, "", "", 0 },
                { POST_ASK, 4, "/evil", "", 0 },
                { LIST, 0, "", "1(POST /a body gone,POST /c body,POST /evil body)2", 0 },
                { ALLOW, 1, "once", "R+ -1 once n:asked +2(POST /c,POST /evil)2", 1 + 1 },
                { ALLOW, 2, "once", "R+ -2 once 3:allow[0] n:asked +4(POST /evil)1", 1 + 1 },
                { DOOR_GONE, 0, "", "", 0 },
                { LIST, 0, "", "4(POST /evil body gone)0 g3[0]", 0 },
                { ALLOW, 4, "once", "R+ -4 once", 0 },
                { POST_ASK, 5, "/evil", "n:asked +5(POST /evil)1", 0 },
                { PASS, 9 * MIN, "", "", 0 },
                { POST_ASK, 6, "/late", "", 0 },
                { PASS, MIN, "", "5:expired +5(POST /evil,POST /late)1", 0 },
                { LIST, 0, "", "5(POST /evil body gone,POST /late body)1", 0 },
                { ALLOW, 5, "once", "R+ -5 once 6:allow[0]", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* A credential that the rules do not bind any more has no grant and no question; when it comes back, a person is asked. */
static void rules_change(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { ALLOW, 1, "session", "R+ -1 session 1:allow[-1]", 0 },
                { OTHER_HOST, 2, "/a", "n:asked +3(GET /a)1", 0 },
                { RULE_ASK, 3, "/a", "n:asked +4(GET /a)1", 0 },
                { ALLOW, 4, "1h", "R+ -4 1h 3:allow[3600000]", 0 },
                { RULES, 0, "", "n:over:  -3 ended 2:expired n:a gran V", 0 },
                { LIST, 0, "", "g5[0]", 0 },
                { ASK, 4, "/a", "n:asked +6(GET /a)1", 0 },
                { DENY, 6, "", "R- -6 deny 4:deny", 0 },
                { RULES, 0, "", "", 0 },
                { ASK, 5, "/a", "5:deny", 0 }, /* a no stays */
                { RULE_ASK, 6, "/b", "6:allow[3600000]", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static void gave_up(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { GONE, 1, "", "", 0 },
                { GONE, 1, "", "", 0 },
                { ALLOW, 1, "once", "R+ -1 once", 0 },          /* the answer comes after the client gave up: its retry has it */
                { ASK, 2, "/a", "2:allow[0]", 0 },
                { ASK, 3, "/z", "n:asked +3(GET /z)1", 0 },
                { DOOR_GONE, 0, "", "", 0 },
                { PASS, 10 * MIN, "", "n:expire -3 expired", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static void times(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { PASS, 9 * MIN, "", "", 0 },
                { ALLOW, 1, "5m", "R+ -1 5m 1:allow[300000]", 0 }, /* the time starts at the answer */
                { PASS, MIN, "", "", 0 },
                { ASK, 2, "/other", "2:allow[240000]", 0 },
                { OTHER_HOST, 3, "/a", "n:asked +3(GET /a)1", 0 }, /* the key has the host in it */
                { RULE_ASK, 4, "/a", "n:asked +4(GET /a)1", 0 },
                { PASS, 4 * MIN, "", "", 0 },
                { ASK, 5, "/a", "n:asked +5(GET /a)1", 0 },
                { ALLOW, 5, "1h", "R+ -5 1h 5:allow[3600000]", 0 },
                { REVOKE, 6, "", "R- V", 0 },
                { ASK, 6, "/a", "n:asked +7(GET /a)1", 0 },
                { ALLOW, 7, "session", "R+ -7 session 6:allow[-1]", 0 },
                { PASS, 59 * MIN, "", "4:expired n:expire -4 expired 3:expired n:expire -3 expired", 0 },
                { ASK, 7, "/a", "7:allow[-1]", 0 },
                { SESSION_GONE, 0, "", "", 0 },
                { ASK, 8, "/a", "n:asked +9(GET /a)1", 0 },
                { SESSION_GONE, 0, "", "-9 ended", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static void denied(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { ASK, 2, "/b", "", 0 },
                { DENY, 1, "", "R- -1 deny 1:deny 2:deny", 0 },
                { ASK, 3, "/c", "3:deny", 0 },
                { PASS, 5 * MIN - 1, "", "", 0 },
                { ASK, 4, "/c", "4:deny", 0 },
                { PASS, 1, "", "", 0 },
                { ASK, 5, "/c", "n:asked +3(GET /c)1", 0 },
                { DENY, 3, "", "R- -3 deny 5:deny", 0 },
                { REVOKE, 4, "", "R-", 0 }, /* a denial is taken back */
                { ASK, 6, "/c", "n:asked +5(GET /c)1", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static void expired(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { PASS, 9 * MIN, "", "", 0 },
                { ASK, 2, "/a", "", 0 },
                { PASS, MIN, "", "1:expired +1(GET /a)1", 0 }, /* each use has its ten minutes; the question lives with the last */
                { ALLOW, 1, "once", "R+ -1 once 2:allow[0]", 0 },
                { ASK, 3, "/b", "n:asked +3(GET /b)1", 0 },
                { PASS, 10 * MIN, "", "3:expired n:expire -3 expired", 0 },
                { ASK, 4, "/b", "n:asked +4(GET /b)1", 0 },    /* expired is not denied */
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static void nobody(void **state)
{
        static const struct row rows[] = {
                { LONELY_ASK, 1, "/a", "1:nobody", 0 },
                { WAIT_ASK, 2, "/a", "n:asked +1(GET /a)1", 0 },
                { LONELY_ASK, 3, "/a", "", 0 }, /* the question stands: joins it */
                { ALLOW, 1, "5m", "R+ -1 5m 2:allow[300000] 3:allow[300000]", 0 },
                { LONELY_ASK, 4, "/a", "4:allow[300000]", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

/* What cannot be recorded is not granted; a no holds all the same. */
static void unrecorded(void **state)
{
        static const struct row rows[] = {
                { ASK, 1, "/a", "n:asked +1(GET /a)1", 0 },
                { FULL, 0, "", "", 0 },
                { ALLOW, 1, "session", "R! =-1", 0 },
                { NOT_FULL, 0, "", "", 0 },
                { ALLOW, 1, "session", "R+ -1 session 1:allow[-1]", 0 },
                { FULL, 0, "", "", 0 },
                { REVOKE, 2, "", "R! V =-1", 0 },
                { ASK, 2, "/a", "n:asked +3(GET /a)1", 0 },
                { DENY, 3, "", "R! -3 deny 2:deny =-1", 0 },
                { ASK, 3, "/a", "3:deny", 0 },
                { END, 0, "", "", 0 },
        };

        (void)state;
        run(rows);
}

static struct row use_row(long long n, const char *path) { return (struct row){ ASK, n, path, "", 0 }; }

/* A thousand at once are one question, told once, and answered all. */
static void thousand(void **state)
{
        struct approvals *a = approvals_new(&calls, NULL, 0);
        size_t released = 0;
        char path[32];

        (void)state;
        now = 1000;
        journal_full = false;
        out[0] = 0;
        for (long long i = 1; i <= 1000; i++) {
                struct row r;

                snprintf(path, sizeof(path), "/p%lld", i % 500);
                r = use_row(i, path);
                step(a, &r);
        }
        assert_string_equal(out, "n:asked +1(GET /p1)1");
        assert_int_equal(approvals_uses(a), 1000);
        assert_int_equal(approvals_due_ms(a, now), APPROVAL_NEWS_MS);
        out[0] = 0;
        assert_int_equal(approvals_allow(a, 1, APPROVAL_5M, -1, now, &released), 0);
        assert_int_equal(released, 1000);
        approvals_free(a);
}

/* Nothing of a door is kept that ended while it was answered: its memory goes. */
static void door_ends(void **state)
{
        struct approvals *a = approvals_new(&calls, NULL, 0);
        struct row first = use_row(1, "/a"), second = use_row(2, "/b"), third = use_row(3, "/c");
        size_t released = 0;

        (void)state;
        now = 1000;
        step(a, &first);
        step(a, &second);
        step(a, &third);
        ends_in = a;
        out[0] = 0;
        assert_int_equal(approvals_allow(a, 1, APPROVAL_ONCE, 1, now, &released), 0);
        ends_in = NULL;
        assert_int_equal(released, 1);
        assert_string_equal(out, "R+ -1 once 1:allow[0]");
        assert_int_equal(approvals_uses(a), 0);
        assert_int_equal(approvals_count(a), 0);
        approvals_free(a);
}

/* `once` with more distinct requests than are kept: who was never shown is not let through. */
static void many_distinct(void **state)
{
        struct approvals *a = approvals_new(&calls, NULL, 0);
        size_t released = 0;
        char path[32];
        json_t *all;

        (void)state;
        now = 1000;
        journal_full = false;
        for (long long i = 1; i <= 300; i++) {
                struct row r;

                snprintf(path, sizeof(path), "/p%lld", i);
                r = use_row(i, path);
                step(a, &r);
        }
        all = approvals_json(a, "w", now);
        assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(all, "waiting"), 0), "requests")), APPROVAL_SHOWN);
        json_decref(all);
        out[0] = 0;
        assert_int_equal(approvals_allow(a, 1, APPROVAL_ONCE, -1, now, &released), 0);
        assert_int_equal(released, APPROVAL_SHOWN);
        assert_int_equal(approvals_uses(a), APPROVAL_REQUESTS - APPROVAL_SHOWN);
        assert_non_null(strstr(out, "300:expired"));
        approvals_free(a);
}

/* A listing always fits in one message, whatever stands in it. */
static void listing_fits(void **state)
{
        struct approvals *a = approvals_new(&calls, NULL, 0);
        static char path[APPROVAL_PATH_BYTES];
        json_t *all;
        char *text;

        (void)state;
        now = 1000;
        journal_full = false;
        memset(path, '"', sizeof(path) - 1);
        for (int host = 0; host < 100; host++)
                for (int i = 0; i < 40; i++) {
                        struct approval_key key = { .workspace = "w", .name = "forge", .port = (uint16_t)(host + 1), .host = "a.example" };
                        struct approval_request q = { .method = "GET", .path = path };
                        struct approval_use use = { .key = &key, .request = &q, .door = &door, .id = (uint64_t)(host * 100 + i) };

                        snprintf((char *)q.digest, sizeof(q.digest), "%d", i);
                        out[0] = 0;
                        approvals_ask(a, &use, true, now);
                }
        all = approvals_json(a, NULL, now);
        text = json_dumps(all, JSON_COMPACT);
        assert_in_range(strlen(text), 20 * 1024, 60 * 1024);
        assert_int_equal(json_array_size(json_object_get(all, "waiting")) + (size_t)json_integer_value(json_object_get(all, "left_out")), APPROVALS_WAITING);
        free(text);
        json_decref(all);
        approvals_free(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(once),    cmocka_unit_test(shown),    cmocka_unit_test(gave_up),       cmocka_unit_test(times),
                cmocka_unit_test(denied),  cmocka_unit_test(expired),  cmocka_unit_test(nobody),        cmocka_unit_test(unrecorded),
                cmocka_unit_test(thousand), cmocka_unit_test(many_distinct), cmocka_unit_test(listing_fits),
                cmocka_unit_test(door_ends), cmocka_unit_test(seen_by_whom), cmocka_unit_test(bodies), cmocka_unit_test(body_gave_up),
                cmocka_unit_test(rules_change),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
