/* Shared by the fuzzers of accounts: bindings with a placeholder that is always the same; in an input, "@" stands for it. */
#ifndef BROME_FUZZ_ACCOUNT_ACCOUNTS_H
#define BROME_FUZZ_ACCOUNT_ACCOUNTS_H

#include "account/binding.h"
#include "account/placeholder.h"
#include "base/buf.h"
#include "hold.h"

#define FUZZ_HOST "api.example"

struct fuzz_binding {
        struct binding b;
        struct binding_host hosts[2];
        struct account_field fields[ACCOUNT_FIELDS_MAX];
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
};

static inline void fuzz_bind(struct fuzz_binding *f, enum account_kind kind)
{
        const struct kind_row *row = kind_row(kind);
        uint8_t random[PLACEHOLDER_RANDOM_BYTES];

        memset(f, 0, sizeof(*f));
        for (size_t i = 0; i < sizeof(random); i++)
                random[i] = (uint8_t)(i * 37 + 11);
        placeholder_mint(kind, random, f->placeholder);
        f->hosts[0] = (struct binding_host){ SLICE_LIT(FUZZ_HOST), 443 };
        f->hosts[1] = (struct binding_host){ SLICE_LIT("other.example"), 8443 };
        f->b = (struct binding){ .name = SLICE_LIT("it"), .kind = kind, .hosts = f->hosts, .host_count = 2, .fields = f->fields };
        f->b.placeholder = slice_str(f->placeholder);
        for (size_t i = 0; i < 4; i++)
                if (row->fields[i].slot != SLOT_COUNT)
                        f->fields[f->b.field_count++] = row->fields[i];
        if (f->b.field_count == 0)
                f->fields[f->b.field_count++] = (struct account_field){ SLOT_HEADER, SLICE_LIT("x-search") };
}

/* The text with every "@" the placeholder. */
static inline struct slice fuzz_fill(struct buf *out, struct slice text, struct slice placeholder)
{
        for (size_t i = 0; i < text.n; i++)
                HOLDS((text.p[i] == '@' ? buf_add_slice(out, placeholder) : buf_add(out, &text.p[i], 1)) == 0);
        return buf_slice(out);
}

static inline size_t fuzz_count(struct slice s, struct slice needle)
{
        size_t count = 0;

        for (size_t i = 0; needle.n && i + needle.n <= s.n; i++)
                count += memcmp(s.p + i, needle.p, needle.n) == 0;
        return count;
}

#endif
