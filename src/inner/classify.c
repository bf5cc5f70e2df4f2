/* Classification: what a flow speaks, and who serves it. A `web` rule admits TLS and HTTP and nothing else; under `any` silence or other bytes
 * are spliced when the policy allows that. SECURITY: the server name of a ClientHello must be the flow's own name. */
#include "base/clock.h"
#include "inner/decide.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/h1.h"
#include "inner/h2.h"
#include "inner/splice.h"
#include "inner/tls.h"
#include "inner/tripwire.h"
#include "wire/classify.h"

static void refuse(struct flow *f, enum reason reason)
{
        struct refusal r = refusal_of(reason);

        f->verdict.reason = reason;
        flow_refuse(f, &r);
}

/* TLS clients show an alert better than a reset: "unrecognized name" where the name is the matter, else "handshake failure". */
static void refuse_tls(struct flow *f, const struct refusal *r, bool name)
{
        uint8_t alert[7] = { 21, 3, 1, 0, 2, 2, name ? 112 : 40 };

        if (f->verdict.reason == REASON_NONE)
                f->verdict.reason = REASON_TLS_INVALID;
        events_flow(f->door, f->id, "tls", &f->to, FLOW_TCP, &f->verdict, r);
        /* What does not fit in the empty socket buffer of a new flow is not worth waiting for. */
        if (buf_add(&f->conn.out, alert, sizeof(alert)) == 0) {
                conn_finish(&f->conn);
                conn_turn_end();
        }
        flow_close(f, false);
}

static void refuse_tls_reason(struct flow *f, enum reason reason, bool name)
{
        struct refusal r = refusal_of(reason);

        f->verdict.reason = reason;
        refuse_tls(f, &r, name);
}

/* --- TLS --- */

/* Does the hello fit the flow? REASON_NONE or why not. */
static enum reason check_hello(const struct flow *f, const struct hello *h)
{
        if (h->has_sni && (f->to.is_addr || !authority_same_host(&h->sni, &f->to)))
                return REASON_AUTHORITY_MISMATCH;
        if (!h->has_sni && !f->to.is_addr)
                return REASON_SNI_MISSING;
        /* Uninspected, the outer name may be a cover: GREASE cannot be told from the real thing. Inspected, ECH fails and the client goes on
         * with the outer name. */
        if (h->has_ech && f->verdict.action == FLOW_TLS_PASS)
                return REASON_ECH;
        return REASON_NONE;
}

static void got_hello(struct flow *f, const struct hello *h, struct slice *in)
{
        enum reason reason = check_hello(f, h);
        SSL *ssl;

        f->tls = true;
        f->has_sni = h->has_sni;
        if (h->has_sni && tripwire_name(f->door, h->sni.name, f->to.port, f->id, "sni"))
                reason = REASON_TRIPWIRE;
        if (reason != REASON_NONE) {
                refuse_tls_reason(f, reason, reason != REASON_ECH);
                return;
        }
        if (f->verdict.action == FLOW_TLS_PASS) {
                splice_serve(f, "tls");
                return;
        }
        ssl = tls_accept(f->door->tls, &f->to);
        f->state = FLOW_HANDSHAKE;
        if (!ssl || conn_start_tls(&f->conn, ssl, in) < 0)
                refuse(f, REASON_INTERNAL);
}

static void read_hello(struct flow *f, struct slice *in)
{
        struct hello h;
        enum wire_reason why = WIRE_OK;
        struct refusal r;

        switch (hello_read(&f->hello, *in, &f->arena, &h, &why)) {
        case WIRE_MORE:
                return;
        case WIRE_DONE:
                got_hello(f, &h, in);
                return;
        case WIRE_BAD:
                r = refusal_of_wire(why);
                f->tls = true;
                refuse_tls(f, &r, false);
                return;
        }
}

static void tls_ready(struct conn *c)
{
        struct flow *f = c->owner;

        if (tls_is_h2(c->ssl))
                h2_serve(f);
        else
                h1_serve(f);
}

/* --- first bytes --- */

static void opaque(struct flow *f)
{
        struct policy_verdict v;

        if (f->verdict.action == FLOW_INSPECT_OR_SPLICE) {
                decide_opaque(f->door, &f->to, &v);
                f->verdict = v;
                if (v.allow) {
                        splice_serve(f, "any");
                        return;
                }
                refuse(f, v.reason);
                return;
        }
        refuse(f, REASON_NOT_HTTP_OR_TLS);
}

static void first_data(struct conn *c, struct slice *in)
{
        struct flow *f = c->owner;

        if (f->state == FLOW_HANDSHAKE)
                return;
        if (f->verdict.action == FLOW_SPLICE) {
                splice_serve(f, "tcp");
                return;
        }
        switch (classify(*in)) {
        case CLASS_MORE:
                return;
        case CLASS_TLS:
                read_hello(f, in);
                return;
        case CLASS_HTTP1:
                if (f->verdict.action == FLOW_TLS_PASS)
                        break;
                h1_serve(f);
                return;
        case CLASS_H2:
                if (f->verdict.action == FLOW_TLS_PASS)
                        break;
                h2_serve(f);
                return;
        case CLASS_OTHER:
        case CLASS_COUNT:
                break;
        }
        opaque(f);
}

static void first_eof(struct conn *c)
{
        struct flow *f = c->owner;

        if (f->state == FLOW_NEW && f->verdict.action == FLOW_INSPECT_OR_SPLICE)
                opaque(f);
        else
                flow_close(f, true);
}

static void first_failed(struct conn *c, const char *why)
{
        struct flow *f = c->owner;
        struct refusal r = refusal_of(REASON_TLS_FAILED);

        (void)why;
        if (f->state == FLOW_HANDSHAKE) {
                f->verdict.reason = REASON_TLS_FAILED;
                events_flow(f->door, f->id, "tls", &f->to, FLOW_TCP, &f->verdict, &r);
        }
        flow_close(f, f->state != FLOW_HANDSHAKE);
}

static void first_drained(struct conn *c, size_t unsent) { (void)c, (void)unsent; }

static const struct conn_ops first_ops = {
        .data = first_data, .eof = first_eof, .failed = first_failed, .drained = first_drained, .tls_ready = tls_ready,
};

static void on_silence(evutil_socket_t fd, short what, void *arg)
{
        struct flow *f = arg;

        (void)fd, (void)what;
        if (f->state == FLOW_NEW && !buf_len(&f->conn.in))
                opaque(f);
}

void classify_begin(struct flow *f)
{
        static const struct timeval silence = { 0, SERVER_FIRST_MS * 1000 };

        conn_serve(&f->conn, &first_ops, f);
        hello_reader_init(&f->hello);
        f->deadline_ms = clock_mono_ms() + CLASSIFY_MS;
        if (f->verdict.action == FLOW_SPLICE) {
                splice_serve(f, "tcp");
                return;
        }
        if (f->verdict.action != FLOW_INSPECT_OR_SPLICE)
                return;
        f->first = event_new(f->door->base, -1, 0, on_silence, f);
        if (!f->first || event_add(f->first, &silence) < 0)
                refuse(f, REASON_INTERNAL);
}

void classify_tick(struct flow *f, int64_t now_ms)
{
        if (f->deadline_ms && now_ms >= f->deadline_ms)
                refuse(f, REASON_CLASSIFY_TIMEOUT);
}
