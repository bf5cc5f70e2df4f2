/* The compiled index: which rules could a flow's name and addresses meet? One hash table whose keys are exact names, bases of patterns and
 * prefixes; each entry holds the rules that name it, ascending. A look-up walks the name's labels from the right, hashing as it goes, and each
 * address through the prefix lengths that occur; the lists found are merged by rule number, which restores "first match wins". */
#include "rules/rules_priv.h"

/* FNV-1a over the bytes from the last to the first, so that every suffix of a name has its hash on the way. */
enum { HASH_SEED = 2166136261u, HASH_PRIME = 16777619u };

static uint32_t hash_byte(uint32_t h, uint8_t c) { return (h ^ c) * HASH_PRIME; }

static uint32_t hash_end(uint32_t h, unsigned salt)
{
        h ^= salt * 0x9e3779b9u;
        h ^= h >> 15;
        h *= 0x2c1b3c6du;
        return h ^ h >> 13;
}

uint32_t index_hash(struct slice s)
{
        uint32_t h = HASH_SEED;

        for (size_t i = s.n; i-- > 0;)
                h = hash_byte(h, s.p[i]);
        return h;
}

static struct index_entry *index_slot(const struct index *ix, uint32_t hash, unsigned kind, unsigned bits, struct slice key)
{
        for (size_t i = hash & ix->mask;; i = (i + 1) & ix->mask) {
                struct index_entry *e = &ix->slots[i];
                if (!e->kind || (e->hash == hash && e->kind == kind && e->bits == bits && slice_eq(slice_of(e->key, e->key_bytes), key)))
                        return e;
        }
}

/* ---- building ------------------------------------------------------------------------------------------------------------------------ */

static void post(struct index *ix, uint32_t *head, uint32_t *tail, uint32_t rule)
{
        uint32_t n = ix->posting_count++;

        ix->postings[n] = (struct posting){ rule, INDEX_NONE };
        if (*head == INDEX_NONE)
                *head = n;
        else
                ix->postings[*tail].next = n;
        *tail = n;
}

static void index_add(struct index *ix, const struct target *t, uint32_t rule)
{
        unsigned kind, bits = 0;
        struct slice key = t->name;
        struct index_entry *e;
        uint32_t hash;

        switch (t->kind) {
        case TARGET_ANY:
                post(ix, &ix->any_head, &ix->any_tail, rule);
                return;
        case TARGET_TABLE:
                for (size_t i = 0; i < t->table->count; i++)
                        index_add(ix, &t->table->entries[i], rule);
                return;
        case TARGET_CIDR:
                kind = cidr_is_v4(&t->cidr) ? INDEX_V4 : INDEX_V6;
                bits = t->cidr.bits;
                key = slice_of(t->cidr.addr.b, 16);
                (kind == INDEX_V4 ? ix->v4_bits : ix->v6_bits)[bits / 64] |= 1ull << (bits % 64);
                break;
        case TARGET_NAME:
                kind = INDEX_NAME;
                break;
        case TARGET_SUBTREE:
                kind = INDEX_SUBTREE;
                break;
        case TARGET_BELOW:
        default:
                kind = INDEX_BELOW;
                break;
        }
        hash = hash_end(index_hash(key), kind * 256 + bits);
        e = index_slot(ix, hash, kind, bits, key);
        if (!e->kind)
                *e = (struct index_entry){ hash, (uint8_t)kind, (uint8_t)bits, (uint16_t)key.n, key.p, INDEX_NONE, INDEX_NONE };
        if (e->head == INDEX_NONE || ix->postings[e->tail].rule != rule)
                post(ix, &e->head, &e->tail, rule);
}

/* Postings that the rules need at most; more than RULES_POSTINGS_MAX: 0. */
static size_t count_postings(const struct ruleset *rs)
{
        size_t n = 0;

        for (size_t i = 0; i < rs->count; i++)
                for (size_t j = 0; j < rs->rules[i].target_count; j++) {
                        const struct target *t = &rs->rules[i].targets[j];
                        n += t->kind == TARGET_TABLE ? t->table->count : 1;
                        if (n > RULES_POSTINGS_MAX)
                                return 0;
                }
        return n ? n : 1;
}

int index_build(struct index *ix, struct arena *arena, const struct ruleset *rs)
{
        size_t n = count_postings(rs), slots = 16;

        *ix = (struct index){ .any_head = INDEX_NONE, .any_tail = INDEX_NONE };
        if (n == 0)
                return -1;
        while (slots < n * 2)
                slots *= 2;
        ix->mask = slots - 1;
        ix->slots = arena_alloc_array(arena, slots, sizeof(*ix->slots));
        ix->postings = arena_alloc_array(arena, n, sizeof(*ix->postings));
        if (!ix->slots || !ix->postings)
                return -1;
        for (size_t i = 0; i < rs->count; i++)
                for (size_t j = 0; j < rs->rules[i].target_count; j++)
                        index_add(ix, &rs->rules[i].targets[j], (uint32_t)i);
        return 0;
}

/* ---- looking up ---------------------------------------------------------------------------------------------------------------------- */

