/* Random rule sets and queries out of bytes; the compiled matcher against the naive one, and what must hold between the three questions. */
#include <stdio.h>

#include "naive.h"

struct bytes {
        const uint8_t *p;
        size_t n;
};

static unsigned pick(struct bytes *b, unsigned count)
{
        if (b->n == 0)
                return 0;
        b->n--;
        return *b->p++ % count;
}
#define PICK(b, list) (list)[pick(b, sizeof(list) / sizeof((list)[0]))]

static const char *const targets[] = { "any", "example.org", "a.example.org", "b.a.example.org", ".example.org", "*.example.org", "*.a.example.org", ".b.a.example.org",
                                       "example.net", "db", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "192.0.2.1", "0.0.0.0/0", "::/0", "fd00::/8", "[fd00::1]", "172.16.0.0/12", "fc00::/7", "<t>", "<u>" };
static const char *const names[] = { "example.org", "a.example.org", "b.a.example.org", "c.b.a.example.org", "aexample.org", "example.net", "db", "x.example.net", "org" };
static const char *const addrs[] = { "10.1.2.3", "10.1.0.9", "10.200.0.1", "192.0.2.1", "8.8.8.8", "fd00::1", "fd01::1", "2001:db8::1", "64:ff9b::10.1.2.3", "172.31.0.1", "172.32.0.1" };
static const char *const ports[] = { "", ":443", ":80", ":80,443", ":*", ":22", ":400-500", ":1-442,444-65535", ":64-127", ":100-300" };
static const unsigned query_ports[] = { 443, 80, 22, 1, 65535, 450, 8443 };
static const char *const patterns[] = { "/**", "/a/*", "/a/**", "/a/**", "/x/npm/**", "/*/b", "/a", "/", "/a*b/**/c", "/**b", "/x%2Fy", "/*a*a*b" };
static const char *const paths[] = { "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab/c", "/ab/x/c", "/x%2Fy", "/a/x%2fy", "/aXb/%5Cq/c", "/aaaab", "/b", "/a/b%2Fb", "/left-pad", "/@s%2Fp", "/@s/p", "/a/left-pad/-/left-pad-1.0.0.tgz", "/@s/p/-/p-1.2.3-rc.1.tgz",
                                     "/@s%2fp/-/p-1.0.0.tgz", "/x/npm/-/npm/v1/keys", "/-/package/@s%2Fp/dist-tags", "/-/npm/v1/attestations/p@1.0.0", "/a/r.git/info/refs",
                                     "/a/r.git/git-upload-pack", "/a/r.git/git-receive-pack", "/info/refs", "/P" };
static const char *const limits[] = { "", "", "", " read-only", " GET", " POST,PUT", " GET,POST query none", " query \"k\" \"l\"", " body none", " body max 10", " HEAD body none" };
/* Of an allow, besides. */
static const char *const more[] = { "", "", "", "", " anonymous", " stream ok", " as npm", " as npm", " as git", " as git", " via \"https://db/base/\"", " as npm via \"https://a.example.org:8443/\"", " anonymous as git via \"https://mirror.example/\"" };
static const char *const methods[] = { "GET", "POST", "HEAD", "OPTIONS", "PUT", "get", "CONNECT", "TRACE" };
static const char *const queries[] = { "", "k=1", "k=1&x=2", "k=1;x=2", "%6b=1", "%zz", "_method=PUT", "X-HTTP-Method-Override=PUT", "l&&k", "k%5b=1", "service=git-upload-pack", "service=git-receive-pack" };

static void make_rule(struct bytes *b, struct buf *out)
{
        static const char *const protos[] = { "web", "web", "web", "tls", "tcp", "udp", "icmp", "any" };
        const char *proto = PICK(b, protos), *port;
        unsigned list = pick(b, 4);
        bool deny = pick(b, 3) == 0, ask = pick(b, 6) == 5 && strcmp(proto, "udp") != 0 && strcmp(proto, "icmp") != 0;

        buf_addf(out, "%s%s %s ", deny ? "deny" : ask ? "ask" : "allow", pick(b, 4) ? "" : " log", proto);
        if (list == 3)
                buf_addf(out, "{ %s, %s }", targets[1 + pick(b, sizeof(targets) / sizeof(targets[0]) - 1)], targets[1 + pick(b, sizeof(targets) / sizeof(targets[0]) - 1)]);
        else
                buf_addf(out, "%s", PICK(b, targets));
        port = PICK(b, ports);
        if (strcmp(proto, "icmp") == 0)
                port = "";
        else if (!*port && (strcmp(proto, "tcp") == 0 || strcmp(proto, "udp") == 0))
                port = ":22";
        buf_addf(out, " %s", port);
        if (strcmp(proto, "web") == 0) {
                if (pick(b, 3) == 0)
                        buf_addf(out, " path \"%s\"", PICK(b, patterns));
                buf_add_str(out, PICK(b, limits));
                if (!deny)
                        buf_add_str(out, PICK(b, more));
        }
        buf_add_str(out, "\n");
}

