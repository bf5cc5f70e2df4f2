/* Paths: canonical of canonical is itself; a canonical path, decoded twice, has no dot or empty segment, backslash, ";" or control. */
#include "base/override.h"
#include "fuzz_wire.h"
#include "wire/path.h"

/* One percent-decoding as an origin might do it. */
static size_t decode(uint8_t *out, struct slice s)
{
        static const char digits[] = "0123456789ABCDEFabcdef";
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                const char *high = NULL, *low = NULL;

                if (s.p[i] == '%' && s.n - i > 2 && s.p[i + 1] && s.p[i + 2]) {
                        high = strchr(digits, s.p[i + 1]);
                        low = strchr(digits, s.p[i + 2]);
                }
                if (high && low) {
                        size_t h = (size_t)(high - digits), l = (size_t)(low - digits);

                        out[n++] = (uint8_t)((h > 15 ? h - 6 : h) << 4 | (l > 15 ? l - 6 : l));
                        i += 2;
                } else {
                        out[n++] = s.p[i];
                }
        }
        return n;
}

static void check_segments(struct slice path)
{
        struct slice rest = slice_skip(path, 1);

        HOLDS(path.p[0] == '/');
        while (rest.n) {
                ptrdiff_t slash = slice_find(rest, '/');
                struct slice segment = slash < 0 ? rest : slice_first(rest, (size_t)slash);

                HOLDS(segment.n > 0 && !slice_is(segment, ".") && !slice_is(segment, ".."));
                rest = slice_skip(rest, segment.n + (slash < 0 ? 0 : 1));
        }
        for (size_t i = 0; i < path.n; i++)
                HOLDS(path.p[i] != '\\' && path.p[i] != ';' && path.p[i] >= 0x20 && path.p[i] != 0x7f);
}

static void check_query(struct slice query)
{
        struct slice key, value;
        uint8_t *out = malloc(query.n ? query.n : 1);

        HOLDS(out);
        for (size_t i = 0; i < query.n; i++)
                HOLDS(query.p[i] > 0x20 && query.p[i] < 0x7f && query.p[i] != '#');
        (void)override_query(query);
        while (query_next(&query, &key, &value))
                HOLDS(query_decode(out, key) <= key.n);
        free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct path p, again;
        struct buf text;
        struct arena a;
        uint8_t *once, *twice;
        size_t m;

        arena_init(&a, 8u << 20);
        if (n < 8192 && path_canonical(&a, slice_of(data, n), &p) == WIRE_OK) {
                buf_init(&text, 0);
                buf_add_slice(&text, p.path);
                if (p.has_query) {
                        buf_add_str(&text, "?");
                        buf_add_slice(&text, p.query);
                }
                HOLDS(!text.failed);
                HOLDS(p.changed == !slice_eq(buf_slice(&text), slice_of(data, n)));
                HOLDS(path_canonical(&a, buf_slice(&text), &again) == WIRE_OK && !again.changed);
                HOLDS(slice_eq(again.path, p.path) && slice_eq(again.query, p.query) && again.has_query == p.has_query);
                once = malloc(p.path.n);
                twice = malloc(p.path.n);
                HOLDS(once && twice);
                m = decode(once, p.path);
                HOLDS(utf8_ok(slice_of(once, m)));
                check_segments(slice_of(once, m));
                m = decode(twice, slice_of(once, m));
                check_segments(slice_of(twice, m));
                if (p.slashed.n)
                        check_segments(p.slashed);
                check_query(p.query);
                free(once);
                free(twice);
                buf_fini(&text);
        }
        arena_fini(&a);
        return 0;
}