static void cursor_add(struct candidates *c, uint32_t head, enum cursor_origin origin)
{
        if (head != INDEX_NONE && c->count < CURSORS_MAX)
                c->cursors[c->count++] = (struct cursor){ head, origin };
}

static void look_up(struct candidates *c, uint32_t hash, unsigned kind, unsigned bits, struct slice key, enum cursor_origin origin)
{
        const struct index_entry *e = index_slot(c->index, hash_end(hash, kind * 256 + bits), kind, bits, key);

        if (e->kind)
                cursor_add(c, e->head, origin);
}

static void look_up_name(struct candidates *c, struct slice name)
{
        uint32_t h = HASH_SEED;

        for (size_t i = name.n; i-- > 0;) {
                h = hash_byte(h, name.p[i]);
                if (i && name.p[i - 1] != '.')
                        continue;
                look_up(c, h, INDEX_SUBTREE, 0, slice_skip(name, i), FROM_PATTERN);
                look_up(c, h, i ? INDEX_BELOW : INDEX_NAME, 0, slice_skip(name, i), i ? FROM_PATTERN : FROM_NAME);
        }
}

static void look_up_addr(struct candidates *c, const struct addr *a, enum cursor_origin origin)
{
        bool v4 = addr_is_v4(a);
        const uint64_t *lengths = v4 ? c->index->v4_bits : c->index->v6_bits;

        for (unsigned w = 0; w < 3; w++)
                for (uint64_t set = lengths[w]; set; set &= set - 1) {
                        unsigned bits = w * 64 + (unsigned)__builtin_ctzll(set);
                        struct addr masked = { { 0 } };
                        memcpy(masked.b, a->b, bits / 8);
                        if (bits % 8)
                                masked.b[bits / 8] = (uint8_t)(a->b[bits / 8] & (0xff00u >> (bits % 8)));
                        look_up(c, index_hash(slice_of(masked.b, 16)), v4 ? INDEX_V4 : INDEX_V6, bits, slice_of(masked.b, 16), origin);
                }
}

/* The IPv4 address that an IPv6 address stands for, where a translator or a tunnel would go there: NAT64 (RFC 6052, 8215), 6to4 (RFC 3056),
 * Teredo (RFC 4380), ISATAP (RFC 5214), IPv4-compatible (RFC 4291). */
static bool embedded_v4(const struct addr *a, struct addr *out)
{
        static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b }, local_nat64[6] = { 0, 0x64, 0xff, 0x9b, 0, 1 }, compatible[12] = { 0 }, teredo[4] = { 0x20, 1 };
        const uint8_t *b = a->b;
        bool isatap = (b[8] & 0xfd) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe;
        uint32_t low = (uint32_t)b[12] << 24 | (uint32_t)b[13] << 16 | (uint32_t)b[14] << 8 | b[15];

        if (memcmp(b, nat64, 12) == 0 || memcmp(b, local_nat64, 6) == 0 || memcmp(b, compatible, 12) == 0 || isatap)
                *out = addr_v4(low);
        else if (memcmp(b, teredo, 4) == 0)
                *out = addr_v4(~low);
        else if (b[0] == 0x20 && b[1] == 2)
                *out = addr_v4((uint32_t)b[2] << 24 | (uint32_t)b[3] << 16 | (uint32_t)b[4] << 8 | b[5]);
        else
                return false;
        return true;
}

/* SECURITY: a deny by IPv4 address holds for its IPv6 spellings too. What only was found this way never allows. */
static void look_up_both(struct candidates *c, const struct addr *a, enum cursor_origin origin)
{
        struct addr v4;

        look_up_addr(c, a, origin);
        if (!addr_is_v4(a) && embedded_v4(a, &v4))
                look_up_addr(c, &v4, FROM_RESOLVED);
}

void candidates_init(struct candidates *c, const struct index *ix, struct slice name, const struct addr *literal, const struct addr *resolved)
{
        c->index = ix;
        c->count = 0;
        cursor_add(c, ix->any_head, FROM_ANY);
        if (name.n) {
                look_up_name(c, name);
                if (resolved)
                        look_up_both(c, resolved, FROM_RESOLVED);
        } else if (literal) {
                look_up_both(c, literal, FROM_LITERAL);
        }
}

int candidates_next(struct candidates *c, unsigned *origins)
{
        const struct posting *postings = c->index->postings;
        uint32_t first = INDEX_NONE;

        *origins = 0;
        for (size_t i = 0; i < c->count; i++)
                if (postings[c->cursors[i].posting].rule < first)
                        first = postings[c->cursors[i].posting].rule;
        if (first == INDEX_NONE)
                return -1;
        for (size_t i = 0; i < c->count;) {
                struct cursor *cur = &c->cursors[i];
                while (cur->posting != INDEX_NONE && postings[cur->posting].rule == first) {
                        *origins |= 1u << cur->origin;
                        cur->posting = postings[cur->posting].next;
                }
                if (cur->posting == INDEX_NONE)
                        *cur = c->cursors[--c->count];
                else
                        i++;
        }
        return (int)first;
}
