/* Totals: hosts, summary and refusals, each a fold over reader_trace; leaks over reader_timeline, since a warning is a note. */
#include "journal/reader_priv.h"

#include <stdlib.h>

enum { FOLD_ARENA_BYTES = 256 << 20 };

static uint64_t stands_for(const struct event_record *e) { return event_has(e, EVENT_COUNT) && e->num[EVENT_COUNT] ? e->num[EVENT_COUNT] : 1; }
static bool refused(const struct event_record *e) { return slice_is(e->text[EVENT_DECISION], "deny"); }
/* Numbers come from doors: a sum that would wrap stays at the top. */
static void add(uint64_t *to, uint64_t n) { *to = n > UINT64_MAX - *to ? UINT64_MAX : *to + n; }

/* A table whose keys carry a value of a fixed size. */
struct fold {
        struct arena arena;
        struct table table;
        uint8_t *values;
        size_t size, cap;
        bool failed;
};

static void fold_init(struct fold *f, size_t size)
{
        *f = (struct fold){ .size = size, .table.arena = &f->arena };
        arena_init(&f->arena, FOLD_ARENA_BYTES);
}
static void fold_fini(struct fold *f)
{
        table_fini(&f->table);
        free(f->values);
        arena_fini(&f->arena);
}

/* The key's value, zeroed when new; NULL when memory is out, then f->failed. */
static void *fold_at(struct fold *f, struct slice key, bool *made)
{
        ptrdiff_t i = table_index(&f->table, key, made);

        if (i >= 0 && (size_t)i >= f->cap) {
                size_t cap = f->cap ? f->cap * 2 : 64;
                uint8_t *values = realloc(f->values, cap * f->size);
                if (!values)
                        i = -1;
                else
                        f->values = values, f->cap = cap;
        }
        if (i < 0) {
                f->failed = true;
                return NULL;
        }
        if (*made)
                memset(f->values + (size_t)i * f->size, 0, f->size);
        return f->values + (size_t)i * f->size;
}

static int fold_rows(struct reader *r, const struct filter *filter, row_fn *fn, struct fold *f, struct err *err)
{
        struct filter all = *filter;

        all.limit = 0;
        if (reader_trace(r, &all, fn, f, err) < 0)
                return -1;
        return f->failed ? err_set(err, "too much to count at once: use --since") : 0;
}

/* ---- hosts ---- */

static int host_add(void *ctx, const struct row *row)
{
        struct fold *f = ctx;
        const struct event_record *e = &row->event;
        bool made;
        struct host_row *h = e->text[EVENT_HOST].n ? fold_at(f, e->text[EVENT_HOST], &made) : NULL;

        if (!h)
                return f->failed;
        add(refused(e) ? &h->denied : &h->allowed, stands_for(e));
        add(&h->bytes_up, e->num[EVENT_BYTES_UP]);
        add(&h->bytes_down, e->num[EVENT_BYTES_DOWN]);
        if (made || row->time_us < h->first_us)
                h->first_us = row->time_us;
        if (made || row->time_us > h->last_us)
                h->last_us = row->time_us;
        return 0;
}

static int by_host(const void *pa, const void *pb)
{
        const struct host_row *a = pa, *b = pb;
        size_t n = a->host.n < b->host.n ? a->host.n : b->host.n;
        int c = n ? memcmp(a->host.p, b->host.p, n) : 0;

        return c ? c : (a->host.n > b->host.n) - (a->host.n < b->host.n);
}

int reader_hostnames(struct reader *r, const struct filter *filter, host_fn *fn, void *ctx, struct err *err)
{
        struct fold f;
        int rc;

        fold_init(&f, sizeof(struct host_row));
        rc = fold_rows(r, filter, host_add, &f, err);
        if (rc == 0 && f.table.count) {
                struct host_row *rows = (struct host_row *)(void *)f.values;
                for (size_t i = 0; i < f.table.count; i++)
                        rows[i].host = f.table.keys[i];
                qsort(rows, f.table.count, sizeof(*rows), by_host);
                for (size_t i = 0; i < f.table.count && !fn(ctx, &rows[i]); i++)
                        ;
        }
        fold_fini(&f);
        return rc;
}

/* ---- summary ---- */

