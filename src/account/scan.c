/* The tripwire's eye: see scan.h.
 *
 * A placeholder begins with the marker. find.h says where one may begin, in any of the spellings below; there the text is read as that spelling,
 * character by character, and compared with the cores, which stand sorted: what is left of them narrows with each character. The answer at a position
 * is yes, no, or "not before more bytes are here", and never changes when more bytes come; positions are decided in order. So the result is the same
 * however the stream is cut. Bytes before a random part are given on at once, also when they could be a marker: only a copy of them is kept
 * (scan->back). A protocol that waits for the end of a line is thus never held up by a line that merely ends like a marker. */
#include "account/base64.h"
#include "account/find.h"
#include "account/scan.h"
#include "account/unit.h"

#include <assert.h>
#include <stdlib.h>

enum {
        SPELLINGS_MAX = 24,
        LAYERS_MAX = 2,
        BREAK_BYTES_MAX = 16, /* between two characters of a run: a line break and the next line's indentation */
        BETWEEN_HEX_MAX = 2,  /* between two bytes in hex: one, and hexdump's second one behind the eighth */
        MARK_CHARS_MAX = 8,   /* "brm-mcp_" */
};

enum coding_kind { KIND_BASE64 = 6, KIND_HEX = 4 }; /* the value is the bits of one character */

/* A spelling of the marker: codings, the outermost first. Base64 begins with the first character that holds nothing of what stands before: `known`
 * bits of the first byte are in the character before it. */
struct spelling {
        uint8_t depth;
        struct {
                enum coding_kind kind;
                uint8_t known, bits;
        } layers[LAYERS_MAX];
        uint8_t text[16], n; /* how it begins */
};

struct core {
        uint8_t text[PLACEHOLDER_BYTES_MAX], n;
        uint8_t random; /* where its random part begins */
        int number;
};

struct token_set {
        struct find find;
        struct spelling spellings[SPELLINGS_MAX];
        size_t spelling_count;
        uint32_t first[256], second[256]; /* which spellings have this character there */
        size_t count;
        struct core cores[PLACEHOLDERS_MAX]; /* sorted */
};

/* ---- the set ---- */

static const char hex_chars[] = "0123456789abcdef";

/* The characters that are wholly determined by the n bytes at `in`, from bit `known` on. Returns how many. */
static size_t encode(enum coding_kind kind, unsigned known, const uint8_t *in, size_t n, uint8_t *out)
{
        const char *chars = kind == KIND_HEX ? hex_chars : base64_std;
        uint32_t acc = 0;
        unsigned bits = 0;
        size_t made = 0;

        for (size_t i = 0; i < n; i++) {
                acc = acc << 8 | in[i];
                bits += i == 0 ? 8 - known : 8;
                for (; bits >= (unsigned)kind; bits -= (unsigned)kind)
                        out[made++] = (uint8_t)chars[acc >> (bits - (unsigned)kind) & ((1u << (unsigned)kind) - 1)];
        }
        return made;
}

/* Adds the spelling that codes `inner` once more; inner NULL: the marker as it is. */
static void spelling_add(struct token_set *t, const struct spelling *inner, enum coding_kind kind, unsigned known)
{
        struct spelling *s = &t->spellings[t->spelling_count];

        assert(t->spelling_count < SPELLINGS_MAX && inner->depth < LAYERS_MAX);
        s->depth = (uint8_t)(inner->depth + 1);
        s->layers[0].kind = kind;
        s->layers[0].known = (uint8_t)known;
        s->layers[0].bits = (uint8_t)(inner->text[0] >> (8 - known));
        s->layers[1] = inner->layers[0];
        s->n = (uint8_t)encode(kind, known, inner->text, inner->n, s->text);
        t->spelling_count++;
}

static void spelling_add_all(struct token_set *t, const struct spelling *inner)
{
        spelling_add(t, inner, KIND_BASE64, 0);
        spelling_add(t, inner, KIND_BASE64, 4);
        spelling_add(t, inner, KIND_BASE64, 2);
        spelling_add(t, inner, KIND_HEX, 0);
}

