/* The body of a git fetch, read as it comes and written anew: see profile.h. Packet lines (gitprotocol-common): four hexadecimal digits of length, themselves counted,
 * then the line; 0000 ends the request, 0001 ends the capabilities.
 *
 * A guest may say what a reader says: which refs, which objects. What may carry something else and is not needed is left out (session ids, refs' names, objects that only
 * the guest knows), is a constant (the agent), or is refused (server options). Leaving out is always right: a server that hears of fewer haves sends more, and one that hears
 * of fewer ref prefixes lists more. */
#include "rules/profile.h"

enum { LENGTH_DIGITS = 4, REF_BYTES = 255, AGENT_BYTES = 255, ID_SHA1 = 40, ID_SHA256 = 64 };

static bool refuse(struct git_body *g, const char *problem)
{
        g->problem = problem;
        g->part = GIT_END;
        return false;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------------------- */

static bool is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

static bool value_none(const struct git_body *g, struct slice v)
{
        (void)g;
        return v.n == 0;
}

static bool value_id(const struct git_body *g, struct slice v)
{
        if (v.n != (g->sha256 ? ID_SHA256 : ID_SHA1))
                return false;
        for (size_t i = 0; i < v.n; i++)
                if (!is_hex(v.p[i]))
                        return false;
        return true;
}

static bool value_number(const struct git_body *g, struct slice v)
{
        enum { DIGITS_MAX = 10 }; /* a depth, or seconds */

        (void)g;
        for (size_t i = 0; i < v.n; i++)
                if (v.p[i] < '0' || v.p[i] > '9')
                        return false;
        return v.n && v.n <= DIGITS_MAX && (v.n == 1 || v.p[0] != '0');
}

static bool is_printable(struct slice v)
{
        for (size_t i = 0; i < v.n; i++)
                if (v.p[i] <= ' ' || v.p[i] >= 0x7f)
                        return false;
        return v.n > 0;
}

/* A ref's name or the beginning of one (git-check-ref-format), printable ASCII. */
static bool value_ref(const struct git_body *g, struct slice v)
{
        (void)g;
        for (size_t i = 0; i < v.n; i++)
                if (strchr("~^:?*[\\", v.p[i]) || (i && v.p[i] == '.' && v.p[i - 1] == '.') || (i && v.p[i] == '/' && v.p[i - 1] == '/'))
                        return false;
        return is_printable(v) && v.n <= REF_BYTES;
}

/* blob:none, blob:limit=N[kmg], tree:N, object:type=T */
static bool value_filter(const struct git_body *g, struct slice v)
{
        static const char *const types[] = { "blob", "tree", "commit", "tag" };
        static const struct slice limit = SLICE_LIT("blob:limit="), tree = SLICE_LIT("tree:"), type = SLICE_LIT("object:type=");

        if (slice_is(v, "blob:none"))
                return true;
        if (slice_starts(v, tree))
                return value_number(g, slice_skip(v, tree.n));
        if (slice_starts(v, limit)) {
                v = slice_skip(v, limit.n);
                if (v.n > 1 && strchr("kmg", v.p[v.n - 1]) && v.p[v.n - 1])
                        v.n--;
                return value_number(g, v);
        }
        for (size_t i = 0; slice_starts(v, type) && i < sizeof(types) / sizeof(types[0]); i++)
                if (slice_is(slice_skip(v, type.n), types[i]))
                        return true;
        return false;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------------------------ */

static bool put(struct git_body *g, struct buf *out, const char *word, struct slice value, const char *end)
{
        buf_addf(out, "%04zx%s", LENGTH_DIGITS + strlen(word) + value.n + strlen(end), word);
        buf_add_slice(out, value);
        buf_add_str(out, end);
        return !out->failed || refuse(g, "out of memory");
}

static bool put_mark(struct git_body *g, struct buf *out, const char *mark) { return buf_add_str(out, mark) == 0 || refuse(g, "out of memory"); }

/* ---- refs --------------------------------------------------------------------------------------------------------------------------------------- */

/* The folders that servers have. git asks for a short name in six places; these are the ones where it can be. */
static const char *const folders[] = { "HEAD", "refs/heads/", "refs/tags/", "refs/notes/" };
/* And those whose refs are numbers: n a number, f a change's last two digits (Gerrit's folders), w a word of these. */
static const struct {
        const char *folder, *shape;
} numbered[] = { { "refs/pull/", "nw" }, { "refs/merge-requests/", "nw" }, { "refs/changes/", "fnn" } };

static bool is_part(char shape, struct slice s)
{
        enum { DIGITS_MAX = 8 };
        size_t n = 0;

        if (shape == 'w')
                return slice_is(s, "head") || slice_is(s, "merge");
        while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
                n++;
        return n && n == s.n && (shape == 'f' ? n == 2 : n <= DIGITS_MAX && s.p[0] != '0');
}

/* "12/head", "34/1234/5", and their beginnings, part by part. */
static bool is_numbered(struct slice s, const char *shape)
{
        for (; s.n && *shape; shape++) {
                ptrdiff_t slash = slice_find(s, '/');
                size_t n = slash < 0 ? s.n : (size_t)slash;

                if (!is_part(*shape, slice_first(s, n)) || (slash >= 0 && !shape[1]))
                        return false;
                s = slice_skip(s, slash < 0 ? n : n + 1);
        }
        return s.n == 0;
}

/* SECURITY: the name that the guest made up stays here; only its folder goes on, once. Without any prefix the server lists all refs. */
static bool put_prefix(struct git_body *g, struct buf *out, struct slice v)
{
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
                struct slice folder = slice_str(folders[i]);
                if (i ? !slice_starts(v, folder) : !slice_eq(v, folder))
                        continue;
                if (g->folders & 1u << i)
                        return true;
                g->folders |= 1u << i;
                return put(g, out, "ref-prefix ", folder, "\n");
        }
        for (size_t i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++) {
                struct slice folder = slice_str(numbered[i].folder);
                if (slice_starts(v, folder) && is_numbered(slice_skip(v, folder.n), numbered[i].shape) && g->numbered < GIT_NUMBERED_MAX) {
                        g->numbered++;
                        return put(g, out, "ref-prefix ", v, "\n");
                }
        }
        return true;
}

/* ---- objects ------------------------------------------------------------------------------------------------------------------------------------ */

static const char *const unnamed[] = {
        [GIT_WANT] = "it wants an object that the server did not name here: fetch a branch or a tag whole (no --filter, no object id), or let the rule say `misses 100/h`",
        [GIT_SHALLOW] = "the clone is cut off at a commit that the server did not name here: clone it again, or let the rule say `misses 100/h`",
};

static bool put_id(struct git_body *g, struct buf *out, enum git_use use, const char *word, struct slice id)
{
        enum git_named named = g->named ? g->named(g->ctx, use, id) : GIT_NAMED;

        if (named == GIT_UNNAMED && use != GIT_HAVE)
                return refuse(g, unnamed[use]);
        if (use == GIT_HAVE) {
                g->haves = g->haves || named != GIT_UNNAMED;
                g->hidden = g->hidden || named == GIT_UNNAMED;
        }
        return named != GIT_NAMED || put(g, out, word, id, "\n");
}

/* A client that has something and did not say `done` waits for an acknowledgment, which a server only sends to who has something. Nobody has this. */
static bool put_nothing(struct git_body *g, struct buf *out)
{
        static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

        return put(g, out, "have ", slice_of(zeros, g->sha256 ? ID_SHA256 : ID_SHA1), "\n");
}

/* ---- lines -------------------------------------------------------------------------------------------------------------------------------------- */

enum argument_kind { ARG_ONCE, ARG_PREFIX, ARG_WANT, ARG_HAVE, ARG_SHALLOW };
struct argument {
        const char *word; /* with its blank when a value follows */
        bool (*value)(const struct git_body *g, struct slice v);
        enum argument_kind kind;
};
static const struct argument ls_refs_arguments[] = { { "peel", value_none, ARG_ONCE }, { "symrefs", value_none, ARG_ONCE }, { "unborn", value_none, ARG_ONCE },
                                                     { "ref-prefix ", value_ref, ARG_PREFIX }, { NULL, NULL, ARG_ONCE } };
enum { FETCH_DONE };
static const struct argument fetch_arguments[] = { [FETCH_DONE] = { "done", value_none, ARG_ONCE },
                                                   { "want ", value_id, ARG_WANT },
                                                   { "have ", value_id, ARG_HAVE },
                                                   { "shallow ", value_id, ARG_SHALLOW },
                                                   { "thin-pack", value_none, ARG_ONCE },
                                                   { "no-progress", value_none, ARG_ONCE },
                                                   { "include-tag", value_none, ARG_ONCE },
                                                   { "ofs-delta", value_none, ARG_ONCE },
                                                   { "deepen ", value_number, ARG_ONCE },
                                                   { "deepen-relative", value_none, ARG_ONCE },
                                                   { "deepen-since ", value_number, ARG_ONCE },
                                                   { "filter ", value_filter, ARG_ONCE },
                                                   { "wait-for-done", value_none, ARG_ONCE },
                                                   { NULL, NULL, ARG_ONCE } };

static bool put_argument(struct git_body *g, struct buf *out, const struct argument *a, unsigned bit, struct slice value)
{
        switch (a->kind) {
        case ARG_PREFIX:
                return put_prefix(g, out, value);
        case ARG_WANT:
                return put_id(g, out, GIT_WANT, a->word, value);
        case ARG_HAVE:
                return put_id(g, out, GIT_HAVE, a->word, value);
        case ARG_SHALLOW:
                return put_id(g, out, GIT_SHALLOW, a->word, value);
        case ARG_ONCE:
                break;
        }
        if (g->given & bit)
                return refuse(g, "an argument is given twice");
        g->given |= bit;
        return put(g, out, a->word, value, "\n");
}

static bool line_argument(struct git_body *g, struct slice line, struct buf *out)
{
        const struct argument *rows = g->fetch ? fetch_arguments : ls_refs_arguments;

        for (const struct argument *a = rows; a->word; a++) {
                struct slice word = slice_str(a->word);
                if (slice_starts(line, word) && a->value(g, slice_skip(line, word.n)))
                        return put_argument(g, out, a, 1u << (a - rows), slice_skip(line, word.n));
        }
        if (g->fetch && slice_starts(line, SLICE_LIT("deepen-not ")))
                return refuse(g, "--shallow-exclude names a ref in free text: use --depth or --shallow-since");
        return refuse(g, g->fetch ? "an argument that a git fetch does not need" : "an argument that listing refs does not need");
}

static bool line_capability(struct git_body *g, struct slice line, struct buf *out)
{
        static const struct slice agent = SLICE_LIT("agent="), session = SLICE_LIT("session-id="), format = SLICE_LIT("object-format=");
        struct slice v;

        if (slice_starts(line, agent) && is_printable(slice_skip(line, agent.n)) && line.n <= AGENT_BYTES && !g->agent) {
                g->agent = true;
                return put(g, out, "agent=", SLICE_LIT("git/2"), "");
        }
        if (slice_starts(line, session) && !g->session) {
                g->session = true;
                return true;
        }
        if (slice_starts(line, format) && !g->format) {
                v = slice_skip(line, format.n);
                g->format = true;
                g->sha256 = slice_is(v, "sha256");
                if (g->sha256 || slice_is(v, "sha1"))
                        return put(g, out, "object-format=", v, "");
        }
        return refuse(g, "a capability that a reader does not need");
}

static bool line_command(struct git_body *g, struct slice line, struct buf *out)
{
        g->fetch = slice_is(line, "command=fetch");
        g->part = GIT_CAPABILITIES;
        if (!g->fetch && !slice_is(line, "command=ls-refs"))
                return refuse(g, "a command other than `fetch` and `ls-refs`");
        return put(g, out, "", line, "");
}

static bool take_line(struct git_body *g, struct buf *out)
{
        struct slice line = slice_of(g->line, g->need);

        g->have = g->need = 0;
        if (++g->lines > GIT_LINES_MAX)
                return refuse(g, "too many lines");
        if (line.p[line.n - 1] == '\n')
                line.n--;
        switch (g->part) {
        case GIT_COMMAND:
                return line_command(g, line, out);
        case GIT_CAPABILITIES:
                return line_capability(g, line, out);
        case GIT_ARGUMENTS:
                return line_argument(g, line, out);
        case GIT_END:
                break;
        }
        return refuse(g, "something follows the end of the request");
}

/* ---- packets ------------------------------------------------------------------------------------------------------------------------------------ */

/* The length that the four digits say, or -1. */
static int length_of(const uint8_t *digits)
{
        int n = 0;

        for (size_t i = 0; i < LENGTH_DIGITS; i++) {
                if (!is_hex(digits[i]))
                        return -1;
                n = n << 4 | (digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10);
        }
        return n;
}

static bool take_flush(struct git_body *g, struct buf *out)
{
        bool waits = g->fetch && g->hidden && !g->haves && !(g->given & 1u << FETCH_DONE);

        g->part = GIT_END;
        return (!waits || put_nothing(g, out)) && put_mark(g, out, "0000");
}

/* The four digits stand in `line`. */
static bool take_length(struct git_body *g, struct buf *out)
{
        int length = length_of(g->line);
        size_t n = (size_t)length;

        g->have = 0;
        if (length < 0)
                return refuse(g, "not git's packet lines");
        if (n == 0 && (g->part != GIT_COMMAND || g->lines == 0))
                return take_flush(g, out);
        if (n == 1 && g->part == GIT_CAPABILITIES) {
                g->part = GIT_ARGUMENTS;
                return put_mark(g, out, "0001");
        }
        if (n <= LENGTH_DIGITS)
                return refuse(g, "a packet that has no place here");
        g->need = n - LENGTH_DIGITS;
        return g->need <= GIT_LINE_BYTES || refuse(g, "a line longer than any that a reader sends");
}

void git_body_begin(struct git_body *g, git_named_fn *named, void *ctx) { *g = (struct git_body){ .named = named, .ctx = ctx, .part = GIT_COMMAND }; }

bool git_body_feed(struct git_body *g, struct slice in, struct buf *out)
{
        while (in.n) {
                size_t want = (g->need ? g->need : LENGTH_DIGITS) - g->have, n = in.n < want ? in.n : want;

                if (g->problem)
                        return false;
                if (g->part == GIT_END)
                        return refuse(g, "something follows the end of the request");
                memcpy(g->line + g->have, in.p, n);
                g->have += n;
                in = slice_skip(in, n);
                if (n == want && !(g->need ? take_line(g, out) : take_length(g, out)))
                        return false;
        }
        return !g->problem;
}

bool git_body_end(struct git_body *g)
{
        if (g->problem)
                return false;
        return g->part == GIT_END || refuse(g, "the request ends in the middle");
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------------------ */

static size_t id_bytes(struct slice s)
{
        size_t n = 0;

        while (n < s.n && is_hex(s.p[n]))
                n++;
        return n == ID_SHA1 || n == ID_SHA256 ? n : 0;
}

static void name_first(struct git_answer *a, struct slice s)
{
        size_t n = id_bytes(s);

        if (n && (n == s.n || s.p[n] == ' '))
                a->name(a->ctx, slice_first(s, n));
}

/* "ID refs/tags/v1 peeled:ID", "shallow ID", "unshallow ID"; what says nothing of an object ("NAK", "ready", the names of sections) is passed over. */
static void answer_line(struct git_answer *a)
{
        static const struct slice shallow = SLICE_LIT("shallow "), unshallow = SLICE_LIT("unshallow "), peeled = SLICE_LIT(" peeled:");
        struct slice line = slice_of(a->line, a->have);
        const uint8_t *at;

        if (line.n && line.p[line.n - 1] == '\n')
                line.n--;
        if (slice_is(line, "packfile") || slice_is(line, "packfile-uris")) {
                a->done = true;
                return;
        }
        if (slice_starts(line, shallow) || slice_starts(line, unshallow)) {
                name_first(a, slice_skip(line, (size_t)slice_find(line, ' ') + 1));
                return;
        }
        name_first(a, line);
        at = id_bytes(line) ? memmem(line.p, line.n, peeled.p, peeled.n) : NULL;
        if (at)
                name_first(a, slice_skip(line, (size_t)(at - line.p) + peeled.n));
}

static void answer_length(struct git_answer *a)
{
        int n = length_of(a->line);

        a->have = 0;
        if (n < 0 || n == 3)
                a->done = true;
        else if (n > LENGTH_DIGITS) {
                a->need = (size_t)n - LENGTH_DIGITS;
                a->skip = a->need > GIT_LINE_BYTES ? a->need - GIT_LINE_BYTES : 0;
                a->need -= a->skip;
        }
}

void git_answer_begin(struct git_answer *a, void (*name)(void *ctx, struct slice id), void *ctx) { *a = (struct git_answer){ .name = name, .ctx = ctx }; }

void git_answer_feed(struct git_answer *a, struct slice in)
{
        while (in.n && !a->done) {
                size_t need = a->need ? a->need : LENGTH_DIGITS, left = need - a->have, n = left ? left : a->skip;

                n = in.n < n ? in.n : n;
                if (left)
                        memcpy(a->line + a->have, in.p, n);
                a->have += left ? n : 0;
                a->skip -= left ? 0 : n;
                in = slice_skip(in, n);
                if (a->have < need || (a->need && a->skip))
                        continue;
                if (!a->need) {
                        answer_length(a);
                        continue;
                }
                answer_line(a);
                a->have = a->need = 0;
        }
}
