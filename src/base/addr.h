/* Network addresses: IPv4 and IPv6 in one 16-byte form, IPv4 as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2). */
#ifndef BROME_BASE_ADDR_H
#define BROME_BASE_ADDR_H

#include "base/slice.h"
#include <sys/socket.h>

struct addr {
        uint8_t b[16];
};
struct cidr {
        struct addr addr; /* host bits are zero */
        uint8_t bits;     /* 0–128; of the 16-byte form, so IPv4 /24 is 120 */
};

#define ADDR_TEXT_BYTES 64

bool addr_is_v4(const struct addr *a); /* v4-mapped */
bool addr_eq(const struct addr *a, const struct addr *b);
/* Strict text: dotted quad without leading zeros, or RFC 4291 IPv6 without zone. 0 or -1. A v4-mapped IPv6 spelling yields the IPv4 address. */
int addr_parse(struct addr *out, struct slice text);
/* Canonical (RFC 5952); IPv6 without brackets. Returns out. */
const char *addr_print(char out[ADDR_TEXT_BYTES], const struct addr *a);
int cidr_parse(struct cidr *out, struct slice text); /* "a/len"; -1 also when host bits are set */
bool cidr_has(const struct cidr *c, const struct addr *a);
const char *cidr_print(char out[ADDR_TEXT_BYTES], const struct cidr *c);

int addr_from_sockaddr(struct addr *out, uint16_t *port, const struct sockaddr *sa, socklen_t len);
/* IPv4 addresses give sockaddr_in unless v6_only_sockets, then v4-mapped sockaddr_in6. Returns the length. */
socklen_t addr_to_sockaddr(struct sockaddr_storage *out, const struct addr *a, uint16_t port, bool as_v6);
struct addr addr_v4(uint32_t host_order);

#endif
