/* Writing canonical messages as HTTP/1.1. One reservation, then plain copies: this is on the path of every request. */
#include "wire/http_priv.h"

#include <stdio.h>
#include <stdlib.h>

/* Start line apart from method and target, Host, and every field that is written from a member. */
enum { WRITE_SLACK_BYTES = 512 + AUTHORITY_TEXT_BYTES };

struct pen {
        uint8_t *p;
        size_t n, cap;
};

static void put(struct pen *w, struct slice s)
{
        if (s.n > w->cap - w->n) /* pen_open measured too little: impossible */
                abort();
        if (s.n)
                memcpy(w->p + w->n, s.p, s.n);
        w->n += s.n;
}

#define PUT(w, text) put(w, SLICE_LIT(text))

static void put_field(struct pen *w, struct slice name, struct slice value)
{
        put(w, name);
        PUT(w, ": ");
        put(w, value);
        PUT(w, "\r\n");
}

static void put_number(struct pen *w, uint64_t v)
{
        char text[24];
        int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);

        put(w, slice_of(text, (size_t)n));
}

static void put_length(struct pen *w, uint64_t length)
{
        PUT(w, "content-length: ");
        put_number(w, length);
        PUT(w, "\r\n");
}

static bool pen_open(struct pen *w, struct buf *b, const struct headers *h, size_t more)
{
        size_t n = WRITE_SLACK_BYTES + more;

        for (size_t i = 0; i < h->n; i++)
                n += h->at[i].name.n + h->at[i].value.n + 4;
        w->p = buf_reserve(b, n);
        w->n = 0;
        w->cap = n;
        return w->p != NULL;
}

/* Methods for which a missing Content-Length is not read as "none yet" (RFC 9110 §8.6). */
static bool method_wants_length(struct slice method)
{
        return slice_is(method, "POST") || slice_is(method, "PUT") || slice_is(method, "PATCH");
}

static void put_connection(struct pen *w, bool upgrade, bool te, bool close)
{
        if (!upgrade && !te && !close)
                return;
        PUT(w, "connection: ");
        if (upgrade)
                PUT(w, "Upgrade");
        if (te)
                put(w, upgrade ? SLICE_LIT(", TE") : SLICE_LIT("TE"));
        if (close)
                put(w, upgrade || te ? SLICE_LIT(", close") : SLICE_LIT("close"));
        PUT(w, "\r\n");
}

int request_to_h1(struct buf *b, const struct request *req, bool keep_alive)
{
        char authority[AUTHORITY_TEXT_BYTES];
        struct pen w;
        bool websocket = req->upgrade == WIRE_UPGRADE_WEBSOCKET;

        if ((req->upgrade != WIRE_UPGRADE_NONE && !websocket) || (websocket && !ws_key_ok(req->ws_key)))
                return -1;
        if (!pen_open(&w, b, &req->headers, req->method.n + req->target.path.n + req->target.query.n))
                return -1;
        put(&w, req->method);
        PUT(&w, " ");
        put(&w, req->target.path);
        if (req->target.has_query) {
                PUT(&w, "?");
                put(&w, req->target.query);
        }
        PUT(&w, " HTTP/1.1\r\nhost: ");
        put(&w, authority_print(authority, &req->authority, req->scheme));
        PUT(&w, "\r\n");
        for (size_t i = 0; i < req->headers.n; i++)
                put_field(&w, req->headers.at[i].name, req->headers.at[i].value);
        if (websocket) {
                PUT(&w, "upgrade: websocket\r\nsec-websocket-version: 13\r\n");
                put_field(&w, SLICE_LIT("sec-websocket-key"), req->ws_key);
        }
        if (req->te_trailers)
                PUT(&w, "te: trailers\r\n");
        put_connection(&w, websocket, req->te_trailers, !keep_alive && !websocket);
        if (req->body == BODY_CHUNKED)
                PUT(&w, "transfer-encoding: chunked\r\n");
        else if (req->body == BODY_LENGTH || method_wants_length(req->method))
                put_length(&w, req->body == BODY_LENGTH ? req->length : 0);
        PUT(&w, "\r\n");
        buf_commit(b, w.n);
        return 0;
}

