/* Objects that a git server named: see named.h. A set of ids for each repository, open addressing, grown by doubling. */
#include "outer/named.h"

#include "outer/limits.h"
#include <openssl/rand.h>
#include <stdlib.h>

enum { ID_BYTES = 32, SLOTS_FIRST = 64 };

struct slot {
        uint64_t id[ID_BYTES / 8]; /* a SHA-1 id: zeros behind it */
        uint32_t body;             /* the last one that asked, */
        uint8_t uses;              /* and what for, a bit each */
        uint8_t digits;            /* 0: free */
};

struct repository {
        uint8_t *key; /* NULL: free */
        size_t key_n;
        struct slot *slots;
        size_t cap, count; /* cap: a power of two, or 0 */
        uint64_t used;
};

struct named {
        struct repository repositories[NAMED_REPOSITORIES];
        size_t ids;
        uint64_t uses;
        uint64_t salt[2]; /* a server may choose its ids, but not where they lie */
};

struct named *named_new(void)
{
        struct named *n = calloc(1, sizeof(*n));

        if (n && RAND_bytes((unsigned char *)n->salt, sizeof(n->salt)) != 1) {
                free(n);
                return NULL;
        }
        return n;
}

static void drop_slots(struct slot *slots, size_t cap)
{
        if (slots)
                explicit_bzero(slots, cap * sizeof(*slots));
        free(slots);
}

static void forget(struct named *n, struct repository *r)
{
        n->ids -= r->count;
        drop_slots(r->slots, r->cap);
        free(r->key);
        *r = (struct repository){ .key = NULL };
}

void named_free(struct named *n)
{
        if (!n)
                return;
        for (size_t i = 0; i < NAMED_REPOSITORIES; i++)
                forget(n, &n->repositories[i]);
        free(n);
}

static int digit(uint8_t c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool id_read(struct slice id, struct slot *out)
{
        uint8_t bytes[ID_BYTES] = { 0 };

        if (id.n != 40 && id.n != 64)
                return false;
        for (size_t i = 0; i < id.n; i++) {
                int d = digit(id.p[i]);
                if (d < 0)
                        return false;
                bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | d);
        }
        *out = (struct slot){ .digits = (uint8_t)id.n };
        memcpy(out->id, bytes, sizeof(out->id));
        return true;
}

/* Where it stands, or would: there is always a free slot. */
static struct slot *place(const struct named *n, struct slot *slots, size_t cap, const struct slot *id)
{
        uint64_t h = n->salt[0];

        for (size_t i = 0; i < ID_BYTES / 8; i++) {
                h = (h ^ id->id[i]) * (n->salt[1] | 1);
                h ^= h >> 32;
        }
        for (size_t at = (size_t)h & (cap - 1);; at = (at + 1) & (cap - 1)) {
                struct slot *s = &slots[at];
                if (!s->digits || (s->digits == id->digits && memcmp(s->id, id->id, sizeof(s->id)) == 0))
                        return s;
        }
}

static struct repository *find(struct named *n, struct slice key)
{
        for (size_t i = 0; i < NAMED_REPOSITORIES; i++) {
                struct repository *r = &n->repositories[i];
                if (r->key && slice_eq(slice_of(r->key, r->key_n), key)) {
                        r->used = ++n->uses;
                        return r;
                }
        }
        return NULL;
}

/* The one that was used longest ago, but not `keep`. With `any_free` a free place is as good, and better. */
static struct repository *oldest(struct named *n, const struct repository *keep, bool any_free)
{
        struct repository *best = NULL;

        for (size_t i = 0; i < NAMED_REPOSITORIES; i++) {
                struct repository *r = &n->repositories[i];
                if (!r->key && any_free)
                        return r;
                if (r->key && r != keep && (!best || r->used < best->used))
                        best = r;
        }
        return best;
}

static struct repository *make(struct named *n, struct slice key)
{
        struct repository *r = oldest(n, NULL, true);
        uint8_t *copy = key.n ? malloc(key.n) : NULL;

        if (!copy)
                return NULL;
        memcpy(copy, key.p, key.n);
        forget(n, r);
        *r = (struct repository){ .key = copy, .key_n = key.n, .used = ++n->uses };
        return r;
}

/* Room for one more: a quarter of the slots stays free. */
static bool grow(const struct named *n, struct repository *r)
{
        size_t cap = r->cap ? r->cap * 2 : SLOTS_FIRST;
        struct slot *slots;

        if (r->count + 1 <= r->cap / 4 * 3)
                return true;
        slots = calloc(cap, sizeof(*slots));
        if (!slots)
                return false;
        for (size_t i = 0; i < r->cap; i++)
                if (r->slots[i].digits)
                        *place(n, slots, cap, &r->slots[i]) = r->slots[i];
        drop_slots(r->slots, r->cap);
        r->slots = slots;
        r->cap = cap;
        return true;
}

static bool make_room(struct named *n, struct repository *r)
{
        while (n->ids >= NAMED_IDS) {
                struct repository *other = oldest(n, r, false);
                if (!other)
                        return false;
                forget(n, other);
        }
        return grow(n, r);
}

void named_add(struct named *n, struct slice repository, struct slice id)
{
        struct repository *r = find(n, repository);
        struct slot new, *s;

        if (!id_read(id, &new) || (!r && !(r = make(n, repository))))
                return;
        if (r->cap && place(n, r->slots, r->cap, &new)->digits)
                return;
        if (!make_room(n, r))
                return;
        s = place(n, r->slots, r->cap, &new);
        *s = new;
        r->count++;
        n->ids++;
}

enum named_answer named_ask(struct named *n, struct slice repository, struct slice id, struct named_body *body, unsigned use)
{
        struct repository *r = find(n, repository);
        struct slot asked, *s;

        if (!r || !r->cap || !id_read(id, &asked))
                return NAMED_NO;
        s = place(n, r->slots, r->cap, &asked);
        if (!s->digits)
                return NAMED_NO;
        if (s->body != body->number)
                s->uses = 0;
        s->body = body->number;
        if (s->uses & 1u << use || body->went[use] >= r->count)
                return NAMED_AGAIN;
        s->uses |= (uint8_t)(1u << use);
        body->went[use]++;
        return NAMED_YES;
}
