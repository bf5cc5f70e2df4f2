/* Header fields: the table of names that mean something to us, and the strict reader of one field line. */
#include "wire/field.h"

#include "base/override.h"
#include "wire/wire_priv.h"

enum { FIELD_NAME_LONGEST = 25, FIELD_NAMES_A_LENGTH = 4 };

struct field_row {
        const char *name;
        uint8_t role, flags;
};

/* By length, so that a look-up compares with a handful of names at most. */
#define HOP FIELD_HOP | FIELD_NO_TRAILER
#define NOT FIELD_NO_TRAILER
#define KEEP FIELD_NO_NOMINATE | FIELD_NO_TRAILER
static const struct field_row rows[FIELD_NAME_LONGEST + 1][FIELD_NAMES_A_LENGTH] = {
        [2] = { { "te", ROLE_TE, HOP } },
        [3] = { { "age", ROLE_PLAIN, NOT } },
        [4] = { { "host", ROLE_HOST, KEEP | FIELD_FRAMING }, { "date", ROLE_PLAIN, NOT }, { "vary", ROLE_PLAIN, NOT } },
        [5] = { { "range", ROLE_PLAIN, NOT } },
        [6] = { { "cookie", ROLE_COOKIE, KEEP }, { "expect", ROLE_EXPECT, KEEP }, { "pragma", ROLE_PLAIN, NOT } },
        [7] = { { "upgrade", ROLE_UPGRADE, HOP | FIELD_NO_H2 | FIELD_FRAMING }, { "trailer", ROLE_PLAIN, NOT }, { "expires", ROLE_PLAIN, NOT } },
        [8] = { { "if-match", ROLE_PLAIN, NOT }, { "if-range", ROLE_PLAIN, NOT }, { "location", ROLE_PLAIN, NOT } },
        [10] = { { "connection", ROLE_CONNECTION, HOP | FIELD_NO_H2 | FIELD_FRAMING },
                 { "keep-alive", ROLE_DROP, HOP | FIELD_NO_H2 },
                 { "set-cookie", ROLE_PLAIN, KEEP } },
        [11] = { { "retry-after", ROLE_PLAIN, NOT } },
        [12] = { { "content-type", ROLE_PLAIN, KEEP }, { "max-forwards", ROLE_PLAIN, NOT } },
        [13] = { { "authorization", ROLE_PLAIN, KEEP }, { "cache-control", ROLE_PLAIN, KEEP }, { "content-range", ROLE_PLAIN, KEEP },
                 { "if-none-match", ROLE_PLAIN, NOT } },
        [14] = { { "content-length", ROLE_LENGTH, KEEP | FIELD_FRAMING }, { "http2-settings", ROLE_DROP, HOP } },
        [16] = { { "content-encoding", ROLE_PLAIN, KEEP }, { "proxy-connection", ROLE_DROP, HOP | FIELD_NO_H2 },
                 { "www-authenticate", ROLE_PLAIN, KEEP } },
        [17] = { { "transfer-encoding", ROLE_CODING, HOP | FIELD_NO_H2 | FIELD_FRAMING }, { "sec-websocket-key", ROLE_WS_KEY, KEEP },
                 { "if-modified-since", ROLE_PLAIN, NOT } },
        [18] = { { "proxy-authenticate", ROLE_DROP, HOP } },
        [19] = { { "proxy-authorization", ROLE_DROP, HOP }, { "if-unmodified-since", ROLE_PLAIN, NOT } },
        [20] = { { "sec-websocket-accept", ROLE_WS_ACCEPT, KEEP } },
        [21] = { { "sec-websocket-version", ROLE_WS_VERSION, KEEP } },
        [22] = { { "sec-websocket-protocol", ROLE_PLAIN, KEEP } },
        [24] = { { "sec-websocket-extensions", ROLE_PLAIN, KEEP } },
        [25] = { { "proxy-authentication-info", ROLE_DROP, HOP } },
};
#undef HOP
#undef NOT
#undef KEEP

static const struct field_row *field_row(struct slice name)
{
        if (name.n > FIELD_NAME_LONGEST)
                return NULL;
        for (const struct field_row *r = rows[name.n]; r < rows[name.n] + FIELD_NAMES_A_LENGTH && r->name; r++)
                if (memcmp(r->name, name.p, name.n) == 0)
                        return r;
        return NULL;
}

/* The row of a name in which "_" stands for "-", as CGI and WSGI origins see it. */
static const struct field_row *field_row_folded(struct slice name)
{
        uint8_t folded[FIELD_NAME_LONGEST];

        if (name.n > sizeof(folded))
                return NULL;
        for (size_t i = 0; i < name.n; i++)
                folded[i] = name.p[i] == '_' ? '-' : ascii_lower(name.p[i]);
        return field_row(slice_of(folded, name.n));
}

struct field_info field_info(struct slice name, bool *alias)
{
        const struct field_row *r = field_row(name);

        *alias = false;
        if (r)
                return (struct field_info){ (enum field_role)r->role, r->flags };
        if (field_is_ours(name))
                return (struct field_info){ ROLE_BROME, FIELD_NO_TRAILER | FIELD_NO_NOMINATE };
        if (override_field(name))
                return (struct field_info){ ROLE_OVERRIDE, FIELD_NO_TRAILER | FIELD_NO_NOMINATE };
        if (slice_find(name, '_') >= 0 && (r = field_row_folded(name)) != NULL)
                *alias = (r->flags & FIELD_FRAMING) != 0;
        return (struct field_info){ ROLE_PLAIN, 0 };
}

