/* The outer door's own judgement: nothing but policy and guard admits, whatever the link says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "outer/decide.h"
#include <string.h>

static struct policy *policy_of(const char *text)
{
        static struct diags diags;
        struct policy *p;

        diags = (struct diags){ 0 };
        p = policy_parse(slice_str(text), "test", &diags);
        if (!p)
                fail_msg("%s", diags.list[0].message);
        return p;
}

static struct decision ask(const struct policy *p, enum exchange_kind kind, const char *method, const char *host, uint16_t port, const char *path,
                           const char *resolved)
{
        struct request req = { .method = slice_str(method), .scheme = SCHEME_HTTPS, .target = { .path = slice_str(path) } };
        struct addr a;
        struct decision d;

        req.authority.port = port;
        req.upgrade = kind == KIND_WEBSOCKET ? WIRE_UPGRADE_WEBSOCKET : WIRE_UPGRADE_NONE;
        if (addr_parse(&req.authority.addr, slice_str(host)) == 0)
                req.authority.is_addr = true;
        else
                req.authority.name = slice_str(host);
        if (resolved)
                assert_int_equal(addr_parse(&a, slice_str(resolved)), 0);
        decide(p, &(struct decide_self){ 0 }, kind, &req, resolved ? &a : NULL, &d);
        return d;
}

static const char rules[] = "table <bad> { 198.51.100.0/24 }\nhost in.corp.test { private ok }\nhost pin.corp.test { address 127.0.0.1 port 9000 }\n"
                            "rules {\n deny web <bad>\n allow web a.corp.test read-only\n allow web in.corp.test\n allow web pin.corp.test\n allow tcp t.corp.test:22\n"
                            " allow tls s.corp.test\n allow udp u.corp.test:53\n allow web 10.1.2.3\n default deny\n}\n";

static void requests(void **state)
{
        struct policy *p = policy_of(rules);

        (void)state;
        assert_true(ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", NULL).allow);
        assert_true(ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", "203.0.113.1").allow);
        assert_int_equal(ask(p, KIND_HTTP, "POST", "a.corp.test", 443, "/", "203.0.113.1").reason, REASON_READ_ONLY_METHOD);
        assert_false(ask(p, KIND_HTTP, "GET", "a.corp.test", 444, "/", NULL).allow);
        assert_false(ask(p, KIND_HTTP, "GET", "b.corp.test", 443, "/", NULL).allow);
        assert_false(ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", "198.51.100.9").allow);
        assert_int_equal(ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", "10.0.0.1").reason, REASON_ADDRESS_PRIVATE);
        assert_int_equal(ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", "::1").reason, REASON_ADDRESS_FORBIDDEN);
        assert_true(ask(p, KIND_HTTP, "GET", "in.corp.test", 443, "/", "10.0.0.1").allow);
        assert_false(ask(p, KIND_HTTP, "GET", "in.corp.test", 443, "/", "127.0.0.1").allow);
        assert_true(ask(p, KIND_HTTP, "GET", "pin.corp.test", 443, "/", "127.0.0.1").allow);
        assert_false(ask(p, KIND_HTTP, "GET", "pin.corp.test", 9000, "/", "127.0.0.1").allow);
        assert_false(ask(p, KIND_HTTP, "GET", "pin.corp.test", 443, "/", "127.0.0.2").allow);
        assert_true(ask(p, KIND_HTTP, "GET", "10.1.2.3", 443, "/", NULL).allow);
        assert_false(ask(p, KIND_HTTP, "GET", "10.1.2.4", 443, "/", NULL).allow);
        assert_int_equal(ask(p, KIND_WEBSOCKET, "GET", "a.corp.test", 443, "/", NULL).reason, REASON_READ_ONLY_UPGRADE);
        policy_free(p);
}

/* One kind of flow never passes for another. */
static void kinds(void **state)
{
        static const struct { const char *host; uint16_t port; unsigned kinds; } rows[] = {
                { "a.corp.test", 443, 1u << KIND_HTTP }, { "in.corp.test", 443, 1u << KIND_HTTP | 1u << KIND_WEBSOCKET }, { "t.corp.test", 22, 1u << KIND_TCP },
                { "s.corp.test", 443, 1u << KIND_TLS }, { "u.corp.test", 53, 1u << KIND_UDP }, { "x.corp.test", 443, 0 },
        };
        struct policy *p = policy_of(rules);

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (int k = 0; k < KIND_COUNT; k++)
                        if (ask(p, (enum exchange_kind)k, "GET", rows[i].host, rows[i].port, "/", "203.0.113.1").allow != (bool)(rows[i].kinds >> k & 1))
                                fail_msg("%s as %s (%d)", rows[i].host, kind_name((enum exchange_kind)k), k);
        policy_free(p);
}

static void sentences(void **state)
{
        struct policy *p = policy_of(rules);
        struct request req = { .authority = { .name = SLICE_LIT("a.corp.test"), .port = 443 } };
        struct decision d = ask(p, KIND_HTTP, "GET", "a.corp.test", 443, "/", "10.0.0.1");
        struct addr a = addr_v4(0x0a000001);
        char out[256];

        (void)state;
        decide_explain(&d, &req, &a, out, sizeof(out));
        assert_non_null(strstr(out, "host a.corp.test { private ok }"));
        assert_non_null(strstr(out, "10.0.0.1"));
        policy_free(p);
}

