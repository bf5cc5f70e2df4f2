/* Authorities: see authority.h. The host itself is made canonical by base/host. */
#include "wire/authority.h"

#include "base/host.h"
#include "wire/wire_priv.h"

#include <stdio.h>

static const struct {
        const char *name;
        uint16_t port;
} schemes[SCHEME_COUNT] = { [SCHEME_HTTP] = { "http", 80 }, [SCHEME_HTTPS] = { "https", 443 } };

uint16_t scheme_port(enum scheme s) { return schemes[s].port; }
const char *scheme_name(enum scheme s) { return schemes[s].name; }

enum wire_reason authority_host(struct arena *a, struct slice host, uint16_t port, struct authority *out)
{
        char text[HOST_NAME_BYTES];
        struct authority result = { .port = port };
        bool ok = true;
        int kind = host_canonical(text, sizeof(text), host);

        if (kind < 0)
                return WIRE_HOST_BAD;
        result.is_addr = kind == HOST_ADDR;
        if (!result.is_addr)
                result.name = arena_copy(a, slice_str(text), &ok);
        else if (host_addr(&result.addr, slice_str(text)) < 0)
                return WIRE_HOST_BAD;
        if (!ok)
                return WIRE_MEMORY;
        *out = result;
        return WIRE_OK;
}

/* 1–65535, decimal, no leading zero. */
static bool port_parse(struct slice s, uint16_t *out)
{
        unsigned v = 0;

        if (s.n == 0 || s.n > 5 || s.p[0] == '0')
                return false;
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] < '0' || s.p[i] > '9')
                        return false;
                v = v * 10 + (unsigned)(s.p[i] - '0');
        }
        if (v > UINT16_MAX)
                return false;
        *out = (uint16_t)v;
        return true;
}

enum wire_reason authority_parse(struct arena *a, struct slice text, enum scheme scheme, struct authority *out)
{
        uint16_t port = scheme_port(scheme);
        struct slice host = text, after;
        ptrdiff_t end;

        if (slice_find(text, '@') >= 0)
                return WIRE_HOST_USERINFO;
        if (text.n && text.p[0] == '[') {
                end = slice_find(text, ']');
                if (end < 0)
                        return WIRE_HOST_BAD;
                end++;
        } else {
                end = slice_find(text, ':');
                if (end < 0)
                        end = (ptrdiff_t)text.n;
        }
        host = slice_first(text, (size_t)end);
        after = slice_skip(text, (size_t)end);
        if (after.n && after.p[0] != ':')
                return WIRE_HOST_BAD;
        if (after.n && !port_parse(slice_skip(after, 1), &port))
                return WIRE_HOST_PORT;
        return authority_host(a, host, port, out);
}

bool authority_same_host(const struct authority *a, const struct authority *b)
{
        if (a->is_addr != b->is_addr)
                return false;
        return a->is_addr ? addr_eq(&a->addr, &b->addr) : slice_eq(a->name, b->name);
}

bool authority_eq(const struct authority *a, const struct authority *b) { return a->port == b->port && authority_same_host(a, b); }

struct slice authority_print(char out[AUTHORITY_TEXT_BYTES], const struct authority *a, enum scheme scheme)
{
        char text[ADDR_TEXT_BYTES];
        struct slice host = a->is_addr ? slice_str(addr_print(text, &a->addr)) : slice_first(a->name, HOST_BYTES_MAX);
        bool brackets = a->is_addr && !addr_is_v4(&a->addr);
        size_t n = 0;

        if (brackets)
                out[n++] = '[';
        if (host.n)
                memcpy(out + n, host.p, host.n);
        n += host.n;
        if (brackets)
                out[n++] = ']';
        if (a->port != scheme_port(scheme))
                n += (size_t)snprintf(out + n, AUTHORITY_TEXT_BYTES - n, ":%u", (unsigned)a->port);
        return slice_of(out, n);
}

static bool flow_has(const struct claims *c, const struct authority *a, bool with_port)
{
        for (size_t i = 0; i < c->flow_n; i++)
                if (with_port ? authority_eq(&c->flow[i], a) : authority_same_host(&c->flow[i], a))
                        return true;
        return c->any_flow;
}

enum wire_reason authority_agree(const struct claims *c, struct authority *out)
{
        const struct authority *story = c->pseudo ? c->pseudo : c->target ? c->target : c->host;

        if (!story)
                return WIRE_HOST_MISSING;
        if (c->sni && !flow_has(c, c->sni, false))
                return WIRE_SNI_DISAGREES;
        if (c->target && (!authority_eq(c->target, story) || !flow_has(c, c->target, true)))
                return WIRE_TARGET_DISAGREES;
        if (!flow_has(c, story, true) || (c->host && !authority_eq(c->host, story)))
                return WIRE_HOST_DISAGREES;
        if (c->sni && !authority_same_host(c->sni, story))
                return WIRE_SNI_DISAGREES;
        *out = *story;
        return WIRE_OK;
}
