/* Secrets: who is told of which change, what is taken for one, and that a pipe gives exactly the bytes and its end. */
#include "daemon/secrets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[96], told[256];

static void on_changed(void *ctx, struct slice credential)
{
        (void)ctx;
        snprintf(told + strlen(told), sizeof(told) - strlen(told), "%.*s;", SLICE_FMT(credential));
}

static struct secrets *secrets;
static struct event_base *base;

static int set_up(void **state)
{
        struct err err = ERR_INIT;

        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-secrets-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/vault", folder);
        base = event_base_new();
        secrets = secrets_new(base, path, on_changed, NULL, &err);
        assert_non_null(secrets);
        told[0] = 0;
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        secrets_free(secrets);
        event_base_free(base);
        unlink(path);
        rmdir(folder);
        return 0;
}

static struct config_credential credential(const char *name, enum secret_source source)
{
        return (struct config_credential){ .b = { .name = slice_str(name) }, .source = source };
}

static void given(void **state)
{
        struct config_credential c = credential("forge", SECRET_FILE), v = credential("forge", SECRET_VAULT);
        struct err err = ERR_INIT;
        struct slice s;

        (void)state;
        assert_int_equal(secrets_find(secrets, &c, &s), SECRET_NONE);
        assert_int_equal(secrets_give(secrets, SLICE_LIT("forge"), SLICE_LIT("one\r\n"), &err), 0);
        assert_int_equal(secrets_find(secrets, &c, &s), SECRET_HERE);
        assert_true(slice_is(s, "one"));
        assert_int_equal(secrets_find(secrets, &v, &s), SECRET_NONE); /* of another source: not the same secret */
        assert_int_equal(secrets_give(secrets, SLICE_LIT("forge"), SLICE_LIT("one"), &err), 0);
        assert_int_equal(secrets_give(secrets, SLICE_LIT("forge"), SLICE_LIT("two"), &err), 0);
        assert_int_equal(secrets_give(secrets, SLICE_LIT("forge"), SLICE_LIT("t\n\n"), &err), -1);
        assert_int_equal(secrets_find(secrets, &c, &s), SECRET_HERE);
        assert_true(slice_is(s, "two"));
        assert_string_equal(told, "forge;forge;");
}

static void vault(void **state)
{
        static const uint8_t key[VAULT_KEY_BYTES] = { 1 }, wrong[VAULT_KEY_BYTES] = { 2 };
        struct config_credential v = credential("api", SECRET_VAULT);
        json_t *root = json_pack("{s:s}", "kind", "key-file");
        struct err err = ERR_INIT;
        struct slice s;

        (void)state;
        assert_int_equal(secrets_find(secrets, &v, &s), SECRET_NONE);
        assert_int_equal(secrets_put(secrets, SLICE_LIT("api"), SLICE_LIT("x"), &err), -1);
        assert_int_equal(vault_create(secrets_vault(secrets, &err), root, key, &err), 0);
        assert_int_equal(secrets_put(secrets, SLICE_LIT("api"), SLICE_LIT("x\n"), &err), 0);
        assert_int_equal(secrets_put(secrets, SLICE_LIT("api"), SLICE_LIT("x"), &err), 0);
        assert_int_equal(secrets_find(secrets, &v, &s), SECRET_HERE);
        secrets_lock(secrets);
        assert_int_equal(secrets_find(secrets, &v, &s), SECRET_LOCKED);
        assert_int_equal(secrets_unlock(secrets, wrong, &err), -1);
        assert_int_equal(secrets_unlock(secrets, key, &err), 0);
        assert_int_equal(secrets_find(secrets, &v, &s), SECRET_HERE);
        assert_int_equal(secrets_remove(secrets, SLICE_LIT("none"), &err), 1);
        assert_int_equal(secrets_remove(secrets, SLICE_LIT("api"), &err), 0);
        assert_string_equal(told, "api;;api;");
        json_decref(root);
}

static void pipes(void **state)
{
        static char big[SECRET_BYTES_MAX + 1], got[SECRET_BYTES_MAX + 1];
        int fd;

        (void)state;
        memset(big, 'x', sizeof(big));
        fd = secrets_pipe(slice_of(big, SECRET_BYTES_MAX));
        assert_true(fd >= 0);
        assert_int_equal(read(fd, got, sizeof(got)), SECRET_BYTES_MAX);
        assert_int_equal(read(fd, got, sizeof(got)), 0);
        close(fd);
        assert_int_equal(secrets_pipe(slice_of(big, SECRET_BYTES_MAX + 1)), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(given, set_up, tear_down), cmocka_unit_test_setup_teardown(vault, set_up, tear_down),
                                            cmocka_unit_test_setup_teardown(pipes, set_up, tear_down) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
