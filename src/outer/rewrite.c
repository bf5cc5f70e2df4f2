/* URLs of a mirror: see rewrite.h. */
#include "outer/rewrite.h"

#include <stdio.h>

static const struct slice scheme_text = SLICE_LIT("https://");

int rewrite_init(struct rewrite *r, struct arena *a, const struct authority *from, struct slice base, const struct authority *to, enum scheme scheme)
{
        char text[AUTHORITY_TEXT_BYTES], url[AUTHORITY_TEXT_BYTES + 16];
        bool ok = true;
        struct slice host = authority_print(text, to, scheme);
        int n = snprintf(url, sizeof(url), "%s://%.*s/", scheme_name(scheme), SLICE_FMT(host));

        *r = (struct rewrite){ .port = from->port };
        buf_init(&r->keep, 0);
        if (from->is_addr || base.n > REWRITE_URL_BYTES_MAX - AUTHORITY_TEXT_BYTES)
                return -1;
        r->host = arena_copy(a, from->name, &ok);
        r->base = arena_copy(a, base, &ok);
        r->to = arena_copy(a, slice_of(url, (size_t)n), &ok);
        return ok ? 0 : -1;
}

void rewrite_fini(struct rewrite *r) { buf_fini(&r->keep); }

/* ---- matching ---------------------------------------------------------------------------------------------------------------------------- */

enum match { MATCH_NO, MATCH_MORE, MATCH_YES };

struct cursor {
        struct slice s;
        size_t at;
        bool escaped, seen; /* the first slash was `\/`; it was seen */
};

/* Reads the text at the cursor: letters in any case where `fold`, slashes as they come. */
static enum match eat(struct cursor *c, struct slice text, bool fold)
{
        for (size_t i = 0; i < text.n; i++) {
                bool slash = text.p[i] == '/', escaped = false;

                if (c->at == c->s.n)
                        return MATCH_MORE;
                if (slash && c->s.p[c->at] == '\\') {
                        escaped = true;
                        if (++c->at == c->s.n)
                                return MATCH_MORE;
                }
                if (fold ? ascii_lower(c->s.p[c->at]) != ascii_lower(text.p[i]) : c->s.p[c->at] != text.p[i])
                        return MATCH_NO;
                c->at++;
                if (slash && !c->seen) {
                        c->seen = true;
                        c->escaped = escaped;
                }
        }
        return MATCH_YES;
}

/* The port, said or left out; the default one may be either. */
static enum match eat_port(struct cursor *c, uint16_t port)
{
        char text[8];
        int n = snprintf(text, sizeof(text), ":%u", (unsigned)port);

        if (c->at == c->s.n)
                return MATCH_MORE;
        if (c->s.p[c->at] != ':')
                return port == scheme_port(SCHEME_HTTPS) ? MATCH_YES : MATCH_NO;
        return eat(c, slice_of(text, (size_t)n), false);
}

/* Does a URL of the base begin there? *n: how long it is. */
static enum match match_at(const struct rewrite *r, struct slice s, size_t *n, bool *escaped)
{
        struct cursor c = { .s = s };
        enum match m = eat(&c, scheme_text, true);

        if (m == MATCH_YES)
                m = eat(&c, r->host, true);
        if (m == MATCH_YES)
                m = eat_port(&c, r->port);
        if (m == MATCH_YES)
                m = eat(&c, r->base, false);
        *n = c.at;
        *escaped = c.escaped;
        return m;
}

static int add_url(struct buf *out, struct slice url, bool escaped)
{
        for (size_t i = 0; i < url.n; i++)
                if ((escaped && url.p[i] == '/' && buf_add(out, "\\", 1) < 0) || buf_add(out, url.p + i, 1) < 0)
                        return -1;
        return 0;
}

/* ---- bodies -------------------------------------------------------------------------------------------------------------------------------- */

static size_t next_h(struct slice s, size_t from)
{
        struct slice rest = slice_skip(s, from);
        ptrdiff_t small = slice_find(rest, 'h'), big = slice_find(small < 0 ? rest : slice_first(rest, (size_t)small), 'H');

        return big >= 0 ? from + (size_t)big : small >= 0 ? from + (size_t)small : s.n;
}

/* Writes all of s that is decided; *used: how much that is. */
static int pass(struct rewrite *r, struct slice s, bool last, size_t *used, struct buf *out)
{
        size_t at = 0, from = 0, n;
        bool escaped;

        for (at = next_h(s, 0); at < s.n; at = next_h(s, at)) {
                enum match m = match_at(r, slice_skip(s, at), &n, &escaped);

                if (m == MATCH_MORE && !last)
                        break;
                if (m != MATCH_YES) {
                        at++;
                        continue;
                }
                if (buf_add_slice(out, slice_of(s.p + from, at - from)) < 0 || add_url(out, r->to, escaped) < 0)
                        return -1;
                r->found++;
                at += n;
                from = at;
        }
        *used = at;
        return at > from ? buf_add_slice(out, slice_of(s.p + from, at - from)) : 0;
}

int rewrite_feed(struct rewrite *r, struct slice in, bool last, struct buf *out)
{
        size_t used;

        /* What is kept is shorter than a URL: it is looked at again with as much of what follows as decides it. */
        while (buf_len(&r->keep) && (in.n || last)) {
                size_t had = buf_len(&r->keep), part = in.n < REWRITE_URL_BYTES_MAX ? in.n : REWRITE_URL_BYTES_MAX;

                if (buf_add_slice(&r->keep, slice_first(in, part)) < 0 || pass(r, buf_slice(&r->keep), last && part == in.n, &used, out) < 0)
                        return -1;
                if (used >= had) { /* the rest stands in `in` */
                        in = slice_skip(in, used - had);
                        buf_clear(&r->keep);
                        break;
                }
                buf_consume(&r->keep, used);
                in = slice_skip(in, part);
                if (!in.n && !last)
                        return 0;
        }
        if (buf_len(&r->keep))
                return 0;
        if (pass(r, in, last, &used, out) < 0)
                return -1;
        return buf_add_slice(&r->keep, slice_skip(in, used));
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------------------ */

/* A path alone stands at the value's beginning, or in angle brackets (Link). */
static bool path_begins(struct slice value, size_t at) { return at == 0 || value.p[at - 1] == '<'; }

int rewrite_field(const struct rewrite *r, struct slice value, struct buf *out)
{
        size_t from = 0, n;
        bool escaped, changed = false;

        for (size_t at = 0; at < value.n;) {
                struct slice rest = slice_skip(value, at), to = r->to;

                if (path_begins(value, at) && slice_starts(rest, r->base)) {
                        n = r->base.n;
                        to = SLICE_LIT("/");
                } else if (match_at(r, rest, &n, &escaped) != MATCH_YES) {
                        at++;
                        continue;
                }
                if (buf_add_slice(out, slice_of(value.p + from, at - from)) < 0 || buf_add_slice(out, to) < 0)
                        return -1;
                at += n;
                from = at;
                changed = true;
        }
        if (!changed)
                return 0;
        return buf_add_slice(out, slice_skip(value, from)) < 0 ? -1 : 1;
}
