/* Rows for people and programs: see print.h. SECURITY: the only ways from a record to the output are put_text (esc_text) and json_text. */
#include "journal/print.h"

#include "base/esc.h"
#include "journal/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { TEXT_CELL_BYTES = 1024 /* one escaped text of a line; longer ones end in "…" */ };

static const char *const class_name[JOURNAL_CLASS_COUNT] = {
        [JOURNAL_TRACE] = "trace", [JOURNAL_LOGGED] = "logged", [JOURNAL_DOOR] = "door", [JOURNAL_DECISION] = "decision", [JOURNAL_SELF] = "journal",
};

/* Columns on a terminal that a printable UTF-8 text takes, near enough: one a code point. */
static size_t columns(const char *s)
{
        size_t n = 0;

        for (; *s; s++)
                n += ((uint8_t)*s & 0xc0) != 0x80;
        return n;
}

/* Foreign text, padded to `width` (0: as it is). */
static void put_text(struct buf *out, struct slice s, size_t width)
{
        char cell[TEXT_CELL_BYTES];
        size_t n;

        esc_text(cell, sizeof(cell), s);
        (void)!buf_add_str(out, s.n ? cell : width ? "-" : "");
        for (n = s.n ? columns(cell) : 1; n < width; n++)
                (void)!buf_add(out, " ", 1);
}

static void put_local_time(struct buf *out, int64_t time_us)
{
        time_t t = (time_t)(time_us / 1000000);
        struct tm tm;
        char text[40];

        if (time_us < 0 || !localtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
                (void)!buf_add_str(out, "-                      ");
        else
                (void)!buf_addf(out, "%s.%03d", text, (int)(time_us / 1000 % 1000));
}

/* "1.2M", at most 6 columns. */
static void put_bytes(struct buf *out, bool known, uint64_t n)
{
        static const char unit[] = "BKMGTPE";
        unsigned u = 0;
        double v = (double)n;

        while (v >= 1000 && u + 1 < sizeof(unit) - 1) {
                v /= 1024;
                u++;
        }
        if (!known)
                (void)!buf_addf(out, "%6s", "-");
        else if (u == 0)
                (void)!buf_addf(out, "%5" PRIu64 "B", n);
        else
                (void)!buf_addf(out, "%5.1f%c", v, unit[u]);
}

static void put_number(struct buf *out, const struct event_record *e, enum event_field f, int width)
{
        if (event_has(e, f))
                (void)!buf_addf(out, "%*" PRIu64, width, e->num[f]);
        else
                (void)!buf_addf(out, "%*s", width, "-");
}

static void put_verdict(struct buf *out, enum print_form form, const struct event_record *e)
{
        struct slice v = e->text[EVENT_DECISION];
        bool colour = form == PRINT_COLOUR && v.n;

        if (colour)
                (void)!buf_add_str(out, slice_is(v, "deny") ? "\033[31m" : slice_is(v, "allow") ? "\033[32m" : "\033[33m");
        put_text(out, v, 6);
        if (colour)
                (void)!buf_add_str(out, "\033[0m");
}

/* host:port/path, [address]:port for IPv6. */
static void put_target(struct buf *out, const struct event_record *e)
{
        struct slice host = e->text[EVENT_HOST];
        bool v6 = slice_find(host, ':') >= 0;

        (void)!buf_add_str(out, v6 ? "[" : "");
        put_text(out, host, 0);
        (void)!buf_add_str(out, v6 ? "]" : "");
        if (event_has(e, EVENT_PORT))
                (void)!buf_addf(out, ":%" PRIu64, e->num[EVENT_PORT]);
        put_text(out, e->text[EVENT_PATH], 0);
}

static void put_tail(struct buf *out, const char *before, struct slice s, const char *after)
{
        if (!s.n)
                return;
        (void)!buf_add_str(out, before);
        put_text(out, s, 0);
        (void)!buf_add_str(out, after);
}

static void put_count(struct buf *out, const struct event_record *e)
{
        if (event_has(e, EVENT_COUNT))
                (void)!buf_addf(out, "  (%" PRIu64 " times)", e->num[EVENT_COUNT]);
}

static int head(struct buf *out, enum print_form form, const char *text)
{
        if (form == PRINT_JSON)
                return 0;
        return buf_addf(out, form == PRINT_COLOUR ? "\033[1m%s\033[0m\n" : "%s\n", text);
}

/* ---- JSON of a record ---- */

static void json_event(struct json_writer *w, const struct event_record *e)
{
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++) {
                enum event_field field = (enum event_field)f;
                if (!event_has(e, field))
                        continue;
                if (event_field_is_text(field))
                        json_text(w, event_field_name(field), e->text[f]);
                else
                        json_number(w, event_field_name(field), e->num[f]);
        }
}

