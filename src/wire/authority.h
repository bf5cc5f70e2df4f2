/* Whose name is it: one struct for host and port, however spelled, and the one function that compares all claims.
 *
 * SNI, Host, :authority, the target and the flow each claim a place; they must tell one story, or the request is refused with 421.
 * Everything is made canonical first (case, trailing dot, IDN, brackets, default port), then compared. */
#ifndef BROME_WIRE_AUTHORITY_H
#define BROME_WIRE_AUTHORITY_H

#include "base/addr.h"
#include "base/arena.h"
#include "wire/reason.h"

enum scheme { SCHEME_HTTP, SCHEME_HTTPS, SCHEME_COUNT };
#define AUTHORITY_TEXT_BYTES 272 /* 253 + ":65535" + brackets, with room */
#define HOST_BYTES_MAX 253       /* RFC 1035 §2.3.4, as text */

struct authority {
        struct slice name; /* canonical host name; empty when is_addr */
        struct addr addr;
        bool is_addr;
        uint16_t port; /* never 0: the scheme's default when none was given */
};

uint16_t scheme_port(enum scheme s);
const char *scheme_name(enum scheme s);

/* "host[:port]". Userinfo, zones, odd spellings of addresses (octal, decimal, hex) are refused. Name bytes: arena. */
enum wire_reason authority_parse(struct arena *a, struct slice text, enum scheme scheme, struct authority *out) __attribute__((warn_unused_result));
/* The host alone, without port (SNI, configuration). */
enum wire_reason authority_host(struct arena *a, struct slice host, uint16_t port, struct authority *out) __attribute__((warn_unused_result));
bool authority_same_host(const struct authority *a, const struct authority *b);
bool authority_eq(const struct authority *a, const struct authority *b);
/* host[:port], the default port left out, IPv6 in brackets. Returns the text as a slice of out. */
struct slice authority_print(char out[AUTHORITY_TEXT_BYTES], const struct authority *a, enum scheme scheme);

/* Every claim of one request. NULL: that claim was not made. */
struct claims {
        const struct authority *flow; /* where the guest's connection goes: the names (or the address) its destination stands for */
        size_t flow_n;                /* several under `dns real`; one of them must fit */
        bool any_flow;                /* nothing is known of the flow (the link): the other claims must still agree */
        const struct authority *sni;
        const struct authority *host;   /* Host */
        const struct authority *pseudo; /* :authority */
        const struct authority *target; /* absolute form or CONNECT */
};
/* WIRE_OK and the one authority, or which claim disagrees. At least one of host, pseudo, target must be made (else HOST_MISSING).
 * Ports: host, pseudo and target against the flow's. */
enum wire_reason authority_agree(const struct claims *c, struct authority *out) __attribute__((warn_unused_result));

#endif
