/* Canonical messages: head → request → HTTP/1.1 → request, and → HTTP/2 → request, are the identity; the same for answers. What is
 * written is always readable by our own strict reader: nothing can be smuggled through the struct. */
#include "fuzz_wire.h"
#include "wire/response.h"

static const struct authority place = { .name = { (const uint8_t *)"a.example", 9 }, .port = 443 };
static const struct request_flow flow = { .scheme = SCHEME_HTTPS, .to = &place, .to_n = 1 };

static bool head_of(struct arena *a, bool request, struct slice text, struct h1_head *h, size_t *used)
{
        struct h1_reader r;
        enum wire_reason why;

        h1_reader_init(&r, request);
        return h1_read(&r, text, a, h, used, &why) == WIRE_DONE;
}

static bool same_fields(const struct headers *a, const struct headers *b)
{
        if (a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n; i++)
                if (!slice_eq(a->at[i].name, b->at[i].name) || !slice_eq(a->at[i].value, b->at[i].value))
                        return false;
        return true;
}

static bool same_request(const struct request *a, const struct request *b)
{
        return slice_eq(a->method, b->method) && a->scheme == b->scheme && authority_eq(&a->authority, &b->authority) &&
               slice_eq(a->target.path, b->target.path) && slice_eq(a->target.query, b->target.query) &&
               a->target.has_query == b->target.has_query && a->body == b->body && (a->body != BODY_LENGTH || a->length == b->length) &&
               a->upgrade == b->upgrade && a->override == b->override && a->te_trailers == b->te_trailers && same_fields(&a->headers, &b->headers);
}

static bool too_large(enum wire_reason why) { return why == WIRE_TOO_MANY_FIELDS || why == WIRE_HEAD_TOO_LARGE; }

static void check_request(struct arena *a, const struct request *r)
{
        struct request again;
        struct headers block;
        struct h1_head h;
        struct buf b;
        size_t used;
        bool end = r->body == BODY_NONE && r->upgrade == WIRE_UPGRADE_NONE;
        struct request_flow link = { .link = true };
        enum wire_reason why;

        buf_init(&b, 0);
        if (request_to_h1(&b, r, true) == 0) {
                /* Only growth beyond a limit (an authority moved from the target, a joined cookie) may make it unreadable. */
                if (head_of(a, true, buf_slice(&b), &h, &used)) {
                        HOLDS(used == buf_len(&b));
                        HOLDS(request_from_h1(a, &h, &flow, &again) == WIRE_OK);
                        HOLDS(same_request(r, &again));
                } else {
                        HOLDS(buf_len(&b) > 8000 || r->headers.n + 8 > FIELDS_MAX);
                }
        } else {
                HOLDS(r->upgrade != WIRE_UPGRADE_NONE);
        }
        buf_fini(&b);
        if (r->upgrade == WIRE_UPGRADE_OTHER) /* an HTTP/1.1 Upgrade is not written on */
                return;
        HOLDS(request_to_h2(a, r, true, &block) == WIRE_OK);
        why = request_from_h2(a, &block, end, &link, &again);
        HOLDS(why == WIRE_OK ? same_request(r, &again) : too_large(why) && r->headers.n > FIELDS_MAX);
}

static void check_response(struct arena *a, const struct response *r, const struct request *req)
{
        struct response again;
        struct headers block;
        struct h1_head h;
        struct buf b;
        enum body_kind how;
        size_t used;
        enum wire_reason why;

        buf_init(&b, 0);
        if (response_to_h1(&b, r, req, true, &how) == 0 && buf_len(&b)) {
                if (head_of(a, false, buf_slice(&b), &h, &used)) {
                        HOLDS(used == buf_len(&b));
                        HOLDS(response_from_h1(a, &h, req, &again) == WIRE_OK);
                        HOLDS(again.status == r->status && again.body == how && same_fields(&r->headers, &again.headers));
                } else {
                        HOLDS(r->headers.n + 8 > FIELDS_MAX || buf_len(&b) > 8000);
                }
        }
        buf_fini(&b);
        HOLDS(response_to_h2(a, r, &block) == WIRE_OK);
        why = response_from_h2(a, &block, false, req, false, &again);
        HOLDS(why == WIRE_OK ? again.status == (r->upgraded ? 200 : r->status) && same_fields(&r->headers, &again.headers) : too_large(why));
}

/* The input's lines "name:value" as an HTTP/2 block. */
static void check_block(struct arena *a, struct slice in, bool end_stream)
{
        struct header at[BLOCK_FIELDS_MAX];
        struct headers block = { at, 0 };
        struct request r;
        struct request_flow link = { .link = true };

        while (in.n && block.n < BLOCK_FIELDS_MAX) {
                ptrdiff_t nl = slice_find(in, '\n');
                struct slice line = nl < 0 ? in : slice_first(in, (size_t)nl);
                ptrdiff_t colon = line.n > 1 ? slice_find(slice_skip(line, 1), ':') : -1;

                in = slice_skip(in, line.n + 1);
                at[block.n++] = (struct header){ slice_first(line, colon < 0 ? line.n : (size_t)colon + 1),
                                                 colon < 0 ? SLICE_EMPTY : slice_skip(line, (size_t)colon + 2) };
        }
        if (request_from_h2(a, &block, end_stream, &flow, &r) == WIRE_OK) {
                if (r.upgrade == WIRE_UPGRADE_WEBSOCKET)
                        r.ws_key = SLICE_LIT("dGhlIHNhbXBsZSBub25jZQ==");
                check_request(a, &r);
        }
        if (request_from_h2(a, &block, end_stream, &link, &r) == WIRE_OK)
                HOLDS(r.authority.port != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in);
        struct arena a;
        struct h1_head h;
        struct request r;
        struct response s;
        struct request req = { .method = control & 4 ? SLICE_LIT("HEAD") : SLICE_LIT("GET"), .version = 11, .keep_alive = true,
                               .upgrade = control & 8 ? WIRE_UPGRADE_WEBSOCKET : WIRE_UPGRADE_NONE, .ws_key = SLICE_LIT("dGhlIHNhbXBsZSBub25jZQ==") };
        size_t used;

        arena_init(&a, 16u << 20);
        if (control & 2)
                check_block(&a, in, control & 1);
        else if (head_of(&a, control & 1, in, &h, &used)) {
                if (control & 1 && request_from_h1(&a, &h, &flow, &r) == WIRE_OK)
                        check_request(&a, &r);
                if (!(control & 1) && response_from_h1(&a, &h, &req, &s) == WIRE_OK)
                        check_response(&a, &s, &req);
        }
        arena_fini(&a);
        return 0;
}