static int json_row(struct buf *out, const struct row *row, bool with_end)
{
        struct json_writer w;

        json_begin(&w, out);
        json_number(&w, "seq", row->seq);
        json_time(&w, "time", row->time_us);
        json_text(&w, "type", slice_str(event_type_name(row->event.type)));
        json_text(&w, "workspace", row->workspace);
        json_number(&w, "session", row->session);
        json_text(&w, "class", slice_str((unsigned)row->class < JOURNAL_CLASS_COUNT ? class_name[row->class] : "trace"));
        if (with_end) {
                json_flag(&w, "ended", row->ended);
                if (row->ended)
                        json_time(&w, "end_time", row->end_us);
        }
        json_event(&w, &row->event);
        return json_end(&w);
}

/* ---- trace ---- */

int print_trace_head(struct buf *out, enum print_form form)
{
        return head(out, form,
                    "TIME                     WORKSPACE         VERDICT  PROTOCOL   METHOD   STATUS     UP   DOWN       MS      SEQ  TARGET");
}

int print_trace(struct buf *out, enum print_form form, const struct row *row)
{
        const struct event_record *e = &row->event;

        if (form == PRINT_JSON)
                return json_row(out, row, true);
        put_local_time(out, row->time_us);
        (void)!buf_add_str(out, "  ");
        put_text(out, row->workspace, 16);
        (void)!buf_add_str(out, "  ");
        put_verdict(out, form, e);
        (void)!buf_add_str(out, "   ");
        put_text(out, e->text[EVENT_PROTO], 9);
        (void)!buf_add_str(out, "  ");
        put_text(out, e->text[EVENT_METHOD], 7);
        (void)!buf_add_str(out, "  ");
        put_number(out, e, EVENT_STATUS, 6);
        (void)!buf_add_str(out, " ");
        put_bytes(out, event_has(e, EVENT_BYTES_UP), e->num[EVENT_BYTES_UP]);
        (void)!buf_add_str(out, " ");
        put_bytes(out, event_has(e, EVENT_BYTES_DOWN), e->num[EVENT_BYTES_DOWN]);
        if (event_has(e, EVENT_DURATION))
                (void)!buf_addf(out, " %8.1f  ", (double)e->num[EVENT_DURATION] / 1000);
        else
                (void)!buf_addf(out, " %8s  ", "-");
        (void)!buf_addf(out, "%7" PRIu64 "  ", row->seq);
        put_target(out, e);
        put_count(out, e);
        put_tail(out, "  ", slice_is(e->text[EVENT_DECISION], "deny") ? e->text[EVENT_REASON] : SLICE_EMPTY, "");
        put_tail(out, "  [", e->text[EVENT_RULE], "]");
        return buf_add(out, "\n", 1);
}

/* ---- timeline ---- */

int print_timeline_head(struct buf *out, enum print_form form)
{
        return head(out, form, "TIME                     WORKSPACE         ENGINE      VERDICT  SUBJECT");
}

