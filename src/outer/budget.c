/* Budgets: see budget.h. */
#include "outer/budget.h"

#include "outer/limits.h"
#include <openssl/rand.h>
#include <stdlib.h>

enum { HOUR_MS = 3600 * 1000, MINUTE_MS = 60 * 1000, WHOLE = 1000, KNOWN_SLOTS = 2 * BUDGET_KNOWN, NAME_BYTES = 272 /* a host, a colon, a port */ };

/* What is left, in thousandths; below 0 a debt. */
struct bucket {
        int64_t left;
        int64_t at_ms;
};

struct registry {
        char name[NAME_BYTES];
        size_t name_n;
        struct bucket misses, new, requests;
        uint32_t misses_hour; /* that the bucket was last filled by */
        unsigned open;
};

/* Places by a salted hash: two that share one are one, which costs a miss at most. */
struct known {
        uint64_t slots[KNOWN_SLOTS]; /* 0: free */
        size_t count;
};

struct budgets {
        struct registry registries[BUDGET_REGISTRIES];
        size_t count;
        struct known known[2]; /* the newer one, and what was before it */
        unsigned newer;
        uint64_t salt[2];
};

struct budgets *budgets_new(void)
{
        struct budgets *b = calloc(1, sizeof(*b));

        if (b && RAND_bytes((unsigned char *)b->salt, sizeof(b->salt)) != 1) {
                free(b);
                return NULL;
        }
        return b;
}

void budgets_free(struct budgets *b)
{
        if (b)
                explicit_bzero(b, sizeof(*b));
        free(b);
}

/* ---- buckets ------------------------------------------------------------------------------------------------------------------------------------- */

static void fill(struct bucket *k, uint32_t size, int64_t per_ms, int64_t now_ms)
{
        int64_t most = (int64_t)size * WHOLE, passed = now_ms - k->at_ms, came;

        if (passed > 2 * BUDGET_OPEN * per_ms) { /* fills it from the largest debt; and the product below fits */
                passed = 2 * BUDGET_OPEN * per_ms;
                k->at_ms = now_ms - passed;
        }
        came = passed * most / per_ms;
        k->left = k->left + came < most ? k->left + came : most;
        k->at_ms += came * per_ms / most; /* what did not make a thousandth yet is kept */
}

/* ---- registries ----------------------------------------------------------------------------------------------------------------------------------- */

static struct registry *find(struct budgets *b, struct slice name, uint32_t misses, int64_t now_ms)
{
        struct registry *r;

        for (size_t i = 0; i < b->count; i++)
                if (slice_eq(slice_of(b->registries[i].name, b->registries[i].name_n), name))
                        return &b->registries[i];
        if (b->count == BUDGET_REGISTRIES) /* the last one stands for all that came after it */
                return &b->registries[BUDGET_REGISTRIES - 1];
        r = &b->registries[b->count++];
        r->name_n = name.n < NAME_BYTES ? name.n : NAME_BYTES;
        if (r->name_n)
                memcpy(r->name, name.p, r->name_n);
        r->misses_hour = misses;
        r->misses = (struct bucket){ (int64_t)misses * WHOLE, now_ms };
        r->new = (struct bucket){ (int64_t)BUDGET_NEW_HOUR * WHOLE, now_ms };
        r->requests = (struct bucket){ (int64_t)BUDGET_MINUTE * WHOLE, now_ms };
        return r;
}

/* Another rule, or a changed one: what was used stays used. */
static void fill_misses(struct registry *r, uint32_t misses, int64_t now_ms)
{
        fill(&r->misses, r->misses_hour, HOUR_MS, now_ms);
        r->misses.left += ((int64_t)misses - r->misses_hour) * WHOLE;
        r->misses_hour = misses;
}

/* ---- places --------------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t hash(const struct budgets *b, uint64_t h, struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                h = (h ^ s.p[i]) * (b->salt[1] | 1);
                h ^= h >> 29;
        }
        return (h ^ s.n) * (b->salt[1] | 1);
}

/* The lowest bit is kept free for MISSED. */
enum { MISSED = 1 };
static uint64_t place_of(const struct budgets *b, struct slice registry, struct slice place)
{
        uint64_t h = hash(b, hash(b, b->salt[0], registry), place);

        h = (h ^ h >> 32) & ~(uint64_t)MISSED;
        return h ? h : 2;
}

