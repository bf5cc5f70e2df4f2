/* Escaping for display: see esc.h. SECURITY: everything a guest or an origin chose passes here before a terminal sees it. */
#include "base/esc.h"

#include <stdio.h>

/* Length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7) and its code point; 0 when malformed. */
static size_t utf8_decode(struct slice s, uint32_t *cp)
{
        static const struct { uint8_t lo, hi, len; uint32_t min; uint8_t mask; } row[] = {
                { 0xc2, 0xdf, 2, 0x80, 0x1f }, { 0xe0, 0xef, 3, 0x800, 0x0f }, { 0xf0, 0xf4, 4, 0x10000, 0x07 },
        };
        for (size_t r = 0; r < sizeof(row) / sizeof(row[0]); r++) {
                uint32_t c;
                if (s.p[0] < row[r].lo || s.p[0] > row[r].hi)
                        continue;
                if (s.n < row[r].len)
                        return 0;
                c = s.p[0] & row[r].mask;
                for (size_t i = 1; i < row[r].len; i++) {
                        if ((s.p[i] & 0xc0) != 0x80)
                                return 0;
                        c = c << 6 | (s.p[i] & 0x3f);
                }
                if (c < row[r].min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                        return 0;
                *cp = c;
                return row[r].len;
        }
        return 0;
}

/* Code points that change how neighbouring text reads, or that cannot be seen. */
static bool invisible(uint32_t c)
{
        static const struct { uint32_t lo, hi; } range[] = {
                { 0x80, 0xa0 },     { 0xad, 0xad },     { 0x34f, 0x34f },   { 0x61c, 0x61c },     { 0x115f, 0x1160 },
                { 0x17b4, 0x17b5 }, { 0x180b, 0x180f }, { 0x2000, 0x200f }, { 0x2028, 0x202f },   { 0x205f, 0x206f },
                { 0x3000, 0x3000 }, { 0x3164, 0x3164 }, { 0xe000, 0xf8ff }, { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
                { 0xffa0, 0xffa0 }, { 0xfff0, 0xffff }, { 0x1d173, 0x1d17a }, { 0xe0000, 0x10ffff },
        };
        for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++)
                if (c >= range[i].lo && c <= range[i].hi)
                        return true;
        return false;
}

const char *esc_text(char *out, size_t size, struct slice s)
{
        size_t at = 0;

        while (s.n) {
                char unit[16];
                uint32_t cp = 0;
                size_t len = 1;
                int w;

                if (s.p[0] >= 0x20 && s.p[0] < 0x7f && s.p[0] != '\\') {
                        unit[0] = (char)s.p[0];
                        w = 1;
                } else if (s.p[0] >= 0x80 && (len = utf8_decode(s, &cp)) > 0) {
                        if (invisible(cp)) {
                                w = snprintf(unit, sizeof(unit), "\\u{%x}", cp);
                        } else {
                                memcpy(unit, s.p, len);
                                w = (int)len;
                        }
                } else {
                        len = 1;
                        w = snprintf(unit, sizeof(unit), "\\x%02x", s.p[0]);
                }
                /* Keep room for the mark of a cut: three bytes of "…" and the NUL. */
                if ((size_t)w > size - at - 4) {
                        memcpy(out + at, "\xe2\x80\xa6", 3);
                        at += 3;
                        break;
                }
                memcpy(out + at, unit, (size_t)w);
                at += (size_t)w;
                s = slice_skip(s, len);
        }
        out[at] = 0;
        return out;
}

const char *esc(struct slice s)
{
        static _Thread_local char ring[8][512];
        static _Thread_local unsigned next;
        char *out = ring[next++ % 8];

        return esc_text(out, sizeof(ring[0]), s);
}