/* A flow's subject is what was asked for. */
static void put_subject(struct buf *out, const struct event_record *e)
{
        if (e->text[EVENT_HOST].n) {
                bool dns = slice_is(e->text[EVENT_PROTO], "dns"); /* its type alone would say nothing */
                put_tail(out, "", event_has(e, EVENT_METHOD) && !dns ? SLICE_EMPTY : e->text[EVENT_PROTO], " ");
                put_tail(out, "", e->text[EVENT_METHOD], " ");
                put_target(out, e);
                put_tail(out, "  ", e->text[EVENT_SUBJECT], "");
        } else {
                put_text(out, e->text[EVENT_SUBJECT], 1);
        }
}

int print_timeline(struct buf *out, enum print_form form, const struct row *row)
{
        const struct event_record *e = &row->event;

        if (form == PRINT_JSON)
                return json_row(out, row, false);
        put_local_time(out, row->time_us);
        (void)!buf_add_str(out, "  ");
        put_text(out, row->workspace, 16);
        (void)!buf_add_str(out, "  ");
        put_text(out, e->text[EVENT_ENGINE].n ? e->text[EVENT_ENGINE] : SLICE_LIT("Firewall"), 10);
        (void)!buf_add_str(out, "  ");
        put_verdict(out, form, e);
        (void)!buf_add_str(out, "   ");
        put_subject(out, e);
        put_count(out, e);
        put_tail(out, "  ", e->text[EVENT_REASON], "");
        put_tail(out, "  ", e->text[EVENT_DETAIL], "");
        put_tail(out, "  [", e->text[EVENT_RULE], "]");
        return buf_add(out, "\n", 1);
}

/* ---- one record ---- */

int print_record(struct buf *out, enum print_form form, const struct row *row)
{
        const struct event_record *e = &row->event;
        const char *type = event_type_name(e->type);

        if (form == PRINT_JSON)
                return json_row(out, row, false);
        (void)!buf_addf(out, form == PRINT_COLOUR ? "\033[1m%" PRIu64 "  %s  " : "%" PRIu64 "  %s  ", row->seq, type ? type : "?");
        put_local_time(out, row->time_us);
        (void)!buf_add_str(out, form == PRINT_COLOUR ? "\033[0m\n" : "\n");
        (void)!buf_add_str(out, "    workspace     ");
        put_text(out, row->workspace, 1);
        (void)!buf_addf(out, "\n    session       %" PRIu64 "\n", row->session);
        for (unsigned f = 1; f < EVENT_FIELD_COUNT; f++) {
                enum event_field field = (enum event_field)f;

                if (!event_has(e, field))
                        continue;
                (void)!buf_addf(out, "    %-12s  ", event_field_name(field));
                if (event_field_is_text(field))
                        put_text(out, e->text[f], 0);
                else
                        (void)!buf_addf(out, "%" PRIu64, e->num[f]);
                (void)!buf_add(out, "\n", 1);
        }
        return out->failed ? -1 : 0;
}

/* ---- leaks ---- */

/* The kind of a credential that sends such a key: the class is the vendor's name, where it is known. */
static const char *leak_kind(const struct leak_row *l)
{
        static const struct {
                const char *class, *kind;
        } same[] = { { "github", "github" }, { "gitlab", "gitlab" }, { "anthropic", "anthropic" }, { "openai", "openai" }, { "google", "gemini" },
                     { "xai", "xai" },       { "npm", "npm" },       { "pypi", "pypi" },           { "basic", "basic" } };

        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
                if (slice_is(l->class, same[i].class))
                        return same[i].kind;
        return slice_starts(l->field, SLICE_LIT("header ")) && !slice_is(l->field, "header authorization") ? "header" : "bearer";
}

