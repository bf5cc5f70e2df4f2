/* brome trace and brome timeline: listings straight from the journal, read-only, with or without a daemon. */
#include "cli/cli.h"
#include "base/clock.h"
#include "base/esc.h"
#include "cli/ask.h"
#include "cli/session.h"
#include "journal/print.h"
#include "journal/reader.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FOLLOW_POLL_MS = 150, FLUSH_AT_BYTES = 64 * 1024 };

struct listing {
        struct buf out;
        enum print_form form;
        enum view view;
        size_t rows;
        bool gone; /* whoever read our output went away */
};

static void listing_init(struct listing *l, const struct cli *cli, enum view view)
{
        buf_init(&l->out, 0);
        l->form = cli->json ? PRINT_JSON : cli_colour() ? PRINT_COLOUR : PRINT_TEXT;
        l->view = view;
        l->rows = 0;
        l->gone = false;
}

static int listing_push(struct listing *l, int rc)
{
        l->rows++;
        if (rc < 0 || (buf_len(&l->out) > FLUSH_AT_BYTES && cli_flush(&l->out) < 0))
                l->gone = true;
        return l->gone;
}

/* The door's refusal of what bromed's own line says in full. JSON and `trace ls` have both. */
static bool said_twice(const struct row *row)
{
        const struct event_record *e = &row->event;

        return slice_is(e->text[EVENT_ENGINE], "Tripwire") && slice_is(e->text[EVENT_REASON], "tripwire") && row->class != JOURNAL_DECISION;
}

static int on_row(void *ctx, const struct row *row)
{
        struct listing *l = ctx;

        if (l->view == VIEW_TIMELINE && l->form != PRINT_JSON && said_twice(row))
                return 0;
        return listing_push(l, l->view == VIEW_TRACE ? print_trace(&l->out, l->form, row) : print_timeline(&l->out, l->form, row));
}
static int on_host(void *ctx, const struct host_row *row)
{
        struct listing *l = ctx;
        return listing_push(l, print_host(&l->out, l->form, row));
}
static int on_summary(void *ctx, const struct summary_row *row)
{
        struct listing *l = ctx;
        return listing_push(l, print_summary(&l->out, l->form, row));
}

struct query {
        struct filter filter;
        bool follow;
};

/* Options of all listings; commands.tbl says which of them a command has. */
static int parse_query(struct cli *cli, int argc, char **argv, struct query *q)
{
        const char *since = NULL, *count = NULL, *host = NULL, *engine = NULL, *session = NULL;
        bool denied = false, allowed = false;
        const struct cli_option options[] = {
                { .name = "since", .text = &since },
                { .name = "session", .text = &session },
                { .name = "host", .text = &host },
                { .name = "lines", .text = &count },
                { .name = "denied", .flag = &denied },
                { .name = "allowed", .flag = &allowed },
                { .name = "engine", .text = &engine },
                { .name = "follow", .flag = &q->follow },
        };
        struct err err = ERR_INIT;
        int at = cli_options(cli, argc, argv, options, sizeof(options) / sizeof(options[0]));
        char *end;

        if (at < 0)
                return at;
        if (at < argc)
                q->filter.workspace = slice_str(argv[at++]);
        if (at < argc) {
                cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
                return -1;
        }
        if (since && cli_since(since, &q->filter.since_us, &err) < 0) {
                cli_usage(cli, "%s", err.text);
                return -1;
        }
        if (denied && allowed) {
                cli_usage(cli, "--denied and --allowed exclude each other");
                return -1;
        }
        q->filter.limit = count ? strtoul(count, &end, 10) : 0;
        if (count && (*end || end == count || count[0] == '-')) {
                cli_usage(cli, "-n takes a number");
                return -1;
        }
        q->filter.session = session ? strtoul(session, &end, 10) : 0;
        q->filter.host = slice_str(host);
        q->filter.engine = slice_str(engine);
        q->filter.verdict = denied ? SLICE_LIT("deny") : allowed ? SLICE_LIT("allow") : SLICE_EMPTY;
        return 0;
}

