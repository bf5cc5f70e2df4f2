/* The tripwire: a placeholder on its way out, seen by scan.h, and what that means.
 *
 * The one idea: a placeholder is at home towards the hosts of its credential. There it may be in the wrong place, and the request is refused; anywhere else the
 * workspace is compromised: nothing more is let out from that moment, what is open is cut in the same turn, and bromed is told. */
#ifndef BROME_INNER_TRIPWIRE_H
#define BROME_INNER_TRIPWIRE_H

#include "inner/accounts.h"

/* Where it was seen. Everything borrows. */
struct sighting {
        const struct authority *to;
        const struct policy_via *via; /* NULL: not re-routed */
        const struct request *req;    /* NULL: no request */
        uint64_t flow;
        const char *field;            /* "header", "path", "query", "body", "trailer", "websocket", "dns", "sni", "tcp", "udp", "icmp" */
        struct slice name;            /* of a header or trailer */
};

/* Is the placeholder of that number at home there? Its account; the port may be another one: that is for account_check to say. */
bool tripwire_at_home(struct door *d, const struct account *a, const struct sighting *s);
/* It is not: the door refuses everything from now on, unless a person decided on this pair before. Always REASON_TRIPWIRE. */
enum reason tripwire_off(struct door *d, const struct sighting *s, const struct scan_hit *hit);
/* The end of the turn, before anything is sent: cuts what is open and tells bromed. */
void tripwire_turn_end(struct door *d);

/* Every part of a request's head. *own: how often placeholders that are at home stand in it, and *whose one of them is. REASON_NONE or REASON_TRIPWIRE. */
enum reason tripwire_head(struct exchange *x, size_t *own, struct account **whose);
/* The same of one that is refused, for `otherwise`, which stays the reason where nothing in it is on its way elsewhere. */
enum reason tripwire_refused(struct exchange *x, enum reason otherwise);
/* Of one that nobody could read: the fields there are (or NULL), the bytes there are. REASON_NONE or REASON_TRIPWIRE. */
enum reason tripwire_unread(struct exchange *x, const struct headers *fields, struct slice bytes);
enum reason tripwire_trailers(struct exchange *x, const struct headers *h);
/* A name that is asked for or greeted with; true: it has a placeholder in it, and the tripwire went off. `field`: "dns" or "sni". */
bool tripwire_name(struct door *d, struct slice name, uint16_t port, uint64_t flow, const char *field);
/* A whole datagram. REASON_NONE or why not. */
enum reason tripwire_datagram(struct exchange *x, struct slice s);

/* A hit in what streams up: a body, WebSocket message or TCP flow. */
enum hit_answer { HIT_PASS, HIT_REDACT, HIT_REFUSE };
struct stream_place {
        const char *field;  /* "body", "websocket", "tcp" */
        enum account_slot slot; /* in which it may be declared; SLOT_COUNT: in none */
        bool as_it_is;      /* the bytes are those that go on: not decoded from them, and text */
};
/* HIT_REFUSE: *reason says why. HIT_REDACT: overwrite it with tripwire_redact and look again; it was recorded. */
enum hit_answer tripwire_stream(struct exchange *x, const struct stream_place *p, const struct scan_hit *hit, enum reason *reason);
/* Letters for its random part, at the same length. */
void tripwire_redact(uint8_t *hit, size_t n);
/* A hit that may stay is passed over. */
static inline void scan_pass(struct scan *s, size_t at)
{
        s->next = (ptrdiff_t)at;
        s->back_n = 0;
}
/* The engine of a refusal, for records. */
const char *tripwire_engine(enum reason r);

#endif
