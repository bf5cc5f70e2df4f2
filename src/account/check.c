/* Whose account does a request use: see check.h.
 *
 * Every place of the head is looked at once: each header (of Basic credentials the decoded text too), each query pair, path, names. The placeholder is
 * looked for by its core, whatever the case, percent-encoded or not; in a field of its own it must be the whole content, byte for byte. */
#include "account/account_priv.h"

#include "account/placeholder.h"

#include <stdint.h>

static const char *const sentences[ACCOUNT_REASON_COUNT] = {
        [ACCOUNT_OK] = "the account fields are in order",
        [ACCOUNT_FOREIGN] = "it uses an account that is not this workspace's",
        [ACCOUNT_WRONG_FIELD] = "the placeholder stands in a field that is not its own",
        [ACCOUNT_TWICE] = "the placeholder stands in it more than once",
        [ACCOUNT_CLEARTEXT] = "the placeholder is good over https to its own host and port only",
        [ACCOUNT_UPGRADE] = "the placeholder cannot be used on a request that asks for another protocol",
        [ACCOUNT_UNDECODABLE] = "its Basic credentials are not base64 of user:password",
        [ACCOUNT_OTHER_USER] = "its Basic credentials name another user than the credential's `user`",
        [ACCOUNT_NOT_ANONYMOUS] = "the rule allows anonymous requests only, and it carries an account field",
};

const char *account_reason_sentence(enum account_reason r) { return (size_t)r < ACCOUNT_REASON_COUNT ? sentences[r] : "unknown"; }

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

struct authorization authorization_split(struct slice value)
{
        struct authorization a = { .rest = value };
        ptrdiff_t blank = slice_find(value, ' ');

        if (blank < 0)
                return a;
        a.scheme = slice_first(value, (size_t)blank);
        a.rest = slice_skip(value, (size_t)blank + 1);
        a.basic = slice_iis(a.scheme, "basic");
        return a;
}

