/* The canonical request: what every later judgement sees, whichever HTTP version it came in.
 *
 * Made from an HTTP/1.x head or an HTTP/2 header block, written as either. What is forwarded is always written from this struct,
 * never copied from what came, so that the origin reads what was judged. Hop-by-hop fields, Host, Content-Length, Expect, Upgrade,
 * Sec-WebSocket-Key are not in `headers`; they stand in members and are written anew. Cookie crumbs are joined (RFC 9113 §8.2.3). */
#ifndef BROME_WIRE_REQUEST_H
#define BROME_WIRE_REQUEST_H

#include "base/buf.h"
#include "wire/authority.h"
#include "wire/h1.h"
#include "wire/path.h"

enum wire_upgrade {
        WIRE_UPGRADE_NONE,      /* also h2c, which is a hint that may be passed over (RFC 9113 §3.1) */
        WIRE_UPGRADE_WEBSOCKET, /* GET with Upgrade: websocket, or extended CONNECT (RFC 8441); method is GET here */
        WIRE_UPGRADE_OTHER,     /* named in `protocol`. Method CONNECT: extended CONNECT (link only), written to HTTP/2. Any other method:
                                 * an HTTP/1.1 Upgrade that nobody writes on; refuse it, or set NONE to pass it over */
        WIRE_UPGRADE_TUNNEL,    /* plain CONNECT, on the link only: no path */
        WIRE_UPGRADE_COUNT
};

struct request {
        struct slice method;
        enum scheme scheme;
        struct authority authority;
        struct path target;
        struct headers headers;
        enum body_kind body; /* NONE, LENGTH or CHUNKED */
        uint64_t length;     /* with BODY_LENGTH */
        enum wire_upgrade upgrade;
        struct slice protocol; /* token of the Upgrade or :protocol */
        struct slice ws_key;   /* Sec-WebSocket-Key as sent; empty from HTTP/2: set one (ws_key) before request_to_h1 */
        bool expect_continue;  /* there is a body and the client waits for 100 */
        bool override;         /* a field or query key asks the origin for another method (or a field for another path) */
        bool te_trailers;      /* TE: trailers was sent; written again */
        bool keep_alive;       /* HTTP/1.x: the client will go on */
        uint8_t version;       /* 10, 11 or 20 */
};

/* What is known before the request: the connection it comes on. */
struct request_flow {
        enum scheme scheme; /* HTTPS when TLS was ended */
        const struct authority *to; /* as claims.flow; without one, every request is refused, but on the link */
        size_t to_n;
        const struct authority *sni; /* NULL: none sent */
        bool link; /* between the doors (HTTP/2 only): the scheme is that of :scheme, any :protocol may be named, plain CONNECT is
                    * served, brome-* fields stay. Elsewhere brome-* fields are dropped */
};

enum wire_reason request_from_h1(struct arena *a, const struct h1_head *h, const struct request_flow *f, struct request *out) __attribute__((warn_unused_result));
/* block: the fields as they came, pseudo-headers among them. end_stream: no DATA will follow. */
enum wire_reason request_from_h2(struct arena *a, const struct headers *block, bool end_stream, const struct request_flow *f, struct request *out)
        __attribute__((warn_unused_result));

/* Origin form, Host first. The body's framing is req->body: for CHUNKED use chunk_write. 0 or -1 (buffer, or an upgrade that has no
 * HTTP/1.x form). */
int request_to_h1(struct buf *b, const struct request *req, bool keep_alive) __attribute__((warn_unused_result));
/* Pseudo-headers first, ready for nghttp2. Names and values borrow from req or stand in the arena. link: :authority always with its
 * port (docs/CONTROL.md). */
enum wire_reason request_to_h2(struct arena *a, const struct request *req, bool link, struct headers *out) __attribute__((warn_unused_result));

/* GET, HEAD or OPTIONS as an effect: no body, no upgrade, no override. */
bool request_is_read_only(const struct request *req);
/* May it be sent once more when nobody knows whether the first was obeyed (RFC 9110 §9.2.2)? By its effect. */
bool request_is_idempotent(const struct request *req);

/* Sec-WebSocket-Key from 16 random bytes; Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2). Base64, NUL terminated. */
#define WS_KEY_TEXT 25
#define WS_ACCEPT_TEXT 29
void ws_key(char out[WS_KEY_TEXT], const uint8_t random[16]);
int ws_accept(char out[WS_ACCEPT_TEXT], struct slice key) __attribute__((warn_unused_result));

#endif
