/* Upstream proxy: see proxy.h. */
#include "outer/proxy.h"

#include "base/host.h"
#include "outer/limits.h"
#include "wire/h1.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct proxy {
        struct arena arena;
        struct authority at;
        char *credentials; /* base64 of user:password; NULL: none. SECURITY: never printed */
        char *no_proxy;
};

static int hex_value(uint8_t c)
{
        c = ascii_lower(c);
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Userinfo of a URL is percent-encoded. */
static char *encode_userinfo(struct slice in)
{
        uint8_t *plain = malloc(in.n + 1);
        char *out = malloc(4 * ((in.n + 2) / 3) + 1);
        size_t n = 0;

        for (size_t i = 0; plain && out && i < in.n; i++) {
                if (in.p[i] == '%' && i + 2 < in.n && hex_value(in.p[i + 1]) >= 0 && hex_value(in.p[i + 2]) >= 0) {
                        plain[n++] = (uint8_t)(hex_value(in.p[i + 1]) << 4 | hex_value(in.p[i + 2]));
                        i += 2;
                } else
                        plain[n++] = in.p[i];
        }
        if (plain && out)
                EVP_EncodeBlock((unsigned char *)out, plain, (int)n);
        if (plain)
                explicit_bzero(plain, in.n + 1);
        free(plain);
        return out;
}

static ptrdiff_t find_last(struct slice s, uint8_t c)
{
        for (size_t i = s.n; i > 0; i--)
                if (s.p[i - 1] == c)
                        return (ptrdiff_t)i - 1;
        return -1;
}

static int parse_url(struct proxy *p, struct slice url, struct err *err)
{
        ptrdiff_t at;
        char text[AUTHORITY_TEXT_BYTES];
        struct slice host;

        if (slice_starts(url, SLICE_LIT("http://")))
                url = slice_skip(url, 7);
        else if (slice_find(url, '/') >= 0 && memmem(url.p, url.n, "://", 3))
                return err_set(err, "upstream proxy: only http:// proxies are served");
        if (slice_find(url, '/') >= 0)
                url = slice_first(url, (size_t)slice_find(url, '/'));
        at = find_last(url, '@');
        host = slice_skip(url, (size_t)(at + 1));
        if (host.n >= sizeof(text))
                return err_set(err, "upstream proxy: the URL is malformed");
        if (authority_parse(&p->arena, host, SCHEME_HTTP, &p->at) != WIRE_OK)
                return err_set(err, "upstream proxy: its host is malformed");
        if (at > 0) {
                p->credentials = encode_userinfo(slice_first(url, (size_t)at));
                if (!p->credentials)
                        return err_set(err, "out of memory");
        }
        return 0;
}

void proxy_free(struct proxy *p)
{
        if (!p)
                return;
        if (p->credentials)
                explicit_bzero(p->credentials, strlen(p->credentials));
        free(p->credentials);
        free(p->no_proxy);
        arena_fini(&p->arena);
        free(p);
}

struct proxy *proxy_new(const char *url, const char *no_proxy, struct err *err)
{
        struct proxy *p;

        err->text[0] = 0;
        if (!url || !*url)
                return NULL;
        p = calloc(1, sizeof(*p));
        if (!p) {
                err_set(err, "out of memory");
                return NULL;
        }
        arena_init(&p->arena, 0);
        p->no_proxy = strdup(no_proxy ? no_proxy : "");
        if (!p->no_proxy || parse_url(p, slice_str(url), err) < 0) {
                proxy_free(p);
                return NULL;
        }
        return p;
}

/* One entry of no_proxy: "*", a name (and all below it, with or without a leading dot), an address or a range. A port behind it is passed over. */
static bool entry_covers(struct slice entry, const struct authority *to)
{
        char name[HOST_NAME_BYTES];
        struct addr a;
        struct cidr c;
        ptrdiff_t colon;

        if (slice_is(entry, "*"))
                return true;
        if (to->is_addr) {
                if (cidr_parse(&c, entry) == 0)
                        return cidr_has(&c, &to->addr);
                return (addr_parse(&a, entry) == 0 || host_addr(&a, entry) == 0) && addr_eq(&a, &to->addr);
        }
        colon = slice_find(entry, ':');
        if (colon > 0)
                entry = slice_first(entry, (size_t)colon);
        if (slice_starts(entry, SLICE_LIT("*.")))
                entry = slice_skip(entry, 2);
        else if (slice_starts(entry, SLICE_LIT(".")))
                entry = slice_skip(entry, 1);
        return host_canonical(name, sizeof(name), entry) == HOST_NAME && host_is_under(to->name, slice_str(name));
}

bool proxy_covers(const struct proxy *p, const struct authority *to)
{
        struct slice rest, entry;

        if (!p)
                return false;
        rest = slice_str(p->no_proxy);
        while (list_next(&rest, &entry))
                if (entry_covers(entry, to))
                        return false;
        return true;
}

const struct authority *proxy_at(const struct proxy *p) { return &p->at; }

int proxy_connect(const struct proxy *p, const struct authority *to, struct buf *out)
{
        char text[ADDR_TEXT_BYTES], host[HOST_NAME_BYTES + ADDR_TEXT_BYTES];

        if (to->is_addr)
                snprintf(host, sizeof(host), addr_is_v4(&to->addr) ? "%s:%u" : "[%s]:%u", addr_print(text, &to->addr), to->port);
        else
                snprintf(host, sizeof(host), "%.*s:%u", SLICE_FMT(to->name), to->port);
        buf_addf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", host, host);
        if (p->credentials)
                buf_addf(out, "Proxy-Authorization: Basic %s\r\n", p->credentials);
        return buf_add_str(out, "\r\n");
}

int proxy_answer(struct slice in, size_t *used, unsigned *status)
{
        struct arena arena;
        struct h1_reader *r = malloc(sizeof(*r));
        struct h1_head head;
        enum wire_reason why;
        enum wire_step step = WIRE_BAD;
        int rc = -1;

        *status = 0;
        if (!r)
                return -1;
        arena_init(&arena, EXCHANGE_ARENA_BYTES);
        h1_reader_init(r, false);
        step = h1_read(r, in, &arena, &head, used, &why);
        if (step == WIRE_MORE)
                rc = in.n < PROXY_HEAD_BYTES ? 0 : -1;
        else if (step == WIRE_DONE) {
                *status = head.status;
                rc = head.status >= 200 && head.status < 300 ? 1 : -1;
        }
        free(r);
        arena_fini(&arena);
        return rc;
}
