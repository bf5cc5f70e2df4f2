/* Packets: see packet.h. RFC 768, RFC 792, RFC 4443. */
#include "inner/packet.h"

#include <netinet/in.h>

static void put16(uint8_t *p, uint16_t v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

uint32_t packet_sum(uint32_t sum, struct slice s)
{
        size_t i = 0;

        for (; i + 1 < s.n; i += 2) {
                sum += get16(s.p + i);
                sum = (sum & 0xffff) + (sum >> 16);
        }
        if (i < s.n)
                sum += (uint32_t)s.p[i] << 8;
        return sum;
}

uint16_t packet_fold(uint32_t sum)
{
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return (uint16_t)~sum;
}

void packet_udp_head(uint8_t out[UDP_HEAD_BYTES], const struct addr *src, uint16_t src_port, const struct addr *dst, uint16_t dst_port, struct slice payload)
{
        uint16_t len = (uint16_t)(UDP_HEAD_BYTES + payload.n), sum;
        uint32_t s;

        put16(out, src_port);
        put16(out + 2, dst_port);
        put16(out + 4, len);
        put16(out + 6, 0);
        if (!addr_is_v4(dst))
                return;
        s = packet_sum(0, slice_of(src->b + 12, 4));
        s = packet_sum(s, slice_of(dst->b + 12, 4));
        s += IPPROTO_UDP + (uint32_t)len;
        s = packet_sum(s, slice_of(out, UDP_HEAD_BYTES));
        sum = packet_fold(packet_sum(s, payload));
        put16(out + 6, sum ? sum : 0xffff); /* 0 would say: none */
}

/* The header of the packet the error is about, as far as we know it: enough for the sender to find its socket. */
static size_t quote_head(uint8_t *out, const struct addr *src, const struct addr *dst, uint8_t proto, size_t inner_bytes)
{
        if (addr_is_v4(src)) {
                memset(out, 0, 20);
                out[0] = 0x45;
                put16(out + 2, (uint16_t)(20 + inner_bytes));
                out[8] = 64;
                out[9] = proto;
                memcpy(out + 12, src->b + 12, 4);
                memcpy(out + 16, dst->b + 12, 4);
                put16(out + 10, packet_fold(packet_sum(0, slice_of(out, 20))));
                return 20;
        }
        memset(out, 0, 40);
        out[0] = 0x60;
        put16(out + 4, (uint16_t)inner_bytes);
        out[6] = proto;
        out[7] = 64;
        memcpy(out + 8, src->b, 16);
        memcpy(out + 24, dst->b, 16);
        return 40;
}

size_t packet_icmp_error(uint8_t out[ICMP_ERROR_BYTES_MAX], enum packet_error what, const struct addr *src, const struct addr *dst, uint8_t proto,
                         struct slice inner)
{
        static const uint8_t v4_codes[] = { [PACKET_PORT_UNREACHABLE] = 3, [PACKET_PROHIBITED] = 13 };
        static const uint8_t v6_codes[] = { [PACKET_PORT_UNREACHABLE] = 4, [PACKET_PROHIBITED] = 1 };
        bool v4 = addr_is_v4(src);
        size_t n = 8;

        inner = slice_first(inner, 8);
        memset(out, 0, ICMP_ERROR_BYTES_MAX);
        out[0] = v4 ? 3 : 1; /* destination unreachable */
        out[1] = (v4 ? v4_codes : v6_codes)[what];
        n += quote_head(out + n, src, dst, proto, inner.n);
        if (inner.n)
                memcpy(out + n, inner.p, inner.n);
        n += inner.n;
        if (v4)
                put16(out + 2, packet_fold(packet_sum(0, slice_of(out, n))));
        return n;
}

static bool echo_body(struct slice icmp, uint8_t type, struct echo *out)
{
        if (icmp.n < 8 || icmp.p[0] != type || icmp.p[1] != 0)
                return false;
        out->id = get16(icmp.p + 4);
        out->seq = get16(icmp.p + 6);
        out->data = slice_skip(icmp, 8);
        return true;
}

bool packet_echo_v4(struct slice in, struct echo *out)
{
        size_t head;

        if (in.n < 20 || in.p[0] >> 4 != 4 || in.p[9] != IPPROTO_ICMP)
                return false;
        head = (size_t)(in.p[0] & 15) * 4;
        if (head < 20 || in.n < head || packet_fold(packet_sum(0, slice_skip(in, head))) != 0)
                return false;
        out->src = addr_v4((uint32_t)get16(in.p + 12) << 16 | get16(in.p + 14));
        out->dst = addr_v4((uint32_t)get16(in.p + 16) << 16 | get16(in.p + 18));
        return echo_body(slice_skip(in, head), 8, out);
}

bool packet_echo_v6(struct slice in, struct echo *out) { return echo_body(in, 128, out); }

void packet_echo_reply_head(uint8_t out[8], bool v4, uint16_t id, uint16_t seq, struct slice data)
{
        memset(out, 0, 8);
        out[0] = v4 ? 0 : 129;
        put16(out + 4, id);
        put16(out + 6, seq);
        if (v4)
                put16(out + 2, packet_fold(packet_sum(packet_sum(0, slice_of(out, 8)), data)));
}
