/* Slices: untrusted bytes as pointer and length, by value. A slice borrows; it never owns and is never NUL terminated. */
#ifndef BROME_BASE_SLICE_H
#define BROME_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
        const uint8_t *p;
        size_t n;
};

#define SLICE_LIT(s) ((struct slice){ (const uint8_t *)("" s ""), sizeof(s) - 1 })
#define SLICE_EMPTY ((struct slice){ NULL, 0 })
/* For printf: "%.*s" — only for text already known to be printable. */
#define SLICE_FMT(s) (int)(s).n, (const char *)(s).p

static inline struct slice slice_of(const void *p, size_t n) { return (struct slice){ p, n }; }
static inline struct slice slice_str(const char *s) { return (struct slice){ (const uint8_t *)s, s ? strlen(s) : 0 }; }

static inline bool slice_eq(struct slice a, struct slice b)
{
        return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool slice_is(struct slice a, const char *s) { return slice_eq(a, slice_str(s)); }

static inline uint8_t ascii_lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c; }

/* ASCII case-insensitive equality; never locale dependent. */
static inline bool slice_ieq(struct slice a, struct slice b)
{
        if (a.n != b.n)
                return false;
        for (size_t i = 0; i < a.n; i++)
                if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
                        return false;
        return true;
}
static inline bool slice_iis(struct slice a, const char *s) { return slice_ieq(a, slice_str(s)); }

static inline bool slice_starts(struct slice a, struct slice prefix)
{
        return a.n >= prefix.n && (prefix.n == 0 || memcmp(a.p, prefix.p, prefix.n) == 0);
}
static inline bool slice_ends(struct slice a, struct slice suffix)
{
        return a.n >= suffix.n && (suffix.n == 0 || memcmp(a.p + (a.n - suffix.n), suffix.p, suffix.n) == 0);
}
/* The rest after the first `skip` bytes; empty when there are fewer. */
static inline struct slice slice_skip(struct slice a, size_t skip)
{
        return skip >= a.n ? (struct slice){ a.p ? a.p + a.n : NULL, 0 } : (struct slice){ a.p + skip, a.n - skip };
}
static inline struct slice slice_first(struct slice a, size_t n) { return (struct slice){ a.p, n < a.n ? n : a.n }; }

/* Index of byte c, or -1. */
static inline ptrdiff_t slice_find(struct slice a, uint8_t c)
{
        const uint8_t *q = a.n ? memchr(a.p, c, a.n) : NULL;
        return q ? q - a.p : -1;
}

#endif
