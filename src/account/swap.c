/* Substitution: see swap.h.
 *
 * The one idea: what is written is derived anew from the binding and the field as it stands now, so a use that was judged on another request than the one at
 * hand puts the secret nowhere. Bytes are copied; nothing is formatted. Every copy of the secret stands in the caller's arena or buffer, which it wipes;
 * what is needed in between is wiped here. */
#include "account/swap.h"

#include "account/account_priv.h"
#include "account/mask.h"
#include "account/placeholder.h"

static bool visible(struct slice s, bool blanks)
{
        for (size_t i = 0; i < s.n; i++)
                if ((s.p[i] <= ' ' && !(blanks && s.p[i] == ' ')) || s.p[i] >= 0x7f)
                        return false;
        return !s.n || (s.p[0] != ' ' && s.p[s.n - 1] != ' ');
}

static bool has_any(struct slice s, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (slice_find(s, (uint8_t)bytes[i]) >= 0)
                        return true;
        return false;
}

const char *secret_problem(enum account_kind kind, struct slice secret)
{
        bool encoded = kind == ACCOUNT_BASIC || kind == ACCOUNT_REGISTRY; /* travels in base64: a service account's JSON key may */

        if (secret.n == 0)
                return "it is empty";
        if (secret.n < MASK_SECRET_BYTES_MIN)
                return "it is shorter than 8 characters, too short to be found again in answers";
        if (secret.n > SECRET_BYTES_MAX)
                return "it is larger than 16 KiB";
        if (placeholder_ok(secret))
                return "it is a placeholder, not a secret";
        if (has_any(secret, "\0", 1))
                return "there is a NUL in it";
        if (encoded)
                return NULL;
        if (has_any(secret, "\r\n", 2))
                return "there is a line break in it";
        if (!visible(secret, kind == ACCOUNT_HEADER))
                return "there is a blank, a control character or a character that is not ASCII in it, which its fields cannot carry";
        return NULL;
}

/* ---- the head ------------------------------------------------------------------------------------------------------------------------- */

struct pieces {
        struct slice at[5];
        size_t n;
};

/* The pieces one after the other, in the arena. */
static int join(struct arena *a, const struct pieces *ps, struct slice *out)
{
        size_t n = 0, total = 0;
        uint8_t *p;

        for (size_t i = 0; i < ps->n; i++)
                total += ps->at[i].n;
        p = arena_alloc(a, total ? total : 1);
        if (!p)
                return -1;
        for (size_t i = 0; i < ps->n; i++) {
                if (ps->at[i].n)
                        memcpy(p + n, ps->at[i].p, ps->at[i].n);
                n += ps->at[i].n;
        }
        *out = slice_of(p, n);
        return 0;
}

/* "Basic " and base64 of user ":" password. */
static int basic_value(struct arena *a, struct slice user, struct slice password, struct slice *out)
{
        struct pieces ps = { .at = { user, SLICE_LIT(":"), password }, .n = 3 };
        static const char word[] = "Basic ";
        size_t at = sizeof(word) - 1;
        struct slice plain;
        char *p;

        if (slice_find(user, ':') >= 0 || join(a, &ps, &plain) < 0)
                return -1;
        p = arena_alloc(a, at + base64_encoded_bytes(plain.n));
        if (p) {
                memcpy(p, word, at);
                *out = slice_of(p, at + base64_encode(plain, p + at));
        }
        explicit_bzero((void *)(uintptr_t)plain.p, plain.n);
        return p ? 0 : -1;
}

