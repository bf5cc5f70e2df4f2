/* Packets by hand: headers with right checksums, errors that quote what the sender needs, echoes read strictly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "inner/packet.h"

static struct addr addr(const char *text)
{
        struct addr a;

        assert_int_equal(addr_parse(&a, slice_str(text)), 0);
        return a;
}

static void test_sum(void **state)
{
        /* RFC 1071 §3 */
        static const uint8_t example[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

        (void)state;
        assert_int_equal(packet_fold(packet_sum(0, slice_of(example, sizeof(example)))), (uint16_t)~0xddf2);
        assert_int_equal(packet_fold(packet_sum(0, slice_of(example, 1))), 0xffff);
}

static void test_udp_head(void **state)
{
        struct addr src = addr("10.88.0.1"), dst = addr("10.88.0.2"), six = addr("fd00::1");
        uint8_t head[UDP_HEAD_BYTES];
        uint32_t sum;

        (void)state;
        packet_udp_head(head, &src, 53, &dst, 40000, SLICE_LIT("abc"));
        assert_int_equal(head[5], 11);
        sum = packet_sum(0, slice_of(src.b + 12, 4));
        sum = packet_sum(sum, slice_of(dst.b + 12, 4)) + 17 + 11;
        sum = packet_sum(packet_sum(sum, slice_of(head, 8)), SLICE_LIT("abc"));
        assert_int_equal(packet_fold(sum), 0);
        packet_udp_head(head, &six, 53, &six, 40000, SLICE_LIT("abc"));
        assert_int_equal(head[6] | head[7], 0);
}

static void test_error(void **state)
{
        struct addr src = addr("10.88.0.2"), dst = addr("192.0.2.1"), six = addr("fd00::1");
        uint8_t out[ICMP_ERROR_BYTES_MAX];
        size_t n = packet_icmp_error(out, PACKET_PORT_UNREACHABLE, &src, &dst, 17, SLICE_LIT("12345678and more"));

        (void)state;
        assert_int_equal(n, 8 + 20 + 8);
        assert_int_equal(out[0], 3);
        assert_int_equal(out[1], 3);
        assert_int_equal(packet_fold(packet_sum(0, slice_of(out, n))), 0);
        assert_memory_equal(out + 8 + 12, src.b + 12, 4);
        assert_memory_equal(out + 28, "12345678", 8);
        n = packet_icmp_error(out, PACKET_PROHIBITED, &six, &six, 17, SLICE_LIT("12345678"));
        assert_int_equal(n, 8 + 40 + 8);
        assert_true(n <= sizeof(out));
        assert_int_equal(out[0], 1);
        assert_int_equal(out[1], 1);
}

static void test_echo(void **state)
{
        uint8_t p[32] = { 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0, 0, 10, 88, 0, 2, 198, 18, 1, 0, 8, 0, 0, 0, 1, 2, 3, 4, 'd', 'a', 't', 'a' };
        uint16_t sum = packet_fold(packet_sum(0, slice_of(p + 20, 12)));
        struct echo e;

        (void)state;
        p[22] = (uint8_t)(sum >> 8);
        p[23] = (uint8_t)sum;
        assert_true(packet_echo_v4(slice_of(p, 32), &e));
        assert_int_equal(e.id, 0x102);
        assert_int_equal(e.seq, 0x304);
        assert_true(slice_is(e.data, "data"));
        for (size_t n = 0; n < 28; n++)
                assert_false(packet_echo_v4(slice_of(p, n), &e));
        p[0] = 0x4f; /* a header longer than the packet */
        assert_false(packet_echo_v4(slice_of(p, 32), &e));
        p[0] = 0x45;
        p[31] ^= 1; /* a wrong checksum */
        assert_false(packet_echo_v4(slice_of(p, 32), &e));
        p[31] ^= 1;
        p[20] = 0; /* a reply */
        assert_false(packet_echo_v4(slice_of(p, 32), &e));
        p[20] = 128;
        assert_true(packet_echo_v6(slice_of(p + 20, 12), &e));
        assert_false(packet_echo_v6(slice_of(p + 20, 7), &e));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_sum), cmocka_unit_test(test_udp_head), cmocka_unit_test(test_error), cmocka_unit_test(test_echo) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
