/* Address guard: see guard.h. */
#include "outer/guard.h"

/* Prefixes in the 16-byte form; IPv4 ones are given as ::ffff:a.b.c.d with 96 bits added. First match wins: narrow rows first. */
#define V4(a, b, c, d) { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d }
static const struct row {
        uint8_t prefix[16];
        uint8_t bits;
        enum guard_class class;
        const char *what;
} rows[] = {
        { V4(169, 254, 169, 254), 128, GUARD_LOCAL, "metadata" },
        { V4(169, 254, 170, 2), 128, GUARD_LOCAL, "metadata" },   /* container credentials */
        { V4(168, 63, 129, 16), 128, GUARD_LOCAL, "metadata" },   /* a cloud's wire server, in public space */
        { V4(100, 100, 100, 200), 128, GUARD_LOCAL, "metadata" }, /* another's, in shared space */
        { V4(192, 0, 0, 192), 128, GUARD_LOCAL, "metadata" },     /* another's, in protocol space */
        { V4(0, 0, 0, 0), 128, GUARD_NEVER, "unspecified" },
        { V4(255, 255, 255, 255), 128, GUARD_NEVER, "broadcast" },
        { V4(0, 0, 0, 0), 104, GUARD_NEVER, "this network" },     /* 0/8: Linux dials 0.0.0.0 as loopback */
        { V4(127, 0, 0, 0), 104, GUARD_LOCAL, "loopback" },
        { V4(169, 254, 0, 0), 112, GUARD_LOCAL, "link-local" },
        { V4(10, 0, 0, 0), 104, GUARD_PRIVATE, "private" },
        { V4(172, 16, 0, 0), 108, GUARD_PRIVATE, "private" },
        { V4(192, 168, 0, 0), 112, GUARD_PRIVATE, "private" },
        { V4(100, 64, 0, 0), 106, GUARD_PRIVATE, "shared (CGNAT)" },
        { V4(198, 18, 0, 0), 111, GUARD_PRIVATE, "benchmarking" }, /* also what workspaces use for names */
        { V4(192, 0, 0, 0), 120, GUARD_PRIVATE, "protocol assignments" },
        { V4(192, 88, 99, 0), 120, GUARD_NEVER, "6to4 relay" },
        { V4(224, 0, 0, 0), 100, GUARD_NEVER, "multicast" },
        { V4(240, 0, 0, 0), 100, GUARD_NEVER, "reserved" },
        { { 0 }, 128, GUARD_NEVER, "unspecified" },
        { { [15] = 1 }, 128, GUARD_LOCAL, "loopback" },
        { { 0xfd, 0x00, 0x0e, 0xc2 }, 64, GUARD_LOCAL, "metadata" },
        { { 0xfd, 0x20, 0x00, 0xce }, 64, GUARD_LOCAL, "metadata" },
        { { 0xfe, 0x80 }, 10, GUARD_LOCAL, "link-local" },
        { { 0xfe, 0xc0 }, 10, GUARD_PRIVATE, "site-local" },
        { { 0xfc }, 7, GUARD_PRIVATE, "unique local" },
        { { 0xff }, 8, GUARD_NEVER, "multicast" },
        { { 0x01, 0x00 }, 64, GUARD_NEVER, "discard-only" },
        { { 0x5f, 0x00 }, 16, GUARD_PRIVATE, "segment routing" },
        { { 0x20, 0x01, 0x00, 0x02, 0x00, 0x00 }, 48, GUARD_PRIVATE, "benchmarking" },
        { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, GUARD_PUBLIC, "" },  /* NAT64, local use: by what it carries */
        { { 0x00, 0x64, 0xff, 0x9b }, 96, GUARD_PUBLIC, "" },              /* NAT64 */
        { { 0 }, 96, GUARD_PUBLIC, "" },                                   /* IPv4-compatible */
        { V4(0, 0, 0, 0), 96, GUARD_PUBLIC, "" },                          /* IPv4 */
        { { [8] = 0xff, [9] = 0xff }, 96, GUARD_PUBLIC, "" },              /* IPv4-translated, RFC 2765 */
        { { 0 }, 8, GUARD_NEVER, "reserved" },                             /* the rest of 0000::/8 */
};

