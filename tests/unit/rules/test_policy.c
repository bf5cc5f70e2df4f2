/* Verdicts by table: what each limit, scope and order means. One row is one sentence of docs/RULES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/override.h"
#include "rules/policy.h"

static struct policy *make(const char *rules)
{
        struct diags errors = { 0 };
        struct buf text, out;
        struct policy *p;

        buf_init(&text, 0);
        buf_init(&out, 0);
        buf_addf(&text, "table <internal> { 10.0.0.0/8, secret.example }\nhost private.example { private ok }\nhost pinned.example { address 127.0.0.1 port 8443; ca file \"ca.pem\" }\nrules {\n%s\n}\n", rules);
        p = policy_parse(buf_slice(&text), "rules", &errors);
        diags_print(&errors, &out);
        if (!p)
                fail_msg("%.*s", SLICE_FMT(buf_slice(&out)));
        buf_fini(&text);
        buf_fini(&out);
        return p;
}

struct request_case {
        const char *rules, *name, *method, *path, *query;
        int64_t body; /* 0 none, -1 unknown */
        enum policy_upgrade upgrade;
        bool override;
        enum reason want; /* REASON_NONE: allowed */
};

#define R_GET(rules, want) { rules, "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, want }

static const struct request_case request_cases[] = {
        R_GET("", REASON_DEFAULT_DENY),
        R_GET("allow web a.example", REASON_NONE),
        R_GET("allow web b.example", REASON_DEFAULT_DENY),
        R_GET("deny web a.example\nallow web a.example", REASON_RULE_DENY),
        R_GET("allow any a.example", REASON_NONE),
        R_GET("default allow", REASON_NONE),
        R_GET("allow tls a.example", REASON_UNINSPECTED),
        R_GET("deny tcp a.example:443\ndefault allow", REASON_RULE_DENY),
        /* read-only is an effect */
        R_GET("allow web a.example read-only", REASON_NONE),
        { "allow web a.example read-only", "a.example", "HEAD", "/x", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example read-only", "a.example", "OPTIONS", "*", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example read-only", "a.example", "POST", "/x", "", 0, UPGRADE_NONE, false, REASON_READ_ONLY_METHOD },
        { "allow web a.example read-only\ndefault allow", "a.example", "POST", "/x", "", 0, UPGRADE_NONE, false, REASON_READ_ONLY_METHOD },
        { "allow web a.example read-only", "a.example", "get", "/x", "", 0, UPGRADE_NONE, false, REASON_READ_ONLY_METHOD },
        { "allow web a.example read-only", "a.example", "TRACE", "/x", "", 0, UPGRADE_NONE, false, REASON_READ_ONLY_METHOD },
        { "allow web a.example read-only", "a.example", "GET", "/x", "", 5, UPGRADE_NONE, false, REASON_READ_ONLY_BODY },
        { "allow web a.example read-only", "a.example", "GET", "/x", "", -1, UPGRADE_NONE, false, REASON_READ_ONLY_BODY },
        { "allow web a.example read-only", "a.example", "GET", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_READ_ONLY_UPGRADE },
        { "allow web a.example read-only", "a.example", "CONNECT", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_READ_ONLY_UPGRADE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "", 0, UPGRADE_OTHER, false, REASON_READ_ONLY_UPGRADE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, true, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "a=1&_method=DELETE", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "%5Fmethod=DELETE", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "_METHOD[]=DELETE", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "a;_method=DELETE", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "x-http-method-override=PUT", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "%zz=1", 0, UPGRADE_NONE, false, REASON_READ_ONLY_OVERRIDE },
        { "allow web a.example read-only", "a.example", "GET", "/x", "method=1&q=%zz", 0, UPGRADE_NONE, false, REASON_NONE },
        /* methods */
        { "allow web a.example POST", "a.example", "POST", "/x", "", 9, UPGRADE_NONE, true, REASON_OVERRIDE },
        { "allow web a.example POST", "a.example", "POST", "/x", "_method=DELETE", 9, UPGRADE_NONE, false, REASON_OVERRIDE },
        { "allow web a.example", "a.example", "POST", "/x", "_method=DELETE", 9, UPGRADE_NONE, true, REASON_NONE },
        { "allow web a.example path \"/x\"", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, true, REASON_OVERRIDE },
        { "deny web a.example path \"/admin/**\"\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, true, REASON_OVERRIDE },
        { "deny web a.example path \"/admin/**\"\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example path \"/admin/**\" read-only\nallow web a.example", "a.example", "POST", "/x", "", 9, UPGRADE_NONE, true, REASON_OVERRIDE },
        { "deny web a.example DELETE\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, true, REASON_RULE_DENY },
        { "deny web a.example DELETE\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example GET,POST", "a.example", "POST", "/x", "", 9, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example GET,POST", "a.example", "PUT", "/x", "", 9, UPGRADE_NONE, false, REASON_METHOD_NOT_ALLOWED },
        { "allow web a.example GET,POST", "a.example", "Post", "/x", "", 9, UPGRADE_NONE, false, REASON_METHOD_NOT_ALLOWED },
        { "allow web a.example GET,POST", "a.example", "GET", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_NONE },
        { "allow web a.example GET,POST", "a.example", "CONNECT", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_NONE },
        { "allow web a.example POST", "a.example", "GET", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_METHOD_NOT_ALLOWED },
        { "allow web a.example POST", "a.example", "CONNECT", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_METHOD_NOT_ALLOWED },
        { "allow web a.example POST", "a.example", "POST", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_UPGRADE_NOT_ALLOWED },
        { "allow web a.example GET", "a.example", "GET", "/x", "", 0, UPGRADE_OTHER, false, REASON_UPGRADE_NOT_ALLOWED },
        { "allow web a.example", "a.example", "CONNECT", "/x", "", 0, UPGRADE_NONE, false, REASON_CONNECT_REFUSED },
        { "allow web a.example", "a.example", "CONNECT", "/x", "", 0, UPGRADE_OTHER, false, REASON_CONNECT_REFUSED },
        /* query */
        { "allow web a.example query none", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example query none", "a.example", "GET", "/x", "a", 0, UPGRADE_NONE, false, REASON_QUERY_NOT_ALLOWED },
        { "allow web a.example query \"k\" \"l m\"", "a.example", "GET", "/x", "k=1&l+m=2&%6B", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example query \"k\"", "a.example", "GET", "/x", "k=1;z=2", 0, UPGRADE_NONE, false, REASON_QUERY_NOT_ALLOWED },
        { "allow web a.example query \"k\"", "a.example", "GET", "/x", "K=1", 0, UPGRADE_NONE, false, REASON_QUERY_NOT_ALLOWED },
        { "allow web a.example query \"k\"", "a.example", "GET", "/x", "k%=1", 0, UPGRADE_NONE, false, REASON_QUERY_NOT_ALLOWED },
        { "allow web a.example query \"k\"", "a.example", "GET", "/x", "=1", 0, UPGRADE_NONE, false, REASON_QUERY_NOT_ALLOWED },
        { "allow web a.example query \"k\"", "a.example", "GET", "/x", "k=1&&;k", 0, UPGRADE_NONE, false, REASON_NONE },
        /* body */
        { "allow web a.example body none", "a.example", "POST", "/x", "", 1, UPGRADE_NONE, false, REASON_BODY_NOT_ALLOWED },
        { "allow web a.example body none", "a.example", "GET", "/x", "", 0, UPGRADE_WEBSOCKET, false, REASON_UPGRADE_NOT_ALLOWED },
        { "allow web a.example body max 1K", "a.example", "POST", "/x", "", 1024, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example body max 1K", "a.example", "POST", "/x", "", 1025, UPGRADE_NONE, false, REASON_BODY_TOO_LARGE },
        { "allow web a.example body max 1K", "a.example", "POST", "/x", "", -1, UPGRADE_NONE, false, REASON_NONE },
        /* deny: limits narrow, unsure denies */
        { "deny web a.example POST\nallow web a.example", "a.example", "POST", "/x", "", 0, UPGRADE_NONE, false, REASON_RULE_DENY },
        { "deny web a.example POST\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "deny web a.example POST", "a.example", "GET", "/x", "", 0, UPGRADE_NONE, false, REASON_DEFAULT_DENY },
        { "deny web a.example GET\nallow web a.example", "a.example", "GET", "/x", "", 0, UPGRADE_OTHER, false, REASON_RULE_DENY },
        { "deny web a.example query \"k\"\nallow web a.example", "a.example", "GET", "/x", "%k", 0, UPGRADE_NONE, false, REASON_RULE_DENY },
        { "deny web a.example body max 1K\nallow web a.example", "a.example", "POST", "/x", "", -1, UPGRADE_NONE, false, REASON_RULE_DENY },
        { "deny web a.example body max 1K\nallow web a.example", "a.example", "POST", "/x", "", 5000, UPGRADE_NONE, false, REASON_NONE },
        /* paths */
        { "allow web a.example path \"/v1/**\"", "a.example", "GET", "/v1/a/b", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example path \"/v1/**\"", "a.example", "GET", "/v2", "", 0, UPGRADE_NONE, false, REASON_DEFAULT_DENY },
        { "allow web a.example path \"/v1/*\" GET\ndefault allow", "a.example", "POST", "/v1/x%2Fy", "", 0, UPGRADE_NONE, false, REASON_PATH_AMBIGUOUS },
        { "deny web a.example path \"/v1/*\"\ndefault allow", "a.example", "GET", "/v1/x%2Fy", "", 0, UPGRADE_NONE, false, REASON_RULE_DENY },
        { "deny web a.example path \"/v1/*\"\ndefault allow", "a.example", "GET", "/v1/x/y", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web a.example", "a.example", "GET", "x", "", 0, UPGRADE_NONE, false, REASON_PATH_INVALID },
        { "allow web a.example", "a.example", "GET", "", "", 0, UPGRADE_NONE, false, REASON_PATH_INVALID },
        { "allow web a.example", "a.example", "GET", "*", "", 0, UPGRADE_NONE, false, REASON_PATH_INVALID },
        { "allow web a.example", "A.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_AUTHORITY_INVALID },
        { "allow web a.example", "a.example.", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_AUTHORITY_INVALID },
        { "allow web a.example", "a.example", "", "/", "", 0, UPGRADE_NONE, false, REASON_FRAMING },
        /* names */
        { "allow web .a.example", "a.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web *.a.example", "a.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_DEFAULT_DENY },
        { "allow web *.a.example", "x.y.a.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_NONE },
        { "allow web .a.example", "ba.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_DEFAULT_DENY },
        { "deny any <internal>\ndefault allow", "secret.example", "GET", "/", "", 0, UPGRADE_NONE, false, REASON_RULE_DENY },
};

static void test_requests(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(request_cases) / sizeof(request_cases[0]); i++) {
                const struct request_case *c = &request_cases[i];
                struct policy *p = make(c->rules);
                struct policy_request_query q = { .flow = { .name = slice_str(c->name), .port = 443 }, .https = true, .method = slice_str(c->method), .path = slice_str(c->path),
                                                  .query = slice_str(c->query), .has_query = c->query[0] != 0, .has_body = c->body != 0, .body_bytes = c->body,
                                                  .upgrade = c->upgrade, .override_header = c->override };
                struct policy_verdict v;
                policy_request(p, &q, &v);
                if (v.reason != c->want || v.allow != (c->want == REASON_NONE))
                        fail_msg("row %zu: %s: %s %s?%s gives %s, not %s", i, c->rules, c->method, c->path, c->query, reason_id(v.reason), reason_id(c->want));
                policy_free(p);
        }
}

struct flow_case {
        const char *rules, *name, *literal, *resolved;
        uint16_t port;
        enum flow_proto proto;
        enum flow_action want;
        bool private_ok;
};

static const struct flow_case flow_cases[] = {
        { "allow web a.example", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "allow web a.example", "a.example", NULL, NULL, 8443, FLOW_TCP, FLOW_DENY, false },
        { "allow web a.example", "a.example", NULL, NULL, 443, FLOW_UDP, FLOW_DENY, false },
        { "allow tls a.example", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_TLS_PASS, false },
        { "allow tcp a.example:22", "a.example", NULL, NULL, 22, FLOW_TCP, FLOW_SPLICE, false },
        { "allow udp a.example:53", "a.example", NULL, NULL, 53, FLOW_UDP, FLOW_ALLOW, false },
        { "allow icmp any", "a.example", NULL, NULL, 0, FLOW_ICMP, FLOW_ALLOW, false },
        { "allow any any", "a.example", NULL, NULL, 1, FLOW_TCP, FLOW_INSPECT_OR_SPLICE, false },
        { "allow any any", "a.example", NULL, NULL, 1, FLOW_UDP, FLOW_DENY, false },
        { "default allow", "a.example", NULL, NULL, 1, FLOW_TCP, FLOW_INSPECT_OR_SPLICE, false },
        { "default allow", "a.example", NULL, NULL, 1, FLOW_UDP, FLOW_DENY, false },
        { "default allow", "a.example", NULL, NULL, 0, FLOW_ICMP, FLOW_DENY, false },
        { "default allow", "a.example", NULL, NULL, 0, FLOW_TCP, FLOW_DENY, false },
        /* paths and methods leave the flow open to inspection, never to splicing */
        { "allow web a.example path \"/x\"", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "deny web a.example path \"/x\"", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_DENY, false },
        { "deny web a.example path \"/x\"\ndefault allow", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "deny web a.example POST\nallow any a.example", "a.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "deny web 10.0.0.0/8 POST\nallow tcp a.example:443", "a.example", NULL, "10.0.0.1", 443, FLOW_TCP, FLOW_DENY, false },
        /* addresses */
        { "allow web 192.0.2.0/24", NULL, "192.0.2.9", NULL, 443, FLOW_TCP, FLOW_INSPECT, true },
        { "allow web 192.0.2.0/24", "a.example", NULL, "192.0.2.9", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 192.0.2.0/24\nallow web a.example", "a.example", NULL, "192.0.2.9", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 192.0.2.0/24\nallow web a.example", "a.example", NULL, "198.51.100.1", 443, FLOW_TCP, FLOW_INSPECT, false },
        { "deny any <internal>\nallow web any", "a.example", NULL, "10.9.9.9", 443, FLOW_TCP, FLOW_DENY, false },
        { "allow any any", NULL, "10.0.0.1", NULL, 22, FLOW_TCP, FLOW_INSPECT_OR_SPLICE, false },
        { "allow tcp <internal>:22", NULL, "10.0.0.1", NULL, 22, FLOW_TCP, FLOW_SPLICE, true },
        { "deny any ::/0\ndefault allow", NULL, "10.0.0.1", NULL, 22, FLOW_TCP, FLOW_INSPECT_OR_SPLICE, false },
        { "deny any ::/0\ndefault allow", NULL, "2001:db8::1", NULL, 22, FLOW_TCP, FLOW_DENY, false },
        { "allow web a.example", NULL, NULL, NULL, 443, FLOW_TCP, FLOW_DENY, false },
        /* IPv6 spellings of a denied IPv4 address */
        { "deny any 10.0.0.0/8\nallow web any", "a.example", NULL, "64:ff9b::10.0.0.1", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 10.0.0.0/8\nallow web any", "a.example", NULL, "64:ff9b:1::10.0.0.1", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 10.0.0.0/8\nallow web any", "a.example", NULL, "2002:a00:1::1", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 10.0.0.0/8\nallow web any", "a.example", NULL, "2001::f5ff:fffe", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 10.0.0.0/8\nallow web any", "a.example", NULL, "::10.0.0.1", 443, FLOW_TCP, FLOW_DENY, false },
        { "deny any 10.0.0.0/8\nallow web any", NULL, "fe80::200:5efe:10.0.0.1", NULL, 443, FLOW_TCP, FLOW_DENY, false },
        { "allow web 10.0.0.0/8", NULL, "64:ff9b::10.0.0.1", NULL, 443, FLOW_TCP, FLOW_DENY, false },
        { "allow web 64:ff9b::/96", NULL, "64:ff9b::10.0.0.1", NULL, 443, FLOW_TCP, FLOW_INSPECT, true },
        /* private addresses */
        { "allow web private.example", "private.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, true },
        { "allow web .private.example", "private.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "allow web any", "private.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, false },
        { "default allow", "private.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT_OR_SPLICE, false },
        { "allow web any", "pinned.example", NULL, NULL, 443, FLOW_TCP, FLOW_INSPECT, true },
        { "allow web a.example", "a.example", NULL, "10.0.0.1", 443, FLOW_TCP, FLOW_INSPECT, false },
};

static void test_flows(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(flow_cases) / sizeof(flow_cases[0]); i++) {
                const struct flow_case *c = &flow_cases[i];
                struct policy *p = make(c->rules);
                struct addr literal, resolved;
                struct policy_flow_query q = { .name = slice_str(c->name), .port = c->port, .proto = c->proto };
                struct policy_verdict v;
                if (c->literal && addr_parse(&literal, slice_str(c->literal)) == 0)
                        q.literal = &literal;
                if (c->resolved && addr_parse(&resolved, slice_str(c->resolved)) == 0)
                        q.resolved = &resolved;
                policy_flow(p, &q, &v);
                if (v.action != c->want || v.allow != (c->want != FLOW_DENY) || v.admits_private != c->private_ok)
                        fail_msg("row %zu: %s: action %d (%s), private %d", i, c->rules, (int)v.action, reason_id(v.reason), v.admits_private);
                policy_free(p);
        }
}

static void test_opaque(void **state)
{
        static const struct {
                const char *rules;
                enum reason want;
        } cases[] = {
                { "allow any a.example", REASON_NONE },
                { "default allow", REASON_NONE },
                { "allow web a.example", REASON_NOT_HTTP_OR_TLS },
                { "deny web a.example POST\ndefault allow", REASON_NOT_HTTP_OR_TLS },
                { "allow web a.example path \"/x\"\nallow any a.example", REASON_NOT_HTTP_OR_TLS },
                { "deny any a.example\ndefault allow", REASON_RULE_DENY },
                { "", REASON_DEFAULT_DENY },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct policy *p = make(cases[i].rules);
                struct policy_flow_query q = { .name = SLICE_LIT("a.example"), .port = 443 };
                struct policy_verdict v;
                policy_opaque(p, &q, &v);
                assert_int_equal(v.reason, cases[i].want);
                policy_free(p);
        }
}

static void test_names(void **state)
{
        static const struct {
                const char *rules, *name;
                bool want;
        } cases[] = {
                { "allow web a.example", "a.example", true },
                { "allow web a.example", "b.example", false },
                { "allow web *.a.example", "a.example", false },
                { "allow web 10.0.0.0/8", "a.example", false },
                { "allow web a.example path \"/x\" read-only", "a.example", true },
                { "deny any a.example\nallow any any", "a.example", false },
                { "deny any a.example\nallow udp any:53", "a.example", true },
                { "deny web a.example\nallow web .a.example", "a.example", false },
                { "deny web a.example\nallow web .a.example:8080", "a.example", true },
                { "deny tcp a.example:1-30000\ndeny tcp a.example:30001-65535\ndefault allow", "a.example", false },
                { "deny tcp a.example:1-30000\ndeny tcp a.example:30002-65535\ndefault allow", "a.example", true },
                { "deny tcp a.example:64-127,164-300\nallow tcp a.example:100-300", "a.example", true },
                { "deny tcp a.example:64-127\nallow tcp a.example:100-127", "a.example", false },
                { "deny icmp a.example\nallow icmp any", "a.example", false },
                { "default allow", "a.example", true },
                { "default allow", "A.example", false },
                { "default allow", "a.example.", false },
                { "default allow", "10.0.0.1", false },
                { "deny web a.example POST\nallow web any", "a.example", true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct policy *p = make(cases[i].rules);
                if (policy_name_possible(p, slice_str(cases[i].name)) != cases[i].want)
                        fail_msg("row %zu: %s: %s", i, cases[i].rules, cases[i].name);
                policy_free(p);
        }
}

static void test_verdict_fields(void **state)
{
        struct policy *p = make("deny any b.example\nallow log web a.example body max 2K\nallow web private.example:8080 read-only");
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 80 }, .method = SLICE_LIT("POST"), .path = SLICE_LIT("/"), .has_body = true, .body_bytes = -1 };
        struct policy_verdict v;
        struct buf text;
        struct policy_host h = policy_host(p, SLICE_LIT("pinned.example"));

        (void)state;
        policy_request(p, &q, &v);
        assert_true(v.allow && v.log);
        assert_int_equal(v.rule, 1);
        assert_int_equal(v.max_body, 2048);
        q.body_bytes = 4096;
        policy_request(p, &q, &v);
        assert_int_equal(v.failed, LIMIT_BODY);
        buf_init(&text, 0);
        policy_rule_text(p, v.rule, &text);
        assert_true(slice_is(buf_slice(&text), "allow log web a.example body max 2K"));
        buf_clear(&text);
        policy_rule_text(p, POLICY_DEFAULT_RULE, &text);
        assert_true(slice_is(buf_slice(&text), "default deny"));
        buf_fini(&text);
        assert_int_equal(policy_rule_count(p), 3);
        assert_true(h.found && h.pinned && !h.private_ok && h.port == 8443 && slice_is(h.ca_path, "ca.pem"));
        assert_false(policy_host(p, SLICE_LIT("a.pinned.example")).found);
        assert_int_equal(policy_host_count(p), 2);
        policy_free(p);
}

static void expect_suggestion_under(const struct policy_request_query *q, const char *rules, const char *want)
{
        struct buf out, parsed;
        struct diags errors = { 0 };
        struct policy *governing = make(rules);

        buf_init(&out, 0);
        buf_init(&parsed, 0);
        policy_suggest_request(governing, q, *rules ? 0 : POLICY_DEFAULT_RULE, &out);
        policy_free(governing);
        assert_true(slice_is(buf_slice(&out), want));
        assert_int_equal(policy_rule_parse_one(buf_slice(&out), &parsed, &errors), 0);
        assert_true(slice_eq(buf_slice(&out), buf_slice(&parsed)));
        /* It must allow what it was made for. */
        struct policy_verdict v;
        struct policy *p = make(want);
        policy_request(p, q, &v);
        assert_true(v.allow);
        policy_free(p);
        buf_fini(&out);
        buf_fini(&parsed);
}

static void expect_suggestion_of(const struct policy_request_query *q, bool governed, const char *want) { expect_suggestion_under(q, governed ? "deny any any" : "", want); }

static void expect_suggestion(const struct policy_request_query *q, const char *want) { expect_suggestion_of(q, false, want); }

static void expect_nothing(const struct policy_request_query *q, const char *rules)
{
        struct policy *p = make(rules);
        struct buf out;

        buf_init(&out, 0);
        policy_suggest_request(p, q, *rules ? 0 : POLICY_DEFAULT_RULE, &out);
        assert_int_equal(buf_len(&out), 0);
        buf_fini(&out);
        policy_free(p);
}

/* A suggestion never loosens what the rule that refused demands besides. */
static void test_suggestions_keep(void **state)
{
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 443 }, .method = SLICE_LIT("POST"), .path = SLICE_LIT("/x") };

        (void)state;
        expect_suggestion_under(&q, "ask web a.example read-only query none", "ask web a.example path \"/x\" GET,HEAD,OPTIONS,POST query none");
        expect_suggestion_under(&q, "allow web .a.example GET anonymous via \"https://m.example/y/\"", "allow web a.example path \"/x\" GET,HEAD,OPTIONS,POST anonymous via \"https://m.example/y/\"");
        expect_suggestion_under(&q, "allow web a.example as npm", "allow web a.example path \"/x\" GET,HEAD,OPTIONS,POST");
        q.path = SLICE_LIT("/a*b");
        expect_nothing(&q, "allow web a.example as npm"); /* for the whole host it would undo the profile */
        q.path = SLICE_LIT("/x");
        q.query = SLICE_LIT("_method=PUT");
        q.has_query = true;
        expect_nothing(&q, "allow web a.example as npm");
        q = (struct policy_request_query){ .flow = q.flow, .method = SLICE_LIT("POST"), .path = SLICE_LIT("/a/r.git/git-upload-pack"), .has_body = true, .body_bytes = -1 };
        expect_suggestion_under(&q, "allow web { a.example, b.example } path \"/a/**\" read-only as git", "allow web a.example path \"/a/**\" as git");
        q.body_bytes = 100;
        expect_suggestion_under(&q, "allow web a.example GET body max 1K stream ok", "allow web a.example path \"/a/r.git/git-upload-pack\" GET,HEAD,OPTIONS,POST body max 1K stream ok");
}

/* Nothing comes before what a preset says about its model, so nothing is suggested. */
static void test_suggestions_model(void **state)
{
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("m.example"), .port = 443 }, .method = SLICE_LIT("POST"), .path = SLICE_LIT("/v1/files") };
        struct diags errors = { 0 };
        struct policy *p = policy_parse(SLICE_LIT("model m.example\nrules { deny web m.example }"), "policy", &errors);
        struct buf out;

        (void)state;
        assert_non_null(p);
        buf_init(&out, 0);
        policy_suggest_request(p, &q, 0, &out);
        assert_int_equal(buf_len(&out), 0);
        policy_suggest_request(p, &q, POLICY_DEFAULT_RULE, &out);
        assert_true(buf_len(&out) > 0);
        buf_clear(&out);
        q.flow.name = SLICE_LIT("n.example");
        policy_suggest_request(p, &q, 0, &out);
        assert_true(buf_len(&out) > 0);
        buf_fini(&out);
        policy_free(p);
}

static void test_suggestions_above_a_rule(void **state)
{
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 443 }, .method = SLICE_LIT("POST"), .path = SLICE_LIT("/notes/%22x") };
        struct policy_verdict v;
        struct policy *p = make("allow web a.example path \"/notes/%22x\" GET,HEAD,OPTIONS,POST\nallow web a.example read-only");

        (void)state;
        expect_suggestion_of(&q, true, "allow web a.example path \"/notes/%22x\" GET,HEAD,OPTIONS,POST");
        policy_request(p, &q, &v);
        assert_true(v.allow);
        q.method = SLICE_LIT("GET");
        policy_request(p, &q, &v);
        assert_true(v.allow); /* reading it still works */
        q.path = SLICE_LIT("/other");
        q.method = SLICE_LIT("POST");
        policy_request(p, &q, &v);
        assert_false(v.allow);
        policy_free(p);
        q.path = SLICE_LIT("/a*b");
        expect_suggestion_of(&q, true, "allow web a.example GET,HEAD,OPTIONS,POST");
        q.method = SLICE_LIT("GET");
        q.has_body = true;
        q.body_bytes = 5;
        expect_suggestion_of(&q, true, "allow web a.example GET,HEAD,OPTIONS");
}

/* What asks to be read as another method is allowed by no rule with methods or a path; what no rule allows gets no suggestion. */
static void test_suggestions_masked(void **state)
{
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 443 }, .method = SLICE_LIT("HEAD"), .path = SLICE_LIT("/x"),
                                          .query = SLICE_LIT("_method=POST"), .has_query = true };

        (void)state;
        expect_suggestion(&q, "allow web a.example");
        expect_suggestion_of(&q, true, "allow web a.example");
        q.query = SLICE_LIT("a=1");
        q.override_header = true;
        expect_suggestion_of(&q, true, "allow web a.example");
        q.override_header = false;
        q.query = SLICE_LIT("%zz=1");
        expect_suggestion(&q, "allow web a.example");
        q.method = SLICE_LIT("CONNECT");
        expect_nothing(&q, "");
        q.method = SLICE_LIT("GET");
        q.path = SLICE_LIT("x");
        expect_nothing(&q, "");
}

static void test_suggestions(void **state)
{
        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 443 }, .method = SLICE_LIT("GET"), .path = SLICE_LIT("/") };
        struct policy_flow_query f = { .name = SLICE_LIT("db.example"), .port = 5432 };
        struct addr a;
        struct buf out;

        (void)state;
        expect_suggestion(&q, "allow web a.example read-only");
        q.method = SLICE_LIT("POST");
        expect_suggestion(&q, "allow web a.example POST");
        q.method = SLICE_LIT("CONNECT");
        q.upgrade = UPGRADE_WEBSOCKET;
        q.flow.port = 8443;
        expect_suggestion(&q, "allow web a.example:8443 GET");
        q.upgrade = UPGRADE_NONE;
        q.method = SLICE_LIT("we\x1b[ird");
        q.flow.name = SLICE_EMPTY;
        q.flow.literal = &a;
        assert_int_equal(addr_parse(&a, SLICE_LIT("fd00::1")), 0);
        expect_suggestion(&q, "allow web [fd00::1]:8443");
        q.flow.port = 80;
        expect_suggestion(&q, "allow web fd00::1");
        buf_init(&out, 0);
        policy_suggest_flow(&f, &out);
        assert_true(slice_is(buf_slice(&out), "allow tcp db.example:5432"));
        buf_clear(&out);
        f.port = 443;
        policy_suggest_flow(&f, &out);
        assert_true(slice_is(buf_slice(&out), "allow web db.example read-only"));
        buf_clear(&out);
        f.name = SLICE_LIT("bad name\n");
        policy_suggest_flow(&f, &out);
        assert_int_equal(buf_len(&out), 0);
        buf_fini(&out);
}

/* Every query key of the table, wherever it stands, takes a request out of what a rule with methods or `read-only` promises. */
static void test_override_keys(void **state)
{
        static const char *const rules[] = { "allow web a.example read-only", "allow web a.example GET", "allow web a.example path \"/x\"" };
        (void)state;

        for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
                struct policy *p = make(rules[k]);
                char query[100];

                for (size_t i = 0; i < override_row_count; i++) {
                        struct policy_request_query q = { .flow = { .name = SLICE_LIT("a.example"), .port = 443, .proto = FLOW_TCP }, .https = true,
                                                          .method = SLICE_LIT("GET"), .path = SLICE_LIT("/x"), .has_query = true };
                        struct policy_verdict v;

                        snprintf(query, sizeof(query), "a=1&%s=PUT", override_rows[i].name);
                        q.query = slice_str(query);
                        policy_request(p, &q, &v);
                        assert_int_equal(v.allow, !(override_rows[i].places & OVERRIDE_QUERY));
                }
                policy_free(p);
        }
}

static void test_reasons(void **state)
{
        (void)state;
        for (int i = 0; i < REASON_COUNT; i++) {
                assert_int_equal(reason_by_id(slice_str(reason_id((enum reason)i))), i);
                assert_true(reason_text((enum reason)i)[0] != 0);
                assert_true(i == 0 || reason_http_status((enum reason)i) >= 400);
        }
        assert_int_equal(reason_by_id(SLICE_LIT("nonsense")), REASON_COUNT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_requests),       cmocka_unit_test(test_flows),       cmocka_unit_test(test_opaque),           cmocka_unit_test(test_names),
                cmocka_unit_test(test_verdict_fields), cmocka_unit_test(test_suggestions_masked), cmocka_unit_test(test_suggestions_keep), cmocka_unit_test(test_suggestions), cmocka_unit_test(test_suggestions_model), cmocka_unit_test(test_suggestions_above_a_rule), cmocka_unit_test(test_override_keys), cmocka_unit_test(test_reasons),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
