/* Canonical printer. What it prints parses to the same thing and prints the same again; that is how policies travel to the doors. */
#include "rules/profile.h"
#include "rules/rules_priv.h"

static const char *const proto_words[PROTO_COUNT] = { "web", "tls", "tcp", "udp", "icmp", "any" };

const struct port_range *proto_default_ports(enum rule_proto proto, size_t *count)
{
        static const struct port_range web[] = { { 80, 80 }, { 443, 443 } }, tls[] = { { 443, 443 } }, all[] = { { 1, 65535 } };

        switch (proto) {
        case PROTO_WEB:
                *count = 2;
                return web;
        case PROTO_TLS:
                *count = 1;
                return tls;
        case PROTO_ANY:
                *count = 1;
                return all;
        case PROTO_TCP:
        case PROTO_UDP:
        case PROTO_ICMP:
        case PROTO_COUNT:
                break;
        }
        *count = 0;
        return NULL;
}

void print_string(struct buf *out, struct slice s)
{
        buf_add_str(out, "\"");
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] == '"' || s.p[i] == '\\')
                        buf_add_str(out, "\\");
                buf_add(out, s.p + i, 1);
        }
        buf_add_str(out, "\"");
}

void print_size(struct buf *out, uint64_t bytes)
{
        static const char *const units[] = { "", "K", "M", "G", "T" };
        size_t u = 0;

        while (u < 4 && bytes && bytes % 1024 == 0) {
                bytes /= 1024;
                u++;
        }
        buf_addf(out, "%llu%s", (unsigned long long)bytes, units[u]);
}

void print_target(struct buf *out, const struct target *t)
{
        char text[ADDR_TEXT_BYTES];

        switch (t->kind) {
        case TARGET_ANY:
                buf_add_str(out, "any");
                break;
        case TARGET_NAME:
                buf_add_slice(out, t->name);
                break;
        case TARGET_SUBTREE:
                buf_add_str(out, ".");
                buf_add_slice(out, t->name);
                break;
        case TARGET_BELOW:
                buf_add_str(out, "*.");
                buf_add_slice(out, t->name);
                break;
        case TARGET_CIDR:
                buf_add_str(out, t->cidr.bits == 128 ? addr_print(text, &t->cidr.addr) : cidr_print(text, &t->cidr));
                break;
        case TARGET_TABLE:
                buf_addf(out, "<%.*s>", SLICE_FMT(t->name));
                break;
        }
}

static bool ports_are_default(const struct rule *r)
{
        size_t count;
        const struct port_range *own = proto_default_ports(r->proto, &count);

        if (count != r->port_count)
                return false;
        for (size_t i = 0; i < count; i++)
                if (own[i].lo != r->ports[i].lo || own[i].hi != r->ports[i].hi)
                        return false;
        return true;
}

static void print_ports(struct buf *out, const struct rule *r)
{
        for (size_t i = 0; i < r->port_count; i++) {
                const struct port_range *p = &r->ports[i];
                buf_add_str(out, i ? "," : ":");
                if (p->lo == 1 && p->hi == 65535)
                        buf_add_str(out, "*");
                else if (p->lo == p->hi)
                        buf_addf(out, "%u", p->lo);
                else
                        buf_addf(out, "%u-%u", p->lo, p->hi);
        }
}

static void print_targets(struct buf *out, const struct rule *r)
{
        bool ports = !ports_are_default(r);
        const struct target *one = &r->targets[0];
        bool brackets = ports && r->target_count == 1 && one->kind == TARGET_CIDR && !cidr_is_v4(&one->cidr);

        if (r->target_count > 1)
                buf_add_str(out, "{ ");
        if (brackets)
                buf_add_str(out, "[");
        for (size_t i = 0; i < r->target_count; i++) {
                if (i)
                        buf_add_str(out, ", ");
                print_target(out, &r->targets[i]);
        }
        if (brackets)
                buf_add_str(out, "]");
        if (r->target_count > 1)
                buf_add_str(out, " }");
        if (ports)
                print_ports(out, r);
}

