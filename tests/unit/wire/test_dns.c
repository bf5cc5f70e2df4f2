/* DNS queries strictly read, answers built and walked by a reader of the test's own. */
#include "wire/dns.h"
#include "wire_test.h"

struct row {
        const char *what;
        struct slice msg;
        enum wire_reason why;
};
#define HEAD(qd, an, ns, ar) "\x12\x34\x01\0\0" qd "\0" an "\0" ns "\0" ar
#define Q1 HEAD("\1", "\0", "\0", "\0")
#define QE HEAD("\1", "\0", "\0", "\1")
#define NAME "\3wWw\7exAmple\3org\0"
#define OPT "\0\0\x29\x10\0\0\0\x80\0\0\0"
#define M(text) { (const uint8_t *)(text), sizeof(text) - 1 }
static const struct row rows[] = {
        { "a", M(Q1 NAME "\0\1\0\1"), WIRE_OK },
        { "edns", M(QE NAME "\0\1\0\1" OPT), WIRE_OK },
        { "root", M(Q1 "\0\0\2\0\1"), WIRE_OK },
        { "edns with cookie", M(QE NAME "\0\1\0\1" "\0\0\x29\x10\0\0\0\0\0\0\x0c\0\x0a\0\x08" "12345678"), WIRE_OK },
        { "header cut", M("\x12\x34\1\0\0\1\0\0\0\0\0"), WIRE_DNS_SHORT },
        { "name cut", M(Q1 "\3ww"), WIRE_DNS_SHORT },
        { "type cut", M(Q1 NAME "\0\1\0"), WIRE_DNS_SHORT },
        { "answer", M("\x12\x34\x81\0\0\1\0\0\0\0\0\0" NAME "\0\1\0\1"), WIRE_DNS_NOT_QUERY },
        { "update", M("\x12\x34\x28\0\0\1\0\0\0\0\0\0" NAME "\0\1\0\1"), WIRE_DNS_NOT_QUERY },
        { "truncated", M("\x12\x34\x03\0\0\1\0\0\0\0\0\0" NAME "\0\1\0\1"), WIRE_DNS_NOT_QUERY },
        { "rcode", M("\x12\x34\x01\3\0\1\0\0\0\0\0\0" NAME "\0\1\0\1"), WIRE_DNS_NOT_QUERY },
        { "no question", M(HEAD("\0", "\0", "\0", "\0")), WIRE_DNS_QUESTIONS },
        { "two questions", M(HEAD("\2", "\0", "\0", "\0") NAME "\0\1\0\1" NAME "\0\1\0\1"), WIRE_DNS_QUESTIONS },
        { "answers", M(HEAD("\1", "\1", "\0", "\0") NAME "\0\1\0\1"), WIRE_DNS_RECORDS },
        { "authority", M(HEAD("\1", "\0", "\1", "\0") NAME "\0\1\0\1"), WIRE_DNS_RECORDS },
        { "two additional", M(HEAD("\1", "\0", "\0", "\2") NAME "\0\1\0\1" OPT OPT), WIRE_DNS_RECORDS },
        { "other additional", M(QE NAME "\0\1\0\1" "\0\0\xfa\0\1\0\0\0\0\0\0"), WIRE_DNS_RECORDS },
        { "class", M(Q1 NAME "\0\1\0\3"), WIRE_DNS_CLASS },
        { "any class", M(Q1 NAME "\0\1\0\xff"), WIRE_DNS_CLASS },
        { "pointer", M(Q1 "\xc0\x0c\0\1\0\1"), WIRE_DNS_COMPRESSED },
        { "pointer behind a label", M(Q1 "\3www\xc0\x0c\0\1\0\1"), WIRE_DNS_COMPRESSED },
        { "long label", M(Q1 "\x40" "aaaa"), WIRE_DNS_NAME },
        { "bit label", M(Q1 "\x80" "aaaa"), WIRE_DNS_NAME },
        { "trailing", M(Q1 NAME "\0\1\0\1x"), WIRE_DNS_TRAILING },
        { "trailing edns", M(QE NAME "\0\1\0\1" OPT "x"), WIRE_DNS_TRAILING },
        { "edns missing", M(QE NAME "\0\1\0\1"), WIRE_DNS_SHORT },
        { "edns options cut", M(QE NAME "\0\1\0\1" "\0\0\x29\x10\0\0\0\0\0\0\4\0\x0a\0\x08"), WIRE_DNS_EDNS },
        { "edns length", M(QE NAME "\0\1\0\1" "\0\0\x29\x10\0\0\0\0\0\0\5\0\x0a\0\0"), WIRE_DNS_SHORT },
};

