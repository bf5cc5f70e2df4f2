/* The tripwire's eye: every spelling is found at every cut, by every kernel, and no byte of the random part is clear before; benign text is let go at
 * once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "account/find.h"
#include "scan_test.h"

static struct token_set *set;

struct outcome {
        bool found;
        struct scan_hit hit; /* positions are of the stream */
        size_t given;        /* bytes that were clear */
};

/* Feeds `text` cut at each of the positions; what is clear is dropped, all of it or (lazy) half. */
static void run(struct slice text, const size_t *cuts, size_t count, bool lazy, struct outcome *o)
{
        struct scan s;
        size_t dropped = 0, clear;

        *o = (struct outcome){ 0 };
        scan_begin(&s, set);
        for (size_t i = 0; i <= count && !o->found; i++) {
                size_t end = i < count ? cuts[i] : text.n;
                /* Exactly as large as what is held, so that a sanitizer sees the first byte beyond. */
                size_t n = end - dropped;
                uint8_t *held = malloc(n ? n : 1);
                memcpy(held, text.p + dropped, n);
                clear = scan_step(&s, slice_of(held, n), i == count, &o->found, &o->hit);
                free(held);
                assert_true(clear <= n);
                if (lazy && clear && !o->found && i < count)
                        clear = clear / 2;
                scan_drop(&s, clear);
                o->hit.at += dropped;
                dropped += clear;
                o->given = dropped;
                if (!o->found)
                        assert_true(n - clear <= SCAN_KEEP_BYTES_MAX || lazy);
        }
}

static void same(const struct outcome *a, const struct outcome *b)
{
        assert_int_equal(a->found, b->found);
        if (!a->found)
                return;
        assert_int_equal(a->hit.at, b->hit.at);
        assert_int_equal(a->hit.n, b->hit.n);
        assert_int_equal(a->hit.number, b->hit.number);
        assert_int_equal(a->hit.view, b->hit.view);
}

/* One text, whole, byte by byte, and at every single cut: the same. */
static void every_cut(struct slice text, struct outcome *whole)
{
        size_t *all = calloc(text.n + 1, sizeof(*all));
        struct outcome one;

        run(text, NULL, 0, false, whole);
        for (size_t i = 0; i < text.n; i++)
                all[i] = i;
        run(text, all, text.n, false, &one);
        same(whole, &one);
        if (whole->found)
                assert_true(one.given <= whole->hit.at);
        run(text, all, text.n, true, &one);
        same(whole, &one);
        for (size_t i = 0; i <= text.n; i++) {
                run(text, &i, 1, false, &one);
                same(whole, &one);
                if (whole->found)
                        assert_true(one.given <= whole->hit.at);
        }
        free(all);
}

static void surround(struct buf *text, const char *before, struct slice middle, const char *behind)
{
        buf_add_str(text, before);
        buf_add_slice(text, middle);
        buf_add_str(text, behind);
}

static void check_spelling(const struct spelling_row *row, unsigned token, struct spelling_how how, const char *before, bool cuts)
{
        char placeholder[PLACEHOLDER_BYTES_MAX + 1];
        struct buf plain, spelt, text;
        struct outcome o;

        spelt_token(token, placeholder);
        buf_init(&plain, 0);
        buf_init(&spelt, 0);
        buf_init(&text, 0);
        surround(&plain, before, slice_str(placeholder), "&and=more of it");
        spell(row, &spelt, buf_slice(&plain), how);
        surround(&text, "POST this: ", buf_slice(&spelt), "\r\n\r\nend");
        if (cuts)
                every_cut(buf_slice(&text), &o);
        else
                run(buf_slice(&text), NULL, 0, false, &o);
        if (!o.found)
                fail_msg("%s, token %u, which %x, line %zu: not found in %.*s", row->name, token, how.which, how.line, SLICE_FMT(buf_slice(&text)));
        assert_int_equal(o.hit.number, 10 + (int)token);
        if (how.which == UINT32_MAX && !how.line)
                assert_int_equal(o.hit.view, row->view);
        buf_fini(&plain);
        buf_fini(&spelt);
        buf_fini(&text);
}

static void test_spellings(void **state)
{
        static const char *const before[] = { "", "k=", "ab:" };

        (void)state;
        for (size_t i = 0; i < SPELLING_ROWS; i++)
                for (unsigned token = 0; token < SPELT_TOKENS; token++)
                        for (size_t shift = 0; shift < 3; shift++)
                                for (enum find_kernel k = FIND_PORTABLE; k < FIND_KERNEL_COUNT; k++) {
                                        if (!find_kernel_use(k))
                                                continue;
                                        check_spelling(&spelling_rows[i], token, (struct spelling_how){ .which = UINT32_MAX }, before[shift],
                                                       k == FIND_AUTO + 1);
                                }
        find_kernel_use(FIND_AUTO);
}