static int follow(struct reader *r, const struct filter *f, uint64_t seq, struct listing *l, struct err *err)
{
        struct pollfd gone = { .fd = STDOUT_FILENO, .events = 0 };

        while (!l->gone) {
                if (reader_follow(r, l->view, f, &seq, on_row, l, err) < 0)
                        return -1;
                if (cli_flush(&l->out) < 0 || poll(&gone, 1, FOLLOW_POLL_MS) > 0)
                        break;
        }
        return 0;
}

/* -2 from parse_query: help was printed. */
static int ended(int rc) { return rc == -2 ? EXIT_OK : EXIT_USAGE_; }

static int list(struct cli *cli, int argc, char **argv, enum view view)
{
        struct query q = { 0 };
        struct listing l;
        struct err err = ERR_INIT;
        struct reader *r;
        uint64_t seq = 0;
        int rc = parse_query(cli, argc, argv, &q);

        if (rc < 0)
                return ended(rc);
        r = reader_open(cli->paths.state, &err);
        if (!r)
                return cli_fail(EXIT_NO, "%s", err.text);
        listing_init(&l, cli, view);
        rc = view == VIEW_TRACE ? print_trace_head(&l.out, l.form) : print_timeline_head(&l.out, l.form);
        if (rc == 0)
                rc = reader_last_seq(r, &seq, &err);
        if (rc == 0)
                rc = view == VIEW_TRACE ? reader_trace(r, &q.filter, on_row, &l, &err) : reader_timeline(r, &q.filter, on_row, &l, &err);
        if (rc == 0 && cli_flush(&l.out) == 0 && q.follow)
                rc = follow(r, &q.filter, seq, &l, &err);
        reader_close(r);
        buf_fini(&l.out);
        return rc < 0 ? cli_fail(EXIT_INTERNAL, "%s", err.text) : EXIT_OK;
}

int cmd_trace_ls(struct cli *cli, int argc, char **argv) { return list(cli, argc, argv, VIEW_TRACE); }
int cmd_timeline(struct cli *cli, int argc, char **argv) { return list(cli, argc, argv, VIEW_TIMELINE); }

static int tally(struct cli *cli, int argc, char **argv, bool hosts)
{
        struct query q = { 0 };
        struct listing l;
        struct err err = ERR_INIT;
        struct reader *r;
        int rc = parse_query(cli, argc, argv, &q);

        if (rc < 0)
                return ended(rc);
        r = reader_open(cli->paths.state, &err);
        if (!r)
                return cli_fail(EXIT_NO, "%s", err.text);
        listing_init(&l, cli, VIEW_TRACE);
        rc = hosts ? print_host_head(&l.out, l.form) : print_summary_head(&l.out, l.form);
        if (rc == 0)
                rc = hosts ? reader_hostnames(r, &q.filter, on_host, &l, &err) : reader_summary(r, &q.filter, on_summary, &l, &err);
        reader_close(r);
        if (rc == 0)
                rc = cli_flush(&l.out);
        buf_fini(&l.out);
        return rc < 0 ? cli_fail(EXIT_INTERNAL, "%s", err.text[0] ? err.text : "cannot write the listing") : EXIT_OK;
}

int cmd_trace_hostnames(struct cli *cli, int argc, char **argv) { return tally(cli, argc, argv, true); }
int cmd_trace_summary(struct cli *cli, int argc, char **argv) { return tally(cli, argc, argv, false); }

static int on_leak(void *ctx, const struct leak_row *row)
{
        struct listing *l = ctx;
        return listing_push(l, print_leak(&l->out, l->form, row));
}

int cmd_trace_leaks(struct cli *cli, int argc, char **argv)
{
        struct query q = { 0 };
        struct listing l;
        struct err err = ERR_INIT;
        struct reader *r;
        int rc = parse_query(cli, argc, argv, &q);

        if (rc < 0)
                return ended(rc);
        r = reader_open(cli->paths.state, &err);
        if (!r)
                return cli_fail(EXIT_NO, "%s", err.text);
        listing_init(&l, cli, VIEW_TIMELINE);
        rc = reader_leaks(r, &q.filter, on_leak, &l, &err);
        reader_close(r);
        if (rc == 0)
                rc = cli_flush(&l.out);
        buf_fini(&l.out);
        if (rc < 0)
                return cli_fail(EXIT_INTERNAL, "%s", err.text[0] ? err.text : "cannot write the listing");
        if (!l.rows && !cli->json)
                cli_note("no request carried a key that brome did not issue");
        return EXIT_OK;
}