static int hex_value(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at *i, %XX decoded; *i moves behind it. */
static uint8_t decoded_byte(struct slice s, size_t *i)
{
        uint8_t c = s.p[(*i)++];
        int hi, lo;

        if (c != '%' || s.n - *i < 2)
                return c;
        hi = hex_value(s.p[*i]);
        lo = hex_value(s.p[*i + 1]);
        if (hi < 0 || lo < 0)
                return c;
        *i += 2;
        return (uint8_t)(hi << 4 | lo);
}

bool encoded_is(struct slice s, struct slice plain, bool fold)
{
        size_t i = 0, n = 0;

        while (i < s.n) {
                uint8_t c = decoded_byte(s, &i);

                if (n == plain.n || (fold ? ascii_lower(c) != ascii_lower(plain.p[n]) : c != plain.p[n]))
                        return false;
                n++;
        }
        return n == plain.n;
}

/* Does what begins at s decode to the core, whatever the case? */
static bool core_at(struct slice s, struct slice core)
{
        size_t i = 0;

        for (size_t n = 0; n < core.n; n++)
                if (i == s.n || ascii_lower(decoded_byte(s, &i)) != ascii_lower(core.p[n]))
                        return false;
        return true;
}

/* A text that is shorter than the core cannot hold it, however it is spelt. */
static size_t count_core(struct slice s, struct slice core)
{
        uint8_t first = core.n ? ascii_lower(core.p[0]) : 0;
        size_t count = 0;

        if (!core.n || s.n < core.n)
                return 0;
        for (size_t i = 0; i <= s.n - core.n; i++)
                if (s.p[i] == '%' || ascii_lower(s.p[i]) == first)
                        count += core_at(slice_skip(s, i), core);
        return count;
}

/* ---- fields of its own -------------------------------------------------------------------------------------------------------------- */

static bool basic_other_side_ok(struct slice other)
{
        size_t show;
        return other.n <= 128 && token_class(other, &show) == NULL; /* a second key beside ours is somebody else's */
}

/* SECURITY: where the credential says whose it is, it is that one's: a name is an account too, and a token may be good for several. */
static bool placed_in_basic(const struct binding *b, struct slice encoded, struct placed *p)
{
        uint8_t store[BASIC_BYTES_MAX];
        struct slice user, password;

        if (!basic_decode(encoded, store, &user, &password))
                return false;
        p->user_side = !slice_eq(password, b->placeholder);
        if (p->user_side && (!slice_eq(user, b->placeholder) || (password.n && !slice_is(password, "x-oauth-basic"))))
                return false;
        if (!p->user_side && (slice_eq(user, b->placeholder) || !basic_other_side_ok(user)))
                return false;
        p->other_user = b->user.n && !slice_eq(user, b->user);
        return !p->other_user;
}

static bool placed_in_slot(const struct binding *b, const struct account_field *f, const struct header *h, struct placed *p)
{
        struct authorization a;

        if (f->slot == SLOT_HEADER)
                return slice_eq(h->name, f->name) && slice_eq(h->value, b->placeholder);
        if ((f->slot != SLOT_AUTHORIZATION && f->slot != SLOT_BASIC) || !slice_is(h->name, "authorization"))
                return false;
        a = authorization_split(h->value);
        if (f->slot == SLOT_BASIC)
                return a.basic && placed_in_basic(b, a.rest, p);
        return !a.basic && slice_eq(a.rest, b->placeholder) && (a.scheme.n == 0 ? slice_eq(h->value, a.rest) : field_is_token(a.scheme));
}

bool placed_in_header(const struct binding *b, const struct header *h, struct placed *p)
{
        bool other_user = false;

        for (size_t i = 0; b->placeholder.n && i < b->field_count; i++) {
                *p = (struct placed){ .field = b->fields[i] };
                if (placed_in_slot(b, &b->fields[i], h, p))
                        return true;
                other_user = other_user || p->other_user;
        }
        p->other_user = other_user;
        return false;
}

bool placed_in_query(const struct binding *b, struct slice key, struct slice value, struct account_field *f)
{
        for (size_t i = 0; b->placeholder.n && i < b->field_count; i++) {
                *f = b->fields[i];
                if (f->slot == SLOT_QUERY && encoded_is(key, f->name, true) && encoded_is(value, b->placeholder, false))
                        return true;
        }
        return false;
}

/* ---- the judgement ------------------------------------------------------------------------------------------------------------------ */

bool account_in_protocols(const struct header *h)
{
        static const char *const words[] = { "api-key", "bearer", "authorization", "token" };
        struct slice rest = h->value, element;
        size_t show;

        if (!slice_is(h->name, "sec-websocket-protocol"))
                return false;
        while (list_next(&rest, &element))
                if (token_class(element, &show))
                        return true;
        for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++)
                for (size_t i = 0, n = strlen(words[w]); i + n <= h->value.n; i++)
                        if (slice_iis(slice_of(h->value.p + i, n), words[w]))
                                return true;
        return false;
}

struct judge {
        const struct binding *b;
        const struct request *req;
        struct account_use *u;
        struct slice core;
        size_t found;    /* occurrences of the placeholder */
        bool used;       /* one of them is in a field of its own */
        struct account_field own;
        size_t own_header;
        bool misplaced;  /* one of them is not in a field of its own; it stands in `where` */
        struct account_field where;
        size_t where_header;
        bool other_user; /* it is in its own field, but for the user name beside it */
};

static void refuse(struct judge *j, enum account_reason why, struct account_field field, size_t header)
{
        if (j->u->reason != ACCOUNT_OK)
                return;
        j->u->reason = why;
        j->u->field = field;
        j->u->header = header;
}

static void misplace(struct judge *j, struct account_field field, size_t header)
{
        if (!j->misplaced) {
                j->where = field;
                j->where_header = header;
        }
        j->misplaced = true;
}

static void use(struct judge *j, struct account_field field, size_t header)
{
        if (j->used)
                return;
        j->used = true;
        j->own = field;
        j->own_header = header;
}

static bool declared(const struct binding *b, enum account_slot slot, struct slice name)
{
        for (size_t i = 0; i < b->field_count; i++)
                if (b->fields[i].slot == slot && (slot == SLOT_HEADER ? account_same_header(name, b->fields[i].name) : account_same_query(name, b->fields[i].name)))
                        return true;
        return false;
}