static void queries_are_read_or_refused(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct dns_query q;
                uint8_t *copy = malloc(rows[i].msg.n);
                struct slice msg = slice_of(copy, rows[i].msg.n);
                uint8_t out[64];

                assert_non_null(copy);
                memcpy(copy, rows[i].msg.p, msg.n);
                assert_reason(dns_query_parse(*state, msg, &q), rows[i].why, rows[i].what);
                /* Every prefix of a good query is refused, and nothing is read beyond. */
                for (size_t n = 0; n < msg.n; n++) {
                        uint8_t *part = malloc(n ? n : 1);

                        assert_non_null(part);
                        memcpy(part, copy, n);
                        if (dns_query_parse(*state, slice_of(part, n), &q) == WIRE_OK && rows[i].why != WIRE_DNS_TRAILING)
                                fail_msg("%s: prefix of %zu", rows[i].what, n);
                        dns_refuse(out, sizeof(out), slice_of(part, n));
                        free(part);
                }
                free(copy);
        }
}

static void names_become_text(void **state)
{
        static const uint8_t odd[] = Q1 "\5a.b\0c\0\0\1\0\1";
        struct dns_query q;

        assert_reason(dns_query_parse(*state, rows[0].msg, &q), WIRE_OK, "a");
        assert_slice(q.name, "www.example.org");
        assert_true(q.host_ok && q.rd && !q.edns && q.type == DNS_A && q.id == 0x1234 && q.udp_bytes == 512);
        assert_reason(dns_query_parse(*state, rows[1].msg, &q), WIRE_OK, "edns");
        assert_true(q.edns && q.dnssec_ok && q.udp_bytes == DNS_UDP_BYTES_MAX);
        assert_reason(dns_query_parse(*state, slice_of(odd, sizeof(odd) - 1), &q), WIRE_OK, "odd");
        assert_slice(q.name, "a?b?c"); /* a dot inside a label is no dot */
        assert_false(q.host_ok);
}

static void longest_name(void **state)
{
        uint8_t msg[12 + 300] = { 0, 1, 1, 0, 0, 1 };
        struct dns_query q;

        for (int labels = 126; labels <= 128; labels++) { /* 2·127 + 1 = 255 */
                size_t n = 12;

                for (int i = 0; i < labels; i++) {
                        msg[n++] = 1;
                        msg[n++] = 'a';
                }
                memcpy(msg + n, "\0\0\1\0\1", 5);
                assert_reason(dns_query_parse(*state, slice_of(msg, n + 5), &q), labels <= 127 ? WIRE_OK : WIRE_DNS_NAME, "length");
        }
}

static unsigned u16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }

