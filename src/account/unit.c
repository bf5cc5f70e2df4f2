/* One character, however spelt: see unit.h. */
#include "account/unit.h"

int unit_hex(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n hex digits at `at`: their value, -1 when it is none, -2 when more bytes could make it one. */
enum { HEX_NONE = -1, HEX_MORE = -2 };
static int hex_read(struct slice text, size_t at, size_t n, bool last)
{
        int value = 0;

        for (size_t i = 0; i < n; i++) {
                int digit;
                if (at + i >= text.n)
                        return last ? HEX_NONE : HEX_MORE;
                digit = unit_hex(text.p[at + i]);
                if (digit < 0)
                        return HEX_NONE;
                value = value << 4 | digit;
        }
        return value;
}

/* The character at *at, as it is or percent-encoded: an encoder may have encoded what stands behind an escape as well. *at moves behind it. -1: none, -2:
 * more bytes are needed. */
static int char_read(struct slice text, size_t *at, bool last)
{
        int value;

        if (*at >= text.n)
                return last ? HEX_NONE : HEX_MORE;
        value = text.p[*at];
        if (value == '%') {
                value = hex_read(text, *at + 1, 2, last);
                if (value < 0)
                        return value;
                *at += 2;
        }
        ++*at;
        return value;
}

/* The same of n hex digits. */
static int hex_read_encoded(struct slice text, size_t *at, size_t n, bool last)
{
        int value = 0;

        for (size_t i = 0; i < n; i++) {
                int c = char_read(text, at, last), digit = c < 0 ? c : unit_hex((uint8_t)c);
                if (digit < 0)
                        return digit;
                value = value << 4 | digit;
        }
        return value;
}

/* A backslash at `at`, as it is or percent-encoded: its bytes, 0 when there is none, -2 when more bytes could make it one. */
static int backslash_read(struct slice text, size_t at, bool last)
{
        int value;

        if (at >= text.n)
                return last ? 0 : HEX_MORE;
        if (text.p[at] == '\\')
                return 1;
        if (text.p[at] != '%')
                return 0;
        value = hex_read(text, at + 1, 2, last);
        return value == HEX_MORE ? HEX_MORE : value == '\\' ? 3 : 0;
}

static void unit_raw(struct slice text, size_t at, struct unit *u)
{
        uint8_t c = text.p[at];

        *u = (struct unit){ .value = c, .line_break = c == '\n' || c == '\r', .n = 1 };
}

/* A backslash that escapes nothing. */
static enum unit_status unit_backslash(struct slice text, size_t at, struct unit *u)
{
        *u = text.p[at] == '%' ? (struct unit){ .value = '\\', .spelt = SPELT_PERCENT, .n = 3 } : (struct unit){ .value = '\\', .n = 1 };
        return UNIT_OK;
}

static uint8_t json_short(uint8_t c)
{
        switch (c) {
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'b': return '\b';
        case 'f': return '\f';
        case '/':
        case '"': return c;
        default: return 0;
        }
}

/* Backslashes, then what they escape. */
static enum unit_status unit_json(struct slice text, size_t at, bool last, struct unit *u)
{
        size_t p = at;
        uint8_t spelt = SPELT_JSON;
        int value;

        for (int i = 0;; i++) {
                int n = backslash_read(text, p, last);
                if (n == HEX_MORE)
                        return UNIT_MORE;
                if (n == 0)
                        break;
                if (n == 3)
                        spelt |= SPELT_PERCENT;
                p += (size_t)n;
                if (i == UNIT_BACKSLASHES_MAX)
                        return unit_backslash(text, at, u);
        }
        value = spelt & SPELT_PERCENT ? char_read(text, &p, last) : p < text.n ? text.p[p++] : HEX_NONE;
        if (value == HEX_MORE)
                return UNIT_MORE;
        if (value == 'u') {
                value = spelt & SPELT_PERCENT ? hex_read_encoded(text, &p, 4, last) : hex_read(text, p, 4, last);
                if (value == HEX_MORE)
                        return UNIT_MORE;
                if (value < 0 || value > 0xff)
                        return unit_backslash(text, at, u);
                p += spelt & SPELT_PERCENT ? 0 : 4;
        } else {
                value = value < 0 ? 0 : json_short((uint8_t)value);
                if (!value)
                        return unit_backslash(text, at, u);
        }
        *u = (struct unit){ .value = (uint8_t)value, .spelt = spelt, .line_break = value == '\n' || value == '\r', .n = p - at };
        return UNIT_OK;
}

static enum unit_status unit_percent(struct slice text, size_t at, bool last, struct unit *u)
{
        int value = hex_read(text, at + 1, 2, last), twice;
        size_t n = 3;

        if (value == HEX_MORE)
                return UNIT_MORE;
        if (value < 0)
                return unit_raw(text, at, u), UNIT_OK;
        if (value == '\\')
                return unit_json(text, at, last, u);
        if (value == '%') {
                size_t p = at + 3;

                twice = hex_read_encoded(text, &p, 2, last);
                if (twice == HEX_MORE)
                        return UNIT_MORE;
                if (twice >= 0)
                        value = twice, n = p - at;
        }
        *u = (struct unit){ .value = (uint8_t)value, .spelt = SPELT_PERCENT, .line_break = value == '\n' || value == '\r', .n = n };
        return UNIT_OK;
}

/* The soft line break of quoted-printable: "=" at the end of a line (RFC 2045 §6.7). */
static enum unit_status unit_soft(struct slice text, size_t at, bool last, struct unit *u)
{
        size_t p = at + 1;

        if (p < text.n && text.p[p] == '\r')
                p++;
        if (p >= text.n && !last)
                return UNIT_MORE;
        if (p >= text.n || text.p[p] != '\n')
                return unit_raw(text, at, u), UNIT_OK;
        *u = (struct unit){ .value = '\n', .line_break = true, .soft = true, .n = p + 1 - at };
        return UNIT_OK;
}

enum unit_status unit_read(struct slice text, size_t at, bool last, struct unit *u)
{
        if (at >= text.n)
                return last ? UNIT_END : UNIT_MORE;
        switch (text.p[at]) {
        case '%': return unit_percent(text, at, last, u);
        case '\\': return unit_json(text, at, last, u);
        case '=': return unit_soft(text, at, last, u);
        default: return unit_raw(text, at, u), UNIT_OK;
        }
}