/* The sets of a spelling's first characters. Base64 is exact about case, the marker and hex are not. */
static void spelling_sets(const struct spelling *s, struct byte_set sets[FIND_SHAPE_BYTES])
{
        for (size_t i = 0; i < FIND_SHAPE_BYTES; i++) {
                uint8_t c = s->text[i];
                bool folds = (s->depth == 0 || s->layers[0].kind == KIND_HEX) && c >= 'a' && c <= 'z';
                byte_set_add(&sets[i], c);
                if (folds)
                        byte_set_add(&sets[i], c & 0xdf);
        }
}

static struct byte_set set_of(const char *chars)
{
        struct byte_set s = { 0 };

        byte_set_add_text(&s, chars);
        return s;
}

/* Shapes in which an escape stands first: percent-encoded, once or twice (%25) or of JSON (%5C), or JSON's. */
static void find_add_escaped(struct find *f, const struct byte_set *first)
{
        struct byte_set high = set_of("25"), low = set_of("5cC");

        for (unsigned c = 0; c < 128; c++) {
                if (!byte_set_has(first, (uint8_t)c))
                        continue;
                byte_set_add(&high, (uint8_t)hex_chars[c >> 4]);
                byte_set_add(&low, (uint8_t)hex_chars[c & 15]);
                if ((c & 15) > 9)
                        byte_set_add(&low, (uint8_t)(hex_chars[c & 15] & 0xdf));
        }
        find_add(f, (struct byte_set[]){ set_of("%"), high, low });
        find_add(f, (struct byte_set[]){ set_of("\\"), set_of("u"), set_of("0") });
}

/* Shapes in which an escape or a line break stands second or third; see unit.h for what may follow them. No marker has any other escape in it.
 * first, second: the characters of some spellings, with little variety in the high halves. */
static void find_add_broken(struct find *f, const struct byte_set *first, const struct byte_set *second)
{
        const struct byte_set breaks = set_of("\r\n"), odd = set_of("=\\"), behind_odd = set_of("\r\nrnu\\%"), either = set_of("\r\n=\\");
        struct byte_set any;

        byte_set_add_all(&any);
        find_add(f, (struct byte_set[]){ *first, breaks, any });
        find_add(f, (struct byte_set[]){ *first, odd, behind_odd });
        find_add(f, (struct byte_set[]){ *first, *second, either });
}

static void set_join(struct byte_set *s, const struct byte_set *other)
{
        for (size_t word = 0; word < 4; word++)
                s->bits[word] |= other->bits[word];
}

/* Shapes of all spellings; in parts by the high half of the first character. */
static void find_add_spellings(struct find *f, struct byte_set sets[][FIND_SHAPE_BYTES], const struct spelling *spellings, size_t count)
{
        static const unsigned parts[][2] = { { 3, 3 }, { 4, 4 }, { 5, 5 }, { 6, 7 } };
        struct byte_set all_first = { 0 }, all_second = { 0 };

        for (size_t part = 0; part < sizeof(parts) / sizeof(parts[0]); part++) {
                struct byte_set first = { 0 }, second = { 0 };
                for (size_t i = 0; i < count; i++) {
                        unsigned half = spellings[i].text[0] >> 4;
                        if (half < parts[part][0] || half > parts[part][1])
                                continue;
                        set_join(&first, &sets[i][0]);
                        set_join(&second, &sets[i][1]);
                }
                find_add_broken(f, &first, &second);
                set_join(&all_first, &first);
                set_join(&all_second, &second);
        }
        find_add(f, (struct byte_set[]){ all_first, set_of("%"), set_of("0123456789abcdefABCDEF") });
        find_add(f, (struct byte_set[]){ all_first, all_second, set_of("%") });
        find_add_escaped(f, &all_first);
        find_add(f, (struct byte_set[]){ set_of("6"), set_of("2"), set_of(" :-") }); /* b in hex, and what stands between two bytes */
        for (size_t i = 0; i < count; i++)
                find_add(f, sets[i]);
}

struct token_set *token_set_new(void)
{
        struct token_set *t = calloc(1, sizeof(*t));
        struct byte_set sets[SPELLINGS_MAX][FIND_SHAPE_BYTES] = { 0 };

