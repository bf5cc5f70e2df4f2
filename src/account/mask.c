/* Re-masking: see mask.h.
 *
 * find.h says where a secret may begin, in any spelling; there the text is compared with each secret, the longest first. The answer at a position is
 * yes, no, or "not before more bytes are here", and never changes when more bytes come; positions are decided in order, and what is undecided stays.
 * So the result is the same for every cut. */
#include "account/base64.h"
#include "account/find.h"
#include "account/mask.h"
#include "account/unit.h"
#include "base/secret.h"

#include <assert.h>
#include <stdlib.h>

enum {
        TRIES_MAX = 32,          /* places at which one comparison may have to choose between two readings; more: it is no occurrence */
        DIGITS_BEFORE_BREAK = 3, /* of a base64 run, before a line break is seen through: else every line that ends like a secret's beginning would
                                    wait for the next */
        ALIGNMENTS = 3,
        BREAK_BYTES_MAX = 16,
        ENTITY_BYTES_MAX = 8, /* "&#0043;", "&quot;" and one more */
};

/* In locked memory; the sets that have it. */
struct held {
        unsigned holders;
        uint8_t bytes[];
};

struct pair {
        struct held *held;
        uint8_t *secret, *instead; /* secret: held->bytes; instead: what stands in its place in base64, as long as the secret */
        size_t secret_n;
        char *placeholder;
        size_t placeholder_n;
};

struct mask {
        const struct mask *from; /* mask_share's */
        struct find find;
        size_t count;
        struct pair pairs[MASK_PAIRS_MAX]; /* the longest first */
        uint64_t plain[256], base64[256];  /* which pairs may begin with this character */
        bool entities;                     /* one of them begins with a character that HTML escapes */
};

/* ---- base64 as bits ---- */

/* Digit i of a secret whose first byte is byte `alignment` of a group of three: its value, and in *known which of the six bits are the secret's. */
static uint8_t digit_at(struct slice s, size_t alignment, size_t i, uint8_t *known)
{
        size_t offset = 8 * alignment % 6, bit = 6 * i; /* bits of the run, of which the first `offset` are not the secret's */
        uint8_t value = 0;

        *known = 0;
        for (int k = 0; k < 6; k++, bit++) {
                bool ours = bit >= offset && bit - offset < 8 * s.n;
                size_t at = ours ? bit - offset : 0;
                value = (uint8_t)(value << 1 | (ours ? s.p[at / 8] >> (7 - at % 8) & 1 : 0));
                *known = (uint8_t)(*known << 1 | ours);
        }
        return value;
}

static size_t digit_count(struct slice s, size_t alignment) { return (8 * alignment % 6 + 8 * s.n + 5) / 6; }

/* ---- the set ---- */

struct mask *mask_new(void)
{
        struct mask *m = calloc(1, sizeof(*m));

        if (m)
                find_init(&m->find);
        return m;
}

static struct held *held_of(const struct mask *from, struct slice secret)
{
        struct held *h;

        for (size_t i = 0; from && i < from->count; i++)
                if (slice_eq(slice_of(from->pairs[i].secret, from->pairs[i].secret_n), secret)) {
                        from->pairs[i].held->holders++;
                        return from->pairs[i].held;
                }
        h = secret_alloc(sizeof(*h) + secret.n);
        if (h) {
                h->holders = 1;
                memcpy(h->bytes, secret.p, secret.n);
        }
        return h;
}

static void pair_fini(struct pair *p)
{
        if (p->held && --p->held->holders == 0)
                secret_free(p->held, sizeof(*p->held) + p->secret_n);
        free(p->instead);
        free(p->placeholder);
}

void mask_free(struct mask *m)
{
        if (!m)
                return;
        for (size_t i = 0; i < m->count; i++)
                pair_fini(&m->pairs[i]);
        explicit_bzero(m, sizeof(*m)); /* the shapes tell a secret's first characters */
        free(m);
}

static struct byte_set set_of(const char *chars)
{
        struct byte_set s = { 0 };

