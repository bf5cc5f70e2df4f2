/* Placeholders: minted once, the same from disk, another one for another kind; a damaged file is refused, not replaced. */
#include "base/fd.h"
#include "daemon/placeholders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[96];

static int set_up(void **state)
{
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-placeholders-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/placeholders", folder);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        unlink(path);
        rmdir(folder);
        return 0;
}

static void stable(void **state)
{
        static struct placeholders p, q;
        char first[PLACEHOLDER_BYTES_MAX + 1];
        struct err err = ERR_INIT;

        (void)state;
        assert_int_equal(placeholders_read(&p, folder, &err), 0);
        assert_null(placeholders_get(&p, SLICE_LIT("forge")));
        snprintf(first, sizeof(first), "%s", placeholders_want(&p, SLICE_LIT("forge"), ACCOUNT_GITHUB));
        assert_true(placeholder_ok(slice_str(first)));
        assert_string_equal(placeholders_want(&p, SLICE_LIT("forge"), ACCOUNT_GITHUB), first);
        assert_string_not_equal(placeholders_want(&p, SLICE_LIT("other"), ACCOUNT_GITHUB), first);
        assert_int_equal(placeholders_write(&p, folder, &err), 0);
        assert_int_equal(placeholders_read(&q, folder, &err), 0);
        assert_int_equal(q.count, 2);
        assert_string_equal(placeholders_want(&q, SLICE_LIT("forge"), ACCOUNT_GITHUB), first);
        assert_false(q.changed);
        assert_string_not_equal(placeholders_want(&q, SLICE_LIT("forge"), ACCOUNT_BEARER), first);
        assert_true(q.changed);
        assert_int_equal(q.count, 2);
}

static void every_kind(void **state)
{
        static struct placeholders p, q;
        struct err err = ERR_INIT;
        char name[16];

        (void)state;
        assert_int_equal(placeholders_read(&p, folder, &err), 0);
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++) {
                snprintf(name, sizeof(name), "c%d", k);
                assert_non_null(placeholders_want(&p, slice_str(name), (enum account_kind)k));
        }
        assert_int_equal(placeholders_write(&p, folder, &err), 0);
        assert_int_equal(placeholders_read(&q, folder, &err), 0);
        assert_int_equal(q.count, ACCOUNT_KIND_COUNT);
}

/* Full: who was not asked for makes room; who was, stays. */
static void full(void **state)
{
        static struct placeholders p;
        struct err err = ERR_INIT;
        char name[16];

        (void)state;
        assert_int_equal(placeholders_read(&p, folder, &err), 0);
        for (int i = 0; i < PLACEHOLDERS_MAX; i++) {
                snprintf(name, sizeof(name), "c%d", i);
                assert_non_null(placeholders_want(&p, slice_str(name), ACCOUNT_BEARER));
        }
        assert_null(placeholders_want(&p, SLICE_LIT("more"), ACCOUNT_BEARER));
        assert_int_equal(placeholders_write(&p, folder, &err), 0);
        assert_int_equal(placeholders_read(&p, folder, &err), 0);
        assert_non_null(placeholders_want(&p, SLICE_LIT("more"), ACCOUNT_BEARER));
        assert_int_equal(p.count, PLACEHOLDERS_MAX);
}

static void damaged(void **state)
{
        static struct placeholders p;
        char good[PLACEHOLDER_BYTES_MAX + 1], line[512];
        uint8_t random[PLACEHOLDER_RANDOM_BYTES] = { 1 };
        const char *forms[] = { "forge bearer %s", "forge  bearer %s\n", "forge bearer %sx y\n", "Forge bearer %s\n", "forge stone %s\n", "\n", "forge bearer\n",
                                "forge bearer %s\nforge bearer %s\n", "forge bearer ghp_real\n" };

        (void)state;
        placeholder_mint(ACCOUNT_BEARER, random, good);
        snprintf(line, sizeof(line), "forge bearer %s\n", good);
        assert_int_equal(placeholders_parse(&p, slice_str(line)), 0);
        assert_int_equal(placeholders_parse(&p, SLICE_EMPTY), 0);
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct err err = ERR_INIT;
                char *at = line;

                for (const char *f = forms[i]; *f; f++) /* no format that is no literal */
                        if (f[0] == '%' && f[1] == 's') {
                                at += snprintf(at, 200, "%s", good);
                                f++;
                        } else {
                                *at++ = *f;
                        }
                *at = 0;
                if (placeholders_parse(&p, slice_str(line)) == 0)
                        fail_msg("taken: %s", line);
                assert_int_equal(fd_write_file_unsynced(path, 0600, line, strlen(line), &err), 0);
                assert_int_equal(placeholders_read(&p, folder, &err), -1);
                assert_non_null(strstr(err.text, "damaged"));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(stable, set_up, tear_down), cmocka_unit_test_setup_teardown(every_kind, set_up, tear_down),
                                            cmocka_unit_test_setup_teardown(full, set_up, tear_down), cmocka_unit_test_setup_teardown(damaged, set_up, tear_down) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