static void answers_are_built(void **state)
{
        struct dns_query q;
        struct addr addr[3] = { addr_v4(0xc6120101), { { 0xfd, 0x62 } }, addr_v4(0xc6120102) };
        struct dns_answer ans = { .rcode = DNS_NOERROR, .ttl_s = 60, .addr = addr, .addr_n = 3 };
        uint8_t out[2048];
        size_t n, question = 12 + 17 + 4;

        assert_reason(dns_query_parse(*state, rows[0].msg, &q), WIRE_OK, "a");
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(n, question + 2 * 16);
        assert_int_equal(u16(out), 0x1234);
        assert_int_equal(u16(out + 2), 0x8180);
        assert_int_equal(u16(out + 6), 2);
        assert_memory_equal(out + 12, "\3wWw\7exAmple\3org", 17); /* the sender's letter case */
        assert_memory_equal(out + question, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\1\1", 16);

        q.type = DNS_AAAA;
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(n, question + 28);
        assert_int_equal(u16(out + 6), 1);
        q.type = DNS_HTTPS;
        n = dns_answer(out, sizeof(out), &q, &ans, true); /* NODATA */
        assert_int_equal(u16(out + 2), 0x8180);
        assert_int_equal(u16(out + 6), 0);
        assert_int_equal(u16(out + 8), 1);
        assert_int_equal(n, question + 1 + 10 + 22);
        assert_int_equal(out[n - 1], DNS_NEGATIVE_TTL_S);
        ans.rcode = DNS_NXDOMAIN;
        dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(u16(out + 2), 0x8183);
        assert_int_equal(u16(out + 8), 1);
        ans.rcode = DNS_REFUSED;
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(u16(out + 2), 0x8185);
        assert_int_equal(n, question);
        q.type = DNS_PTR;
        ans = (struct dns_answer){ .rcode = DNS_NOERROR, .ttl_s = 1, .ptr = SLICE_LIT("a.example") };
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(u16(out + 6), 1);
        assert_memory_equal(out + n - 11, "\1a\7example", 11);
}

static void edns_and_truncation(void **state)
{
        struct dns_query q;
        struct addr addr[DNS_ANSWERS_MAX];
        struct dns_answer ans = { .rcode = DNS_NOERROR, .ttl_s = 60, .addr = addr, .addr_n = DNS_ANSWERS_MAX };
        uint8_t out[2048];
        size_t n;

        for (size_t i = 0; i < DNS_ANSWERS_MAX; i++)
                addr[i] = (struct addr){ { 0xfd, 0x62, [15] = (uint8_t)i } };
        assert_reason(dns_query_parse(*state, rows[1].msg, &q), WIRE_OK, "edns");
        q.type = DNS_AAAA;
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(u16(out + 6), DNS_ANSWERS_MAX);
        assert_int_equal(u16(out + 10), 1);
        assert_memory_equal(out + n - 11, "\0\0\x29\x04\xd0\0\0\x80\0\0\0", 11);
        q.udp_bytes = 400;
        q.edns = false;
        n = dns_answer(out, sizeof(out), &q, &ans, true);
        assert_int_equal(u16(out + 2), 0x8380);
        assert_int_equal(u16(out + 6), 0);
        assert_int_equal(n, 12 + 17 + 4);
        n = dns_answer(out, sizeof(out), &q, &ans, false); /* TCP takes it */
        assert_int_equal(u16(out + 6), DNS_ANSWERS_MAX);
        assert_int_equal(dns_answer(out, 20, &q, &ans, false), 0);
        q.edns = true;
        q.edns_version = 1;
        n = dns_answer(out, sizeof(out), &q, &ans, false); /* BADVERS */
        assert_int_equal(u16(out + 6), 0);
        assert_int_equal(out[n - 6], 1);
}

static void refusals(void **state)
{
        uint8_t out[64];
        (void)state;

        assert_int_equal(dns_refuse(out, sizeof(out), slice_first(rows[0].msg, 11)), 0);
        assert_int_equal(dns_refuse(out, sizeof(out), SLICE_LIT("\x12\x34\x81\0\0\1\0\0\0\0\0\0")), 0);
        assert_int_equal(dns_refuse(out, sizeof(out), rows[0].msg), 12);
        assert_memory_equal(out, "\x12\x34\x81\x81\0\0\0\0\0\0\0\0", 12);
        assert_int_equal(dns_refuse(out, sizeof(out), SLICE_LIT("\x12\x34\x28\0\0\1\0\0\0\0\0\0")), 12);
        assert_memory_equal(out, "\x12\x34\xa8\x84", 4);
}

static void reverse_names(void **state)
{
        struct addr a;
        char text[ADDR_TEXT_BYTES];
        (void)state;

        assert_true(dns_reverse(SLICE_LIT("4.3.2.1.in-addr.arpa"), &a));
        assert_string_equal(addr_print(text, &a), "1.2.3.4");
        assert_true(dns_reverse(SLICE_LIT("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.5.6.d.6.f.6.2.7.2.6.d.f.ip6.arpa"), &a));
        assert_string_equal(addr_print(text, &a), "fd62:726f:6d65:1::1");
        static const char *const bad[] = { "3.2.1.in-addr.arpa", "5.4.3.2.1.in-addr.arpa", "256.3.2.1.in-addr.arpa", "04.3.2.1.in-addr.arpa",
                                           "in-addr.arpa", "a.example", ".in-addr.arpa", "1.ip6.arpa", "" };
        for (size_t i = 0; i < COUNT(bad); i++)
                assert_false(dns_reverse(slice_str(bad[i]), &a));
}

static void tcp_framing(void **state)
{
        struct slice in = SLICE_LIT("\0\3abc\0\0\0\1"), msg;
        size_t used = 0;
        (void)state;

        for (size_t n = 0; n < 5; n++)
                assert_int_equal(dns_tcp_next(slice_first(in, n), &msg, &used), WIRE_MORE);
        assert_int_equal(dns_tcp_next(in, &msg, &used), WIRE_DONE);
        assert_slice(msg, "abc");
        in = slice_skip(in, used);
        assert_int_equal(dns_tcp_next(in, &msg, &used), WIRE_DONE);
        assert_int_equal(msg.n, 0);
        assert_int_equal(dns_tcp_next(slice_skip(in, used), &msg, &used), WIRE_MORE);
}

static void types_have_names(void **state)
{
        char text[DNS_TYPE_TEXT_BYTES];
        (void)state;

        assert_string_equal(dns_type_text(text, DNS_A), "A");
        assert_string_equal(dns_type_text(text, DNS_AAAA), "AAAA");
        assert_string_equal(dns_type_text(text, 65535), "TYPE65535");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(queries_are_read_or_refused), ARENA_TEST(names_become_text), ARENA_TEST(longest_name),
                ARENA_TEST(answers_are_built),           ARENA_TEST(edns_and_truncation), ARENA_TEST(refusals),
                ARENA_TEST(reverse_names),               ARENA_TEST(tcp_framing),          ARENA_TEST(types_have_names),
        };
        return cmocka_run_group_tests_name("wire/dns", tests, NULL, NULL);
}