bool field_is_hop(struct slice name)
{
        const struct field_row *r = field_row(name);
        return r && (r->flags & FIELD_HOP);
}

bool field_is_ours(struct slice name) { return slice_starts(name, SLICE_LIT("brome-")); }

bool field_is_no_trailer(struct slice name)
{
        const struct field_row *r = slice_find(name, '_') >= 0 ? field_row_folded(name) : field_row(name);
        return (r && (r->flags & FIELD_NO_TRAILER)) || field_is_ours(name) || override_field(name);
}

bool field_is_alias(struct slice name)
{
        bool alias;
        field_info(name, &alias);
        return alias;
}

const struct header *headers_find(const struct headers *h, const char *name)
{
        struct slice want = slice_str(name);

        for (size_t i = 0; i < h->n; i++)
                if (slice_eq(h->at[i].name, want))
                        return &h->at[i];
        return NULL;
}

size_t headers_count(const struct headers *h, const char *name)
{
        struct slice want = slice_str(name);
        size_t count = 0;

        for (size_t i = 0; i < h->n; i++)
                count += slice_eq(h->at[i].name, want);
        return count;
}

struct slice headers_value(const struct headers *h, const char *name)
{
        const struct header *f = headers_find(h, name);
        return f ? f->value : SLICE_EMPTY;
}

struct slice field_trim(struct slice s)
{
        while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
                s = slice_skip(s, 1);
        while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
                s.n--;
        return s;
}

bool list_next(struct slice *rest, struct slice *element)
{
        while (rest->n) {
                ptrdiff_t comma = slice_find(*rest, ',');
                size_t n = comma < 0 ? rest->n : (size_t)comma;

                *element = field_trim(slice_first(*rest, n));
                *rest = slice_skip(*rest, comma < 0 ? n : n + 1);
                if (element->n)
                        return true;
        }
        return false;
}

bool field_is_token(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!ch_is(s.p[i], CH_TOKEN))
                        return false;
        return s.n > 0;
}

/* Eight bytes at once: is any below 0x20, or 0x7f? May say so wrongly (then the table decides), never overlooks one. */
static bool any_control(const uint8_t *p)
{
        const uint64_t ones = 0x0101010101010101u, high = 0x80 * ones;
        uint64_t x, del;

        memcpy(&x, p, 8);
        del = x ^ (0x7f * ones);
        return (((x - 0x20 * ones) & ~x) | ((del - ones) & ~del)) & high;
}

bool field_value_ok(struct slice s)
{
        size_t i = 0;

        while (s.n - i >= 8 && !any_control(s.p + i))
                i += 8;
        for (; i < s.n; i++)
                if (!ch_is(s.p[i], CH_VALUE))
                        return false;
        return true;
}

enum wire_reason field_parse(struct slice line, struct slice *name, struct slice *value)
{
        size_t i = 0;

        if (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
                return WIRE_OBS_FOLD;
        while (i < line.n && ch_is(line.p[i], CH_TOKEN))
                i++;
        if (i == 0)
                return WIRE_FIELD_NAME;
        if (i == line.n || line.p[i] != ':')
                return i < line.n && (line.p[i] == ' ' || line.p[i] == '\t') ? WIRE_FIELD_SPACE : WIRE_FIELD_NAME;
        *name = slice_first(line, i);
        *value = field_trim(slice_skip(line, i + 1));
        return field_value_ok(*value) ? WIRE_OK : WIRE_FIELD_VALUE;
}

bool field_number(struct slice s, uint64_t *out)
{
        uint64_t v = 0;

        if (s.n == 0 || s.n > 19)
                return false;
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] < '0' || s.p[i] > '9')
                        return false;
                v = v * 10 + (uint64_t)(s.p[i] - '0'); /* 19 digits fit in 64 bits */
        }
        if (v > INT64_MAX)
                return false;
        *out = v;
        return true;
}

void trailers_drop_ours(struct headers *h)
{
        size_t kept = 0;

        for (size_t i = 0; i < h->n; i++)
                if (!field_is_ours(h->at[i].name))
                        h->at[kept++] = h->at[i];
        h->n = kept;
}

enum wire_reason trailers_check(const struct headers *h, bool from_h2)
{
        if (h->n > FIELDS_MAX)
                return WIRE_TOO_MANY_FIELDS;
        for (size_t i = 0; i < h->n; i++) {
                struct slice name = h->at[i].name, value = h->at[i].value;

                if (from_h2 && name.n && name.p[0] == ':')
                        return WIRE_PSEUDO_ORDER;
                if (!field_is_token(name))
                        return WIRE_FIELD_NAME;
                for (size_t k = 0; k < name.n; k++)
                        if (ascii_lower(name.p[k]) != name.p[k])
                                return WIRE_NAME_CASE;
                if (field_is_no_trailer(name))
                        return WIRE_TRAILER_FIELD;
                if (!field_value_ok(value))
                        return WIRE_FIELD_VALUE;
                if (field_trim(value).n != value.n)
                        return WIRE_VALUE_SPACE;
        }
        return WIRE_OK;
}
