/* Targets and ports: names, patterns, addresses, cidrs, tables, lists; `name:80,443`, `[fd00::1]:443`, `:8000-8100`, `:*`.
 * What two readers could take for different hosts (127.1, host bits set, a pattern over a public suffix) is an error here, so that a rule
 * means one thing for ever. */
#include <libpsl.h>
#include <stdlib.h>

#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

/* Also an unlisted top-level domain counts: a pattern over it would be as wide. */
static bool is_public_suffix(const char *name)
{
        const psl_ctx_t *psl = psl_builtin();
        return !psl || psl_is_public_suffix(psl, name);
}

static bool target_cidr(struct parser *p, uint32_t at, struct slice word, struct target *out)
{
        struct addr a;
        struct slice addr = slice_first(word, (size_t)slice_find(word, '/'));

        if (cidr_parse(&out->cidr, word) < 0) {
                uint64_t bits;

                if (addr_parse(&a, addr) < 0)
                        return parser_fail(p, at, "`%s` is not an address and a prefix length", esc(word));
                if (!parse_number(slice_skip(word, addr.n + 1), addr_is_v4(&a) ? 32 : 128, &bits))
                        return parser_fail(p, at, "`%s`: the prefix length is a number from 0 to %d", esc(word), addr_is_v4(&a) ? 32 : 128);
                return parser_fail(p, at, "`%s`: the address has bits set behind the prefix; write the network's own address", esc(word));
        }
        out->kind = TARGET_CIDR;
        return true;
}

static void target_address(struct target *out, const struct addr *a)
{
        out->kind = TARGET_CIDR;
        out->cidr = (struct cidr){ *a, 128 };
}

static bool target_name(struct parser *p, uint32_t at, struct slice word, struct target *out)
{
        struct slice base = word;
        char name[HOST_NAME_BYTES];
        bool ok = true;
        struct addr a;
        int kind;

        out->kind = TARGET_NAME;
        if (slice_starts(word, SLICE_LIT("*."))) {
                out->kind = TARGET_BELOW;
                base = slice_skip(word, 2);
        } else if (slice_starts(word, SLICE_LIT("."))) {
                out->kind = TARGET_SUBTREE;
                base = slice_skip(word, 1);
        }
        if (slice_find(base, '*') >= 0)
                return parser_fail(p, at, "`%s`: `*` stands only in front, as in `*.example.org`", esc(word));
        kind = host_canonical(name, sizeof(name), base);
        if (kind < 0)
                return parser_fail(p, at, "`%s` is not a name or an address with only one reading", esc(word));
        if (kind == HOST_ADDR && out->kind != TARGET_NAME)
                return parser_fail(p, at, "`%s`: nothing is below an address", esc(word));
        if (kind == HOST_ADDR) {
                if (host_addr(&a, slice_str(name)) < 0)
                        return parser_fail(p, at, "`%s` is not an address", esc(word));
                target_address(out, &a);
                return true;
        }
        if (out->kind != TARGET_NAME && is_public_suffix(name))
                return parser_fail(p, at, "`%s` is a public suffix: the pattern would take in everybody's names", esc_str(name));
        out->name = arena_copy(&p->prog->arena, slice_str(name), &ok);
        return ok || parser_fail(p, at, "out of memory");
}

/* A target without ports. */
bool parse_host_word(struct parser *p, uint32_t at, struct slice word, struct target *out)
{
        struct addr a;

        *out = (struct target){ .at = at };
        if (word.n && word.p[0] == '[' && word.p[word.n - 1] == ']') {
                word = slice_of(word.p + 1, word.n - 2);
                if (slice_find(word, ':') < 0)
                        return parser_fail(p, at, "`[%s]`: brackets are for IPv6", esc(word));
        }
        if (slice_starts(word, SLICE_LIT("http:")) || slice_starts(word, SLICE_LIT("https:")))
                return parser_fail(p, at, "`%s`: a target is written without https:// and path, as in `web example.org path \"/…\"`", esc(word));
        if (slice_find(word, '/') >= 0)
                return target_cidr(p, at, word, out);
        if (slice_find(word, ':') < 0)
                return target_name(p, at, word, out);
        if (addr_parse(&a, word) < 0)
                return parser_fail(p, at, "`%s` is not an address", esc(word));
        target_address(out, &a);
        return true;
}

