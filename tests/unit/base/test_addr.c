/* Addresses and prefixes: what is accepted, what is one address in two spellings, what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/addr.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_round_trip(void **state)
{
        static const struct { const char *in, *out; } rows[] = {
                { "1.2.3.4", "1.2.3.4" },
                { "0.0.0.0", "0.0.0.0" },
                { "::ffff:1.2.3.4", "1.2.3.4" },
                { "::ffff:102:304", "1.2.3.4" },
                { "2001:DB8:0:0:0:0:0:1", "2001:db8::1" },
                { "::", "::" },
                { "64:ff9b::a00:1", "64:ff9b::a00:1" },
        };
        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                char text[ADDR_TEXT_BYTES];
                struct addr a, b;
                assert_int_equal(addr_parse(&a, slice_str(rows[i].in)), 0);
                assert_string_equal(addr_print(text, &a), rows[i].out);
                assert_int_equal(addr_parse(&b, slice_str(text)), 0);
                assert_true(addr_eq(&a, &b));
        }
}

static void test_refused(void **state)
{
        static const char *const rows[] = { "", "1.2.3", "1.2.3.04", "01.2.3.4", "1.2.3.4.", "1.2.3.256", "0x7f.0.0.1", "2130706433", "fe80::1%eth0", "[::1]", ":::", "1::2::3", " 1.2.3.4" };
        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct addr a;
                assert_int_equal(addr_parse(&a, slice_str(rows[i])), -1);
        }
        struct addr a;
        assert_int_equal(addr_parse(&a, slice_of("1.2.3.4\0x", 9)), -1);
}

static void test_cidr(void **state)
{
        static const struct { const char *cidr, *in, *out; } rows[] = {
                { "10.0.0.0/8", "10.255.0.1", "11.0.0.0" },
                { "192.168.1.128/25", "192.168.1.255", "192.168.1.127" },
                { "0.0.0.0/0", "8.8.8.8", "2001:db8::1" },
                { "1.2.3.4/32", "1.2.3.4", "1.2.3.5" },
                { "2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::" },
                { "::/0", "1.2.3.4", NULL },
        };
        static const char *const bad[] = { "10.0.0.1/8", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/-1", "2001:db8::1/64", "::/129", "/8" };
        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct cidr c;
                struct addr a;
                char text[ADDR_TEXT_BYTES];
                assert_int_equal(cidr_parse(&c, slice_str(rows[i].cidr)), 0);
                assert_string_equal(cidr_print(text, &c), rows[i].cidr);
                assert_int_equal(addr_parse(&a, slice_str(rows[i].in)), 0);
                assert_true(cidr_has(&c, &a));
                if (rows[i].out) {
                        assert_int_equal(addr_parse(&a, slice_str(rows[i].out)), 0);
                        assert_false(cidr_has(&c, &a));
                }
        }
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct cidr c;
                assert_int_equal(cidr_parse(&c, slice_str(bad[i])), -1);
        }
}

static void test_sockaddr(void **state)
{
        struct sockaddr_storage sa;
        struct addr a = addr_v4(0x01020304), b;
        uint16_t port;
        (void)state;
        for (int v6 = 0; v6 < 2; v6++) {
                socklen_t n = addr_to_sockaddr(&sa, &a, 443, v6);
                assert_int_equal(sa.ss_family, v6 ? AF_INET6 : AF_INET);
                assert_int_equal(addr_from_sockaddr(&b, &port, (struct sockaddr *)&sa, n), 0);
                assert_true(addr_eq(&a, &b));
                assert_int_equal(port, 443);
        }
        sa.ss_family = AF_UNIX;
        assert_int_equal(addr_from_sockaddr(&b, &port, (struct sockaddr *)&sa, sizeof(sa)), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refused), cmocka_unit_test(test_cidr), cmocka_unit_test(test_sockaddr) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