        if (!t)
                return NULL;
        t->spellings[0] = (struct spelling){ .text = "brm", .n = 3 };
        t->spelling_count = 1;
        spelling_add_all(t, &t->spellings[0]);
        for (size_t i = 1, once = t->spelling_count; i < once; i++)
                spelling_add_all(t, &t->spellings[i]);
        for (size_t i = 0; i < t->spelling_count; i++) {
                spelling_sets(&t->spellings[i], sets[i]);
                for (unsigned c = 0; c < 256; c++) {
                        t->first[c] |= (uint32_t)byte_set_has(&sets[i][0], (uint8_t)c) << i;
                        t->second[c] |= (uint32_t)byte_set_has(&sets[i][1], (uint8_t)c) << i;
                }
        }
        find_add_spellings(&t->find, sets, t->spellings, t->spelling_count);
        return t;
}

void token_set_free(struct token_set *t) { free(t); }
size_t token_set_count(const struct token_set *t) { return t->count; }

static int core_compare(const struct core *a, struct slice b)
{
        int d = memcmp(a->text, b.p, a->n < b.n ? a->n : b.n);

        return d ? d : (int)a->n - (int)b.n;
}

static size_t random_begins(struct slice core)
{
        struct slice behind = slice_skip(core, 3);

        if (slice_starts(behind, SLICE_LIT("-mcp_")))
                return 8;
        return behind.n && (behind.p[0] == '-' || behind.p[0] == '_') ? 4 : 3;
}

int token_set_add(struct token_set *t, struct slice placeholder, int number)
{
        struct slice core = placeholder_core(placeholder);
        size_t at = 0;

        if (core.n < PLACEHOLDER_CORE_BYTES_MIN || core.n > PLACEHOLDER_BYTES_MAX)
                return -1;
        while (at < t->count && core_compare(&t->cores[at], core) < 0)
                at++;
        if (at < t->count && core_compare(&t->cores[at], core) == 0) {
                t->cores[at].number = number;
                return 0;
        }
        if (t->count == PLACEHOLDERS_MAX)
                return -1;
        memmove(&t->cores[at + 1], &t->cores[at], (t->count - at) * sizeof(t->cores[0]));
        t->cores[at] = (struct core){ .n = (uint8_t)core.n, .random = (uint8_t)random_begins(core), .number = number };
        memcpy(t->cores[at].text, core.p, core.n);
        t->count++;
        return 0;
}

const char *scan_view_name(enum scan_view v)
{
        static const char *const names[VIEW_COUNT] = { "plain", "base64", "hex", "percent", "json", "mixed" };

        return names[v];
}

/* ---- reading a spelling ---- */

enum { READ_MORE = -1, READ_NONE = -2 };
enum { NOWHERE = SIZE_MAX };

struct reader {
        struct slice text;
        size_t begin, at; /* in the text */
        bool last;
        uint8_t spelt; /* how its units were spelt so far */
        const struct spelling *spelling;
        struct {
                uint32_t acc;
                unsigned bits;
                size_t from; /* where the oldest of these bits stands in the text */
        } layers[LAYERS_MAX];
};

static void reader_init(struct reader *r, struct slice text, size_t at, bool last, const struct spelling *s)
{
        *r = (struct reader){ .text = text, .begin = at, .at = at, .last = last, .spelling = s };
        for (size_t i = 0; i < s->depth; i++) {
                r->layers[i].acc = s->layers[i].bits;
                r->layers[i].bits = s->layers[i].known;
                r->layers[i].from = at;
        }
}

/* The next character of the text itself; line breaks in an encoded run are passed over, in a plain one only soft ones. */
static int read_unit(struct reader *r, size_t *from)
{
        size_t begin = r->at;
        bool broken = false;
        struct unit u;

        for (;;) {
                enum unit_status status = unit_read(r->text, r->at, r->last, &u);
                *from = r->at < r->text.n ? r->at : NOWHERE;
                if (status != UNIT_OK)
                        return status == UNIT_MORE ? READ_MORE : READ_NONE;
                if (!(r->spelling->depth ? u.line_break || (broken && (u.value == ' ' || u.value == '\t')) : u.soft))
                        break;
                r->at += u.n;
                if (r->at - begin > BREAK_BYTES_MAX)
                        return READ_NONE;
                broken = true;
        }
        r->spelt |= u.spelt;
        r->at += u.n;
        return u.value;
}

