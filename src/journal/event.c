/* The record codec: see event.h. One table, made from events.tbl, says which tags exist and what kind each is; writer and reader walk
 * the same table. The reader takes bytes from a process that a guest may have taken over: it never reads past what a length allows,
 * and it refuses rather than repairs. */
#include "journal/event.h"

enum { EVENT_VERSION = 1, EVENT_HEAD_BYTES = 4, FIELD_HEAD_BYTES = 5, NUM_BYTES = 8 };
enum kind { KIND_UNKNOWN, KIND_NUM, KIND_TEXT };

static const struct { enum kind kind; const char *name; } field_table[EVENT_FIELD_COUNT] = {
#define FIELD(NAME, tag, KIND, json, help) [tag] = { KIND_##KIND, json },
#include "journal/events.tbl"
#undef FIELD
};
_Static_assert(EVENT_FIELD_COUNT <= 32, "event.present has a bit for each tag");

static const char *const type_name[EVENT_TYPE_COUNT] = { [EVENT_VERDICT] = "verdict", [EVENT_END] = "end", [EVENT_NOTE] = "note" };

static bool known(unsigned tag) { return tag > EVENT_NONE && tag < EVENT_FIELD_COUNT && field_table[tag].kind != KIND_UNKNOWN; }

const char *event_field_name(enum event_field field) { return known(field) ? field_table[field].name : NULL; }
bool event_field_is_text(enum event_field field) { return known(field) && field_table[field].kind == KIND_TEXT; }

const char *event_type_name(enum event_type type)
{
        return type > 0 && type < EVENT_TYPE_COUNT ? type_name[type] : NULL;
}

static void put_le(uint8_t *to, uint64_t v, size_t n)
{
        for (size_t i = 0; i < n; i++)
                to[i] = (uint8_t)(v >> (8 * i));
}
static uint64_t get_le(const uint8_t *from, size_t n)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++)
                v |= (uint64_t)from[i] << (8 * i);
        return v;
}

void event_init(struct event_record *e, enum event_type type)
{
        memset(e, 0, sizeof(*e));
        e->type = type;
}

void event_num(struct event_record *e, enum event_field field, uint64_t value)
{
        if (!known(field) || event_field_is_text(field))
                return;
        e->num[field] = value;
        e->present |= 1u << field;
}

void event_text(struct event_record *e, enum event_field field, struct slice text)
{
        if (!event_field_is_text(field) || text.n == 0)
                return;
        e->text[field] = slice_first(text, EVENT_TEXT_BYTES);
        e->present |= 1u << field;
}

static size_t field_bytes(const struct event_record *e, unsigned tag)
{
        return field_table[tag].kind == KIND_TEXT ? e->text[tag].n : NUM_BYTES;
}

/* Set, and worth writing: an empty text says no more than an absent one. */
static bool stands(const struct event_record *e, unsigned tag)
{
        return known(tag) && event_has(e, (enum event_field)tag) && field_bytes(e, tag) > 0;
}

/* The record's length after its length field, and how many fields; texts over the limit are counted as cut. */
static size_t measure(const struct event_record *e, unsigned *count)
{
        size_t n = EVENT_HEAD_BYTES;

        *count = 0;
        for (unsigned tag = 1; tag < EVENT_FIELD_COUNT; tag++) {
                if (!stands(e, tag))
                        continue;
                n += FIELD_HEAD_BYTES + field_bytes(e, tag);
                ++*count;
        }
        return n;
}

/* A record of many long texts would pass the limit: then each text is cut to an equal share, the longest first to lose. */
static void fit(struct event_record *e)
{
        unsigned count;
        size_t share = EVENT_TEXT_BYTES;

        for (unsigned tag = 1; tag < EVENT_FIELD_COUNT; tag++)
                e->text[tag] = slice_first(e->text[tag], EVENT_TEXT_BYTES);
        while (measure(e, &count) > EVENT_RECORD_BYTES - 4 && share > 1) {
                share /= 2;
                for (unsigned tag = 1; tag < EVENT_FIELD_COUNT; tag++)
                        e->text[tag] = slice_first(e->text[tag], share);
        }
}

int event_write(struct buf *out, const struct event_record *event)
{
        struct event_record e = *event;
        unsigned count;
        size_t n;
        uint8_t *to;

        if (!event_type_name(e.type))
                return -1;
        fit(&e);
        n = measure(&e, &count);
        to = buf_reserve(out, n + 4);
        if (!to)
                return -1;
        put_le(to, n, 4);
        to[4] = EVENT_VERSION;
        to[5] = (uint8_t)e.type;
        to[6] = 0;
        to[7] = (uint8_t)count;
        to += 8;
        for (unsigned tag = 1; tag < EVENT_FIELD_COUNT; tag++) {
                size_t len;
                if (!stands(&e, tag))
                        continue;
                len = field_bytes(&e, tag);
                to[0] = (uint8_t)tag;
                put_le(to + 1, len, 4);
                if (field_table[tag].kind == KIND_NUM)
                        put_le(to + FIELD_HEAD_BYTES, e.num[tag], NUM_BYTES);
                else if (len)
                        memcpy(to + FIELD_HEAD_BYTES, e.text[tag].p, len);
                to += FIELD_HEAD_BYTES + len;
        }
        buf_commit(out, n + 4);
        return 0;
}

/* One field from the front of *in. */
static int read_field(struct slice *in, struct event_record *e)
{
        unsigned tag;
        uint64_t len;

        if (in->n < FIELD_HEAD_BYTES)
                return -1;
        tag = in->p[0];
        len = get_le(in->p + 1, 4);
        *in = slice_skip(*in, FIELD_HEAD_BYTES);
        if (!known(tag) || event_has(e, (enum event_field)tag) || len > in->n)
                return -1;
        if (field_table[tag].kind == KIND_NUM) {
                if (len != NUM_BYTES)
                        return -1;
                e->num[tag] = get_le(in->p, NUM_BYTES);
        } else {
                if (len == 0 || len > EVENT_TEXT_BYTES)
                        return -1;
                e->text[tag] = slice_first(*in, (size_t)len);
        }
        e->present |= 1u << tag;
        *in = slice_skip(*in, (size_t)len);
        return 0;
}

int event_read(struct slice in, struct event_record *e, size_t *used)
{
        uint64_t len;
        struct slice body;
        struct event_record out;
        unsigned count;

        if (in.n < 4)
                return 0;
        len = get_le(in.p, 4);
        if (len < EVENT_HEAD_BYTES || len > EVENT_RECORD_BYTES - 4)
                return -1;
        if (in.n - 4 < len)
                return 0;
        body = slice_of(in.p + 4, (size_t)len);
        if (body.p[0] != EVENT_VERSION || !event_type_name((enum event_type)body.p[1]) || body.p[2] != 0)
                return -1;
        event_init(&out, (enum event_type)body.p[1]);
        count = body.p[3];
        body = slice_skip(body, EVENT_HEAD_BYTES);
        while (count--)
                if (read_field(&body, &out) < 0)
                        return -1;
        if (body.n)
                return -1;
        *e = out;
        *used = (size_t)len + 4;
        return 1;
}
