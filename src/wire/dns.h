/* DNS messages (RFC 1035, EDNS0 RFC 6891): strict query reader and answer builder.
 *
 * One question, class IN, opcode QUERY, no compression in the question, nothing but an OPT record beside it. The question is echoed
 * with the sender's letter case. Answers are made from what the caller says and nothing else. */
#ifndef BROME_WIRE_DNS_H
#define BROME_WIRE_DNS_H

#include "base/addr.h"
#include "base/arena.h"
#include "wire/reason.h"

#define DNS_UDP_BYTES_MAX 1232   /* answers over UDP: no fragments on any path (DNS flag day 2020) */
#define DNS_NAME_WIRE_MAX 255    /* RFC 1035 §2.3.4 */
#define DNS_NEGATIVE_TTL_S 5     /* a rule edit must be felt soon */
#define DNS_ANSWERS_MAX 16

enum dns_type { DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_SOA = 6, DNS_PTR = 12, DNS_TXT = 16, DNS_AAAA = 28, DNS_OPT = 41, DNS_HTTPS = 65, DNS_ANY = 255 };
enum dns_rcode { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_query {
        uint16_t id, type;
        bool rd, cd, edns, dnssec_ok;
        uint8_t edns_version;   /* other than 0: dns_answer says BADVERS */
        uint16_t udp_bytes;     /* what the asker takes over UDP, 512–1232 */
        struct slice qname;     /* wire form, borrows from the message */
        struct slice name;      /* text, lower case, no final dot, "" for the root; in the arena. Bytes other than
                                 * letters, digits, "-", "_" make host_ok false and stand as "?" */
        bool host_ok;           /* may be a host name */
};

/* "AAAA"; a type that has no name here is "TYPE99" (RFC 3597 §5). Returns out. */
#define DNS_TYPE_TEXT_BYTES 12
const char *dns_type_text(char out[DNS_TYPE_TEXT_BYTES], uint16_t type);

/* An answer: rcode, and for NOERROR the records; none is NODATA. Negative answers carry a SOA. */
struct dns_answer {
        enum dns_rcode rcode;
        uint32_t ttl_s;
        const struct addr *addr; /* A or AAAA records: those that fit the query's type are used */
        size_t addr_n;           /* at most DNS_ANSWERS_MAX */
        struct slice ptr;        /* PTR: host name as text, empty for none */
};

enum wire_reason dns_query_parse(struct arena *a, struct slice msg, struct dns_query *out) __attribute__((warn_unused_result));
/* The message's length, or 0 when it does not fit in cap (give at least 512). Over UDP: at most q->udp_bytes, else the TC bit and no
 * records. */
size_t dns_answer(uint8_t *out, size_t cap, const struct dns_query *q, const struct dns_answer *ans, bool over_udp);
/* The answer to a message that dns_query_parse refused: header only (FORMERR, or NOTIMP for another opcode); 0 when it
 * deserves none (shorter than a header, or itself an answer). */
size_t dns_refuse(uint8_t *out, size_t cap, struct slice msg);
/* The address of a reverse name (in-addr.arpa, ip6.arpa); false when it is none. */
bool dns_reverse(struct slice name, struct addr *out);

/* TCP (RFC 1035 §4.2.2): WIRE_DONE: *msg is the next message, *used its bytes with the length prefix. */
enum wire_step dns_tcp_next(struct slice in, struct slice *msg, size_t *used);

#endif
