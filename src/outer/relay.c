/* TCP relay: see relay.h. */
#include "outer/relay.h"

#include "outer/ruleset.h"
#include "outer/conn.h"
#include <stdlib.h>

struct relay {
        struct exchange *ex;
        struct conn *conn;
        bool up_done, down_done;
};

static void relay_free(struct relay *r)
{
        conn_close(r->conn);
        free(r);
}

static void relay_end(struct relay *r, enum reason reason, const char *detail)
{
        struct exchange *ex = r->ex;

        exchange_detach(ex);
        exchange_fail(ex, reason, "%s", detail);
        relay_free(r);
}

/* Both directions said that they are done. */
static bool relay_check(struct relay *r)
{
        if (!r->up_done || !r->down_done)
                return false;
        exchange_end(r->ex, NULL);
        relay_free(r);
        return true;
}

static void on_up(struct exchange *ex) { conn_ask(((struct relay *)ex->upstream)->conn); }
static void on_room(struct exchange *ex)
{
        struct relay *r = ex->upstream;

        if (exchange_wants_more(ex))
                conn_pause(r->conn, false);
}
static void on_abort(struct exchange *ex) { relay_free(ex->upstream); }
static const struct upstream_ops exchange_ops = { on_up, on_room, on_abort };

static bool on_admit(void *ctx, const struct addr *a)
{
        struct relay *r = ctx;
        struct decision d;

        exchange_judge(r->ex, a, &d);
        return d.allow;
}

static void on_refused(void *ctx, const struct addr *a)
{
        struct relay *r = ctx;
        struct exchange *ex = r->ex;

        exchange_detach(ex);
        relay_free(r);
        if (exchange_admit(ex, a))
                exchange_fail(ex, REASON_POLICY_CHANGED, "%s", reason_text(REASON_POLICY_CHANGED));
}

static void on_failed(void *ctx, enum reason reason, const char *detail) { relay_end(ctx, reason, detail); }

static void on_opened(void *ctx)
{
        struct relay *r = ctx;
        struct exchange *ex = r->ex;

        ex->has_address = r->conn->has_address;
        ex->address = r->conn->address;
        if (!exchange_admit(ex, ex->has_address ? &ex->address : NULL))
                return;
        if (exchange_open(ex) == 0)
                conn_ask(r->conn);
}

static void on_readable(void *ctx)
{
        struct relay *r = ctx;

        if (buf_len(&r->conn->in) && exchange_down_all(r->ex, &r->conn->in) < 0)
                return;
        if (r->conn->eof && !r->down_done) {
                r->down_done = true;
                exchange_half_close(r->ex);
                (void)relay_check(r);
        } else if (!exchange_has_room(r->ex))
                conn_pause(r->conn, true);
}

static void on_writable(void *ctx)
{
        struct relay *r = ctx;
        struct exchange *ex = r->ex;
        size_t room = conn_has_room(r->conn) ? CONN_OUT_BYTES - buf_len(&r->conn->out) : 0;
        struct slice part = slice_first(buf_slice(&ex->up), room);

        if (part.n && buf_add_slice(&r->conn->out, part) < 0) {
                relay_end(r, REASON_LIMIT, "out of memory");
                return;
        }
        exchange_took(ex, part.n);
        if (ex->up_ended && !r->up_done && buf_len(&ex->up) == 0 && buf_len(&r->conn->out) == 0) {
                r->up_done = true;
                conn_shut(r->conn);
                (void)relay_check(r);
        }
}

static void on_broken(void *ctx, const char *detail) { relay_end(ctx, REASON_UPSTREAM_CLOSED, detail); }

static const struct conn_owner owner = { on_admit, on_refused, on_opened, on_failed, on_readable, on_writable, on_broken };

void relay_open(struct outer *o, struct exchange *ex)
{
        struct conn_plan plan = { .to = &ex->req.authority };
        struct relay *r = calloc(1, sizeof(*r));

        if (r) {
                r->ex = ex;
                r->conn = conn_new(o, &plan, &owner, r);
        }
        if (!r || !r->conn) {
                free(r);
                exchange_fail(ex, REASON_LIMIT, "out of memory");
                return;
        }
        exchange_attach(ex, &exchange_ops, r);
}
