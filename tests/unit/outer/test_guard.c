/* The address table: every forbidden kind in every spelling, and the neighbours that must stay allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "outer/guard.h"

static const struct {
        const char *text;
        enum guard_class class;
} cases[] = {
        { "93.184.216.34", GUARD_PUBLIC }, { "1.1.1.1", GUARD_PUBLIC }, { "8.8.8.8", GUARD_PUBLIC }, { "223.255.255.255", GUARD_PUBLIC },
        { "192.0.2.1", GUARD_PUBLIC }, { "198.51.100.1", GUARD_PUBLIC }, { "203.0.113.0", GUARD_PUBLIC }, { "203.0.113.255", GUARD_PUBLIC },
        { "9.255.255.255", GUARD_PUBLIC }, { "11.0.0.0", GUARD_PUBLIC }, { "172.15.255.255", GUARD_PUBLIC }, { "172.32.0.0", GUARD_PUBLIC },
        { "192.167.255.255", GUARD_PUBLIC }, { "192.169.0.0", GUARD_PUBLIC }, { "100.63.255.255", GUARD_PUBLIC }, { "100.128.0.0", GUARD_PUBLIC },
        { "126.255.255.255", GUARD_PUBLIC }, { "128.0.0.0", GUARD_PUBLIC }, { "169.253.255.255", GUARD_PUBLIC }, { "169.255.0.0", GUARD_PUBLIC },
        { "198.17.255.255", GUARD_PUBLIC }, { "198.20.0.0", GUARD_PUBLIC }, { "192.0.1.0", GUARD_PUBLIC },
        { "10.0.0.0", GUARD_PRIVATE }, { "10.255.255.255", GUARD_PRIVATE }, { "172.16.0.0", GUARD_PRIVATE }, { "172.31.255.255", GUARD_PRIVATE },
        { "192.168.0.0", GUARD_PRIVATE }, { "192.168.255.255", GUARD_PRIVATE }, { "100.64.0.0", GUARD_PRIVATE }, { "100.127.255.255", GUARD_PRIVATE },
        { "198.18.0.0", GUARD_PRIVATE }, { "198.19.255.255", GUARD_PRIVATE }, { "192.0.0.1", GUARD_PRIVATE },
        { "127.0.0.0", GUARD_LOCAL }, { "127.0.0.1", GUARD_LOCAL }, { "127.255.255.255", GUARD_LOCAL }, { "169.254.0.0", GUARD_LOCAL },
        { "169.254.255.255", GUARD_LOCAL }, { "169.254.169.254", GUARD_LOCAL }, { "169.254.170.2", GUARD_LOCAL }, { "168.63.129.16", GUARD_LOCAL },
        { "100.100.100.200", GUARD_LOCAL }, { "192.0.0.192", GUARD_LOCAL },
        { "0.0.0.0", GUARD_NEVER }, { "0.0.0.1", GUARD_NEVER }, { "0.255.255.255", GUARD_NEVER }, { "224.0.0.1", GUARD_NEVER },
        { "239.255.255.255", GUARD_NEVER }, { "240.0.0.1", GUARD_NEVER }, { "255.255.255.255", GUARD_NEVER }, { "192.88.99.1", GUARD_NEVER },
        { "2606:2800:220:1::1", GUARD_PUBLIC }, { "2001:4860:4860::8888", GUARD_PUBLIC }, { "2001:db8::1", GUARD_PUBLIC },
        { "::", GUARD_NEVER }, { "::1", GUARD_LOCAL }, { "::2", GUARD_NEVER }, { "fe80::1", GUARD_LOCAL }, { "febf::1", GUARD_LOCAL }, { "fec0::1", GUARD_PRIVATE },
        { "fc00::1", GUARD_PRIVATE }, { "fdff::1", GUARD_PRIVATE }, { "fd62:726f:6d65::1", GUARD_PRIVATE }, { "fd00:ec2::254", GUARD_LOCAL },
        { "fd20:ce::254", GUARD_LOCAL }, { "ff02::1", GUARD_NEVER }, { "100::1", GUARD_NEVER }, { "2001:2::1", GUARD_PRIVATE },
        /* IPv4 in IPv6: mapped, compatible, translated */
        { "::ffff:127.0.0.1", GUARD_LOCAL }, { "::ffff:10.0.0.1", GUARD_PRIVATE }, { "::ffff:93.184.216.34", GUARD_PUBLIC }, { "::ffff:7f00:1", GUARD_LOCAL },
        { "::127.0.0.1", GUARD_LOCAL }, { "::a00:1", GUARD_PRIVATE }, { "::ffff:0:127.0.0.1", GUARD_LOCAL }, { "::ffff:0:93.184.216.34", GUARD_PUBLIC },
        /* NAT64 */
        { "64:ff9b::127.0.0.1", GUARD_LOCAL }, { "64:ff9b::a00:1", GUARD_PRIVATE }, { "64:ff9b::5db8:d822", GUARD_PUBLIC }, { "64:ff9b::a9fe:a9fe", GUARD_LOCAL },
        { "64:ff9b:1::127.0.0.1", GUARD_LOCAL }, { "64:ff9b:1::5db8:d822", GUARD_PUBLIC }, { "64:ff9b:1:abcd::10.0.0.1", GUARD_PRIVATE },
        { "64:ff9b:1:0:a:0:100::", GUARD_PRIVATE }, { "64:ff9b:1:7f00:0:100::", GUARD_NEVER }, { "64:ff9b:2::1", GUARD_NEVER },
        /* 6to4, Teredo, ISATAP */
        { "2002:7f00:1::1", GUARD_LOCAL }, { "2002:a00:1::1", GUARD_PRIVATE }, { "2002:5db8:d822::1", GUARD_PUBLIC }, { "2002:a9fe:a9fe::", GUARD_LOCAL },
        { "2001:0:7f00:1::", GUARD_NEVER }, { "2001:0:5db8:d822:0:0:a247:27dd", GUARD_PUBLIC }, { "2001:0:5db8:d822:0:0:80ff:fffe", GUARD_LOCAL },
        { "2001:0:5db8:d822:0:0:f5ff:fffe", GUARD_PRIVATE }, { "2606:2800::5efe:7f00:1", GUARD_LOCAL }, { "2606:2800::200:5efe:a00:1", GUARD_PRIVATE },
        { "2606:2800::5efe:5db8:d822", GUARD_PUBLIC },
};

