/* Redaction: see redact.h. Errs on the side of hiding: a long segment that only looks random is shown as a preview as well, and the
 * record then still says host, rule, length class and first bytes. */
#include "journal/redact.h"

static const char MARK[] = "\xe2\x80\xa6"; /* … */
enum { MARK_BYTES = sizeof(MARK) - 1 };

/* Shapes of tokens by their beginning, whatever their length (with at least this many bytes after it). */
enum { TOKEN_REST_BYTES = 8 };
static const char *const token_prefix[] = {
        "sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "xoxb-", "xoxp-", "xoxa-", "xoxs-",
        "AKIA", "ASIA", "AIza", "ya29.", "eyJ", "npm_", "pypi-", "hf_", "dop_v1_", "brm-", "brm_", "brm-mcp_",
};

static int hex_value(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at the front of *s, percent escapes decoded, and moves on. */
static uint8_t next_byte(struct slice *s)
{
        uint8_t c = s->p[0];
        size_t len = 1;

        if (c == '%' && s->n >= 3 && hex_value(s->p[1]) >= 0 && hex_value(s->p[2]) >= 0) {
                c = (uint8_t)(hex_value(s->p[1]) << 4 | hex_value(s->p[2]));
                len = 3;
        }
        *s = slice_skip(*s, len);
        return c;
}

struct shape {
        size_t bytes, digits, uppers, lowers, hexes, others; /* others: not in the alphabet of base64, URL-safe base64 or UUIDs */
        size_t turns;                                        /* changes between digit, upper and lower: random text has many */
};

static enum { TURN_NONE, TURN_DIGIT, TURN_UPPER, TURN_LOWER } turn_of(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return TURN_DIGIT;
        if (c >= 'A' && c <= 'Z')
                return TURN_UPPER;
        return c >= 'a' && c <= 'z' ? TURN_LOWER : TURN_NONE;
}

static struct shape shape_of(struct slice s)
{
        struct shape sh = { 0 };
        int last = TURN_NONE;

        while (s.n) {
                uint8_t c = next_byte(&s);
                int turn = (int)turn_of(c);
                sh.bytes++;
                sh.digits += turn == TURN_DIGIT;
                sh.uppers += turn == TURN_UPPER;
                sh.lowers += turn == TURN_LOWER;
                sh.hexes += hex_value(c) >= 0;
                sh.others += turn == TURN_NONE && !memchr("-_+/=.~:", c, 8);
                if (turn != TURN_NONE) {
                        sh.turns += last != TURN_NONE && turn != last;
                        last = turn;
                }
        }
        return sh;
}

static bool has_token_prefix(struct slice s)
{
        for (size_t i = 0; i < sizeof(token_prefix) / sizeof(token_prefix[0]); i++) {
                struct slice prefix = slice_str(token_prefix[i]);
                if (slice_starts(s, prefix) && s.n - prefix.n >= TOKEN_REST_BYTES && shape_of(slice_skip(s, prefix.n)).digits > 0)
                        return true;
        }
        return false;
}

bool redact_is_opaque(struct slice s)
{
        struct shape sh;

        if (has_token_prefix(s))
                return true;
        sh = shape_of(s);
        if (sh.bytes < REDACT_OPAQUE_BYTES)
                return false;
        /* Hex and UUIDs; long numbers as well. */
        if (sh.digits && sh.hexes * 10 >= (sh.bytes - sh.others) * 8 && sh.digits * 5 >= sh.bytes)
                return true;
        /* Base64 and the like: random letters change case or class about every other byte, words joined by dashes hardly ever. */
        return sh.others * 8 <= sh.bytes && sh.turns * 4 >= sh.bytes;
}

static int put_redacted(struct buf *out, struct slice s)
{
        /* Never a lone continuation byte or half a percent escape at the end of the preview. */
        size_t keep = 0;

        while (keep < REDACT_PREVIEW_BYTES && keep < s.n && s.p[keep] < 0x80 && s.p[keep] != '%')
                keep++;
        return buf_add(out, s.p, keep) < 0 ? -1 : buf_add(out, MARK, MARK_BYTES);
}

static int put_segment(struct buf *out, struct slice s) { return redact_is_opaque(s) ? put_redacted(out, s) : buf_add_slice(out, s); }

/* Cuts s at the first `c`: *head is what stands before it, *tail what follows; false when there is none (*head is then all). */
static bool cut(struct slice s, uint8_t c, struct slice *head, struct slice *tail)
{
        ptrdiff_t at = slice_find(s, c);

        *head = at < 0 ? s : slice_first(s, (size_t)at);
        *tail = at < 0 ? SLICE_EMPTY : slice_skip(s, (size_t)at + 1);
        return at >= 0;
}

static int redact_segments(struct buf *out, struct slice path)
{
        struct slice segment;
        bool more;

        do {
                more = cut(path, '/', &segment, &path);
                if (put_segment(out, segment) < 0 || (more && buf_add(out, "/", 1) < 0))
                        return -1;
        } while (more);
        return 0;
}

static int redact_query(struct buf *out, struct slice query)
{
        struct slice pair, key, value;
        bool more;

        do {
                more = cut(query, '&', &pair, &query);
                if (cut(pair, '=', &key, &value)) {
                        if (put_segment(out, key) < 0 || buf_add(out, "=", 1) < 0 || (value.n && buf_add(out, MARK, MARK_BYTES) < 0))
                                return -1;
                } else if (put_segment(out, pair) < 0) {
                        return -1;
                }
                if (more && buf_add(out, "&", 1) < 0)
                        return -1;
        } while (more);
        return 0;
}

int redact_path(struct buf *out, struct slice path)
{
        struct slice head, query, fragment;
        bool has_query, has_fragment;

        has_fragment = cut(path, '#', &path, &fragment);
        has_query = cut(path, '?', &head, &query);
        if (redact_segments(out, head) < 0)
                return -1;
        if (has_query && (buf_add(out, "?", 1) < 0 || redact_query(out, query) < 0))
                return -1;
        /* A fragment is never sent by an honest client; whatever stands there is nobody's business. */
        return has_fragment && (buf_add(out, "#", 1) < 0 || (fragment.n && buf_add(out, MARK, MARK_BYTES) < 0)) ? -1 : 0;
}
