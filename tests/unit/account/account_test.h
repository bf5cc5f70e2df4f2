/* What the tests of accounts share: bindings of every kind with a placeholder that is always the same, requests read from their text. */
#ifndef BROME_TESTS_ACCOUNT_TEST_H
#define BROME_TESTS_ACCOUNT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "account/binding.h"
#include "account/placeholder.h"
#include "base/arena.h"
#include "base/buf.h"
#include "wire/request.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static inline void check_slice(struct slice got, const char *want, const char *file, int line)
{
        if (slice_is(got, want))
                return;
        fprintf(stderr, "%s:%d: got \"%.*s\", want \"%s\"\n", file, line, SLICE_FMT(got), want);
        _fail(file, line);
}
#define assert_slice(got, want) check_slice((got), (want), __FILE__, __LINE__)

static inline int arena_setup(void **state)
{
        struct arena *a = malloc(sizeof(*a));

        if (!a)
                return -1;
        arena_init(a, 256u << 20);
        *state = a;
        return 0;
}
static inline int arena_teardown(void **state)
{
        arena_wipe(*state);
        arena_fini(*state);
        free(*state);
        return 0;
}
#define ARENA_TEST(f) cmocka_unit_test_setup_teardown(f, arena_setup, arena_teardown)

/* A binding of a kind, good for HOST (443) and other.example:8443. */
#define HOST "api.example"
struct test_binding {
        struct binding b;
        struct binding_host hosts[2];
        struct account_field fields[ACCOUNT_FIELDS_MAX];
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
};

static inline void test_mint(enum account_kind kind, uint8_t seed, char out[PLACEHOLDER_BYTES_MAX + 1])
{
        uint8_t random[PLACEHOLDER_RANDOM_BYTES];

        for (size_t i = 0; i < sizeof(random); i++)
                random[i] = (uint8_t)(i * 37 + seed * 101 + 11);
        placeholder_mint(kind, random, out);
}

static inline void test_field(struct test_binding *t, enum account_slot slot, const char *name)
{
        t->fields[t->b.field_count++] = (struct account_field){ slot, slice_str(name) };
}

static inline void test_bind(struct test_binding *t, enum account_kind kind, const char *name)
{
        const struct kind_row *row = kind_row(kind);

        memset(t, 0, sizeof(*t));
        test_mint(kind, 1, t->placeholder);
        t->hosts[0] = (struct binding_host){ SLICE_LIT(HOST), 443 };
        t->hosts[1] = (struct binding_host){ SLICE_LIT("other.example"), 8443 };
        t->b = (struct binding){ .name = slice_str(name), .kind = kind, .hosts = t->hosts, .host_count = 2, .fields = t->fields };
        t->b.placeholder = slice_str(t->placeholder);
        for (size_t i = 0; i < COUNT(row->fields); i++)
                if (row->fields[i].slot != SLOT_COUNT)
                        t->fields[t->b.field_count++] = row->fields[i];
}

/* Puts `value` in place of every "@" in `text`. */
static inline const char *test_fill(char *out, size_t size, const char *text, const char *value)
{
        size_t n = 0;

        for (; *text; text++) {
                const char *from = *text == '@' ? value : text;
                size_t len = *text == '@' ? strlen(value) : 1;

                if (len >= size - n)
                        abort();
                memcpy(out + n, from, len);
                n += len;
        }
        out[n] = '\0';
        return out;
}

/* A request line and fields, without the Host: that is `host`. */
static inline void test_request_at(struct arena *a, enum scheme scheme, const char *host, uint16_t port, const char *line, const char *fields, struct request *out)
{
        struct authority to = { .name = slice_str(host), .port = port };
        struct request_flow flow = { .scheme = scheme, .to = &to, .to_n = 1 };
        struct h1_reader r;
        struct h1_head h;
        struct buf text;
        enum wire_reason why = WIRE_OK;
        bool ok;
        size_t used;

        buf_init(&text, 0);
        buf_addf(&text, "%s HTTP/1.1\r\nHost: %s:%u\r\n%s\r\n", line, host, (unsigned)port, fields);
        h1_reader_init(&r, true);
        ok = true;
        if (h1_read(&r, arena_copy(a, buf_slice(&text), &ok), a, &h, &used, &why) != WIRE_DONE || (why = request_from_h1(a, &h, &flow, out)) != WIRE_OK)
                fail_msg("%s: %s %s", wire_reason_key(why), line, fields);
        assert_true(ok);
        buf_fini(&text);
}
static inline void test_request(struct arena *a, const char *line, const char *fields, struct request *out)
{
        test_request_at(a, SCHEME_HTTPS, HOST, 443, line, fields, out);
}

#endif