static void print_via(struct buf *out, const struct policy_via *v)
{
        buf_addf(out, " via \"https://%.*s", SLICE_FMT(v->name));
        if (v->port != 443)
                buf_addf(out, ":%u", v->port);
        buf_addf(out, "%.*s\"", SLICE_FMT(v->base)); /* no quote, no backslash: canonical */
}

static void print_limits(struct buf *out, const struct rule *r)
{
        if (r->read_only)
                buf_add_str(out, " read-only");
        for (size_t i = 0; i < r->method_count; i++) {
                buf_add_str(out, i ? "," : " ");
                buf_add_slice(out, r->methods[i]);
        }
        if (r->query != QUERY_ANY)
                buf_add_str(out, r->query == QUERY_NONE ? " query none" : " query");
        for (size_t i = 0; i < r->query_key_count; i++) {
                buf_add_str(out, " ");
                print_string(out, r->query_keys[i]);
        }
        if (r->body == BODY_NONE)
                buf_add_str(out, " body none");
        if (r->body == BODY_MAX) {
                buf_add_str(out, " body max ");
                print_size(out, r->body_max_bytes);
        }
        if (r->anonymous)
                buf_add_str(out, " anonymous");
        if (r->stream_ok)
                buf_add_str(out, " stream ok");
        if (r->profile != PROFILE_NONE)
                buf_addf(out, " as %s", profile_name(r->profile));
        if (r->misses)
                buf_addf(out, " misses %u/h", r->misses);
        if (r->via.found)
                print_via(out, &r->via);
}

void print_rule(struct buf *out, const struct rule *r)
{
        buf_addf(out, "%s%s %s ", r->action == RULE_DENY ? "deny" : r->ask ? "ask" : "allow", r->log ? " log" : "", proto_words[r->proto]);
        print_targets(out, r);
        if (r->path.n) {
                buf_add_str(out, " path ");
                print_string(out, r->path);
        }
        print_limits(out, r);
}

void print_ruleset(struct buf *out, const struct rule *rules, size_t count, bool default_allow, const char *indent)
{
        for (size_t i = 0; i < count; i++) {
                buf_add_str(out, indent);
                print_rule(out, &rules[i]);
                buf_add_str(out, "\n");
        }
        buf_addf(out, "%sdefault %s\n", indent, default_allow ? "allow" : "deny");
}

void print_table(struct buf *out, const struct table *t)
{
        buf_addf(out, "table <%.*s> {\n", SLICE_FMT(t->name));
        for (size_t i = 0; i < t->count; i++) {
                buf_add_str(out, "        ");
                print_target(out, &t->entries[i]);
                buf_add_str(out, "\n");
        }
        buf_add_str(out, "}\n");
}

/* A relative path of another folder than base_dir gets its folder in front. */
void print_path(struct buf *out, struct slice base_dir, struct slice dir, struct slice path)
{
        struct buf joined;

        if (path.p[0] == '/' || path.p[0] == '~' || dir.n == 0 || slice_eq(base_dir, dir)) {
                print_string(out, path);
                return;
        }
        buf_init(&joined, 0);
        buf_add_slice(&joined, dir);
        if (!slice_is(dir, "/"))
                buf_add_str(&joined, "/");
        buf_add_slice(&joined, path);
        print_string(out, buf_slice(&joined));
        if (joined.failed)
                out->failed = true;
        buf_fini(&joined);
}

void print_host_block(struct buf *out, const struct host_entry *h, struct slice base_dir)
{
        char text[ADDR_TEXT_BYTES];

        buf_addf(out, "host %.*s {\n", SLICE_FMT(h->d.name));
        if (h->d.private_ok)
                buf_add_str(out, "        private ok\n");
        if (h->d.pinned) {
                buf_addf(out, "        address %s", addr_print(text, &h->d.address));
                if (h->d.port)
                        buf_addf(out, " port %u", h->d.port);
                buf_add_str(out, "\n");
        }
        if (h->d.ca_path.n) {
                buf_add_str(out, "        ca file ");
                print_path(out, base_dir, h->dir, h->d.ca_path);
                buf_add_str(out, "\n");
        }
        buf_add_str(out, "}\n");
}
