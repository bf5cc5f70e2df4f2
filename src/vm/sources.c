/* sources.list(5): see sources.h. */
#include "vm/sources.h"

enum { WORDS = 64 }; /* addresses, suites, components of one entry */

struct words {
        struct slice w[WORDS];
        size_t n;
};

enum field { F_TYPES, F_URIS, F_SUITES, F_COMPONENTS, F_SIGNED_BY, F_ENABLED, F_COUNT };
static const char *const field_names[F_COUNT] = { "Types", "URIs", "Suites", "Components", "Signed-By", "Enabled" };

struct stanza {
        struct slice value[F_COUNT]; /* borrowed, from behind the colon up to the last line that continues it */
};

void sources_init(struct sources *s)
{
        *s = (struct sources){ 0 };
        buf_init(&s->with_logins, SOURCES_OUT_BYTES);
        buf_init(&s->text, SOURCES_OUT_BYTES);
}

void sources_fini(struct sources *s)
{
        buf_fini(&s->with_logins);
        buf_fini(&s->text);
}

static bool blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static struct slice trim(struct slice s)
{
        while (s.n > 0 && blank(s.p[0]))
                s = slice_skip(s, 1);
        while (s.n > 0 && blank(s.p[s.n - 1]))
                s.n--;
        return s;
}

static struct slice line_cut(struct slice *rest)
{
        ptrdiff_t i = slice_find(*rest, '\n');
        struct slice line = i < 0 ? *rest : slice_first(*rest, (size_t)i);

        *rest = i < 0 ? SLICE_EMPTY : slice_skip(*rest, (size_t)i + 1);
        return line;
}

/* -1: too many, or a byte that no address, suite or path has. */
static int words_split(struct slice s, struct words *out)
{
        out->n = 0;
        for (size_t i = 0; i < s.n;) {
                size_t start;
                while (i < s.n && blank(s.p[i]))
                        i++;
                for (start = i; i < s.n && !blank(s.p[i]); i++)
                        if (s.p[i] < ' ' || s.p[i] >= 0x7f)
                                return -1;
                if (i == start)
                        break;
                if (out->n == WORDS)
                        return -1;
                out->w[out->n++] = slice_of(s.p + start, i - start);
        }
        return 0;
}

static bool words_have(const struct words *w, const char *word)
{
        for (size_t i = 0; i < w->n; i++)
                if (slice_is(w->w[i], word))
                        return true;
        return false;
}

/* Components: no address, no login. */
static bool plain_words(const struct words *w)
{
        for (size_t i = 0; i < w->n; i++)
                if (slice_find(w->w[i], '@') >= 0 || slice_find(w->w[i], ':') >= 0)
                        return false;
        return true;
}

/* SUITE or SUITE-…; "SUITE/" (a flat one) is not. */
static bool suite_ok(struct slice s, const char *suite)
{
        size_t n = strlen(suite);

        return slice_is(s, suite) || (slice_starts(s, slice_str(suite)) && s.n > n + 1 && s.p[n] == '-' && slice_find(s, '/') < 0 && slice_find(s, ':') < 0);
}

static struct words suites_kept(struct words all, const char *suite)
{
        struct words kept = { .n = 0 };

        for (size_t i = 0; i < all.n; i++)
                if (suite_ok(all.w[i], suite))
                        kept.w[kept.n++] = all.w[i];
        return kept;
}

static struct words uris_kept(struct words all)
{
        struct words kept = { .n = 0 };

        for (size_t i = 0; i < all.n; i++)
                if (slice_starts(all.w[i], SLICE_LIT("http://")) || slice_starts(all.w[i], SLICE_LIT("https://")))
                        kept.w[kept.n++] = all.w[i];
        return kept;
}

/* Without "user:password@". */
static void add_uri(struct buf *out, struct slice uri, bool logins)
{
        size_t host = slice_starts(uri, SLICE_LIT("https://")) ? 8 : 7, from = host;

        for (size_t i = host; !logins && i < uri.n && uri.p[i] != '/'; i++)
                if (uri.p[i] == '@')
                        from = i + 1;
        buf_add(out, " ", 1);
        buf_add_slice(out, slice_first(uri, host));
        buf_add_slice(out, slice_skip(uri, from));
}

static void add_words(struct buf *out, const char *name, const struct words *w)
{
        buf_addf(out, "%s:", name);
        for (size_t i = 0; i < w->n; i++) {
                buf_add(out, " ", 1);
                buf_add_slice(out, w->w[i]);
        }
        buf_add(out, "\n", 1);
}

static void key_add(struct sources *s, struct slice path)
{
        for (size_t i = 0; i < s->key_count; i++)
                if (slice_is(path, s->keys[i]))
                        return;
        if (s->key_count < SOURCES_KEYS && path.n < SOURCES_PATH_BYTES) {
                memcpy(s->keys[s->key_count], path.p, path.n);
                s->keys[s->key_count++][path.n] = 0;
        }
}

/* A key in the text itself is many lines; paths and fingerprints are words. */
static void add_signed_by(struct sources *s, struct slice value)
{
        struct words w;

        if (trim(value).n == 0)
                return;
        if (slice_find(trim(value), '\n') < 0 && words_split(value, &w) == 0)
                for (size_t i = 0; i < w.n; i++)
                        if (w.w[i].p[0] == '/')
                                key_add(s, w.w[i]);
        for (int i = 0; i < 2; i++) {
                struct buf *out = i ? &s->with_logins : &s->text;
                buf_add_str(out, blank(value.p[0]) ? "Signed-By:" : "Signed-By: ");
                buf_add_slice(out, value);
                buf_add(out, "\n", 1);
        }
}

