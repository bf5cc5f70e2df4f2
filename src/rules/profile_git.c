/* The body of a git fetch, read as it comes: see profile.h. Packet lines (gitprotocol-common): four hexadecimal digits of length, themselves counted, then the line;
 * 0000 ends the request, 0001 ends the capabilities.
 *
 * A guest may say what a reader says: which refs, which objects. Free text (server options, session ids, an agent's name of its own making) is refused. */
#include "rules/profile.h"

enum { LENGTH_DIGITS = 4, REF_BYTES = 255, AGENT_BYTES = 48, ID_SHA1 = 40, ID_SHA256 = 64 };

static bool refuse(struct git_body *g, const char *problem)
{
        g->problem = problem;
        g->part = GIT_END;
        return false;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------------------- */

static bool is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
static bool is_alnum(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

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

/* A ref's name or the beginning of one (git-check-ref-format), printable ASCII. */
static bool value_ref(const struct git_body *g, struct slice v)
{
        (void)g;
        for (size_t i = 0; i < v.n; i++)
                if (v.p[i] <= ' ' || v.p[i] >= 0x7f || strchr("~^:?*[\\", v.p[i]) || (i && v.p[i] == '.' && v.p[i - 1] == '.') || (i && v.p[i] == '/' && v.p[i - 1] == '/'))
                        return false;
        return v.n && v.n <= REF_BYTES;
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

/* ---- lines -------------------------------------------------------------------------------------------------------------------------------------- */

struct argument {
        const char *word; /* with its blank when a value follows */
        bool (*value)(const struct git_body *g, struct slice v);
};
static const struct argument ls_refs_arguments[] = { { "peel", value_none }, { "symrefs", value_none }, { "unborn", value_none }, { "ref-prefix ", value_ref }, { NULL, NULL } };
static const struct argument fetch_arguments[] = { { "want ", value_id },
                                                   { "have ", value_id },
                                                   { "done", value_none },
                                                   { "thin-pack", value_none },
                                                   { "no-progress", value_none },
                                                   { "include-tag", value_none },
                                                   { "ofs-delta", value_none },
                                                   { "shallow ", value_id },
                                                   { "deepen ", value_number },
                                                   { "deepen-relative", value_none },
                                                   { "deepen-since ", value_number },
                                                   { "deepen-not ", value_ref },
                                                   { "filter ", value_filter },
                                                   { "wait-for-done", value_none },
                                                   { NULL, NULL } };

static bool line_argument(struct git_body *g, struct slice line)
{
        for (const struct argument *a = g->fetch ? fetch_arguments : ls_refs_arguments; a->word; a++) {
                struct slice word = slice_str(a->word);
                if (slice_starts(line, word) && a->value(g, slice_skip(line, word.n)))
                        return true;
        }
        return refuse(g, g->fetch ? "an argument that a git fetch does not need" : "an argument that listing refs does not need");
}

/* "git/2.43.0", "git/2.39.3.(Apple.Git-146)", "git/2.50.0-Linux" */
static bool is_agent(struct slice v)
{
        if (!slice_starts(v, SLICE_LIT("git/")) || v.n > AGENT_BYTES)
                return false;
        for (size_t i = 4; i < v.n; i++)
                if (!is_alnum(v.p[i]) && (!v.p[i] || !strchr("._+()-", v.p[i])))
                        return false;
        return v.n > 4;
}

static bool line_capability(struct git_body *g, struct slice line)
{
        static const struct slice agent = SLICE_LIT("agent="), format = SLICE_LIT("object-format=");

        if (slice_starts(line, agent) && is_agent(slice_skip(line, agent.n)) && !g->agent) {
                g->agent = true;
                return true;
        }
        if (slice_starts(line, format) && !g->format) {
                struct slice v = slice_skip(line, format.n);
                g->format = true;
                g->sha256 = slice_is(v, "sha256");
                if (g->sha256 || slice_is(v, "sha1"))
                        return true;
        }
        return refuse(g, "a capability that a reader does not need");
}

static bool line_command(struct git_body *g, struct slice line)
{
        g->fetch = slice_is(line, "command=fetch");
        g->part = GIT_CAPABILITIES;
        return g->fetch || slice_is(line, "command=ls-refs") || refuse(g, "a command other than `fetch` and `ls-refs`");
}

static bool take_line(struct git_body *g)
{
        struct slice line = slice_of(g->line, g->need);

        g->have = g->need = 0;
        if (++g->lines > GIT_LINES_MAX)
                return refuse(g, "too many lines");
        if (line.p[line.n - 1] == '\n')
                line.n--;
        switch (g->part) {
        case GIT_COMMAND:
                return line_command(g, line);
        case GIT_CAPABILITIES:
                return line_capability(g, line);
        case GIT_ARGUMENTS:
                return line_argument(g, line);
        case GIT_END:
                break;
        }
        return refuse(g, "something follows the end of the request");
}

/* ---- packets ------------------------------------------------------------------------------------------------------------------------------------ */

/* The four digits stand in `line`. */
static bool take_length(struct git_body *g)
{
        size_t n = 0;

        for (size_t i = 0; i < LENGTH_DIGITS; i++) {
                if (!is_hex(g->line[i]))
                        return refuse(g, "not git's packet lines");
                n = n << 4 | (size_t)(g->line[i] <= '9' ? g->line[i] - '0' : g->line[i] - 'a' + 10);
        }
        g->have = 0;
        if (n == 0 && (g->part != GIT_COMMAND || g->lines == 0)) {
                g->part = GIT_END;
                return true;
        }
        if (n == 1 && g->part == GIT_CAPABILITIES) {
                g->part = GIT_ARGUMENTS;
                return true;
        }
        if (n <= LENGTH_DIGITS)
                return refuse(g, "a packet that has no place here");
        g->need = n - LENGTH_DIGITS;
        return g->need <= GIT_LINE_BYTES || refuse(g, "a line longer than any that a reader sends");
}

void git_body_begin(struct git_body *g) { *g = (struct git_body){ .part = GIT_COMMAND }; }

bool git_body_feed(struct git_body *g, struct slice in)
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
                if (n == want && !(g->need ? take_line(g) : take_length(g)))
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
