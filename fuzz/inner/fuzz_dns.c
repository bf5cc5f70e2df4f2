/* DNS as the guest asks it, against a policy: an answer with an address belongs to a name that the policy could allow, the address is that name's own and
 * no other's, the question is echoed, and asking twice gives the same answer. */
#include "hold.h"
#include "inner/dns.h"
#include "inner/names.h"
#include "inner/outbox.h"
#include "rules/policy.h"
#include "wire/dns.h"

#include <sys/mman.h>

static struct door door;

static void set_up(void)
{
        static struct diags errors;
        struct err err;

        door.base = event_base_new();
        door.policy = policy_parse(SLICE_LIT("rules {\nallow web { a.example, .b.example, *.c.example }\nallow tcp d.example:5432\ndeny any x.b.example\n}\n"), "fuzz", &errors);
        door.names = names_open(memfd_create("names", MFD_CLOEXEC), &err);
        HOLDS(door.base && door.policy && door.names);
        door.outbox = outbox_open(&door, -1);
        HOLDS(door.outbox);
}

static bool naive_allows(struct slice name)
{
        return slice_is(name, "a.example") || slice_is(name, "b.example") || slice_ends(name, SLICE_LIT(".b.example")) ||
               slice_ends(name, SLICE_LIT(".c.example")) || slice_is(name, "d.example");
}

/* The first record behind the question. */
static void check_address(const uint8_t *out, size_t n, const struct dns_query *q)
{
        size_t at = 12 + q->qname.n + 4, bytes = q->type == DNS_A ? 4 : 16;
        struct addr a = { 0 };
        struct slice owner;

        HOLDS(n >= at + 12 + bytes && out[at] == 0xc0 && out[at + 1] == 12);
        HOLDS(out[at + 2] == 0 && out[at + 3] == q->type && out[at + 10] == 0 && out[at + 11] == bytes);
        if (bytes == 4)
                a = addr_v4((uint32_t)out[at + 12] << 24 | (uint32_t)out[at + 13] << 16 | (uint32_t)out[at + 14] << 8 | out[at + 15]);
        else
                memcpy(a.b, out + at + 12, 16);
        if (slice_is(q->name, "localhost") || slice_ends(q->name, SLICE_LIT(".localhost"))) {
                HOLDS(bytes == 4 ? a.b[12] == 127 : a.b[15] == 1);
                return;
        }
        owner = names_owner(door.names, &a);
        HOLDS(names_is_synthetic(&a) && naive_allows(q->name) && slice_eq(owner, q->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in), out[DNS_MESSAGE_BYTES], again[DNS_MESSAGE_BYTES];
        struct dns_query q;
        struct arena a;
        size_t len;

        if (!door.base)
                set_up();
        door.refuse = control & 2 ? REASON_FROZEN : REASON_NONE;
        len = dns_reply(&door, in, control & 1, out);
        HOLDS(len <= sizeof(out) && dns_reply(&door, in, control & 1, again) == len && memcmp(out, again, len) == 0);
        arena_init(&a, 4096);
        if (dns_query_parse(&a, in, &q) == WIRE_OK) {
                unsigned answers = (unsigned)out[6] << 8 | out[7];
                HOLDS(len >= 12 + q.qname.n + 4 && memcmp(out, in.p, 2) == 0 && memcmp(out + 12, q.qname.p, q.qname.n) == 0);
                HOLDS(answers <= 1);
                if (answers && (q.type == DNS_A || q.type == DNS_AAAA))
                        check_address(out, len, &q);
                HOLDS(!answers || q.type == DNS_A || q.type == DNS_AAAA || q.type == DNS_PTR);
                HOLDS(!(control & 2) || !answers || q.type == DNS_PTR || slice_ends(q.name, SLICE_LIT("localhost")));
        } else {
                HOLDS(len == 0 || len == 12);
        }
        arena_fini(&a);
        buf_clear(outbox_buf(door.outbox));
        HOLDS(!door.quit);
        return 0;
}