/* Writes a byte percent-encoded where it has to be (RFC 3986 §2.3); at most three. */
static size_t percent_byte(uint8_t c, uint8_t out[3])
{
        static const char hex[] = "0123456789ABCDEF";

        if ((c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || (c && strchr("-._~", c))) {
                out[0] = c;
                return 1;
        }
        out[0] = '%';
        out[1] = (uint8_t)hex[c >> 4];
        out[2] = (uint8_t)hex[c & 15];
        return 3;
}

static int percent_value(struct arena *a, struct slice secret, struct slice *out)
{
        uint8_t *p = arena_alloc(a, 3 * secret.n);
        size_t n = 0;

        if (!p)
                return -1;
        for (size_t i = 0; i < secret.n; i++)
                n += percent_byte(secret.p[i], p + n);
        *out = slice_of(p, n);
        return 0;
}

/* The value of Authorization in which the placeholder's place is taken. */
static int authorization_value(struct arena *a, const struct placed *p, struct slice present, struct slice secret, struct slice *out)
{
        struct authorization was = authorization_split(present);
        struct pieces ps = { .at = { was.scheme, was.scheme.n ? SLICE_LIT(" ") : SLICE_EMPTY, secret }, .n = 3 };
        uint8_t store[BASIC_BYTES_MAX];
        struct slice user, password;

        if (p->field.slot == SLOT_AUTHORIZATION)
                return visible(secret, false) ? join(a, &ps, out) : -1;
        if (!basic_decode(was.rest, store, &user, &password))
                return -1;
        return p->user_side ? basic_value(a, secret, password, out) : basic_value(a, user, secret, out);
}

static int swap_header(struct arena *a, const struct binding *b, const struct account_use *u, struct slice secret, struct request *req)
{
        struct header *h;
        struct placed p;
        struct pieces whole = { .at = { secret }, .n = 1 };
        struct slice value;
        int rc;

        if (u->header >= req->headers.n)
                return -1;
        h = &req->headers.at[u->header];
        if (!placed_in_header(b, h, &p) || p.field.slot != u->field.slot)
                return -1;
        if (p.field.slot == SLOT_HEADER)
                rc = visible(secret, true) ? join(a, &whole, &value) : -1;
        else
                rc = authorization_value(a, &p, h->value, secret, &value);
        if (rc == 0)
                h->value = value;
        return rc;
}

/* The query with the value of that pair replaced. */
static int swap_query(struct arena *a, const struct binding *b, struct slice secret, struct request *req)
{
        struct slice query = req->target.query, rest = query, key, value, encoded;
        struct account_field f;

        while (query_next(&rest, &key, &value)) {
                struct pieces ps;
                size_t before;

                if (!placed_in_query(b, key, value, &f))
                        continue;
                if (percent_value(a, secret, &encoded) < 0)
                        return -1;
                before = (size_t)(value.p - query.p);
                ps = (struct pieces){ .at = { slice_first(query, before), encoded, slice_skip(query, before + value.n) }, .n = 3 };
                return join(a, &ps, &req->target.query);
        }
        return -1;
}

/* ---- attach --------------------------------------------------------------------------------------------------------------------------- */

/* Sets the header, in place of any that the guest gave that name. */
static int set_header(struct arena *a, struct request *req, struct slice name, struct slice value)
{
        struct header *list = arena_alloc_array(a, req->headers.n + 1 + HEADERS_SPARE, sizeof(*list));
        size_t n = 0;

        if (!list)
                return -1;
        for (size_t i = 0; i < req->headers.n; i++)
                if (!account_same_header(req->headers.at[i].name, name))
                        list[n++] = req->headers.at[i];
        list[n++] = (struct header){ name, value };
        req->headers = (struct headers){ list, n };
        return 0;
}

static int attach_query(struct arena *a, struct slice name, struct slice secret, struct request *req)
{
        struct slice rest = req->target.query, key, value, encoded;
        struct pieces ps;

        while (query_next(&rest, &key, &value))
                if (account_same_query(key, name))
                        return -1; /* the guest's own would stand beside it, and origins differ in which they take */
        if (percent_value(a, secret, &encoded) < 0)
                return -1;
        ps = (struct pieces){ .at = { req->target.query, req->target.query.n ? SLICE_LIT("&") : SLICE_EMPTY, name, SLICE_LIT("="), encoded }, .n = 5 };
        if (join(a, &ps, &req->target.query) < 0)
                return -1;
        req->target.has_query = true;
        return 0;
}

static struct slice attach_user(const struct binding *b)
{
        const char *of_kind = kind_row(b->kind)->user;
        return b->user.n ? b->user : of_kind ? slice_str(of_kind) : SLICE_EMPTY;
}

static int swap_attach(struct arena *a, const struct binding *b, const struct account_field *f, struct slice secret, struct request *req)
{
        bool bare = b->kind == ACCOUNT_CARGO; /* cargo's registries want it without a scheme word */
        struct pieces ps = { .at = { bare ? SLICE_EMPTY : SLICE_LIT("Bearer "), secret }, .n = 2 };
        struct slice value;

        if (f->slot == SLOT_QUERY)
                return attach_query(a, f->name, secret, req);
        if (f->slot == SLOT_BASIC)
                return basic_value(a, attach_user(b), secret, &value) < 0 ? -1 : set_header(a, req, SLICE_LIT("authorization"), value);
        if (f->slot == SLOT_HEADER)
                ps = (struct pieces){ .at = { secret }, .n = 1 };
        else if (f->slot != SLOT_AUTHORIZATION)
                return -1;
        if (!visible(secret, f->slot == SLOT_HEADER) || join(a, &ps, &value) < 0)
                return -1;
        return set_header(a, req, f->slot == SLOT_HEADER ? f->name : SLICE_LIT("authorization"), value);
}

int swap_head(struct arena *a, const struct binding *b, const struct account_use *u, struct slice secret, struct request *req)
{
        if (u->reason != ACCOUNT_OK || !u->used || secret_problem(b->kind, secret))
                return -1;
        /* SECURITY: whoever judged it, the secret goes over https to a host of the binding, or nowhere. */
        if (req->scheme != SCHEME_HTTPS || req->authority.is_addr || !binding_covers(b, req->authority.name, req->authority.port))
                return -1;
        if (b->attach)
                return swap_attach(a, b, &u->field, secret, req);
        if (u->field.slot == SLOT_QUERY)
                return swap_query(a, b, secret, req);
        return swap_header(a, b, u, secret, req);
}

/* ---- bodies and WebSocket messages ------------------------------------------------------------------------------------------------------- */

void swap_begin(struct swap_stream *s, const struct binding *b, struct slice secret, bool json)
{
        struct slice x = b->placeholder;

        *s = (struct swap_stream){ .b = b, .secret = secret, .json = json };
        /* Knuth–Morris–Pratt: how much of a possible match is left when the next byte does not fit. */
        for (size_t i = 1, k = 0; i < x.n && i < sizeof(s->back); i++) {
                while (k && x.p[i] != x.p[k])
                        k = s->back[k - 1];
                k += x.p[i] == x.p[k];
                s->back[i] = (uint8_t)k;
        }
}

/* Writes a byte as it stands in a JSON string; at most six. */
static size_t json_byte(uint8_t c, uint8_t out[6])
{
        static const char hex[] = "0123456789abcdef";

        if (c >= 0x20 && c != '"' && c != '\\') {
                out[0] = c;
                return 1;
        }
        out[0] = '\\';
        out[1] = c;
        if (c >= 0x20)
                return 2;
        memcpy(out + 1, "u00", 3);
        out[4] = (uint8_t)hex[c >> 4];
        out[5] = (uint8_t)hex[c & 15];
        return 6;
}

static int add_secret(const struct swap_stream *s, struct buf *out)
{
        uint8_t *p;
        size_t n = 0;

        if (!s->json && !s->form)
                return buf_add_slice(out, s->secret);
        p = buf_reserve(out, 6 * s->secret.n);
        if (!p)
                return -1;
        for (size_t i = 0; i < s->secret.n; i++)
                n += s->json ? json_byte(s->secret.p[i], p + n) : percent_byte(s->secret.p[i], p + n);
        buf_commit(out, n);
        return 0;
}

/* The whole placeholder was read. */
static int swap_found(struct swap_stream *s, struct buf *out)
{
        if (s->done)
                return ACCOUNT_TWICE;
        s->done = true;
        s->held = 0;
        return add_secret(s, out);
}

/* Takes one byte that may go on or begin a match. */
static int swap_byte(struct swap_stream *s, uint8_t c, struct buf *out)
{
        struct slice x = s->b->placeholder;

        while (s->held && c != x.p[s->held]) {
                size_t left = s->back[s->held - 1];

                if (buf_add(out, x.p, s->held - left) < 0)
                        return -1;
                s->held = left;
        }
        if (c != x.p[s->held])
                return buf_add(out, &c, 1);
        s->held++;
        return s->held == x.n ? swap_found(s, out) : ACCOUNT_OK;
}

int swap_feed(struct swap_stream *s, struct slice in, bool last, struct buf *out)
{
        struct slice x = s->b->placeholder;

        if (x.n == 0 || x.n > sizeof(s->back))
                return buf_add_slice(out, in);
        while (in.n) {
                ptrdiff_t first = s->held ? 0 : slice_find(in, x.p[0]);
                size_t plain = first < 0 ? in.n : (size_t)first;
                int rc;

                if (plain && buf_add(out, in.p, plain) < 0)
                        return -1;
                in = slice_skip(in, plain);
                if (!in.n)
                        break;
                rc = swap_byte(s, in.p[0], out);
                if (rc != ACCOUNT_OK)
                        return rc;
                in = slice_skip(in, 1);
        }
        if (last && s->held) {
                if (buf_add(out, x.p, s->held) < 0)
                        return -1;
                s->held = 0;
        }
        return ACCOUNT_OK;
}