static void make_text(struct bytes *b, struct buf *out)
{
        unsigned rules = 1 + pick(b, 12);

        buf_add_str(out, "table <t> { 10.1.0.0/16, a.example.org }\ntable <u> { fd00::1, *.example.org, 192.0.2.0/24 }\n");
        if (pick(b, 2))
                buf_add_str(out, "host a.example.org { private ok }\n");
        if (pick(b, 2))
                buf_add_str(out, "host db { address 127.0.0.1 }\n");
        buf_add_str(out, "rules {\n");
        for (unsigned i = 0; i < rules; i++)
                make_rule(b, out);
        buf_add_str(out, pick(b, 3) ? "}\n" : "default allow\n}\n");
}

static struct addr literal, resolved;

static void make_flow(struct bytes *b, struct policy_flow_query *q)
{
        *q = (struct policy_flow_query){ .port = (uint16_t)PICK(b, query_ports), .proto = (enum flow_proto)(pick(b, 6) > 3 ? pick(b, 3) : FLOW_TCP) };
        if (pick(b, 3)) {
                q->name = slice_str(PICK(b, names));
                if (pick(b, 2) && addr_parse(&resolved, slice_str(PICK(b, addrs))) == 0)
                        q->resolved = &resolved;
        } else if (addr_parse(&literal, slice_str(PICK(b, addrs))) == 0) {
                q->literal = &literal;
        }
}

/* What profiles know, and their neighbours: chance alone meets them too seldom. */
static void make_reader(struct bytes *b, struct policy_request_query *q)
{
        static const struct {
                const char *method, *path, *query;
        } readers[] = { { "GET", "/left-pad", "" },
                        { "HEAD", "/@s%2Fp", "" },
                        { "GET", "/@s%2Fp/-/p-1.0.0.tgz", "" },
                        { "GET", "/@s/p/-/@s/p-1.0.0.tgz", "" },
                        { "GET", "/a/-/a-1.0.0.tgz", "" },
                        { "GET", "/x/npm/a/-/a-1.0.0.tgz", "" },
                        { "GET", "/x/npm/@s%2Fp", "" },
                        { "GET", "/a/-/npm/v1/keys", "" },
                        { "GET", "/a/r.git/info/refs", "service=git-upload-pack" },
                        { "POST", "/a/r.git/git-upload-pack", "" } };
        unsigned i = pick(b, sizeof(readers) / sizeof(readers[0]));

        q->method = slice_str(readers[i].method);
        q->path = slice_str(readers[i].path);
        q->query = slice_str(readers[i].query);
}

static void make_request(struct bytes *b, struct policy_request_query *q)
{
        *q = (struct policy_request_query){ .method = slice_str(PICK(b, methods)), .path = slice_str(PICK(b, paths)), .query = slice_str(PICK(b, queries)), .https = true };
        if (pick(b, 3) == 2)
                make_reader(b, q);
        make_flow(b, &q->flow);
        q->flow.proto = FLOW_TCP;
        q->has_query = q->query.n || pick(b, 8) == 7;
        q->has_body = pick(b, 3) == 2;
        q->body_bytes = q->has_body ? (int64_t)pick(b, 24) - 1 : 0;
        q->upgrade = (enum policy_upgrade)(pick(b, 5) > 2 ? pick(b, 3) : 0);
        q->override_header = pick(b, 10) == 9;
}

static bool same(const struct policy_verdict *a, const struct policy_verdict *b)
{
        return a->allow == b->allow && a->action == b->action && a->rule == b->rule && a->reason == b->reason && a->log == b->log &&
               a->admits_private == b->admits_private && (!a->allow || a->max_body == b->max_body) && a->ask == b->ask && a->anonymous == b->anonymous &&
               a->stream_ok == b->stream_ok && a->profile == b->profile && a->misses == b->misses && a->via.found == b->via.found && a->via.port == b->via.port && slice_eq(a->via.name, b->via.name) &&
               slice_eq(a->via.base, b->via.base);
}

