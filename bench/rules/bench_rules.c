/* Figures of the rule language: loading 10,000 rules, and a verdict under them. Prints one figure a line; CPU time of one thread, the best of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rules/policy.h"

enum { RULES = 10000, ROUNDS = 7, VERDICTS = 200000, CREDENTIALS = 64 };

static double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void make_rules(struct buf *out)
{
        static const char *const shapes[] = { "allow web h%d.example.org read-only\n", "allow web *.d%d.example.net GET,POST\n", "allow web .p%d.example.com path \"/repos/*/x/**\" read-only\n",
                                              "deny any 10.%d.0.0/16\n",              "allow tcp db%d.corp.example:5432\n",      "allow web { a%d.example, b.example.org }\n",
                                              "deny web h%d.example.org POST\n",      "allow tls t%d.example.org\n" };

        for (int i = 0; i < CREDENTIALS; i++)
                buf_addf(out, "credential c%d { kind bearer; for { a%d.corp.example, b%d.corp.example }; placeholder \"brm_%d\" }\n", i, i, i, i);
        buf_add_str(out, "rules {\n");
        for (int i = 0; i < RULES; i++) {
                const char *shape = shapes[i % 8];
                const char *at = strstr(shape, "%d");
                buf_add(out, shape, (size_t)(at - shape));
                buf_addf(out, "%d%s", i % 8 == 3 ? i / 8 % 256 : i, at + 2);
        }
        buf_add_str(out, "allow web npm.example anonymous as npm via \"https://mirror.corp.example/npm/\"\nask web git.example path \"/acme/**\" as git\n}\n");
}

static struct policy *bench_load(struct slice text)
{
        double best = 1e12;
        struct policy *p = NULL;
        struct diags errors = { 0 };

        for (int i = 0; i < ROUNDS; i++) {
                double start = now_us();
                policy_free(p);
                p = policy_parse(text, "bench", &errors);
                if (!p)
                        exit(1);
                if (now_us() - start < best)
                        best = now_us() - start;
        }
        printf("load %d rules (%zu KB of text): %.1f ms\n", RULES, text.n / 1024, best / 1e3);
        return p;
}

static void bench_request(const struct policy *p, const char *what, const char *name, const char *resolved, const char *path)
{
        struct addr a;
        struct policy_request_query q = { .flow = { .name = slice_str(name), .port = 443 }, .https = true, .method = SLICE_LIT("GET"), .path = slice_str(path) };
        struct policy_verdict v;
        double best = 1e12;

        if (resolved && addr_parse(&a, slice_str(resolved)) == 0)
                q.flow.resolved = &a;
        for (int r = 0; r < ROUNDS; r++) {
                double start = now_us();
                for (int i = 0; i < VERDICTS; i++)
                        policy_request(p, &q, &v);
                if (now_us() - start < best)
                        best = now_us() - start;
        }
        printf("request, %-34s %.3f us  (%s, rule %d)\n", what, best / VERDICTS, v.allow ? "allow" : reason_id(v.reason), v.rule);
}

static void bench_flow(const struct policy *p, const char *what, const char *name)
{
        struct policy_flow_query q = { .name = slice_str(name), .port = 443 };
        struct policy_verdict v;
        double best = 1e12;

        for (int r = 0; r < ROUNDS; r++) {
                double start = now_us();
                for (int i = 0; i < VERDICTS; i++)
                        policy_flow(p, &q, &v);
                if (now_us() - start < best)
                        best = now_us() - start;
        }
        printf("flow,    %-34s %.3f us\n", what, best / VERDICTS);
        best = 1e12;
        for (int r = 0; r < ROUNDS; r++) {
                double start = now_us();
                for (int i = 0; i < VERDICTS; i++)
                        v.allow = policy_name_possible(p, q.name);
                if (now_us() - start < best)
                        best = now_us() - start;
        }
        printf("name,    %-34s %.3f us\n", what, best / VERDICTS);
}

static void bench_account(const struct policy *p)
{
        double best = 1e12;
        int found = 0;

        for (int r = 0; r < ROUNDS; r++) {
                double start = now_us();
                for (int i = 0; i < VERDICTS; i++)
                        found = policy_account_of(p, SLICE_LIT("b63.corp.example"), 443);
                if (now_us() - start < best)
                        best = now_us() - start;
        }
        printf("account of a host, %d credentials     %.3f us (%d)\n", CREDENTIALS, best / VERDICTS, found);
}

int main(void)
{
        struct buf text;
        struct policy *p;

        buf_init(&text, 0);
        make_rules(&text);
        p = bench_load(buf_slice(&text));
        bench_request(p, "exact name, first rule", "h0.example.org", NULL, "/x");
        bench_request(p, "exact name, late rule", "h9992.example.org", NULL, "/x");
        bench_request(p, "the same with its address", "h9992.example.org", "192.0.2.1", "/x");
        bench_request(p, "denied by address", "h9992.example.org", "10.77.3.4", "/x");
        bench_request(p, "pattern", "x.y.d9993.example.net", NULL, "/x");
        bench_request(p, "pattern and path", "x.p9994.example.com", NULL, "/repos/acme/x/some/longer/path/to/a/file.tgz");
        bench_request(p, "a name in 1,250 rules", "b.example.org", NULL, "/x");
        bench_request(p, "no rule", "nowhere.example.org", "192.0.2.1", "/x");
        bench_request(p, "no rule, 50 labels", "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "192.0.2.1", "/x");
        bench_flow(p, "exact name, late rule", "h9992.example.org");
        bench_flow(p, "no rule", "nowhere.example.org");
        bench_request(p, "as npm", "npm.example", NULL, "/@types%2Fnode/-/node-20.1.0.tgz");
        bench_request(p, "as npm, a tarball", "npm.example", NULL, "/@types/node/-/node-20.1.0.tgz");
        bench_account(p);
        policy_free(p);
        buf_fini(&text);
        return 0;
}
