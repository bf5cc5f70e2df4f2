/* Sorting a field list into what is forwarded as it stands and what becomes a member of the canonical message. */
#include "wire/http_priv.h"

static void pick(struct slice *value, size_t *count, struct slice v)
{
        if ((*count)++ == 0)
                *value = v;
}

/* True when the field goes on as it stands. */
static bool pick_one(struct picked *p, const struct header *f, enum field_role role, bool keep_brome)
{
        switch (role) {
        case ROLE_PLAIN:
                return true;
        case ROLE_COOKIE:
                p->cookies++;
                p->cookie_bytes += f->value.n + 2;
                return true;
        case ROLE_OVERRIDE:
                p->override = true;
                return true;
        case ROLE_BROME:
                return keep_brome;
        case ROLE_HOST:
                pick(&p->host, &p->hosts, f->value);
                return false;
        case ROLE_UPGRADE:
                pick(&p->upgrade, &p->upgrades, f->value);
                return false;
        case ROLE_EXPECT:
                pick(&p->expect, &p->expects, f->value);
                return false;
        case ROLE_WS_KEY:
                pick(&p->ws_key, &p->ws_keys, f->value);
                return false;
        case ROLE_WS_VERSION:
                pick(&p->ws_version, &p->ws_versions, f->value);
                return false;
        case ROLE_WS_ACCEPT:
                pick(&p->ws_accept, &p->ws_accepts, f->value);
                return false;
        case ROLE_TE:
                p->te = f->value;
                return false;
        case ROLE_LENGTH:
                p->lengths++;
                return false;
        case ROLE_DROP:
        case ROLE_CODING:
        case ROLE_CONNECTION:
        case ROLE_COUNT:
                break;
        }
        return false;
}

enum wire_reason fields_pick(struct arena *a, const struct headers *h, const struct connection *c, bool keep_brome, struct picked *p)
{
        *p = (struct picked){ .out = { arena_alloc_array(a, h->n ? h->n : 1, sizeof(struct header)), 0 } };
        if (!p->out.at)
                return WIRE_MEMORY;
        for (size_t i = 0; i < h->n; i++) {
                const struct header *f = &h->at[i];
                bool alias;
                struct field_info info;

                if (f->name.n && f->name.p[0] == ':')
                        continue;
                info = field_info(f->name, &alias);
                if (alias)
                        return WIRE_FIELD_ALIAS;
                if (c && c->n && info.role == ROLE_PLAIN && connection_names(c, f->name))
                        continue;
                if (info.role == ROLE_LENGTH && !field_number(f->value, &p->length))
                        return WIRE_LENGTH_BAD;
                if (pick_one(p, f, info.role, keep_brome))
                        p->out.at[p->out.n++] = *f;
        }
        return WIRE_OK;
}

enum wire_reason cookies_join(struct arena *a, struct picked *p)
{
        struct header *first = NULL;
        uint8_t *bytes;
        size_t n = 0, kept = 0;

        if (p->cookies < 2)
                return WIRE_OK;
        bytes = arena_alloc(a, p->cookie_bytes);
        if (!bytes)
                return WIRE_MEMORY;
        for (size_t i = 0; i < p->out.n; i++) {
                struct header f = p->out.at[i];

                if (!slice_is(f.name, "cookie")) {
                        p->out.at[kept++] = f;
                        continue;
                }
                if (!first) {
                        first = &p->out.at[kept++];
                        *first = f;
                }
                if (f.value.n == 0) /* else the result would end or begin in a space */
                        continue;
                if (n) {
                        memcpy(bytes + n, "; ", 2);
                        n += 2;
                }
                memcpy(bytes + n, f.value.p, f.value.n);
                n += f.value.n;
        }
        if (first)
                first->value = slice_of(bytes, n);
        p->out.n = kept;
        return WIRE_OK;
}

enum wire_reason field_check_h2(const struct header *f)
{
        bool alias;
        struct field_info info;

        for (size_t i = 0; i < f->name.n; i++)
                if (f->name.p[i] >= 'A' && f->name.p[i] <= 'Z')
                        return WIRE_NAME_CASE;
        if (!field_is_token(f->name))
                return WIRE_FIELD_NAME;
        if (!field_value_ok(f->value))
                return WIRE_FIELD_VALUE;
        if (field_trim(f->value).n != f->value.n)
                return WIRE_VALUE_SPACE;
        info = field_info(f->name, &alias);
        if (info.flags & FIELD_NO_H2)
                return WIRE_CONNECTION_FIELD;
        if (info.role == ROLE_TE && !slice_iis(f->value, "trailers"))
                return WIRE_TE_H2;
        return WIRE_OK;
}

enum wire_reason block_check(const struct headers *block)
{
        size_t left = BLOCK_BYTES_MAX;

        if (block->n > BLOCK_FIELDS_MAX)
                return WIRE_TOO_MANY_FIELDS;
        for (size_t i = 0; i < block->n; i++) {
                const struct header *f = &block->at[i];

                if (f->name.n > left || f->value.n > left - f->name.n)
                        return WIRE_HEAD_TOO_LARGE;
                left -= f->name.n + f->value.n;
        }
        return WIRE_OK;
}