/* How often it stands in Basic credentials; refuses what cannot be read. */
static size_t count_basic(struct judge *j, const struct header *h, struct account_field field, size_t header)
{
        struct authorization a = authorization_split(h->value);
        uint8_t store[BASIC_BYTES_MAX];
        struct slice user, password;

        if (!a.basic)
                return 0;
        field.slot = SLOT_BASIC;
        if (!basic_decode(a.rest, store, &user, &password)) {
                refuse(j, ACCOUNT_UNDECODABLE, field, header);
                return 0;
        }
        return count_core(user, j->core) + count_core(password, j->core);
}

static void judge_header(struct judge *j, size_t i)
{
        const struct header *h = &j->req->headers.at[i];
        bool authorization = slice_is(h->name, "authorization");
        struct account_field field = { .slot = authorization ? SLOT_AUTHORIZATION : SLOT_HEADER, .name = authorization ? SLICE_EMPTY : h->name };
        struct placed p = { .other_user = false };
        size_t hits = count_core(h->value, j->core) + count_core(h->name, j->core);

        if (authorization || slice_is(h->name, "proxy-authorization"))
                hits += count_basic(j, h, field, i);
        j->found += hits;
        if (hits && placed_in_header(j->b, h, &p))
                use(j, p.field, i);
        else if (hits) {
                misplace(j, field, i);
                j->other_user = j->other_user || p.other_user;
        } else if (!j->b->foreign_ok && h->value.n && (account_is_header(h->name) || declared(j->b, SLOT_HEADER, h->name) || account_in_protocols(h)))
                refuse(j, ACCOUNT_FOREIGN, field, i);
}

static void judge_query(struct judge *j, struct slice key, struct slice value)
{
        struct account_field field = { .slot = SLOT_QUERY, .name = key }, own;
        size_t hits = count_core(key, j->core) + count_core(value, j->core);

        j->found += hits;
        if (hits && placed_in_query(j->b, key, value, &own))
                use(j, own, SIZE_MAX);
        else if (hits)
                misplace(j, field, SIZE_MAX);
        else if (!j->b->foreign_ok && value.n && (account_is_query(key) || declared(j->b, SLOT_QUERY, key)))
                refuse(j, ACCOUNT_FOREIGN, field, SIZE_MAX);
}

/* The places that are never a field of anybody's. */
static void judge_rest(struct judge *j)
{
        struct account_field path = { .slot = SLOT_COUNT };
        size_t hits = count_core(j->req->target.path, j->core) + count_core(j->req->protocol, j->core) + count_core(j->req->method, j->core);

        j->found += hits;
        if (hits)
                misplace(j, path, SIZE_MAX);
}

static bool upgrade_ok(const struct request *req) { return req->upgrade == WIRE_UPGRADE_NONE || req->upgrade == WIRE_UPGRADE_WEBSOCKET; }

/* The placeholder was found: is this request one on which it may be used? */
static void judge_use(struct judge *j)
{
        const struct request *req = j->req;
        struct account_field field = j->misplaced ? j->where : j->own;
        size_t header = j->misplaced ? j->where_header : j->own_header;

        if (j->found > 1)
                refuse(j, ACCOUNT_TWICE, field, header);
        else if (j->misplaced)
                refuse(j, j->other_user ? ACCOUNT_OTHER_USER : ACCOUNT_WRONG_FIELD, field, header);
        if (req->scheme != SCHEME_HTTPS || req->authority.is_addr || !binding_covers(j->b, req->authority.name, req->authority.port))
                refuse(j, ACCOUNT_CLEARTEXT, field, header);
        if (!upgrade_ok(req))
                refuse(j, ACCOUNT_UPGRADE, field, header);
        if (j->u->reason != ACCOUNT_OK)
                return;
        j->u->used = true;
        j->u->field = field;
        j->u->header = header;
}