static int digit_of(enum coding_kind kind, uint8_t c) { return kind == KIND_HEX ? unit_hex(c) : base64_digit(c); }

static int read_layer(struct reader *r, size_t layer, size_t *from);

static bool between_hex(int c) { return c == ' ' || c == ':' || c == '-'; }

/* The same of hex: what stands between two bytes is passed over. */
static int read_hex(struct reader *r, size_t *from)
{
        int c = read_unit(r, from);

        for (int i = 0; i < BETWEEN_HEX_MAX && r->layers[0].bits == 0 && between_hex(c); i++)
                c = read_unit(r, from);
        return c;
}

/* The next character that layer `layer` decodes: of the text, or of the layer outside it, there without line breaks. */
static int read_digit(struct reader *r, size_t layer, size_t *from)
{
        int c;

        if (layer == 0)
                return r->spelling->layers[0].kind == KIND_HEX ? read_hex(r, from) : read_unit(r, from);
        do
                c = read_layer(r, layer - 1, from);
        while (c == '\n' || c == '\r');
        return c;
}

/* The next byte out of a layer. *from: where the first character that holds a bit of it stands. */
static int read_layer(struct reader *r, size_t layer, size_t *from)
{
        enum coding_kind kind = r->spelling->layers[layer].kind;
        unsigned bits;

        while ((bits = r->layers[layer].bits) < 8) {
                size_t at;
                int c = read_digit(r, layer, &at), digit;
                if (bits == 0)
                        r->layers[layer].from = at;
                *from = r->layers[layer].from;
                if (c < 0)
                        return c;
                digit = digit_of(kind, (uint8_t)c);
                if (digit < 0)
                        return READ_NONE;
                r->layers[layer].acc = r->layers[layer].acc << (unsigned)kind | (uint32_t)digit;
                r->layers[layer].bits = bits + (unsigned)kind;
                if (bits + (unsigned)kind >= 8) {
                        /* What is left over belongs to the character just read. */
                        r->layers[layer].from = at;
                        r->layers[layer].bits = bits + (unsigned)kind - 8;
                        return (int)(r->layers[layer].acc >> r->layers[layer].bits & 0xff);
                }
        }
        return READ_NONE; /* not reached: fewer than 8 bits are ever left over */
}

static int read_byte(struct reader *r, size_t *from)
{
        return r->spelling->depth == 0 ? read_unit(r, from) : read_layer(r, r->spelling->depth - 1u, from);
}

static int hex_value(int c)
{
        int value = c < 0 ? c : unit_hex((uint8_t)c);

        return c >= 0 && value < 0 ? READ_NONE : value;
}

/* What stands behind the "=" of quoted-printable: two digits, or a soft line break and the next character. */
static int read_quoted(struct reader *r, size_t *from)
{
        size_t at;
        int c = read_byte(r, &at), high, low;

        if (c == '\r')
                c = read_byte(r, &at);
        if (c == '\n')
                return read_byte(r, from);
        high = hex_value(c);
        low = high < 0 ? high : hex_value(read_byte(r, &at));
        return low < 0 ? low : high << 4 | low;
}

/* The next character of a placeholder. Two ways to write text are seen through under any other spelling, as in a mail in base64, or a comment in JSON: quoted-printable
 * (RFC 2045 §6.7), and the backslash with which writers of Markdown and of patterns escape "_" and "-". Neither "=" nor "\" is a character of a placeholder: what is not
 * so written is none. */
static int read_char(struct reader *r, size_t *from)
{
        size_t at;
        int c = read_byte(r, from);

        if (c == '=')
                return read_quoted(r, from);
        if (c != '\\')
                return c;
        for (int i = 0; i < UNIT_BACKSLASHES_MAX && c == '\\'; i++)
                c = read_byte(r, &at);
        return c < 0 || c == '_' || c == '-' ? c : READ_NONE;
}