static void every_spelling(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct addr a;
                struct guard_range r;

                assert_int_equal(addr_parse(&a, slice_str(cases[i].text)), 0);
                r = guard_judge(&a);
                if (r.class != cases[i].class)
                        fail_msg("%s: class %d, want %d (%s)", cases[i].text, (int)r.class, (int)cases[i].class, r.what);
                assert_true((r.class == GUARD_PUBLIC) == (r.what[0] == 0));
        }
}

/* What a forbidden IPv4 address is, it stays in every IPv6 spelling of it. */
static void spellings_agree(void **state)
{
        (void)state;
        for (uint32_t k = 0; k < 200000; k++) {
                uint32_t h = k * 2654435761u;
                struct addr v4 = addr_v4(h), six;
                static const uint8_t prefix[][12] = { { 0, 0x64, 0xff, 0x9b }, { 0 }, { [8] = 0xff, [9] = 0xff }, { 0, 0x64, 0xff, 0x9b, 0, 1, 0xab, 0xcd },
                                                      { 0x26, 6, 0x28, 0, [10] = 0x5e, [11] = 0xfe } };
                enum guard_class want = guard_judge(&v4).class;

                for (size_t p = 0; p < 5; p++) {
                        memcpy(six.b, prefix[p], 12);
                        memcpy(six.b + 12, v4.b + 12, 4);
                        assert_true(guard_judge(&six).class >= want);
                }
                memset(six.b, 0, 16);
                six.b[0] = 0x20, six.b[1] = 0x02;
                memcpy(six.b + 2, v4.b + 12, 4);
                assert_true(guard_judge(&six).class >= want);
        }
}

static enum reason check(const char *text, bool private_ok, bool literal, bool pinned)
{
        struct guard_claim claim = { private_ok, literal, pinned };
        struct addr a;
        const char *what;

        assert_int_equal(addr_parse(&a, slice_str(text)), 0);
        return guard_check(&a, &claim, &what);
}

static void claims(void **state)
{
        (void)state;
        assert_int_equal(check("93.184.216.34", 0, 0, 0), REASON_NONE);
        assert_int_equal(check("10.0.0.1", 0, 0, 0), REASON_ADDRESS_PRIVATE);
        assert_int_equal(check("10.0.0.1", 1, 0, 0), REASON_NONE);
        assert_int_equal(check("127.0.0.1", 1, 0, 0), REASON_ADDRESS_FORBIDDEN);
        assert_int_equal(check("169.254.169.254", 1, 0, 0), REASON_ADDRESS_FORBIDDEN);
        assert_int_equal(check("127.0.0.1", 0, 1, 0), REASON_NONE);
        assert_int_equal(check("0.0.0.0", 1, 1, 0), REASON_ADDRESS_FORBIDDEN);
        assert_int_equal(check("224.0.0.1", 1, 1, 0), REASON_ADDRESS_FORBIDDEN);
        assert_int_equal(check("127.0.0.1", 0, 0, 1), REASON_NONE);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(every_spelling), cmocka_unit_test(spellings_agree), cmocka_unit_test(claims) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