static bool has_prefix(const struct addr *a, const uint8_t *prefix, uint8_t bits)
{
        struct cidr c = { .bits = bits };

        memcpy(c.addr.b, prefix, 16);
        return cidr_has(&c, a);
}

static struct guard_range judge_table(const struct addr *a)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (has_prefix(a, rows[i].prefix, rows[i].bits))
                        return (struct guard_range){ rows[i].class, rows[i].what };
        return (struct guard_range){ GUARD_PUBLIC, "" };
}

/* The four bytes of an IPv4 address that stand at these places of a. */
static struct addr carried(const struct addr *a, int i, int j, int k, int l, uint8_t flip)
{
        const uint8_t *b = a->b;

        return addr_v4((uint32_t)(b[i] ^ flip) << 24 | (uint32_t)(b[j] ^ flip) << 16 | (uint32_t)(b[k] ^ flip) << 8 | (uint32_t)(b[l] ^ flip));
}

static void worse(struct guard_range *r, struct addr v4)
{
        struct guard_range other = judge_table(&v4);

        if (other.class > r->class)
                *r = other;
}

/* RFC 6052 §2.2: where the address stands depends on a prefix length that only the network's owner knows; every layout that the zero
 * suffix allows is judged. */
static void judge_nat64_local(const struct addr *a, struct guard_range *r)
{
        static const uint8_t zero[8] = { 0 };

        worse(r, carried(a, 12, 13, 14, 15, 0));
        if (memcmp(a->b + 13, zero, 3) == 0)
                worse(r, carried(a, 9, 10, 11, 12, 0));
        if (memcmp(a->b + 12, zero, 4) == 0)
                worse(r, carried(a, 7, 9, 10, 11, 0));
        if (memcmp(a->b + 11, zero, 5) == 0)
                worse(r, carried(a, 6, 7, 9, 10, 0));
}

struct guard_range guard_judge(const struct addr *a)
{
        static const uint8_t nat64[16] = { 0x00, 0x64, 0xff, 0x9b }, nat64_local[16] = { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 };
        static const uint8_t six_to_four[16] = { 0x20, 0x02 }, teredo[16] = { 0x20, 0x01 }, compatible[16] = { 0 };
        static const uint8_t translated[16] = { [8] = 0xff, [9] = 0xff };
        struct guard_range r = judge_table(a);

        if (addr_is_v4(a) || (r.class != GUARD_PUBLIC && has_prefix(a, compatible, 96)))
                return r; /* :: and ::1 are no IPv4 addresses */
        if (has_prefix(a, nat64, 96) || has_prefix(a, compatible, 96) || has_prefix(a, translated, 96))
                worse(&r, carried(a, 12, 13, 14, 15, 0));
        else if (has_prefix(a, nat64_local, 48))
                judge_nat64_local(a, &r);
        else if (has_prefix(a, six_to_four, 16))
                worse(&r, carried(a, 2, 3, 4, 5, 0));
        else if (has_prefix(a, teredo, 32)) {
                worse(&r, carried(a, 4, 5, 6, 7, 0));          /* its server */
                worse(&r, carried(a, 12, 13, 14, 15, 0xff));   /* its client, inverted: RFC 4380 §4 */
        }
        /* ISATAP (RFC 5214 §6.1) stands in the interface identifier, under any prefix. */
        if ((a->b[8] & 0xfd) == 0 && a->b[9] == 0 && a->b[10] == 0x5e && a->b[11] == 0xfe)
                worse(&r, carried(a, 12, 13, 14, 15, 0));
        return r;
}

enum reason guard_check(const struct addr *a, const struct guard_claim *claim, const char **what)
{
        struct guard_range r = guard_judge(a);

        *what = r.what;
        if (r.class == GUARD_PUBLIC || claim->pinned)
                return REASON_NONE;
        if (r.class == GUARD_NEVER)
                return REASON_ADDRESS_FORBIDDEN;
        if (claim->literal)
                return REASON_NONE;
        if (r.class == GUARD_LOCAL)
                return REASON_ADDRESS_FORBIDDEN;
        return claim->private_ok ? REASON_NONE : REASON_ADDRESS_PRIVATE;
}