/* ---- deciding a position ---- */

enum answer { ANSWER_NO, ANSWER_MORE, ANSWER_HIT };
struct decision {
        size_t hold;    /* ANSWER_MORE: where the random part begins that may be one of ours; NOWHERE: not reached yet */
        size_t at, end; /* ANSWER_HIT */
        int number;
        enum scan_view view;
        bool plain; /* its random part stands there as it is */
};

static enum scan_view reader_view(const struct reader *r)
{
        static const enum scan_view plain[4] = { VIEW_PLAIN, VIEW_PERCENT, VIEW_JSON, VIEW_MIXED };

        if (r->spelling->depth == 0)
                return plain[r->spelt];
        if (r->spelling->depth > 1 || r->spelt)
                return VIEW_MIXED;
        return r->spelling->layers[0].kind == KIND_HEX ? VIEW_HEX : VIEW_BASE64;
}

/* The cores that agree with what was read. */
struct range {
        const struct token_set *set;
        size_t first, end, chars; /* chars: how many characters they agree in */
};

static bool range_narrow(struct range *g, uint8_t c)
{
        const struct core *cores = g->set->cores;

        while (g->first < g->end && (cores[g->first].n <= g->chars || cores[g->first].text[g->chars] < c))
                g->first++;
        while (g->end > g->first && cores[g->end - 1].n > g->chars && cores[g->end - 1].text[g->chars] > c)
                g->end--;
        return g->first < g->end;
}

/* Where the random part begins at the earliest, of any of them. */
static size_t range_random(const struct range *g)
{
        size_t least = MARK_CHARS_MAX;

        for (size_t i = g->first; i < g->end; i++)
                if (g->set->cores[i].random < least)
                        least = g->set->cores[i].random;
        return least;
}

/* What was read ends within a spelling. SECURITY: from where on bytes may hold a part of a random part. One character too early, the character of the
 * innermost coding that is not complete yet can hold the end of the marker and the beginning of the random part; what was read before cannot. */
static size_t hold_from(const struct range *g, const struct reader *r, const size_t *from)
{
        size_t random = range_random(g);

        if (g->chars >= random)
                return from[random];
        if (g->chars + 1 < random || r->spelling->depth == 0)
                return NOWHERE;
        if (r->spelling->depth == 2 && r->layers[0].bits)
                return r->layers[0].from;
        return r->at < r->text.n ? r->at : (size_t)NOWHERE;
}

static bool too_long(const struct range *g, size_t n) { return n > SCAN_KEEP_BYTES_MAX || (n > SCAN_MARKER_BYTES_MAX && g->chars < range_random(g)); }

/* The range with one more character; false: none of them has it. */
static bool range_next(struct range *g, uint8_t c)
{
        struct range narrow = *g;

        if (g->chars < 3 ? c != "brm"[g->chars] : !range_narrow(&narrow, c))
                return false;
        *g = narrow;
        g->chars++;
        return true;
}

static enum answer decide_spelling(const struct token_set *set, struct reader *r, struct decision *d)
{
        struct range g = { set, 0, set->count, 0 };
        size_t from[MARK_CHARS_MAX + 1], end = r->at, at;
        const struct core *core;

        do {
                int c = read_char(r, &at);
                if (g.chars <= MARK_CHARS_MAX)
                        from[g.chars] = at;
                /* What is not all here yet ends at the text's end or behind it, or is no part of any spelling. */
                if (too_long(&g, (c == READ_MORE ? r->text.n : r->at) - r->begin))
                        break;
                if (c == READ_MORE) {
                        d->hold = hold_from(&g, r, from);
                        return ANSWER_MORE;
                }
                if (c < 0 || !range_next(&g, ascii_lower((uint8_t)c)))
                        break;
                end = r->at;
        } while (set->cores[g.first].n > g.chars);
        core = &set->cores[g.first];
        if (g.chars < core->random + (size_t)SCAN_SURE_CHARS)
                return ANSWER_NO;
        *d = (struct decision){ .hold = NOWHERE, .at = from[core->random], .end = end, .number = core->number, .view = reader_view(r) };
        d->plain = r->spelling->depth == 0 && d->end - d->at == g.chars - core->random;
        return ANSWER_HIT;
}