/* Cuts `word` in target and ":ports"; an IPv6 address has ports only behind brackets. */
struct slice split_ports(struct slice word, struct slice *ports)
{
        size_t cut = word.n;
        ptrdiff_t colon = slice_find(word, ':'), close = slice_find(word, ']');

        if (close >= 0 && word.p[0] == '[')
                cut = (size_t)close + 1;
        else if (colon >= 0 && slice_find(slice_skip(word, (size_t)colon + 1), ':') < 0)
                cut = (size_t)colon;
        *ports = slice_skip(word, cut);
        return slice_first(word, cut);
}

/* ---- ports --------------------------------------------------------------------------------------------------------------------- */

static bool add_ports(struct parser *p, struct rule *r, size_t *cap, uint32_t at, struct slice text)
{
        ptrdiff_t dash = slice_find(text, '-');
        struct slice first = dash < 0 ? text : slice_first(text, (size_t)dash), last = dash < 0 ? text : slice_skip(text, (size_t)dash + 1);
        uint64_t lo, hi;
        struct port_range *range;

        if (slice_is(text, "*"))
                lo = 1, hi = 65535;
        else if (!parse_number(first, 65535, &lo) || !parse_number(last, 65535, &hi) || lo == 0 || hi < lo)
                return parser_fail(p, at, "`%s` is not a port or a range of ports", esc(text));
        range = parser_push(p, &r->ports, &r->port_count, cap, sizeof(*range), RULES_PORTS_MAX, "ports in a rule");
        if (range)
                *range = (struct port_range){ (uint16_t)lo, (uint16_t)hi };
        return range != NULL;
}

static int port_cmp(const void *a, const void *b)
{
        const struct port_range *x = a, *y = b;
        return x->lo != y->lo ? (int)x->lo - (int)y->lo : (int)x->hi - (int)y->hi;
}

/* Sorted, overlapping and adjacent ranges made one: the canonical form. */
static void merge_ports(struct rule *r)
{
        size_t n = 0;

        qsort(r->ports, r->port_count, sizeof(r->ports[0]), port_cmp);
        for (size_t i = 1; i < r->port_count; i++) {
                if (r->ports[i].lo <= (unsigned)r->ports[n].hi + 1) {
                        if (r->ports[i].hi > r->ports[n].hi)
                                r->ports[n].hi = r->ports[i].hi;
                } else {
                        r->ports[++n] = r->ports[i];
                }
        }
        r->port_count = n + 1;
}

/* `text` begins with ':'; further ports may follow behind commas. The current token is the one after that word. */
static bool parse_ports(struct parser *p, struct rule *r, uint32_t at, struct slice text)
{
        size_t cap = 0;

        if (r->proto == PROTO_ICMP)
                return parser_fail(p, at, "`icmp` has no ports");
        if (text.p[0] != ':')
                return parser_fail(p, at, "ports are written `:443`");
        if (!add_ports(p, r, &cap, at, slice_skip(text, 1)))
                return false;
        while (p->tok.kind == TOK_COMMA) {
                parser_next(p);
                if (p->tok.kind != TOK_WORD)
                        return parser_expected(p, "a port");
                if (!add_ports(p, r, &cap, p->tok.at, p->tok.text))
                        return false;
                parser_next(p);
        }
        merge_ports(r);
        return true;
}

static bool default_ports(struct parser *p, struct rule *r, uint32_t at)
{
        size_t count;
        const struct port_range *own = proto_default_ports(r->proto, &count);

        if (!own && r->proto != PROTO_ICMP)
                return parser_fail(p, at, "`%s` needs a port, as in `:5432`", r->proto == PROTO_TCP ? "tcp" : "udp");
        if (!own)
                return true;
        r->ports = arena_alloc_array(&p->prog->arena, count, sizeof(*own));
        if (!r->ports)
                return parser_fail(p, at, "out of memory");
        memcpy(r->ports, own, count * sizeof(*own));
        r->port_count = count;
        return true;
}

/* ---- lists --------------------------------------------------------------------------------------------------------------------- */

static bool parse_table_reference(struct parser *p, struct target *t)
{
        *t = (struct target){ .kind = TARGET_TABLE, .at = p->tok.at };
        parser_next(p);
        if (p->tok.kind != TOK_WORD)
                return parser_expected(p, "the name of a table");
        t->name = p->tok.text;
        parser_next(p);
        return parser_take(p, TOK_GREATER, "`>`");
}

