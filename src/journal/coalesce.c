/* Coalescing: see coalesce.h. Direct-mapped: a refusal's fields choose its slot. Keys are compared in full, so no choice of names by a
 * guest can make one refusal count as another; the most it reaches is that both are written one by one. */
#include "journal/coalesce.h"

static const enum event_field key_fields[] = {
        EVENT_ENGINE, EVENT_DOOR, EVENT_PROTO, EVENT_HOST, EVENT_PORT, EVENT_METHOD, EVENT_PATH, EVENT_REASON, EVENT_FLAGS,
};
enum { KEY_FIELDS = sizeof(key_fields) / sizeof(key_fields[0]) };

void coalesce_init(struct coalesce *c)
{
        memset(c, 0, sizeof(*c));
        for (size_t i = 0; i < JOURNAL_COALESCE_SLOTS; i++)
                buf_init(&c->slot[i].record, EVENT_RECORD_BYTES);
}

void coalesce_fini(struct coalesce *c)
{
        for (size_t i = 0; i < JOURNAL_COALESCE_SLOTS; i++)
                buf_fini(&c->slot[i].record);
}

/* FNV-1a; collisions only cost a record. */
static uint64_t hash(uint64_t h, const void *p, size_t n)
{
        const uint8_t *b = p;

        for (size_t i = 0; i < n; i++)
                h = (h ^ b[i]) * 0x100000001b3u;
        return h;
}

static size_t slot_of(uint64_t session, const struct event_record *e)
{
        uint64_t h = hash(0xcbf29ce484222325u, &session, sizeof(session));

        for (size_t i = 0; i < KEY_FIELDS; i++) {
                enum event_field f = key_fields[i];
                if (event_field_is_text(f))
                        h = hash(h, e->text[f].p, e->text[f].n);
                else
                        h = hash(h, &e->num[f], sizeof(e->num[f]));
        }
        return (size_t)((h ^ h >> 32) % JOURNAL_COALESCE_SLOTS);
}

static bool same(const struct coalesce_slot *s, uint64_t session, const struct event_record *e)
{
        struct event_record have;
        size_t used;

        if (s->session != session || event_read(buf_slice(&s->record), &have, &used) != 1)
                return false;
        for (size_t i = 0; i < KEY_FIELDS; i++) {
                enum event_field f = key_fields[i];
                if (event_has(&have, f) != event_has(e, f) || have.num[f] != e->num[f] || !slice_eq(have.text[f], e->text[f]))
                        return false;
        }
        return true;
}

/* Hands the count over; the slot stays, for refusals that go on. */
static int slot_out(struct coalesce *c, struct coalesce_slot *s, coalesce_fn *out, void *ctx)
{
        struct event_record e;
        size_t used;

        if (!s->held)
                return 0;
        if (event_read(buf_slice(&s->record), &e, &used) == 1) {
                event_num(&e, EVENT_COUNT, s->held);
                e.present &= ~(1u << EVENT_ID); /* it stands for many */
                if (out(ctx, s->session, &e) < 0)
                        return -1;
        }
        s->held = 0;
        c->held_slots--;
        return 0;
}

static void slot_begin(struct coalesce_slot *s, uint64_t session, const struct event_record *e, int64_t now_ms)
{
        buf_clear(&s->record);
        if (event_write(&s->record, e) < 0)
                buf_clear(&s->record); /* free slot: the next one is written as well */
        s->session = session;
        s->seen = 1;
        s->until_ms = now_ms + JOURNAL_COALESCE_MS;
}

/* A door may have counted already. */
static uint64_t stands_for(const struct event_record *e)
{
        uint64_t n = event_has(e, EVENT_COUNT) ? e->num[EVENT_COUNT] : 1;

        return n == 0 ? 1 : n > UINT32_MAX ? UINT32_MAX : n;
}

int coalesce_take(struct coalesce *c, uint64_t session, const struct event_record *e, int64_t now_ms, coalesce_fn *out, void *ctx)
{
        struct coalesce_slot *s = &c->slot[slot_of(session, e)];

        if (!buf_len(&s->record) || !same(s, session, e)) {
                if (slot_out(c, s, out, ctx) < 0)
                        return -1;
                slot_begin(s, session, e, now_ms);
                return 1;
        }
        if (now_ms >= s->until_ms) {
                if (slot_out(c, s, out, ctx) < 0)
                        return -1;
                s->seen = 0;
                s->until_ms = now_ms + JOURNAL_COALESCE_MS;
        }
        if (s->seen < JOURNAL_COALESCE_FIRST) {
                s->seen++;
                return 1;
        }
        if (s->held == 0)
                c->held_slots++;
        s->held += stands_for(e);
        return 0;
}

int coalesce_flush(struct coalesce *c, int64_t now_ms, coalesce_fn *out, void *ctx)
{
        for (size_t i = 0; c->held_slots && i < JOURNAL_COALESCE_SLOTS; i++) {
                struct coalesce_slot *s = &c->slot[i];
                if (s->held && s->until_ms <= now_ms && slot_out(c, s, out, ctx) < 0)
                        return -1;
        }
        return 0;
}

int64_t coalesce_due_ms(const struct coalesce *c)
{
        int64_t due = INT64_MAX;

        for (size_t i = 0; c->held_slots && i < JOURNAL_COALESCE_SLOTS; i++)
                if (c->slot[i].held && c->slot[i].until_ms < due)
                        due = c->slot[i].until_ms;
        return due;
}

bool coalesce_over(const struct coalesce *c, int64_t now_ms)
{
        for (size_t i = 0; i < JOURNAL_COALESCE_SLOTS; i++)
                if (c->slot[i].held || c->slot[i].until_ms > now_ms)
                        return false;
        return true;
}
