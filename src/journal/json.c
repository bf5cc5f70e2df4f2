/* JSON output: see json.h. */
#include "journal/json.h"

#include <inttypes.h>
#include <time.h>

/* The well-formed UTF-8 sequence at the front (Unicode 15, table 3-7): its length and code point; 0 when malformed. */
static size_t decode(struct slice s, uint32_t *cp)
{
        static const struct { uint8_t first_lo, first_hi, second_lo, second_hi, len; } row[] = {
                { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
                { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
                { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
        };

        if (s.p[0] < 0x80) {
                *cp = s.p[0];
                return 1;
        }
        for (size_t r = 0; r < sizeof(row) / sizeof(row[0]); r++) {
                if (s.p[0] < row[r].first_lo || s.p[0] > row[r].first_hi)
                        continue;
                if (s.n < row[r].len || s.p[1] < row[r].second_lo || s.p[1] > row[r].second_hi)
                        return 0;
                *cp = s.p[0] & (0xffu >> (row[r].len + 1));
                for (size_t i = 1; i < row[r].len; i++) {
                        if ((s.p[i] & 0xc0) != 0x80)
                                return 0;
                        *cp = *cp << 6 | (s.p[i] & 0x3f);
                }
                return row[r].len;
        }
        return 0;
}

/* What would hide or reorder text in a terminal that prints the JSON as it is. */
static bool invisible(uint32_t c)
{
        static const struct { uint32_t lo, hi; } range[] = {
                { 0x00, 0x1f },     { 0x7f, 0xa0 },     { 0xad, 0xad },     { 0x34f, 0x34f },     { 0x61c, 0x61c },     { 0x115f, 0x1160 },
                { 0x17b4, 0x17b5 }, { 0x180b, 0x180f }, { 0x200b, 0x200f }, { 0x2028, 0x202f },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
                { 0xe000, 0xf8ff }, { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffc },   { 0x1d173, 0x1d17a },
                { 0xe0000, 0x10ffff },
        };

        for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++)
                if (c >= range[i].lo && c <= range[i].hi)
                        return true;
        return false;
}

static int put_escape(struct buf *out, uint32_t c)
{
        if (c < 0x10000)
                return buf_addf(out, "\\u%04x", c);
        c -= 0x10000;
        return buf_addf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static int put_one(struct buf *out, struct slice unit, uint32_t c)
{
        if (c == '"' || c == '\\')
                return buf_addf(out, "\\%c", (char)c);
        return invisible(c) ? put_escape(out, c) : buf_add_slice(out, unit);
}

int json_put_string(struct buf *out, struct slice s)
{
        (void)!buf_add(out, "\"", 1);
        while (s.n) {
                uint32_t c = 0;
                size_t len = decode(s, &c);
                if (len)
                        (void)!put_one(out, slice_first(s, len), c);
                else
                        (void)!buf_add_str(out, "\xef\xbf\xbd");
                s = slice_skip(s, len ? len : 1);
        }
        return buf_add(out, "\"", 1);
}

int json_put_time(struct buf *out, int64_t time_us)
{
        time_t t = (time_t)(time_us / 1000000);
        struct tm tm;
        char text[40];

        if (time_us < 0 || !gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
                return buf_add_str(out, "1970-01-01T00:00:00.000Z");
        return buf_addf(out, "%s.%03dZ", text, (int)(time_us / 1000 % 1000));
}

void json_begin(struct json_writer *w, struct buf *out)
{
        *w = (struct json_writer){ .out = out };
        (void)!buf_add(out, "{", 1);
}

static void put_key(struct json_writer *w, const char *key)
{
        (void)!buf_addf(w->out, "%s\"%s\":", w->any ? "," : "", key);
        w->any = true;
}

void json_text(struct json_writer *w, const char *key, struct slice value)
{
        put_key(w, key);
        (void)!json_put_string(w->out, value);
}
void json_number(struct json_writer *w, const char *key, uint64_t value)
{
        put_key(w, key);
        /* Beyond a signed 64-bit number common parsers give up; only a door that lies counts so far. */
        (void)!buf_addf(w->out, "%" PRIu64, value > INT64_MAX ? (uint64_t)INT64_MAX : value);
}
void json_flag(struct json_writer *w, const char *key, bool value)
{
        put_key(w, key);
        (void)!buf_add_str(w->out, value ? "true" : "false");
}
void json_time(struct json_writer *w, const char *key, int64_t time_us)
{
        put_key(w, key);
        (void)!buf_add(w->out, "\"", 1);
        (void)!json_put_time(w->out, time_us);
        (void)!buf_add(w->out, "\"", 1);
}
int json_end(struct json_writer *w) { return buf_add_str(w->out, "}\n"); }