        byte_set_add_text(&s, chars);
        return s;
}

/* What may stand behind "%" and "\", of any text and of base64: there no line break is escaped so early (DIGITS_BEFORE_BREAK). */
static const char escaped_any[] = "0123456789abcdefABCDEFnrtu/\"\\%#algq", escaped_digit[] = "0123456789abcdefABCDEFu/\\%";

/* A shape, and the same with an escape second or third. */
static void find_add_spelt(struct find *f, const struct byte_set shape[FIND_SHAPE_BYTES], const char *escapes, const char *escaped)
{
        const struct byte_set escape = set_of(escapes);

        find_add(f, (struct byte_set[]){ shape[0], shape[1], escape });
        find_add(f, (struct byte_set[]){ shape[0], escape, set_of(escaped) });
        find_add(f, shape);
}

/* Shapes that begin with an escape of one of these characters; also percent-encoded twice, and JSON's backslash percent-encoded. */
static void find_add_escapes(struct find *f, const struct byte_set *chars)
{
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        static const char shorts[][2] = { "\nn", "\rr", "\tt", "\bb", "\ff", "//", "\"\"", "\\\\" };
        struct byte_set high = set_of("25"), low = set_of("5cC"), behind = set_of("u"), behind_many, any;

        for (unsigned c = 0; c < 256; c++) {
                if (!byte_set_has(chars, (uint8_t)c))
                        continue;
                for (unsigned upper = 0; upper < 32; upper += 16) {
                        byte_set_add(&high, (uint8_t)hex[upper + (c >> 4)]);
                        byte_set_add(&low, (uint8_t)hex[upper + (c & 15)]);
                }
        }
        for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++)
                if (byte_set_has(chars, (uint8_t)shorts[i][0]))
                        byte_set_add(&behind, (uint8_t)shorts[i][1]);
        byte_set_add_all(&any);
        behind_many = behind;
        byte_set_add(&behind_many, '\\');
        find_add(f, (struct byte_set[]){ set_of("%"), high, low });
        find_add(f, (struct byte_set[]){ set_of("\\"), behind, any });
        find_add(f, (struct byte_set[]){ set_of("\\"), set_of("\\"), behind_many }); /* JSON in JSON: all of its backslashes belong to it */
}

/* The characters that digit i may be. */
static struct byte_set digit_set(struct slice s, size_t alignment, size_t i)
{
        struct byte_set set = { 0 };
        uint8_t known, value = digit_at(s, alignment, i, &known);

        for (uint8_t digit = 0; digit < 64; digit++) {
                if ((digit & known) != value)
                        continue;
                byte_set_add(&set, (uint8_t)base64_std[digit]);
                byte_set_add(&set, (uint8_t)base64_url[digit]);
        }
        return set;
}

/* Letters and digits nobody escapes. */
static bool html_escapes(uint8_t c)
{
        return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}

static void find_add_secret(struct find *f, struct slice s)
{
        struct byte_set shape[FIND_SHAPE_BYTES] = { 0 }, any;

        for (size_t i = 0; i < FIND_SHAPE_BYTES; i++) {
                byte_set_add(&shape[i], s.p[i]);
                if (s.p[i] == ' ')
                        byte_set_add(&shape[i], '+');
        }
        find_add_spelt(f, shape, "%\\&", escaped_any);
        find_add_escapes(f, &shape[0]);
        if (html_escapes(s.p[0])) {
                byte_set_add_all(&any);
                find_add(f, (struct byte_set[]){ set_of("&"), set_of("#algq"), any });
        }
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
                for (size_t i = 0; i < FIND_SHAPE_BYTES; i++)
                        shape[i] = digit_set(s, alignment, i);
                find_add_spelt(f, shape, "%\\", escaped_digit);
                find_add_escapes(f, &shape[0]);
        }
}