static int take(struct sources *s, const struct stanza *st, const char *suite)
{
        struct words types, uris, suites, components;
        struct slice enabled = trim(st->value[F_ENABLED]);

        if (slice_iis(enabled, "no") || slice_iis(enabled, "false") || slice_is(enabled, "0") || words_split(st->value[F_TYPES], &types) < 0 ||
            words_split(st->value[F_URIS], &uris) < 0 || words_split(st->value[F_SUITES], &suites) < 0 || words_split(st->value[F_COMPONENTS], &components) < 0)
                return 0;
        suites = suites_kept(suites, suite);
        uris = uris_kept(uris);
        if (!words_have(&types, "deb") || uris.n == 0 || suites.n == 0 || !words_have(&components, "main") || !plain_words(&components))
                return 0;
        for (int i = 0; i < 2; i++) {
                struct buf *out = i ? &s->with_logins : &s->text;
                buf_addf(out, "%sTypes: deb\nURIs:", s->count ? "\n" : "");
                for (size_t u = 0; u < uris.n; u++)
                        add_uri(out, uris.w[u], i == 1);
                buf_add(out, "\n", 1);
                add_words(out, field_names[F_SUITES], &suites);
                add_words(out, field_names[F_COMPONENTS], &components);
        }
        add_signed_by(s, st->value[F_SIGNED_BY]);
        s->count++;
        return s->text.failed || s->with_logins.failed ? -1 : 0;
}

static int field_of(struct slice name)
{
        for (int i = 0; i < F_COUNT; i++)
                if (slice_iis(name, field_names[i]))
                        return i;
        return -1;
}

/* Takes the lines that continue a field, and the comments between them, off *rest. */
static struct slice value_with_more(struct slice *rest, struct slice first)
{
        struct slice value = first;

        while (rest->n > 0 && (rest->p[0] == ' ' || rest->p[0] == '\t') && trim(line_cut(&(struct slice){ rest->p, rest->n })).n > 0) {
                struct slice line = line_cut(rest);
                value.n = (size_t)(line.p + line.n - value.p);
        }
        return value;
}

static int add_deb822(struct sources *s, struct slice text, const char *suite)
{
        struct stanza st = { 0 };
        int rc = 0;

        while (text.n > 0 && rc == 0) {
                struct slice line = line_cut(&text);
                ptrdiff_t colon;
                int field;
                if (line.n > 0 && line.p[0] == '#')
                        continue;
                if (trim(line).n == 0) {
                        rc = take(s, &st, suite);
                        st = (struct stanza){ 0 };
                        continue;
                }
                colon = slice_find(line, ':');
                field = colon > 0 ? field_of(trim(slice_first(line, (size_t)colon))) : -1;
                line = value_with_more(&text, slice_skip(line, (size_t)(colon + 1)));
                if (field >= 0)
                        st.value[field] = line;
        }
        return rc < 0 ? rc : take(s, &st, suite);
}

/* Of "[arch=amd64 signed-by=/a,/b]": what is behind signed-by=, which apt separates with commas; only a single path is taken over. */
static struct slice option_signed_by(struct slice options)
{
        struct words w;

        if (words_split(options, &w) == 0)
                for (size_t i = 0; i < w.n; i++)
                        if (slice_starts(w.w[i], SLICE_LIT("signed-by=")) && slice_find(w.w[i], ',') < 0)
                                return slice_skip(w.w[i], strlen("signed-by"));
        return SLICE_EMPTY;
}

static int add_line(struct sources *s, struct slice line, const char *suite)
{
        struct stanza st = { 0 };
        struct slice options = SLICE_EMPTY, rest;
        struct words w;
        ptrdiff_t hash = slice_find(line, '#');

        line = trim(hash < 0 ? line : slice_first(line, (size_t)hash));
        if (!slice_starts(line, SLICE_LIT("deb ")) && !slice_starts(line, SLICE_LIT("deb\t")))
                return 0;
        st.value[F_TYPES] = slice_first(line, 3);
        rest = trim(slice_skip(line, 3));
        if (rest.n > 0 && rest.p[0] == '[') {
                ptrdiff_t end = slice_find(rest, ']');
                if (end < 0)
                        return 0;
                options = slice_of(rest.p + 1, (size_t)end - 1);
                rest = trim(slice_skip(rest, (size_t)end + 1));
        }
        if (words_split(rest, &w) < 0 || w.n < 3)
                return 0;
        st.value[F_URIS] = w.w[0];
        st.value[F_SUITES] = w.w[1];
        st.value[F_COMPONENTS] = slice_of(w.w[2].p, (size_t)(rest.p + rest.n - w.w[2].p));
        options = option_signed_by(options);
        if (options.n > 1) /* "=/path": the sign stands where deb822 has a space */
                st.value[F_SIGNED_BY] = slice_skip(options, 1);
        return take(s, &st, suite);
}

int sources_add(struct sources *s, struct slice text, bool deb822, const char *suite)
{
        int rc = 0;

        if (text.n > SOURCES_FILE_BYTES || memchr(text.p ? text.p : (const uint8_t *)"", 0, text.n))
                return -1;
        if (deb822)
                return add_deb822(s, text, suite);
        while (text.n > 0 && rc == 0)
                rc = add_line(s, line_cut(&text), suite);
        return rc;
}
