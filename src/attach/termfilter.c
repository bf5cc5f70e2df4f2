/* The terminal filter: see termfilter.h. Two layers: bytes → code points (strict UTF-8), code points → sequences. Nothing of a sequence is written
 * before all of it is known and judged; what is written is built anew, never copied from the input's form. */
#include "attach/termfilter.h"

#include <stdio.h>
#include <stdlib.h>

enum {
        C0_ENQ = 0x05, C0_BEL = 0x07, C0_SI = 0x0f, C0_SO = 0x0e, C0_CAN = 0x18, C0_SUB = 0x1a, ESC = 0x1b, DEL = 0x7f,
        REPLACEMENT = 0xfffd,
        CSI_PARAMS = 32,     /* parameters looked at; a mode list is far shorter */
        LINUX_PALETTE = 7,   /* "ESC ] P nrrggbb" of the Linux console has no terminator */
};

struct csi {
        struct termfilter *f;
        uint8_t prefix, inter, final;
        unsigned param[CSI_PARAMS];
        size_t count;
        bool sub;            /* had ':' */
        struct slice params; /* as written */
};
/* Appends the sequence or drops it. 0 or -1 (out is full). */
typedef int csi_check(const struct csi *c, struct buf *out);

void termfilter_init(struct termfilter *f) { *f = (struct termfilter){ .state = TF_GROUND }; }

/* ---- CSI ---- */

static int csi_emit_params(const struct csi *c, struct slice params, struct buf *out)
{
        uint8_t head[3] = { ESC, '[', c->prefix };
        if (buf_add(out, head, c->prefix ? 3 : 2) < 0 || buf_add_slice(out, params) < 0)
                return -1;
        return (c->inter && buf_add(out, &c->inter, 1) < 0) || buf_add(out, &c->final, 1) < 0 ? -1 : 0;
}
static int csi_emit(const struct csi *c, struct buf *out) { return csi_emit_params(c, c->params, out); }

static int csi_any(const struct csi *c, struct buf *out)
{
        if (c->final == 'T' && c->count > 1) /* highlight tracking: stops the terminal until it is answered */
                return 0;
        if (c->final == 'r')
                c->f->margins = true;
        return csi_emit(c, out);
}
static int csi_attributes(const struct csi *c, struct buf *out)
{
        c->f->attributes = true;
        return csi_emit(c, out);
}
static int csi_ansi_modes(const struct csi *c, struct buf *out)
{
        return c->count == 1 && !c->sub && (c->param[0] == 4 || c->param[0] == 20) ? csi_emit(c, out) : 0;
}
static int csi_query(const struct csi *c, struct buf *out)
{
        c->f->queries++;
        return c->count <= 1 && !c->sub ? csi_emit(c, out) : 0;
}
static int csi_query_zero(const struct csi *c, struct buf *out) { return c->count == 0 || c->param[0] == 0 ? csi_query(c, out) : 0; }
static int csi_status(const struct csi *c, struct buf *out)
{
        return c->count == 1 && (c->param[0] == 5 || c->param[0] == 6) ? csi_query(c, out) : 0;
}
static int csi_position(const struct csi *c, struct buf *out) { return c->count == 1 && c->param[0] == 6 ? csi_query(c, out) : 0; }
static int csi_title_stack(const struct csi *c, struct buf *out)
{
        return c->count >= 1 && c->count <= 3 && !c->sub && (c->param[0] == 22 || c->param[0] == 23) ? csi_emit(c, out) : 0;
}
/* The whole sequence, to be said again; one that does not fit is forgotten. */
static void keep_sequence(char out[16], const struct csi *c)
{
        int n = snprintf(out, 16, "\x1b[%c%.*s%c", c->prefix, (int)c->params.n, (const char *)c->params.p, c->final);

        if (n < 0 || n >= 16)
                out[0] = 0;
}
static int csi_other_keys(const struct csi *c, struct buf *out)
{
        c->f->other_keys = true;
        if (c->count == 2 && c->param[0] == 4 && c->final == 'm')
                keep_sequence(c->f->keys_level, c);
        else if (c->final == 'n' || c->param[0] == 4)
                c->f->keys_level[0] = 0;
        return c->count >= 1 && c->count <= 2 && !c->sub && c->param[0] == 4 ? csi_emit(c, out) : 0;
}
static int csi_kitty(const struct csi *c, struct buf *out)
{
        c->f->kitty = true;
        keep_sequence(c->f->kitty_flags, c);
        return csi_emit(c, out);
}
static int csi_kitty_pop(const struct csi *c, struct buf *out)
{
        c->f->kitty_flags[0] = 0;
        return csi_emit(c, out);
}
static int csi_cursor_style(const struct csi *c, struct buf *out)
{
        c->f->cursor_style = true;
        return csi_emit(c, out);
}