static void index_pairs(struct mask *m)
{
        memset(m->plain, 0, sizeof(m->plain));
        memset(m->base64, 0, sizeof(m->base64));
        for (size_t i = 0; i < m->count; i++) {
                struct slice s = slice_of(m->pairs[i].secret, m->pairs[i].secret_n);
                uint64_t bit = UINT64_C(1) << i;
                m->plain[s.p[0]] |= bit;
                if (s.p[0] == ' ')
                        m->plain['+'] |= bit;
                m->entities = m->entities || html_escapes(s.p[0]);
                for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
                        struct byte_set first = digit_set(s, alignment, 0);
                        for (unsigned c = 0; c < 256; c++)
                                if (byte_set_has(&first, (uint8_t)c))
                                        m->base64[c] |= bit;
                }
        }
}

void mask_share(struct mask *m, const struct mask *from) { m->from = from; }

int mask_add(struct mask *m, struct slice secret, struct slice placeholder)
{
        struct pair p = { .secret_n = secret.n, .placeholder_n = placeholder.n };
        size_t at = 0;

        if (m->count == MASK_PAIRS_MAX || secret.n < MASK_SECRET_BYTES_MIN)
                return -1;
        p.held = held_of(m->from, secret);
        p.instead = malloc(secret.n);
        p.placeholder = malloc(placeholder.n + 1);
        if (!p.held || !p.instead || !p.placeholder) {
                pair_fini(&p);
                return -1;
        }
        p.secret = p.held->bytes;
        memset(p.instead, '*', secret.n);
        if (placeholder.n) {
                memcpy(p.placeholder, placeholder.p, placeholder.n);
                memcpy(p.instead, placeholder.p, placeholder.n < secret.n ? placeholder.n : secret.n);
        }
        while (at < m->count && m->pairs[at].secret_n >= secret.n)
                at++;
        memmove(&m->pairs[at + 1], &m->pairs[at], (m->count - at) * sizeof(p));
        m->pairs[at] = p;
        m->count++;
        find_add_secret(&m->find, secret);
        index_pairs(m);
        return 0;
}

/* ---- comparing ---- */

enum answer { ANSWER_NO, ANSWER_MORE, ANSWER_HIT };

