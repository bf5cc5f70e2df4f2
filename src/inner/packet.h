/* UDP and ICMP packets as the raw sockets of the gateway send them: headers made here, the IP header by the kernel. Pure. */
#ifndef BROME_INNER_PACKET_H
#define BROME_INNER_PACKET_H

#include "base/addr.h"
#include "base/slice.h"

enum { UDP_HEAD_BYTES = 8, PACKET_BYTES_MAX = 65535, ICMP_ERROR_BYTES_MAX = 64 };

/* Internet checksum (RFC 1071) over s, continuing from sum; fold with packet_fold. */
uint32_t packet_sum(uint32_t sum, struct slice s);
uint16_t packet_fold(uint32_t sum);

/* UDP header for payload. Over IPv4 with its checksum; over IPv6 the checksum field is 0, for the kernel to fill. */
void packet_udp_head(uint8_t out[UDP_HEAD_BYTES], const struct addr *src, uint16_t src_port, const struct addr *dst, uint16_t dst_port, struct slice payload);

enum packet_error { PACKET_PORT_UNREACHABLE, PACKET_PROHIBITED };
/* The ICMP error about a packet that src sent to dst: the message after the IP header, quoting a rebuilt IP header and the first 8 bytes
 * of `inner`. Returns its length. IPv6: checksum 0, for the kernel. */
size_t packet_icmp_error(uint8_t out[ICMP_ERROR_BYTES_MAX], enum packet_error what, const struct addr *src, const struct addr *dst, uint8_t proto,
                         struct slice inner);

struct echo {
        struct addr src, dst;
        uint16_t id, seq;
        struct slice data;
};
/* An echo request: `in` is the whole IPv4 packet, or the ICMPv6 message (then src and dst are the caller's to fill). False: something else. */
bool packet_echo_v4(struct slice in, struct echo *out);
bool packet_echo_v6(struct slice in, struct echo *out);
/* An echo reply's 8 header bytes, with its checksum for IPv4. */
void packet_echo_reply_head(uint8_t out[8], bool v4, uint16_t id, uint16_t seq, struct slice data);

#endif
