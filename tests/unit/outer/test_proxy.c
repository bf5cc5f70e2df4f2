/* The upstream proxy: who goes through it, what is written to it, and that its password stands nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "outer/proxy.h"
#include <string.h>

static bool covers(const struct proxy *p, const char *host)
{
        struct authority a = { .port = 443 };

        if (addr_parse(&a.addr, slice_str(host)) == 0)
                a.is_addr = true;
        else
                a.name = slice_str(host);
        return proxy_covers(p, &a);
}

static void no_proxy_entries(void **state)
{
        struct err err = ERR_INIT;
        struct proxy *p = proxy_new("http://proxy.corp.test:3128", "corp.test, .Example.ORG,*.wild.test,192.0.2.0/24 ,2001:db8::1,port.test:8080", &err);

        (void)state;
        assert_non_null(p);
        assert_int_equal(proxy_at(p)->port, 3128);
        assert_false(covers(p, "corp.test"));
        assert_false(covers(p, "a.corp.test"));
        assert_true(covers(p, "acorp.test"));
        assert_false(covers(p, "x.example.org"));
        assert_false(covers(p, "wild.test"));
        assert_false(covers(p, "192.0.2.9"));
        assert_true(covers(p, "192.0.3.9"));
        assert_false(covers(p, "2001:db8::1"));
        assert_false(covers(p, "port.test"));
        assert_true(covers(p, "other.test"));
        assert_false(covers(NULL, "other.test"));
        proxy_free(p);
}

static void connect_head(void **state)
{
        struct err err = ERR_INIT;
        struct proxy *p = proxy_new("http://u%40x:p@proxy.corp.test/", NULL, &err);
        struct authority to = { .name = SLICE_LIT("h.test"), .port = 443 };
        struct buf out;

        (void)state;
        assert_non_null(p);
        assert_int_equal(proxy_at(p)->port, 80);
        buf_init(&out, 4096);
        assert_int_equal(proxy_connect(p, &to, &out), 0);
        assert_true(slice_is(buf_slice(&out), "CONNECT h.test:443 HTTP/1.1\r\nHost: h.test:443\r\nProxy-Authorization: Basic dUB4OnA=\r\n\r\n"));
        buf_fini(&out);
        proxy_free(p);
}

static void refused_urls(void **state)
{
        static const char *const bad[] = { "socks5://x.test:1080", "https://u:hunter2@x.test", "http://u:hunter2@", "http://u:hunter2@a b", "http://u:hunter2@h:99999" };
        struct err err = ERR_INIT;

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_null(proxy_new(bad[i], NULL, &err));
                assert_true(err.text[0]);
                assert_null(strstr(err.text, "hunter2"));
        }
        assert_null(proxy_new("", NULL, &err));
        assert_int_equal(err.text[0], 0);
}

static void answers(void **state)
{
        size_t used;
        unsigned status;

        (void)state;
        assert_int_equal(proxy_answer(SLICE_LIT("HTTP/1.1 200 OK\r\n\r\n"), &used, &status), 1);
        assert_int_equal(proxy_answer(SLICE_LIT("HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n"), &used, &status), 1);
        assert_int_equal(proxy_answer(SLICE_LIT("HTTP/1.1 407 No\r\n\r\n"), &used, &status), -1);
        assert_int_equal(status, 407);
        assert_int_equal(proxy_answer(SLICE_LIT("HTTP/1.1 200"), &used, &status), 0);
        assert_int_equal(proxy_answer(SLICE_LIT("SSH-2.0-x\r\n"), &used, &status), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(no_proxy_entries), cmocka_unit_test(connect_head), cmocka_unit_test(refused_urls), cmocka_unit_test(answers) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