struct mode_row {
        unsigned number;
        int normal;
};
static const struct mode_row modes[] = {
#define MODE(number, normal) { number, normal },
#include "attach/termfilter.tbl"
#undef MODE
};
enum { MODE_COUNT = sizeof(modes) / sizeof(modes[0]) };
_Static_assert((int)MODE_COUNT <= (int)TERMFILTER_MODES, "a bit for each mode");

static int mode_row(unsigned number)
{
        for (int i = 0; i < (int)MODE_COUNT; i++)
                if (modes[i].number == number)
                        return i;
        return -1;
}

/* Of a list of modes the known ones pass. */
static int csi_modes(const struct csi *c, struct buf *out)
{
        char text[TERMFILTER_CSI_BYTES];
        struct buf kept;
        int r = 0;
        buf_init(&kept, sizeof(text));
        for (size_t i = 0; i < c->count && !c->sub; i++) {
                int row = mode_row(c->param[i]);
                if (row < 0)
                        continue;
                bool on = c->final == 'h';
                if (modes[row].normal == (int)on)
                        c->f->modes_changed &= ~(1U << row);
                else if (modes[row].normal != 2)
                        c->f->modes_changed |= 1U << row;
                r = buf_addf(&kept, buf_len(&kept) ? ";%u" : "%u", c->param[i]);
        }
        if (r == 0 && buf_len(&kept) > 0)
                r = csi_emit_params(c, buf_slice(&kept), out);
        buf_fini(&kept);
        return r;
}

static const struct csi_row {
        uint8_t prefix, inter;
        const char *finals;
        csi_check *check;
} csi_rows[] = {
#define CSI(prefix, inter, finals, check) { prefix, inter, finals, check },
#include "attach/termfilter.tbl"
#undef CSI
};

/* Splits "12;3:4" into numbers. false: not of the grammar, or more than anyone needs. */
static bool csi_params(struct csi *c)
{
        struct slice s = c->params;
        bool any = s.n > 0;
        for (size_t i = 0; i < s.n; i++) {
                uint8_t b = s.p[i];
                if (b == ';' || b == ':') {
                        c->sub = c->sub || b == ':';
                        if (++c->count >= CSI_PARAMS)
                                return c->final == 'm';
                } else if (b < '0' || b > '9' || c->param[c->count] > 99999) {
                        return false;
                } else {
                        c->param[c->count] = c->param[c->count] * 10 + (unsigned)(b - '0');
                }
        }
        c->count += any;
        return true;
}

static int csi_dispatch(struct termfilter *f, uint8_t final, struct buf *out)
{
        struct csi c = { .f = f, .final = final, .params = slice_of(f->text, f->n) };
        if (c.params.n > 0 && c.params.p[0] >= '<' && c.params.p[0] <= '?') {
                c.prefix = c.params.p[0];
                c.params = slice_skip(c.params, 1);
        }
        if (c.params.n > 0 && c.params.p[c.params.n - 1] < '0') {
                c.inter = c.params.p[c.params.n - 1];
                c.params.n--;
        }
        if (!csi_params(&c))
                return 0;
        for (size_t i = 0; i < sizeof(csi_rows) / sizeof(csi_rows[0]); i++) {
                const struct csi_row *row = &csi_rows[i];
                if (row->prefix == c.prefix && row->inter == c.inter && strchr(row->finals, final) != NULL)
                        return row->check(&c, out);
        }
        return 0;
}

/* ---- OSC ---- */

static bool link_is_harmless(struct slice s)
{
        static const char *const schemes[] = { "https://", "http://", "mailto:" };
        ptrdiff_t at = slice_find(s, ';');
        if (at < 0)
                return false;
        struct slice target = slice_skip(s, (size_t)at + 1);
        for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
                if (slice_ieq(slice_first(target, strlen(schemes[i])), slice_str(schemes[i])))
                        return true;
        return target.n == 0; /* the end of a link */
}