/* Which characters are escaped does not matter. */
static void test_subsets(void **state)
{
        uint32_t x = 88172645u;

        (void)state;
        for (size_t i = 0; i < SPELLING_ROWS; i++)
                for (int round = 0; round < 300; round++) {
                        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
                        if (spelling_rows[i].inner == spell_hex && spelling_rows[i].outer == spell_base64)
                                x |= 1;
                        check_spelling(&spelling_rows[i], x % SPELT_TOKENS, (struct spelling_how){ .which = x }, &"ab:"[x / 4 % 3], round % 60 == 0);
                }
}

/* Line breaks at every column, of every kind; a soft one is spelt again only in a text. */
static void test_lines(void **state)
{
        enum { RUN_ON_BREAKS = 11 };
        static const char *const breaks[] = { "\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "%0A", "%0D%0A", "=\r\n", "=\n", "\n        ", "%5Cn",
                                              "=\\r\\n", "=\\n", "=\\\\n", "=%0D%0A" };

        (void)state;
        for (size_t i = 0; i < SPELLING_ROWS; i++) {
                bool run_on =
                        spelling_rows[i].outer == spell_base64 || spelling_rows[i].outer == spell_base64url || spelling_rows[i].outer == spell_hex;
                if (!run_on && spelling_rows[i].outer != spell_soft)
                        continue;
                for (size_t b = 0; b < sizeof(breaks) / sizeof(breaks[0]); b++) {
                        if (run_on ? b >= RUN_ON_BREAKS : breaks[b][0] != '=')
                                continue;
                        for (size_t line = 1; line < 80; line++)
                                check_spelling(&spelling_rows[i], (unsigned)line % SPELT_TOKENS,
                                               (struct spelling_how){ .line = line, .between = breaks[b] }, &"ab:"[line % 3],
                                               line % 19 == 0 || line == 1);
                }
        }
}

static void test_benign(void **state)
{
        static const char *const texts[] = {
                "",
                "b",
                "the brm marker, brm-, brm_ and brm-mcp_ alone; BRM; YnJt; icm0; Jyb; 62726d",
                "*1\r\n$1\r\nb\r\n",
                "value: Y\r\n",
                "\"lib\\n\"",
                "100%",
                "c:\\",
                "a=",
                "brm\r\n",
                "ghp_brm\n",
                "YnJ",
                "62726\r\n",
                "62:72:6d\r\n",
                "62 72 6d 5f",
                "=62=72=6D",
                "brm=\r\n",
                "brm\\_\r\n",
                "brm=5\r\n",
                "brm=5F\r\n",
        };
        struct outcome o;

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct scan s;
                struct scan_hit hit;
                bool found;
                every_cut(slice_str(texts[i]), &o);
                assert_false(o.found);
                scan_begin(&s, set);
                assert_int_equal(scan_step(&s, slice_str(texts[i]), false, &found, &hit),
                                 strlen(texts[i])); /* an answer may be waited for: nothing stays */
        }
}

static void test_cut_short(void **state)
{
        char token[PLACEHOLDER_BYTES_MAX + 1];
        struct slice core;

        (void)state;
        spelt_token(0, token);
        core = placeholder_core(slice_str(token));
        for (size_t n = 0; n <= core.n; n++) {
                struct buf text;
                struct outcome o;
                size_t marker = core.p[3] == '_' || core.p[3] == '-' ? 4 : 3;
                buf_init(&text, 0);
                surround(&text, "<", slice_first(core, n), ">");
                every_cut(buf_slice(&text), &o);
                assert_int_equal(o.found, n >= marker + SCAN_SURE_CHARS);
                buf_fini(&text);
        }
}

/* The caller overwrites a hit and goes on; the next one is found. */
static void test_overwrite(void **state)
{
        char one[PLACEHOLDER_BYTES_MAX + 1], two[PLACEHOLDER_BYTES_MAX + 1];
        struct buf text;
        struct scan s;
        struct scan_hit hit;
        bool found;
        size_t clear;

        (void)state;
        spelt_token(1, one);
        spelt_token(2, two);
        buf_init(&text, 0);
        buf_addf(&text, " {\"env\": \"A=%s\\nB=%s\\n\"}", one, two);
        scan_begin(&s, set);
        clear = scan_step(&s, buf_slice(&text), true, &found, &hit);
        assert_true(found && hit.in_json_string && hit.number == 11 && clear <= hit.at);
        assert_int_equal(hit.n, placeholder_core(slice_str(one)).n - 3);
        memset(text.bytes + hit.at, '*', hit.n);
        buf_consume(&text, clear);
        scan_drop(&s, clear);
        scan_again(&s, hit.at - clear);
        clear = scan_step(&s, buf_slice(&text), true, &found, &hit);
        assert_true(found && hit.in_json_string && hit.number == 12);
        memset(text.bytes + text.start + hit.at, '*', hit.n);
        scan_again(&s, hit.at);
        clear = scan_step(&s, buf_slice(&text), true, &found, &hit);
        assert_true(!found && clear == buf_len(&text));
        buf_fini(&text);
}

