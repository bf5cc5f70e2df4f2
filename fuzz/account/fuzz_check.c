/* The account fields of any request: what is said to be in order uses the placeholder once and no other account, and only such a request gets the secret,
 * once, in place of the placeholder.
 *
 * Input: kind, flags, then lines: path and query, fields. "@" is the placeholder; a value that begins with "~" is sent as Basic base64 of its rest. */
#include "account/basic.h"
#include "account/check.h"
#include "account/swap.h"
#include "accounts.h"

#define SECRET SLICE_LIT("Real+Secret/0123456789")

enum { LINES = 12 };

static struct slice line_next(struct slice *text)
{
        ptrdiff_t end = slice_find(*text, '\n');
        struct slice line = end < 0 ? *text : slice_first(*text, (size_t)end);

        *text = slice_skip(*text, line.n + 1);
        return line;
}

/* "~user:password" → "Basic …" */
static struct slice value_of(struct arena *a, struct slice value)
{
        char *p;

        if (!value.n || value.p[0] != '~')
                return value;
        value = slice_skip(value, 1);
        p = arena_alloc(a, 6 + base64_encoded_bytes(value.n));
        HOLDS(p != NULL);
        memcpy(p, "Basic ", 6);
        return slice_of(p, 6 + base64_encode(value, p + 6));
}

static bool read_request(struct arena *a, struct slice text, struct request *req)
{
        struct header *list = arena_alloc_array(a, LINES, sizeof(*list));

        HOLDS(list != NULL);
        *req = (struct request){ .method = SLICE_LIT("GET"), .scheme = SCHEME_HTTPS, .authority = { .name = SLICE_LIT(FUZZ_HOST), .port = 443 } };
        req->headers.at = list;
        if (path_canonical(a, line_next(&text), &req->target) != WIRE_OK)
                return false;
        while (text.n && req->headers.n < LINES) {
                struct slice name, value, lower;
                bool ok = true;

                if (field_parse(line_next(&text), &name, &value) != WIRE_OK)
                        return false;
                lower = arena_copy(a, name, &ok);
                for (size_t i = 0; i < lower.n; i++)
                        ((uint8_t *)(uintptr_t)lower.p)[i] = ascii_lower(lower.p[i]);
                list[req->headers.n++] = (struct header){ lower, value_of(a, value) };
        }
        return true;
}

/* The head's text, Basic credentials decoded behind it. */
static void flatten(const struct request *req, struct buf *out)
{
        uint8_t store[BASIC_BYTES_MAX];
        size_t n;

        buf_clear(out);
        buf_add_slice(out, req->target.path);
        buf_add_str(out, "?");
        buf_add_slice(out, req->target.query);
        for (size_t i = 0; i < req->headers.n; i++) {
                struct slice v = req->headers.at[i].value;

                buf_add_str(out, "\n");
                buf_add_slice(out, req->headers.at[i].name);
                buf_add_str(out, ": ");
                buf_add_slice(out, v);
                if (slice_is(req->headers.at[i].name, "authorization") && v.n > 6 && slice_iis(slice_first(v, 6), "basic ") && v.n - 6 <= sizeof(store) &&
                    base64_decode(slice_skip(v, 6), store, &n))
                        buf_add(out, store, n);
        }
        HOLDS(!out->failed);
}

static void no_other_account(const struct binding *b, const struct request *req, const struct account_use *u)
{
        struct slice rest = req->target.query, key, value;
        size_t queries = 0;

        for (size_t i = 0; i < req->headers.n; i++)
                HOLDS(b->foreign_ok || i == u->header || !req->headers.at[i].value.n || !account_is_header(req->headers.at[i].name));
        while (query_next(&rest, &key, &value))
                queries += value.n && account_is_query(key);
        HOLDS(b->foreign_ok || queries <= (u->used && u->field.slot == SLOT_QUERY));
}

static void attach(struct arena *a, const struct binding *b, struct request *req)
{
        struct account_use u;
        struct buf flat;

        account_check(b, req, &u);
        HOLDS(u.reason == ACCOUNT_OK && account_strip(a, req) == 0);
        for (size_t i = 0; i < req->headers.n; i++)
                HOLDS(!account_is_header(req->headers.at[i].name));
        if (swap_head(a, b, &u, SECRET, req) < 0)
                return; /* the guest's own query key */
        buf_init(&flat, 0);
        flatten(req, &flat);
        HOLDS(fuzz_count(buf_slice(&flat), SECRET) + fuzz_count(buf_slice(&flat), SLICE_LIT("Real%2BSecret%2F0123456789")) >= 1);
        buf_fini(&flat);
}

static void judge(struct arena *a, const struct binding *b, struct request *req)
{
        struct slice core = placeholder_core(b->placeholder);
        struct account_use u, anonymous;
        struct buf flat;
        size_t before;
        bool ok;

        account_check(NULL, req, &u);
        HOLDS(u.reason == ACCOUNT_OK && !u.used && memchr(u.leak_preview, 0, sizeof(u.leak_preview)));
        account_check_anonymous(req, &anonymous);
        account_check(b, req, &u);
        ok = u.reason == ACCOUNT_OK;
        HOLDS(u.header == SIZE_MAX || u.header < req->headers.n);
        HOLDS(ok || !u.used);
        buf_init(&flat, 0);
        flatten(req, &flat);
        before = fuzz_count(buf_slice(&flat), core);
        if (ok) {
                HOLDS(before <= u.used); /* at most: it may stand there percent-encoded */
                no_other_account(b, req, &u);
        }
        HOLDS((swap_head(a, b, &u, SECRET, req) == 0) == u.used);
        if (u.used) {
                flatten(req, &flat);
                HOLDS(fuzz_count(buf_slice(&flat), core) == 0);
        }
        buf_fini(&flat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        struct fuzz_binding f;
        struct request req;
        struct arena a;
        struct buf text;
        uint8_t flags;

        fuzz_bind(&f, (enum account_kind)(fuzz_byte(&in) % ACCOUNT_KIND_COUNT));
        flags = fuzz_byte(&in);
        f.b.foreign_ok = flags & 1;
        f.b.attach = flags & 2;
        arena_init(&a, 0);
        buf_init(&text, 0);
        if (in.n < 4096 && read_request(&a, fuzz_fill(&text, in, f.b.placeholder), &req)) {
                if (f.b.attach)
                        attach(&a, &f.b, &req);
                else
                        judge(&a, &f.b, &req);
        }
        buf_fini(&text);
        arena_wipe(&a);
        arena_fini(&a);
        return 0;
}