static int osc_dispatch(struct termfilter *f, const char *terminator, struct buf *out)
{
        struct slice s = slice_of(f->text, f->n);
        bool title = s.n >= 2 && s.p[0] >= '0' && s.p[0] <= '2' && s.p[1] == ';';
        bool link = s.n >= 2 && s.p[0] == '8' && s.p[1] == ';' && link_is_harmless(slice_skip(s, 2));
        if (f->osc_over || (!title && !link))
                return 0;
        return buf_add_str(out, "\x1b]") < 0 || buf_add_slice(out, s) < 0 || buf_add_str(out, terminator) < 0 ? -1 : 0;
}

/* ---- the machine ---- */

static size_t utf8_put(uint8_t p[4], uint32_t c)
{
        if (c < 0x80) {
                p[0] = (uint8_t)c;
                return 1;
        }
        if (c < 0x800) {
                p[0] = (uint8_t)(0xc0 | c >> 6);
                p[1] = (uint8_t)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                p[0] = (uint8_t)(0xe0 | c >> 12);
                p[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
                p[2] = (uint8_t)(0x80 | (c & 0x3f));
                return 3;
        }
        p[0] = (uint8_t)(0xf0 | c >> 18);
        p[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        p[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        p[3] = (uint8_t)(0x80 | (c & 0x3f));
        return 4;
}

static int emit(struct buf *out, uint32_t c)
{
        uint8_t p[4];
        return buf_add(out, p, utf8_put(p, c));
}

static int control(struct termfilter *f, uint32_t c, struct buf *out)
{
        if (c < C0_BEL || c > C0_SI)
                return 0;
        if (c == C0_SO || c == C0_SI)
                f->charset = c == C0_SO;
        return emit(out, c);
}

static void enter(struct termfilter *f, enum termfilter_state state)
{
        f->state = state;
        f->n = 0;
        f->dropped = 0;
        f->osc_over = false;
}

static int esc_emit(struct buf *out, uint8_t inter, uint8_t final)
{
        uint8_t p[3] = { ESC, inter, final };
        if (inter)
                return buf_add(out, p, 3);
        p[1] = final;
        return buf_add(out, p, 2);
}

static int esc_final(struct termfilter *f, uint32_t c, struct buf *out)
{
        f->state = TF_GROUND;
        switch (c) {
        case '[':
                enter(f, TF_CSI);
                return 0;
        case ']':
                enter(f, TF_OSC);
                return 0;
        case 'P': /* DCS */
        case 'X': /* SOS */
        case '^': /* PM */
        case '_': /* APC */
        case 'k': /* title of screen and tmux */
                enter(f, TF_STRING);
                return 0;
        case '=':
        case '>':
                f->keypad = c == '=';
                return esc_emit(out, 0, (uint8_t)c);
        case 'c':
                f->modes_changed = 0;
                f->keypad = f->charset = f->kitty = f->other_keys = f->margins = f->attributes = false;
                f->kitty_flags[0] = f->keys_level[0] = 0;
                return esc_emit(out, 0, 'c');
        case '7': case '8': case 'D': case 'E': case 'H': case 'M': case 'N': case 'O':
                return esc_emit(out, 0, (uint8_t)c);
        default: /* ESC Z asks who the terminal is */
                return 0;
        }
}

static int esc_inter_final(struct termfilter *f, uint32_t c, struct buf *out)
{
        uint8_t inter = f->inter;
        f->state = TF_GROUND;
        bool charset = (inter == '(' || inter == ')' || inter == '*' || inter == '+') && (c == '0' || c == 'A' || c == 'B');
        bool line = inter == '#' && (c == '3' || c == '4' || c == '5' || c == '6' || c == '8');
        f->charset = f->charset || (charset && c != 'B');
        return charset || line ? esc_emit(out, inter, (uint8_t)c) : 0;
}

static int on_esc(struct termfilter *f, uint32_t c, struct buf *out)
{
        if (c < 0x20)
                return control(f, c, out);
        if (f->state == TF_ESC && c >= 0x30 && c < DEL)
                return esc_final(f, c, out);
        if (c >= 0x30 && c < DEL)
                return esc_inter_final(f, c, out);
        if (c > DEL) {
                f->state = TF_GROUND;
                return emit(out, c);
        }
        if (c < 0x30) {
                f->inter = f->state == TF_ESC ? (uint8_t)c : 0xff; /* two intermediates: known to nobody */
                f->state = TF_ESC_INTER;
        }
        return 0;
}

/* Grammar: prefix? params* intermediate? final. Out of order, two intermediates or too long: swallowed up to the final byte. */
static int on_csi(struct termfilter *f, uint32_t c, struct buf *out)
{
        if (c < 0x20)
                return control(f, c, out);
        if (c > DEL) {
                f->state = TF_GROUND;
                return emit(out, c);
        }
        if (c == DEL)
                return 0;
        if (c >= 0x40) {
                bool ignore = f->state == TF_CSI_IGNORE;
                f->state = TF_GROUND;
                return ignore ? 0 : csi_dispatch(f, (uint8_t)c, out);
        }
        bool after_inter = f->n > 0 && f->text[f->n - 1] < '0';
        if (after_inter || (c >= '<' && f->n > 0) || f->n >= TERMFILTER_CSI_BYTES)
                f->state = TF_CSI_IGNORE;
        else
                f->text[f->n++] = (char)c;
        return 0;
}

static int on_osc(struct termfilter *f, uint32_t c, struct buf *out)
{
        uint8_t p[4];
        if (c == C0_BEL) {
                f->state = TF_GROUND;
                return osc_dispatch(f, "\a", out);
        }
        if (f->n == 0 && (c == 'P' || c == 'R')) { /* Linux console: set a colour, reset colours */
                f->state = c == 'P' ? TF_LINUX_PALETTE : TF_GROUND;
                f->skip = LINUX_PALETTE;
                return 0;
        }
        if (c < 0x20 || c == DEL)
                return 0;
        size_t n = utf8_put(p, c);
        if (n > sizeof(f->text) - f->n) {
                f->osc_over = true;
                f->dropped += n;
        } else {
                memcpy(f->text + f->n, p, n);
                f->n += n;
        }
        if (f->dropped > TERMFILTER_DROP_BYTES)
                f->state = TF_GROUND;
        return 0;
}

static int on_ground(struct termfilter *f, uint32_t c, struct buf *out)
{
        if (c < 0x20)
                return control(f, c, out);
        return c == DEL ? 0 : emit(out, c);
}

/* ESC, CAN, SUB and C1 act in every state; the rest by state. */
static int on_char(struct termfilter *f, uint32_t c, struct buf *out)
{
        enum termfilter_state was = f->state;
        bool in_osc = was == TF_OSC || was == TF_OSC_ESC, escaped = was == TF_OSC_ESC || was == TF_STRING_ESC;
        if (c == 0x9c || (escaped && c == '\\')) { /* ST */
                f->state = TF_GROUND;
                return in_osc ? osc_dispatch(f, "\x1b\\", out) : 0;
        }
        if (c == C0_CAN || c == C0_SUB) {
                f->state = TF_GROUND;
                return 0;
        }
        if (c == ESC) {
                f->state = was == TF_OSC ? TF_OSC_ESC : was == TF_STRING ? TF_STRING_ESC : TF_ESC;
                return 0;
        }
        if (c >= 0x80 && c <= 0x9f)
                return esc_final(f, c - 0x40, out);
        if (escaped) /* the string was cut off by another sequence */
                f->state = TF_ESC;
        switch (f->state) {
        case TF_ESC:
        case TF_ESC_INTER:
                return on_esc(f, c, out);
        case TF_CSI:
        case TF_CSI_IGNORE:
                return on_csi(f, c, out);
        case TF_OSC:
                return on_osc(f, c, out);
        case TF_STRING:
                if (++f->dropped > TERMFILTER_DROP_BYTES)
                        f->state = TF_GROUND;
                return 0;
        case TF_LINUX_PALETTE:
                if (--f->skip == 0)
                        f->state = TF_GROUND;
                return 0;
        case TF_GROUND:
        case TF_OSC_ESC:
        case TF_STRING_ESC:
                break;
        }
        return on_ground(f, c, out);
}

/* ---- UTF-8 (RFC 3629): the bounds of the second byte refuse overlong forms, surrogates and what lies beyond U+10FFFF ---- */

static bool utf8_second_ok(uint8_t first, uint8_t b)
{
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        return b >= low && b <= high;
}

static int utf8_first(struct termfilter *f, uint8_t b, struct buf *out)
{
        if (b < 0xa0) /* ASCII, or a lone C1 control */
                return on_char(f, b, out);
        f->utf8_need = b >= 0xc2 && b <= 0xdf ? 2 : b >= 0xe0 && b <= 0xef ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
        if (f->utf8_need == 0)
                return on_char(f, REPLACEMENT, out);
        f->utf8[0] = b;
        f->utf8_have = 1;
        return 0;
}

static int utf8_byte(struct termfilter *f, uint8_t b, struct buf *out)
{
        if (f->utf8_have == 0)
                return utf8_first(f, b, out);
        bool ok = f->utf8_have == 1 ? utf8_second_ok(f->utf8[0], b) : b >= 0x80 && b <= 0xbf;
        if (!ok) {
                f->utf8_have = 0;
                return on_char(f, REPLACEMENT, out) < 0 ? -1 : utf8_first(f, b, out);
        }
        f->utf8[f->utf8_have++] = b;
        if (f->utf8_have < f->utf8_need)
                return 0;
        uint32_t c = f->utf8[0] & (f->utf8_need == 2 ? 0x1f : f->utf8_need == 3 ? 0x0f : 0x07);
        for (uint8_t i = 1; i < f->utf8_need; i++)
                c = c << 6 | (f->utf8[i] & 0x3f);
        f->utf8_have = 0;
        return on_char(f, c, out);
}

int termfilter_push(struct termfilter *f, struct slice in, struct buf *out)
{
        size_t i = 0;
        while (i < in.n) {
                size_t run = i; /* plain text in one piece */
                while (f->state == TF_GROUND && f->utf8_have == 0 && run < in.n && in.p[run] >= 0x20 && in.p[run] < DEL)
                        run++;
                if (run > i && buf_add(out, in.p + i, run - i) < 0)
                        return -1;
                i = run;
                if (i < in.n && utf8_byte(f, in.p[i++], out) < 0)
                        return -1;
        }
        return 0;
}

static int add_normal(const struct termfilter *f, struct buf *out)
{
        int r = 0;
        for (int i = (int)MODE_COUNT - 1; i >= 0 && r == 0; i--) /* the alternate screens go last-in first-out before the older modes */
                if (f->modes_changed & 1U << i)
                        r = buf_addf(out, "\x1b[?%u%c", modes[i].number, modes[i].normal == 1 ? 'h' : 'l');
        struct {
                bool on;
                const char *text;
        } rest[] = {
                { f->kitty, "\x1b[<8u\x1b[=0u" }, { f->other_keys, "\x1b[>4m" }, { f->keypad, "\x1b>" }, { f->charset, "\x0f\x1b(B" },
                { f->margins, "\x1b""7\x1b[r\x1b""8" }, { f->cursor_style, "\x1b[0 q" }, { f->attributes, "\x1b[0m" },
        };
        for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]) && r == 0; i++)
                if (rest[i].on)
                        r = buf_add_str(out, rest[i].text);
        return r;
}

int termfilter_reset(struct termfilter *f, struct buf *out)
{
        int r = add_normal(f, out);
        termfilter_init(f);
        return r;
}

int termfilter_pause(const struct termfilter *f, struct buf *out)
{
        /* Not all of it is remembered above, since a shell lives with it or sets it itself: insert and newline mode, colours, margins. */
        return add_normal(f, out) < 0 ? -1 : buf_add_str(out, "\x0f\x1b(B\x1b[0m\x1b[4l\x1b[20l\x1b[?7h\x1b[?25h\x1b""7\x1b[r\x1b""8");
}

int termfilter_resume(const struct termfilter *f, struct buf *out)
{
        int r = 0;

        for (int i = 0; i < (int)MODE_COUNT && r == 0; i++)
                if (f->modes_changed & 1U << i)
                        r = buf_addf(out, "\x1b[?%u%c", modes[i].number, modes[i].normal == 1 ? 'l' : 'h');
        if (r == 0 && f->keypad)
                r = buf_add_str(out, "\x1b=");
        if (r == 0)
                r = buf_add_str(out, f->keys_level);
        return r < 0 ? -1 : buf_add_str(out, f->kitty_flags);
}
