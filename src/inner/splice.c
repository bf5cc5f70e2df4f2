/* Splice: see splice.h. A half close of one side is a half close for the other; a reset is a reset. */
#include "inner/splice.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/hold.h"

static void splice_done(struct flow *f)
{
        struct exchange *x = f->state_of_server;

        if (x && x->down_ended && x->up_sent_end && f->conn.fin_sent)
                flow_close(f, false);
}

/* The guest's end goes on once its last byte did. */
static void splice_end_up(struct flow *f)
{
        if (f->conn.eof_told && !buf_len(&f->conn.in))
                exchange_send_end(f->state_of_server, NULL);
        splice_done(f);
}

/* --- the guest's side --- */

static void splice_data(struct conn *c, struct slice *in)
{
        struct flow *f = c->owner;
        struct exchange *x = f->state_of_server;

        if (!exchange_has_room(x))
                return;
        if (exchange_send(x, *in) == 0)
                *in = slice_skip(*in, in->n);
}

static void splice_eof(struct conn *c)
{
        splice_end_up(c->owner);
}

static void splice_drained(struct conn *c, size_t unsent)
{
        struct flow *f = c->owner;
        struct exchange *x = f->state_of_server;

        if (x->owed > unsent)
                exchange_passed(x, x->owed - unsent);
        splice_done(f);
}

static void splice_failed(struct conn *c, const char *why)
{
        (void)why;
        flow_close(c->owner, true);
}

static const struct conn_ops splice_ops = { .data = splice_data, .eof = splice_eof, .drained = splice_drained, .failed = splice_failed };

/* --- the link's side --- */

static void leg_head(struct exchange *x, const struct response *r) { (void)x, (void)r; }

static void leg_data(struct exchange *x, struct slice s)
{
        struct flow *f = x->owner;

        if (buf_add_slice(&f->conn.out, s) < 0)
                flow_close(f, true);
        else
                conn_touch(&f->conn);
}

static void leg_end(struct exchange *x, const struct headers *trailers)
{
        struct flow *f = x->owner;

        (void)trailers;
        conn_finish(&f->conn);
}

static void leg_room(struct exchange *x, size_t n)
{
        struct flow *f = x->owner;

        (void)n;
        if (exchange_has_room(x))
                conn_resume(&f->conn);
        if (f->state != FLOW_DEAD)
                splice_end_up(f);
}

static void leg_cut(struct exchange *x, enum reason reason, struct slice detail)
{
        struct flow *f = x->owner;

        (void)reason, (void)detail;
        f->state_of_server = NULL;
        flow_close(f, true);
}

static const struct leg_ops splice_leg = { .head = leg_head, .data = leg_data, .end = leg_end, .room = leg_room, .cut = leg_cut };

static void splice_stop(struct flow *f)
{
        struct exchange *x = f->state_of_server;

        f->state_of_server = NULL;
        if (x)
                exchange_end(x);
}

static const struct flow_server splice_server = { .name = "tcp", .stop = splice_stop };
static const struct flow_server splice_tls_server = { .name = "tls", .stop = splice_stop };

void splice_serve(struct flow *f, const char *kind)
{
        struct exchange *x = exchange_new(f->door, EXCHANGE_TCP, &splice_leg, f);

        if (!x) {
                struct refusal r = refusal_of(REASON_TOO_MANY_FLOWS);
                flow_refuse(f, &r);
                return;
        }
        x->id = f->id;
        x->to = f->to;
        x->verdict = f->verdict;
        x->splice_kind = kind;
        x->protocol = f->tls ? "tls" : "tcp";
        flow_served(f, f->tls ? &splice_tls_server : &splice_server, x);
        conn_serve(&f->conn, &splice_ops, f);
        x->recorded = true;
        events_flow(f->door, f->id, x->protocol, &f->to, FLOW_TCP, &f->verdict, NULL);
        if (hold_begin_stream(x) < 0 || exchange_start(x) < 0)
                exchange_cut(x, REASON_OUTER_GONE, SLICE_EMPTY);
        else
                conn_resume(&f->conn);
        if (f->state != FLOW_DEAD)
                splice_end_up(f);
}
