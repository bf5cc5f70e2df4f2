/* DNS: see dns.h. Names are walked label by label; a pointer in the question is refused, so there is nothing to loop on. */
#include "wire/dns.h"

#include <stdio.h>

enum {
        DNS_HEAD_BYTES = 12,
        DNS_LABEL_MAX = 63,
        DNS_UDP_BYTES_MIN = 512,
        DNS_OPT_BYTES = 11,
        DNS_CLASS_IN = 1,
        FLAG_QR = 0x8000, FLAG_TC = 0x0200, FLAG_RD = 0x0100, FLAG_RA = 0x0080, FLAG_AA = 0x0400, FLAG_CD = 0x0010,
        OPCODE_MASK = 0x7800,
        RCODE_BADVERS_HIGH = 1, /* 16 = 1 << 4: in the OPT record */
        EDNS_DO = 0x8000,
};

const char *dns_type_text(char out[DNS_TYPE_TEXT_BYTES], uint16_t type)
{
        static const struct { uint16_t type; const char *name; } known[] = {
                { DNS_A, "A" },     { DNS_NS, "NS" },     { DNS_CNAME, "CNAME" }, { DNS_SOA, "SOA" },     { DNS_PTR, "PTR" }, { 15, "MX" },
                { DNS_TXT, "TXT" }, { DNS_AAAA, "AAAA" }, { 33, "SRV" },          { DNS_HTTPS, "HTTPS" }, { DNS_ANY, "ANY" },
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (known[i].type == type) {
                        snprintf(out, DNS_TYPE_TEXT_BYTES, "%s", known[i].name);
                        return out;
                }
        snprintf(out, DNS_TYPE_TEXT_BYTES, "TYPE%u", type);
        return out;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

/* Walks the question's name at msg[DNS_HEAD_BYTES]; *n is its length on the wire. */
static enum wire_reason dns_name_walk(struct slice msg, size_t *n)
{
        size_t at = DNS_HEAD_BYTES;

        for (;;) {
                uint8_t label;

                if (at >= msg.n)
                        return WIRE_DNS_SHORT;
                label = msg.p[at];
                if (label >= 0xc0)
                        return WIRE_DNS_COMPRESSED;
                if (label > DNS_LABEL_MAX || at + 1 + label - DNS_HEAD_BYTES > DNS_NAME_WIRE_MAX)
                        return WIRE_DNS_NAME;
                at += 1u + label;
                if (label == 0)
                        break;
        }
        *n = at - DNS_HEAD_BYTES;
        return WIRE_OK;
}

static bool host_byte(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

/* The text of a checked wire name. */
static enum wire_reason dns_name_text(struct arena *a, struct slice qname, struct dns_query *q)
{
        uint8_t *text = arena_alloc(a, qname.n);
        size_t n = 0;

        if (!text)
                return WIRE_MEMORY;
        q->host_ok = true;
        for (size_t at = 0; qname.p[at]; at += 1u + qname.p[at]) {
                if (n)
                        text[n++] = '.';
                for (size_t i = 1; i <= qname.p[at]; i++) {
                        uint8_t c = ascii_lower(qname.p[at + i]);

                        q->host_ok = q->host_ok && host_byte(c);
                        text[n++] = host_byte(c) ? c : '?';
                }
        }
        q->name = slice_of(text, n);
        return WIRE_OK;
}

/* What follows the question: nothing, or one OPT record (RFC 6891 §6.1.2). */
static enum wire_reason dns_edns_parse(struct slice rest, uint16_t additional, struct dns_query *q)
{
        size_t at = DNS_OPT_BYTES;

        if (additional == 0)
                return rest.n ? WIRE_DNS_TRAILING : WIRE_OK;
        if (rest.n < DNS_OPT_BYTES)
                return WIRE_DNS_SHORT;
        if (rest.p[0] != 0 || get16(rest.p + 1) != DNS_OPT)
                return WIRE_DNS_RECORDS;
        q->edns = true;
        q->edns_version = rest.p[6];
        q->dnssec_ok = (get16(rest.p + 7) & EDNS_DO) != 0;
        q->udp_bytes = get16(rest.p + 3);
        if (rest.n - DNS_OPT_BYTES != get16(rest.p + 9))
                return rest.n - DNS_OPT_BYTES < get16(rest.p + 9) ? WIRE_DNS_SHORT : WIRE_DNS_TRAILING;
        while (at < rest.n) { /* options: code, length, data; read over */
                size_t n;

                if (rest.n - at < 4)
                        return WIRE_DNS_EDNS;
                n = get16(rest.p + at + 2);
                if (n > rest.n - at - 4)
                        return WIRE_DNS_EDNS;
                at += 4 + n;
        }
        return WIRE_OK;
}

enum wire_reason dns_query_parse(struct arena *a, struct slice msg, struct dns_query *out)
{
        struct dns_query q = { .udp_bytes = DNS_UDP_BYTES_MIN };
        uint16_t flags, additional;
        size_t n;
        enum wire_reason why;

        if (msg.n < DNS_HEAD_BYTES)
                return WIRE_DNS_SHORT;
        additional = get16(msg.p + 10);
        q.id = get16(msg.p);
        flags = get16(msg.p + 2);
        if (flags & (FLAG_QR | FLAG_TC | OPCODE_MASK | FLAG_AA | 0xf))
                return WIRE_DNS_NOT_QUERY;
        if (get16(msg.p + 4) != 1)
                return WIRE_DNS_QUESTIONS;
        if (get16(msg.p + 6) || get16(msg.p + 8) || additional > 1)
                return WIRE_DNS_RECORDS;
        q.rd = (flags & FLAG_RD) != 0;
        q.cd = (flags & FLAG_CD) != 0;
        why = dns_name_walk(msg, &n);
        if (why != WIRE_OK)
                return why;
        q.qname = slice_of(msg.p + DNS_HEAD_BYTES, n);
        msg = slice_skip(msg, DNS_HEAD_BYTES + n);
        if (msg.n < 4)
                return WIRE_DNS_SHORT;
        q.type = get16(msg.p);
        if (get16(msg.p + 2) != DNS_CLASS_IN)
                return WIRE_DNS_CLASS;
        why = dns_edns_parse(slice_skip(msg, 4), additional, &q);
        if (why != WIRE_OK)
                return why;
        if (q.udp_bytes < DNS_UDP_BYTES_MIN)
                q.udp_bytes = DNS_UDP_BYTES_MIN;
        if (q.udp_bytes > DNS_UDP_BYTES_MAX)
                q.udp_bytes = DNS_UDP_BYTES_MAX;
        why = dns_name_text(a, q.qname, &q);
        if (why == WIRE_OK)
                *out = q;
        return why;
}

/* --- answers --- */
struct writer {
        uint8_t *p;
        size_t n, cap;
        bool full;
};

static void w_bytes(struct writer *w, const void *p, size_t n)
{
        if (w->full || n > w->cap - w->n) {
                w->full = true;
                return;
        }
        if (n)
                memcpy(w->p + w->n, p, n);
        w->n += n;
}
static void w8(struct writer *w, uint8_t v) { w_bytes(w, &v, 1); }
static void w16(struct writer *w, unsigned v) { w_bytes(w, (uint8_t[2]){ (uint8_t)(v >> 8), (uint8_t)v }, 2); }
static void w32(struct writer *w, uint32_t v)
{
        w16(w, v >> 16);
        w16(w, v & 0xffff);
}

static void set16(uint8_t *p, unsigned v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

/* Owner is the question's name, by pointer. */
static void w_record(struct writer *w, unsigned type, uint32_t ttl_s, size_t bytes)
{
        w16(w, 0xc000 | DNS_HEAD_BYTES);
        w16(w, type);
        w16(w, DNS_CLASS_IN);
        w32(w, ttl_s);
        w16(w, (unsigned)bytes);
}

static unsigned w_addresses(struct writer *w, const struct dns_query *q, const struct dns_answer *ans)
{
        unsigned count = 0;

        for (size_t i = 0; i < ans->addr_n && i < DNS_ANSWERS_MAX; i++) {
                const struct addr *x = &ans->addr[i];

                if (addr_is_v4(x) ? q->type != DNS_A : q->type != DNS_AAAA)
                        continue;
                w_record(w, q->type, ans->ttl_s, addr_is_v4(x) ? 4 : 16);
                w_bytes(w, addr_is_v4(x) ? x->b + 12 : x->b, addr_is_v4(x) ? 4 : 16);
                count++;
        }
        return count;
}

/* A host name as text to wire form; 0 when it is none. */
static size_t name_to_wire(uint8_t out[DNS_NAME_WIRE_MAX], struct slice name)
{
        size_t n = 0;

        while (name.n) {
                ptrdiff_t dot = slice_find(name, '.');
                struct slice label = dot < 0 ? name : slice_first(name, (size_t)dot);

                if (label.n == 0 || label.n > DNS_LABEL_MAX || label.n + 2 > DNS_NAME_WIRE_MAX - n)
                        return 0;
                out[n++] = (uint8_t)label.n;
                memcpy(out + n, label.p, label.n);
                n += label.n;
                name = slice_skip(name, label.n + (dot < 0 ? 0 : 1));
        }
        out[n++] = 0;
        return n;
}

static unsigned w_pointer(struct writer *w, const struct dns_query *q, const struct dns_answer *ans)
{
        uint8_t wire[DNS_NAME_WIRE_MAX];
        size_t n = q->type == DNS_PTR && ans->ptr.n ? name_to_wire(wire, ans->ptr) : 0;

        if (n == 0)
                return 0;
        w_record(w, DNS_PTR, ans->ttl_s, n);
        w_bytes(w, wire, n);
        return 1;
}

/* RFC 2308 §5: negative answers are cached for the SOA's minimum, here very short. The root's name, for it claims nothing. */
static void w_soa(struct writer *w)
{
        w8(w, 0);
        w16(w, DNS_SOA);
        w16(w, DNS_CLASS_IN);
        w32(w, DNS_NEGATIVE_TTL_S);
        w16(w, 2 + 5 * 4);
        w8(w, 0); /* mname */
        w8(w, 0); /* rname */
        w32(w, 1); /* serial */
        w32(w, 3600);
        w32(w, 600);
        w32(w, 86400);
        w32(w, DNS_NEGATIVE_TTL_S);
}

static void w_opt(struct writer *w, const struct dns_query *q)
{
        if (!q->edns)
                return;
        w8(w, 0);
        w16(w, DNS_OPT);
        w16(w, DNS_UDP_BYTES_MAX);
        w8(w, q->edns_version ? RCODE_BADVERS_HIGH : 0);
        w8(w, 0);
        w16(w, q->dnssec_ok ? EDNS_DO : 0);
        w16(w, 0);
}

static void w_question(struct writer *w, const struct dns_query *q, unsigned flags)
{
        w16(w, q->id);
        w16(w, flags | FLAG_QR | FLAG_RA | (q->rd ? FLAG_RD : 0u) | (q->cd ? FLAG_CD : 0u));
        w16(w, 1);
        w16(w, 0);
        w16(w, 0);
        w16(w, q->edns ? 1 : 0);
        w_bytes(w, q->qname.p, q->qname.n);
        w16(w, q->type);
        w16(w, DNS_CLASS_IN);
}

size_t dns_answer(uint8_t *out, size_t cap, const struct dns_query *q, const struct dns_answer *ans, bool over_udp)
{
        size_t room = over_udp && q->udp_bytes < cap ? q->udp_bytes : cap < UINT16_MAX ? cap : UINT16_MAX;
        struct writer w = { out, 0, room, false };
        bool plain = !q->edns || q->edns_version == 0;
        unsigned count = 0;

        w_question(&w, q, plain ? (unsigned)ans->rcode & 15u : 0);
        if (plain && ans->rcode == DNS_NOERROR)
                count = w_addresses(&w, q, ans) + w_pointer(&w, q, ans);
        if (plain && count == 0 && (ans->rcode == DNS_NOERROR || ans->rcode == DNS_NXDOMAIN)) {
                w_soa(&w);
                if (!w.full)
                        set16(out + 8, 1);
        }
        w_opt(&w, q);
        if (!w.full) {
                set16(out + 6, count);
                return w.n;
        }
        w = (struct writer){ out, 0, room, false };
        w_question(&w, q, FLAG_TC);
        w_opt(&w, q);
        return w.full ? 0 : w.n;
}

size_t dns_refuse(uint8_t *out, size_t cap, struct slice msg)
{
        struct writer w = { out, 0, cap, false };
        uint16_t flags;

        if (msg.n < DNS_HEAD_BYTES)
                return 0;
        flags = get16(msg.p + 2);
        if (flags & FLAG_QR)
                return 0;
        w_bytes(&w, msg.p, 2);
        w16(&w, FLAG_QR | FLAG_RA | (flags & (OPCODE_MASK | FLAG_RD)) | (flags & OPCODE_MASK ? DNS_NOTIMP : DNS_FORMERR));
        w_bytes(&w, (const uint8_t[8]){ 0 }, 8);
        return w.full ? 0 : w.n;
}

static bool reverse_v4(struct slice name, struct addr *out)
{
        uint8_t text[16];
        struct slice part[4];
        size_t n = 0;

        for (size_t i = 0; i < 4; i++) {
                ptrdiff_t dot = slice_find(name, '.');

                if ((dot < 0) != (i == 3))
                        return false;
                part[i] = dot < 0 ? name : slice_first(name, (size_t)dot);
                name = dot < 0 ? SLICE_EMPTY : slice_skip(name, (size_t)dot + 1);
                if (part[i].n == 0 || part[i].n > 3)
                        return false;
        }
        for (size_t i = 4; i-- > 0;) {
                memcpy(text + n, part[i].p, part[i].n);
                n += part[i].n;
                if (i)
                        text[n++] = '.';
        }
        return addr_parse(out, slice_of(text, n)) == 0;
}

static bool reverse_v6(struct slice name, struct addr *out)
{
        struct addr a = { 0 };

        if (name.n != 63)
                return false;
        for (size_t i = 0; i < 32; i++) {
                uint8_t c = name.p[2 * i], v;

                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) || (i < 31 && name.p[2 * i + 1] != '.'))
                        return false;
                v = (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
                a.b[15 - i / 2] |= (uint8_t)(i % 2 ? v << 4 : v);
        }
        *out = a;
        return true;
}

bool dns_reverse(struct slice name, struct addr *out)
{
        static const char v4[] = ".in-addr.arpa", v6[] = ".ip6.arpa";

        if (slice_ends(name, slice_str(v4)))
                return reverse_v4(slice_first(name, name.n - (sizeof(v4) - 1)), out);
        if (slice_ends(name, slice_str(v6)))
                return reverse_v6(slice_first(name, name.n - (sizeof(v6) - 1)), out);
        return false;
}

enum wire_step dns_tcp_next(struct slice in, struct slice *msg, size_t *used)
{
        size_t n;

        if (in.n < 2)
                return WIRE_MORE;
        n = get16(in.p);
        if (in.n - 2 < n)
                return WIRE_MORE;
        *msg = slice_of(in.p + 2, n);
        *used = n + 2;
        return WIRE_DONE;
}