static int complain(const char *what, struct slice text, const struct policy_flow_query *q, const struct policy_verdict *a, const struct policy_verdict *b)
{
        printf("%s differs for name '%.*s' port %u proto %d resolved %d:\n compiled rule %d allow %d action %d %s private %d\n naive    rule %d allow %d action %d %s private %d\n%.*s", what,
               SLICE_FMT(q->name), q->port, (int)q->proto, q->resolved != NULL, a->rule, a->allow, (int)a->action, reason_id(a->reason), a->admits_private, b->rule, b->allow,
               (int)b->action, reason_id(b->reason), b->admits_private, SLICE_FMT(text));
        return -1;
}

static int differ_flow(const struct policy *p, struct bytes *b, struct slice text)
{
        struct policy_flow_query q, bare;
        struct policy_verdict v, w;

        make_flow(b, &q);
        policy_flow(p, &q, &v);
        naive_flow(p, &q, &w);
        if (!same(&v, &w))
                return complain("flow", text, &q, &v, &w);
        bare = q;
        bare.resolved = NULL;
        policy_flow(p, &bare, &w);
        if (v.allow && !w.allow)
                return complain("flow, looser by an address,", text, &q, &v, &w);
        if (q.name.n && policy_name_possible(p, q.name) != naive_name_possible(p, q.name))
                return complain("name_possible", text, &q, &v, &w);
        if (q.proto != FLOW_TCP)
                return 0;
        policy_opaque(p, &q, &w);
        if (w.allow && v.action != FLOW_SPLICE && v.action != FLOW_INSPECT_OR_SPLICE)
                return complain("opaque, looser than the flow,", text, &q, &v, &w);
        naive_opaque(p, &q, &v);
        return same(&w, &v) ? 0 : complain("opaque", text, &q, &w, &v);
}

static int differ_request(const struct policy *p, struct bytes *b, struct slice text)
{
        struct policy_request_query q, bare;
        struct policy_verdict v, w, f;

        make_request(b, &q);
        policy_request(p, &q, &v);
        if (slice_is(q.method, "CONNECT") && q.upgrade != UPGRADE_WEBSOCKET)
                return v.allow ? complain("CONNECT", text, &q.flow, &v, &v) : 0;
        naive_request(p, &q, &w);
        if (!same(&v, &w))
                return complain("request", text, &q.flow, &v, &w);
        policy_flow(p, &q.flow, &f);
        if (v.allow && f.action != FLOW_INSPECT && f.action != FLOW_INSPECT_OR_SPLICE)
                return complain("request, looser than its flow,", text, &q.flow, &v, &f);
        bare = q;
        bare.flow.resolved = NULL;
        policy_request(p, &bare, &w);
        return v.allow && !w.allow ? complain("request, looser by an address,", text, &q.flow, &v, &w) : 0;
}

static int differ_print(const struct policy *p, struct slice text)
{
        struct diags errors = { 0 };
        struct buf a, b;
        struct policy *q;
        bool ok;

        buf_init(&a, 0);
        buf_init(&b, 0);
        policy_print(p, &a);
        q = policy_parse(buf_slice(&a), "printed", &errors);
        if (q)
                policy_print(q, &b);
        ok = q && slice_eq(buf_slice(&a), buf_slice(&b));
        if (!ok)
                printf("print∘parse differs:\n%.*s", SLICE_FMT(text));
        policy_free(q);
        buf_fini(&a);
        buf_fini(&b);
        return ok ? 0 : -1;
}

int differ_run(const uint8_t *data, size_t n)
{
        enum { QUERIES = 40 };
        struct bytes b = { data, n };
        struct diags errors = { 0 };
        struct buf text;
        struct policy *p;
        int rc = 0;

        buf_init(&text, 0);
        make_text(&b, &text);
        p = policy_parse(buf_slice(&text), "generated", &errors);
        if (p)
                rc = differ_print(p, buf_slice(&text));
        for (int i = 0; p && rc == 0 && i < QUERIES && b.n; i++) {
                rc = differ_flow(p, &b, buf_slice(&text));
                if (rc == 0)
                        rc = differ_request(p, &b, buf_slice(&text));
        }
        policy_free(p);
        buf_fini(&text);
        return rc < 0 ? rc : !p;
}