/* A placeholder that is minted while its marker is under way. */
static void test_grows(void **state)
{
        char token[PLACEHOLDER_BYTES_MAX + 1];
        struct token_set *whole = set;

        (void)state;
        for (size_t row = 0; row < SPELLING_ROWS; row++)
                for (size_t cut = 0; cut < 40; cut++) {
                        struct buf text;
                        struct scan s;
                        struct scan_hit hit;
                        bool found = false;
                        size_t clear;
                        buf_init(&text, 0);
                        spelt_token(1, token); /* its random part begins at the marker, that of the others later */
                        spell(&spelling_rows[row], &text, slice_str(token), (struct spelling_how){ .which = UINT32_MAX });
                        set = token_set_new();
                        spelt_token(0, token);
                        assert_int_equal(token_set_add(set, slice_str(token), 0), 0);
                        scan_begin(&s, set);
                        clear = scan_step(&s, slice_first(buf_slice(&text), cut), false, &found, &hit);
                        assert_false(found);
                        scan_drop(&s, clear);
                        spelt_token(1, token);
                        assert_int_equal(token_set_add(set, slice_str(token), 1), 0);
                        for (size_t end = cut; end <= buf_len(&text) && !found; end++) {
                                size_t more = scan_step(&s, slice_of(buf_slice(&text).p + clear, end - clear), end == buf_len(&text), &found, &hit);
                                scan_drop(&s, more);
                                clear += more;
                        }
                        token_set_free(set);
                        buf_fini(&text);
                }
        set = whole;
}

static void test_names(void **state)
{
        char token[PLACEHOLDER_BYTES_MAX + 1];
        struct buf name, hex;
        struct scan_hit hit;

        (void)state;
        spelt_token(3, token);
        for (size_t label = 1; label < 64; label++) {
                buf_init(&name, 0);
                buf_init(&hex, 0);
                spell_hex(&hex, slice_str(token), (struct spelling_how){ .line = label, .between = "." });
                buf_addf(&name, "%.*s.example.org", SLICE_FMT(buf_slice(&hex)));
                assert_true(scan_name(set, buf_slice(&name), &hit) && hit.view == VIEW_HEX && hit.number == 13);
                buf_clear(&name);
                spell_soft(&name, slice_str(token), (struct spelling_how){ .line = label, .between = "." });
                assert_true(scan_name(set, buf_slice(&name), &hit) && hit.n == buf_len(&name));
                buf_fini(&name);
                buf_fini(&hex);
        }
        assert_false(scan_name(set, slice_str("brm.example.org"), &hit));
}

static void test_set(void **state)
{
        struct token_set *t = token_set_new();
        char token[PLACEHOLDER_BYTES_MAX + 1];
        struct scan_hit hit;

        (void)state;
        spelt_token(0, token);
        assert_false(scan_text(t, slice_str(token), &hit));
        assert_int_equal(token_set_add(t, slice_str("not one"), 1), -1);
        assert_int_equal(token_set_add(t, slice_str(token), 1), 0);
        assert_int_equal(token_set_add(t, slice_str(token), 2), 0);
        assert_int_equal(token_set_count(t), 1);
        assert_true(scan_text(t, slice_str(token), &hit) && hit.number == 2);
        for (unsigned i = 1; i < PLACEHOLDERS_MAX; i++) {
                spelt_token(i, token);
                assert_int_equal(token_set_add(t, slice_str(token), (int)i), 0);
        }
        for (unsigned i = 1; i < PLACEHOLDERS_MAX; i++) {
                spelt_token(i, token);
                assert_true(scan_text(t, slice_str(token), &hit) && hit.number == (int)i);
        }
        spelt_token(PLACEHOLDERS_MAX, token);
        assert_int_equal(token_set_add(t, slice_str(token), 0), -1);
        token_set_free(t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spellings), cmocka_unit_test(test_subsets),   cmocka_unit_test(test_lines),
                cmocka_unit_test(test_benign),    cmocka_unit_test(test_cut_short), cmocka_unit_test(test_overwrite),
                cmocka_unit_test(test_names),     cmocka_unit_test(test_grows),     cmocka_unit_test(test_set),
        };
        int rc;

        set = spelt_set();
        rc = cmocka_run_group_tests(tests, NULL, NULL);
        token_set_free(set);
        return rc;
}