static uint64_t *slot_of(struct known *k, uint64_t place)
{
        size_t at = (size_t)(place >> 1) & (KNOWN_SLOTS - 1);

        while (k->slots[at] && (k->slots[at] & ~(uint64_t)MISSED) != place)
                at = (at + 1) & (KNOWN_SLOTS - 1);
        return &k->slots[at];
}

/* NULL: it was not asked for. */
static uint64_t *find_known(struct budgets *b, uint64_t place)
{
        for (size_t i = 0; i < 2; i++) {
                uint64_t *slot = slot_of(&b->known[i], place);
                if (*slot)
                        return slot;
        }
        return NULL;
}

static void remember(struct budgets *b, uint64_t place, bool missed)
{
        struct known *k = &b->known[b->newer];

        if (k->count == BUDGET_KNOWN) {
                b->newer ^= 1;
                k = &b->known[b->newer];
                explicit_bzero(k, sizeof(*k));
        }
        *slot_of(k, place) = place | (missed ? MISSED : 0);
        k->count++;
}

/* ---- questions ------------------------------------------------------------------------------------------------------------------------------------ */

static enum reason ask_new(struct registry *r)
{
        if (r->misses.left < WHOLE)
                return REASON_MISSES;
        if (r->open >= BUDGET_OPEN || r->new.left < WHOLE)
                return REASON_PROFILE_BUSY;
        r->new.left -= WHOLE;
        r->open++;
        return REASON_NONE;
}

enum reason budget_ask(struct budgets *b, struct slice registry, struct slice place, uint32_t misses, int64_t now_ms, struct question *q)
{
        struct registry *r = find(b, registry, misses, now_ms);
        uint64_t hashed = place_of(b, registry, place), *known = find_known(b, hashed);
        enum reason reason = REASON_NONE;

        *q = (struct question){ .registry = 0 };
        fill(&r->requests, BUDGET_MINUTE, MINUTE_MS, now_ms);
        fill(&r->new, BUDGET_NEW_HOUR, HOUR_MS, now_ms);
        fill_misses(r, misses, now_ms);
        if (r->requests.left < WHOLE)
                return REASON_PROFILE_BUSY;
        if (!known)
                reason = ask_new(r);
        if (reason != REASON_NONE)
                return reason;
        if (!known || *known & MISSED)
                *q = (struct question){ .registry = (size_t)(r - b->registries) + 1, .place = hashed, .misses = misses, .again = known != NULL };
        r->requests.left -= WHOLE;
        return REASON_NONE;
}

/* A miss that was none after all. */
static void give_back(struct registry *r, uint64_t *known)
{
        if (!known || !(*known & MISSED))
                return;
        *known &= ~(uint64_t)MISSED;
        if (r->misses.left < (int64_t)r->misses_hour * WHOLE)
                r->misses.left += WHOLE;
}

void budget_settle(struct budgets *b, struct question *q, enum budget_end end, int64_t now_ms)
{
        struct registry *r = q->registry ? &b->registries[q->registry - 1] : NULL;
        uint64_t *known;

        if (!r)
                return;
        q->registry = 0;
        if (!q->again)
                r->open--;
        known = find_known(b, q->place);
        if (end == BUDGET_FOUND && known)
                give_back(r, known);
        if (end == BUDGET_NOTHING || known) /* asked for twice at once: one miss */
                return;
        remember(b, q->place, end == BUDGET_MISSED);
        if (end != BUDGET_MISSED)
                return;
        fill_misses(r, q->misses, now_ms);
        r->misses.left -= WHOLE;
}

bool budget_take(struct budgets *b, struct slice registry, uint32_t count, uint32_t misses, int64_t now_ms)
{
        struct registry *r = find(b, registry, misses, now_ms);

        fill_misses(r, misses, now_ms);
        if (r->misses.left < (int64_t)count * WHOLE)
                return false;
        r->misses.left -= (int64_t)count * WHOLE;
        return true;
}

bool budgets_matter(const struct budgets *b, int64_t now_ms)
{
        for (size_t i = 0; i < b->count; i++) {
                struct bucket k = b->registries[i].misses;
                fill(&k, b->registries[i].misses_hour, HOUR_MS, now_ms);
                if (k.left < (int64_t)b->registries[i].misses_hour * WHOLE)
                        return true;
        }
        return false;
}