static struct slice summary_key(const struct row *row, enum summary_kind kind)
{
        switch (kind) {
        case SUMMARY_WORKSPACE: return row->workspace;
        case SUMMARY_HOST: return row->event.text[EVENT_HOST];
        case SUMMARY_RULE: return row->event.text[EVENT_RULE];
        case SUMMARY_REASON: return row->event.text[EVENT_REASON];
        case SUMMARY_TOTAL:
        case SUMMARY_KIND_COUNT: break;
        }
        return SLICE_EMPTY;
}

static int summary_add(void *ctx, const struct row *row)
{
        struct fold *f = ctx;
        const struct event_record *e = &row->event;

        for (int kind = 0; kind < SUMMARY_KIND_COUNT; kind++) {
                struct slice text = slice_first(summary_key(row, (enum summary_kind)kind), EVENT_TEXT_BYTES);
                uint8_t key[1 + EVENT_TEXT_BYTES] = { (uint8_t)kind };
                struct summary_row *s;
                bool made;
                if (kind != SUMMARY_TOTAL && !text.n)
                        continue;
                if (text.n)
                        memcpy(key + 1, text.p, text.n);
                s = fold_at(f, slice_of(key, 1 + text.n), &made);
                if (!s)
                        return 1;
                s->kind = (enum summary_kind)kind;
                add(refused(e) ? &s->denied : &s->allowed, stands_for(e));
                add(&s->bytes_up, e->num[EVENT_BYTES_UP]);
                add(&s->bytes_down, e->num[EVENT_BYTES_DOWN]);
        }
        return 0;
}

static int by_kind_and_traffic(const void *pa, const void *pb)
{
        const struct summary_row *a = pa, *b = pb;
        uint64_t na = a->allowed + a->denied, nb = b->allowed + b->denied;

        if (a->kind != b->kind)
                return a->kind < b->kind ? -1 : 1;
        return na == nb ? 0 : na > nb ? -1 : 1;
}

int reader_summary(struct reader *r, const struct filter *filter, summary_fn *fn, void *ctx, struct err *err)
{
        struct fold f;
        int rc;

        fold_init(&f, sizeof(struct summary_row));
        rc = fold_rows(r, filter, summary_add, &f, err);
        if (rc == 0 && f.table.count) {
                struct summary_row *rows = (struct summary_row *)(void *)f.values;
                for (size_t i = 0; i < f.table.count; i++)
                        rows[i].key = slice_skip(f.table.keys[i], 1);
                qsort(rows, f.table.count, sizeof(*rows), by_kind_and_traffic);
                for (size_t i = 0; i < f.table.count && !fn(ctx, &rows[i]); i++)
                        ;
        }
        fold_fini(&f);
        return rc;
}

/* ---- refusals ---- */

static const enum event_field refusal_key[] = { EVENT_PROTO, EVENT_HOST, EVENT_PORT, EVENT_METHOD, EVENT_PATH, EVENT_REASON };

/* A copy whose texts the fold owns. */
static void keep_texts(struct fold *f, struct event_record *e)
{
        bool ok = true;

        for (unsigned t = 1; t < EVENT_FIELD_COUNT; t++)
                e->text[t] = arena_copy(&f->arena, e->text[t], &ok);
        f->failed = f->failed || !ok;
}

static int refusal_add(void *ctx, const struct row *row)
{
        struct fold *f = ctx;
        const struct event_record *e = &row->event;
        struct refusal_row *x;
        struct buf key;
        bool made;

        buf_init(&key, 0);
        for (size_t i = 0; i < sizeof(refusal_key) / sizeof(refusal_key[0]); i++) {
                enum event_field t = refusal_key[i];
                if (t == EVENT_METHOD && slice_is(e->text[EVENT_PROTO], "dns"))
                        continue; /* a client asks for A and AAAA; a person reads one refusal */
                (void)!buf_add(&key, &e->num[t], sizeof(e->num[t]));
                (void)!buf_add(&key, &e->text[t].n, sizeof(e->text[t].n));
                (void)!buf_add_slice(&key, e->text[t]);
        }
        f->failed = f->failed || key.failed;
        x = f->failed ? NULL : fold_at(f, buf_slice(&key), &made);
        buf_fini(&key);
        if (!x)
                return 1;
        if (made) {
                x->event = *e;
                if (slice_is(e->text[EVENT_PROTO], "dns"))
                        x->event.present &= ~(UINT32_C(1) << EVENT_METHOD);
                keep_texts(f, &x->event);
                x->first_us = row->time_us;
        }
        x->last_us = row->time_us;
        add(&x->count, stands_for(e));
        return f->failed;
}