static void put_ways_out(struct buf *out, const struct leak_row *l)
{
        const char *kind = leak_kind(l);
        bool ruled = l->rule.n && !slice_starts(l->rule, SLICE_LIT("default"));

        (void)!buf_addf(out, "\n  to make it an account of the workspace:  brome credential add NAME --kind %s --for ", kind);
        put_text(out, l->host, 0);
        if (l->port && l->port != 443)
                (void)!buf_addf(out, ":%" PRIu64, l->port);
        if (strcmp(kind, "header") == 0)
                put_tail(out, " --header ", slice_skip(l->field, strlen("header ")), "");
        if (strcmp(kind, "basic") == 0)
                (void)!buf_add_str(out, " --user USER");
        (void)!buf_add_str(out, "\n  to refuse it, ");
        if (ruled)
                put_tail(out, "behind its rule:           ", l->rule, " anonymous\n");
        else
                put_tail(out, "a rule:                    allow web ", l->host, " anonymous\n");
}

int print_leak(struct buf *out, enum print_form form, const struct leak_row *l)
{
        struct json_writer w;

        if (form == PRINT_JSON) {
                json_begin(&w, out);
                json_text(&w, "workspace", l->workspace);
                json_text(&w, "host", l->host);
                json_number(&w, "port", l->port);
                json_text(&w, "class", l->class);
                json_text(&w, "preview", l->preview);
                json_text(&w, "field", l->field);
                json_number(&w, "times", l->count);
                json_time(&w, "first", l->first_us);
                json_time(&w, "last", l->last_us);
                json_text(&w, "kind", slice_str(leak_kind(l)));
                if (l->rule.n)
                        json_text(&w, "rule", l->rule);
                return json_end(&w);
        }
        put_text(out, l->workspace, 1);
        (void)!buf_add_str(out, "  ");
        put_text(out, l->host, 1);
        (void)!buf_addf(out, ":%" PRIu64 "  ", l->port);
        put_text(out, l->field, 1);
        (void)!buf_add_str(out, ": a key that brome did not issue, ");
        put_text(out, l->class, 0);
        put_tail(out, " ", l->preview, "");
        (void)!buf_addf(out, "  (%" PRIu64 " time%s, ", l->count, l->count == 1 ? "" : "s");
        put_local_time(out, l->first_us);
        if (l->last_us != l->first_us) {
                (void)!buf_add_str(out, " to ");
                put_local_time(out, l->last_us);
        }
        (void)!buf_add_str(out, ")");
        put_ways_out(out, l);
        return out->failed ? -1 : 0;
}

/* ---- totals ---- */

int print_host_head(struct buf *out, enum print_form form)
{
        return head(out, form, "ALLOWED   DENIED      UP   DOWN  FIRST SEEN               LAST SEEN                HOST");
}

int print_host(struct buf *out, enum print_form form, const struct host_row *h)
{
        struct json_writer w;

        if (form == PRINT_JSON) {
                json_begin(&w, out);
                json_text(&w, "host", h->host);
                json_number(&w, "allowed", h->allowed);
                json_number(&w, "denied", h->denied);
                json_number(&w, "bytes_up", h->bytes_up);
                json_number(&w, "bytes_down", h->bytes_down);
                json_time(&w, "first", h->first_us);
                json_time(&w, "last", h->last_us);
                return json_end(&w);
        }
        (void)!buf_addf(out, "%7" PRIu64 "  %7" PRIu64 "  ", h->allowed, h->denied);
        put_bytes(out, true, h->bytes_up);
        (void)!buf_add_str(out, " ");
        put_bytes(out, true, h->bytes_down);
        (void)!buf_add_str(out, "  ");
        put_local_time(out, h->first_us);
        (void)!buf_add_str(out, "  ");
        put_local_time(out, h->last_us);
        (void)!buf_add_str(out, "  ");
        put_text(out, h->host, 0);
        return buf_add(out, "\n", 1);
}

static const char *const kind_name[SUMMARY_KIND_COUNT] = {
        [SUMMARY_TOTAL] = "total", [SUMMARY_WORKSPACE] = "workspace", [SUMMARY_HOST] = "host", [SUMMARY_RULE] = "rule", [SUMMARY_REASON] = "reason",
};