/* ---- accounts ---- */

#define HOLDER "brm_abcdefghijklmnopqrstuvwxyz234567"
static const char bound[] = "credential one { kind bearer; for { one.corp.test, two.corp.test:8443 }; placeholder \"" HOLDER "\" }\n"
                            "credential mirror { kind bearer; for mirror.corp.test; attach }\nhost mirror.corp.test { private ok }\n"
                            "rules {\n allow web reg.corp.test as npm via \"https://mirror.corp.test/npm/\"\n ask web two.corp.test:8443\n allow any *.corp.test:*\n default deny\n}\n";

static struct decision judge(const struct policy *p, const char *door, const char *minted, enum exchange_kind kind, const char *host, uint16_t port, const char *path,
                             const char *authorization, const char *resolved)
{
        struct header fields[2] = { { SLICE_LIT("authorization"), slice_str(authorization) } };
        struct request req = { .method = SLICE_LIT("GET"), .scheme = SCHEME_HTTPS, .target = { .path = slice_str(path) }, .headers = { fields, authorization ? 1 : 0 },
                               .authority = { .name = slice_str(host), .port = port }, .upgrade = kind == KIND_WEBSOCKET ? WIRE_UPGRADE_WEBSOCKET : WIRE_UPGRADE_NONE };
        struct decide_self self = { slice_str(door), slice_str(minted) };
        struct addr a;
        struct decision d;

        if (resolved)
                assert_int_equal(addr_parse(&a, slice_str(resolved)), 0);
        decide(p, &self, kind, &req, resolved ? &a : NULL, &d);
        return d;
}

static void doors(void **state)
{
        struct policy *p = policy_of(bound);
        struct decision d;

        (void)state;
        /* Each host at its own door. */
        d = judge(p, "one", "", KIND_HTTP, "one.corp.test", 443, "/", "Bearer " HOLDER, NULL);
        assert_true(d.allow && d.use.used && slice_is(d.binding->name, "one") && !d.ask);
        assert_int_equal(judge(p, "", "", KIND_HTTP, "one.corp.test", 443, "/", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_int_equal(judge(p, "mirror", "", KIND_HTTP, "one.corp.test", 443, "/", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_int_equal(judge(p, "one", "", KIND_HTTP, "free.corp.test", 443, "/", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_true(judge(p, "", "", KIND_HTTP, "free.corp.test", 443, "/", NULL, NULL).allow);
        assert_int_equal(judge(p, "one", "", KIND_HTTP, "one.corp.test", 8443, "/", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_true(judge(p, "", "", KIND_HTTP, "one.corp.test", 8443, "/", NULL, NULL).allow);
        d = judge(p, "one", "", KIND_HTTP, "two.corp.test", 8443, "/", "Bearer " HOLDER, NULL);
        assert_true(d.allow && d.ask);
        /* Nothing unread, nobody else's account. */
        assert_int_equal(judge(p, "one", "", KIND_ANY, "one.corp.test", 443, "", NULL, NULL).reason, REASON_UNINSPECTED);
        assert_int_equal(judge(p, "", "", KIND_ANY, "one.corp.test", 443, "", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_int_equal(judge(p, "one", "", KIND_HTTP, "one.corp.test", 443, "/", "Bearer other-token-0123456789", NULL).reason, REASON_FOREIGN_ACCOUNT);
        d = judge(p, "one", "brm_zzzzzzzzzzzzzzzzzzzzzzzzzz", KIND_HTTP, "one.corp.test", 443, "/", "Bearer brm_zzzzzzzzzzzzzzzzzzzzzzzzzz", NULL);
        assert_true(d.allow && d.use.used);
        policy_free(p);
}

static void rerouted(void **state)
{
        struct policy *p = policy_of(bound);
        struct decision d;

        (void)state;
        d = judge(p, "mirror", "", KIND_HTTP, "reg.corp.test", 443, "/left-pad", "Bearer whatever-the-guest-has", NULL);
        assert_true(d.allow && d.use.used && d.via.found && slice_is(d.via.name, "mirror.corp.test") && d.profile == PROFILE_NPM);
        assert_int_equal(judge(p, "", "", KIND_HTTP, "reg.corp.test", 443, "/left-pad", NULL, NULL).reason, REASON_POLICY_CHANGED);
        assert_int_equal(judge(p, "mirror", "", KIND_HTTP, "reg.corp.test", 443, "/a/b/c", NULL, NULL).reason, REASON_PROFILE);
        /* The mirror's own block says whether it may be private, not the name that the guest asked for. */
        assert_true(judge(p, "mirror", "", KIND_HTTP, "reg.corp.test", 443, "/left-pad", NULL, "10.0.0.1").allow);
        assert_int_equal(judge(p, "mirror", "", KIND_HTTP, "reg.corp.test", 443, "/left-pad", NULL, "127.0.0.1").reason, REASON_ADDRESS_FORBIDDEN);
        policy_free(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(requests), cmocka_unit_test(kinds), cmocka_unit_test(sentences), cmocka_unit_test(doors), cmocka_unit_test(rerouted) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