/* Which spellings may begin at `at`, by their first two characters. */
static uint32_t spellings_at(const struct token_set *set, struct slice text, size_t at, bool last, enum unit_status *status)
{
        struct unit u;
        uint32_t which;
        size_t from = at;

        *status = unit_read(text, at, last, &u);
        if (*status != UNIT_OK)
                return 0;
        which = set->first[u.value];
        at += u.n;
        while (which && unit_read(text, at, last, &u) == UNIT_OK && at - from <= BREAK_BYTES_MAX) {
                if (u.value == '=') /* quoted-printable's soft line break, spelt again */
                        return which;
                if (!u.line_break && u.value != ' ' && u.value != '\t')
                        return which & set->second[u.value];
                at += u.n;
        }
        return which;
}

/* Does a placeholder begin at `at`? */
static enum answer decide(const struct token_set *set, struct slice text, size_t at, bool last, struct decision *d)
{
        enum answer answer = ANSWER_NO;
        struct decision one;
        enum unit_status status;
        uint32_t which = spellings_at(set, text, at, last, &status);

        d->hold = NOWHERE;
        if (status == UNIT_MORE)
                return ANSWER_MORE;
        for (; which; which &= which - 1) {
                struct reader r;
                reader_init(&r, text, at, last, &set->spellings[__builtin_ctz(which)]);
                switch (decide_spelling(set, &r, &one)) {
                case ANSWER_HIT: *d = one; return ANSWER_HIT;
                case ANSWER_MORE:
                        answer = ANSWER_MORE;
                        if (one.hold < d->hold)
                                d->hold = one.hold;
                        break;
                case ANSWER_NO: break;
                }
        }
        return answer;
}

/* ---- the stream ---- */

void scan_begin(struct scan *s, const struct token_set *set) { *s = (struct scan){ .set = set }; }

/* What a step has found out so far; positions are relative to the held bytes. */
struct step {
        ptrdiff_t waiting; /* the first position that needs more bytes */
        bool waits, found;
        ptrdiff_t hit; /* the position at which the hit's marker begins */
        size_t clear;
        struct decision d;
};

/* A position of a text that begins at `base` of the held bytes; 0 when it was given on. */
static size_t held_position(ptrdiff_t base, size_t at)
{
        ptrdiff_t here = base + (ptrdiff_t)at;

        return here < 0 ? 0 : (size_t)here;
}

/* Positions [from, to) of `text`, which begins at position `base` of the held bytes. */
static void step_over(const struct token_set *set, struct slice text, ptrdiff_t base, size_t from, size_t to, bool last, struct step *st)
{
        struct find_walk walk = find_begin(&set->find, text);
        struct decision d;

        for (size_t at = from; (at = find_next(&walk, at)) < to; at++) {
                enum answer answer = decide(set, text, at, last, &d);
                ptrdiff_t here = base + (ptrdiff_t)at;
                size_t stop = answer == ANSWER_HIT ? d.at : d.hold;
                if (answer == ANSWER_NO)
                        continue;
                if (stop != NOWHERE) {
                        /* What was given on holds no part of a random part, unless the set has got a placeholder since: then all that is held stays.
                         */
                        size_t begin = held_position(base, stop);
                        if (begin < st->clear)
                                st->clear = begin;
                }
                if (answer == ANSWER_MORE && !st->waits) {
                        st->waits = true;
                        st->waiting = here;
                }
                if (answer == ANSWER_HIT) {
                        st->found = true;
                        st->hit = here;
                        st->d = d;
                        return;
                }
        }
}