/* What list entries are added to. */
struct target_list {
        struct target **list;
        size_t *count, cap, max;
        bool tables_ok;
};

static bool target_entry(struct parser *p, struct target *t, bool tables_ok)
{
        struct slice word, ports;

        if (p->tok.kind == TOK_LESS && tables_ok)
                return parse_table_reference(p, t);
        if (p->tok.kind != TOK_WORD && p->tok.kind != TOK_STRING)
                return parser_expected(p, tables_ok ? "a name, an address or a table" : "a name or an address");
        word = p->tok.text;
        if (slice_is(word, "any"))
                return parser_fail(p, p->tok.at, "`any` stands alone, not in a list");
        if (split_ports(word, &ports).n != word.n)
                return parser_fail(p, p->tok.at, tables_ok ? "ports stand behind the list, as in `{ a.example, b.example }:443`" : "a table holds no ports: they stand in the rule");
        if (!parse_host_word(p, p->tok.at, word, t))
                return false;
        parser_next(p);
        return true;
}

static bool list_entry(struct parser *p, void *obj)
{
        struct target_list *l = obj;
        struct target t, *to;

        to = target_entry(p, &t, l->tables_ok) ? parser_push(p, l->list, l->count, &l->cap, sizeof(t), l->max, "entries in a list") : NULL;
        if (to)
                *to = t;
        return to != NULL;
}

bool parse_entries(struct parser *p, bool (*entry)(struct parser *p, void *obj), void *obj)
{
        bool separated = true, any = false;

        parser_next(p);
        for (;;) {
                while (p->tok.kind == TOK_NEWLINE || (p->tok.kind == TOK_COMMA && !separated)) {
                        separated = true;
                        parser_next(p);
                }
                if (p->tok.kind == TOK_CLOSE)
                        break;
                if (!separated)
                        return parser_expected(p, "`,` or `}`");
                if (!entry(p, obj))
                        return false;
                separated = false;
                any = true;
        }
        if (!any)
                return parser_expected(p, "at least one entry");
        parser_next(p);
        return true;
}

static bool parse_list(struct parser *p, struct target **list, size_t *count, size_t max, bool tables_ok)
{
        return parse_entries(p, list_entry, &(struct target_list){ .list = list, .count = count, .max = max, .tables_ok = tables_ok });
}

bool parse_table_entries(struct parser *p, struct table *t)
{
        if (p->tok.kind != TOK_OPEN)
                return parser_expected(p, "`{`");
        return parse_list(p, &t->entries, &t->count, RULES_TABLE_ENTRIES, false);
}

static bool parse_single(struct parser *p, struct target *t, struct slice *ports, uint32_t *ports_at)
{
        struct slice word;
        uint32_t at = p->tok.at;

        if (p->tok.kind == TOK_LESS)
                return parse_table_reference(p, t);
        if (p->tok.kind != TOK_WORD && p->tok.kind != TOK_STRING)
                return parser_expected(p, "what the rule is for: `any`, a name, an address, a table or a list");
        word = slice_starts(p->tok.text, SLICE_LIT("http")) && slice_find(p->tok.text, '/') >= 0 ? p->tok.text : split_ports(p->tok.text, ports);
        *ports_at = at;
        if (slice_is(word, "any"))
                *t = (struct target){ .kind = TARGET_ANY, .at = at };
        else if (!parse_host_word(p, at, word, t))
                return false;
        parser_next(p);
        return true;
}

bool parse_targets(struct parser *p, struct rule *r)
{
        struct slice ports = SLICE_EMPTY;
        uint32_t ports_at = p->tok.at;
        size_t cap = 0;

        if (p->tok.kind == TOK_OPEN) {
                if (!parse_list(p, &r->targets, &r->target_count, RULES_LIST_MAX, true))
                        return false;
        } else {
                struct target t, *to;
                if (!parse_single(p, &t, &ports, &ports_at))
                        return false;
                to = parser_push(p, &r->targets, &r->target_count, &cap, sizeof(t), 1, "targets");
                if (!to)
                        return false;
                *to = t;
        }
        if (ports.n == 0 && p->tok.kind == TOK_WORD && p->tok.text.n && p->tok.text.p[0] == ':') {
                ports = p->tok.text;
                ports_at = p->tok.at;
                parser_next(p);
        }
        return ports.n ? parse_ports(p, r, ports_at, ports) : default_ports(p, r, p->tok.at);
}
