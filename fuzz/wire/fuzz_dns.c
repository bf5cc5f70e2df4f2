/* DNS: answers to whatever was accepted echo its question and stay in bounds; a refusal is a header or nothing. */
#include "fuzz_wire.h"
#include "wire/dns.h"

static void check_answers(const struct dns_query *q, uint8_t control)
{
        struct addr addr[3] = { addr_v4(0xc6120001), { { 0xfd } }, addr_v4(0xc6120002) }, reverse;
        struct dns_answer ans = { .rcode = (enum dns_rcode)(control % 6), .ttl_s = 60, .addr = addr, .addr_n = 3, .ptr = SLICE_LIT("a.example") };
        uint8_t out[1500];
        size_t n = dns_answer(out, sizeof(out), q, &ans, control & 0x80);

        HOLDS(n >= 12 + q->qname.n + 4 && n <= sizeof(out));
        HOLDS(!(control & 0x80) || n <= q->udp_bytes);
        HOLDS(memcmp(out + 12, q->qname.p, q->qname.n) == 0);
        HOLDS(out[2] & 0x80);
        ans.ptr = q->name;
        dns_answer(out, control, q, &ans, true);
        dns_reverse(q->name, &reverse);
        HOLDS(q->name.n < DNS_NAME_WIRE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), msg;
        uint8_t control = fuzz_byte(&in), out[12];
        struct dns_query q;
        size_t used, refused;
        struct arena a;

        arena_init(&a, 1u << 20);
        refused = dns_refuse(out, sizeof(out), in);
        HOLDS(refused == 0 || refused == 12);
        if (dns_query_parse(&a, in, &q) == WIRE_OK)
                check_answers(&q, control);
        while (dns_tcp_next(in, &msg, &used) == WIRE_DONE) {
                HOLDS(used == msg.n + 2 && used <= in.n);
                in = slice_skip(in, used);
        }
        arena_fini(&a);
        return 0;
}