int reader_refusals(struct reader *r, const struct filter *filter, refusal_fn *fn, void *ctx, struct err *err)
{
        struct filter denied = *filter;
        struct fold f;
        int rc;

        denied.verdict = SLICE_LIT("deny");
        fold_init(&f, sizeof(struct refusal_row));
        rc = fold_rows(r, &denied, refusal_add, &f, err);
        if (rc == 0) {
                const struct refusal_row *rows = (const struct refusal_row *)(const void *)f.values;
                for (size_t i = 0; i < f.table.count && !fn(ctx, &rows[i]); i++)
                        ;
        }
        fold_fini(&f);
        return rc;
}

/* ---- leaks ---- */

/* "header authorization: github ghp_…": what the inner door wrote. A preview has no blank in it, so the last colon is the one behind the field. */
static bool split_leak(struct slice detail, struct leak_row *out)
{
        struct slice rest;
        ptrdiff_t blank;
        size_t at = detail.n;

        while (at >= 2 && !slice_eq(slice_of(detail.p + at - 2, 2), SLICE_LIT(": ")))
                at--;
        if (at < 2)
                return false;
        rest = slice_skip(detail, at);
        blank = slice_find(rest, ' ');
        out->field = slice_first(detail, at - 2);
        out->class = blank < 0 ? rest : slice_first(rest, (size_t)blank);
        out->preview = blank < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)blank + 1);
        return out->class.n != 0;
}

static struct slice own_copy(struct fold *f, struct slice s)
{
        bool ok = true;
        struct slice copy = arena_copy(&f->arena, s, &ok);

        f->failed = f->failed || !ok;
        return copy;
}

static int leak_add(void *ctx, const struct row *row)
{
        struct fold *f = ctx;
        const struct event_record *e = &row->event;
        const struct slice parts[] = { row->workspace, e->text[EVENT_HOST], e->text[EVENT_DETAIL] };
        struct leak_row *l, now = { .port = e->num[EVENT_PORT] };
        struct buf key;
        bool made;

        if (!slice_is(e->text[EVENT_REASON], "leak") || !split_leak(e->text[EVENT_DETAIL], &now))
                return 0;
        buf_init(&key, 0);
        (void)!buf_add(&key, &now.port, sizeof(now.port));
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                (void)!buf_add(&key, &parts[i].n, sizeof(parts[i].n));
                (void)!buf_add_slice(&key, parts[i]);
        }
        f->failed = f->failed || key.failed;
        l = f->failed ? NULL : fold_at(f, buf_slice(&key), &made);
        buf_fini(&key);
        if (!l)
                return 1;
        if (made) {
                struct slice detail = own_copy(f, e->text[EVENT_DETAIL]);

                (void)!split_leak(detail, &now);
                now.workspace = own_copy(f, row->workspace);
                now.host = own_copy(f, e->text[EVENT_HOST]);
                now.first_us = row->time_us;
                *l = now;
        }
        if (e->text[EVENT_RULE].n && !slice_eq(l->rule, e->text[EVENT_RULE]))
                l->rule = own_copy(f, e->text[EVENT_RULE]);
        l->last_us = row->time_us;
        add(&l->count, stands_for(e));
        return f->failed;
}

int reader_leaks(struct reader *r, const struct filter *filter, leak_fn *fn, void *ctx, struct err *err)
{
        struct filter notes = *filter;
        struct fold f;
        int rc;

        notes.engine = SLICE_LIT("Credential");
        notes.limit = 0;
        fold_init(&f, sizeof(struct leak_row));
        rc = reader_timeline(r, &notes, leak_add, &f, err);
        if (rc == 0 && f.failed)
                rc = err_set(err, "too much to count at once: use --since");
        if (rc == 0) {
                const struct leak_row *rows = (const struct leak_row *)(const void *)f.values;
                for (size_t i = 0; i < f.table.count && !fn(ctx, &rows[i]); i++)
                        ;
        }
        fold_fini(&f);
        return rc;
}