int print_summary_head(struct buf *out, enum print_form form) { return head(out, form, "BY         ALLOWED   DENIED      UP   DOWN  WHAT"); }

int print_summary(struct buf *out, enum print_form form, const struct summary_row *s)
{
        struct json_writer w;

        if (form == PRINT_JSON) {
                json_begin(&w, out);
                json_text(&w, "by", slice_str(kind_name[s->kind]));
                json_text(&w, "key", s->key);
                json_number(&w, "allowed", s->allowed);
                json_number(&w, "denied", s->denied);
                json_number(&w, "bytes_up", s->bytes_up);
                json_number(&w, "bytes_down", s->bytes_down);
                return json_end(&w);
        }
        (void)!buf_addf(out, "%-9s  %7" PRIu64 "  %7" PRIu64 "  ", kind_name[s->kind], s->allowed, s->denied);
        put_bytes(out, true, s->bytes_up);
        (void)!buf_add_str(out, " ");
        put_bytes(out, true, s->bytes_down);
        put_tail(out, "  ", s->key, "");
        return buf_add(out, "\n", 1);
}

int print_refusal(struct buf *out, enum print_form form, const struct refusal_row *r)
{
        const struct event_record *e = &r->event;
        struct json_writer w;
        bool ruled;

        if (form == PRINT_JSON) {
                json_begin(&w, out);
                json_number(&w, "times", r->count);
                json_time(&w, "first", r->first_us);
                json_time(&w, "last", r->last_us);
                json_event(&w, e);
                return json_end(&w);
        }
        (void)!buf_add_str(out, form == PRINT_COLOUR ? "\033[31mrefused\033[0m  " : "refused  ");
        put_subject(out, e);
        if (r->count > 1)
                (void)!buf_addf(out, "  (%" PRIu64 " times)", r->count);
        put_tail(out, ": ", e->text[EVENT_REASON], "");
        /* The first rule that speaks of a request judges it: behind that one the new line would change nothing. */
        ruled = e->text[EVENT_RULE].n && !slice_starts(e->text[EVENT_RULE], SLICE_LIT("default"));
        if (ruled && e->text[EVENT_SUGGEST].n)
                put_tail(out, "\n  refused by:   ", e->text[EVENT_RULE], "");
        put_tail(out, ruled ? "\n  to allow it, above that rule:  " : "\n  to allow it:  ", e->text[EVENT_SUGGEST], "");
        return buf_add(out, "\n", 1);
}

int print_finding(struct buf *out, enum print_form form, uint64_t seq, const char *text)
{
        struct json_writer w;

        if (form != PRINT_JSON)
                return buf_addf(out, "%s\n", text);
        json_begin(&w, out);
        json_number(&w, "seq", seq);
        json_text(&w, "finding", slice_str(text));
        return json_end(&w);
}

int print_verify(struct buf *out, enum print_form form, const struct verify_result *v)
{
        struct json_writer w;

        if (form != PRINT_JSON)
                return buf_addf(out, "%s: %" PRIu64 " records, %" PRIu64 " removed with an anchor, %" PRIu64 " lost, %" PRIu64 " findings\n",
                                v->findings ? "the journal is not whole" : "the journal is whole", v->records, v->pruned, v->lost, v->findings);
        json_begin(&w, out);
        json_flag(&w, "whole", v->findings == 0);
        json_number(&w, "records", v->records);
        json_number(&w, "pruned", v->pruned);
        json_number(&w, "lost", v->lost);
        json_number(&w, "last_seq", v->last_seq);
        json_number(&w, "findings", v->findings);
        return json_end(&w);
}

int print_json_string(struct buf *out, struct slice s) { return json_put_string(out, s); }
int print_time_utc(struct buf *out, int64_t time_us) { return json_put_time(out, time_us); }