static int on_record(void *ctx, const struct row *row)
{
        struct listing *l = ctx;
        return listing_push(l, print_record(&l->out, l->form, row));
}

int cmd_trace_show(struct cli *cli, int argc, char **argv)
{
        struct listing l;
        struct err err = ERR_INIT;
        struct reader *r;
        unsigned long long seq = 0;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;
        char *end = NULL;

        if (at < 0)
                return ended(at);
        if (at + 1 != argc)
                return cli_usage(cli, at == argc ? "which record? `brome trace ls` has their numbers under SEQ" : "one number at a time");
        seq = strtoull(argv[at], &end, 10);
        if (argv[at][0] < '0' || argv[at][0] > '9' || *end || !seq)
                return cli_usage(cli, "`%s` is no number of a record", esc_str(argv[at]));
        r = reader_open(cli->paths.state, &err);
        if (!r)
                return cli_fail(EXIT_NO, "%s", err.text);
        listing_init(&l, cli, VIEW_TIMELINE);
        rc = reader_show(r, seq, on_record, &l, &err);
        reader_close(r);
        if (rc == 0)
                rc = cli_flush(&l.out);
        buf_fini(&l.out);
        if (rc == 1)
                return cli_fail_hint(EXIT_NO, "`brome trace ls` has their numbers under SEQ", "there is no record %llu, or not any more", seq);
        return rc < 0 ? cli_fail(EXIT_INTERNAL, "%s", err.text[0] ? err.text : "cannot write the listing") : EXIT_OK;
}

int cmd_trace_clear(struct cli *cli, int argc, char **argv)
{
        bool yes = false;
        const struct cli_option options[] = { { .name = "yes", .flag = &yes } };
        struct chan_msg answer;
        char question[192];
        int at = cli_options(cli, argc, argv, options, 1), rc;

        if (at < 0)
                return ended(at);
        if (at + 1 != argc)
                return cli_usage(cli, at == argc ? "which workspace?" : "one workspace at a time");
        if (!cli_name_ok(argv[at]))
                return cli_usage(cli, "`%s` is no workspace's name", esc_str(argv[at]));
        snprintf(question, sizeof(question), "remove the trace of %s? Its decisions stay, and a signed mark says how much went. Go on?", argv[at]);
        if (!yes && !ask_possible())
                return cli_fail_hint(EXIT_NO, "--yes says that it is meant", "nothing was removed: there is no terminal to ask on");
        if (!yes && !ask_yes(question))
                return cli_fail(EXIT_NO, "nothing was removed");
        rc = session_ask(cli, "trace.clear", json_pack("{s:s}", "name", argv[at]), &answer);
        if (rc == EXIT_OK) {
                cli_note("the trace of %s is removed; its decisions stay", argv[at]);
                chan_msg_fini(&answer);
        }
        return rc;
}

static void on_finding(void *ctx, uint64_t seq, const char *text)
{
        struct listing *l = ctx;
        (void)listing_push(l, print_finding(&l->out, l->form, seq, text));
}

int cmd_trace_verify(struct cli *cli, int argc, char **argv)
{
        struct verify_result result = { 0 };
        struct listing l;
        struct err err = ERR_INIT;
        struct reader *r;
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return ended(at);
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        r = reader_open(cli->paths.state, &err);
        if (!r)
                return cli_fail(EXIT_NO, "%s", err.text);
        listing_init(&l, cli, VIEW_TRACE);
        rc = reader_verify(r, on_finding, &l, &result, &err);
        reader_close(r);
        if (rc == 0)
                rc = print_verify(&l.out, l.form, &result);
        if (rc == 0)
                rc = cli_flush(&l.out);
        buf_fini(&l.out);
        if (rc < 0)
                return cli_fail(EXIT_INTERNAL, "%s", err.text);
        return result.findings ? EXIT_NO : EXIT_OK;
}