/* A character reference of HTML at `at`: "&amp;", "&#43;", "&#x2B;". UNIT_END: none. */
static enum unit_status entity_read(struct slice text, size_t at, bool last, uint8_t *value, size_t *n)
{
        static const struct {
                const char *name;
                uint8_t value;
        } names[] = { { "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' } };
        struct slice name = slice_first(slice_skip(text, at + 1), ENTITY_BYTES_MAX - 1);
        ptrdiff_t end = slice_find(name, ';');
        unsigned v = 0, base = 10;
        size_t i = 1;

        if (end >= 0)
                name.n = (size_t)end;
        for (size_t k = 0; k < name.n; k++)
                if (name.p[k] != '#' && (name.p[k] <= ' ' || html_escapes(name.p[k])))
                        return UNIT_END;
        if (end < 0)
                return !last && at + 1 + name.n == text.n && name.n < ENTITY_BYTES_MAX - 1 ? UNIT_MORE : UNIT_END;
        *n = name.n + 2;
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
                if (slice_is(name, names[k].name)) {
                        *value = names[k].value;
                        return UNIT_OK;
                }
        if (name.n < 2 || name.p[0] != '#')
                return UNIT_END;
        if (ascii_lower(name.p[1]) == 'x')
                base = 16, i = 2;
        for (; i < name.n; i++) {
                int digit = unit_hex(name.p[i]);
                if (digit < 0 || digit >= (int)base)
                        return UNIT_END;
                v = v * base + (unsigned)digit;
        }
        *value = (uint8_t)v;
        return v > 0 && v < 0x80 ? UNIT_OK : UNIT_END;
}

/* How the text at `at` may be read: the way unit.h reads it; percent-encoded once; an escaped backslash; HTML's way; the byte itself. */
enum reading { READING_UNIT, READING_PERCENT, READING_BACKSLASH, READING_ENTITY, READING_RAW, READING_COUNT };

/* Does the text at `at`, read that way, say c? *n: how many bytes. */
static enum answer reads_as(struct slice text, size_t at, bool last, enum reading how, uint8_t c, size_t *n)
{
        struct slice rest = slice_skip(text, at);
        uint8_t value;
        struct unit u;

        *n = 1;
        switch (how) {
        case READING_UNIT:
                switch (unit_read(text, at, last, &u)) {
                case UNIT_MORE: return ANSWER_MORE;
                case UNIT_OK: *n = u.n; return u.value == c && !u.soft ? ANSWER_HIT : ANSWER_NO;
                case UNIT_END: break;
                }
                return ANSWER_NO;
        case READING_PERCENT:
                *n = 3;
                if (rest.n < 3 || rest.p[0] != '%')
                        return ANSWER_NO; /* too short, and more to come: the unit said so */
                return unit_hex(rest.p[1]) == c >> 4 && unit_hex(rest.p[2]) == (c & 15) ? ANSWER_HIT : ANSWER_NO;
        case READING_BACKSLASH: *n = 2; return c == '\\' && slice_starts(rest, SLICE_LIT("\\\\")) ? ANSWER_HIT : ANSWER_NO;
        case READING_ENTITY:
                if (!html_escapes(c) || !rest.n || rest.p[0] != '&')
                        return ANSWER_NO;
                switch (entity_read(text, at, last, &value, n)) {
                case UNIT_MORE: return ANSWER_MORE;
                case UNIT_OK: return value == c ? ANSWER_HIT : ANSWER_NO;
                case UNIT_END: break;
                }
                return ANSWER_NO;
        case READING_RAW: return rest.n && rest.p[0] == c ? ANSWER_HIT : ANSWER_NO;
        case READING_COUNT: break;
        }
        return ANSWER_NO;
}

/* A place to come back to when the reading chosen there leads nowhere. */
struct
try {
        size_t i, at;
        enum reading how;
};

static enum answer match_plain(const struct pair *p, struct slice text, size_t at, bool last, size_t *end)
{
        struct try tries[TRIES_MAX];
        size_t tried = 0, i = 0, steps = 0;
        enum reading how = READING_UNIT;

        while (i < p->secret_n) {
                enum answer answer = ANSWER_NO;
                size_t n = 0;
                uint8_t c = at < text.n ? text.p[at] : 0;
                /* Most characters can only be read in one way; in a form "+" is a blank, too. */
                if (c != '%' && c != '\\' && c != '=' && c != '&' && at < text.n)
                        answer = how == READING_UNIT && (c == p->secret[i] || (c == '+' && p->secret[i] == ' ')) ? ANSWER_HIT : ANSWER_NO, n = 1, how = READING_RAW;
                else
                        for (; how < READING_COUNT && (answer = reads_as(text, at, last, how, p->secret[i], &n)) == ANSWER_NO; how++)
                                ;
                if (answer == ANSWER_MORE)
                        return ANSWER_MORE;
                if (answer == ANSWER_HIT) {
                        if (how < READING_RAW && tried < TRIES_MAX)
                                tries[tried++] = (struct try){ i, at, how + 1 };
                        i++;
                        at += n;
                        how = READING_UNIT;
                } else {
                        if (tried == 0 || ++steps > TRIES_MAX)
                                return ANSWER_NO;
                        tried--;
                        i = tries[tried].i;
                        at = tries[tried].at;
                        how = tries[tried].how;
                }
        }
        *end = at;
        return ANSWER_HIT;
}

/* Is u one of the blanks that a line break and the next line's indentation are made of? */
static bool breaks_line(const struct unit *u, bool broken) { return u->line_break || (broken && (u->value == ' ' || u->value == '\t')); }

/* The next digit of a run; line breaks before it are passed over when `breaks`. UNIT_END: none. */
static enum unit_status digit_read(struct slice text, size_t *at, bool last, bool breaks, struct unit *u, int *digit)
{
        size_t begin = *at;
        bool broken = false;

        for (;;) {
                enum unit_status status = unit_read(text, *at, last, u);
                if (status != UNIT_OK)
                        return status;
                if (!breaks || !breaks_line(u, broken))
                        break;
                *at += u->n;
                if (*at - begin > BREAK_BYTES_MAX)
                        return UNIT_END;
                broken = true;
        }
        if (breaks && u->value == '&' && u->n == 1) {
                enum unit_status status = entity_read(text, *at, last, &u->value, &u->n);
                if (status != UNIT_OK)
                        return status;
        }
        *digit = base64_digit(u->value);
        return *digit < 0 ? UNIT_END : UNIT_OK;
}

static enum answer match_base64(const struct pair *p, size_t alignment, struct slice text, size_t at, bool last, size_t *end)
{
        struct slice s = slice_of(p->secret, p->secret_n);

        for (size_t i = 0, n = digit_count(s, alignment); i < n; i++) {
                struct unit u;
                int digit;
                uint8_t known, value = digit_at(s, alignment, i, &known);
                enum unit_status status = digit_read(text, &at, last, i >= DIGITS_BEFORE_BREAK, &u, &digit);
                if (status != UNIT_OK)
                        return status == UNIT_MORE ? ANSWER_MORE : ANSWER_NO;
                if ((digit & known) != value)
                        return ANSWER_NO;
                at += u.n;
        }
        *end = at;
        return ANSWER_HIT;
}

struct occurrence {
        const struct pair *pair;
        size_t alignment; /* ALIGNMENTS: plain */
        size_t end;
};

static enum answer decide_pair(const struct pair *p, bool plain, bool base64, struct slice text, size_t at, bool last, struct occurrence *o)
{
        enum answer answer = ANSWER_NO;

        o->pair = p;
        o->alignment = ALIGNMENTS;
        if (plain)
                answer = match_plain(p, text, at, last, &o->end);
        for (size_t alignment = 0; answer == ANSWER_NO && alignment < ALIGNMENTS && base64; alignment++) {
                o->alignment = alignment;
                answer = match_base64(p, alignment, text, at, last, &o->end);
        }
        return answer;
}

static enum answer decide(const struct mask *m, struct slice text, size_t at, bool last, struct occurrence *o)
{
        uint64_t plain = m->plain[text.p[at]], base64;
        uint8_t value;
        struct unit u;
        size_t n;

        switch (unit_read(text, at, last, &u)) {
        case UNIT_MORE: return ANSWER_MORE;
        case UNIT_END: return ANSWER_NO;
        case UNIT_OK: break;
        }
        /* As it is, as it is spelt, and "%25", which is "%" or the beginning of something encoded twice. */
        if (m->entities && text.p[at] == '&')
                switch (entity_read(text, at, last, &value, &n)) {
                case UNIT_MORE: return ANSWER_MORE;
                case UNIT_OK: plain |= m->plain[value]; break;
                case UNIT_END: break;
                }
        plain |= m->plain[u.value] | (u.spelt & SPELT_PERCENT ? m->plain['%'] | m->plain['\\'] : 0);
        base64 = m->base64[u.value];
        for (uint64_t which = plain | base64; which; which &= which - 1) {
                size_t i = (size_t)__builtin_ctzll(which);
                enum answer answer = decide_pair(&m->pairs[i], plain >> i & 1, base64 >> i & 1, text, at, last, o);
                if (answer != ANSWER_NO)
                        return answer;
        }
        return ANSWER_NO;
}

/* ---- replacing ---- */

static int digit_write(uint8_t digit, bool url, uint8_t spelt, struct buf *out)
{
        char c = (url ? base64_url : base64_std)[digit];

        if ((spelt & SPELT_PERCENT) && (c == '+' || c == '/')) /* there they mean something else */
                return buf_add_str(out, c == '+' ? "%2B" : "%2F");
        return buf_add(out, &c, 1);
}

/* The run in text[at, o->end) with the secret's bits replaced; what stands around them in its first and last digit, and its line breaks, stay. */
static int write_base64(const struct occurrence *o, struct slice text, size_t at, struct buf *out)
{
        struct slice instead = slice_of(o->pair->instead, o->pair->secret_n);
        bool url = memchr(text.p + at, '-', o->end - at) || memchr(text.p + at, '_', o->end - at);

        for (size_t i = 0, n = digit_count(instead, o->alignment); i < n; i++) {
                struct unit u = { 0 };
                int digit = 0;
                uint8_t known, value = digit_at(instead, o->alignment, i, &known);
                size_t from = at;
                if (digit_read(text, &at, true, i >= DIGITS_BEFORE_BREAK, &u, &digit) != UNIT_OK)
                        return -1; /* impossible: it was read before */
                if (buf_add(out, text.p + from, at - from) < 0 || digit_write((uint8_t)((digit & ~known) | value), url, u.spelt, out) < 0)
                        return -1;
                at += u.n;
        }
        return 0;
}

static int write_occurrence(const struct occurrence *o, struct slice text, size_t at, struct buf *out)
{
        if (o->alignment == ALIGNMENTS)
                return buf_add(out, o->pair->placeholder, o->pair->placeholder_n);
        return write_base64(o, slice_first(text, o->end), at, out);
}

/* Writes what is decided; *used: how much of the text that was. */
static int replace(const struct mask *m, struct slice text, bool last, struct buf *out, size_t *used, uint64_t *found)
{
        struct find_walk walk = find_begin(&m->find, text);
        size_t given = 0, at = 0;

        while ((at = find_next(&walk, at)) < text.n) {
                struct occurrence o = { 0 };
                enum answer answer = decide(m, text, at, last, &o);
                if (answer == ANSWER_MORE)
                        break;
                if (answer == ANSWER_NO) {
                        at++;
                        continue;
                }
                if (buf_add(out, text.p + given, at - given) < 0 || write_occurrence(&o, text, at, out) < 0)
                        return -1;
                given = at = o.end;
                ++*found;
        }
        if (at > text.n)
                at = text.n;
        *used = at;
        return buf_add(out, text.p + given, at - given);
}

/* ---- the stream ---- */

void mask_begin(struct mask_stream *s, struct mask *m)
{
        *s = (struct mask_stream){ .m = m };
        buf_init(&s->keep, 0);
}

static void keep_wipe(struct buf *keep)
{
        if (keep->bytes)
                explicit_bzero(keep->bytes, keep->cap);
}

void mask_end(struct mask_stream *s)
{
        keep_wipe(&s->keep);
        buf_fini(&s->keep);
}

int mask_feed(struct mask_stream *s, struct slice in, bool last, struct buf *out)
{
        size_t used;

        if (s->m->count == 0 && buf_len(&s->keep) == 0)
                return in.n ? buf_add_slice(out, in) : 0;
        if (buf_len(&s->keep) == 0) {
                if (replace(s->m, in, last, out, &used, &s->found) < 0)
                        return -1;
                return used < in.n ? buf_add_slice(&s->keep, slice_skip(in, used)) : 0;
        }
        if ((in.n && buf_add_slice(&s->keep, in) < 0) || replace(s->m, buf_slice(&s->keep), last, out, &used, &s->found) < 0)
                return -1;
        buf_consume(&s->keep, used);
        return 0;
}

int mask_text(struct mask *m, struct slice in, struct buf *out)
{
        struct find_walk walk = find_begin(&m->find, in);
        size_t used, before = out->end, start = out->start;
        uint64_t found = 0;

        /* Most fields are shorter than the shortest secret, which no spelling shortens, or nothing in them begins like one. */
        if (m->count == 0 || in.n < m->pairs[m->count - 1].secret_n || find_next(&walk, 0) + FIND_SHAPE_BYTES > in.n)
                return 0;
        if (replace(m, in, true, out, &used, &found) < 0)
                return -1;
        if (!found)
                out->end -= buf_len(out) - (before - start);
        return found != 0;
}
