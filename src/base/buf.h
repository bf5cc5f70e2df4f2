/* Byte queue: append at the end, consume at the front. Grows to a named limit; failure is sticky so that a writer may check once. */
#ifndef BROME_BASE_BUF_H
#define BROME_BASE_BUF_H

#include "base/slice.h"

struct buf {
        uint8_t *bytes;
        size_t start, end, cap;
        size_t limit_bytes; /* of unread bytes; 0: no limit */
        bool failed;        /* an append did not fit; all later appends fail too */
        bool wipe;          /* set after buf_init: what leaves the queue, moves or is freed is overwritten where it stood, since a secret may be in it */
};

void buf_init(struct buf *b, size_t limit_bytes);
void buf_fini(struct buf *b);
static inline size_t buf_len(const struct buf *b) { return b->end - b->start; }
static inline struct slice buf_slice(const struct buf *b) { return slice_of(b->bytes ? b->bytes + b->start : NULL, buf_len(b)); }
/* Room for at least n more bytes at the end, or NULL (limit, memory). Follow with buf_commit. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
/* 0, or -1 (nothing appended). */
int buf_add(struct buf *b, const void *p, size_t n);
static inline int buf_add_slice(struct buf *b, struct slice s) { return buf_add(b, s.p, s.n); }
static inline int buf_add_str(struct buf *b, const char *s) { return buf_add(b, s, strlen(s)); }
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drops n bytes from the front (n ≤ buf_len). Storage is given back when the queue runs empty and is large. */
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);

#endif