/* Every account field that the guest sent is going to be stripped; what remains to be judged is whether the account may be used here. */
static void judge_attach(const struct binding *b, const struct request *req, struct account_use *u)
{
        u->used = true;
        u->field = (struct account_field){ .slot = SLOT_COUNT };
        for (size_t i = 0; i < b->field_count && u->field.slot == SLOT_COUNT; i++)
                if (b->fields[i].slot != SLOT_BODY && b->fields[i].slot != SLOT_WEBSOCKET)
                        u->field = b->fields[i];
        if (req->scheme != SCHEME_HTTPS) /* the host is compared where it is written (swap_head): a rule may re-route it until then */
                u->reason = ACCOUNT_CLEARTEXT;
        else if (!upgrade_ok(req))
                u->reason = ACCOUNT_UPGRADE;
}

void account_check(const struct binding *b, const struct request *req, struct account_use *u)
{
        struct judge j = { .b = b, .req = req, .u = u, .where_header = SIZE_MAX };
        struct slice rest = req->target.query, key, value;

        *u = (struct account_use){ .header = SIZE_MAX, .field = { .slot = SLOT_COUNT } };
        if (!b) {
                leak_find(req, u);
                return;
        }
        if (b->attach) {
                judge_attach(b, req, u);
                return;
        }
        j.core = placeholder_core(b->placeholder);
        if (!j.core.n)
                j.core = b->placeholder;
        for (size_t i = 0; i < req->headers.n; i++)
                judge_header(&j, i);
        while (query_next(&rest, &key, &value))
                judge_query(&j, key, value);
        judge_rest(&j);
        if (j.found)
                judge_use(&j);
}

void account_check_anonymous(const struct request *req, struct account_use *u)
{
        struct slice rest = req->target.query, key, value;
        struct judge j = { .req = req, .u = u };

        *u = (struct account_use){ .header = SIZE_MAX, .field = { .slot = SLOT_COUNT } };
        for (size_t i = 0; i < req->headers.n; i++) {
                const struct header *h = &req->headers.at[i];
                bool authorization = slice_is(h->name, "authorization");
                struct account_field field = { .slot = authorization ? SLOT_AUTHORIZATION : SLOT_HEADER, .name = authorization ? SLICE_EMPTY : h->name };

                if (h->value.n && (account_is_header(h->name) || account_in_protocols(h)))
                        refuse(&j, ACCOUNT_NOT_ANONYMOUS, field, i);
        }
        while (query_next(&rest, &key, &value))
                if (value.n && account_is_query(key))
                        refuse(&j, ACCOUNT_NOT_ANONYMOUS, (struct account_field){ .slot = SLOT_QUERY, .name = key }, SIZE_MAX);
}

/* ---- attach: what the guest sent is taken out ------------------------------------------------------------------------------------------ */

static int strip_query(struct arena *a, struct request *req)
{
        struct slice rest = req->target.query, key, value;
        bool any = false;
        uint8_t *kept;
        size_t n = 0;

        while (query_next(&rest, &key, &value))
                any = any || account_is_query(key);
        if (!any)
                return 0;
        kept = arena_alloc(a, req->target.query.n);
        if (!kept)
                return -1;
        rest = req->target.query;
        while (query_next(&rest, &key, &value)) {
                /* the pair as it stands: key and value borrow from the query, side by side */
                size_t pair = value.p ? (size_t)(value.p + value.n - key.p) : key.n;

                if (account_is_query(key))
                        continue;
                if (n)
                        kept[n++] = key.p[-1]; /* "&" or ";", whichever stood there */
                memcpy(kept + n, key.p, pair);
                n += pair;
        }
        req->target.query = slice_of(kept, n);
        req->target.has_query = n > 0;
        req->target.changed = true;
        return 0;
}

int account_strip(struct arena *a, struct request *req)
{
        size_t n = 0;

        if (strip_query(a, req) < 0)
                return -1;
        for (size_t i = 0; i < req->headers.n; i++) {
                const struct header *h = &req->headers.at[i];

                if (!account_is_header(h->name) && !account_in_protocols(h))
                        req->headers.at[n++] = *h;
        }
        req->headers.n = n;
        return 0;
}
