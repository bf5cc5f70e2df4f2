/* Addresses: see addr.h. */
#include "base/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool addr_is_v4(const struct addr *a) { return memcmp(a->b, v4_prefix, 12) == 0; }
bool addr_eq(const struct addr *a, const struct addr *b) { return memcmp(a->b, b->b, 16) == 0; }

struct addr addr_v4(uint32_t h)
{
        struct addr a;
        memcpy(a.b, v4_prefix, 12);
        a.b[12] = (uint8_t)(h >> 24);
        a.b[13] = (uint8_t)(h >> 16);
        a.b[14] = (uint8_t)(h >> 8);
        a.b[15] = (uint8_t)h;
        return a;
}

int addr_parse(struct addr *out, struct slice text)
{
        char z[INET6_ADDRSTRLEN + 1];
        struct addr a;

        if (text.n == 0 || text.n > INET6_ADDRSTRLEN || slice_find(text, 0) >= 0)
                return -1;
        memcpy(z, text.p, text.n);
        z[text.n] = 0;
        memcpy(a.b, v4_prefix, 12);
        if (inet_pton(AF_INET, z, a.b + 12) != 1 && inet_pton(AF_INET6, z, a.b) != 1)
                return -1;
        *out = a;
        return 0;
}

const char *addr_print(char out[ADDR_TEXT_BYTES], const struct addr *a)
{
        if (addr_is_v4(a))
                inet_ntop(AF_INET, a->b + 12, out, ADDR_TEXT_BYTES);
        else
                inet_ntop(AF_INET6, a->b, out, ADDR_TEXT_BYTES);
        return out;
}

bool cidr_has(const struct cidr *c, const struct addr *a)
{
        size_t whole = c->bits / 8, rest = c->bits % 8;

        if (memcmp(c->addr.b, a->b, whole) != 0)
                return false;
        return !rest || (uint8_t)((c->addr.b[whole] ^ a->b[whole]) >> (8 - rest)) == 0;
}

int cidr_parse(struct cidr *out, struct slice text)
{
        ptrdiff_t slash = slice_find(text, '/');
        struct slice len = slice_skip(text, (size_t)slash + 1);
        struct cidr c;
        unsigned bits = 0, max;

        if (slash < 0 || len.n == 0 || len.n > 3 || (len.n > 1 && len.p[0] == '0'))
                return -1;
        if (addr_parse(&c.addr, slice_first(text, (size_t)slash)) < 0)
                return -1;
        for (size_t i = 0; i < len.n; i++) {
                if (len.p[i] < '0' || len.p[i] > '9')
                        return -1;
                bits = bits * 10 + (unsigned)(len.p[i] - '0');
        }
        max = slice_find(slice_first(text, (size_t)slash), ':') >= 0 ? 128 : 32;
        if (bits > max)
                return -1;
        c.bits = (uint8_t)(max == 32 ? bits + 96 : bits);
        for (unsigned i = c.bits; i < 128; i++)
                if (c.addr.b[i / 8] & (0x80u >> (i % 8)))
                        return -1;
        *out = c;
        return 0;
}

const char *cidr_print(char out[ADDR_TEXT_BYTES], const struct cidr *c)
{
        size_t n;

        addr_print(out, &c->addr);
        n = strlen(out);
        snprintf(out + n, ADDR_TEXT_BYTES - n, "/%u", addr_is_v4(&c->addr) && c->bits >= 96 ? c->bits - 96u : c->bits);
        return out;
}

int addr_from_sockaddr(struct addr *out, uint16_t *port, const struct sockaddr *sa, socklen_t len)
{
        if (sa->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
                const struct sockaddr_in *in = (const void *)sa;
                *out = addr_v4(ntohl(in->sin_addr.s_addr));
                *port = ntohs(in->sin_port);
                return 0;
        }
        if (sa->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
                const struct sockaddr_in6 *in6 = (const void *)sa;
                memcpy(out->b, &in6->sin6_addr, 16);
                *port = ntohs(in6->sin6_port);
                return 0;
        }
        return -1;
}

socklen_t addr_to_sockaddr(struct sockaddr_storage *out, const struct addr *a, uint16_t port, bool as_v6)
{
        memset(out, 0, sizeof(*out));
        if (addr_is_v4(a) && !as_v6) {
                struct sockaddr_in *in = (void *)out;
                in->sin_family = AF_INET;
                in->sin_port = htons(port);
                memcpy(&in->sin_addr, a->b + 12, 4);
                return sizeof(*in);
        }
        struct sockaddr_in6 *in6 = (void *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, a->b, 16);
        return sizeof(*in6);
}