/* Markers that begin in bytes which were given on: looked at in a copy that joins them with the held ones. */
static void step_over_back(const struct scan *s, struct slice held, bool last, struct step *st)
{
        uint8_t joined[SCAN_BACK_BYTES_MAX + SCAN_KEEP_BYTES_MAX + 64];
        size_t back = (size_t)-s->next;
        struct slice now = slice_first(held, sizeof(joined) - back);

        assert(back <= s->back_n);
        memcpy(joined, s->back, back);
        if (now.n)
                memcpy(joined + back, now.p, now.n);
        step_over(s->set, slice_of(joined, back + now.n), s->next, 0, back, last && now.n == held.n, st);
}

/* Copies what may be given on of an undecided marker. */
static void keep_back(struct scan *s, struct slice held, ptrdiff_t next, size_t clear)
{
        uint8_t copy[SCAN_BACK_BYTES_MAX];
        size_t n = 0;

        for (ptrdiff_t at = next; at < (ptrdiff_t)clear; at++) {
                assert(n < sizeof(copy));
                copy[n++] = at < 0 ? s->back[at - s->next] : held.p[at];
        }
        memcpy(s->back, copy, n);
        s->back_n = n;
        s->next = next;
}

static void look_at_first(struct scan *s, struct slice held)
{
        for (size_t i = 0; i < held.n && !s->first; i++)
                if (held.p[i] != ' ' && held.p[i] != '\t' && held.p[i] != '\r' && held.p[i] != '\n')
                        s->first = held.p[i] ? held.p[i] : 1;
}

size_t scan_step(struct scan *s, struct slice held, bool last, bool *found, struct scan_hit *hit)
{
        struct step st = { .clear = held.n };
        ptrdiff_t next;

        *found = false;
        if (!s->first)
                look_at_first(s, held);
        if (s->set->count == 0) {
                keep_back(s, held, (ptrdiff_t)held.n, held.n);
                return held.n;
        }
        if (s->next < 0)
                step_over_back(s, held, last, &st);
        if (!st.found)
                step_over(s->set, held, 0, s->next < 0 ? 0 : (size_t)s->next, held.n, last, &st);
        next = st.waits ? st.waiting : st.found ? st.hit : (ptrdiff_t)held.n;
        /* The first position decides: a later hit is told when those before it are decided. */
        *found = st.found && !st.waits;
        if (*found) {
                ptrdiff_t base = st.hit < 0 ? s->next : 0;
                size_t at = held_position(base, st.d.at), end = held_position(base, st.d.end);
                bool json = st.d.plain && (s->first == '{' || s->first == '[');
                *hit = (struct scan_hit){ .at = at, .n = end - at, .number = st.d.number, .view = st.d.view, .in_json_string = json };
        }
        keep_back(s, held, next, st.clear);
        return st.clear;
}

void scan_drop(struct scan *s, size_t n) { s->next -= (ptrdiff_t)n; }

void scan_again(struct scan *s, size_t at)
{
        if ((ptrdiff_t)at < s->next) {
                s->next = (ptrdiff_t)at;
                s->back_n = 0;
        }
}

/* Most texts are short, and nothing in them looks like a marker: a stream is only begun for one that has something. */
bool scan_text(const struct token_set *set, struct slice text, struct scan_hit *hit)
{
        struct find_walk walk = find_begin(&set->find, text);
        struct scan s;
        bool found;

        if (find_next(&walk, 0) + FIND_SHAPE_BYTES > text.n) /* positions behind that are too near the end for a marker */
                return false;
        scan_begin(&s, set);
        scan_step(&s, text, true, &found, hit);
        return found;
}

bool scan_name(const struct token_set *set, struct slice name, struct scan_hit *hit)
{
        uint8_t held[2 * SCAN_KEEP_BYTES_MAX];
        size_t n = 0, clear;
        bool found = false;
        struct scan s;

        scan_begin(&s, set);
        for (size_t i = 0; i <= name.n && !found; i++) {
                if (i < name.n && name.p[i] != '.')
                        held[n++] = name.p[i];
                if (i < name.n && n < sizeof(held))
                        continue;
                clear = scan_step(&s, slice_of(held, n), i == name.n, &found, hit);
                scan_drop(&s, clear);
                memmove(held, held + clear, n -= clear);
        }
        if (found) {
                hit->at = 0;
                hit->n = name.n;
        }
        return found;
}