/* How the body of an answer travels to an HTTP/1.x client. */
static enum body_kind answer_body(const struct response *r, const struct request *req)
{
        if (r->body == BODY_CHUNKED || r->body == BODY_CLOSE)
                return req->version == 10 ? BODY_CLOSE : BODY_CHUNKED;
        return r->body;
}

static void put_answer_framing(struct pen *w, const struct response *r, const struct request *req, enum body_kind how)
{
        bool bodiless = slice_is(req->method, "HEAD") || r->status == 304;

        if (r->status < 200 || r->status == 204)
                return;
        if (how == BODY_CHUNKED)
                PUT(w, "transfer-encoding: chunked\r\n");
        else if (how == BODY_LENGTH)
                put_length(w, r->length);
        else if (how == BODY_NONE && (r->has_length || !bodiless))
                put_length(w, r->has_length ? r->length : 0);
}

static int put_switch(struct pen *w, const struct request *req)
{
        char accept[WS_ACCEPT_TEXT];

        if (req->upgrade != WIRE_UPGRADE_WEBSOCKET || ws_accept(accept, req->ws_key) < 0)
                return -1;
        PUT(w, "upgrade: websocket\r\nconnection: Upgrade\r\n");
        put_field(w, SLICE_LIT("sec-websocket-accept"), slice_str(accept));
        return 0;
}

int response_to_h1(struct buf *b, const struct response *r, const struct request *req, bool keep_alive, enum body_kind *how)
{
        uint16_t status = r->upgraded ? 101 : r->status;
        bool interim = response_is_interim(r);
        struct pen w;

        *how = r->upgraded || interim ? BODY_NONE : answer_body(r, req);
        if (interim && req->version == 10)
                return 0;
        if (!pen_open(&w, b, &r->headers, 0))
                return -1;
        PUT(&w, "HTTP/1.1 ");
        put_number(&w, status);
        PUT(&w, " ");
        put(&w, slice_str(status_phrase(status)));
        PUT(&w, "\r\n");
        for (size_t i = 0; i < r->headers.n; i++)
                put_field(&w, r->headers.at[i].name, r->headers.at[i].value);
        if (r->upgraded) {
                if (put_switch(&w, req) < 0)
                        return -1;
        } else if (!interim) {
                put_answer_framing(&w, r, req, *how);
                if (!keep_alive || *how == BODY_CLOSE)
                        PUT(&w, "connection: close\r\n");
                else if (req->version == 10)
                        PUT(&w, "connection: keep-alive\r\n");
        }
        PUT(&w, "\r\n");
        buf_commit(b, w.n);
        return 0;
}

static const struct {
        uint16_t status;
        const char *phrase;
} phrases[] = {
        { 100, "Continue" }, { 101, "Switching Protocols" }, { 102, "Processing" }, { 103, "Early Hints" },
        { 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 203, "Non-Authoritative Information" }, { 204, "No Content" },
        { 205, "Reset Content" }, { 206, "Partial Content" }, { 207, "Multi-Status" }, { 300, "Multiple Choices" },
        { 301, "Moved Permanently" }, { 302, "Found" }, { 303, "See Other" }, { 304, "Not Modified" }, { 307, "Temporary Redirect" },
        { 308, "Permanent Redirect" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 402, "Payment Required" }, { 403, "Forbidden" },
        { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 406, "Not Acceptable" }, { 407, "Proxy Authentication Required" },
        { 408, "Request Timeout" }, { 409, "Conflict" }, { 410, "Gone" }, { 411, "Length Required" }, { 412, "Precondition Failed" },
        { 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" }, { 416, "Range Not Satisfiable" },
        { 417, "Expectation Failed" }, { 421, "Misdirected Request" }, { 422, "Unprocessable Content" }, { 425, "Too Early" },
        { 426, "Upgrade Required" }, { 428, "Precondition Required" }, { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" }, { 451, "Unavailable For Legal Reasons" }, { 500, "Internal Server Error" },
        { 501, "Not Implemented" }, { 502, "Bad Gateway" }, { 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" }, { 511, "Network Authentication Required" },
};

const char *status_phrase(uint16_t status)
{
        for (size_t i = 0; i < sizeof(phrases) / sizeof(*phrases); i++)
                if (phrases[i].status == status)
                        return phrases[i].phrase;
        return "";
}
