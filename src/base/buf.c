/* Byte queue: see buf.h. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUF_FIRST_BYTES = 256, BUF_KEEP_BYTES = 32 * 1024 };

void buf_init(struct buf *b, size_t limit_bytes) { *b = (struct buf){ .limit_bytes = limit_bytes }; }

static void forget(const struct buf *b, size_t from, size_t to)
{
        if (b->wipe && from < to)
                explicit_bzero(b->bytes + from, to - from);
}

/* What was consumed was wiped then. */
static void give_back(struct buf *b)
{
        forget(b, b->start, b->end);
        free(b->bytes);
}

void buf_fini(struct buf *b)
{
        give_back(b);
        *b = (struct buf){ .limit_bytes = b->limit_bytes, .wipe = b->wipe };
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
        size_t len = buf_len(b), cap;
        uint8_t *bytes;

        if (b->failed || n > SIZE_MAX / 4 - len || (b->limit_bytes && (len > b->limit_bytes || n > b->limit_bytes - len))) {
                b->failed = true;
                return NULL;
        }
        if (n <= b->cap - b->end)
                return b->bytes ? b->bytes + b->end : NULL; /* nothing asked of an empty buffer */
        if (b->start && len + n <= b->cap && len <= b->start) {
                memcpy(b->bytes, b->bytes + b->start, len);
                forget(b, b->start, b->end);
                b->start = 0;
                b->end = len;
                return b->bytes + b->end;
        }
        cap = b->cap ? b->cap : BUF_FIRST_BYTES;
        while (cap < len + n)
                cap *= 2;
        bytes = malloc(cap);
        if (!bytes) {
                b->failed = true;
                return NULL;
        }
        if (len)
                memcpy(bytes, b->bytes + b->start, len);
        give_back(b);
        b->bytes = bytes;
        b->cap = cap;
        b->start = 0;
        b->end = len;
        return b->bytes + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
        assert(n <= b->cap - b->end);
        b->end += n;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
        uint8_t *to = n ? buf_reserve(b, n) : NULL;

        if (!to)
                return b->failed ? -1 : 0;
        memcpy(to, p, n);
        b->end += n;
        return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
        va_list ap;
        int n;
        uint8_t *to;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        if (n < 0 || !(to = buf_reserve(b, (size_t)n + 1)))
                return -1;
        va_start(ap, fmt);
        vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->end += (size_t)n;
        return 0;
}

void buf_consume(struct buf *b, size_t n)
{
        assert(n <= buf_len(b));
        forget(b, b->start, b->start + n);
        b->start += n;
        if (b->start < b->end)
                return;
        b->start = b->end = 0;
        if (b->cap > BUF_KEEP_BYTES) {
                free(b->bytes);
                b->bytes = NULL;
                b->cap = 0;
        }
}

void buf_clear(struct buf *b)
{
        buf_consume(b, buf_len(b));
        b->failed = false;
}
